"""Draw the paper figures of all sources, or of one: ``python -m experiments [ksu20]``."""

import sys

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
