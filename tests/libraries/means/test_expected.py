"""Tests of expected errors and lower bounds of libraries by quadrature and linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from dpbench.libraries.means.expected import lower_bound, predict_error


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
