from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis.claims import COLUMNS, Claim, evaluate, verdict
from dpbench.analysis.exponents import Measured
from dpbench.analysis.worst_case import under, worst_case
from dpbench.privacy import ApproxDP, NonPrivate, PureDP


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.97, 2.03, "consistent"),
        (2.03, 2.09, "consistent"),  # meets the region and is narrow
        (2.06, 2.09, "inconsistent"),
        (1.80, 1.94, "inconsistent"),
        (1.90, 2.10, "inconclusive"),  # too wide to tell
        (1.0, 3.0, "inconclusive"),
        (np.nan, np.nan, "inconclusive"),
    ],
)
def test_verdict(low: float, high: float, expected: str) -> None:
    assert verdict(Measured((low + high) / 2, low, high), 2.0, 0.05) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0, 1.8, "consistent"),  # wide, but all of it is allowed
        (2.06, 2.10, "inconsistent"),
        (1.9, 2.2, "inconclusive"),
        (-5.1, -4.9, "inconsistent"),  # an error that grows
    ],
)
def test_verdict_on_an_upper_limit(low: float, high: float, expected: str) -> None:
    assert verdict(Measured((low + high) / 2, low, high), 2.0, 0.05, floor=0.0) == expected


def _summary(errors: dict[tuple[str, float, float], float], bound: float = 1.0) -> pd.DataFrame:
    """A summary of one family, from q90 by (member, n, epsilon)."""
    rows = [
        {
            "distribution": f"f/{member}",
            "family": "f",
            "k": 2.0,
            "estimator": "e",
            "privacy": "pure",
            "epsilon": epsilon,
            "delta": np.nan,
            "rho": np.nan,
            "n": n,
            "d": 1,
            "q90": q90,
            "lower_bound": bound * (n * epsilon) ** -0.5,
        }
        for (member, n, epsilon), q90 in errors.items()
    ]
    return pd.DataFrame(rows)


def _trials(summary: pd.DataFrame, trials: int = 500) -> list[np.ndarray]:
    """Errors whose 0.9 quantile is each row's q90, nearly without spread."""
    rng = np.random.default_rng(0)
    return [q * (1 + 1e-3 * rng.standard_normal(trials)) for q in summary["q90"]]


def test_no_verdict_without_a_prediction() -> None:
    assert verdict(Measured(5, 4.99, 5.01), np.nan, 0.05) == "inconclusive"


def test_worst_case_is_taken_anew_in_every_replicate() -> None:
    summary = _summary({("a", 10, 1.0): 1.0, ("b", 10, 1.0): 2.0, ("a", 100, 1.0): 3.0})
    replicates = np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 3.0]])
    curves, draws = worst_case(summary, "q90", replicates)
    assert curves["value"].tolist() == [2.0, 3.0]
    assert draws.tolist() == [[2.0, 5.0], [3.0, 3.0]]


def _claim(theorem: str) -> Claim:
    return Claim(theorem=theorem, families=["f"], tolerance=0.05, reason="test")


@pytest.mark.parametrize(("slope", "expected"), [(0.5, "consistent"), (0.45, "inconsistent")])
def test_alpha_claim(slope: float, expected: str) -> None:
    # The worst member changes with n; each alone would give another slope.
    grid = [10.0**i for i in range(5, 13)]
    members = {("a", n, 0.1): n**-slope * (0.2 if i % 2 else 1) for i, n in enumerate(grid)}
    members |= {("b", n, 0.1): n**-slope * (1 if i % 2 else 0.2) for i, n in enumerate(grid)}
    summary = _summary(members)
    table = evaluate("c", _claim("heavy_tail_alpha"), summary, _trials(summary), shared=False)
    assert table["verdict"].tolist() == [expected]
    assert table["measured"].iloc[0] == pytest.approx(1 / slope, rel=1e-2)
    assert set(COLUMNS) <= set(table.columns)


@pytest.mark.parametrize(("power", "expected"), [(0.5, "consistent"), (1.0, "inconsistent")])
def test_epsilon_claim(power: float, expected: str) -> None:
    summary = _summary(
        {("a", n, e): n**-0.5 * e**-power for n in (1e8, 1e10, 1e12) for e in (1e-3, 1e-2, 1e-1)}
    )
    table = evaluate("c", _claim("heavy_tail_epsilon"), summary, _trials(summary), shared=False)
    assert table["verdict"].tolist() == [expected]
    assert table["measured"].iloc[0] == pytest.approx(2 * power, rel=1e-2)


def test_lower_bound_claim_needs_no_trials() -> None:
    summary = _summary({("a", n, 0.1): 1.0 for n in (1e5, 1e8, 1e12)})
    table = evaluate("c", _claim("heavy_tail_lower_bound"), summary, None, shared=False)
    assert table["estimator"].tolist() == ["(lower bound)"]
    assert table[["measured", "low", "high"]].iloc[0].tolist() == pytest.approx([2.0] * 3)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.1, "consistent"), (1.4, "inconsistent"), (0.8, "inconsistent")],
)
def test_factor_claim(factor: float, expected: str) -> None:
    # Below 1 an estimator beats what no private one can: its noise is too small.
    sizes = (1e5, 1e8, 1e12)
    summary = _summary({("a", n, 0.1): factor * (n * 0.1) ** -0.5 for n in sizes})
    table = evaluate("c", _claim("near_optimal"), summary, _trials(summary), shared=False)
    assert table["measured"].iloc[0] == pytest.approx(factor, rel=1e-2)
    assert table["verdict"].tolist() == [expected]


def _factor_covered(run: int, members: int) -> bool:
    """Whether the interval of a factor holds 1.2, the same for all of a family's members."""
    rng = np.random.default_rng([11, run])
    sizes = np.logspace(5, 12, 8)
    summary = _summary(
        {(f"m{i}", n, 0.1): 1.0 for n in sizes for i in range(members)}, bound=1 / 1.2
    )
    summary["estimator"] = f"e{run}"
    # The 0.9 quantile of an exponential is ln 10.
    scale = 1.2 * summary["lower_bound"] / np.log(10)
    errors = [s * rng.exponential(size=600) for s in scale]
    summary["q90"] = [np.quantile(e, 0.9, method="inverted_cdf") for e in errors]
    row = evaluate("c", _claim("near_optimal"), summary, errors, shared=False).iloc[0]
    return bool(row["low"] <= 1.2 <= row["high"])


@pytest.mark.parametrize("members", [1, 4])
def test_intervals_of_factors_cover_when_members_tie(members: int) -> None:
    # At a true coverage of 95%, below 88% of 200 has probability 3e-5; the seeds are fixed. A
    # bootstrap of the maximum over four tied members covers none of them.
    hits = np.mean([_factor_covered(run, members) for run in range(200)])
    assert hits >= 0.88, hits


def test_failed_cells_leave_a_claim_inconclusive() -> None:
    summary = _summary({("a", n, 0.1): n**-0.5 for n in (1e5, 1e8, 1e12)})
    summary.loc[1, "q90"] = np.inf
    table = evaluate("c", _claim("heavy_tail_alpha"), summary, _trials(summary), shared=False)
    assert table["verdict"].tolist() == ["inconclusive"]


def test_rows_under_a_budget() -> None:
    summary = pd.DataFrame(
        {
            "privacy": ["pure", "pure", "approx", "approx_classical", "none"],
            "epsilon": [1.0, 0.1, 1.0, 1.0, np.nan],
            "delta": [np.nan, np.nan, 1e-6, 1e-6, np.nan],
            "rho": np.nan,
        }
    )
    assert under(summary, PureDP(1.0)).tolist() == [True, False, False, False, False]
    assert under(summary, ApproxDP(1.0, 1e-6)).tolist() == [False, False, True, False, False]
    assert under(summary, ApproxDP(1.0, 1e-6, "classical")).tolist().index(True) == 3
    assert under(summary, NonPrivate()).tolist()[-1] is True


def test_unknown_theorem_is_named() -> None:
    with pytest.raises(ValueError, match="no such theorem 'x'; choose from heavy_tail_alpha"):
        _claim("x")
