"""The power of a comparison, against simulated losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from dpbench.arrays import Floats
from dpbench.tracking import compare
from dpbench.tracking.comparison import LEVEL, SMALLEST_CHANGE
from dpbench.tracking.power import power, power_sentence
from tests.support import page_columns

TRIALS, ROWS = 400, 120


def table(errors: list[Floats], stream: str) -> pd.DataFrame:
    about: dict[str, Any] = {"distribution": "normal", "privacy": "pure", "n": 100}
    about |= {"epsilon": 1.0, "delta": np.nan, "rho": np.nan, "mu": np.nan, "stream": stream}
    return pd.DataFrame([{"estimator": str(i), **about, "errors": e} for i, e in enumerate(errors)])


def draws(seed: int, rows: int = ROWS) -> list[Floats]:
    return list(np.abs(np.random.default_rng(seed).standard_normal((rows, TRIALS))))


def test_independent_trials_show_a_loss_as_often_as_is_said() -> None:
    """Compare one row at a time, 120 times, at a loss that is seen in about half of them.

    The tests of the median and of the 0.9 quantile may see what that of the trimmed mean does not,
    so that a share may be larger. Of 120 rows of chance p, fewer than p - 0.22 have the probability
    1e-6 at most (Hoeffding: exp(-2 120 0.22^2) = 9e-6 for p = 1/2, by the binomial law 4e-7).
    """
    old, new, loss = draws(0), draws(1), 0.25
    seen, said = [], []
    for one, other in zip(old, new, strict=True):
        before, after = table([one], "s"), table([(1 + loss) * other], "t")
        found = compare(before, after)
        seen.append(found["verdict"][0] == "worse")
        (row,) = power(before, after, found, (loss,)).to_dict("records")
        assert row["seen"] == pytest.approx(row["seen_independent"], abs=0.15)
        said.append(row["seen_independent"])
    assert 0.3 < np.mean(said) < 0.9
    assert -0.22 < np.mean(seen) - np.mean(said) < 0.3


def test_pairs_show_what_is_beyond_the_smallest_change() -> None:
    """Equal bits would show any loss of more than 2%; other rows do by the spread of their ratios.

    Of two rows of 1 + 0.1 z times the error, z normal, one is beside them without any release.
    """
    errors, z = draws(2, 4), np.random.default_rng(3).standard_normal((2, TRIALS))
    nothing = np.full(TRIALS, np.nan)
    changed = [one * (1 + 0.1 * by) for one, by in zip(errors[1:3], z, strict=True)]
    old, new = table([*errors[:3], nothing], "s"), table([errors[0], *changed, nothing], "s")
    found = compare(old, new)
    at_least, beyond = power(old, new, found, (SMALLEST_CHANGE, 0.021)).to_dict("records")
    assert (at_least["compared"], at_least["rows"]) == (2, 4)
    # Of two rows one p-value has to be below LEVEL/2/(1 + 1/2), split among four tests of a row.
    level = norm.isf(LEVEL / 2 / 1.5 / 4 / 2)
    assert at_least["seen"] == pytest.approx(2 * norm.sf(level) / 4, rel=1e-6)
    assert 0.25 < beyond["seen"] < 0.3
    spread = (
        np.diff(np.log(found[["trimmed_mean_error_low", "trimmed_mean_error_high"]])).ravel()[1:3]
        / 3.92
    )
    assert list(power(old, new, found)) == page_columns("tracking_power.csv")
    (tenth,) = power(old, new, found, (0.1,)).to_dict("records")
    chance = norm.cdf(np.log(1.1 / 1.02) / spread - level)
    assert tenth["seen"] == pytest.approx((1 + chance.sum()) / 4, abs=0.01)
    assert tenth["seen_independent"] < 0.05


def test_a_sentence_has_the_shares_that_were_computed() -> None:
    rows = {"loss": [0.05, 0.2], "seen": [0.914, 1.0], "seen_independent": [0.0, 0.18]}
    found = pd.DataFrame(rows).assign(compared=49, rows=296)
    said = power_sentence(found.astype(str))  # as a page reads it
    assert said == power_sentence(found)
    assert said.startswith("Another processor: 49 of 296 rows have other bits")
    assert "5%, 20% would be seen in 91%, 100% of the rows as they were" in said
    assert said.endswith("in 0%, 18% if all trials were independent.")
