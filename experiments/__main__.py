"""All paper figures: ``python -m experiments``; ``python -m experiments.ksu20`` for one source."""

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main())
