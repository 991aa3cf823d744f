"""Public knowledge about the records, from which parameters of estimators follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation

__all__ = ["Public"]


@dataclass(frozen=True)
class Public:
    """Public knowledge about the records, from which an estimator's parameters may be chosen.

    Attributes
    ----------
    n : int or None
        Number of records; None if it is private, as under ``add_remove``.
    d : int
        Coordinates of a record; 1 for numbers.
    budget : Budget
        Privacy budget, with its `neighbours`.
    local : bool
        Whether every record is released by itself (the local model).
    records : {'any', 'bounded', 'binary', 'gaussian', 'moments'}
        Class of distributions of the records; see ``catalogue.yaml``.
    scale : float or None
        Standard deviation of a coordinate; None if it is private.
    k : float or None
        Order k >= 2 of the centred moment that is at most 1; None without such a bound.
    radius : float or None
        Bound on the norm of the mean; None without a public bound.
    bounds : pair of float, optional
        Public bounds (lower, upper) on numbers, if records are `bounded`.
    """

    n: int | None
    d: int
    budget: Budget
    local: bool
    records: str
    scale: float | None = None
    k: float | None = None
    radius: float | None = None
    bounds: tuple[float, float] | None = None

    @property
    def notion(self) -> str:
        """The notion of the budget: ``pure``, ``zcdp``, ``gdp`` or ``approx``."""
        return self.budget.notion

    @property
    def relation(self) -> Relation:
        """The neighbours of the budget: ``replace`` or ``add_remove``."""
        return self.budget.neighbours

    @property
    def ends(self) -> tuple[float, float]:
        """Public bounds (lower, upper) on numbers."""
        if self.bounds is not None:
            return self.bounds
        return (0.0, 1.0) if self.records == "binary" else (-self.far, self.far)

    @property
    def lower(self) -> float:
        """Lower public bound on numbers."""
        return self.ends[0]

    @property
    def upper(self) -> float:
        """Upper public bound on numbers."""
        return self.ends[1]

    @property
    def far(self) -> float:
        """Return a norm that few records exceed: the radius + 4, or + 2 + sqrt(d) for vectors."""
        assert self.radius is not None
        spread = 4.0 if self.d == 1 else 2.0 + math.sqrt(self.d)
        return self.radius + spread * (self.scale or 3.0)

    @property
    def reach(self) -> float:
        """Bound on the norm of the mean; 1 for records in [0, 1]."""
        return self.radius or 1.0

    @property
    def least_mean(self) -> float:
        """Smallest possible mean."""
        return -float(self.radius or 0.0)

    @property
    def largest_mean(self) -> float:
        """Largest possible mean."""
        return float(self.radius or 0.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of a coordinate, or the bound 1 of a moment class."""
        return self.scale or 1.0

    @property
    def resolution(self) -> float:
        """Resolution of a private median: a hundredth of a deviation."""
        return self.deviation / 100

    @property
    def variance(self) -> float:
        """Bound on the variance of every projection."""
        return self.deviation**2

    @property
    def order(self) -> float:
        """Order of a bounded moment; 2 by default, also for records in [0, 1]."""
        return self.k or 2.0

    @property
    def ball_noise(self) -> str:
        """Mechanism of `L2ClippedMean` with the smallest noise under the notion."""
        return "l2" if self.notion == "pure" else "additive"
