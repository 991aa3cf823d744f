"""Errors of libraries' means and their bounds, by quadrature and linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from dpbench.estimators.libraries.expected import expected, lower_bound


@pytest.mark.parametrize("m", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("noise", ["laplace", "sum_and_count"])
@pytest.mark.parametrize("truncated", [False, True])
def test_expected_errors_by_quadrature(noise: Any, m: float, truncated: bool) -> None:
    """On a grid of the quantiles of both noises, at a width of 3 b."""
    u = (np.arange(3000) + 0.5) / 3000
    one = -np.sign(u - 0.5) * np.log(1 - 2 * np.abs(u - 0.5))
    c = 2 * (m - 0.5) if noise == "sum_and_count" else 0.0
    error = one[:, None] - c * (one if c else np.zeros(1))
    if truncated:
        error = np.clip(error, -3 * m, 3 * (1 - m))
    found = expected(noise, m, 3.0, truncated=truncated)
    assert found == pytest.approx((np.abs(error).mean(), error.mean()), abs=2e-3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_lower_bounds_by_linear_programs(epsilon: float) -> None:
    """The least sum f |x - y| / sum f over the densities that neighbours allow, for three y."""

    def least(grid: int) -> float:
        """Of columns 1/grid apart, which are neighbours at distances up to 1."""
        x = np.arange(-24 * grid, 24 * grid + 1) / grid
        i, j = np.nonzero((np.abs(x[:, None] - x) <= 1) & (x[:, None] != x))
        row, ratio = np.arange(len(i)), np.full(len(i), -np.exp(epsilon))
        values = np.concatenate([np.ones(len(i)), ratio])
        unlike = coo_array((values, (np.tile(row, 2), np.concatenate([i, j])))).tocsr()
        about: dict[str, Any] = {
            "A_ub": unlike,
            "b_ub": np.zeros(len(i)),
            "A_eq": np.ones((1, len(x))),
        }
        found = [linprog(np.abs(x - y), **about, b_eq=[1]).fun for y in (0, 0.3 / grid, 0.5 / grid)]
        return float(epsilon * min(found))

    assert lower_bound("add_remove", 1.0, epsilon) == pytest.approx(least(1), rel=1e-3)
    assert lower_bound("add_remove", 0.4, epsilon) == pytest.approx(0.6 * least(1), rel=1e-3)
    assert lower_bound("replace", 0.4, epsilon) == pytest.approx(least(4), rel=0.01)
