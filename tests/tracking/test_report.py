"""Reports of a comparison with a baseline: which rows they show, and in which order."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpbench.output.verdicts import TRACKING
from dpbench.tracking.comparison import COLUMNS
from dpbench.tracking.report import format_terminal, markdown


def test_the_worst_rows_come_first_and_equal_bits_are_folded() -> None:
    """Rows of all verdicts, in the reverse of their order."""
    about = {"estimator": "mean", "distribution": "law", "privacy": "pure", "epsilon": 0.5, "n": 10}
    rows = [{**about, "verdict": word} for word in reversed([*TRACKING])]
    table = pd.DataFrame(rows, columns=list(COLUMNS)).replace({None: np.nan})
    wanted = ["worse", "gone", "better", "new", "changed-within-noise"]
    printed = format_terminal(table, "sweep", []).splitlines()
    assert [line.split()[-1] for line in printed[4:]] == wanted
    assert "mean on law, pure eps=0.5 n=10" in printed[4]
    text = markdown(table, "sweep", [])
    cells = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if "| mean on" in line]
    assert cells == ["**worse**", "**gone**", *wanted[2:]]
    assert "6 rows: 1 worse, 1 gone, 1 better, 1 new, 1 changed-within-noise, 1 same." in text
    assert text.count("- mean on law") == 1
