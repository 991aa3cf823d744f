"""Paper figures: ``python -m experiments``, or ``python -m experiments ksu20`` for one source."""

import sys

from experiments.paper import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
