"""What the server of workers imports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(("backend", "drawing"), [("agg", True), ("nonsense", False)])
def test_an_import_that_fails_ends_no_server(backend: str, drawing: bool) -> None:
    names = ["dpbench.jobs.study", "matplotlib.backends.backend_svg"]
    script = f"import dpbench.jobs.preload, sys; print(*[name in sys.modules for name in {names}])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == f"True {drawing}\n"
