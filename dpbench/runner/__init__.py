"""Run and store blocks of trials, on this machine or on a cluster."""
