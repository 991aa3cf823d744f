"""Figures of one source, see coinpress.yaml: ``python -m experiments.coinpress``."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("coinpress"))
