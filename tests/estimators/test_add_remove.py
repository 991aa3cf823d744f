"""Add/remove means: constants of their errors, exact errors, and audits of wrong sensitivities."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from dpbench import release
from dpbench.audit import audit_pair, noise_times
from dpbench.distributions import Bernoulli, BoundedZipf, Distribution, MultivariateGaussian, Pareto
from dpbench.estimators import Estimator, HourglassMean, NormalizedSumMean, TransformedNoiseMean
from dpbench.estimators.add_remove import _Bounded
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import Pair
from dpbench.theory.exact.ratio import vector_rmse
from dpbench.theory.exact.value import exact
from tests.support import Floats

# These data contradict assumptions on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")

AR: dict[str, Any] = {"neighbours": "add_remove"}
BOTH: list[Estimator] = [TransformedNoiseMean(), NormalizedSumMean()]
ALL = [*BOTH, HourglassMean()]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("lower", [0.0, -3.0, 1e6])
def test_without_noise_it_is_the_clipped_mean(estimator: Estimator, lower: float) -> None:
    data = lower + np.array([-5.0, 0.5, 1.0, 1.5, 9.0])  # clipped to [lower, lower + 2]
    wide = type(estimator)(lower=lower, upper=lower + 2)  # type: ignore[call-arg]
    value = release(wide, data, PureDP(1e6, **AR), rng=rng())
    assert value == pytest.approx(lower + 1.0, abs=1e-4)


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_a_release_is_between_the_bounds(estimator: Estimator) -> None:
    releases = np.asarray(
        release(estimator, np.ones(2), PureDP(0.1, **AR), rng=rng(), repeats=1000)
    )
    assert releases.min() == 0
    assert releases.max() == 1
    # Both sums are below 0 with probability e^(-0.2)/4; then the middle is released.
    middle = np.mean(releases == 0.5)
    if isinstance(estimator, TransformedNoiseMean):
        assert middle == pytest.approx(np.exp(-0.2) / 4, abs=0.07)  # 5 standard deviations


def test_no_bounds_the_wrong_way_round() -> None:
    with pytest.raises(ValueError, match="upper must exceed lower"):
        TransformedNoiseMean(lower=1.0, upper=1.0)


@pytest.mark.parametrize("m", [0.1, 0.3, 0.5])
def test_the_exact_error_tends_to_the_published_constants(m: float) -> None:
    n, epsilon = 10**10, 1e-7
    law, budget = Bernoulli(p=m), PureDP(epsilon, **AR)
    first, second = ((n * epsilon * exact("rmse", e, law, n, budget)) ** 2 for e in BOTH)
    assert first == pytest.approx(2 * (m**2 + (1 - m) ** 2), rel=2e-4)
    assert second == pytest.approx(2 + 8 * (m - 0.5) ** 2, rel=2e-4)
    assert second == pytest.approx(2 * first, rel=2e-4)
    transformed, normalized = (exact("rmse", e, law, 10**8, ZCDP(2e-10, **AR)) for e in BOTH)
    assert transformed == pytest.approx(
        normalized, rel=1e-6
    )  # because S and T are C and count/2, rotated
    first_order = np.sqrt(((m**2 + (1 - m) ** 2) / 4e-10 / 1e8 + m * (1 - m)) / 1e8)
    assert transformed == pytest.approx(first_order, rel=1e-3)


CASES: list[tuple[Distribution, Budget]] = [
    (Bernoulli(p=0.1), PureDP(1.0, **AR)), (Bernoulli(p=1.0), PureDP(1.0, **AR)),
    (Bernoulli(p=0.3), ZCDP(0.1, **AR)), (Bernoulli(p=0.3), GDP(0.5, **AR)),
    (Bernoulli(p=0.5), ApproxDP(1.0, 1e-4, **AR)),
]  # fmt: skip


@pytest.mark.parametrize(("law", "budget"), CASES)
@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_the_exact_error_is_measured(
    estimator: Estimator, law: Distribution, budget: Budget
) -> None:
    """Compare trials with `exact` at few records, where the first order is inaccurate.

    The tolerance is 5.5 standard errors, for a false-alarm probability below 1e-6.
    """
    n, trials = 80, 40_000
    sample = law.sample(np.random.default_rng(1), trials, n)
    error: Floats = np.abs(estimator.run(sample, Ledger(budget, rng())).value - law.target)
    for metric, power in (("mean_error", 1), ("rmse", 2)):
        powers = error**power
        se = powers.std() / np.sqrt(trials)
        exact_power = exact(metric, estimator, law, n, budget) ** power
        assert abs(powers.mean() - exact_power) < 5.5 * se, metric
    above = np.mean(error > exact("q90", estimator, law, n, budget))
    assert above == pytest.approx(0.1, abs=5.5 * np.sqrt(0.09 / trials))


def test_what_has_no_exact_error() -> None:
    law, budget = Bernoulli(p=0.5), PureDP(1.0, **AR)
    for metric in ("noise_q90", "privacy_cost_q90", "q50"):
        assert np.isnan(exact(metric, BOTH[0], law, 100, budget))
    assert np.isnan(exact("rmse", BOTH[1], law, 20, budget))  # the count may be below 1
    assert np.isnan(exact("rmse", BOTH[1], law, 100, PureDP(1.0, "staircase", **AR)))
    assert np.isnan(exact("rmse", BOTH[0], Pareto(tail_index=1.5), 100, budget))
    assert np.isnan(exact("rmse", BOTH[0], law, 100, PureDP(1.0)))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("m", [0.1, 0.5])
def test_the_error_of_hourglass_noise_tends_to_the_least_possible(epsilon: float, m: float) -> None:
    """Compare with the closed form, with Laplace noise, and with the best noise for public n."""
    n, budget = 10**4, PureDP(epsilon, **AR)
    ones = BoundedZipf(exponent=0, largest=1)  # no sampling error

    def scaled_mse(kind: Any, m: float) -> float:
        return (n * exact("rmse", kind(lower=1 - m, upper=2 - m), ones, n, budget)) ** 2

    b, square = np.exp(-epsilon), m**2 + (1 - m) ** 2
    variance = ((b * (1 + b) / 2) ** (2 / 3) + b) / (1 - b) ** 2  # GV14
    assert scaled_mse(HourglassMean, m) == pytest.approx(variance * square, rel=2e-3)
    gain = scaled_mse(TransformedNoiseMean, m) / scaled_mse(HourglassMean, m)
    assert gain == pytest.approx(2 / epsilon**2 / variance, rel=2e-3)
    assert gain > 1


def test_hourglass_noise_has_no_exact_error_for_small_epsilon_and_vectors() -> None:
    estimator = HourglassMean()
    assert np.isnan(exact("rmse", estimator, Bernoulli(p=0.5), 10**4, PureDP(0.01, **AR)))
    vectors = MultivariateGaussian(d=4, norm=0.5, scale=0.01)
    assert np.isnan(exact("rmse", estimator, vectors, 10**4, PureDP(1.0, **AR)))


# Vectors.

NOTIONS: list[Budget] = [
    PureDP(10.0, **AR), ZCDP(50.0, **AR), GDP(10.0, **AR), ApproxDP(10.0, 1e-6, **AR),
    ApproxDP(10.0, 0.1, **AR),
]  # fmt: skip


@pytest.mark.parametrize("estimator", BOTH, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("region", ["box", "ball"])
def test_vectors_without_noise(estimator: Estimator, region: str) -> None:
    """Compare with the mean of records clipped to the box or projected on its largest ball."""
    wide = type(estimator)(lower=-1.0, upper=3.0, region=region)  # type: ignore[call-arg]
    data = np.array([[1.0, 1.0], [4.0, 5.0], [-9.0, 1.0], [2.0, 1.0]])
    corner = [3.0, 3.0] if region == "box" else [1 + 2 * 0.6, 1 + 2 * 0.8]
    value = release(wide, data, PureDP(1e6, **AR), rng=rng())
    expected = np.mean([[1.0, 1.0], corner, [-1.0, 1.0], [2.0, 1.0]], axis=0)
    assert np.asarray(value) == pytest.approx(expected, abs=1e-4)
    releases = np.asarray(
        release(wide, np.ones((2, 2)), PureDP(0.1, **AR), rng=rng(), repeats=1000)
    )
    away = np.abs(releases - 1).max(axis=1) if region == "box" else np.hypot(*(releases - 1).T)
    assert away.max() == pytest.approx(
        2.0
    )  # noise of this size would leave the region without the clip


@pytest.mark.parametrize("estimator", BOTH, ids=lambda estimator: type(estimator).__name__)
def test_vectors_of_one_coordinate_err_as_numbers_do(estimator: Estimator) -> None:
    law, n = Bernoulli(p=0.8), 10**5
    small: list[Budget] = [
        PureDP(0.01, **AR), ZCDP(5e-5, **AR), ApproxDP(0.01, 1e-9, **AR), ApproxDP(0.01, 0.1, **AR),
    ]  # fmt: skip
    for budget in small:
        whole = 2 * exact("rmse", estimator, law, n, budget)
        for region in ("box", "ball"):
            wide = type(estimator)(lower=-1.0, upper=1.0, region=region)  # type: ignore[call-arg]
            rmse = vector_rmse(wide, np.array([0.6]), 0.0, n, budget)
            assert rmse == pytest.approx(np.sqrt(whole**2 - 0.64 / n), rel=0.01)


@pytest.mark.parametrize("d", [2, 16])
@pytest.mark.parametrize("region", ["box", "ball"])
@pytest.mark.parametrize("estimator", BOTH, ids=lambda estimator: type(estimator).__name__)
def test_the_error_of_vectors_is_measured(estimator: Estimator, region: str, d: int) -> None:
    """Compare trials, the closed forms of the docstrings, and `exact`, which claims use.

    The tolerance of trials is 5.5 standard errors, for a false-alarm probability below 1e-6.
    """
    n, trials, m = 200, 4000, 0.8
    law = MultivariateGaussian(d=d, norm=m, scale=1e-4)
    wide = type(estimator)(lower=-1.0, upper=1.0, region=region)  # type: ignore[call-arg]
    sample = law.sample(np.random.default_rng(1), 1, n)
    many = type(sample)(np.broadcast_to(sample.values, (trials, n, d)))
    l2, l1 = (np.sqrt(d), d) if region == "box" else (1.0, np.sqrt(d))
    radius, root = (d + 2) * (d + 3) / 100, np.sqrt(d)
    for budget in NOTIONS:
        square = np.sum((wide.run(many, Ledger(budget, rng())).value - law.target) ** 2, axis=1)
        mse = exact("rmse", wide, law, n, budget) ** 2
        assert abs(square.mean() - mse) < 5.5 * square.std() / np.sqrt(trials), budget
        if isinstance(estimator, NormalizedSumMean):
            closed = {"pure": 8 * (d * l1**2 + m**2) / 100, "zcdp": (d * l2**2 + m**2) / 50}
        else:
            first = d if region == "box" else 3 * d / (d + 2)
            closed = {"pure": radius * (first + m**2) / 3,
                      "zcdp": (1 + root) * (l2**2 * root + m**2) / 100}  # fmt: skip
        closed["gdp"] = closed["zcdp"]
        if budget.notion in closed:
            assert mse * n**2 == pytest.approx(closed[budget.notion], rel=1e-3)


def test_which_noise_errs_less_is_taken() -> None:
    """A small delta gets the joint noise of pure DP, a large delta Gaussian noise."""
    wide = TransformedNoiseMean(lower=-1.0, upper=1.0, region="ball")
    mean = np.full(4, 0.5)
    pure, small, large = (
        vector_rmse(wide, mean / 1.5, 0.0, 10**4, budget)
        for budget in (PureDP(1.0, **AR), ApproxDP(1.0, 1e-9, **AR), ApproxDP(1.0, 0.1, **AR))
    )
    assert small == pure > large


@pytest.mark.parametrize("region", ["box", "ball"])
def test_no_error_of_vectors_where_it_is_not_known(region: Any) -> None:
    wide = TransformedNoiseMean(lower=-1.0, upper=1.0, region=region)
    budget, law = PureDP(1.0, **AR), MultivariateGaussian(d=4, norm=0.5, scale=0.01)
    assert np.isfinite(exact("rmse", wide, law, 10**4, budget))
    assert np.isnan(exact("q90", wide, law, 10**4, budget))
    assert np.isnan(exact("rmse", wide, law, 20, budget))  # the release is clipped
    for change in ({"norm": 3.0}, {"scale": 1.0}, {"condition": 2.0}):
        changed = MultivariateGaussian(**({"d": 4, "norm": 0.5, "scale": 0.01} | change))  # type: ignore[arg-type]
        assert np.isnan(exact("rmse", wide, changed, 10**4, budget)), change


@contextmanager
def stating(factor: float, relations: tuple[Relation, ...] = ("add_remove",)) -> Iterator[None]:
    """Multiply every stated sensitivity by a factor, and accept budgets of these relations."""
    stated = Ledger.sensitivity_for_relation

    def wrong(self: Ledger, sensitivity: Any) -> Any:
        return factor * stated(Ledger(ZCDP(1.0, **AR), rng()), sensitivity)

    with (
        mock.patch.object(Ledger, "sensitivity_for_relation", wrong),
        mock.patch.multiple(_Bounded, relations=relations),
    ):
        yield


@pytest.mark.parametrize("region", ["box", "ball"])
@pytest.mark.parametrize("kind", [TransformedNoiseMean, NormalizedSumMean])
def test_errors_of_sensitivity_show(kind: Any, region: str) -> None:
    """Wrong noise shows in claims or in the audit, right noise in neither.

    A claim fails if the mean squared error is 5.5 standard errors from the exact value. The audit
    refutes with error probability 1e-6.
    """
    wide, n, d = kind(lower=-1.0, upper=1.0, region=region), 60, 2
    low = np.full((n, d), -1e6)
    halves = (
        low * (-1.0) ** np.arange(n)[:, None]
    )  # the mean is 0, so that a wrong count does not move it
    pairs: dict[Relation, Pair] = {
        "add_remove": Pair("one_at_the_far_end", np.append(low, -low[:1], axis=0), low),
        "replace": Pair.replacing("from_end_to_end", halves, 0, -halves[0]),
    }

    def wrong(budget: Budget) -> tuple[bool, bool]:
        law = MultivariateGaussian(d=d, norm=0.4, scale=1e-4)
        big = replace(budget, rho=50.0)  # type: ignore[type-var]
        sample = law.sample(np.random.default_rng(1), 2000, 100)
        square = np.sum((wide.run(sample, Ledger(big, rng())).value - law.target) ** 2, axis=1)
        expected = exact("rmse", wide, law, 100, replace(big, **AR)) ** 2  # type: ignore[type-var]
        pair = pairs[budget.neighbours]
        audit = audit_pair(wide, budget, pair, runs=6000, failure_probability=1e-6, rng=rng())
        claims = abs(square.mean() - expected) > 5.5 * square.std() / np.sqrt(2000)
        return bool(claims), audit.verdict == "refuted"

    mine = ZCDP(0.5, **AR)
    assert wrong(mine) == (False, False)
    with noise_times(0.5):
        assert wrong(mine) == (True, True)
    with stating(2.0):  # twice the noise is private, but too much
        assert wrong(mine) == (True, False)
    with stating(1.0, ("replace", "add_remove")):  # too little noise for replacement
        assert wrong(ZCDP(0.5))[1]
