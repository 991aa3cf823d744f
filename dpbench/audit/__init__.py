"""Empirical lower bounds on privacy parameters: they can falsify a claim, never prove it."""
