"""Clipped means: the noise has the distribution of the budget at the right sensitivity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpbench.estimators as est
from dpbench.estimators.clipped import add_box_noise
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Tape
from dpbench.registry import ConfigError
from dpbench.samples import DenseSample
from tests.support import (
    FALSE_ALARM,
    Floats,
    assert_follows,
    assert_frequencies,
    name,
    noise_law,
    rng,
    run,
    spreads,
)  # fmt: skip

CLIPPED = est.ClippedMean(lower=-2.0, upper=3.0)
INDEPENDENT = est.ClippedMean(lower=-2.0, upper=3.0, mechanism="additive")


# Kinds of data.


def test_a_clipped_mean_without_a_bound_releases_nothing() -> None:
    for lower, upper, shape in ((None, 1.0, (4, 5)), (0.0, None, (4, 5, 3))):
        ledger = Ledger(PureDP(0.5), rng())
        estimate = est.ClippedMean(lower=lower, upper=upper).run(
            DenseSample(np.ones(shape)), ledger
        )
        assert not any(ledger.spent)
        assert estimate.value.shape == (4, *shape[2:])
        assert np.isnan([estimate.value, estimate.before_noise]).all()


# Coordinate by coordinate.


@pytest.mark.parametrize(
    ("base", "budget", "share"),
    [
        (CLIPPED, PureDP(0.6), PureDP(0.12)),
        (CLIPPED, ApproxDP(0.6, 1e-4, "classical"), ApproxDP(0.12, 2e-5, "classical")),
        (est.CoinPressMean(radius=3.0, sigma=1), ZCDP(0.2), ZCDP(0.04)),
        (est.CoinPressMean(radius=3.0, sigma=1), ApproxDP(2.0, 1e-4), ApproxDP(0.4, 2e-5)),
        (est.KarwaVadhanMean(radius=9.0, sigma=1), PureDP(30.0), PureDP(6.0)),
    ],
    ids=name,
)
def test_coordinates_against_the_base_alone(
    base: est.Estimator, budget: Budget, share: Budget
) -> None:
    """The base gets all coordinates of the first trial, then of the second, with one stream."""
    values = rng(8).normal(1, 2, (7, 30, 5))
    estimate = run(est.CoordinateWise(base=base), values, budget)
    alone = run(base, np.array([row[:, j] for row in values for j in range(5)]), share)
    np.testing.assert_allclose(estimate.value.ravel(), alone.value, rtol=1e-12)
    np.testing.assert_allclose(estimate.before_noise.ravel(), alone.before_noise, rtol=1e-12)


@pytest.mark.parametrize(
    "base", [est.EmpiricalMean(), "no_such_mean", 3, None, spreads, est.ClippedMean]
)
def test_other_bases_of_coordinates_are_refused(base: Any) -> None:
    with pytest.raises(
        ValueError, match=r"private estimator of scalars|choose from|write an instance"
    ):
        est.CoordinateWise(base=base)
    with pytest.raises(ConfigError, match=r"^estimator\.one\.base") as caught:
        est.Estimator.build({"kind": "coordinate_wise", "base": base}, "estimator.one")
    assert len(str(caught.value).splitlines()) == 1


# Noise, and the sensitivity that it is stated for.


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1), ApproxDP(0.5, 1e-5, "ksu20")], ids=name)
@pytest.mark.parametrize("estimator", [INDEPENDENT, est.L2ClippedMean(radius=3.0)], ids=name)
def test_the_noise_of_vectors(estimator: est.Estimator, budget: Budget) -> None:
    """Sensitivities in l1 and l2: 5d/n and 5 sqrt(d)/n; 2L sqrt(d)/n and 2L/n."""
    n, d = 3, 4
    l1, l2 = (5 * d, 5 * math.sqrt(d)) if estimator == INDEPENDENT else (6 * math.sqrt(d), 6.0)
    values = np.tile(np.linspace(-1, 1, n * d).reshape(n, d), (4000, 1, 1))
    estimate = run(estimator, values, budget)
    noise, law = estimate.value - estimate.before_noise, noise_law(budget, l1 / n, l2 / n)
    assert_follows(noise, law)
    # z-test with false-alarm probability 1e-6: coordinates are independent
    z = noise / law.std()
    limit = stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(len(z))
    assert abs(float((z[:, 0] * z[:, 1]).mean())) <= limit


def max_norm_density(z: Floats, scale: float) -> Floats:
    """Return the logarithm of the density of the noise of a cube, up to a constant."""
    return np.asarray(-np.abs(z).max(axis=-1) / scale)


@pytest.mark.parametrize("budget", [PureDP(0.5), ApproxDP(0.5, 1e-5)], ids=name)
def test_the_noise_of_a_clipped_vector(budget: Budget) -> None:
    """The max norm is Gamma(d) at scale 5/(n epsilon), and its coordinate is any with equal odds.

    Moving the centre to a corner of the cube changes the density by e^epsilon at most.
    """
    n, d = 3, 4
    scale = 5 / n / 0.5
    values = np.tile(np.linspace(-1, 1, n * d).reshape(n, d), (4000, 1, 1))
    estimate = run(CLIPPED, values, budget)
    noise = estimate.value - estimate.before_noise
    assert_follows(np.abs(noise).max(axis=1), stats.gamma(d, scale=scale))
    largest = np.abs(noise).argmax(axis=1)
    signs = np.take_along_axis(noise, largest[:, None], axis=1)[:, 0] > 0
    assert_frequencies(np.bincount(2 * largest + signs, minlength=2 * d), [1 / (2 * d)] * (2 * d))
    corner = np.full(d, 5 / n)
    ratio = max_norm_density(noise, scale) - max_norm_density(noise - corner, scale)
    assert np.abs(ratio).max() == pytest.approx(0.5, rel=1e-9)
    laplace = run(INDEPENDENT, values, budget).value - estimate.before_noise
    ratio_of_squares = float((laplace**2).mean() / (noise**2).mean())
    assert ratio_of_squares == pytest.approx(6 * d**2 / ((d + 1) * (d + 2)), rel=0.1)


def test_the_noise_of_vectors_that_no_cube_changes() -> None:
    """Numbers, and vectors with Gaussian noise, have one noise under both mechanisms."""
    numbers, vectors = rng(2).normal(size=(9, 5)), rng(2).normal(size=(9, 5, 3))
    for values, budget in (
        (numbers, PureDP(0.5)),
        (vectors, ZCDP(0.1)),
        (vectors, ApproxDP(0.5, 1e-5, "ksu20")),
        (rng(3).normal(size=(9, 5, 60)), ApproxDP(1.0, 1e-6)),
    ):
        np.testing.assert_array_equal(
            run(CLIPPED, values, budget).value, run(INDEPENDENT, values, budget).value
        )


def test_one_noise_of_columns_is_that_of_vectors() -> None:
    values = rng(4).normal(size=(9, 5, 3))
    columns = est.ColumnsClippedMean(lower=-2.0, upper=3.0, split="norm")
    np.testing.assert_allclose(
        run(CLIPPED, values, PureDP(1.0)).value, run(columns, values, PureDP(1.0)).value, rtol=1e-12
    )


def test_the_l2_sensitivity_of_the_bounded_mean() -> None:
    ledger = Ledger(PureDP(0.5), rng())
    est.L2ClippedMean(radius=2.5, mechanism="l2").run(DenseSample(np.zeros((2, 4, 3))), ledger)
    assert "noise in l2, sensitivity 1.25" in ledger.receipt()


def test_coordinates_are_audited_at_their_share() -> None:
    """Pairs are those of the base at half of the budget, in both coordinates."""
    base = est.KarwaVadhanMean(radius=None, sigma=1)
    pairs = est.CoordinateWise(base=base).audit_pairs(500, 2, ApproxDP(2.0, 1e-6))
    base_pairs = base.audit_pairs(500, None, ApproxDP(1.0, 5e-7))
    assert [pair.name for pair in pairs] == [pair.name for pair in base_pairs]
    for pair_of_vectors, pair_of_numbers in zip(pairs, base_pairs, strict=True):
        np.testing.assert_array_equal(
            pair_of_vectors.left, np.stack([pair_of_numbers.left] * 2, axis=1)
        )
        np.testing.assert_array_equal(
            pair_of_vectors.right, np.stack([pair_of_numbers.right] * 2, axis=1)
        )


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_noise_of_a_box_is_the_quieter_one(d: int, epsilon: float) -> None:
    """Of a cube, with the variance (d + 1)(d + 2)/(3 epsilon^2) for a side of 1, or Gaussian."""
    cube, chosen = (d + 1) * (d + 2) / (3 * epsilon**2), set()
    for delta in np.geomspace(1e-9, 0.4, 60):
        gaussian = d * ApproxDP(epsilon, delta, noise_by="analytic").noise_sd() ** 2
        tape = Tape()
        add_box_noise(np.zeros((1, d)), 1.0, Ledger(ApproxDP(epsilon, delta), rng(), tape=tape))
        (step,) = (one.mechanism for one in tape.steps if one.mechanism != "pay")
        assert (step == "add_joint_noise") == (cube <= gaussian)
        chosen.add(step)
    assert len(chosen) == 2
