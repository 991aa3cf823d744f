"""Run ``python -m dpbench``."""

import sys

from dpbench import signals


def main() -> None:
    """Run the command line and exit with its code."""
    signals.prepare()
    from dpbench.cli.main import run
    from dpbench.package import note_script

    note_script(sys.argv[0])
    sys.exit(signals.final_exit_code(run(sys.argv[1:])))


if __name__ == "__main__":
    main()
