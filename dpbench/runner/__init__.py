"""Running and storing blocks of trials: on this machine, or on a cluster."""
