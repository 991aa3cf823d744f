"""Comparing errors with a baseline: verdicts on known changes, false alarms on none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpbench.runner.block import run_block
from dpbench.runner.plan import Sweep, make_cells
from dpbench.tracking.comparison import COLUMNS, KEY, LEVEL, compare

Floats = NDArray[np.float64]
TRIALS = 400


def row(estimator: str, errors: Floats, *, stream: str = "s", **key: Any) -> dict[str, Any]:
    about = {"estimator": estimator, "distribution": "gaussian", "privacy": "pure", "n": 100}
    amounts = {"epsilon": 1.0, "delta": np.nan, "rho": np.nan}
    return {**about, **amounts, **key, "stream": stream, "errors": errors}


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def verdicts(old: pd.DataFrame, new: pd.DataFrame) -> dict[str, str]:
    found = compare(old, new)
    assert tuple(found.columns) == COLUMNS
    return dict(zip(found["estimator"], found["verdict"], strict=True))


def draws(seed: int, trials: int = TRIALS) -> Floats:
    return np.abs(np.random.default_rng(seed).standard_normal(trials))


def test_equal_bits_are_the_same_and_nothing_is_computed() -> None:
    errors = draws(0)
    errors[3] = np.nan
    found = compare(table(row("a", errors)), table(row("a", errors.copy())))
    assert found.loc[0, "comparison"] == "bits"
    assert found.loc[0, "verdict"] == "same"
    assert found.loc[0, ["trimmed_mean", "q50", "q90", "smallest_visible"]].isna().all()


@pytest.mark.parametrize("factor", [1.03, 1.05, 1.5])
def test_pairs_see_a_few_per_cent_exactly(factor: float) -> None:
    """All ratios are the factor, and so are the ends of their intervals."""
    old, new = table(row("a", draws(0))), table(row("a", factor * draws(0)))
    found = compare(old, new).iloc[0]
    for metric in ("trimmed_mean", "q50", "q90"):
        for end in ("", "_low", "_high"):
            assert found[metric + end] == pytest.approx(factor, rel=1e-12)
    assert found["comparison"] == "paired"
    assert found["verdict"] == "worse"
    assert compare(new, old).iloc[0]["verdict"] == "better"


def test_less_than_two_per_cent_does_not_matter() -> None:
    old = table(row("a", draws(0)))
    assert verdicts(old, table(row("a", 1.019 * draws(0)))) == {"a": "changed-within-noise"}
    assert verdicts(old, table(row("a", 1.021 * draws(0)))) == {"a": "worse"}


def test_unpaired_trials_do_not_see_five_per_cent_and_say_what_they_see() -> None:
    old, new = table(row("a", draws(0))), table(row("a", 1.05 * draws(1), stream="other"))
    found = compare(old, new).iloc[0]
    assert found["comparison"] == "unpaired"
    assert found["verdict"] == "changed-within-noise"
    # The trimmed mean of 400 half-normals is known to about 4%, the ratio of two to 5%.
    assert 0.1 < found["smallest_visible"] < 0.5


def test_what_is_said_to_be_visible_is_seen_nine_times_out_of_ten() -> None:
    """Of 60 comparisons of independent trials; fewer than 40 hits have probability below 1e-6."""
    size = compare(table(row("a", draws(0))), table(row("a", draws(1), stream="t")))
    factor = 1 + size["smallest_visible"].iloc[0]
    hits = 0
    for seed in range(60):
        one = table(row("a", draws(2 * seed + 10)))
        other = table(row("a", factor * draws(2 * seed + 11), stream="t"))
        hits += compare(one, other)["verdict"].iloc[0] == "worse"
    assert binom.cdf(40, 60, 0.9) < 1e-5
    assert hits >= 40


def test_only_the_changed_row_is_flagged() -> None:
    errors = {name: draws(i) for i, name in enumerate("abcd")}
    old = table(*(row(name, e) for name, e in errors.items()))
    factors = {"a": 1.0, "b": 1.05, "c": 1.0, "d": 1.0}
    new = table(*(row(name, factors[name] * e) for name, e in errors.items()))
    assert verdicts(old, new) == {"a": "same", "b": "worse", "c": "same", "d": "same"}


def test_rows_that_come_and_go() -> None:
    old, new = (
        table(row("a", draws(0)), row("b", draws(1))),
        table(row("b", draws(1)), row("c", draws(2))),
    )
    assert verdicts(old, new) == {"a": "gone", "b": "same", "c": "new"}


@pytest.mark.parametrize("changed", [{"epsilon": 2.0}, {"n": 200}, {"distribution": "other"}])
def test_another_key_is_another_row(changed: dict[str, Any]) -> None:
    found = compare(table(row("a", draws(0))), table(row("a", draws(0), **changed)))
    assert sorted(found["verdict"]) == ["gone", "new"]


def test_a_budget_without_amounts_is_one_key() -> None:
    """NaN equals NaN in keys."""
    plain: dict[str, Any] = {"privacy": "none", "epsilon": np.nan}
    old = table(row("a", draws(0), **plain))
    assert verdicts(old, table(row("a", draws(0), **plain))) == {"a": "same"}


def test_fewer_trials_are_compared_with_the_first_of_the_others() -> None:
    old, new = table(row("a", draws(0))), table(row("a", draws(0)[:100]))
    assert verdicts(old, new) == {"a": "same"}
    assert verdicts(new, old) == {"a": "same"}


@pytest.mark.parametrize(("stream", "kind"), [("s", "paired"), ("t", "unpaired")])
def test_more_failures_are_worse(stream: str, kind: str) -> None:
    """Of 400 trials 60 more fail; the other errors are the same."""
    failing = draws(0)
    failing[:60] = np.nan
    old, new = table(row("a", draws(0))), table(row("a", failing, stream=stream))
    assert compare(old, new).loc[0, "comparison"] == kind
    assert verdicts(old, new) == {"a": "worse"}
    back = table(row("a", draws(0), stream=stream))
    assert verdicts(table(row("a", failing)), back) == {"a": "better"}


def test_a_failure_is_never_a_gain() -> None:
    """The largest errors become failures: the errors that are left are smaller."""
    old = draws(0)
    new = np.where(old > np.quantile(old, 0.8), np.nan, old)
    assert verdicts(table(row("a", old)), table(row("a", new))) == {"a": "worse"}


def test_all_failing_before_and_after() -> None:
    nothing = np.full(TRIALS, np.nan)
    assert verdicts(table(row("a", nothing)), table(row("a", nothing))) == {"a": "same"}
    infinite = np.full(TRIALS, np.inf)
    new = compare(table(row("a", nothing)), table(row("a", infinite)))
    assert new.loc[0, "verdict"] == "changed-within-noise"


def test_errors_of_zero() -> None:
    """Of decisions that are right nine times of ten the median error is 0 before and after."""
    rng = np.random.default_rng(0)
    old, new = (rng.random(TRIALS) < 0.1).astype(float), (rng.random(TRIALS) < 0.1).astype(float)
    assert verdicts(table(row("a", old)), table(row("a", new))) == {"a": "changed-within-noise"}


def test_a_tail_that_grows_is_worse() -> None:
    """The largest sixth of the errors, in which the 0.9 quantile is; the median stays."""
    old = draws(0)
    new = np.where(old >= np.quantile(old, 5 / 6), 1.5 * old, old)
    found = compare(table(row("a", old)), table(row("a", new))).iloc[0]
    assert found["q50"] == 1
    assert found["q90"] == pytest.approx(1.5)
    assert found["verdict"] == "worse"


SUBSET = {
    "families": {"gaussian": {"kind": "gaussian", "location": 1, "scale": 1}},
    "estimators": {
        "clipped": {"kind": "clipped_mean", "lower": -4, "upper": 6},
        "karwa_vadhan": {"kind": "karwa_vadhan_mean", "radius": 50},
    },
    "budgets": {"pure": {"kind": "pure_dp", "epsilon": 1}},
    "parts": {"all": {"n": [100], "trials": 200}},
}
COMPARISONS = 200


@pytest.fixture(scope="module")
def errors_by_seed() -> list[dict[str, Floats]]:
    """Errors of clipped and karwa_vadhan under pure DP, 200 trials."""
    (cell,) = make_cells(Sweep.build(SUBSET))
    found = []
    for seed in range(2 * COMPARISONS):
        (task,) = cell.tasks(seed)
        errors = run_block(task).values["error"][0]
        found.append({s.label: errors[j] for j, s in enumerate(cell.settings)})
    return found


@pytest.mark.parametrize("stream", ["s", "t"])
def test_false_alarms_on_identical_code(
    errors_by_seed: list[dict[str, Floats]], stream: str
) -> None:
    """200 comparisons of two seeds of two estimators, as pairs and as independent trials.

    The false discovery rate bounds the probability of an alarm where nothing has changed, by
    LEVEL = 0.01 a comparison: more than 12 of 200 have probability below 1e-6.
    """
    assert binom.sf(12, COMPARISONS, LEVEL) < 1e-6
    alarms = 0
    for old, new in zip(errors_by_seed[::2], errors_by_seed[1::2], strict=True):
        found = compare(
            table(*(row(name, e) for name, e in old.items())),
            table(*(row(name, e, stream=stream) for name, e in new.items())),
        )
        assert set(found["comparison"]) == {"paired" if stream == "s" else "unpaired"}
        alarms += bool(found["verdict"].isin(["worse", "better"]).any())
    assert alarms <= 12


def test_keys_are_the_columns_of_both_tables() -> None:
    assert set(KEY) < set(row("a", draws(0)))
