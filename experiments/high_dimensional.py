"""Figures of Huang, Liang, Yi and of PLAN, see high_dimensional.yaml."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("high_dimensional"))
