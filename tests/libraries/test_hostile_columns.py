"""Tests of adversarial columns and of the classification of responses."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbench.libraries.hostile_columns import CASES, classify, hostile_column
from dpbench.libraries.means.process import Releases


def test_the_outcomes_of_hostile_columns() -> None:
    for case in CASES:
        hostile = hostile_column(case, 100, -1.0, 3.0)
        assert len(hostile.column) == {"empty": 0, "one_record": 1}.get(case, 100)
        assert (hostile.size is None) == (case != "wrong_size")
        assert np.isnan(hostile.expected) == (case == "empty")
        assert (hostile.column.dtype.kind == "i") == (case == "integers")
    fine, nan, seconds = np.array([1.0, 1.1]), np.array([1.0, np.nan]), np.zeros(2)

    def response(values: Any, raised: Any = (False, False)) -> str:
        return classify(Releases(values, np.array(raised), seconds), 1.0, 0.01)

    assert response(fine) == "answered"
    assert response(nan) == "NaN"
    assert response(nan, (True, True)) == "refused"
    assert response(nan, (False, True)) == "at times refused"
    assert response(np.array([1.0, 1.5])) == "wrong"
