"""Lower bound for the class of a distribution: the largest of the known bounds.

Estimators may know the class of a distribution, but not the distribution. The classes are

- Bernoulli distributions,
- normal distributions of one covariance, with any mean,
- distributions with central k-th moments of at most 1 in every direction,
- a fixed dataset and its large subsets.

Every estimator errs by the bound with probability at least 0.1, or arbitrarily near to 0.1, under
some member of the class. Under other members an estimator may err by less. An estimator may also
err by less if its parameters restrict the mean to a short interval. The interval is short if the
distributions in the proof of the bound have means outside it. Estimators in the local model have
separate bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from dpbench.theory.bounds.fingerprinting import fingerprinting_bound, gaussian_fingerprinting_bound
from dpbench.theory.bounds.information import (
    bernoulli_information_bound,
    gaussian_information_bound,
)
from dpbench.theory.bounds.local import local_distance, local_lower_bound
from dpbench.theory.bounds.multi_hypothesis import multi_hypothesis_lower_bound
from dpbench.theory.bounds.numbers import (
    BETA,
    bernoulli_chain_half_step,
    bernoulli_lower_bound,
    bernoulli_sampling_lower_bound,
    gaussian_lower_bound,
    largest_untestable_tv,
    sampling_lower_bound,
    two_point_lower_bound,
)
from dpbench.theory.bounds.subsets import subset_lower_bound
from dpbench.theory.bounds.vectors import gaussian_lower_bound as gaussian_vectors_lower_bound
from dpbench.theory.bounds.vectors import moments_lower_bound

__all__ = [
    "LOCAL_BOUND_NAME",
    "ErrorBound",
    "class_bound",
    "heavy_tail_bound",
    "largest_bound",
    "user_level_bound",
]

NAN = float("nan")
LOCAL_BOUND_NAME = "local two-point"  # value of `ErrorBound.by` for bounds on local privacy


class ErrorBound(NamedTuple):
    """Lower bound on the 0.9 quantile of the error.

    Parameters
    ----------
    value : float
        Error in the unit of the data; NaN if no bound is known.
    by : str
        Name of the proof that gives the bound, such as ``two-point``; empty if no bound is known.
    """

    value: float = NAN
    by: str = ""


def largest_bound(bounds: Mapping[str, float]) -> ErrorBound:
    """Return the largest of several lower bounds on the error.

    Parameters
    ----------
    bounds : mapping of str to float
        Bounds, keyed by the name of their proof. NaN and numbers that are not positive are ignored.

    Returns
    -------
    ErrorBound
        The largest bound; NaN if none is known.
    """
    known = [ErrorBound(value, by) for by, value in bounds.items() if value > 0]
    return max(known, default=ErrorBound())


@cache  # estimators and parts of a sweep have problems in common
def heavy_tail_bound(
    n: int, k: float, budget: Budget, *, d: int = 1, local: bool = False, rare: float = 1.0
) -> ErrorBound:
    """Return the lower bound on the error for distributions with central k-th moments of at most 1.

    Vectors have central k-th moments of at most 1 in every direction.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment: E|X - mean|^k <= 1.
    budget : Budget
        Privacy guarantee of the estimator; in the local model, of each person's message.
    d : int, default 1
        Number of coordinates of a record.
    local : bool, default False
        Whether the estimator is in the local model.
    rare : float, default 1.0
        Largest probability of a non-zero record that the class allows. Below 1 the result leaves
        out the bound from sampling alone. At 0 it also leaves out the joint bound of sampling and
        privacy.

    Returns
    -------
    ErrorBound
        The largest known bound.
    """
    if local:
        bounds = {LOCAL_BOUND_NAME: local_lower_bound(n, k, budget).alpha}
    else:
        bounds = {
            "two-point": two_point_lower_bound(n, k, budget).alpha,
            "multi-hypothesis": multi_hypothesis_lower_bound(n, k, budget),
        }
        if rare:
            bounds["Bernoulli chain"] = rare_bernoulli_chain_lower_bound(n, k, budget, rare)
        if d > 1:
            bounds["packing"] = moments_lower_bound(n, d, k, budget).alpha
            bounds["fingerprinting"] = fingerprinting_bound(n, d, k, budget, rare=rare)
    if rare == 1:
        bounds["sampling"] = _sampling_bound(n, k, d)
    return largest_bound(bounds)


def _sampling_bound(n: int, k: float, d: int) -> float:
    """Return the lower bound on the error that sampling alone implies for k-th moments of 1.

    For records of d = 1 coordinate the result is `sampling_lower_bound`. For d > 1 the result is
    the larger of `sampling_lower_bound` and a bound for N(mean, s^2 I). Here s is the standard
    deviation at which the central k-th moment of each coordinate is 1.
    """
    coordinate = sampling_lower_bound(n, k)
    if d == 1:
        return coordinate
    normal = np.sqrt(chdtri(d, BETA) / n) * dist.Gaussian().moment(k) ** (-1 / k)
    return max(coordinate, float(normal))


def user_level_bound(n: int, m: int, k: float, budget: Budget, sampling: bool) -> ErrorBound:
    """Return the lower bound on the error if privacy protects all records of a person (user level).

    Each of n people has m records, and neighbours differ in all m records of one person. A bound
    follows from two distributions of a record. Each gives a joint distribution of a person's m
    records, and t is the total-variation distance of the two joint distributions. Private tests
    cannot separate the two if t is at most `largest_untestable_tv`. With t equal to this limit,
    half the distance of the two means is a bound. Two pairs of distributions are used:

    - Rare points. A record is 0, or with probability p it is tau under one distribution and -tau
      under the other. The bound is p tau, and t <= 1 - (1-p)^m.
    - Coins. A record has one of two values, which are tau apart. They have the probabilities
      1/2 + h and 1/2 - h under one distribution, and the reverse under the other. The bound is
      h tau, and t = 1 - 2 I_(1/2-h)(a, a). Here I is the regularised incomplete beta function,
      and a is m/2 rounded up. I_(1/2-h)(a, a) is the probability that a test by the majority
      of m records is wrong.

    In each case tau makes the central k-th moment of a record 1.

    Parameters
    ----------
    n : int
        Number of people.
    m : int
        Number of records of each person.
    k : float
        Order of the moment of a record: E|X - mean|^k = 1.
    budget : Budget
        Privacy guarantee for all m records of a person.
    sampling : bool
        Whether to include the bound that sampling alone implies for n m records.

    Returns
    -------
    ErrorBound
        The largest known bound; infinite if private tests separate no two distributions.
    """
    t, a = largest_untestable_tv(n, budget), (m + 1) // 2
    sampling_bound = sampling_lower_bound(n * m, k) if sampling else NAN
    if not t < 1:
        return largest_bound({"two-point": np.inf if t == 1 else NAN, "sampling": sampling_bound})
    p, h = -float(np.expm1(np.log1p(-t) / m)), 0.5 - float(betaincinv(a, a, (1 - t) / 2))
    rare, coins = p * dist.TwoPoint(p=p, k=k).tau, h * dist.TwoPoint(p=0.5 + h, k=k).tau
    return largest_bound(
        {"two-point": rare, "Bernoulli two-point": coins, "sampling": sampling_bound}
    )


def _bernoulli_bound(_: dist.Bernoulli, n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the lower bound on the error for the class of all Bernoulli distributions.

    The bound is the same for every member of the class, so the given distribution is not used.
    """
    return _cached_bernoulli_bound(n, budget, local)


@cache
def _cached_bernoulli_bound(n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the lower bound on the error for the class of all Bernoulli distributions.

    The result is cached, because a sweep may contain many Bernoulli distributions.
    """

    def distance(beta: float) -> float:
        """Return the largest distance of two Bernoulli means at which every local test errs.

        A local test decides between the two distributions from n views, each a private message
        about one record. Every test errs with probability `beta` or more under one of the two.
        """
        return local_distance(n, budget, beta=beta)

    if local:
        bounds = {LOCAL_BOUND_NAME: bernoulli_chain_half_step(distance)}
    else:
        bounds = {
            "two-point": bernoulli_lower_bound(n, budget),
            "Bernoulli chain": bernoulli_chain_lower_bound(n, budget),
            "Fisher information": bernoulli_information_bound(n, budget),
        }
    return largest_bound({**bounds, "sampling": bernoulli_sampling_lower_bound(n)})


def _gaussian_bound(law: dist.Gaussian, n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the lower bound on the error for normal distributions with an unknown mean.

    The standard deviation is that of `law`.
    """
    if local:
        local_tv = local_distance(n, budget, beta=BETA / 2)  # e = beta/2 in a long chain
        bounds = {LOCAL_BOUND_NAME: float(ndtri((1 + local_tv) / 2))}
    else:
        bounds = {
            "two-point": gaussian_lower_bound(n, budget),
            "Fisher information": gaussian_information_bound(n, budget),
        }
    sampling_bound = float(-ndtri(BETA / 2) / np.sqrt(n))
    unit_bound = largest_bound({**bounds, "sampling": sampling_bound})
    return ErrorBound(law._scale * unit_bound.value, unit_bound.by)


def _gaussian_vector_bound(
    law: dist.MultivariateGaussian, n: int, budget: Budget, local: bool
) -> ErrorBound:
    """Return the lower bound on the l2 error for N(mean, s^2 I) with an unknown mean.

    The bound is NaN for other covariances and in the local model.
    """
    if local or law.condition != 1 or law.matrix is not None:
        return ErrorBound()
    bounds = {
        "two-point": gaussian_lower_bound(n, budget),
        "packing": gaussian_vectors_lower_bound(n, law.d, budget).alpha,
        "sampling": float(np.sqrt(chdtri(law.d, BETA) / n)),  # the average is the best estimator
    }
    if law.d > 1:
        bounds["fingerprinting"] = gaussian_fingerprinting_bound(n, law.d, budget)
    unit_bound = largest_bound(bounds)
    return ErrorBound(law.scale * unit_bound.value, unit_bound.by)


def _subset_bound(law: dist.FixedDataset, n: int, budget: Budget, local: bool) -> ErrorBound:
    """Return the lower bound on the error for a fixed dataset and its large subsets."""
    return largest_bound({} if local else {"subsets": subset_lower_bound(law.records(n), budget)})


_CLASSES: dict[type[dist.Distribution], Callable[[Any, int, Budget, bool], ErrorBound]] = {
    dist.Bernoulli: _bernoulli_bound,
    dist.FixedDataset: _subset_bound,
    dist.Gaussian: _gaussian_bound,
    dist.MultivariateGaussian: _gaussian_vector_bound,
}


def class_bound(
    law: dist.Distribution, n: int, budget: Budget, *, local: bool = False
) -> ErrorBound:
    """Return the lower bound on the error for the class to which a distribution belongs.

    The classes are the Bernoulli distributions, the normal distributions of one covariance, the
    distributions with central k-th moments of at most 1, and the subsets of a fixed dataset.

    Parameters
    ----------
    law : Distribution
        Distribution that determines the class.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the estimator; in the local model, of each person's message.
    local : bool, default False
        Whether the estimator is in the local model.

    Returns
    -------
    ErrorBound
        The largest known bound, in the unit of the data; NaN if no class or bound is known.
    """
    if type(law) in _CLASSES:
        return _CLASSES[type(law)](law, n, budget, local)
    k = getattr(law, "standardised_moment", None)
    if k is None or (local and law.d > 1):
        return ErrorBound()
    return heavy_tail_bound(n, k, budget, d=law.d, local=local)
