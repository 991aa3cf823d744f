"""Families of distributions over which a worst case is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.distributions import (
    Distribution,
    ProductTwoPoint,
    SignedTwoPoint,
    TwoPoint,
    UserLevelData,
)
from dpbench.distributions.multivariate import Dimension
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, Label, MomentOrder, Registered, choose_kind, validated
from dpbench.theory.bounds.class_bound import (
    ErrorBound,
    class_bound,
    heavy_tail_bound,
    user_level_bound,
)
from dpbench.theory.bounds.numbers import BETA, sampling_lower_bound, two_point_lower_bound

__all__ = [
    "Family", "Laws", "ProductTwoPointFamily", "SignedTwoPointFamily", "TwoPointFamily",
    "build_family",
]  # fmt: skip

# Largest n for which bounds are computed (`largest_untestable_tv`).
MAX_SAMPLE_SIZE = 10**15


class Family(Registered, ABC):
    """Base class of families: distributions that may depend on n and the budget.

    The error over a family is the largest over its members.

    Attributes
    ----------
    follows_budget : bool
        Whether the members depend on the budget. If so, data are drawn anew for every budget.
    """

    follows_budget: ClassVar[bool] = False

    @property
    def moment_order(self) -> float | None:
        """Order k of the central moment that is at most 1 for all members; None without one."""
        return getattr(self, "k", None)

    @property
    def person_records(self) -> int:
        """Number m of records of each person, the smallest one if they differ; otherwise 1."""
        return int(getattr(self, "m", 1))

    @abstractmethod
    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        """Return the members of the family at a given number of records and budget.

        Parameters
        ----------
        label : str
            Name of the family, the prefix of its members' labels.
        n : int
            Number of records.
        budget : Budget
            Privacy guarantee of the estimators.

        Returns
        -------
        dict of str to Distribution
            Members, keyed by label.
        """

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return a lower bound on an estimator's largest error over the family or a larger class.

        An estimator often does not know the family, but only a larger class of distributions that
        contains the family. The bound may then be on the largest error over this class.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Privacy guarantee of the estimators; in the local model, of each person's message.
        local : bool, default False
            Whether the bound is for estimators in the local model.

        Returns
        -------
        ErrorBound
            Bound in the unit of the data; NaN if none is known.
        """
        return ErrorBound()

    def crossing(self, budget: Budget) -> float:
        """Return the smallest n at which sampling alone gives a larger lower bound than privacy.

        The result is NaN if this n is not known.
        """
        return float("nan")


@validated
class _Single(Family):
    """Family with a single member."""

    distribution: Any

    @property
    def moment_order(self) -> float | None:
        law = self.distribution
        law = law.of if isinstance(law, UserLevelData) else law
        k = getattr(law, "standardised_moment", None) or getattr(law, "k", None)
        return None if k is None else float(k)

    @property
    def person_records(self) -> int:
        law = self.distribution
        return int(law.numbers[0].min()) if isinstance(law, UserLevelData) else 1

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        return {label: self.distribution}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        return class_bound(self.distribution, n, budget, local=local)


@validated
class Laws(Family):
    """Listed distributions of one class, such as Bernoulli distributions of several p.

    The lower bound for the class need not hold for a single distribution, because an estimator
    that always returns the mean of this distribution makes no error. For two members, every
    constant estimator has at one of them an error of at least half the distance of the two means.
    So if the means are far apart, the worst error over the members may be compared with the lower
    bound for the class.

    Parameters
    ----------
    laws : mapping of str to distribution or its configuration
        Members, keyed by name; their means must not all be equal.
    """

    laws: Annotated[dict[Label, Any], Field(min_length=2)]

    @field_validator("laws")
    @classmethod
    def _several_means(cls, laws: dict[str, Any]) -> dict[str, Distribution]:
        distributions = {
            name: Distribution.build(law, name) if isinstance(law, Mapping) else law
            for name, law in laws.items()
        }
        if not all(isinstance(law, Distribution) for law in distributions.values()):
            raise ValueError("give each law as a mapping with its kind")
        if len({law.d for law in distributions.values()}) > 1:
            raise ValueError("the laws differ in dimension; give laws of one d")
        if len({tuple(np.ravel(law.target)) for law in distributions.values()}) == 1:
            raise ValueError("all laws have one mean, which a constant answers; vary the mean")
        return distributions

    @property
    def _single_families(self) -> list[_Single]:
        return [_Single(distribution=law) for law in self.laws.values()]

    @property
    def moment_order(self) -> float | None:
        """Order k of the central moment that is at most 1 for all members; None if they differ."""
        orders = {family.moment_order for family in self._single_families}
        return orders.pop() if len(orders) == 1 else None

    @property
    def person_records(self) -> int:
        return max(family.person_records for family in self._single_families)

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        return {f"{label}/{name}": law for name, law in self.laws.items()}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return the largest of the lower bounds on the error for the members' classes.

        Each bound also holds for the union of the classes.
        """
        bounds = [family.lower_bound(n, budget, local=local) for family in self._single_families]
        return max(bounds, key=lambda bound: -1.0 if np.isnan(bound.value) else bound.value)


def _round_digits(p: float) -> float:
    """Return |p| rounded to six significant digits, for a probability p with a sign.

    The sign of p only says on which side of 0 the rare point lies. A distribution's parameters seed
    its random numbers. So, without rounding, an error in the last digit of p would change the data.
    """
    return float(f"{abs(p):.6g}")


def _signed_distributions(
    law: type[TwoPoint | SignedTwoPoint], label: str, signed: Mapping[str, float], **options: Any
) -> dict[str, Distribution]:
    """Return a distribution with a rare point for each signed probability, keyed by label.

    `signed` maps names to probabilities of the rare point. A negative number stands for the
    opposite sign of the point. Numbers above 1/2 in absolute value and NaN are dropped.
    """
    return {
        f"{label}/{name}": law(p=_round_digits(p), sign=-1 if p < 0 else 1, **options)
        for name, p in signed.items()
        if abs(p) <= 0.5
    }


@validated
class TwoPointFamily(Family):
    """Two-point distributions whose rare point is hardest for privacy at a given n and budget.

    Each member has a rare point, tau or -tau. A record X is the rare point with probability p, and
    else 0. The number tau makes E|X - mean|^k equal to 1. Let q be the 0.9 quantile of the absolute
    noise that the privacy budget requires at sensitivity 1. Let e = ln(10)/q, which is epsilon
    under pure DP. Then p = c/(e n), or p = c/(e sqrt(n)) in the local model. KSU20, Claim 3.9,
    proves a lower bound with a pair of rare points of opposite signs. Rare points isolate the cost
    of privacy, because the empirical mean has a far smaller error than private estimators. If n is
    so large that sampling costs more than privacy, other distributions with E|X - mean|^k <= 1 are
    worse.

    Parameters
    ----------
    k : float >= 2
        Order of the moment: E|X - mean|^k = 1.
    c : list of float
        Values of c; members with p > 1/2 are dropped. A negative c puts the rare point at -tau.
    scaling : {'central', 'local'}
        ``local``: p = c/(e sqrt(n)). ``central``: p = c/(e n). ``central`` also adds members of
        both signs at c = 2 ln(10), and at the p of the lower bound `two_point_lower_bound`, but at
        most 1/2.
    location : float
        Constant that is added to every record.
    with_fair_coin : bool
        Whether to add the fair coin on +-1. A clip above 1 does not change the coin's records. For
        the mean of the coin, the 0.9 quantile of the error of every estimator is about
        1.645/sqrt(n) or more. With the coin, `lower_bound` is for all distributions with
        E|X - mean|^k <= 1. Without the coin, `lower_bound` is for distributions in which a non-zero
        record is at most as probable as in the members.
    m : int
        Number of records of each of n people, 1 by default. The estimator sees the people's means,
        and p = c/(e n m).
    """

    k: MomentOrder
    c: Annotated[list[float], Field(min_length=1)]
    scaling: Literal["central", "local"] = "central"
    location: float = 0.0
    with_fair_coin: bool = False
    m: Annotated[int, Field(ge=1, le=10**6)] = 1
    follows_budget: ClassVar[bool] = True

    @model_validator(mode="after")
    def _central_people(self) -> Self:
        if self.m > 1 and self.scaling == "local":
            raise ValueError("people with several records have no local scaling")
        return self

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        effective = np.log(1 / BETA) / budget.noise_quantile(BETA)
        unit = 1 / (effective * self.m * (n if self.scaling == "central" else np.sqrt(n)))
        signed = {f"c={c:g}": c * unit for c in self.c}
        if self.scaling == "central":
            worst = 2 * np.log(1 / BETA) * unit
            p_star = min(two_point_lower_bound(n, self.k, budget).p_star, 0.5) / self.m
            signed |= {"+worst": worst, "-worst": -worst, "+p_star": p_star, "-p_star": -p_star}
        coin = {f"{label}/coin": TwoPoint(p=0.5, k=self.k, location=self.location - 1)}
        rare = _signed_distributions(TwoPoint, label, signed, k=self.k, location=self.location)
        laws = rare | (coin if self.with_fair_coin else {})
        return {
            name: UserLevelData(of=law, m=self.m) if self.m > 1 else law
            for name, law in laws.items()
        }

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        if self.m > 1:
            return (
                ErrorBound()
                if local
                else user_level_bound(n, self.m, self.k, budget, self.with_fair_coin)
            )
        if self.with_fair_coin or local:
            return heavy_tail_bound(n, self.k, budget, local=local, rare=float(self.with_fair_coin))
        members: Any = self.members("", n, budget)
        return heavy_tail_bound(n, self.k, budget, rare=max(law.p for law in members.values()))

    def crossing(self, budget: Budget) -> float:
        """Return the smallest n at which sampling gives a larger lower bound than privacy.

        Two lower bounds on the error are compared: for sampling without privacy, and for privacy
        without the cost of sampling. The result is NaN if the smallest n is above 1e15. It is also
        NaN if the family has no fair coin, or if people have several records.
        """

        def sampling_dominates(n: int) -> bool:
            private = heavy_tail_bound(n, self.k, budget, rare=0).value
            return not sampling_lower_bound(n, self.k) < private

        if not (self.with_fair_coin and self.m == 1 and sampling_dominates(MAX_SAMPLE_SIZE)):
            return float("nan")
        return float(1 + bisect_left(range(1, MAX_SAMPLE_SIZE), x=True, key=sampling_dominates))


@validated
class SignedTwoPointFamily(Family):
    """Distributions of rare sign vectors, hard for clipping to a ball, at a given n and budget.

    A record is 0 with probability 1 - p. Else the record is a vector with random signs, but the
    sign of its first coordinate is fixed (see `SignedTwoPoint`). Let q be the 0.9 quantile of the
    absolute noise that the budget requires at sensitivity 1. Then p = |c| d q/n. Non-zero records
    have the norm tau sqrt(d), where tau makes the central moment of order k at most 1 in every
    direction. An estimator that clips records to a ball around the mean does best at a radius
    sqrt(d) T, where T^k is of the order of n/(d q). Clipping to this ball has the largest bias if
    all non-zero records lie outside the ball.

    Parameters
    ----------
    d : int
        Number of coordinates of a record.
    k : float >= 2
        Order of the central moment that is at most 1 in every direction.
    c : list of float
        Values of c; members with p > 1/2 are dropped. A negative c flips the sign of the mean, and
        c = 0 is the point mass at 0.
    """

    d: Dimension
    k: MomentOrder
    c: Annotated[list[float], Field(min_length=1)]
    follows_budget: ClassVar[bool] = True

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        unit = self.d * budget.noise_quantile(BETA) / n
        return _signed_distributions(
            SignedTwoPoint, label, {f"c={c:g}": c * unit for c in self.c}, d=self.d, k=self.k
        )

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return a lower bound on the error for distributions of rare vectors.

        Their central moments of order k are at most 1 in every direction, and a non-zero record is
        at most as probable as in the members. The bound is NaN in the local model.
        """
        if local:
            return ErrorBound()
        members: Any = self.members("", n, budget)
        rare = max((law.p for law in members.values()), default=0.0)
        return heavy_tail_bound(n, self.k, budget, d=self.d, rare=rare)


@validated
class ProductTwoPointFamily(Family):
    """Product two-point distributions of KSU20, Theorem 6.1, at a given n and budget.

    A code word is a 0-1 vector of length d. Coordinates are independent: where the code word is 1,
    a coordinate is p^(-1/2) with probability p, and else 0. All other coordinates are 0. Here p is
    c q/n, where q is the 0.9 quantile of the absolute noise that the privacy budget requires at
    sensitivity 1. In KSU20, p is alpha^2/d for an error alpha.

    Parameters
    ----------
    d : int
        Number of coordinates of a record.
    c : list of float >= 0
        Values of c; members with p > 1/2 are dropped, and c = 0 is the point mass at 0.
    words : int
        Number of random code words for each c.
    """

    d: Dimension
    c: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)]
    words: Annotated[int, Field(ge=1, le=8)] = 1
    follows_budget: ClassVar[bool] = True
    k: ClassVar[float] = 2.0

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        unit = budget.noise_quantile(BETA) / n
        return {
            f"{label}/c={c:g},{word}": ProductTwoPoint(
                d=self.d, p=_round_digits(c * unit), word=word
            )
            for c in self.c
            if c * unit <= 0.5
            for word in range(self.words if c else 1)
        }

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return the lower bound on the error for moments of order 2, without the cost of sampling.

        The bound is NaN in the local model.
        """
        return ErrorBound() if local else heavy_tail_bound(n, self.k, budget, d=self.d, rare=0)


def build_family(spec: Mapping[str, Any], where: str) -> Family:
    """Build the family that a configuration describes, or the family of a single distribution.

    Parameters
    ----------
    spec : mapping or Family
        Configuration with its ``kind``; see `Registered.build`.
    where : str
        Key of `spec` in the configuration, for error messages.

    Returns
    -------
    Family
        The family.

    Raises
    ------
    ConfigError
        If the kind is neither a family nor a distribution, or a parameter is not valid.
    """
    if isinstance(spec, Family) or (isinstance(spec, Mapping) and Family.find(spec, whole=False)):
        return Family.build(spec, where)
    if isinstance(spec, Mapping) and "kind" in spec and not Distribution.find(spec, whole=False):
        kinds = {**Distribution.kinds(), **Family.kinds()}
        advice = choose_kind(str(spec["kind"]), kinds)
        raise ConfigError(f"{where}.kind: {spec['kind']!r}: {advice}")
    return _Single(distribution=Distribution.build(spec, where))
