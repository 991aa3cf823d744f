"""Privacy of noisy means of resamples: closed forms, exact pairs of datasets, and the limit."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from dpbench.privacy import GDP, resampling
from dpbench.privacy.conversions import analytic_sd, gaussian_delta
from dpbench.privacy.resampling import resampled_delta, resampled_sd
from tests.support import Floats

N = 10_000
PAGE = Path(__file__).parents[2] / "docs" / "theory" / "private_bootstrap.md"
LIMIT = math.sqrt(2 - 2 / math.e)  # WCA22


@pytest.mark.parametrize(("releases", "mu"), [(1, 1.0), (30, 0.3), (100, 3.0)])
def test_without_resampling_it_is_the_gaussian_mechanism(releases: int, mu: float) -> None:
    """If each resample contains a record once, B releases have mu^2 = B m^2."""
    once = mock.patch.object(resampling, "_chances", lambda copies, n: 1.0 * (copies == 1))
    with once, mock.patch.object(resampling, "bdtrc", return_value=0.0):
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            bound = resampled_delta(epsilon, mu / math.sqrt(releases), N, releases)
            delta = gaussian_delta(1 / mu, epsilon)
            assert delta <= bound <= 1.01 * delta + 1e-9


def exact_delta(epsilon: float, m: float, releases: int) -> float:
    """Return the delta of B means of resamples in which one record of n is 1 or 0, others 0.

    The losses of a release are rounded down to a grid, so the result is a lower bound.
    """
    copies = np.arange(40)
    chances = stats.binom.pmf(copies, N, 1 / N)
    x, dx = np.linspace(-12, 12 + 30 * m, 50_001, retstep=True)
    density = chances @ stats.norm.pdf(x - m * copies[:, None])
    loss = np.log(np.maximum(density, 1e-300)) - stats.norm.logpdf(x)
    h, size = m / 100, 1 << 16
    steps = np.floor(loss / h).astype(int)
    kept = np.abs(steps) < size // 2
    cyclic = np.bincount(steps[kept] % size, weights=density[kept] * dx, minlength=size)
    total = np.fft.irfft(np.fft.rfft(cyclic) ** releases, size)
    sums = h * ((np.arange(size) + size // 2) % size - size // 2)
    return float(np.maximum(total, 0) @ -np.expm1(np.minimum(epsilon - sums, 0.0)))


@pytest.mark.parametrize("releases", [1, 5, 20])
def test_no_pair_of_datasets_exceeds_the_bound(releases: int) -> None:
    m = 1 / math.sqrt(releases)
    for epsilon in (0.1, 1.0, 3.0):
        assert exact_delta(epsilon, m, releases) <= resampled_delta(epsilon, m, N, releases)
    # A bound that ignores copies of a record would be too small.
    assert exact_delta(3.0, m, releases) > gaussian_delta(1.0, 3.0)


def one_release(epsilon: float, m: float, n: int) -> float:
    """Return (1) for one release: the sum of p_i D_g(i m) with g' = e^epsilon."""
    copies = np.arange(1, n + 1)
    chances = stats.binom.pmf(copies, n, 1 / n)
    amplified = math.log1p(math.expm1(epsilon) / chances.sum())
    deltas = [gaussian_delta(1 / (m * i), amplified) for i in copies if i <= 30]
    return float(chances[:30] @ deltas)


@pytest.mark.parametrize("n", [2, 7, N])
def test_one_release_has_the_sum_over_copies(n: int) -> None:
    for epsilon in (0.0, 0.5, 2.0):
        expected = one_release(epsilon, 0.8, n)
        assert expected <= resampled_delta(epsilon, 0.8, n, 1) <= 1.001 * expected + 1e-9


def test_the_limit_of_many_resamples_is_that_of_the_paper() -> None:
    """With B = 1000 the noise is within 1.2 per cent of the limit sqrt(2 - 2/e), with 5 far off."""
    ratios = [
        resampled_sd(1.0, 1e-5, N, b) / math.sqrt(b) / analytic_sd(1.0, 1e-5) for b in (5, 1000)
    ]
    assert ratios[1] == pytest.approx(LIMIT, rel=0.012)
    assert ratios[1] > LIMIT
    assert ratios[0] > 1.4 * LIMIT


def test_noise_of_the_limit_is_not_private_for_few_resamples() -> None:
    """1.125 sqrt(B) w/(n mu) is called mu-GDP in experiments of WCA22, from B = 5 on.

    At mu = 1 and B = 5 a pair of datasets has three times the delta of 1-GDP at epsilon = 3.
    """
    allowed = gaussian_delta(1.0, 3.0)
    assert exact_delta(3.0, 1 / (1.125 * math.sqrt(5)), 5) > 2.9 * allowed
    assert exact_delta(3.0, 1 / (1.125 * math.sqrt(100)), 100) < allowed


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-8), (8.0, 0.01)])
def test_the_noise_is_the_smallest_that_the_bound_allows(epsilon: float, delta: float) -> None:
    sd = resampled_sd(epsilon, delta, 300, 10)
    assert resampled_delta(epsilon, 1 / sd, 300, 10) <= delta
    assert resampled_delta(epsilon, 1.001 / sd, 300, 10) > delta


def test_the_documented_noise_is_computed() -> None:
    """The table of docs/theory/private_bootstrap.md; of two rows, 5 and 100 resamples."""
    rows = re.findall(r"(?m)^\| ([\d.]+) \| (1.\d{3}|2.\d{3}) \| (.*) \|$", PAGE.read_text("utf-8"))
    assert [row[0] for row in rows] == ["0.1", "1", "5"]
    for epsilon, few, others in rows:
        for b, factor in zip((5, 10, 20, 50, 100, 1000), (few, *others.split(" | ")), strict=True):
            if epsilon != "1" and b not in (5, 100):
                continue
            noise = resampled_sd(float(epsilon), 1e-6, 1000, b) / math.sqrt(b)
            ratio = noise / analytic_sd(float(epsilon), 1e-6)
            assert ratio == pytest.approx(float(factor), abs=6e-4)


def test_the_documented_epsilon_is_computed() -> None:
    """Delta is 1e-6 within the rounding of each epsilon of the page, at the noise of WCA22."""
    text = PAGE.read_text("utf-8").partition("it gives these $\\epsilon$:")[2]
    rows = re.findall(r"(?m)^\| ([\d.]+) \| ([\d.]+) \| (.*) \|$", text.partition("next table")[0])
    assert [row[0] for row in rows] == ["0.1", "1"]
    for mu, limit, others in rows:
        assert GDP(float(mu)).to_approx(1e-6).epsilon == pytest.approx(float(limit), rel=2e-3)
        for b, shown in zip((5, 10, 100, 1000), others.split(" | "), strict=True):
            half = 0.5 * 10.0 ** -len(shown.partition(".")[2])
            inverse_sd = float(mu) / (1.125 * math.sqrt(b))
            low, high = (
                resampled_delta(float(shown) + by, inverse_sd, 10_000, b) for by in (half, -half)
            )
            assert low <= 1e-6 <= high


def test_too_small_a_delta_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^delta: 1e-09: too small .* at least 1e-08$"):
        resampled_sd(1.0, 1e-9, 100, 10)


def test_sums_beyond_the_period_are_counted() -> None:
    """The Chernoff bound is above the share of sums of simulated losses above R."""
    loss = 0.1 * np.arange(9.0)
    mass = np.exp(-loss)
    mass /= mass.sum() + mass[1:] @ np.exp(-loss[1:])
    bound = resampling._chernoff(loss, mass, 3)
    values: Floats = np.concatenate([loss, -loss[1:]])
    weights = np.concatenate([mass, mass[1:] * np.exp(-loss[1:])])
    sums = np.add.outer(np.add.outer(values, values), values)
    chances = np.multiply.outer(np.multiply.outer(weights, weights), weights)
    assert 0 < chances[sums > loss[-1] + 1e-9].sum() <= bound < 1


@pytest.mark.parametrize(
    ("delta", "n", "releases"), [(0.99, 2, 2), (0.87, 100, 2), (1 - 2.0**-53, 7, 9)]
)
def test_a_delta_of_means_without_noise_is_refused(delta: float, n: int, releases: int) -> None:
    """Means without noise tell nothing of a record that is in none of the n B draws."""
    assert delta > 1 - (1 - 1 / n) ** (n * releases)
    with pytest.raises(ValueError, match=rf"^delta: {delta}: {releases} resamples .* give a delta"):
        resampled_sd(1.0, delta, n, releases)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-12, 0.5), (1e6, 1e-8)])
def test_the_search_ends_for_extreme_budgets(epsilon: float, delta: float) -> None:
    with mock.patch.object(resampling, "MAX_POINTS", 1 << 14):  # 64 times faster
        sd = resampled_sd.__wrapped__(epsilon, delta, 2, 2)
        assert resampled_delta(epsilon, 1 / sd, 2, 2) <= delta
    assert sd >= 1 / resampling.MAX_M


@pytest.mark.parametrize(("n", "releases"), [(2, 2), (3, 2), (2, 3)])
def test_the_largest_delta_by_all_draws(n: int, releases: int) -> None:
    """The share of all draws of all resamples that hold a given record."""
    draws = itertools.product(range(n), repeat=n * releases)
    share = float(np.mean([0 in drawn for drawn in draws]))
    assert resampled_sd(1.0, share - 1e-3, n, releases) > 0
    with pytest.raises(ValueError, match=f"give a delta below {share:g}"):
        resampled_sd(1.0, share + 1e-9, n, releases)
