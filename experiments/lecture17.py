"""Figures of one source, see lecture17.yaml: ``python -m experiments.lecture17``."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("lecture17"))
