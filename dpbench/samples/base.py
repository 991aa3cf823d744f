"""The interface of all samples: one dataset of n records per trial, queried for all trials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.samples.bins import Bins, Occupied
from dpbench.samples.rows import Rows

__all__ = [
    "AddRemoveView",
    "Sample",
    "chances",
    "half_squares",
    "part_sizes",
    "share_of_records",
    "voted",
    "votes_of",
]  # fmt: skip

T = TypeVar("T")

# Largest n * d for which `Sample.records` lists a dataset: 0.8 GB of doubles.
MOST_HELD = 10**8


def part_sizes(n: int, parts: int) -> list[int]:
    """Return the sizes of `parts` parts of n records; sizes differ by at most one.

    Parameters
    ----------
    n : int
        Number of records.
    parts : int
        Number of parts.

    Returns
    -------
    list of int
        The larger sizes come first.

    Raises
    ------
    ValueError
        If `parts` is below 1 or above n.
    """
    if not 1 <= parts <= n:
        raise ValueError(f"{n} records cannot be cut into {parts} parts of at least one")
    return [n // parts + (i < n % parts) for i in range(parts)]


def share_of_records(q: float, n: int) -> float:
    """Return q n rounded to 14 digits, because ``0.1 * 30`` is 3.0000000000000004 in doubles.

    Parameters
    ----------
    q : float
        Fraction of the records.
    n : int
        Number of records.
    """
    return float(f"{q * n:.14g}")


def half_squares(one: Floats, other: Floats) -> Floats:
    """Return (one - other)^2/2 by element; overflow gives the largest double.

    Parameters
    ----------
    one, other : ndarray
        Finite numbers; the shapes broadcast.
    """
    difference = one / 2 - other / 2
    with np.errstate(over="ignore"):
        return np.minimum(2 * difference**2, np.finfo(float).max)


def chances(values: Floats, bound: float, lean: float) -> Floats:
    """Return the probability of heads for each value in `Sample.randomised_response_count`.

    Parameters
    ----------
    values : ndarray
        Records, any shape.
    bound, lean : float
        See `Sample.randomised_response_count`.
    """
    return (1 + lean * (np.clip(values, -bound, bound) / bound)) / 2


def votes_of(values: Floats, bound: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the probabilities of an up vote and of a down vote, see `Sample.three_output_sum`.

    Parameters
    ----------
    values : ndarray
        Records, any shape.
    bound, low, high : float
        See `Sample.three_output_sum`.
    """
    lean = (high - low) * (np.clip(values, -bound, bound) / bound)
    return low + np.maximum(lean, 0.0), low + np.maximum(-lean, 0.0)


def voted(
    values: Floats, bound: float, low: float, high: float, rng: np.random.Generator
) -> Floats:
    """Draw a vote for each value and return up votes minus down votes in each row.

    Parameters
    ----------
    values : ndarray of shape (rows, n)
        Records.
    bound, low, high, rng
        See `Sample.three_output_sum`.
    """
    up, down = votes_of(values, bound, low, high)
    chance = rng.random(values.shape)
    net = np.count_nonzero(chance < up, axis=1) - np.count_nonzero(chance >= 1 - down, axis=1)
    return np.asarray(net, dtype=float)


def _key(one: Any) -> Hashable:
    """Return a hashable key of an argument; equal arguments have equal keys."""
    if isinstance(one, Bins):
        return type(one), *(_key(np.asarray(getattr(one, f.name))) for f in fields(one))
    return (one.shape, one.tobytes()) if isinstance(one, np.ndarray) else one


class Sample(ABC):
    """Independent datasets of n records each, one dataset per trial.

    Every method answers for all trials at once: an array (trials,) for scalar records, (trials, d)
    for vectors. A method for scalar records raises ValueError if the records are vectors, and a
    method for vectors raises it if they are scalars. Constructors raise ValueError if their
    arguments do not describe such datasets.
    """

    trials: int  # number of datasets
    n: int  # records in each dataset
    d: int  # coordinates of a record, 1 for scalar records
    vectors: bool = False  # True if records are vectors, even vectors of one coordinate

    @cached_property
    def _answers(self) -> dict[Hashable, Any]:
        return {}

    def _once(self, answer: Callable[[], T], *question: Any) -> T:
        """Return the cached answer to a query, because several budgets repeat the same queries."""
        key = tuple(_key(one) for one in question)
        if key not in self._answers:
            self._answers[key] = answer()
            if isinstance(self._answers[key], np.ndarray):
                self._answers[key].flags.writeable = False
        return self._answers[key]  # type: ignore[no-any-return]

    def _unfit(self) -> ValueError:
        """Return the error for a method that does not apply to this kind of records."""
        if self.vectors:
            return ValueError(f"this takes scalar records, got d = {self.d}; see columns()")
        return ValueError("this takes vectors, got scalar records")

    def _ends(self, *bounds: float | Floats, axes: int = 1) -> list[Floats]:
        """Return bounds that broadcast to (trials, ...): a scalar stays, others get `axes` axes."""
        arrays = [np.asarray(bound, dtype=float) for bound in bounds]
        for array in arrays:
            if array.shape not in {(), (self.trials,)}:
                raise ValueError(f"a bound is one number or one per trial, got shape {array.shape}")
        return [a.reshape(-1, *(1,) * axes) if a.ndim else a for a in arrays]

    @abstractmethod
    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        """Return a copy of the records of one dataset, (n,) or (n, d), in index order.

        Parameters
        ----------
        trial : int
            Index of the dataset, from 0.
        rng : Generator
            Draws an order where records have no index, as in counted data.

        Raises
        ------
        ValueError
            If n d exceeds `MOST_HELD`.
        """

    def _check_held(self) -> None:
        """Raise ValueError if one dataset has more than `MOST_HELD` numbers."""
        if self.n * self.d > MOST_HELD:
            raise ValueError(
                f"records: a dataset of {self.n * self.d:.3g} numbers is too large to hold; "
                f"at most {MOST_HELD:.0e}"
            )

    @abstractmethod
    def mean(self) -> Floats:
        """Return the empirical mean of each dataset, (trials,) or (trials, d)."""

    @abstractmethod
    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """Return the mean of each dataset after clipping every record to [lower, upper].

        The shape is (trials,), or (trials, d) for vectors, which are clipped by coordinate. A
        record at 1e150 takes no digits from the others.

        Parameters
        ----------
        lower, upper : float or ndarray of shape (trials,)
            Ends of the clipping interval, possibly infinite.
        """

    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """Cut each dataset into disjoint datasets of the given sizes, one sample for each.

        The cut is by record index, never by value. So replacing one record changes only one part,
        and the privacy costs of the parts compose in parallel.

        Parameters
        ----------
        sizes : sequence of int
            Records of each part, at least 1; they add up to n.
        rng : Generator
            Assigns records to parts where records have no index, as in counted data.

        Raises
        ------
        ValueError
            If a size is below 1 or the sizes do not add up to n.
        """
        if sum(sizes) != self.n or min(sizes) < 1:
            raise ValueError(f"sizes: {list(sizes)}: must be at least 1 and add up to n = {self.n}")
        return self._split(sizes, rng)

    @abstractmethod
    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """Return the parts for `split`, which has checked the sizes."""

    @abstractmethod
    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        """Cut each dataset, as `split` does, into `parts` groups whose sizes differ by at most one.

        Parameters
        ----------
        parts : int
            Number of groups in each dataset, from 1 to n, else ValueError.
        rng : Generator
            Assigns records to groups where records have no index.

        Returns
        -------
        list of one or two Sample
            The larger groups, then the smaller groups if sizes differ. Each row of a sample is a
            group: the groups of the first trial, then the groups of the second, and so on.
        """

    def by_group(
        self, parts: int, rng: np.random.Generator, question: Callable[[Sample], Floats]
    ) -> Floats:
        """Return a statistic of every group, (trials, parts) or (trials, parts, d).

        Parameters
        ----------
        parts, rng
            See `groups`.
        question : callable
            Maps a sample to its statistic, one number or one vector per row.
        """
        answers = [question(rows) for rows in self.groups(parts, rng)]
        shaped = [answer.reshape(self.trials, -1, *answer.shape[1:]) for answer in answers]
        return np.concatenate(shaped, axis=1)

    # For scalar records. `DenseSample` answers the first three by coordinate for vectors, too.

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """Return the number of records of each dataset in [lower, upper).

        Parameters
        ----------
        lower, upper : float or ndarray of shape (trials,)
            Ends of the interval.
        """
        raise self._unfit()

    def quantile(self, q: float) -> Floats:
        """Return the smallest record that at least q n records do not exceed, 0 < q <= 1."""
        raise self._unfit()

    def trimmed_mean(self, fraction: float) -> Floats:
        """Return the mean without the floor(fraction n) smallest and as many largest records."""
        raise self._unfit()

    def randomised_response_count(
        self, bound: float, lean: float, rng: np.random.Generator
    ) -> Floats:
        """Toss one coin for each record and return the number of heads.

        The coin of record x falls heads with probability
        (1 + lean clip(x, -bound, bound)/bound)/2. Every call tosses new coins.

        Parameters
        ----------
        bound : float
            Clipping bound, above 0.
        lean : float
            Bias of the coin of a record at `bound`, from 0 to 1.
        rng : Generator
            Source of the coins.
        """
        raise self._unfit()

    def three_output_sum(
        self, bound: float, low: float, high: float, rng: np.random.Generator
    ) -> Floats:
        """Draw one vote for each record and return up votes minus down votes.

        Let y = clip(x, -bound, bound)/bound for a record x. If y >= 0, its vote is up with
        probability low + (high - low) y and down with probability `low`. If y < 0, it is down with
        probability low + (high - low) |y| and up with probability `low`. Otherwise the record does
        not vote. Every call draws new votes.

        Parameters
        ----------
        bound : float
            Clipping bound, above 0.
        low, high : float
            Smallest and largest probability of a vote in one direction; low + high <= 1.
        rng : Generator
            Source of the votes.
        """
        raise self._unfit()

    def occupied(self, bins: Bins) -> Occupied:
        """Return the bins that hold records, with the number of records in each."""
        raise self._unfit()

    def ranked(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the records with ranks `first` to `last`, as increasing values with counts.

        Parameters
        ----------
        first, last : int
            Ranks from 0, the smallest record, to n - 1; both are included.

        Returns
        -------
        tuple of two ndarray of shape (trials, m)
            Values, and for each value the number of records in this range of ranks that have it,
            possibly 0.
        """
        raise self._unfit()

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        """Return a sample of (x - y)^2/2 over floor(n/2) disjoint pairs (x, y) of records.

        The expectation of such a value is the variance of the distribution. Pairs are fixed by
        record index; counted data pair at random with `rng`. Overflow gives the largest double.
        """
        raise self._unfit()

    def size(self) -> Floats:
        """Return the number of records of each dataset, (trials,), as a value to add noise to."""
        return np.full(self.trials, float(self.n))

    # For vectors.

    def columns(self) -> Sample:
        """Return the coordinates as datasets of scalars; coordinate j of trial i is row i d + j.

        A record contributes to all d rows of its trial, so their privacy costs add up: draw the
        noise from `Ledger.repeated`.
        """
        raise self._unfit()

    def rows(self) -> Rows:
        """Return the vectors of every trial, for queries about l2 balls."""
        raise self._unfit()

    def projected_mean(self, centre: float, radius: float) -> Floats:
        """Return the mean of the records projected to the l2 ball around (centre, ..., centre).

        For scalar records the ball is the interval [centre - radius, centre + radius].

        Parameters
        ----------
        centre : float
            Every coordinate of the ball's centre.
        radius : float
            Radius of the ball.
        """
        if not self.vectors:
            return self.clipped_mean(centre - radius, centre + radius)
        return self.rows().projected(np.full((self.trials, self.d), centre), radius).mean()

    def listed(self) -> tuple[Floats, Floats]:
        """Return vectors, (trials, m, d), and the multiplicity of each, (trials, m), maybe 0."""
        raise self._unfit()

    def second_moment(self) -> Floats:
        """Return the mean of x x' over the vectors x of each dataset, (trials, d, d)."""
        raise ValueError("second_moment: needs vectors that are all held, in a DenseSample")


class AddRemoveView:
    """View of a sample that hides n, for neighbours that add or remove a record.

    The view answers queries that have a sensitivity whatever n is: counts, and clipped means, which
    the caller turns into sums. The caller reads n from `size` and must add noise to it. All other
    attributes raise ValueError. Only code that has a privacy guarantee of its own may read `whole`.

    Parameters
    ----------
    sample : Sample
        The sample to hide, kept as the attribute ``whole``.
    """

    ANSWERED = frozenset(
        {"trials", "d", "vectors", "count", "size", "clipped_mean", "projected_mean"}
    )

    def __init__(self, sample: Sample) -> None:
        self.whole = sample

    def __getattr__(self, name: str) -> Any:
        if name in self.ANSWERED:
            return getattr(self.whole, name)
        raise ValueError(
            f"{name}: not readable under neighbours add_remove, because n is private; "
            "use size() and clipped_mean(), and add noise to counts and sums"
        )
