"""Comparing errors that are mostly 0, mostly missing, or few."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpbench.tracking.comparison import LEAST_TRIALS, compare

Floats = NDArray[np.float64]
TRIALS = 400


def table(errors: Floats, stream: str = "s") -> pd.DataFrame:
    about = {"estimator": "a", "distribution": "law", "privacy": "pure", "n": 100}
    amounts = {"epsilon": 1.0, "delta": np.nan, "rho": np.nan}
    return pd.DataFrame([{**about, **amounts, "stream": stream, "errors": errors}])


def verdict(old: Floats, new: Floats, stream: str = "s") -> str:
    return str(compare(table(old), table(new, stream))["verdict"].iloc[0])


def decisions(wrong: float, seed: int = 0, trials: int = TRIALS) -> Floats:
    return (np.random.default_rng(seed).random(trials) < wrong).astype(float)


@pytest.mark.parametrize("stream", ["s", "t"])
def test_decisions_that_are_wrong_more_often(stream: str) -> None:
    assert verdict(decisions(0.15), decisions(0.4, 1), stream) == "worse"
    assert verdict(decisions(0.4), decisions(0.15, 1), stream) == "better"
    assert verdict(decisions(0.0), np.ones(TRIALS), stream) == "worse"
    assert verdict(decisions(0.15), decisions(0.15, 1), stream) == "changed-within-noise"


def failing(errors: Floats, share: float) -> Floats:
    return np.where(np.random.default_rng(9).random(len(errors)) < share, np.nan, errors)


@pytest.mark.parametrize("stream", ["s", "t"])
def test_errors_beside_many_failures(stream: str) -> None:
    """More than half fail before and after, the same trials; the others double."""
    errors = np.abs(np.random.default_rng(1).standard_normal(2000))
    old, new = failing(errors, 0.55), failing(2 * errors, 0.55)
    assert verdict(old, new, stream) == "worse"
    assert verdict(new, old, stream) == "better"


@pytest.mark.parametrize("trials", [1, 2, 5, LEAST_TRIALS - 1])
def test_few_trials_say_nothing_of_ratios(trials: int) -> None:
    errors = np.abs(np.random.default_rng(2).standard_normal(trials))
    found = compare(table(errors), table(1.5 * errors)).iloc[0]
    assert found["verdict"] == "changed-within-noise"
    assert pd.isna(found["trimmed_mean"])
    assert pd.isna(found["smallest_visible"])


def test_the_rate_counts_rows_not_tests() -> None:
    """Rows that changed for sure do not carry along one that did not."""
    rng = np.random.default_rng(3)
    old, new = [], []
    for i in range(50):
        errors = np.abs(rng.standard_normal(TRIALS))
        other = np.abs(rng.standard_normal(TRIALS))
        changed = 1.5 * errors if i < 40 else other
        old.append(table(errors).assign(n=i))
        new.append(table(changed).assign(n=i))
    found = compare(pd.concat(old, ignore_index=True), pd.concat(new, ignore_index=True))
    assert (found["verdict"][:40] == "worse").all()
    assert (found["verdict"][40:] == "changed-within-noise").all()
