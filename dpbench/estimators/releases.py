"""Function `release`, which runs an estimator on one dataset, and the intervals that it returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Never, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbench.arrays import Floats
from dpbench.errors import check_instance, check_whole_number, reject_unknown_keywords
from dpbench.estimators.assumptions import warn_of_contradictions
from dpbench.estimators.base import Estimator
from dpbench.privacy import Budget, Ledger, NonPrivate
from dpbench.samples import DenseSample
from dpbench.samples.records import read_numbers
from dpbench.seeds import check_generator

__all__ = ["Interval", "Intervals", "release"]

EXAMPLE = "an instance such as ClippedMean(lower=0, upper=300)"  # of an estimator, for messages


class Interval(float):
    """Released confidence interval for a mean; as a float, it is the released estimate.

    An interval unpacks to its two ends, as in ``low, high = interval``, and ``x in interval`` says
    whether low <= x <= high. All other operations are the operations of the float: two intervals
    are equal if their estimates are equal.

    Parameters
    ----------
    low, high : float
        Ends of the interval, in the unit of the data; NaN if the estimator declares failure.
    estimate : float
        Released estimate of the mean. It need not be the middle of the interval.
    miss : float, optional
        Nominal probability that the interval does not contain the mean; None if the estimator
        states no probability.

    Examples
    --------
    >>> interval = Interval(169.5, 170.5, estimate=170.1, miss=0.1)
    >>> interval
    Interval(169.5, 170.5, estimate=170.1, miss=0.1)
    >>> low, high = interval
    >>> low, high, interval + 1, 170 in interval
    (169.5, 170.5, 171.1, True)
    """

    __slots__ = ("_ends", "_miss")

    _ends: tuple[float, float]
    _miss: float | None

    def __new__(cls, low: float, high: float, estimate: float, miss: float | None = None) -> Self:
        interval = super().__new__(cls, estimate)
        interval._ends, interval._miss = (float(low), float(high)), miss
        return interval

    def __reduce__(self) -> tuple[type[Self], tuple[float, float, float, float | None]]:
        return type(self), (self.low, self.high, self.estimate, self.miss)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__ or hasattr(self, name):
            raise AttributeError(f"{name}: an interval cannot be changed; build a new one")
        super().__setattr__(name, value)

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self._ends[0]

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self._ends[1]

    @property
    def estimate(self) -> float:
        """Released estimate of the mean, as a plain float."""
        return float(self)

    @property
    def miss(self) -> float | None:
        """Nominal probability that the interval does not contain the mean."""
        return self._miss

    def __iter__(self) -> Iterator[float]:
        return iter(self._ends)

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __repr__(self) -> str:
        numbers = f"{self.low:.6g}, {self.high:.6g}, estimate={self.estimate:.6g}"
        return f"Interval({numbers}{_format_miss(self.miss)})"


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Released confidence intervals for a mean, one for each repeat; unpacks to ``low, high``.

    ``numpy.asarray`` turns the intervals into the array of their estimates.

    Parameters
    ----------
    low, high : (repeats,) array
        Ends of the intervals, in the unit of the data; NaN where the estimator declares failure.
    estimate : (repeats,) array
        Released estimates of the mean.
    miss : float, optional
        Nominal probability that an interval does not contain the mean.
    """

    low: Floats
    high: Floats
    estimate: Floats
    miss: float | None = None

    def __iter__(self) -> Iterator[Floats]:
        return iter((self.low, self.high))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.estimate, dtype=dtype, copy=True if copy is None else copy)

    def __repr__(self) -> str:
        width = float(np.median(self.high - self.low))
        count = f"{len(self.low)} intervals, median width {width:.6g}"
        return f"Intervals({count}{_format_miss(self.miss)})"


def _format_miss(miss: float | None) -> str:
    """Return the text ``, miss=...``, or blank text if the probability of a miss is not stated."""
    return "" if miss is None else f", miss={miss:.6g}"


@overload
def release(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    *,
    rng: np.random.Generator,
    repeats: None = None,
) -> float | Floats: ...


@overload
def release(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    *,
    rng: np.random.Generator,
    repeats: int | None = None,
) -> float | Floats | Intervals: ...


def release(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    *,
    rng: np.random.Generator,
    repeats: int | None = None,
    **unknown: Never,
) -> float | Floats | Intervals:
    """Release a differentially private estimate of the mean of `data`.

    An estimator of confidence intervals releases both ends of its interval, in an `Interval`. This
    is a float, too: the released estimate.

    Parameters
    ----------
    estimator : Estimator
        The mechanism, with its parameters.
    data : (n,) or (n, d) array_like
        Finite numbers, one row per record. `dpbench.samples.records` lists the types that are
        numbers; they are converted to float64. The array is never written to.
    budget : Budget or None
        Privacy budget of one release; None for an estimator that is not private.
    rng : Generator
        Source of all randomness.
    repeats : int, optional
        Number of independent releases on these data; each costs the budget. Default: one.
    **unknown
        Not accepted: an unknown name raises ConfigError with the names that exist.

    Returns
    -------
    float or (d,) array; (repeats,) or (repeats, d) array if `repeats` is given
        NaN where the estimator declares failure. For other estimands see `Estimator.shape`. An
        estimator of intervals returns an `Interval`, or `Intervals` if `repeats` is given.

    Raises
    ------
    ValueError
        If the data are empty, missing, infinite or no numbers, if `repeats` is below 1, or if the
        estimator does not support the data or the budget.
    TypeError
        If an argument has the wrong type, such as a class as the estimator, or a seed as `rng`.
        Errors that depend on the data are not private: do not publish them.

    Warns
    -----
    AssumptionWarning
        If the data contradict the assumptions of the estimator, by `Estimator.assumptions`. The
        warning looks at the data, so it is not private and for simulation only. It prints counts,
        also if n is private. For data that satisfy an assumption its probability is at most 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP, release
    >>> from dpbench.estimators import ClippedMean
    >>> heights = np.random.default_rng(0).normal(170, 10, 10_000)
    >>> value = release(ClippedMean(lower=0, upper=300), heights, PureDP(1.0),
    ...                 rng=np.random.default_rng(1))
    >>> bool(abs(value - heights.mean()) < 1)
    True

    Both ends of an interval:

    >>> from dpbench.estimators import KarwaVadhanInterval
    >>> low, high = release(KarwaVadhanInterval(radius=300), heights, PureDP(1.0),
    ...                     rng=np.random.default_rng(2))
    >>> bool(low < heights.mean() < high)
    True
    """
    reject_unknown_keywords(unknown, release)
    check_instance("estimator", estimator, Estimator, "an estimator", EXAMPLE)
    if budget is not None:
        check_instance("budget", budget, Budget, "a budget", "PureDP(1.0)")
    check_generator(rng)
    if repeats is not None:
        check_whole_number("repeats", repeats, 1)
    n_is_private = budget is not None and budget.neighbours == "add_remove"
    array = read_numbers(data, "data", vectors=True, show_counts=not n_is_private)
    copies = 1 if repeats is None else repeats
    sample = DenseSample(np.broadcast_to(array, (copies, *array.shape)))
    estimator.check_suits(sample, budget or NonPrivate())
    warn_of_contradictions(estimator, array, stacklevel=2, budget=budget)
    estimate = estimator.run(sample, Ledger(budget or NonPrivate(), rng))
    # Copy, because the base of a view may hold values before noise.
    value = estimate.value.copy()
    ends = estimate.interval and (estimate.interval[0].copy(), estimate.interval[1].copy())
    if repeats is not None:
        return value if ends is None else Intervals(*ends, value, estimate.miss)
    if ends is not None:
        return Interval(ends[0][0], ends[1][0], value[0], estimate.miss)
    return float(value[0]) if value.ndim == 1 else value[0]
