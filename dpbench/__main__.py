"""Run ``python -m dpbench``."""

from dpbench.cli import main

if __name__ == "__main__":
    main()
