"""Files of scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dpbench.suite.entries import entries
from dpbench.suite.problems import read_suite
from dpbench.suite.table import COLUMNS, Scores


def test_scores_of_another_problem_are_refused(entry_folder: Path) -> None:
    suite = read_suite()
    entry = next(entries())
    row: dict[str, object] = dict.fromkeys(COLUMNS, 0.0)
    row |= {"entry": "wide_clip", "problem": suite.problems[0].id, "digest": "0" * 12}
    scores = Scores(pd.DataFrame([row]), {"wide_clip": entry.card}, {"suite": suite.name})
    scores.write(entry_folder / "mine.parquet")
    with pytest.raises(ValueError, match="another problem than that of dpbench-mean-v2"):
        Scores.read(entry_folder / "mine.parquet", suite)


def test_rows_below_the_bound_by_hand() -> None:
    """0.5 with an interval up to 0.69 is below: 0.69^2 < 0.5; up to 0.72 it is not."""
    rows = pd.DataFrame(
        {"entry": "one", "problem": list("ab"), "score": 0.5, "score_high": [0.69, 0.72]}
    )
    card = next(entries()).card
    card = replace(card, name="one", division="declared")
    assert Scores(rows, {"one": card}, {}).is_below.tolist() == [True, False]
    assert Scores(rows, {"one": card}, {}).ranked["problem"].tolist() == ["b"]
