"""Run ``python -m dpbench``."""

import sys


def main() -> None:
    """Run the command line; an interrupt while it loads is no traceback either."""
    try:
        from dpbench.cli import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
