"""All paper figures: ``python -m experiments``; ``python -m experiments.ksu20`` for one source."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from experiments.paper import Drawn, draw_all

# The modules of this folder that have a SOURCE, in the order in which they are drawn.
NAMES = ("lecture15", "pure_vs_approx", "lecture17", "ksu20", "coinpress", "audit")


def sources() -> list[Drawn]:
    """The sources of all scripts."""
    return [importlib.import_module(f"experiments.{name}").SOURCE for name in NAMES]


def main(argv: Sequence[str]) -> int:
    """Draw all sources; the exit code is that of `draw_all`."""
    return draw_all(sources(), argv)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
