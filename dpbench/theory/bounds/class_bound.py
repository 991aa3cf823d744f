"""Lower bound of the class of a distribution: the largest of the known bounds.

The class is what estimators are given to know: Bernoulli distributions; normal distributions of one
covariance, with any mean; distributions whose central k-th moments are at most 1 in every
direction. Every estimator errs by the bound with probability at least 0.1 (or arbitrarily near to
it) under some member of the class. Under the given member it may err by less. An estimator that is
given a range of the mean may also err by less, if the range is shorter than the distance of the
distributions that prove the bound. Estimators of the local model have their own bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, chdtri, ndtri

from dpbench import distributions as dist
from dpbench.privacy import Budget
from dpbench.theory.bounds.bernoulli import (
    bernoulli_chain_lower_bound,
    rare_bernoulli_chain_lower_bound,
)
from dpbench.theory.bounds.local import local_distance, local_lower_bound
from dpbench.theory.bounds.multi_hypothesis import multi_hypothesis_lower_bound
from dpbench.theory.bounds.numbers import (
    BETA,
    bernoulli_lower_bound,
    chain_of_coins,
    fair_lower_bound,
    gaussian_lower_bound,
    largest_untestable_tv,
    sampling_lower_bound,
    two_point_lower_bound,
)
from dpbench.theory.bounds.vectors import gaussian_lower_bound as gaussian_vectors_lower_bound
from dpbench.theory.bounds.vectors import moments_lower_bound

__all__ = ["OF_VIEWS", "ErrorBound", "class_bound", "heavy_tailed", "largest", "of_people"]

NAN = float("nan")
OF_VIEWS = "two laws of views"  # `ErrorBound.by` in the local model


class ErrorBound(NamedTuple):
    """Lower bound on the 0.9 quantile of the error.

    Parameters
    ----------
    value : float
        Error in the unit of the data; NaN if no bound is known.
    by : str
        Name of the argument that proves it, such as ``two laws``; empty if no bound is known.
    """

    value: float = NAN
    by: str = ""


def largest(**values: float) -> ErrorBound:
    """Return the largest of several bounds, given by name; NaN values are ignored."""
    known = [ErrorBound(value, by.replace("_", " ")) for by, value in values.items() if value > 0]
    return max(known, default=ErrorBound())


def heavy_tailed(
    n: int, k: float, budget: Budget, *, d: int = 1, local: bool = False, rare: float = 1.0
) -> ErrorBound:
    """Return the bound for central k-th moments of at most 1, in every direction.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment.
    budget : Budget
        Privacy guarantee of the estimator, or of each view.
    d : int, default 1
        Dimension.
    local : bool, default False
        Whether the estimator is in the local model.
    rare : float, default 1.0
        Largest probability of a non-zero record in the class. Below 1 the bound by sampling alone
        is left out; 0 also leaves out the joint bound of sampling and privacy.

    Returns
    -------
    Bound
        The largest known bound.
    """
    return largest(
        two_laws=NAN if local else two_point_lower_bound(n, k, budget).alpha,
        several_laws=NAN if local else multi_hypothesis_lower_bound(n, k, budget),
        coins=rare_bernoulli_chain_lower_bound(n, k, budget, rare) if rare and not local else NAN,
        directions=NAN if local or d == 1 else moments_lower_bound(n, d, k, budget).alpha,
        two_laws_of_views=local_lower_bound(n, k, budget).alpha if local else NAN,
        sampling=_sampling(n, k, d) if rare == 1 else NAN,
    )


def _sampling(n: int, k: float, d: int) -> float:
    """Return the bound by sampling alone: coins on one coordinate, and N(mean, s^2 I) if d > 1.

    s makes the k-th moments of the normal distribution 1.
    """
    coins = sampling_lower_bound(n, k)
    if d == 1:
        return coins
    normal = np.sqrt(chdtri(d, BETA) / n) * dist.Gaussian().moment(k) ** (-1 / k)
    return max(coins, float(normal))


def of_people(n: int, m: int, k: float, budget: Budget, sampling: bool) -> ErrorBound:
    """Return the person-level bound: n people with m records each, all replaced together.

    Tests of a pair depend only on the total-variation distance t of the m records of one person.
    For rare points at +-tau of probability p, t <= 1 - (1-p)^m. For coins of 1/2 + h against 1/2 -
    h, t = 1 - 2 I_(1/2-h)(a, a) with a = m/2 rounded up (`dpbench.theory.bounds.numbers`, 5). Half
    the distance of the means is p tau and h tau.

    Parameters
    ----------
    n : int
        Number of people.
    m : int
        Records of each.
    k : float
        Order of the moment of a record: E|X - mean|^k = 1.
    budget : Budget
        Privacy guarantee for a person.
    sampling : bool
        Whether to include the bound by sampling n m records.

    Returns
    -------
    Bound
        The largest known bound.
    """
    t, a = largest_untestable_tv(n, budget), (m + 1) // 2
    drawn = sampling_lower_bound(n * m, k) if sampling else NAN
    if not t < 1:
        return largest(two_laws=np.inf if t == 1 else NAN, sampling=drawn)
    p, h = -float(np.expm1(np.log1p(-t) / m)), 0.5 - float(betaincinv(a, a, (1 - t) / 2))
    rare, coins = p * dist.TwoPoint(p=p, k=k).tau, h * dist.TwoPoint(p=0.5 + h, k=k).tau
    return largest(two_laws=rare, two_coins=coins, sampling=drawn)


def _bernoulli(_: dist.Bernoulli, n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the bound for Bernoulli distributions, which is the same for every p."""
    return _of_coins(n, budget, local)


@cache
def _of_coins(n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the bound for all Bernoulli distributions; cached, because a sweep may have many."""

    def distance(beta: float) -> float:
        """Return the distance that n local views do not separate."""
        return local_distance(n, budget, beta=beta)

    return largest(
        two_laws=NAN if local else bernoulli_lower_bound(n, budget),
        coins=NAN if local else bernoulli_chain_lower_bound(n, budget),
        two_laws_of_views=chain_of_coins(distance) if local else NAN,
        sampling=fair_lower_bound(n),
    )


def _gaussian(law: dist.Gaussian, n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the bound for normal distributions with the standard deviation of `law`."""
    views = local_distance(n, budget, beta=BETA / 2)  # neighbours in a long chain: e = beta/2
    unit = largest(
        two_laws=NAN if local else gaussian_lower_bound(n, budget),
        two_laws_of_views=float(ndtri((1 + views) / 2)) if local else NAN,
        sampling=float(-ndtri(BETA / 2) / np.sqrt(n)),
    )
    return ErrorBound(law._scale * unit.value, unit.by)


def _gaussian_vector(
    law: dist.MultivariateGaussian, n: int, budget: Budget, local: bool
) -> ErrorBound:
    """Return the bound for N(mean, s^2 I); no bound for other covariances or in the local model."""
    if local or law.condition != 1 or law.matrix is not None:
        return ErrorBound()
    unit = largest(
        two_laws=gaussian_lower_bound(n, budget),
        directions=gaussian_vectors_lower_bound(n, law.d, budget).alpha,
        sampling=float(np.sqrt(chdtri(law.d, BETA) / n)),  # the average is best
    )
    return ErrorBound(law.scale * unit.value, unit.by)


_CLASSES: dict[type[dist.Distribution], Callable[[Any, int, Budget, bool], ErrorBound]] = {
    dist.Bernoulli: _bernoulli,
    dist.Gaussian: _gaussian,
    dist.MultivariateGaussian: _gaussian_vector,
}


def class_bound(
    law: dist.Distribution, n: int, budget: Budget, *, local: bool = False
) -> ErrorBound:
    """Return the lower bound for the class of a distribution.

    Parameters
    ----------
    law : Distribution
        Member of the class.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the estimator, or of each view.
    local : bool, default False
        Whether the estimator is in the local model.

    Returns
    -------
    Bound
        The largest known bound, in the unit of the data; NaN if the class or a bound is not known.
    """
    if type(law) in _CLASSES:
        return _CLASSES[type(law)](law, n, budget, local)
    k = getattr(law, "unit_moment", None)
    if k is None or (local and law.d > 1):
        return ErrorBound()
    return heavy_tailed(n, k, budget, d=law.d, local=local)
