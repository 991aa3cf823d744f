"""Figures of one source, see ksu20.yaml: ``python -m experiments.ksu20``."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main("ksu20"))
