"""Figures of one source, see lecture15.yaml: ``python -m experiments.lecture15``."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("lecture15"))
