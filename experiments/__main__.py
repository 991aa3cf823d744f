"""Measurements of the harness, a module each, and the figures of papers.

``python -m experiments throughput`` runs a module of this folder with the words after its name. All
other words go to the command ``paper``, as in ``python -m experiments ksu20``.
"""

import runpy
import sys
from pathlib import Path

from dpbench.cli.main import run

HERE = Path(__file__).parent

if __name__ == "__main__":
    scripts = {path.stem for path in HERE.glob("[a-z]*.py")}
    if set(sys.argv[1:2]) & scripts:
        del sys.argv[0]
        runpy.run_module(f"experiments.{sys.argv[0]}", run_name="__main__", alter_sys=True)
    else:
        if "--help" in sys.argv:
            print(f"{__doc__}\nmodules: {', '.join(sorted(scripts))}\n")
        raise SystemExit(run(["paper", *sys.argv[1:]]))
