"""Files of scores."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpbench.suite.entries import read_entry
from dpbench.suite.problems import read_suite
from dpbench.suite.table import COLUMNS, Scores
from tests.conftest import entry_text


def test_scores_of_another_problem_are_refused(entry_folder: Path) -> None:
    suite = read_suite()
    (entry_folder / "wide_clip.py").write_text(entry_text())
    entry, _ = read_entry(entry_folder / "wide_clip.py")
    row: dict[str, object] = dict.fromkeys(COLUMNS, 0.0)
    row |= {"entry": "wide_clip", "problem": suite.problems[0].id, "digest": "0" * 12}
    scores = Scores(pd.DataFrame([row]), {"wide_clip": entry.card}, {"suite": suite.name})
    scores.write(entry_folder / "mine.parquet")
    with pytest.raises(ValueError, match="another problem than that of dpbench-mean-v1"):
        Scores.read(entry_folder / "mine.parquet", suite)
