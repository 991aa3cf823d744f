"""Variances: the Bezier mechanism against loops and closed forms, and pairs against their base."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpbench.arrays import Floats
from dpbench.distributions import Bernoulli, Gaussian
from dpbench.estimators import (
    BezierVariance,
    ClippedMean,
    ClippedVariance,
    Estimator,
    KarwaVadhanMean,
    PairVariance,
    ThreeSumsVariance,
)
from dpbench.estimators.estimands import VARIANCE
from dpbench.privacy import ZCDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import CountedSample, DenseSample
from tests.support import rng, run

PRIVATE_N = PureDP(0.1, neighbours="add_remove")


def contributions(u: np.ndarray) -> np.ndarray:
    return np.stack([(1 - u) ** 2, 2 * u * (1 - u), u**2])


def _inputs(estimator: Estimator, x: Floats, budget: Budget) -> list[Step]:
    """Return the values before noise of all datasets, and the stated sensitivities of each."""
    tape = Tape()
    estimator.run(DenseSample(x), Ledger(budget, rng(), tape=tape))
    return [step for step in tape.steps if step.mechanism == "add_noise"]


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize(
    "estimator",
    [
        BezierVariance(),
        ClippedVariance(lower=0, upper=1),
        PairVariance(base=ClippedMean(lower=0, upper=0.5)),
        ThreeSumsVariance(),
        ThreeSumsVariance(centred=False),
    ],
)
def test_a_record_moves_the_values_by_the_stated_sensitivities(
    estimator: Estimator, n: int
) -> None:
    """Enumerate all datasets of quarters, which include the extreme ones, and all neighbours."""
    grid = np.linspace(0, 1, 5)
    others = np.array(list(itertools.product(grid, repeat=n - 1)))
    with_record = [np.column_stack([np.full(len(others), u), others]) for u in grid]
    for relation in estimator.relations:
        budget = PureDP(1.0, neighbours=relation)
        inputs = [_inputs(estimator, x, budget) for x in with_record]
        first = inputs if relation == "replace" else [_inputs(estimator, others, budget)]
        for step in range(len(inputs[0])):
            moves = [a[step].values - b[step].values for a in first for b in inputs]
            sizes = np.abs(np.stack(moves)).reshape(len(moves), len(others), -1)
            stated = inputs[0][step].sensitivity
            assert stated["l1"] == pytest.approx(sizes.sum(axis=2).max(), rel=1e-12)
            assert stated["l2"] == pytest.approx(np.sqrt((sizes**2).sum(axis=2).max()), rel=1e-12)


def test_the_mechanism_is_that_of_a_loop() -> None:
    """20,000 runs each: a 0.9 quantile is known to 0.7 per cent, and 8 of these are allowed."""
    x, n, epsilon = rng().random(500), 500, 0.1
    generator, errors = np.random.default_rng(3), []
    for _ in range(20_000):
        b = contributions(x).sum(axis=1) + generator.laplace(0, 1 / epsilon, 3)
        size = max(b.sum(), 1.0)
        variance = b[2] / size - ((b[1] / 2 + b[2]) / size) ** 2
        errors.append(abs(min(max(variance, 0.0), 0.25) - x.var()))
    sample = np.broadcast_to(3 * x - 1, (20_000, n))  # records in [-1, 2]
    release = run(BezierVariance(lower=-1, upper=2), sample, PRIVATE_N)
    assert release.before_noise == pytest.approx(9 * x.var())
    found = np.quantile(np.abs(release.value - 9 * x.var()), 0.9)
    assert found == pytest.approx(9 * np.quantile(errors, 0.9), rel=0.08)


@pytest.mark.parametrize("estimator", [ClippedVariance, BezierVariance, ThreeSumsVariance])
def test_no_impossible_variance_is_released(estimator: type[Estimator]) -> None:
    """A variance on an interval of width 3 is at most 9/4; the noise is much larger."""
    one = estimator(lower=-1, upper=2)  # type: ignore[call-arg]
    relation = one.relations[-1]
    found = run(one, np.zeros((500, 20)), PureDP(1e-3, neighbours=relation)).value
    assert (found.min(), found.max()) == (0.0, pytest.approx(9 / 4))


def test_pairs_declare_failure_below_their_working_number() -> None:
    one, budget = PairVariance(base=KarwaVadhanMean(radius=100, sigma=1)), PureDP(0.1)
    least = one.working_records(1, budget)
    assert np.isfinite(run(one, np.zeros((3, least)), budget).value).all()
    assert np.isnan(run(one, np.zeros((3, least - 2)), budget).value).all()


def test_the_error_to_first_order() -> None:
    """For u uniform, m = 1/2 and s = 1/3: weights 1/6, -1/3, 1/6. 20,000 runs know the variance
    to 2 per cent, and 6 of these are allowed, for the second order too."""
    u = (np.arange(400) + 0.5) / 400
    counted = CountedSample(u, np.full((20_000, 400), 10))
    release = run(BezierVariance(), counted, PRIVATE_N)
    wanted = 2 / 0.1**2 * (2 / 36 + 1 / 9) / 4000**2
    assert np.mean((release.value - u.var()) ** 2) == pytest.approx(wanted, rel=0.12)


def test_counts_and_records_agree() -> None:
    counts, atoms = np.array([[5, 9, 2]]), np.array([0.0, 0.5, 2.0])
    counted, dense = CountedSample(atoms, counts), DenseSample(np.repeat(atoms, counts[0])[None])
    for clip in ((0, 1), (-np.inf, np.inf)):
        assert counted.clipped_square(*clip) == pytest.approx(dense.clipped_square(*clip))
    assert VARIANCE.empirical(counted) == pytest.approx([np.repeat(atoms, counts[0]).var()])
    assert VARIANCE.truth(Bernoulli(p=0.1), counted) == pytest.approx(0.09)


def test_pairs_have_the_variance_as_their_mean() -> None:
    """2,000 runs of 1,000 pairs: an average is known to 0.0011 sd, and 6 of these are allowed."""
    law = Gaussian(location=5.0, scale=0.1)
    estimator = PairVariance(base=ClippedMean(lower=0, upper=0.2))
    release = run(estimator, law.sample(rng(), 2000, 2000), PureDP(1e6))
    assert release.value.mean() == pytest.approx(0.01, rel=0.007)
    assert estimator.least_records(1, PureDP(1.0)) == 2
    assert estimator.most_records is None
    assert PairVariance(base="binary_minimax").most_records == 2001  # 1000 pairs, and one alone
    assert (run(estimator, np.zeros((50, 2)), PureDP(0.1)).value >= 0).all()


def _noise(estimator: Estimator, budget: Budget, n: int = 4000) -> Floats:
    """Noise of 40,000 releases on uniform records: its size is known to 0.6 per cent (sigma)."""
    u = (np.arange(400) + 0.5) / 400
    release = run(estimator, CountedSample(u, np.full((40_000, 400), n // 400)), budget)
    assert release.before_noise == pytest.approx(u.var())
    return np.asarray(release.value - u.var())


def test_the_noise_of_a_variance_for_a_public_n() -> None:
    for budget, sd in ((PureDP(0.5), 2**0.5 / 0.5), (ZCDP(0.125), 1 / 0.25**0.5)):
        found = _noise(ClippedVariance(lower=0, upper=1), budget).std()
        assert found == pytest.approx(sd * 3999 / 4000**2, rel=0.04)


@pytest.mark.parametrize("centred", [True, False])
def test_three_sums_are_those_of_a_loop(centred: bool) -> None:
    """Each sum has Laplace noise of a third of epsilon; 20,000 runs of each, as above."""
    x, n, epsilon = rng().random(500), 500, 0.3
    generator, errors, middle = np.random.default_rng(3), [], 0.5 if centred else 0.0
    for _ in range(20_000):
        scales = (1 - middle) ** np.arange(3) * 3 / epsilon
        count, total, squares = np.array(
            [n, (x - middle).sum(), ((x - middle) ** 2).sum()]
        ) + generator.laplace(0, scales)
        count = max(count, 1.0)
        variance = squares / count - (total / count) ** 2
        errors.append(abs(min(max(variance, 0.0), 0.25) - x.var()))
    sample = np.broadcast_to(3 * x - 1, (20_000, n))  # records in [-1, 2]
    estimator = ThreeSumsVariance(lower=-1, upper=2, centred=centred)
    release = run(estimator, sample, PureDP(epsilon, neighbours="add_remove"))
    found = np.quantile(np.abs(release.value - 9 * x.var()), 0.9)
    assert found == pytest.approx(9 * np.quantile(errors, 0.9), rel=0.08)
