"""Instance families: the laws over which a worst case is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from dpbench.distributions import (
    Distribution,
    People,
    ProductTwoPoint,
    SignedTwoPoint,
    TwoPoint,
)
from dpbench.distributions.multivariate import Dimension
from dpbench.errors import choose_from
from dpbench.privacy import Budget
from dpbench.registry import ConfigError, Label, MomentOrder, Registered, validated
from dpbench.theory.bounds.numbers import BETA, sampling_lower_bound, two_point_lower_bound
from dpbench.theory.bounds.of_class import Bound, class_bound, heavy_tailed, of_people

__all__ = [
    "Family", "Laws", "ProductTwoPointFamily", "SignedTwoPointFamily", "TwoPointFamily",
    "build_family",
]  # fmt: skip

# Sample sizes for which bounds are computed end here.
MOST = 10**15


class Family(Registered, ABC):
    """Laws that may depend on n and the budget; an error is the worst over these, its members.

    Attributes
    ----------
    follows_budget : bool
        Whether the members depend on the budget, every one of which has then its own data.
    """

    follows_budget: ClassVar[bool] = False

    @property
    def moment_order(self) -> float | None:
        """The order of the moment that is bounded by 1, if any: the parameter k."""
        return getattr(self, "k", None)

    @property
    def person_records(self) -> int:
        """How many records each person has: the parameter m."""
        return int(getattr(self, "m", 1))

    @abstractmethod
    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        """The laws at this n and budget, by label."""

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        """An error that no estimator, or no local one, beats over the family or its class."""
        return Bound()

    def crossing(self, budget: Budget) -> float:
        """The n from which on sampling, and not privacy, bounds the error; NaN if not known."""
        return float("nan")


@validated
class _Single(Family):
    """A family of one."""

    distribution: Any

    @property
    def moment_order(self) -> float | None:
        law = self.distribution
        law = law.of if isinstance(law, People) else law
        k = getattr(law, "unit_moment", None) or getattr(law, "k", None)
        return None if k is None else float(k)

    @property
    def person_records(self) -> int:
        return int(getattr(self.distribution, "m", 1))

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        return {label: self.distribution}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        return class_bound(self.distribution, n, budget, local=local)


@validated
class Laws(Family):
    """List laws of one class, such as Bernoulli laws of several p.

    One law of a class is easier than the class: an estimator that always answers its mean makes no
    error. Where means are far apart every constant errs by half their distance, so that the worst
    error over the members may stand over the lower bound of the class.

    Parameters
    ----------
    laws : mapping of str to distribution, its configuration
        The members by name; their means must not all be equal.
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
        """Return the order of the moment that all members bound by 1, if they agree."""
        orders = {one.moment_order for one in self._each}
        return orders.pop() if len(orders) == 1 else None

    @property
    def person_records(self) -> int:
        return max(one.person_records for one in self._each)

    def members(self, label: str, n: int, budget: Budget) -> dict[str, Distribution]:
        return {f"{label}/{name}": law for name, law in self.laws.items()}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        """Return the largest bound of a member's class: all of them hold for their union."""
        bounds = [one.lower_bound(n, budget, local=local) for one in self._each]
        return max(bounds, key=lambda one: -1.0 if np.isnan(one.value) else one.value)


def _digits(p: float) -> float:
    # Streams are seeded by parameters: the last bit of a logarithm should not change the data.
    return float(f"{abs(p):.6g}")


def _signed(
    law: type[TwoPoint | SignedTwoPoint], label: str, signed: Mapping[str, float], **options: Any
) -> dict[str, Distribution]:
    """Laws of these p, with their signs, but for those above 1/2 or not known."""
    return {
        f"{label}/{name}": law(p=_digits(p), sign=-1 if p < 0 else 1, **options)
        for name, p in signed.items()
        if abs(p) <= 0.5
    }


@validated
class TwoPointFamily(Family):
    """Two-point laws around those that privacy makes hardest, as n and the budget move.

    With beta = 0.1 and e = ln(1/beta)/q, q the 1 - beta quantile of the budget's noise at
    sensitivity 1 (e is epsilon for pure DP), the rare point has probability p = c/(e n) for
    estimators that see all the data, p = c/(e sqrt(n)) in the local model. The law is what
    KSU20, Claim 3.9, bounds from below. Rare points isolate the price of privacy: on these laws
    the error of the empirical mean is far below that of private ones, and they are not the worst
    of all laws with E|X - mean|^k <= 1 where n is so large that sampling costs more than privacy.

    Parameters
    ----------
    k : float >= 2
    c : list of float
        Members, but for p > 1/2; a negative c puts the rare point at -tau.
    scaling : {'central', 'local'}
        With 'central' the worst members +-2 ln(1/beta) and +-p* of the lower bound come on top,
        with p at most 1/2.
    location : float
        Added to every record.
    sampling : bool
        Whether a fair coin is a member, too: +-1 with probability 1/2, which no clip above 1
        changes and whose mean no estimator knows much better than to 1.645/sqrt(n). The lower
        bound is then that of all laws with E|X - mean|^k <= 1; else of those that are as often
        on one point as the members.
    m : int
        Records of each of n people, whose means are what is drawn: p is then c/(e n m).
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
        return {name: People(of=law, m=self.m) if self.m > 1 else law for name, law in laws.items()}

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        if self.m > 1:
            return Bound() if local else of_people(n, self.m, self.k, budget, self.sampling)
        if self.sampling or local:
            return heavy_tailed(n, self.k, budget, local=local, rare=float(self.sampling))
        members: Any = self.members("", n, budget)
        return heavy_tailed(n, self.k, budget, rare=max(law.p for law in members.values()))

    def crossing(self, budget: Budget) -> float:
        """Where sampling overtakes what privacy alone costs at least, if it does below 1e15."""

        def sampled(n: int) -> bool:
            private = heavy_tailed(n, self.k, budget, rare=0).value
            return not sampling_lower_bound(n, self.k) < private

        if not (self.sampling and self.m == 1 and sampled(MOST)):
            return float("nan")
        return float(1 + bisect_left(range(1, MOST), x=True, key=sampled))


@validated
class SignedTwoPointFamily(Family):
    """Laws that are hard for a ball to clip, `SignedTwoPoint`, as n and the budget move.

    With q the 1 - beta quantile of the budget's noise at sensitivity 1, beta = 0.1, a vector
    other than zero has probability p = c d q/n: a ball of radius sqrt(d) T around the mean is
    best at T^k ~ n/(d q), and is misled most by a law whose vectors are outside of it.

    Parameters
    ----------
    d : int
    k : float >= 2
    c : list of float
        Members, but for p > 1/2; a negative c turns the mean around, 0 is the point mass.
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

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        """That of the class; sampling is no part of it, as for `TwoPointFamily`."""
        return Bound() if local else heavy_tailed(n, self.k, budget, d=self.d, rare=0)


@validated
class ProductTwoPointFamily(Family):
    """Product two-point laws of KSU20, Theorem 6.1, as n and the budget move.

    A coordinate in the code word is not zero with probability p = c q/n, q as in
    `SignedTwoPointFamily`; alpha^2 = p d.

    Parameters
    ----------
    d : int
    c : list of float
        Members, but for p > 1/2; c = 0 is the point mass.
    words : int
        Code words for each.
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

    def lower_bound(self, n: int, budget: Budget, *, local: bool = False) -> Bound:
        """That of the class, without what sampling costs."""
        return Bound() if local else heavy_tailed(n, self.k, budget, d=self.d, rare=0)


def build_family(spec: Mapping[str, Any], where: str) -> Family:
    """Make the family that `spec` describes, see `Registered.build`, or one of a distribution."""
    if isinstance(spec, Family) or (isinstance(spec, Mapping) and Family.find(spec, whole=False)):
        return Family.build(spec, where)
    if isinstance(spec, Mapping) and "kind" in spec and not Distribution.find(spec, whole=False):
        known = sorted([*Distribution.kinds(), *Family.kinds()])
        raise ConfigError(f"{where}.kind: {spec['kind']!r}: {choose_from(spec['kind'], known)}")
    return _Single(distribution=Distribution.build(spec, where))
