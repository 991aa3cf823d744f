"""Upper bound on the information that a private release carries about the sign of one record.

Notation (name in code). Three datasets differ in the same record only. A, B and C are the
distributions of the release on each, a = A/C and b = B/C are likelihood ratios, and expectations
are under C.

    I          E (a - b)^2, the chi-square information; `record_information` bounds it
    rho        zCDP parameter of the release
    s (`unit`) sqrt(2 rho), the unit of the logarithms of a and b
    K_q        e^(q(q-1) rho), the bound on E a^q for q > 1
    h (`step`) step of the grid of ln a and ln b

Statements. Let the release be private, so that each two of A, B and C satisfy the guarantee.

    epsilon-DP  I <= (e^epsilon - 1)^2 max(e^-epsilon, 2/(e^epsilon + 2)). This is the largest I:
                randomised response and release by three values attain it.
    mu-GDP      I <= 2 (e^(mu^2) Phi(3 mu/2) - 2 Phi(mu/2) + Phi(-mu/2)) (`_gaussian_information`).
                At mu = 1 the release by graded votes (`dpbench.estimators.local_votes`) attains
                0.98 times this bound.
    rho-zCDP    I <= 2 (e^(2 rho) - F^2) (`_closed_bound`), where F is the least affinity of A
                and B. For rho from 1e-4 to 1, I <= the value of a linear program
                (`_program_bound`). For every L, I <= 2 rho e^(L s) + a tail
                (`_bound_for_small_rho`). The bound is the smallest of these.

As rho falls, I/(2 rho) tends to 1: Gaussian noise on -1, 0 and 1 has an I of nearly 2 rho.

Linear program. I and the moments are linear in the joint distribution of (a, b). Its mass is moved
to the vertices of a triangulated grid. Moving keeps the means of a and b. It raises I, because
(a - b)^2 is convex, and the moments at most by a known factor (`_chord_ratio`). So the largest
value over distributions on the vertices is a bound. The code returns the value of the dual, which
certifies the bound however the solver found it.

Proof: docs/theory/record_information.md.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, Budget, PureDP
from dpbench.theory.bounds.numbers import entropy_logit, legendre_rule

__all__ = ["record_information"]

STEP = 0.15  # of the grid, in units of s
LOWEST, HIGHEST = 50, 43  # grid points below and above 0: ln a from -7.5 s to 6.45 s
# Orders of the moments, less 1 and in units of 1/s.
ORDERS = np.array([0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4, 5])
PROGRAM_RHO = (1e-4, 1.0)  # outside, the closed bounds are nearly as good
MAX_EPSILON = 300.0  # from here on the bound counts as infinite, because e^(2 epsilon) overflows
NODES, REACH = 100, 12.0  # of the quadrature for GDP, around 3 mu/2
MAX_EXPONENT = 60.0  # logarithm of the largest moment at a vertex; larger ones are cut


def record_information(budget: Budget) -> float:
    """Return an upper bound on the chi-square information of a release about one record.

    A, B and C are the densities of the release on three datasets that differ in one record. The
    information is I = int (A - B)^2/C. In the local model the release is one person's message.

    Parameters
    ----------
    budget : Budget
        Privacy guarantee of the release.

    Returns
    -------
    float
        Bound on I; infinite if it overflows, and NaN for notions other than pure DP, zCDP and GDP.
    """
    if isinstance(budget, PureDP):
        if budget.epsilon > MAX_EPSILON:
            return np.inf
        growth = float(np.expm1(budget.epsilon))
        return growth**2 * max(1 / (growth + 1), 2 / (growth + 3))
    if isinstance(budget, GDP):
        return _gaussian_information(budget.mu)
    if isinstance(budget, ZCDP):
        return _zcdp_information(budget.rho)
    return float("nan")


def _gaussian_information(mu: float) -> float:
    """Return the bound on I under mu-GDP, with a relative error below 1e-12 for every mu.

    The three terms of the closed formula cancel as mu falls. The formula is the integral of
    2 (e^(mu x) - 1)^2 phi(x + mu/2) over x > 0. The integrand is
    2 e^(mu^2) (1 - e^(-mu x))^2 phi(x - 3 mu/2). No terms cancel, and only e^(mu^2) overflows.
    """
    nodes, weights = legendre_rule(NODES)
    centre = 1.5 * mu
    low, high = max(centre - REACH, 0.0), centre + REACH
    x = (low + high) / 2 + (high - low) / 2 * nodes
    terms = np.expm1(-mu * x) ** 2 * np.exp(-((x - centre) ** 2) / 2)
    integral = (high - low) / 2 * (weights @ terms) / np.sqrt(2 * np.pi)
    with np.errstate(over="ignore"):
        return float(2 * np.exp(mu**2) * integral)


@cache
def _zcdp_information(rho: float) -> float:
    """Return the smallest of the bounds on I under rho-zCDP."""
    bounds = [_closed_bound(rho)]
    if rho <= PROGRAM_RHO[1]:
        bounds.append(_bound_for_small_rho(rho))
        # A bound for a larger rho holds, too. The program's is above 2 rho at its own rho.
        if min(bounds) > 2 * PROGRAM_RHO[0]:
            bounds.append(_program_bound(max(rho, PROGRAM_RHO[0])))
    return min(bounds)


def _closed_bound(rho: float) -> float:
    """Return 2 (e^(2 rho) - F^2), where F = 1/cosh(l/2) bounds the affinity int sqrt(A B) below.

    Both e^(2 rho) and F^2 = 1 - tanh(l/2)^2 are near 1 for small rho, so 1 is taken from each.
    """
    with np.errstate(over="ignore"):
        return float(2 * (np.expm1(2 * rho) + np.tanh(entropy_logit(rho) / 2) ** 2))


def _bound_for_small_rho(rho: float) -> float:
    """Return the smallest of the bounds 2 rho e^(L s) + tail, for 300 values L from 1 to 30.

    Here s is sqrt(2 rho). The tail bounds the part of I where a or b exceeds e^(L s).
    """
    unit, reach = np.sqrt(2 * rho), np.linspace(1, 30, 300)
    outside = 2 * np.exp(-((reach * unit + rho) ** 2) / (4 * rho))
    return float(np.min(2 * rho * np.exp(reach * unit) + _tail(rho, outside)))


def _tail(rho: float, outside: Floats | float) -> Floats:
    """Return a bound on the part of I from an event of probability at most `outside` under C.

    By the Cauchy-Schwarz inequality it is sqrt(E (a-b)^4 P(event)). E (a-b)^4 is at most 16 (K_4 -
    1), because (a-1)^4 <= a^4 - 1 - 4 (a-1).
    """
    return np.asarray(np.sqrt(16 * np.expm1(12 * rho) * outside))


class _Grid(NamedTuple):
    """Vertices of the triangulated grid with a >= b, and what is lost outside of the grid."""

    log_a: Floats
    log_b: Floats
    outside: float  # bound on the probability under C that a or b is outside
    lost_mean: float  # bound on the part of E a from outside


def _grid(rho: float) -> _Grid:
    """Return the grid of likelihood ratios for rho-zCDP."""
    unit = np.sqrt(2 * rho)
    points = np.arange(-LOWEST, HIGHEST + 1) * STEP * unit
    i, j = np.tril_indices(len(points))
    low = np.exp(-((points[0] + rho) ** 2) / (4 * rho))
    high = np.exp(-((points[-1] + rho) ** 2) / (4 * rho))
    outside = float(2 * (low + high))
    lost_mean = outside + float(np.sqrt(np.expm1(2 * rho) * outside))
    return _Grid(points[i], points[j], outside, lost_mean)


@cache  # the same program serves every smaller rho
def _program_bound(rho: float) -> float:
    """Return the bound on I from the linear program over the vertices of the grid.

    Rows are divided by their right-hand sides. Every variable is the mass at a vertex, times the
    largest entry of the vertex. So the sum of all variables is at most the number of rows, and an
    error of the dual solution can be added to the bound.
    """
    from scipy.optimize import linprog

    grid = _grid(rho)
    a, b = np.exp(grid.log_a), np.exp(grid.log_b)
    mean = (a + b) / 2
    rows = np.vstack([*_moments(rho, grid), np.ones_like(a), mean, -np.ones_like(a), -mean])
    right = np.ones(len(rows))
    right[-2:] = grid.outside - 1, grid.lost_mean - 1
    largest = np.abs(rows).max(axis=0)
    gain, rows = (a - b) ** 2 / rho / largest, rows / largest
    found = linprog(-gain, A_ub=rows, b_ub=right, bounds=(0, None), method="highs")
    if found.ineqlin is None or found.fun is None:
        return np.inf
    dual = np.maximum(-found.ineqlin.marginals, 0)
    missing = max(float((gain - dual @ rows).max()), 0.0)
    value = rho * (float(dual @ right) + missing * len(rows))
    return value + float(_tail(rho, grid.outside))


def _moments(rho: float, grid: _Grid) -> list[Floats]:
    """Return the constraints of zCDP: moments of likelihood ratios over their bounds K_q."""
    unit, rows = np.sqrt(2 * rho), []
    x, y = grid.log_a, grid.log_b
    for q in 1 + ORDERS / unit:
        log_limit = q * (q - 1) * rho + np.log(2 * _chord_ratio(q, STEP * unit))
        pairs = (
            (q * x, q * y),
            ((1 - q) * x, (1 - q) * y),
            (q * x + (1 - q) * y, q * y + (1 - q) * x),
        )
        rows += [
            sum(np.exp(np.minimum(one - log_limit, MAX_EXPONENT)) for one in pair) for pair in pairs
        ]
    return rows


def _chord_ratio(q: float, step: float) -> float:
    """Return the largest quotient of a chord of t^q between t = 1 and e^h, and t^q itself.

    Powers are scale-free, so the quotient is the same for every cell of the grid. It is also the
    same for t^(1-q).
    """
    end = np.exp(step)
    slope = (end**q - 1) / (end - 1)
    start = 1 - slope
    t = q * start / ((1 - q) * slope)  # where the derivative of the quotient is 0
    return float((start + slope * t) * t**-q)
