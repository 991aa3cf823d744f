"""Intervals for a Gaussian's mean, see intervals.yaml."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("intervals"))
