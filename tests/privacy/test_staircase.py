"""Staircase noise: its privacy, its distribution, and its replacement by Laplace noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench.privacy import PureDP
from dpbench.privacy.histogram import private_mode_bin
from dpbench.privacy.ledger import Ledger
from dpbench.samples import Bins, DenseSample
from dpbench.seeds import canonical
from dpbench.theory.exact.noise import Staircase
from tests.support import Floats, assert_follows, rng

S = 0.7  # a sensitivity
each_epsilon = pytest.mark.parametrize("epsilon", [0.3, 2.0, 6.0])


def steps(epsilon: float) -> tuple[Floats, Floats]:
    """Return ends and densities of the steps, from the paper, up to a tail of e^-40."""
    g, b = 1 / (1 + np.exp(epsilon / 2)), np.exp(-epsilon)
    k = np.arange(int(40 / epsilon) + 1)
    right = S * np.append(np.ravel([k, k + g], order="F"), k[-1] + 1)
    height = (1 - b) / (2 * (g + b * (1 - g))) / S * np.ravel([b**k, b ** (k + 1)], order="F")
    return np.concatenate([-right[:0:-1], right]), np.concatenate([height[::-1], height])


@each_epsilon
def test_no_two_densities_within_the_sensitivity_differ_by_more(epsilon: float) -> None:
    """Check that the largest ratio of densities within the sensitivity is e^epsilon."""
    ends, height = steps(epsilon)
    apart = np.maximum(ends[:-1, None] - ends[1:], ends[:-1] - ends[1:, None])
    ratio = (height[:, None] / height)[apart < S * (1 - 1e-9)]
    assert ratio.max() == pytest.approx(np.exp(epsilon), rel=1e-9)


@each_epsilon
def test_the_law(epsilon: float) -> None:
    """Compare moments, quantiles and draws with the steps (false alarm 1e-6)."""
    ends, height = steps(epsilon)
    mass = height * np.diff(ends)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    law, noise, budget = (
        stats.rv_histogram((mass, ends), density=False),
        Staircase(epsilon, S),
        PureDP(epsilon, "staircase"),
    )
    x = np.linspace(-3, 3, 101)
    np.testing.assert_allclose(noise.cdf(x), law.cdf(x), atol=1e-12)
    assert noise.variance == pytest.approx(law.var(), rel=1e-9)
    for upper in (0.4, 0.05, 1e-4):
        assert noise.isf(upper) == pytest.approx(law.isf(upper), rel=1e-7)
        assert budget.noise_tail(np.asarray(upper), S, S) == pytest.approx(law.isf(upper), rel=1e-7)
    for c in (0.0, 0.3, -1.9):
        area = height * np.diff((c + ends) * np.abs(c + ends)) / 2
        assert noise.distance(np.array([c])) == pytest.approx([area.sum()], rel=1e-9)
    drawn = Ledger(budget, rng()).add_noise(np.zeros(20_000), S)
    assert_follows(drawn, noise)
    least = S * np.exp(epsilon / 2) / np.expm1(epsilon)
    assert noise.distance(np.zeros(1)) == pytest.approx([least], rel=1e-9)


def test_what_is_not_one_number_has_laplace_noise() -> None:
    """Check vectors and averages, because each coordinate that crosses a step costs epsilon."""
    stairs, laplace = PureDP(3.0, "staircase"), PureDP(3.0)
    numbers, vectors = np.zeros(50), np.zeros((50, 2))
    for values, draws, same in ((numbers, 1, False), (numbers, 9, True), (vectors, 1, True)):
        one, other = (
            Ledger(budget, rng()).add_noise(values, 1.0, draws=draws)
            for budget in (stairs, laplace)
        )
        assert np.array_equal(one, other) == same
    sample, bins = DenseSample(np.random.default_rng(0).normal(size=(50, 9))), Bins(0.5, -3.0, 3.0)
    one, other = (
        private_mode_bin(sample, bins, Ledger(budget, rng())) for budget in (stairs, laplace)
    )
    np.testing.assert_array_equal(one, other)


def test_an_epsilon_that_leaves_no_second_step() -> None:
    drawn = Ledger(PureDP(1e6, "staircase"), rng()).add_noise(np.zeros(1000), 1.0)
    assert np.all(np.abs(drawn) < 1e-40)


def test_names_of_streams_are_what_they_were() -> None:
    assert canonical(PureDP(1.0)) == 'PureDP{"epsilon": 1.0}'
    assert canonical(PureDP(1.0, "staircase")) == 'PureDP{"epsilon": 1.0, "noise_by": "staircase"}'
