"""Lower bounds on the error of vector means, from the information of a release about a rotation.

The bounds are fingerprinting bounds: an accurate release is correlated with every record, and
privacy limits this correlation. They hold for a quantile of the error.

Notation (name in code). There are n records of d >= 2 coordinates, and u is a uniform unit vector.

    P, tau         a record is 0 with probability 1 - P, else tau sqrt(d) Y for a unit vector Y
    g              density of y = <u, Y> for Y given u, proportional to
                   (1 - y^2)^((d-3)/2) e^(b y - c y^2)
    r (`mean`)     sqrt(d) E y; the mean of a record is R u, R = P tau r
    s(Y)           gradient of ln g in u, a vector orthogonal to u
    lambda (`fisher`)  mean square of s(Y) in any one direction orthogonal to u
    J              trace of the Fisher information of the release about u
    j (`per_record`)  `record_correlation`: privacy bounds the mean product of a record's score and
                   a fixed function of the release by sqrt(j lambda) times the norm of the function

Statement. The release has an information J with

    1/J >= 1/((n P)^2 j lambda) + (1 - 1/n)/(n P (d-1) lambda).

The first term is the cost of privacy, and the second is that of sampling. If J is at most the
number in `hidden_directions` for the angle theta, every private estimator errs by R sin(theta) with
probability at least beta for some u. Under (epsilon, delta)-DP the number is less by a multiple of
n P delta (`_leak`), and P solves a quadratic equation.

    notion             j
    pure DP            the smaller of I/4 and ((e^epsilon - 1)/2)^2 G
    zCDP, GDP          I/4, with I of `record_information`
    (epsilon, delta)   ((e^epsilon - 1)/2)^2 G

G = (d-1) (E|v_1|)^2 for a uniform unit vector v in d - 1 dimensions; G tends to 2/pi.

Classes. Moments: E|<v, X - mean>|^k <= 1 for all unit vectors v. For k = 2 tau makes the largest
variance 1, and otherwise c = 0 and tau makes an upper bound on all moments 1. Gaussian: N(R u, I),
with P = 1, s = R times the part of X orthogonal to u, lambda = R^2, and R <= 1.

For large d the bound for moments of order 2 is near 0.52 sqrt(d/n) ((1 - beta)/j)^(1/4) if
sampling costs nothing. It grows like sqrt(d), and the packing bound in
`dpbench.theory.bounds.vectors` only like d^(1/4), except under pure DP.

Proof: docs/theory/fingerprinting.md. Fingerprinting for approximate DP is due to Bun, Ullman and
Vadhan (2014), and for heavy tails to Kamath, Mouzakis and Singhal (2022); the constants are proved
here.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, legendre_rule
from dpbench.theory.bounds.record_information import MAX_EPSILON, record_information
from dpbench.theory.bounds.sphere import HiddenDirections, hidden_directions

__all__ = ["fingerprinting_bound", "gaussian_fingerprinting_bound", "record_correlation"]

TILTS = np.geomspace(0.05, 6, 50)  # b/sqrt(d)
FLATTENINGS = (0.0, 0.1, 0.2, 0.33, 0.5)  # c/d; the last four for k = 2 only
NODES = 300  # of the quadrature over the angle between u and Y
REACH = 12.0  # of the quadrature around the mean of y, in units of 1/sqrt(d)
FAR = 12.0  # a normal vector is longer than sqrt(d) + FAR with probability below e^-72


def record_correlation(d: int, budget: Budget) -> float:
    """Return j, which bounds the correlation of a private release with one record's score.

    Parameters
    ----------
    d : int
        Number of coordinates, at least 2.
    budget : Budget
        Privacy guarantee of the release. Its delta counts separately.

    Returns
    -------
    float
        The number j; NaN if no bound is known for the privacy notion.
    """
    information = record_information(budget) / 4
    if isinstance(budget, PureDP | ApproxDP):
        if budget.epsilon > MAX_EPSILON:
            return np.inf
        first_share = np.exp(2 * (gammaln((d - 1) / 2) - gammaln(d / 2))) * (d - 1) / np.pi
        return float(np.nanmin([information, (np.expm1(budget.epsilon) / 2) ** 2 * first_share]))
    return information


class _Tilts(NamedTuple):
    """Distributions of y, an array entry for each pair (b, c)."""

    mean: Floats  # r = sqrt(d) E y
    along: Floats  # k-th root of the k-th absolute moment of sqrt(d) y
    across: Floats  # mean square of a coordinate of sqrt(d) Y that is orthogonal to u
    fisher: Floats  # lambda
    longest: Floats  # largest norm of the score


@cache
def _tilts(d: int, k: float) -> _Tilts:
    """Return the moments and the Fisher information of the distributions of y that are tried."""
    nodes, weights = legendre_rule(NODES)
    flattenings = FLATTENINGS if k == 2 else FLATTENINGS[:1]
    moments = [
        _tilt(d, k, tilt * np.sqrt(d), flattening * d, nodes, weights)
        for flattening in flattenings
        for tilt in TILTS
    ]
    return _Tilts(*np.array(moments).T)


def _tilt(
    d: int, k: float, b: float, c: float, nodes: Floats, weights: Floats
) -> tuple[float, float, float, float, float]:
    """Return the entries of `_Tilts` for one pair (b, c), by quadrature over arccos y."""
    centre = np.arcsin(min(b / (d + 2 * c), 1.0))
    low = max(centre - REACH / np.sqrt(d), -np.pi / 2)
    high = min(centre + REACH / np.sqrt(d), np.pi / 2)
    angle = (low + high) / 2 + (high - low) / 2 * nodes  # pi/2 less the angle between u and Y
    y, room = np.sin(angle), np.cos(angle)
    log_density = (d - 2) * np.log(room) + b * y - c * y**2
    density = weights * np.exp(log_density - log_density.max())
    density /= density.sum()
    score = (b - 2 * c * y) * room
    everywhere = np.linspace(-np.pi / 2, np.pi / 2, 2001)
    norms = np.abs((b - 2 * c * np.sin(everywhere)) * np.cos(everywhere))
    return (
        float(np.sqrt(d) * (density @ y)),
        float(np.sqrt(d) * (density @ (np.abs(y) / np.abs(y).max()) ** k) ** (1 / k))
        * float(np.abs(y).max()),
        float(d / (d - 1) * (density @ room**2)),
        float(density @ score**2 / (d - 1)),
        float(norms.max()) * 1.001,  # between the points
    )


@cache
def fingerprinting_bound(
    n: int, d: int, k: float, budget: Budget, *, rare: float = 0.0, beta: float = BETA
) -> float:
    """Return the lower bound on the l2 error for central k-th moments of at most 1.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of coordinates of a record, at least 2.
    k : float
        Order of the moment: E|<v, X - mean>|^k <= 1 for every unit vector v.
    budget : Budget
        Privacy guarantee of the estimator.
    rare : float, default 0.0
        Largest probability P of a non-zero record for which the bound counts the cost of sampling,
        too. For larger P it counts the cost of privacy alone.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    float
        The bound; NaN if none is known for the privacy notion.
    """
    per_record = record_correlation(d, budget)
    if np.isnan(per_record):
        return float("nan")
    hidden, tilts = hidden_directions(d, beta), _tilts(d, k)
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    # An estimator may ignore records, so the bound for 2 records holds for 1.
    probability = np.maximum(
        _probability(n, d, per_record, hidden, tilts, rare, delta),
        _probability(max(n, 2), d, per_record, hidden, tilts, rare, delta),
    )
    possible = np.maximum(probability, 1e-300)
    norm = probability * tilts.mean * _largest_tau(possible, tilts, k)
    return float(np.max(norm * np.sin(hidden.angle)[:, None], initial=0.0))


def _probability(
    n: int,
    d: int,
    per_record: float,
    hidden: HiddenDirections,
    tilts: _Tilts,
    rare: float,
    delta: float,
) -> Floats:
    """Return the largest P at which the bound on J is allowed, (angles, distributions of y).

    If P is at most `rare` the bound on J counts the cost of sampling. Otherwise it is the larger
    bound from privacy alone.
    """
    allowed = hidden.information[:, None]
    private = 1 / (float(n) ** 2 * per_record * tilts.fisher)  # P^2/J
    leak = _leak(hidden, n * delta * tilts.longest)
    probability = np.minimum(_root(1.0, leak * private, allowed * private), 0.5)
    if not rare or n == 1:
        return np.asarray(probability)
    # J = 1/(private/P^2 + sampled/P) is allowed if J + 2 P leak is at most `allowed`. The cost of
    # sampling subtracts a mean from the gradient of ln w, so the leak doubles.
    sampled = (1 - 1 / n) / (n * (d - 1) * tilts.fisher)
    slope = 2 * leak * private - allowed * sampled
    joint = _root(1 + 2 * leak * sampled, slope, allowed * private)
    return np.maximum(probability, np.minimum(joint, min(rare, 0.5)))


def _root(square: Floats | float, slope: Floats, target: Floats) -> Floats:
    """Return the larger root x of `square` x^2 + `slope` x = `target`; target may be 0."""
    size = np.abs(slope) + np.sqrt(slope**2 + 4 * square * target)
    return np.asarray(
        np.where(slope < 0, size / (2 * square), 2 * target / np.maximum(size, 1e-300))
    )


def _leak(hidden: HiddenDirections, sum_of_scores: Floats | float) -> Floats:
    """Return by how much delta > 0 lowers the allowed J, an array (angles, distributions of y).

    `sum_of_scores` is n P delta times the largest norm of a score. The bound on the probability of
    success grows by kappa times this, times the largest norm of the gradient of ln w.
    """
    return np.asarray(4 * hidden.steepness[:, None] * sum_of_scores)


def _largest_tau(probability: Floats, tilts: _Tilts, k: float) -> Floats:
    """Return the largest tau at which the k-th central moment is at most 1 in every direction."""
    p, shift = probability, probability * tilts.mean
    if k == 2:
        along = p * (tilts.along**2 - p * tilts.mean**2)
        return np.asarray(np.maximum(along, p * tilts.across) ** -0.5)
    # Minkowski's inequality; E|<v, Y>|^k is largest at v = u, because the even part of the density
    # grows in |y|.
    longest = tilts.along + shift  # lengths are divided by it, so that no power overflows
    moment = (1 - p) * (shift / longest) ** k + p
    return np.asarray(moment ** (-1 / k) / longest)


@cache
def gaussian_fingerprinting_bound(n: int, d: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the l2 error for N(mean, I) with an unknown mean.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of coordinates of a record, at least 2.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    float
        The bound in standard deviations; NaN if none is known for the privacy notion.
    """
    per_record = record_correlation(d, budget)
    if np.isnan(per_record):
        return float("nan")
    score = 0.0  # delta times the largest norm of a score, over the radius
    if isinstance(budget, ApproxDP):
        if budget.epsilon > MAX_EPSILON:
            return 0.0
        per_record = (np.expm1(budget.epsilon) / 2) ** 2 * 2 / np.pi  # E|z| of a normal z
        score = budget.delta * (np.sqrt(d) + FAR) + np.sqrt(d) * np.exp(-(FAR**2) / 4)
    hidden = hidden_directions(d, beta)

    def radius(n: int) -> Floats:
        """Return the largest R at which the bound on J, for n records, is allowed."""
        private, leak = 1 / (float(n) ** 2 * per_record), 4 * hidden.steepness * n * score
        joint = private + (1 - 1 / n) / (n * (d - 1))
        found = (
            _root(1.0, factor * leak * cost, hidden.information * cost)
            for cost, factor in ((private, 1), (joint, 2))
        )
        return np.minimum(np.maximum(*found), 1)

    # An estimator may ignore records, so the bound for 2 records holds for 1.
    largest = np.maximum(radius(n), radius(max(n, 2)))
    return float(np.max(largest * np.sin(hidden.angle), initial=0.0))
