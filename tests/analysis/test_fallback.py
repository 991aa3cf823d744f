"""Errors near 0 that an estimator reaches without data."""

from __future__ import annotations

import pandas as pd

from dpbench.analysis.fallback import answers_without_data


def test_only_private_answers_far_below_the_sampling_error_are_found() -> None:
    rows = [
        ("pure", 1e-298, 0.1, True),  # answers 0, and 0 is the mean
        ("pure", 0.0, 0.1, True),
        ("none", 0.0, 0.1, False),  # a median of the records may be the mean
        ("pure", 1e-8, 0.1, False),  # much better than the mean of the records, as on outliers
        ("pure", 0.0, 0.0, False),  # the distribution is a constant
        ("pure", float("nan"), 0.1, False),
        ("pure", 0.0, float("nan"), False),
        ("pure", float("inf"), float("inf"), False),  # every trial fails
    ]
    table = pd.DataFrame(rows, columns=["privacy", "q50", "sampling_q90", "wanted"])
    assert answers_without_data(table).tolist() == table["wanted"].tolist()
