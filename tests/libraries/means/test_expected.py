"""Tests of expected errors and lower bounds of libraries by quadrature and linear programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.sparse import coo_array

from dpbench.libraries.means.expected import (
    lower_bound,
    predict_error,
    predict_variance_error,
)


@pytest.mark.parametrize("m", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("noise", ["laplace", "sum_and_count"])
@pytest.mark.parametrize("truncated", [False, True])
def test_expected_errors_by_quadrature(noise: Any, m: float, truncated: bool) -> None:
    """Average the errors over a grid of quantiles of both noises, for an interval of width 3 b."""
    u = (np.arange(3000) + 0.5) / 3000
    laplace = -np.sign(u - 0.5) * np.log(1 - 2 * np.abs(u - 0.5))
    c = 2 * (m - 0.5) if noise == "sum_and_count" else 0.0
    error = laplace[:, None] - c * (laplace if c else np.zeros(1))
    if truncated:
        error = np.clip(error, -3 * m, 3 * (1 - m))
    result = predict_error(noise, m, 3.0, truncated=truncated)
    assert result == pytest.approx((np.abs(error).mean(), error.mean()), abs=2e-3)


def _three_sums(x: Any, c: float, h: float, about: float, middle: float, clip: bool) -> Any:
    """Return errors of 400,000 variances from noisy sums of records in an interval of length 1.

    The sums are of 1, of x - c for the middle c of the interval, and of (x - about)^2 - middle.
    The unit is 1/(n epsilon).
    """
    rng, n, epsilon = np.random.default_rng(0), len(x), 1.0
    squares = (x - about) ** 2 - middle
    scales = np.array([1.0, 0.5, h]) * 3 / epsilon
    count, total, square = (
        exact + rng.laplace(0, scale, 400_000)
        for exact, scale in zip((n, (x - c).sum(), squares.sum()), scales, strict=True)
    )
    release = square / count + middle - (total / count + c - about) ** 2
    release = np.clip(release, 0, 0.25) if clip else release
    return (release - x.var()) * n * epsilon


# In units of the width: the lower end of the interval, and middle and half of that of the squares.
@pytest.mark.parametrize("p", [0.0, 0.2, 0.5])
@pytest.mark.parametrize(
    ("lower", "upper", "start", "middle", "h"),
    [(0, 1, 0, 0.5, 0.5), (2, 3, 2, 6.5, 2.5), (-1, 1, -0.5, 0.125, 0.125), (-2, 0, -1, 0.5, 0.5)],
)
def test_expected_errors_of_variances(
    p: float, lower: float, upper: float, start: float, middle: float, h: float
) -> None:
    """Simulate: an average of 400,000 errors of sd 20 is known to 0.03; 6 of these are allowed."""
    u = np.repeat([0.0, 0.75], [round(8000 * (1 - p)), round(8000 * p)])
    simulated = {
        "google_sums": _three_sums(u + start, start + 0.5, h, 0.0, middle, True),
        "pipeline_sums": _three_sums(u + start, start + 0.5, h, start + 0.5, 0.0, False),
    }
    for noise, errors in simulated.items():
        found = predict_variance_error(noise, u, lower, upper, 1.0)  # type: ignore[arg-type]
        assert found == pytest.approx((np.abs(errors).mean(), errors.mean()), abs=0.18)
    assert predict_variance_error("laplace", u, lower, upper, 1.0) == pytest.approx((1.0, 0.0))


def test_the_page_says_how_much_bounds_far_from_0_cost() -> None:
    u = (np.arange(10**5) + 0.5) / 10**5
    near, far = (predict_variance_error("google_sums", u, a, a + 1, 10.0).error for a in (0, 10))
    said = (
        f"on [10, 11] Google's noise for uniform records is {far / near:.0f} times that on [0, 1]"
    )
    page = (Path(__file__).parents[3] / "docs/howto/libraries.md").read_text("utf-8")
    assert said in " ".join(page.split())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("v", [0.0, 0.001, 0.2])
def test_a_bounded_laplace_variance_by_quadrature(epsilon: float, v: float) -> None:
    """The scale is the smallest that is private: at two neighbours next to an end, by a grid."""
    n = 4000
    u = np.repeat([0.0, 1.0], [round(n * (1 + np.sqrt(1 - 4 * v)) / 2), 0])
    u = np.append(u, np.ones(n - len(u)))
    found = predict_variance_error("bounded_laplace", u, 0, 1, epsilon)
    # Densities on [0, 1/4] around 0 and around 1/n, both normalised on this interval.
    z = (np.arange(400_000) + 0.5) / 400_000 / 4

    def density(centre: float, scale: float) -> Any:
        shape = np.exp(-np.abs(z - centre) / scale)
        return shape / shape.sum()

    def loss(scale: float) -> float:
        first, second = density(0.0, scale), density(1 / n, scale)
        near = z < 20 * scale
        return float(np.log(first[near] / second[near]).max())

    scale = brentq(lambda b: loss(b) - epsilon, 0.5 / n / epsilon, 4 / n / epsilon)
    shares, unit = density(float(u.var()), scale), 1 / (n * epsilon)
    errors = (z - u.var()) / unit
    assert found == pytest.approx((shares @ np.abs(errors), shares @ errors), rel=5e-3, abs=5e-3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_lower_bounds_by_linear_programs(epsilon: float) -> None:
    """Minimise sum f |x - y| / sum f over the densities f that neighbours allow, for three y."""

    def least(grid: int) -> float:
        """Return the minimum for columns 1/grid apart; columns up to 1 apart are neighbours."""
        x = np.arange(-24 * grid, 24 * grid + 1) / grid
        i, j = np.nonzero((np.abs(x[:, None] - x) <= 1) & (x[:, None] != x))
        row, ratio = np.arange(len(i)), np.full(len(i), -np.exp(epsilon))
        values = np.concatenate([np.ones(len(i)), ratio])
        inequalities = coo_array((values, (np.tile(row, 2), np.concatenate([i, j])))).tocsr()
        constraints: dict[str, Any] = {
            "A_ub": inequalities,
            "b_ub": np.zeros(len(i)),
            "A_eq": np.ones((1, len(x))),
        }
        minima = [
            linprog(np.abs(x - y), **constraints, b_eq=[1]).fun for y in (0, 0.3 / grid, 0.5 / grid)
        ]
        return float(epsilon * min(minima))

    assert lower_bound("add_remove", 1.0, epsilon) == pytest.approx(least(1), rel=1e-3)
    assert lower_bound("add_remove", 0.4, epsilon) == pytest.approx(0.6 * least(1), rel=1e-3)
    assert lower_bound("replace", 0.4, epsilon) == pytest.approx(least(4), rel=0.01)
