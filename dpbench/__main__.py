"""Run ``python -m dpbench``."""

import sys

from dpbench import endings


def main() -> None:
    """Run the command line."""
    endings.prepare()
    from dpbench.cli import run

    sys.exit(endings.last_word(run(sys.argv[1:])))


if __name__ == "__main__":
    main()
