"""Public knowledge about the records, for the choice of an estimator's parameters."""

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
        Number of records; None if it is private, because neighbours differ by one record
        (``add_remove``).
    d : int
        Number of coordinates of a record; 1 for scalar records.
    budget : Budget
        Privacy budget, with its relation of neighbours, replacing or adding a record.
    local : bool
        Whether every record is released by itself (the local model).
    records : {'any', 'bounded', 'binary', 'gaussian', 'moments', 'variance'}
        Class of distributions of the records; see ``catalogue.yaml``.
    scale : float or None
        Standard deviation of a coordinate, or a bound on it if `records` is ``variance``; None if
        it is private.
    k : float or None
        Order k >= 2 of the central moment that is at most 1; None without such a bound.
    radius : float or None
        Bound on the norm of the mean; None without a public bound.
    bounds : pair of float, optional
        Public bounds (lower, upper) on scalar records, if `records` is ``bounded``.
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
        """Notion of privacy of the budget: ``pure``, ``zcdp``, ``gdp`` or ``approx``."""
        return self.budget.notion

    @property
    def relation(self) -> Relation:
        """Relation of neighbouring datasets under the budget: ``replace`` or ``add_remove``."""
        return self.budget.neighbours

    @property
    def ends(self) -> tuple[float, float]:
        """Public bounds (lower, upper) to which scalar records may be clipped.

        If no public bounds hold for all records, a few records may be outside.
        """
        if self.bounds is not None:
            return self.bounds
        return (0.0, 1.0) if self.records == "binary" else (-self.far, self.far)

    @property
    def lower(self) -> float:
        """Public lower bound to which scalar records may be clipped."""
        return self.ends[0]

    @property
    def upper(self) -> float:
        """Public upper bound to which scalar records may be clipped."""
        return self.ends[1]

    @property
    def far(self) -> float:
        """Norm that few records exceed: the bound on the mean's norm plus several deviations.

        A deviation is the standard deviation of a coordinate, or 3 if it is private. Scalars add 4
        deviations and vectors 2 + sqrt(d).
        """
        assert self.radius is not None
        spread = 4.0 if self.d == 1 else 2.0 + math.sqrt(self.d)
        return self.radius + spread * (self.scale or 3.0)

    @property
    def reach(self) -> float:
        """Public bound on the norm of the mean; 1 if none is given, as for records in [0, 1]."""
        return self.radius or 1.0

    @property
    def least_mean(self) -> float:
        """Smallest possible mean of scalar records; 0 if no bound on the mean is given."""
        return -float(self.radius or 0.0)

    @property
    def largest_mean(self) -> float:
        """Largest possible mean of scalar records; 0 if no bound on the mean is given."""
        return float(self.radius or 0.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of a coordinate; 1 if it is private."""
        return self.scale or 1.0

    @property
    def resolution(self) -> float:
        """Resolution of a private median: a hundredth of the standard deviation of a coordinate.

        A private standard deviation counts as 1.
        """
        return self.deviation / 100

    @property
    def variance(self) -> float:
        """Bound on the variance of the records in every direction."""
        return self.deviation**2

    @property
    def order(self) -> float:
        """Order k of the central moment that is at most 1; 2 if none is given."""
        return self.k or 2.0

    @property
    def ball_noise(self) -> str:
        """Parameter `mechanism` of `L2ClippedMean` that has the smallest noise under the budget.

        The value is ``l2`` under pure DP, else ``additive``.
        """
        return "l2" if self.notion == "pure" else "additive"
