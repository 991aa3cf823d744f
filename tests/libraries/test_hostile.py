"""What becomes of columns that nobody expects."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbench.estimators.libraries.process import Releases
from dpbench.libraries.hostile import CASES, hostile, outcome


def test_the_outcomes_of_hostile_columns() -> None:
    for case in CASES:
        made = hostile(case, 100, -1.0, 3.0)
        assert len(made.column) == {"empty": 0, "one_record": 1}.get(case, 100)
        assert (made.size is None) == (case != "wrong_size")
        assert np.isnan(made.mean) == (case == "empty")
        assert (made.column.dtype.kind == "i") == (case == "integers")
    fine, nan, none = np.array([1.0, 1.1]), np.array([1.0, np.nan]), np.zeros(2)

    def said(values: Any, raised: Any = (False, False)) -> str:
        return outcome(Releases(values, np.array(raised), none), 1.0, 0.01)

    assert said(fine) == "answered"
    assert said(nan) == "NaN"
    assert said(nan, (True, True)) == "refused"
    assert said(nan, (False, True)) == "at times refused"
    assert said(np.array([1.0, 1.5])) == "wrong"
