"""Plan of a private mean: expected error, best clip, records needed, ranked estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpbench.distributions import Distribution
from dpbench.errors import check_instance
from dpbench.estimators.estimands import VARIANCE
from dpbench.output.names import as_text
from dpbench.planner.explanations import (
    data_code,
    describe_object,
    format_records,
    opendp_code,
    release_code,
)
from dpbench.planner.prediction import (
    BoundedMoment,
    BoundedRecords,
    Clip,
    Error,
    KnownDistribution,
    Problem,
)
from dpbench.planner.ranking import RankedEstimator, class_limit, rank_estimators
from dpbench.planner.variance import HARD_COINS, KnownVariance
from dpbench.privacy import Budget
from dpbench.registry import MAX_RECORDS, ConfigError
from dpbench.theory.bounds.class_bound import ErrorBound

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["PlanNumbers"]

PRIVACY_PRECISION = 1e-4  # relative precision of the amount that `PlanNumbers.privacy` returns
CUT_TOLERANCE = 0.01  # relative error of the width of a clip that still has its name
MAX_PRIVACY_AMOUNT = 1e4  # largest amount that `PlanNumbers.privacy` tries


@dataclass(frozen=True)
class PlanNumbers:
    """Computed numbers of a plan, and the code that makes its release.

    `dpbench.planner.page.ReleasePlan`, which derives from this class, describes the fields and
    prints them.
    """

    problem: Problem
    n: int
    budget: Budget
    law: Distribution | None = None
    alpha: float | None = None

    @cached_property
    def clip(self) -> Clip:
        """Best clip (interval to which records are clipped), the pair of its ends.

        For a known distribution the clip minimises the 0.9 quantile of the error, if the biases
        from clipping at the two ends are added instead of cancelling
        (`Error.q90_without_cancellation`). For a class of distributions the method `best_clip` of
        the problem chooses the clip. The ends are rounded outwards, to the third significant digit
        of the clip's width. They are not rounded if public bounds fix the clip.
        """
        low, high = self.problem.best_clip(self.n, self.budget)
        digits = 2 - int(np.floor(np.log10(high - low)))
        ends = np.floor(low * 10.0**digits), np.ceil(high * 10.0**digits)
        a, b = (round(float(end) * 10.0**-digits, max(digits, 0)) for end in ends)
        return (
            (low, high)
            if isinstance(self.problem, BoundedRecords)
            else (self._clip_to_bounds(a), self._clip_to_bounds(b))
        )

    def _clip_to_bounds(self, end: float) -> float:
        """Return an end of a clip, moved into the public bounds.

        If the problem is not a known distribution, the end is returned unchanged.
        """
        is_known = isinstance(self.problem, KnownDistribution)
        return float(np.clip(end, self.problem.low, self.problem.high)) if is_known else end

    @cached_property
    def expected(self) -> Error:
        """Error at the best clip, in the unit of the records."""
        return self.error(*self.clip)

    def error(self, lower: float, upper: float) -> Error:
        """Return the error of the clipped mean with noise at the clip [lower, upper].

        The ends and the error are in the unit of the records.
        """
        if not lower < upper:
            raise ConfigError(f"upper: {upper}: must exceed lower, {lower}")
        return self.problem.error((lower, upper), self.n, self.budget)

    @property
    def known(self) -> str:
        """Public knowledge about the records, in one or two lines."""
        problem = self.problem
        ends = f"[{problem.low:g}, {problem.high:g}]"
        if isinstance(problem, KnownVariance):
            if self.law is not None:
                return f"{describe_object(self.law)}: variance {as_text(problem.target, 4)}"
            coins = ", ".join(map(as_text, HARD_COINS))
            return (
                f"variance of any law on {ends}\n"
                f"errors are of the worst of the coins with P = {coins} at one end"
            )
        if isinstance(problem, BoundedMoment):
            moment_class = (
                f"any law with E|X - mu|^{problem.k:g} <= {problem.scale:g}^{problem.k:g}"
            )
            validity = "the errors are upper bounds, for averages that are close to normal"
            return f"{moment_class}, mu in {ends}\n{validity}"
        if isinstance(problem, BoundedRecords):
            return f"any law on {ends}; errors are of the worst, a fair coin on the ends"
        mean, sd = as_text(problem.target, 4), as_text(problem.sd, 4)
        return f"{describe_object(self.law)}: mean {mean}, sd {sd}"

    @property
    def clips(self) -> dict[str, Clip]:
        """Clips whose errors the plan compares, keyed by description.

        They are the best clip, deliberately wrong clips such as ``twice as wide``, and the public
        bounds. If the range of the records or the bounds cut a clip, its name says the width that
        remains, or that it is cut. If clips are equal, only one of them is listed.
        """
        named_clips = {"best": self.clip}
        if not isinstance(self.problem, BoundedRecords):
            wrong = {"half as wide": 0.5, "twice as wide": 2.0}
            for name, ratio in wrong.items():
                clip = self.problem.scale_clip(self.clip, ratio)
                reached = (clip[1] - clip[0]) / (self.clip[1] - self.clip[0])
                is_cut = abs(reached / ratio - 1) > CUT_TOLERANCE
                named_clips[f"{as_text(reached)}x as wide" if is_cut else name] = clip
        if isinstance(self.problem, KnownDistribution) and not isinstance(
            self.problem, BoundedRecords
        ):
            sd, ends = self.problem.sd, (self.problem.low, self.problem.high)
            if np.isfinite(sd):
                low, high = (self._clip_to_bounds(end + sd) for end in self.clip)
                is_cut = (low, high) != tuple(end + sd for end in self.clip)
                named_clips["sd higher, cut" if is_cut else "one sd higher"] = low, high
            if np.all(np.isfinite(ends)) and ends != self.clip:
                named_clips["the bounds"] = ends
        priority = sorted(named_clips, key=lambda name: name not in ("best", "the bounds"))
        names = {named_clips[name]: name for name in reversed(priority)}
        return {
            name: clip
            for name, clip in named_clips.items()
            if clip[0] < clip[1] and names[clip] == name
        }

    def _best_q90(self, n: int, budget: Budget) -> float:
        """Return the 0.9 quantile of the error of `n` records under `budget`, at the best clip."""
        return self.problem.error(self.problem.best_clip(n, budget), n, budget).q90

    def records(self, alpha: float) -> int:
        """Return the smallest number of records at which 9 of 10 releases err by at most `alpha`.

        `alpha` is an absolute error, in the unit of the target. For each number n of records, the
        error is computed at the best clip for this n. The search interpolates and bisects. The
        error may increase with n, for example for Bernoulli averages with little noise, or if n is
        small. The error may then cross `alpha` at several n, and the result is one of them. If no
        number of records suffices, a ConfigError is raised.
        """
        _check_amount("alpha", alpha)

        def excess(n: int) -> float:
            q90 = self._best_q90(n, self.budget)
            return float(np.log(q90 / alpha)) if np.isfinite(q90) else np.inf

        low = high = self.n
        if excess(high) > 0 and excess(MAX_RECORDS) > 0:
            raise ConfigError(
                f"alpha: {as_text(alpha, 6)}: not reached with any number of records; "
                "raise the budget"
            )
        while excess(high) > 0:
            low, high = high, min(4 * high, MAX_RECORDS)
        least = self.problem.least_n
        while low > least and excess(low) <= 0:
            low, high = max(low // 4, least), low
        return least if excess(low) <= 0 else _search_smallest_n(excess, low, high)

    def privacy(self, alpha: float) -> Budget:
        """Return the smallest budget for which nine in ten releases err by at most `alpha`.

        `alpha` is an absolute error, in the unit of the target. Only the first amount of the
        budget (epsilon, rho or mu) changes. The amount is found to a relative precision of 1e-4. If
        no amount up to 10,000 suffices, a ConfigError is raised.
        """
        name, *_ = self.budget.named_amounts

        _check_amount("alpha", alpha)

        def with_amount(log_amount: float) -> Budget:
            return replace(self.budget, **{name: float(np.exp(log_amount))})  # type: ignore[type-var]

        def excess(log_amount: float) -> float:
            q90 = self._best_q90(self.n, with_amount(log_amount))
            return float(np.log(q90 / alpha)) if np.isfinite(q90) else 1.0

        low = high = float(np.log(self.budget.named_amounts[name]))
        if excess(high) > 0 and excess(float(np.log(MAX_PRIVACY_AMOUNT))) > 0:
            raise ConfigError(
                f"alpha: {as_text(alpha, 6)}: not reached with {format_records(self.n)} at any "
                f"{name}; raise n or alpha"
            )
        while excess(high) > 0:
            low, high = high, high + 1.5
        while excess(low) <= 0:
            if low < np.log(1e-10):
                return with_amount(low)
            low, high = low - 1.5, low
        from scipy.optimize import brentq

        return with_amount(
            float(brentq(excess, low, high, xtol=PRIVACY_PRECISION / 2)) + PRIVACY_PRECISION / 2
        )

    @cached_property
    def limit(self) -> tuple[ErrorBound, str]:
        """Lower bound on the error of every private estimator, and the class it is proved for.

        The error is the 0.9 quantile of the absolute error at the worst distribution of the class.
        The class of distributions is given by its name.
        """
        return class_limit(self.problem, self.law, self.n, self.budget)

    @cached_property
    def rows(self) -> list[RankedEstimator]:
        """Estimators that apply to the problem, by increasing 0.9 quantile of the error."""
        return rank_estimators(self.problem, self.law, self.clip, self.n, self.budget)

    @property
    def ranking(self) -> pd.DataFrame:
        """Data frame of the estimators that apply to the problem, by increasing error."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(RankedEstimator._fields)).drop(columns="by")

    @property
    def code(self) -> str:
        """Python code that releases the target by the best estimator.

        The best estimator is the first in the ranking of the plan. The code runs as it is. Unless
        the distribution of the plan is a data file, the code defines a placeholder for the records.
        """
        best = self.rows[0].by
        return release_code(best, self.budget, self._data_code(binary=best.binary))

    def _data_code(self, *, binary: bool = False) -> str:
        ends = self.clip
        if isinstance(self.problem, BoundedMoment):  # a placeholder that belongs to the class
            middle, scale = self.problem.middle, self.problem.scale
            ends = (middle - scale, middle + scale)
        return data_code(self.n, ends, self.law, binary=binary)

    @property
    def opendp(self) -> str | None:
        """OpenDP code of the clipped mean; None unless n is public and the noise is Laplace."""
        if self.problem.estimand is VARIANCE:
            return None
        return opendp_code(self.clip, self.n, self.budget, self._data_code())

    def plot(self, ax: Axes, against: Literal["n", "width"] = "n") -> Axes:
        """Draw the error and its parts (sampling, bias and noise) on `ax`.

        The horizontal axis is the number of records, each with its best clip, or the width of the
        clip.
        """
        from dpbench.planner import figure

        if against == "n":
            return figure.against_n(self.problem, self.n, self.budget, ax)
        return figure.against_width(self.problem, self.n, self.budget, self.clip, ax)


def _check_amount(name: str, value: object) -> None:
    """Raise ConfigError unless an argument is a finite number above 0."""
    check_instance(name, value, float | int | np.number, "a number", "0.1")
    if isinstance(value, bool) or not 0 < value < np.inf:  # type: ignore[operator]
        raise ConfigError(f"{name}: {value}: not a finite number above 0; write one, such as 0.1")


def _search_smallest_n(excess: Callable[[int], float], low: int, high: int) -> int:
    """Return the smallest n in (low, high] with excess(n) <= 0, for a decreasing `excess`."""
    low_excess, high_excess, turn = excess(low), excess(high), 0
    while high - low > 1:
        share = (
            low_excess / (low_excess - high_excess)
            if turn % 2 == 0 and np.isfinite(low_excess)
            else 0.5
        )
        turn += 1
        n = min(max(round(low * (high / low) ** share), low + 1), high - 1)
        new_excess = excess(n)
        if new_excess > 0:
            low, low_excess = n, new_excess
        else:
            high, high_excess = n, new_excess
    return high
