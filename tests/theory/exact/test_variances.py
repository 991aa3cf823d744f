"""Tests of exact errors of variances against characteristic functions and closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, optimize

from dpbench.distributions import Bernoulli, Beta, Distribution
from dpbench.estimators import (
    BezierVariance,
    ClippedMean,
    ClippedVariance,
    Estimator,
    PairVariance,
    ThreeSumsVariance,
)
from dpbench.privacy import Budget, PureDP
from dpbench.theory.exact.value import exact


def _quantile(weights: list[float]) -> float:
    """0.9 quantile of the size of a sum of Laplace variables, by its characteristic function."""
    scales = np.abs([w for w in weights if abs(w) > 1e-12])

    def tail(t: float) -> float:
        def density(u: float) -> float:
            return float(np.sin(u * t) / u / np.prod(1 + (scales * u) ** 2))

        found = integrate.quad(density, 0, 100 / scales.min(), limit=2000, epsabs=1e-9)
        return float(1 - 2 / np.pi * found[0])

    return float(optimize.brentq(lambda t: tail(t) - 0.1, 0.01, 50))


LAWS = [Beta(a=1, b=1), Beta(a=2, b=8), Bernoulli(p=0.02)]


@pytest.mark.parametrize("law", LAWS, ids=["uniform", "skewed", "rare"])
def test_the_noise_is_that_of_its_characteristic_function(law: Distribution) -> None:
    """From mean and mean square: derivatives of the variance in the noises, times n epsilon."""
    m, n, budget = float(law.mean), 10**6, PureDP(0.1, neighbours="add_remove")
    s = float(law.variance) + m**2
    of_size, middle, spread = 2 * m**2 - s, m - 0.5, s - m + 0.25
    wanted: dict[Estimator, list[float]] = {
        BezierVariance(): [of_size, of_size - m, of_size - 2 * m + 1],
        ThreeSumsVariance(): [3 * (2 * middle**2 - spread), 3 * middle, 0.75],
        ThreeSumsVariance(centred=False): [3 * of_size, 6 * m, 3.0],
    }
    for estimator, weights in wanted.items():
        found = exact("noise_q90", estimator, law, n, budget) * n * 0.1
        assert found == pytest.approx(_quantile(weights), rel=1e-4)


PAIRS = PairVariance(base=ClippedMean(lower=0, upper=0.5))
PUBLIC, PRIVATE = PureDP(0.1), PureDP(0.1, neighbours="add_remove")


@pytest.mark.parametrize(
    ("estimator", "law", "budget", "wanted"),
    [
        (ClippedVariance(lower=0, upper=1), LAWS[0], PUBLIC, np.log(10)),
        (PAIRS, LAWS[0], PUBLIC, np.log(10)),  # half of the width, from half as many
        # The error is Z/(2n) where it is negative, and the clip cuts all others off.
        (BezierVariance(), Bernoulli(p=0.5), PRIVATE, np.log(5) / 2),
        (BezierVariance(), Bernoulli(p=0.5), PUBLIC, np.log(5)),
    ],
)
def test_noise_in_closed_form(
    estimator: Estimator, law: Distribution, budget: Budget, wanted: float
) -> None:
    n = 10**6
    assert exact("noise_q90", estimator, law, n, budget) * n * 0.1 == pytest.approx(wanted, 1e-5)


def test_the_sampling_error_of_records_and_of_pairs() -> None:
    """Without noise the error is normal; its variance is (q - v^2)/n, or (q + v^2)/n for pairs.

    A uniform record has the fourth central moment q = 1/80, and the variance v = 1/12.
    """
    n, budget, z = 10**4, PureDP(1e6), 1.6448536
    for estimator, square in ((ClippedVariance(lower=0, upper=1), -1), (PAIRS, 1)):
        wanted = z * np.sqrt((1 / 80 + square / 144) / n)
        assert exact("q90", estimator, LAWS[0], n, budget) == pytest.approx(wanted, rel=1e-4)


def test_a_public_n_is_exact_for_few_records() -> None:
    """The sensitivity is (n - 1)/n^2; pairs whose clip cuts squares off are not known."""
    noise = exact("noise_q90", ClippedVariance(lower=0, upper=1), LAWS[0], 100, PureDP(10.0))
    assert noise == pytest.approx(99 / 100**2 * np.log(10) / 10, rel=1e-3)
    narrow = PairVariance(base=ClippedMean(lower=0, upper=0.4))
    assert np.isnan(exact("noise_q90", narrow, LAWS[0], 10**6, PUBLIC))


def test_the_page_says_what_three_sums_lose() -> None:
    """The ratio of both noises for the four distributions of `sweep=variance`."""
    ratios = []
    for law in (*LAWS, Bernoulli(p=0.5)):
        best, sums = (
            exact("noise_q90", estimator, law, 32_000, PRIVATE)
            for estimator in (BezierVariance(), ThreeSumsVariance())
        )
        ratios.append(sums / best)
    page = (Path(__file__).parents[3] / "docs" / "howto" / "choose.md").read_text("utf-8")
    said = f"{min(ratios):.1f} to {max(ratios):.1f} times the noise of `bezier_variance`"
    assert said in page, said
