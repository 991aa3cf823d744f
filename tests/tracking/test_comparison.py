"""Comparing errors with a baseline: verdicts on known changes, false alarms on none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, trim_mean

from dpbench.sweep.block import run_block
from dpbench.sweep.plan import make_cells
from dpbench.tracking import compare
from dpbench.tracking.comparison import COLUMNS, KEY, LEVEL, MIN_BOOTSTRAP_TRIALS
from tests.sweeps import sweep_of

Floats = NDArray[np.float64]
TRIALS = 400
NAN = np.nan
# As pairs, and as independent trials.
STREAMS = pytest.mark.parametrize("stream", ["s", "t"])


def table(errors: Floats | dict[str, Floats], stream: str = "s", **key: Any) -> pd.DataFrame:
    about: dict[str, Any] = {"distribution": "gaussian", "privacy": "pure", "n": 100}
    about |= {"epsilon": 1.0, "delta": NAN, "rho": NAN, "mu": NAN, **key, "stream": stream}
    rows = errors if isinstance(errors, dict) else {"a": errors}
    return pd.DataFrame([{"estimator": a, **about, "errors": e} for a, e in rows.items()])


def verdicts(old: pd.DataFrame, new: pd.DataFrame) -> dict[str, str]:
    found = compare(old, new)
    assert tuple(found.columns) == COLUMNS
    return dict(zip(found["estimator"], found["verdict"], strict=True))


def verdict(old: Floats, new: Floats, stream: str = "s") -> str:
    return verdicts(table(old), table(new, stream))["a"]


def draws(seed: int, trials: int = TRIALS) -> Floats:
    return np.abs(np.random.default_rng(seed).standard_normal(trials))


def decisions(wrong: float, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).random(TRIALS) < wrong).astype(float)


def test_equal_bits_are_the_same_and_nothing_is_computed() -> None:
    errors = draws(0)
    errors[3] = NAN
    found = compare(table(errors), table(errors.copy()))
    assert (found["comparison"][0], found["verdict"][0]) == ("bits", "same")
    assert found.loc[0, ["trimmed_mean_error", "q50", "q90", "smallest_detectable"]].isna().all()
    # Of streams without a name equal errors are a coincidence.
    found = compare(table(errors, ""), table(errors.copy(), ""))
    assert (found["comparison"][0], found["verdict"][0]) == ("unpaired", "changed-within-noise")


@pytest.mark.parametrize(
    ("factor", "kind"), [(1.5, "worse"), (1.021, "worse"), (1.019, "changed-within-noise")]
)
def test_pairs_see_a_few_per_cent_exactly(factor: float, kind: str) -> None:
    """All ratios are the factor, and so are the ends of their intervals; below 2% is no matter."""
    old, new = table(draws(0)), table(factor * draws(0))
    found = compare(old, new).iloc[0]
    for metric in ("trimmed_mean_error", "q50", "q90"):
        for end in ("", "_low", "_high"):
            assert found[metric + end] == pytest.approx(factor, rel=1e-12)
    assert (found["comparison"], found["verdict"]) == ("paired", kind)
    assert verdicts(new, old) == {"a": "better" if kind == "worse" else kind}


def test_unpaired_trials_do_not_see_five_per_cent_and_say_what_they_see() -> None:
    for old, new in (("s", "t"), ("", "")):
        found = compare(table(draws(0), old), table(1.05 * draws(1), new)).iloc[0]
        assert (found["comparison"], found["verdict"]) == ("unpaired", "changed-within-noise")
        # The trimmed mean of 400 half-normals is known to about 4%, the ratio of two to 5%.
        assert 0.1 < found["smallest_detectable"] < 0.5


def test_what_is_said_to_be_visible() -> None:
    """One row, three tests: a p-value below LEVEL, with probability 0.9."""
    found = compare(table(draws(0)), table(draws(1), "t")).iloc[0]
    ends = np.log(found[["trimmed_mean_error_low", "trimmed_mean_error_high"]].to_numpy(float))
    # 90% and 1 - 0.01/4/2 of a normal law; the interval has 2 * 1.96 deviations, about.
    reach = 1.2816 + 3.0233
    wanted = 1.02 * np.exp(reach * np.diff(ends)[0] / 3.92) - 1
    assert found["smallest_detectable"] == pytest.approx(wanted, rel=0.05)


def test_rows_that_come_and_go() -> None:
    old, new = table({"a": draws(0), "b": draws(1)}), table({"b": draws(1), "c": draws(2)})
    assert verdicts(old, new) == {"a": "gone", "b": "same", "c": "new"}
    found = compare(table(draws(0)), table(draws(0), epsilon=2.0))
    assert sorted(found["verdict"]) == ["gone", "new"]
    none: dict[str, Any] = {"privacy": "none", "epsilon": NAN}  # NaN equals NaN in keys
    assert verdicts(table(draws(0), **none), table(draws(0), **none)) == {"a": "same"}
    assert set(KEY) < set(old.columns)


def test_few_trials_say_nothing_of_ratios() -> None:
    for trials in (1, MIN_BOOTSTRAP_TRIALS - 1):
        found = compare(table(draws(2, trials)), table(1.5 * draws(2, trials))).iloc[0]
        assert found["verdict"] == "changed-within-noise"
        assert found[["trimmed_mean_error", "smallest_detectable"]].isna().all()
    # Fewer are compared with the first of the others.
    assert verdict(draws(0), draws(0)[:100]) == verdict(draws(0)[:100], draws(0)) == "same"


@STREAMS
def test_more_failures_are_worse(stream: str) -> None:
    """Of 400 trials 60 more fail; the other errors are the same."""
    failing = draws(0)
    failing[:60] = NAN
    assert verdict(draws(0), failing, stream) == "worse"
    assert verdict(failing, draws(0), stream) == "better"
    # Where the largest fail, the errors that are left are smaller: that is no gain.
    old = draws(0)
    failing = np.where(old > np.quantile(old, 0.8), NAN, old)
    assert verdict(old, failing, stream) == "worse"
    nothing = np.full(TRIALS, NAN)
    assert verdict(nothing, np.full(TRIALS, np.inf), stream) == "changed-within-noise"


@STREAMS
def test_errors_beside_many_failures(stream: str) -> None:
    """More than half fail before and after, the same trials; the others double."""
    failing = np.random.default_rng(9).random(2000) < 0.55
    old = np.where(failing, NAN, draws(1, 2000))
    assert verdict(old, 2 * old, stream) == "worse"
    assert verdict(2 * old, old, stream) == "better"


def test_other_trials_that_fail_leave_the_pairs_of_both() -> None:
    """Errors of both are 1.05 to one wherever there are two; half of either fail."""
    errors, draw = draws(4, 2000), np.random.default_rng(5).random((2, 2000)) < 0.5
    old, new = (
        np.where(fail, NAN, e) for fail, e in zip(draw, (errors, 1.05 * errors), strict=True)
    )
    found = compare(table(old), table(new)).iloc[0]
    assert found["trimmed_mean_error_low"] == pytest.approx(found["trimmed_mean_error_high"])
    assert (found["trimmed_mean_error"], found["verdict"]) == (pytest.approx(1.05), "worse")


@STREAMS
def test_decisions_that_are_wrong_more_often(stream: str) -> None:
    """Most errors are 0 before and after, and so is the median."""
    assert verdict(decisions(0.15), decisions(0.4, 1), stream) == "worse"
    assert verdict(decisions(0.4), decisions(0.15, 1), stream) == "better"
    assert verdict(decisions(0.0), np.ones(TRIALS), stream) == "worse"
    assert verdict(decisions(0.15), decisions(0.15, 1), stream) == "changed-within-noise"


def test_a_tail_that_grows_is_worse() -> None:
    """The largest sixth of the errors, in which the 0.9 quantile is; the median stays or falls."""
    old = draws(0)
    new = np.where(old >= np.quantile(old, 5 / 6), 1.5 * old, old)
    found = compare(table(old), table(new)).iloc[0]
    assert (found["q50"], found["q90"]) == (1, pytest.approx(1.5))
    assert found["verdict"] == "worse"
    assert verdict(old, np.where(new > old, new, 0.9 * new)) == "worse"  # though most are better


def test_the_rate_counts_rows_not_tests() -> None:
    """Rows that changed for sure do not carry along one that did not."""
    old = {str(i): draws(i) for i in range(50)}
    new = {str(i): 1.5 * draws(i) if i < 40 else draws(100 + i) for i in range(50)}
    found = list(verdicts(table(old), table(new)).values())
    assert found == ["worse"] * 40 + ["changed-within-noise"] * 10


def test_any_dependence_costs_a_logarithm() -> None:
    """Of 100 rows one fails more often, by McNemar's test, the only one made of so few trials.

    15 failures in place of none have p = 2^-14 = 6e-5, which is below LEVEL / 100; only the
    1.5e-5 of 17 are below that over the sum of 1/i, 5.2.
    """
    rows = {str(i): draws(i, MIN_BOOTSTRAP_TRIALS - 1) for i in range(100)}
    changed = {name: 1.001 * errors for name, errors in rows.items()}
    for count, kind in ((15, "changed-within-noise"), (17, "worse")):
        rows["8"][:count] = NAN  # as many fail no longer
        changed["7"][:count] = NAN
        assert verdicts(table(rows), table(changed))["7"] == kind


def test_failures_are_counted_over_the_table() -> None:
    """One more in each of ten rows of a hundred: 2^-9; and where nine, or forty, are gone."""
    rows = {str(i): draws(i, MIN_BOOTSTRAP_TRIALS - 1) for i in range(100)}
    changed = {name: 1.001 * errors for name, errors in rows.items()}
    for name in map(str, range(10)):
        changed[name][0] = NAN
    found = verdicts(table(rows), table(changed))
    assert {name for name, kind in found.items() if kind == "worse"} == set(map(str, range(10)))
    for gone in (range(10, 19), range(19, 50)):
        for name in map(str, gone):
            rows[name][0] = NAN
        assert "worse" not in verdicts(table(rows), table(changed)).values()


COMPARISONS = 50


@pytest.fixture(scope="module")
def errors_by_seed() -> list[dict[str, Floats]]:
    """Errors of clipped and karwa_vadhan under pure DP, of as few trials as may be."""
    estimators = {
        "clipped": {"kind": "clipped_mean", "lower": -4, "upper": 6},
        "karwa_vadhan": {"kind": "karwa_vadhan_mean", "sigma": 1, "radius": 50},
    }
    law = {"gaussian": {"kind": "gaussian", "location": 1}}
    sweep = sweep_of(families=law, estimators=estimators, n=[100], trials=MIN_BOOTSTRAP_TRIALS)
    (cell,) = make_cells(sweep)
    found = []
    for seed in range(2 * COMPARISONS):
        (task,) = cell.tasks(seed)
        errors = run_block(task).values["error"]
        found.append({s.label: errors[j] for j, s in enumerate(cell.settings)})
    return found


@STREAMS
def test_false_alarms_on_identical_code(
    errors_by_seed: list[dict[str, Floats]], stream: str
) -> None:
    """50 comparisons of two seeds of two estimators.

    The false discovery rate bounds the probability of an alarm where nothing has changed, by
    LEVEL = 0.01 a comparison: more than 6 of 50 have probability below 1e-6.
    """
    assert binom.sf(6, COMPARISONS, LEVEL) < 1e-6
    alarms = 0
    for old, new in zip(errors_by_seed[::2], errors_by_seed[1::2], strict=True):
        found = compare(table(old), table(new, stream))
        assert set(found["comparison"]) == {"paired" if stream == "s" else "unpaired"}
        alarms += bool(found["verdict"].isin(["worse", "better"]).any())
    assert alarms <= 6


@STREAMS
def test_a_tenth_is_cut_at_either_end(stream: str) -> None:
    """Ratios are those of scipy's trimmed means, whatever the least and the largest tenth are."""
    old = draws(6)
    new = 1.2 * old[np.random.default_rng(8).permutation(TRIALS)] if stream == "t" else 1.2 * old
    low, high = np.quantile(new, (0.099, 0.9))
    new = np.where(new < low, new / 9, np.where(new > high, 9 * new, new))
    found = compare(table(old), table(new, stream)).iloc[0]
    assert found["trimmed_mean_error"] == pytest.approx(trim_mean(new, 0.1) / trim_mean(old, 0.1))
    assert found["trimmed_mean_error"] == pytest.approx(1.2, rel=1e-12)
