"""Sweeps: entries, selections, metrics, the plan of cells, and the run of one block of trials."""
