"""The notebook runs, and shows what it is stored with."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "experiments" / "library.ipynb"
MOST_BYTES = 200_000


def _shown(notebook: nbformat.NotebookNode) -> list[list[set[str]]]:
    """What every cell shows: the kinds of data of its outputs."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[set(output.get("data", {})) for output in cell.outputs] for cell in cells]


def test_runs_and_shows_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "IPYTHONDIR"):  # the kernel writes there
        monkeypatch.setenv(name, str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    stored = _shown(notebook)
    assert sum(map(len, stored)) >= 5
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    # progress of a run goes to a stream, which is not stored
    shown = [[data for data in outputs if data] for outputs in _shown(notebook)]
    assert shown == stored


def test_is_small() -> None:
    assert NOTEBOOK.stat().st_size < MOST_BYTES
