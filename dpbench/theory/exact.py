"""What columns of a summary tend to as trials grow, computed without drawing anything.

A clipped mean before its noise is the average V of independent records, clipped and less what they
are compared with, the target or their own mean. Of two different values V is a scaled binomial,
else it is normal by the central limit theorem. With noise Z independent of V,
P(|V + Z| <= x) = E[F(x - V) - F(-x - V)].

Nothing here calls an estimator: an error in one must not move both sides of a claim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from dpbench.arrays import Floats
from dpbench.distributions import (
    Bernoulli,
    ContaminatedGaussian,
    Distribution,
    Empirical,
    Gaussian,
    Hypercube,
    Pareto,
    StudentT,
    TwoPoint,
)
from dpbench.estimators import CoordinateWise, Estimator, KSU20Mean, SubsampleAggregate
from dpbench.privacy import Budget, NonPrivate
from dpbench.theory.last_step import last_step
from dpbench.theory.noise import Noise

__all__ = ["binomial", "exact"]

Atoms = tuple[Floats, Floats]  # points and their probabilities

MOST = 10_001  # points of a law
MOST_SKEWED = 0.1  # and most kurtosis, of what passes for normal
NAN = float("nan")


def exact(metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget) -> float:
    """What a column of a summary tends to as trials grow; NaN where it is not known.

    Parameters
    ----------
    metric : {'noise_q90', 'q90', 'private_q90', 'mean_error'}
        See `dpbench.metrics.METRICS`. Others are not known.
    estimator, budget
        Only their parameters are read.
    law : Distribution
    n : int
        Records, all that the estimator gets.

    Returns
    -------
    float
        In the unit of the records. Of what rests on a private choice it is for the right choice:
        it holds where that is nearly certain, see `exact_miss`.
    """
    if isinstance(budget, NonPrivate) or not estimator.supports(budget):
        return NAN
    if metric == "noise_q90":
        return _noise_quantile(estimator, law, n, budget)
    if metric in ("q90", "private_q90", "mean_error"):
        find = _scalar_error if law.d == 1 else _vector_error
        return find(metric, estimator, law, n, budget)
    return NAN


def binomial(n: float, p: float) -> Atoms:
    """Counts and their probabilities; of a long binomial that of the normal law near it."""
    spread = float(np.sqrt(n * p * (1 - p)))
    reach = 10 * spread + 30
    low, high = max(0.0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach))
    if high - low >= MOST:
        z, weights = _grid()
        return n * p + spread * z, weights
    s = np.arange(low, high + 1)
    weights = stats.binom.pmf(s, n, p)
    return s, weights / weights.sum()


def _grid() -> tuple[Floats, Floats]:
    """N(0, 1) on a fine grid."""
    z = np.linspace(-10, 10, MOST)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


def _gaussian(law: Gaussian) -> Atoms:
    z, weights = _grid()
    return law.location + np.sqrt(law.variance) * z, weights


def _contaminated(law: ContaminatedGaussian) -> Atoms | None:
    if law.unit_moment is not None:
        return None
    z, weights = _grid()
    both = np.concatenate([z, law.gap + law.spread * z])
    shares = np.concatenate([(1 - law.eta) * weights, law.eta * weights])
    return law.location + law.scale * both, shares


def _student_t(law: StudentT) -> Atoms | None:
    """In y, t = sinh(y): a density like e^(-nu |y|)."""
    nu = law.tail_index
    t = np.sinh(np.linspace(-40, 40, 4 * MOST))
    weights = np.exp(-(nu + 1) / 2 * np.log1p(t**2 / nu)) * np.sqrt(1 + t**2)
    scale = np.sqrt(law.variance * (nu - 2) / nu)
    return (law.location + scale * t, weights / weights.sum()) if nu > 2 else None


def _pareto(law: Pareto) -> Atoms | None:
    """The logarithm of one that starts at 1 is exponential; it has mean a/(a-1)."""
    a = law.tail_index
    y = (np.arange(4 * MOST) + 0.5) * (10 / MOST)
    scale = (a - 1) * np.sqrt(law.variance * (a - 2) / a) if a > 2 else 0.0
    weights = np.exp(-y)
    x = law.location + scale * (np.exp(y / a) - a / (a - 1))
    return (x, weights / weights.sum()) if a > 2 else None


_ATOMS: dict[type[Distribution], Callable[[Any], Atoms | None]] = {
    Bernoulli: lambda law: (np.array([0.0, 1.0]), np.array([1 - law.p, law.p])),
    TwoPoint: lambda law: (
        law.location + np.array([0.0, law.sign * law.tau]),
        np.array([1 - law.p, law.p]),
    ),
    Empirical: lambda law: law._table,
    Gaussian: _gaussian,
    ContaminatedGaussian: _contaminated,
    StudentT: _student_t,
    Pareto: _pareto,
}


def _average(values: Floats, weights: Floats, n: float, noise: float) -> Atoms | None:
    """The law of the average of n values, beside noise of this variance; None where not normal.

    By the Edgeworth expansion the skewness and the excess kurtosis of the sum say how normal it is.
    """
    mean = float(weights @ values)
    if len(values) == 2:
        s, shares = binomial(n, float(weights[1]))
        return mean + (s / n - weights[1]) * (values[1] - values[0]), shares
    away = values - mean
    variance, third, fourth = (float(weights @ away**j) for j in (2, 3, 4))
    total = variance / n + noise
    skewness = abs(third) / n**2 / total**1.5
    kurtosis = abs(fourth - 3 * variance**2) / n**3 / total**2
    if not (skewness < MOST_SKEWED and kurtosis < MOST_SKEWED):
        return None
    z, shares = _grid()
    return mean + np.sqrt(variance / n) * z, shares


def _quantile(values: Floats, weights: Floats, noise: Noise, q: float = 0.9) -> float:
    """The q quantile of |V + Z|."""

    def missing(x: float) -> float:
        return float(weights @ (noise.cdf(x - values) - noise.cdf(-x - values)) - q)

    high = noise.above((1 - q) / 4) + float(np.max(np.abs(values)))
    return float(brentq(missing, 0.0, high, xtol=1e-14 * high))


def _scalar_error(
    metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget
) -> float:
    step, points = last_step(estimator, n, 1, budget), _ATOMS.get(type(law), lambda _: None)(law)
    if step is None or points is None or isinstance(estimator, SubsampleAggregate | KSU20Mean):
        return NAN
    values, weights = points
    if step.centre is None:
        clipped = values
    else:
        clipped = np.clip(values, step.centre - step.half_width, step.centre + step.half_width)
    compared = values if metric == "private_q90" else law.target
    found = _average(clipped - compared, weights, step.records, step.noise.variance)
    if found is None:
        return NAN
    if metric == "mean_error":
        return float(found[1] @ step.noise.distance(found[0]))
    return _quantile(*found, step.noise)


def _noise_quantile(estimator: Estimator, law: Distribution, n: int, budget: Budget) -> float:
    d = law.d
    if isinstance(estimator, CoordinateWise):  # independent noises, each at 1/d of the budget
        estimator, d, budget = estimator.base, 1, budget.fraction(1 / d)
    if isinstance(estimator, KSU20Mean) and estimator.constants == "paper":
        return NAN  # a median of noises
    step = last_step(estimator, n, d, budget)
    return NAN if step is None else step.noise.norm_quantile(law.d, 0.9)


def _vector_error(
    metric: str, estimator: Estimator, law: Distribution, n: int, budget: Budget
) -> float:
    """Of a fixed dataset that is not clipped."""
    step = last_step(estimator, n, law.d, budget)
    if step is None or not isinstance(law, Hypercube) or step.centre != 0:
        return NAN
    if law.length > step.half_width:
        return NAN
    if metric == "mean_error":
        return step.noise.norm_mean(law.d)
    return step.noise.norm_quantile(law.d, 0.9)
