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
    UserMeans,
)
from dpbench.distributions.multivariate import Dimension
from dpbench.errors import choose_from
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, Label, MomentOrder, Registered, validated
from dpbench.theory.bounds.class_bound import ErrorBound, class_bound, heavy_tailed, of_people
from dpbench.theory.bounds.numbers import BETA, sampling_lower_bound, two_point_lower_bound

__all__ = [
    "Family", "Laws", "ProductTwoPointFamily", "SignedTwoPointFamily", "TwoPointFamily",
    "build_family",
]  # fmt: skip

# Largest sample size for which bounds are computed.
MOST = 10**15


class Family(Registered, ABC):
    """Base class of families: distributions that may depend on n and the budget.

    The error over a family is the largest over its members.

    Attributes
    ----------
    follows_budget : bool
        Whether the members depend on the budget. If so, every budget has its own data.
    """

    follows_budget: ClassVar[bool] = False

    @property
    def moment_order(self) -> float | None:
        """Order k of the moment that is at most 1; None if there is none."""
        return getattr(self, "k", None)

    @property
    def person_records(self) -> int:
        """Number m of records of each person."""
        return int(getattr(self, "m", 1))

    @abstractmethod
    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        """Return the distributions at this n and budget.

        Parameters
        ----------
        label : str
            Name of the family, with which the labels of the members begin.
        n : int
            Number of records.
        budget : Budget
            Privacy guarantee.

        Returns
        -------
        dict of str to Distribution
            Members by label.
        """

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return a lower bound on the error of every estimator over the family or its class.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Privacy guarantee.
        local : bool, default False
            Whether the bound is for estimators in the local model.

        Returns
        -------
        Bound
            NaN if no bound is known.
        """
        return ErrorBound()

    def crossing(self, budget: Budget) -> float:
        """Return the n from which sampling, not privacy, dominates the bound; NaN if not known."""
        return float("nan")


@validated
class _Single(Family):
    """Family with a single member."""

    distribution: Any

    @property
    def moment_order(self) -> float | None:
        law = self.distribution
        law = law.of if isinstance(law, UserMeans) else law
        k = getattr(law, "unit_moment", None) or getattr(law, "k", None)
        return None if k is None else float(k)

    @property
    def person_records(self) -> int:
        return int(getattr(self.distribution, "m", 1))

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        return {label: self.distribution}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        return class_bound(self.distribution, n, budget, local=local)


@validated
class Laws(Family):
    """Listed distributions of one class, such as Bernoulli distributions of several p.

    A single distribution is easier than its class: the constant estimator that returns its mean
    makes no error. If the means are far apart, every constant errs by half their distance, so the
    worst error over the members may exceed the lower bound of the class.

    Parameters
    ----------
    laws : mapping of str to distribution or its configuration
        Members by name; their means must not all be equal.
    """

    laws: Annotated[dict[Label, Any], Field(min_length=2)]

    @field_validator("laws")
    @classmethod
    def _several_means(cls, laws: dict[str, Any]) -> dict[str, Distribution]:
        made = {
            name: Distribution.build(law, name) if isinstance(law, Mapping) else law
            for name, law in laws.items()
        }
        if not all(isinstance(law, Distribution) for law in made.values()):
            raise ValueError("give each law as a mapping with its kind")
        if len({law.d for law in made.values()}) > 1:
            raise ValueError("the laws differ in dimension; give laws of one d")
        if len({tuple(np.ravel(law.target)) for law in made.values()}) == 1:
            raise ValueError("all laws have one mean, which a constant answers; vary the mean")
        return made

    @property
    def _each(self) -> list[_Single]:
        return [_Single(distribution=law) for law in self.laws.values()]

    @property
    def moment_order(self) -> float | None:
        """Order of the moment that all members bound by 1; None if they differ."""
        orders = {one.moment_order for one in self._each}
        return orders.pop() if len(orders) == 1 else None

    @property
    def person_records(self) -> int:
        return max(one.person_records for one in self._each)

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        return {f"{label}/{name}": law for name, law in self.laws.items()}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return the largest bound of a member's class: each holds for the union of the classes."""
        bounds = [one.lower_bound(n, budget, local=local) for one in self._each]
        return max(bounds, key=lambda one: -1.0 if np.isnan(one.value) else one.value)


def _digits(p: float) -> float:
    # Parameters seed the random streams, so rounding of a logarithm should not change the data.
    return float(f"{abs(p):.6g}")


def _signed(
    law: type[TwoPoint | SignedTwoPoint], label: str, signed: Mapping[str, float], **options: Any
) -> dict[str, Distribution]:
    """Return distributions with these p and signs; p above 1/2 and NaN are dropped."""
    return {
        f"{label}/{name}": law(p=_digits(p), sign=-1 if p < 0 else 1, **options)
        for name, p in signed.items()
        if abs(p) <= 0.5
    }


@validated
class TwoPointFamily(Family):
    """Two-point distributions whose rare point is hardest for privacy at this n and budget.

    Let beta = 0.1, q the 1 - beta quantile of the budget's noise at sensitivity 1, and
    e = ln(1/beta)/q, which is epsilon under pure DP. The rare point has probability p = c/(e n), or
    p = c/(e sqrt(n)) in the local model. KSU20, Claim 3.9, proves a lower bound with this pair.
    Rare points isolate the cost of privacy, because the empirical mean has a far smaller error than
    private estimators. They are not the worst distributions with E|X - mean|^k <= 1 if n is so
    large that sampling costs more than privacy.

    Parameters
    ----------
    k : float >= 2
        Order of the moment: E|X - mean|^k = 1.
    c : list of float
        Values of c; members with p > 1/2 are dropped. A negative c puts the rare point at -tau.
    scaling : {'central', 'local'}
        Scaling of p. ``central`` adds the members with c = +-2 ln(1/beta) and with p = +-p* of the
        lower bound, at most 1/2.
    location : float
        Constant that is added to every record.
    sampling : bool
        Whether to add the fair coin on +-1, which no clip above 1 changes and whose mean cannot be
        estimated much better than within 1.645/sqrt(n). The lower bound is then that of all
        distributions with E|X - mean|^k <= 1; otherwise of those with a point as rare as the
        members'.
    m : int
        Records of each of n people; the estimator sees their means, and p = c/(e n m).
    """

    k: MomentOrder
    c: Annotated[list[float], Field(min_length=1)]
    scaling: Literal["central", "local"] = "central"
    location: float = 0.0
    sampling: bool = False
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
        rare = _signed(TwoPoint, label, signed, k=self.k, location=self.location)
        laws = rare | (coin if self.sampling else {})
        return {
            name: UserMeans(of=law, m=self.m) if self.m > 1 else law for name, law in laws.items()
        }

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        if self.m > 1:
            return ErrorBound() if local else of_people(n, self.m, self.k, budget, self.sampling)
        if self.sampling or local:
            return heavy_tailed(n, self.k, budget, local=local, rare=float(self.sampling))
        members: Any = self.members("", n, budget)
        return heavy_tailed(n, self.k, budget, rare=max(law.p for law in members.values()))

    def crossing(self, budget: Budget) -> float:
        """Return the n from which sampling exceeds the bound by privacy alone, if below 1e15."""

        def sampled(n: int) -> bool:
            private = heavy_tailed(n, self.k, budget, rare=0).value
            return not sampling_lower_bound(n, self.k) < private

        if not (self.sampling and self.m == 1 and sampled(MOST)):
            return float("nan")
        return float(1 + bisect_left(range(1, MOST), x=True, key=sampled))


@validated
class SignedTwoPointFamily(Family):
    """`SignedTwoPoint` distributions that are hard for a clip to a ball at this n and budget.

    Let q be the 1 - beta quantile of the budget's noise at sensitivity 1, beta = 0.1. A vector is
    not zero with probability p = c d q/n. The best ball around the mean has the radius sqrt(d) T
    with T^k ~ n/(d q); its bias is largest for a distribution whose non-zero vectors lie outside
    the ball.

    Parameters
    ----------
    d : int
        Dimension.
    k : float >= 2
        Order of the moment.
    c : list of float
        Values of c; members with p > 1/2 are dropped. A negative c flips the sign of the mean, and
        0 is the point mass.
    """

    d: Dimension
    k: MomentOrder
    c: Annotated[list[float], Field(min_length=1)]
    follows_budget: ClassVar[bool] = True

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        unit = self.d * budget.noise_quantile(BETA) / n
        return _signed(
            SignedTwoPoint, label, {f"c={c:g}": c * unit for c in self.c}, d=self.d, k=self.k
        )

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return the bound of the class, without sampling as for `TwoPointFamily`."""
        return ErrorBound() if local else heavy_tailed(n, self.k, budget, d=self.d, rare=0)


@validated
class ProductTwoPointFamily(Family):
    """Product two-point distributions of KSU20, Theorem 6.1, at this n and budget.

    A coordinate in the code word is not zero with probability p = c q/n, where q is the 1 - beta
    quantile of the budget's noise at sensitivity 1, beta = 0.1. In KSU20, alpha^2 = p d.

    Parameters
    ----------
    d : int
        Dimension.
    c : list of float >= 0
        Values of c; members with p > 1/2 are dropped, and c = 0 is the point mass.
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
            f"{label}/c={c:g},{word}": ProductTwoPoint(d=self.d, p=_digits(c * unit), word=word)
            for c in self.c
            if c * unit <= 0.5
            for word in range(self.words if c else 1)
        }

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> ErrorBound:
        """Return the bound of the class, without sampling."""
        return ErrorBound() if local else heavy_tailed(n, self.k, budget, d=self.d, rare=0)


def build_family(spec: Mapping[str, Any], where: str) -> Family:
    """Build the family that a configuration describes, or the family of a single distribution.

    Parameters
    ----------
    spec : mapping or Family
        Configuration with its ``kind``; see `Registered.build`.
    where : str
        Key of the configuration, for error messages.

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
        known = sorted([*Distribution.kinds(), *Family.kinds()])
        raise ConfigError(f"{where}.kind: {spec['kind']!r}: {choose_from(spec['kind'], known)}")
    return _Single(distribution=Distribution.build(spec, where))
