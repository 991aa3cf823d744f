"""Plan of a private mean: expected error, best clip, records needed, ranked estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpbench.distributions import Distribution
from dpbench.planner.explanations import described, opendp_code, records, release_code
from dpbench.planner.prediction import (
    BoundedMoment,
    BoundedRecords,
    Clip,
    Error,
    KnownDistribution,
    Problem,
)
from dpbench.planner.ranking import Ranked, limit, ranked
from dpbench.privacy import Budget
from dpbench.registry import MOST_RECORDS, ConfigError
from dpbench.theory.bounds.class_bound import ErrorBound

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ReleasePlan"]

FINE = 1e-4  # relative precision of the amount of privacy that `ReleasePlan.privacy` finds
LARGEST = 1e4  # largest amount of privacy that `ReleasePlan.privacy` tries


@dataclass(frozen=True)
class ReleasePlan:
    """Plan of a clipped mean with noise for one problem, as returned by `plan`.

    Parameters
    ----------
    problem : KnownLaw, AnyLaw or Moments
        Public knowledge about the records.
    n : int
        Number of records.
    budget : Budget
        Privacy budget of the release.
    law : Distribution, optional
        Distribution of the records, if it is known.
    alpha : float, optional
        Absolute error asked for, in the unit of the records.
    """

    problem: Problem
    n: int
    budget: Budget
    law: Distribution | None = None
    alpha: float | None = None

    @cached_property
    def clip(self) -> Clip:
        """The best clip, its ends rounded outwards to three digits of its width.

        For a known distribution it minimises `Error.q90_without_cancellation`, the 0.9 quantile of
        the error when the biases of the two sides are added; for a class the clip is that of the
        problem.
        """
        low, high = self.problem.best_clip(self.n, self.budget)
        digits = 2 - int(np.floor(np.log10(high - low)))
        ends = np.floor(low * 10.0**digits), np.ceil(high * 10.0**digits)
        a, b = (round(float(end) * 10.0**-digits, max(digits, 0)) for end in ends)
        return (
            (low, high)
            if isinstance(self.problem, BoundedRecords)
            else (self._cut(a), self._cut(b))
        )

    def _cut(self, end: float) -> float:
        """Return `end`, moved into the public bounds if the distribution is known."""
        known = isinstance(self.problem, KnownDistribution)
        return float(np.clip(end, self.problem.low, self.problem.high)) if known else end

    @cached_property
    def expected(self) -> Error:
        """The error at the best clip, in the unit of the records."""
        return self.error(*self.clip)

    def error(self, lower: float, upper: float) -> Error:
        """Return the error at the clip [lower, upper].

        Parameters
        ----------
        lower, upper : float
            Ends of the clip, in the unit of the records.

        Returns
        -------
        Error

        Raises
        ------
        ConfigError
            If `lower` is not below `upper`.
        """
        if not lower < upper:
            raise ConfigError(f"upper: {upper}: must exceed lower, {lower}")
        return self.problem.error((lower, upper), self.n, self.budget)

    @property
    def known(self) -> str:
        """Public knowledge about the records, in one or two lines."""
        problem = self.problem
        ends = f"[{problem.low:g}, {problem.high:g}]"
        if isinstance(problem, BoundedMoment):
            worst = f"any law with E|X - mu|^{problem.k:g} <= {problem.scale:g}^{problem.k:g}"
            limits = "the errors are upper bounds, for averages that are close to normal"
            return f"{worst}, mu in {ends}\n{limits}"
        if isinstance(problem, BoundedRecords):
            return f"any law on {ends}; errors are of the worst, a fair coin on the ends"
        return f"{described(self.law)}: mean {problem.target:.4g}, sd {problem.sd:.4g}"

    @property
    def clips(self) -> dict[str, Clip]:
        """The best clip, wrong clips to compare with it, and the bounds, by description."""
        found = {"best": self.clip}
        if not isinstance(self.problem, BoundedRecords):
            wrong = {"half as wide": 0.5, "twice as wide": 2.0}
            found |= {name: self.problem.scaled(self.clip, one) for name, one in wrong.items()}
        if isinstance(self.problem, KnownDistribution) and not isinstance(
            self.problem, BoundedRecords
        ):
            off, ends = self.problem.sd, (self.problem.low, self.problem.high)
            if np.isfinite(off):
                low, high = (self._cut(end + off) for end in self.clip)
                found["one sd higher"] = low, high
            if np.all(np.isfinite(ends)) and ends != self.clip:
                found["the bounds"] = ends
        return {name: clip for name, clip in found.items() if clip[0] < clip[1]}

    def _best(self, n: int, budget: Budget) -> float:
        """Return the 0.9 quantile of the error at the best clip of `n` and `budget`."""
        return self.problem.error(self.problem.best_clip(n, budget), n, budget).q90

    def records(self, alpha: float) -> int:
        """Return the smallest n for which nine in ten releases err by at most `alpha`.

        Each n has its best clip; the search interpolates and bisects. If the error does not
        decrease throughout (Bernoulli averages with little noise; a few records, for which the
        centre of the distribution is as good), the result is one of the n where it crosses `alpha`.

        Parameters
        ----------
        alpha : float
            Absolute error, in the unit of the records.

        Returns
        -------
        int

        Raises
        ------
        ConfigError
            If no number of records suffices.
        """

        def excess(n: int) -> float:
            found = self._best(n, self.budget)
            return float(np.log(found / alpha)) if np.isfinite(found) else np.inf

        low = high = self.n
        if excess(high) > 0 and excess(MOST_RECORDS) > 0:
            raise ConfigError(
                f"alpha: {alpha:g}: not reached with any number of records; raise the budget"
            )
        while excess(high) > 0:
            low, high = high, min(4 * high, MOST_RECORDS)
        while low > 1 and excess(low) <= 0:
            low, high = max(low // 4, 1), low
        return 1 if excess(low) <= 0 else _smallest(excess, low, high)

    def privacy(self, alpha: float) -> Budget:
        """Return the smallest budget for which nine in ten releases err by at most `alpha`.

        Only the first amount of the budget (epsilon, rho or mu) is changed, to four digits.

        Parameters
        ----------
        alpha : float
            Absolute error, in the unit of the records.

        Returns
        -------
        Budget

        Raises
        ------
        ConfigError
            If no amount up to 10,000 suffices.
        """
        name, *_ = self.budget.named_amounts

        def with_amount(log_amount: float) -> Budget:
            return replace(self.budget, **{name: float(np.exp(log_amount))})  # type: ignore[type-var]

        def excess(log_amount: float) -> float:
            found = self._best(self.n, with_amount(log_amount))
            return float(np.log(found / alpha)) if np.isfinite(found) else 1.0

        low = high = float(np.log(self.budget.named_amounts[name]))
        if excess(high) > 0 and excess(float(np.log(LARGEST))) > 0:
            raise ConfigError(
                f"alpha: {alpha:g}: not reached with {records(self.n)} at any {name}; "
                "raise n or alpha"
            )
        while excess(high) > 0:
            low, high = high, high + 1.5
        while excess(low) <= 0:
            if low < np.log(1e-10):
                return with_amount(low)
            low, high = low - 1.5, low
        from scipy.optimize import brentq

        return with_amount(float(brentq(excess, low, high, xtol=FINE / 2)) + FINE / 2)

    @cached_property
    def limit(self) -> tuple[ErrorBound, str]:
        """Lower bound on the worst error of a private estimator over a class, and the class."""
        return limit(self.problem, self.law, self.n, self.budget)

    @cached_property
    def rows(self) -> list[Ranked]:
        """Estimators that apply, by increasing 0.9 quantile of the error."""
        return ranked(self.problem, self.law, self.clip, self.n, self.budget)

    @property
    def ranking(self) -> pd.DataFrame:
        """Data frame of `rows`."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(Ranked._fields)).drop(columns="by")

    @property
    def code(self) -> str:
        """Python code that releases the mean of an array `data` by the first of `rows`."""
        return release_code(self.rows[0].by, self.budget)

    @property
    def opendp(self) -> str | None:
        """OpenDP code of the clipped mean; None unless n is public and the noise is Laplace."""
        return opendp_code(self.clip, self.n, self.budget)

    def plot(self, ax: Axes, against: Literal["n", "width"] = "n") -> Axes:
        """Draw the error and its parts on `ax`.

        Parameters
        ----------
        ax : Axes
            Axes to draw on.
        against : {'n', 'width'}
            Horizontal axis: the number of records, each with its best clip, or the clip's width.

        Returns
        -------
        Axes
        """
        from dpbench.planner import figure  # slow to load

        if against == "n":
            return figure.against_n(self.problem, self.n, self.budget, ax)
        return figure.against_width(self.problem, self.n, self.budget, self.clip, ax)


def _smallest(excess: Callable[[int], float], low: int, high: int) -> int:
    """Return the smallest n in (low, high] with excess(n) <= 0; `excess` must decrease."""
    above, below, turn = excess(low), excess(high), 0
    while high - low > 1:
        share = above / (above - below) if turn % 2 == 0 and np.isfinite(above) else 0.5
        turn += 1
        n = min(max(round(low * (high / low) ** share), low + 1), high - 1)
        found = excess(n)
        if found > 0:
            low, above = n, found
        else:
            high, below = n, found
    return high
