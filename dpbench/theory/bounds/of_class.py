"""The lower bound of the class that a law stands for: the largest of those that are known.

The class of a law is what estimators of it are told: Bernoulli laws, normal laws of that covariance
wherever they are, laws whose centred k-th moments are at most 1 in every direction. Every estimator
errs by the bound with probability at least 0.1, or as near to it as one likes, under some law of
the class; under this one it may err by less. So may one that is told that the mean is near, where
it is nearer than the laws of the bound are apart. Estimators of the local model have bounds of
their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, chdtri, ndtri

from dpbench import distributions as dist
from dpbench.privacy import Budget
from dpbench.theory.bounds.coins import coins_lower_bound, rare_coins_lower_bound
from dpbench.theory.bounds.local import local_distance, local_lower_bound
from dpbench.theory.bounds.numbers import (
    BETA,
    bernoulli_lower_bound,
    chain_of_coins,
    fair_lower_bound,
    gaussian_lower_bound,
    indistinguishable,
    sampling_lower_bound,
    two_point_lower_bound,
)
from dpbench.theory.bounds.several_laws import several_laws_lower_bound
from dpbench.theory.bounds.vectors import gaussian_lower_bound as gaussian_vectors_lower_bound
from dpbench.theory.bounds.vectors import moments_lower_bound

__all__ = ["OF_VIEWS", "Bound", "class_bound", "heavy_tailed", "largest", "of_people"]

NAN = float("nan")
OF_VIEWS = "two laws of views"  # what a bound of the local model is by


class Bound(NamedTuple):
    """A lower bound on the error's 0.9 quantile, and what it is `by`; NaN and '' if not known."""

    value: float = NAN
    by: str = ""


def largest(**values: float) -> Bound:
    """The largest of bounds by name, of those that are known."""
    known = [Bound(value, by.replace("_", " ")) for by, value in values.items() if value > 0]
    return max(known, default=Bound())


def heavy_tailed(
    n: int, k: float, budget: Budget, *, d: int = 1, local: bool = False, rare: float = 1.0
) -> Bound:
    """Of laws with centred k-th moments of at most 1; of `rare` below 1, of those with rare points.

    Of numbers, or of vectors of d coordinates in every direction. `rare` is the largest probability
    of rare points where they have a part in what sampling costs, too: 0 to leave that out.
    """
    return largest(
        two_laws=NAN if local else two_point_lower_bound(n, k, budget).alpha,
        several_laws=NAN if local else several_laws_lower_bound(n, k, budget),
        coins=rare_coins_lower_bound(n, k, budget, rare) if rare and not local else NAN,
        directions=NAN if local or d == 1 else moments_lower_bound(n, d, k, budget).alpha,
        two_laws_of_views=local_lower_bound(n, k, budget).alpha if local else NAN,
        sampling=_sampling(n, k, d) if rare == 1 else NAN,
    )


def _sampling(n: int, k: float, d: int) -> float:
    """Of coins on one coordinate; of vectors N(mean, s^2 I), too, where s makes k-th moments 1."""
    coins = sampling_lower_bound(n, k)
    if d == 1:
        return coins
    normal = np.sqrt(chdtri(d, BETA) / n) * dist.Gaussian().moment(k) ** (-1 / k)
    return max(coins, float(normal))


def of_people(n: int, m: int, k: float, budget: Budget, sampling: bool) -> Bound:
    """The same of n people with m records each, all of whose records are replaced together.

    Tests of a pair see no more of it than the total-variation distance t of what one person has.
    With rare points at +-tau, of probability p, that is at most 1 - (1-p)^m. Of two coins, 1/2 + h
    against 1/2 - h, it is 1 - 2 I_(1/2-h)(a, a), a = m/2 rounded up (see
    `dpbench.theory.bounds.numbers`). Half the distance of the means is p tau and h tau.
    """
    t, a = indistinguishable(n, budget), (m + 1) // 2
    drawn = sampling_lower_bound(n * m, k) if sampling else NAN
    if not t < 1:
        return largest(two_laws=np.inf if t == 1 else NAN, sampling=drawn)
    p, h = -float(np.expm1(np.log1p(-t) / m)), 0.5 - float(betaincinv(a, a, (1 - t) / 2))
    rare, coins = p * dist.TwoPoint(p=p, k=k).tau, h * dist.TwoPoint(p=0.5 + h, k=k).tau
    return largest(two_laws=rare, two_coins=coins, sampling=drawn)


def _bernoulli(_: dist.Bernoulli, n: int, budget: Budget, local: bool) -> Bound:
    return _of_coins(n, budget, local)


@cache
def _of_coins(n: int, budget: Budget, local: bool) -> Bound:
    """Of all Bernoulli laws, many of which a sweep may have."""

    def distance(beta: float) -> float:
        return local_distance(n, budget, beta=beta)

    return largest(
        two_laws=NAN if local else bernoulli_lower_bound(n, budget),
        coins=NAN if local else coins_lower_bound(n, budget),
        two_laws_of_views=chain_of_coins(distance) if local else NAN,
        sampling=fair_lower_bound(n),
    )


def _gaussian(law: dist.Gaussian, n: int, budget: Budget, local: bool) -> Bound:
    views = local_distance(n, budget, beta=BETA / 2)  # of neighbours in a long chain
    unit = largest(
        two_laws=NAN if local else gaussian_lower_bound(n, budget),
        two_laws_of_views=float(ndtri((1 + views) / 2)) if local else NAN,
        sampling=float(-ndtri(BETA / 2) / np.sqrt(n)),
    )
    return Bound(law._scale * unit.value, unit.by)


def _gaussian_vector(law: dist.MultivariateGaussian, n: int, budget: Budget, local: bool) -> Bound:
    if local or law.condition != 1 or law.matrix is not None:
        return Bound()
    unit = largest(
        two_laws=gaussian_lower_bound(n, budget),
        directions=gaussian_vectors_lower_bound(n, law.d, budget).alpha,
        sampling=float(np.sqrt(chdtri(law.d, BETA) / n)),  # the average's, the best of all
    )
    return Bound(law.scale * unit.value, unit.by)


_CLASSES: dict[type[dist.Distribution], Callable[[Any, int, Budget, bool], Bound]] = {
    dist.Bernoulli: _bernoulli,
    dist.Gaussian: _gaussian,
    dist.MultivariateGaussian: _gaussian_vector,
}


def class_bound(law: dist.Distribution, n: int, budget: Budget, *, local: bool = False) -> Bound:
    """The bound of the class of one law, and nothing if the class or a bound is not known."""
    if type(law) in _CLASSES:
        return _CLASSES[type(law)](law, n, budget, local)
    k = getattr(law, "unit_moment", None)
    if k is None or (local and law.d > 1):
        return Bound()
    return heavy_tailed(n, k, budget, d=law.d, local=local)
