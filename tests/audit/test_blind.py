"""Why half of the noise is not refuted: by integrals, by naive counts, on estimators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtri, softmax

from dpbench.audit.blind import (
    StepEvidence,
    _event_probabilities,
    explain_half_noise,
    runs_to_refute,
    trace_steps,
)
from dpbench.audit.pairs import catalogue
from dpbench.audit.task import AuditTask
from dpbench.estimators import (
    BinaryMean,
    ClippedMean,
    Estimator,
    InverseSensitivity,
    KarwaVadhanMean,
    LocalMean,
    RandomizedResponseSignMean,
    UserLevelMean,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.neighbours import Pair
from tests.audit.audits import only

CLIPPED = ClippedMean(lower=-1, upper=1)


def ends(n: int = 20, low: float = -5.0, high: float = 5.0) -> Pair:
    """A record goes from beyond one end of the clip to beyond the other, unless it is given."""
    return Pair.replacing("ends", np.where(np.arange(n) > 0, 0.0, low), 0, high)


def seen(estimator: Estimator, budget: Budget, pair: Pair) -> list[StepEvidence]:
    return trace_steps(estimator, budget, pair, np.random.default_rng(0))


def test_events_of_a_normal_shift_beside_a_coin() -> None:
    """The largest P(E) - e^c Q(E) is the integral of (dP - e^c dQ)+, over coin and normal."""
    mu, epsilon = 0.8, 1.1
    p, q = _event_probabilities(mu, epsilon)
    more = np.exp(epsilon) / (1 + np.exp(epsilon))
    for c in (0.0, 0.7, 2.0):

        def excess(x: float, coin: float, other: float, c: float = c) -> float:
            return float(
                max(coin * stats.norm.pdf(x - mu) - np.exp(c) * other * stats.norm.pdf(x), 0.0)
            )

        whole = sum(
            integrate.quad(excess, -9, 9, args=both, limit=400)[0]
            for both in ((more, 1 - more), (1 - more, more))
        )
        assert np.max(p - np.exp(c) * q) == pytest.approx(whole, abs=2e-5)
    p, q = _event_probabilities(mu, 0.0)
    inside = (p > 1e-12) & (p < 1 - 1e-12)
    assert ndtri(p[inside]) - ndtri(q[inside]) == pytest.approx(mu, abs=1e-3)


@pytest.mark.parametrize("error", [1e-3, 1e-8])
def test_the_runs_that_a_coin_takes_by_a_loop(error: float) -> None:
    """Randomised response at 2 against the claim 1: Clopper-Pearson limits, size by size."""
    more = np.exp(2) / (1 + np.exp(2))
    for n in np.geomspace(100, 1e9, 57).astype(int):
        k, j = int(more * n), int((1 - more) * n)
        low = stats.beta.ppf(error / 2, k, n - k + 1)
        high = stats.beta.ppf(1 - error / 2, j + 1, n - j)
        if np.log(low / high) > 1:
            break
    assert int(runs_to_refute(0.0, 2.0, PureDP(1.0), error)) == n
    assert np.isinf(runs_to_refute(0.0, 0.99, PureDP(1.0), error))
    # No event of a normal shift by 1 shows more than GDP of 1.
    assert np.isinf(runs_to_refute(1.0, 0.0, GDP(1.0), error))
    assert runs_to_refute(2.0, 0.0, GDP(1.0), error) < 1000


@pytest.mark.parametrize("part", [1.0, 0.5])
def test_steps_show_what_the_pair_moves(part: float) -> None:
    """A record from -1 to 1 costs the whole budget: mu = sqrt(2 rho), or epsilon; from 0 half."""
    pair = ends(low=-5.0 if part == 1 else 0.0)
    (one,) = seen(CLIPPED, ZCDP(0.5), pair)
    assert [one.mu, one.epsilon] == pytest.approx([part, 0])
    assert [*one.full, one.share, one.draws] == pytest.approx([1, 0, 1, 1])
    (one,) = seen(CLIPPED, PureDP(0.7), pair)
    assert [one.mu, one.epsilon, *one.full] == pytest.approx([0, 0.7 * part, 0, 0.7])
    (local,) = seen(LocalMean(k=2, scale=1), ZCDP(0.5), ends(n=25, low=-1e6, high=1e6))
    assert [local.draws, local.mu] == pytest.approx([25, 1 / 5])


def test_steps_of_a_run_share_its_budget() -> None:
    coarse, fine = seen(KarwaVadhanMean(radius=50, sigma=1), PureDP(2.0), ends())
    assert (coarse.share, fine.share) == (0.5, 0.5)
    assert (coarse.additive, fine.additive) == (False, True)
    # Disjoint sets of records: a pair moves one of them, which has the whole budget.
    pair = ends(100, -1e6, 1e6)
    both = seen(UserLevelMean(k=2, scale=1, m=4, radius=50), ZCDP(2.0), pair)
    assert [step.weight for step in both] == [1 / len(both)] * len(both)
    assert sum(step.share for step in both) == pytest.approx(1)

    def fail(*_: Any) -> Any:
        raise ValueError("by chance")

    raises: Any = SimpleNamespace(run=fail)
    assert seen(raises, ZCDP(2.0), pair) == []


REASONS: list[tuple[Estimator, Budget, Pair, bool, str]] = [
    # Classical noise is more than twice what the analytic Gaussian needs.
    (CLIPPED, ApproxDP(1.0, 0.1, "classical"), ends(), False, "delta: at delta 0.1 a factor 2 sh"),
    (CLIPPED, ZCDP(0.5), ends(low=4.0), False, "pairs: they move the steps by 0% of the claim"),
    (BinaryMean(), PureDP(1.0), ends(low=0.0, high=0.9), False, "attack: the best test would"),
    (LocalMean(k=2, scale=1), PureDP(2.0), ends(4, -1e6, 1e6), False, "local: 4 noises average"),
    (
        RandomizedResponseSignMean(radius=0, sigma=1),
        PureDP(2.0),
        ends(2),
        True,
        "other noise: no step has additive",
    ),
    (
        KarwaVadhanMean(radius=10, sigma=1),
        PureDP(2.0),
        ends(),
        False,
        "other steps: all 2 would show it",
    ),
    (InverseSensitivity(lower=-1, upper=1), PureDP(2.0), ends(), False, "one way: records cut up"),
]


@pytest.mark.parametrize(("estimator", "budget", "pair", "alone", "told"), REASONS)
def test_reasons(estimator: Estimator, budget: Budget, pair: Pair, alone: bool, told: str) -> None:
    steps = [seen(estimator, budget, pair)]
    found = explain_half_noise(steps, budget, 8000, 1e-9, 0.0, alone)
    assert str(found).startswith(told)
    assert explain_half_noise(steps, budget, 8000, 1e-9, 0.6, alone).kind == "failure"
    assert explain_half_noise([[], *steps], budget, 8000, 1e-9, 0.0, alone).kind == "failure"


def test_a_small_share_and_few_runs_are_reasons() -> None:
    """Half of the noise of a tenth of epsilon loses 1.1 in place of 1, as 9/10 are untouched."""
    about: dict[str, Any] = {"mu": 0.0, "weight": 1.0, "draws": 1, "known": True}
    steps = [
        StepEvidence(additive=x < 0.5, epsilon=x, full=(0.0, x), share=x, **about)
        for x in (0.1, 0.9)
    ]
    found = explain_half_noise([steps], PureDP(1.0), 8000, 1e-9, 0.0, True)
    needed = runs_to_refute(0.0, 1.1, PureDP(1.0), 1e-9)
    assert 8000 < needed < np.inf
    runs = f"{float(f'{needed:.0e}'):,.0f} runs"
    assert str(found) == f"share: 10% of the budget is for such noise, in {runs}"
    assert explain_half_noise([steps], PureDP(1.0), 10**9, 1e-9, 0.0, True).kind == "other steps"
    # The pair that shows most is the one that counts.
    still = [step._replace(epsilon=0.0) for step in steps]
    assert (
        explain_half_noise([still, steps], PureDP(1.0), 10**9, 1e-9, 0.0, True).kind
        == "other steps"
    )
    assert explain_half_noise([still], PureDP(1.0), 10**9, 1e-9, 0.0, True).kind == "pairs"


@pytest.mark.parametrize("rows", [1, 3])
def test_a_choice_loses_the_spread_of_its_log_ratios(rows: int) -> None:
    """By the chances of each choice; a part for one of three rows pays for all three."""
    pair = Pair.replacing("it", np.zeros(5), 0, 1.0)
    moves = rows * np.array([0.5, -1.0, 0.0])

    def choose(sample: Any, ledger: Any) -> None:
        (part,) = ledger.split(PureDP(0.2), rows=rows)
        part.exponential(np.array([0.3, 0.1, 2.0]) + sample.values.sum(axis=1)[:, None] * moves, 1)

    left, right = (softmax(0.1 * (np.array([0.3, 0.1, 2.0]) + x * moves)) for x in (0, 1))
    estimator: Any = SimpleNamespace(run=choose)
    (step,) = seen(estimator, PureDP(1.0), pair)
    assert step.epsilon == pytest.approx(np.ptp(np.log(left / right)))
    assert step.full[1] == pytest.approx(0.2 * rows)


@pytest.mark.parametrize(("full", "budget"), [((1.0, 0.0), GDP(1.0)), ((0.0, 1.0), PureDP(1.0))])
def test_parallel_steps_show_as_much_as_one(full: tuple[float, float], budget: Budget) -> None:
    """A record is in one of four sets, so four steps in parallel are not four times one."""
    about: dict[str, Any] = {"additive": True, "known": True, "mu": full[0], "epsilon": full[1]}
    one = StepEvidence(full=full, share=1.0, weight=1.0, draws=1, **about)
    told = explain_half_noise([[one]], budget, 1, 1e-9, 0.0, False)
    assert told.kind == "noise"
    parts = [one._replace(share=0.25, weight=0.25)] * 4
    assert explain_half_noise([parts], budget, 1, 1e-9, 0.0, False) == told
    two = [one._replace(draws=2)]
    assert str(explain_half_noise([two], budget, 10**9, 1e-9, 0.0, False)).startswith("local: 2 ")


def test_a_row_is_blind_where_half_of_the_noise_is_not_visible() -> None:
    """Without a reason where it is; an additive mechanism is alike under both."""
    pairs = tuple(only(catalogue(20), "ends_of_the_clip", "one_to_the_far_end"))
    task = AuditTask("it", CLIPPED, PureDP(2.0), pairs, 1000, 1e-5, 0)
    assert task.explain_blindness(pairs, 0.5) == ("", "")
    for visible in (0.35, np.nan):
        half, alone = task.explain_blindness(pairs, visible)
        assert half == alone
        assert half.startswith("attack: ")
    # Both steps of a histogram's mean are halved, or the second one alone.
    two = AuditTask("it", KarwaVadhanMean(radius=50, sigma=1), PureDP(2.0), pairs, 1000, 1e-5, 0)
    half, alone = two.explain_blindness(pairs, 0.5)
    assert half == ""
    assert alone.partition(":")[0] in ("other steps", "pairs", "share")
