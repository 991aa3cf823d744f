"""Figures of one source, see pure_vs_approx.yaml: ``python -m experiments.pure_vs_approx``."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("pure_vs_approx"))
