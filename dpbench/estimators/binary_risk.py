"""The minimax risk of a binary mean under each notion of privacy, and the rule that attains it.

Let S ~ Binomial(n, p) be the number of ones among n records. The estimand is p, and the loss is the
squared error. Let N be canonical noise (`dpbench.privacy.canonical`) for the trade-off function f
of a guarantee, and let T = S + N. GRS09 and GS10 treat epsilon-DP and losses that depend on S, not
on p. They prove that no epsilon-DP release has a smaller loss than the best function of T, rounded.
The following theorem treats the squared error of p, and all symmetric f.

Theorem. For every prior on p, no release that satisfies f has a smaller Bayes risk than
r(T) = E[p | T]. The function r increases.

The Bayes risk of any prior is a lower bound on the minimax risk. The posterior mean r of a prior,
used as a rule, gives an upper bound: the maximum over p of its risk R(p) = E (r(T) - p)^2, which is

    R(p) = E[h2(S)] - 2 p E[h1(S)] + p^2,   h1(s) = E r(s + N),  h2(s) = E r(s + N)^2.

The real line is cut into cells, and T is replaced by its cell.

- Pure and (epsilon, delta)-DP. The density of Tulap noise is constant between half-integers, up to
  its end t. So the likelihoods of all counts s keep their ratios within a cell, if cells end at the
  half-integers between 0 and n, and at s - t and s + t. Nothing is lost, and both bounds are exact.
- Gaussian DP. The cells are narrow. Because r increases, it varies in a cell by no more than the
  difference D of its means over the next cells on both sides. So the Bayes risk given the cell
  exceeds the Bayes risk given T by at most E[D^2]/4, which the lower bound subtracts.

The least favourable prior is computed by updates on a grid of values of p. Each update multiplies
the weight of p by R(p) over the average of R, and makes the prior symmetric. Between grid points a
bound on R follows from its second derivative in t, where p = sin^2 t. Let D h(s) = h(s+1) - h(s) be
differences, and D2 = D D. The derivatives R' and R'' in p are expectations over the number of ones
among n - 1 and n - 2 records:

    R' = E[u - p v],   u = n D h2 - 2 h1,   v = 2 (n+1) D h1 - 2,
    R'' = E[A - p B],  A = n (n-1) D2 h2 - 4 n D h1 + 2,   B = 2 n (n+1) D2 h1.

Proofs: docs/theory/binary_minimax.md.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy import Budget, PureDP
from dpbench.privacy.canonical import CanonicalNoise
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = ["LARGEST_N", "MinimaxRule", "binary_minimax", "minimax_for_noise"]

LARGEST_N = 1000
GAP = 1e-3  # relative gap at which updates stop; the bound between grid points adds a tenth of it
MAX_UPDATES = 20_000  # of the prior
CELL_WIDTH = 0.04  # largest width of a cell, in standard deviations of a noisy count at p = 1/2
SIGMA_TAIL = 0.15865525393145707  # probability that N(0, 1) exceeds 1
MIN_CELL = 1e-9  # narrower cells are rounding errors, and merged
OUTER_SHARE = 1e-13  # probability of noise beyond the cells, on each side


class MinimaxRule(NamedTuple):
    """A minimax rule for a binary mean, bounds on the minimax risk, and the least favourable prior.

    The rule estimates the probability p of a one from a noisy count T. It depends on the cell of T.

    Attributes
    ----------
    lower, upper : float
        Bounds on the minimax squared risk.
    rule : (m + 1,) array
        Estimates of p for the cells, from left to right.
    edges : (m,) array
        Ends of the cells, in increasing order.
    points, weights : (k,) array
        Support and probabilities of the prior on p whose Bayes risk is `lower`.
    """

    lower: float
    upper: float
    rule: Floats
    edges: Floats
    points: Floats
    weights: Floats

    def __call__(self, noisy: Floats) -> Floats:
        """Return the estimates of p from noisy counts of any shape."""
        return np.asarray(self.rule[np.searchsorted(self.edges, noisy)])


@cache
def binary_minimax(n: int, budget: Budget) -> MinimaxRule:
    """Return the minimax rule for n binary records, with bounds on the minimax risk.

    The rule estimates the mean from a count with canonical noise. The bounds are within 0.3 per
    cent of each other, and valid up to rounding. Under zCDP the noise is Gaussian, and the lower
    bound holds for Gaussian DP only; `dpbench.theory.bounds.bernoulli.binary_risk_lower_bound` has
    a bound for zCDP.

    Parameters
    ----------
    n : int
        Number of records, 1 to 1000.
    budget : Budget
        Budget of the release.

    Returns
    -------
    MinimaxRule

    Raises
    ------
    ValueError
        If n is below 1 or above 1000, or if the budget is not private.
    """
    if isinstance(budget, PureDP):
        _check_size(n)
        return _minimax(
            n, np.arange(float(n)) + 0.5, _geometric_channel(n, budget.epsilon), loss=False
        )
    return minimax_for_noise(n, budget.canonical_noise)


def minimax_for_noise(n: int, noise: CanonicalNoise) -> MinimaxRule:
    """Return the minimax rule for n binary records, from a count with given noise.

    The lower bound holds for all releases that satisfy the trade-off function for which the noise
    is canonical.

    Parameters
    ----------
    n : int
        Number of records, 1 to 1000.
    noise : CanonicalNoise
        Noise at sensitivity 1.

    Returns
    -------
    MinimaxRule

    Raises
    ------
    ValueError
        If n is below 1 or above 1000.
    """
    _check_size(n)
    edges = _edges(n, noise)
    return _minimax(n, edges, _channel(n, noise, edges), loss=not noise.steps)


def _check_size(n: int) -> None:
    """Raise ValueError if there is no record, or if there are more than `LARGEST_N`."""
    if not 1 <= n <= LARGEST_N:
        raise ValueError(f"binary_minimax is computed for up to {LARGEST_N} records, got {n}")


def _minimax(n: int, edges: Floats, channel: Floats, *, loss: bool) -> MinimaxRule:
    """Return the rule and the bounds for a noisy count that is replaced by its cell.

    The m `edges` are ends of cells. `channel` holds the probabilities of the m + 1 cells (columns)
    for the n + 1 true counts (rows). `loss` says whether a cell says less about the count than the
    noisy count does.
    """
    points = np.sin(np.linspace(0, np.pi / 2, int(2 * np.sqrt(n)) + 20)) ** 2
    likelihood = _binomial(n, points) @ channel
    weights = np.full(len(points), 1 / len(points))
    right_half = np.arange(len(edges) + 1) > len(edges) / 2  # for cells that the prior rules out
    for _ in range(MAX_UPDATES):
        marginal = weights @ likelihood
        rule = np.where(marginal > 0, (weights * points) @ likelihood, right_half)
        rule /= np.where(marginal > 0, marginal, 1.0)
        risk = likelihood @ rule**2 - 2 * points * (likelihood @ rule) + points**2
        lower = float(weights @ risk)
        if risk.max() <= (1 + GAP) * lower:
            break
        weights = weights * risk / lower
        weights = np.maximum(weights + weights[::-1], 1e-300)
        weights /= weights.sum()
    upper = _largest_risk(n, channel, rule, lower)
    if loss:
        around = np.pad(rule, 1, constant_values=(0.0, 1.0))
        lower -= float(marginal @ (around[2:] - around[:-2]) ** 2) / 4
    return MinimaxRule(lower, upper, rule, edges, points, weights)


def _edges(n: int, noise: CanonicalNoise) -> Floats:
    """Return the ends of the cells into which noisy counts of n records are sorted.

    If the noise has a density without steps, the width of a cell is a power of two, and at most
    `CELL_WIDTH` standard deviations of the noisy count at p = 1/2. The cells are symmetric about
    n/2, and cover all but a share `OUTER_SHARE` of the noise on each side.
    """
    if noise.steps:
        counts = np.arange(n)
        jumps = [counts + 1 - noise.end, counts + noise.end] if np.isfinite(noise.end) else []
        edges = np.sort(np.concatenate([counts + 0.5, *jumps]))
        return np.asarray(edges[np.append(np.diff(edges), np.inf) > MIN_CELL])
    spread = float(noise.upper_quantile(np.asarray(SIGMA_TAIL)))
    width = 2.0 ** np.floor(np.log2(CELL_WIDTH * np.hypot(np.sqrt(n) / 2, spread)))
    reach = n / 2 + float(noise.upper_quantile(np.asarray(OUTER_SHARE)))
    half = np.arange(0.0, reach + width, width)
    return n / 2 + np.concatenate([-half[:0:-1], half])


def _geometric_channel(n: int, epsilon: float) -> Floats:
    """Return the distribution of the cell under epsilon-DP, shape (n + 1, n + 1).

    Tulap noise in cells between half-integers is two-sided geometric noise, and counts outside of
    0, ..., n are moved to the nearer end. Unlike the differences of tails in `_channel`, these
    formulas lose no digits for small epsilon.
    """
    s = np.arange(n + 1)
    channel = np.exp(-epsilon * abs(s[:, None] - s)) / (1 + np.exp(-epsilon))
    channel[:, 1:-1] *= -np.expm1(-epsilon)
    return np.asarray(channel)


def _channel(n: int, noise: CanonicalNoise, edges: Floats) -> Floats:
    """Return the distribution of the cell of a noisy count, shape (n + 1, len(edges) + 1).

    Rows are true counts 0, ..., n, and columns are cells. The tail probabilities are those of the
    nearer side of the noise, because differences from 1 would lose digits.
    """
    x = np.concatenate([[-np.inf], edges, [np.inf]]) - np.arange(n + 1)[:, None]
    tail = noise.upper_tail(np.abs(x[:, 1:-1]))
    tail = np.pad(tail, [(0, 0), (1, 1)])
    left, right = tail[:, :-1], tail[:, 1:]
    across = 1 - left - right  # the cell contains the true count
    return np.asarray(
        np.where(x[:, 1:] <= 0, right - left, np.where(x[:, :-1] >= 0, left - right, across))
    )


def _binomial(n: int, p: Floats) -> Floats:
    """Return the probabilities of 0, ..., n ones among n records, shape (len(p), n + 1).

    The array `p` holds probabilities of a one; each gives a row.
    """
    inside = np.clip(p, 1e-300, 1 - 1e-16)[:, None]
    law = np.exp(log_binomial_pmf(np.arange(n + 1), n, inside))
    law[p == 0], law[p == 1] = np.eye(n + 1)[[0, n]]
    return law


def _largest_risk(n: int, channel: Floats, rule: Floats, scale: float) -> float:
    """Return an upper bound on the squared risk of a rule, over all probabilities p of a one.

    The risk is evaluated on a grid of p in [0, 1/2]; by symmetry this covers [0, 1]. A bound on the
    second derivative covers the points between. The docstring of `dpbench.estimators.binary_risk`
    has the derivatives; its u, v, A and B are `first`, `first_p`, `second` and `second_p` in the
    code. `channel` is the matrix of `_channel`, and `rule` holds an estimate for each of its cells
    (columns). `scale` > 0 is a lower bound on the minimax risk, which sets the spacing of the grid.
    """
    h1, h2 = channel @ rule, channel @ rule**2
    s, d1, d2 = np.arange(1, n), np.diff(h1), np.diff(h2)
    first, first_p = n * d2 - 2 * h1[:-1], 2 * (n + 1) * d1 - 2
    second = n * (n - 1) * np.diff(d2) - 4 * n * d1[:-1] + 2
    second_p = 2 * n * (n + 1) * np.diff(d1)
    slope = max(abs(first - p * first_p).max() for p in (0, 0.5))
    bends = [s * (n - s) * abs(second - p * second_p) for p in (0, 0.5)]
    curvature = 2 * slope + 4 * np.max(bends, initial=0) / max(n * (n - 1), 1)
    t = np.linspace(0, np.pi / 4, 2 + int(np.sqrt(curvature / (8 * GAP / 10 * scale))))
    largest = 0.0
    for piece in np.array_split(t, -(-len(t) // 500)):  # 500 x 1001 numbers at a time
        p = np.sin(piece) ** 2
        law = _binomial(n, p)
        largest = max(largest, float((law @ h2 - 2 * p * (law @ h1) + p**2).max()))
    return float(largest + curvature * t[1] ** 2 / 8)
