"""Import what the workers of most sweeps use; their server imports this module.

An error is left to the process that needs the import and can report it.
"""

from __future__ import annotations

import contextlib
from importlib import import_module

__all__: list[str] = []

for _name in (
    "dpbench.jobs.study",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
):
    with contextlib.suppress(Exception):
        import_module(_name)
