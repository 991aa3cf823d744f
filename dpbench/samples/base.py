"""Base class of samples: a sample holds one dataset of n records for each trial.

Methods of a sample, for example `mean`, return results for all trials at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from dpbench.arrays import Floats, Ints
from dpbench.samples.bins import Bins, Occupied
from dpbench.samples.rows import Rows

__all__ = [
    "AddRemoveView",
    "Sample",
    "half_squares",
    "part_sizes",
    "share_of_records",
]  # fmt: skip

T = TypeVar("T")

# Largest n * d for which `Sample.records` lists a dataset: 0.8 GB of doubles.
MAX_LISTED_NUMBERS = 10**8


def part_sizes(n: int, parts: int) -> list[int]:
    """Return the sizes of the parts if n records are cut into `parts` parts of nearly equal size.

    The sizes differ by at most one; the larger sizes come first. A ValueError is raised if `parts`
    is below 1 or above n.
    """
    if not 1 <= parts <= n:
        raise ValueError(f"{n} records cannot be cut into {parts} parts of at least one")
    return [n // parts + (i < n % parts) for i in range(parts)]


def share_of_records(q: float, n: int) -> float:
    """Return q n, the number of records in a fraction q of n, rounded to 14 significant digits.

    Rounding removes errors such as ``0.1 * 3 = 0.30000000000000004``. With such an error, the
    ceiling of q n may be one too large.
    """
    return float(f"{q * n:.14g}")


def half_squares(x: Floats, y: Floats) -> Floats:
    """Return (x - y)^2/2, element by element, for finite numbers.

    The result is finite, because the largest double replaces a square that overflows.
    """
    difference = x / 2 - y / 2
    with np.errstate(over="ignore"):
        return np.minimum(2 * difference**2, np.finfo(float).max)


def _key(argument: Any) -> Hashable:
    """Return a hashable value that identifies the argument of a method call.

    The cache of a sample uses such values to find the results of earlier equal calls.
    """
    if isinstance(argument, Bins):
        return type(argument), *(
            _key(np.asarray(getattr(argument, f.name))) for f in fields(argument)
        )
    return (argument.shape, argument.tobytes()) if isinstance(argument, np.ndarray) else argument


class Sample(ABC):
    """Independent datasets of n records each, one dataset per trial.

    A statistic is an array with one value per trial. Its shape is (trials,) if records are scalars,
    and (trials, d) if records are vectors of d coordinates. A method for scalar records raises
    ValueError if the records are vectors. A method for vectors raises ValueError if the records are
    scalars. Constructors raise ValueError if their arguments do not describe such datasets.
    """

    trials: int  # number of datasets
    n: int  # records in each dataset
    d: int  # coordinates of a record, 1 for scalar records
    vectors: bool = False  # True if records are vectors, even vectors of one coordinate

    @cached_property
    def _answers(self) -> dict[Hashable, Any]:
        return {}

    def _cache_answer(self, answer: Callable[[], T], *question: Any) -> T:
        """Return the cached answer to a query; on the first call, compute it by calling `answer`.

        A query is a call of a method; `question` holds a name and arguments that identify the
        call. Queries repeat if an estimator runs on one sample under several budgets. Cached
        arrays are read-only.
        """
        key = tuple(_key(argument) for argument in question)
        if key not in self._answers:
            self._answers[key] = answer()
            if isinstance(self._answers[key], np.ndarray):
                self._answers[key].flags.writeable = False
        return self._answers[key]  # type: ignore[no-any-return]

    def _wrong_records_error(self) -> ValueError:
        """Return the ValueError to raise if a method does not accept the records of the sample.

        The message says that the method takes scalars but the records are vectors, or that the
        method takes vectors but the records are scalars.
        """
        if self.vectors:
            return ValueError(f"this takes scalar records, got d = {self.d}; see columns()")
        return ValueError("this takes vectors, got scalar records")

    def _broadcast_bounds(self, *bounds: float | Floats, axes: int = 1) -> list[Floats]:
        """Reshape clipping or interval bounds so that they broadcast to an array of records.

        A bound is a number, or an array of shape (trials,). The method appends `axes` axes of
        length 1 to such an array. A bound of another shape raises ValueError.
        """
        arrays = [np.asarray(bound, dtype=float) for bound in bounds]
        for array in arrays:
            if array.shape not in {(), (self.trials,)}:
                raise ValueError(f"a bound is one number or one per trial, got shape {array.shape}")
        return [a.reshape(-1, *(1,) * axes) if a.ndim else a for a in arrays]

    @abstractmethod
    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        """Return a copy of the records of one dataset, in the order of their indices.

        Parameters
        ----------
        trial : int
            Index of the dataset, from 0.
        rng : Generator
            Draws a random order for samples without record indices, such as `CountedSample`.

        Returns
        -------
        ndarray of shape (n,) or (n, d)
            Records: n scalars, or n vectors of d coordinates.

        Raises
        ------
        ValueError
            If the dataset has more than `MAX_LISTED_NUMBERS` (10^8) numbers.
        """

    def _check_listable(self) -> None:
        """Raise ValueError if one dataset has more than `MAX_LISTED_NUMBERS` (10^8) numbers."""
        if self.n * self.d > MAX_LISTED_NUMBERS:
            raise ValueError(
                f"records: a dataset of {self.n * self.d:.3g} numbers is too large to hold; "
                f"at most {MAX_LISTED_NUMBERS:.0e}"
            )

    @abstractmethod
    def mean(self) -> Floats:
        """Return the empirical mean of each dataset, (trials,), or (trials, d) for vectors."""

    @abstractmethod
    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """Return the mean of each dataset after clipping every record to [lower, upper].

        Each coordinate of a vector is clipped. Records are clipped before they are added, because a
        record at 1e150 would erase the digits of all other records in the sum.

        Parameters
        ----------
        lower, upper : float or ndarray of shape (trials,)
            Ends of the clipping interval, possibly infinite.

        Returns
        -------
        ndarray of shape (trials,) or (trials, d)
        """

    def clipped_square(self, lower: float, upper: float, centre: float | Floats = 0.0) -> Floats:
        """Return the mean of (x - centre)^2 over the records x, clipped to [lower, upper].

        `centre` is a number, or one for each trial, (trials, 1). The result has the shape
        (trials,). A ValueError is raised if the sample holds no records or atoms.
        """
        raise ValueError("clipped_square: needs numbers that are held, or their counts")

    def centred_mean(self, centre: float | Floats, half_width: float | Floats) -> Floats:
        """Return the mean of x - centre over the records x, clipped to centre +- half_width.

        Differences are clipped to +-half_width before they are added. So a replaced record moves
        the result by at most 2 half_width/n, up to a rounding error of half_width and not of the
        centre. `clipped_mean` rounds at the size of the records.

        Parameters
        ----------
        centre, half_width : float or ndarray of shape (trials,)
            Middle and half of the length of the clipping interval, finite.

        Returns
        -------
        ndarray of shape (trials,) or (trials, d)
        """
        middle, half = self._broadcast_bounds(centre, half_width, axes=int(self.vectors))
        return np.clip(
            self.clipped_mean(centre - half_width, centre + half_width) - middle, -half, half
        )

    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """Cut each dataset into disjoint parts of the given sizes.

        Records are assigned to parts by index, never by value. So replacing one record changes only
        one part. If there is a release from each part, the privacy cost of all releases is the
        largest of their costs.

        Parameters
        ----------
        sizes : sequence of int
            Number of records of each part, at least 1; the sizes add up to n.
        rng : Generator
            Assigns records at random in samples without record indices, such as `CountedSample`.

        Returns
        -------
        list of Sample
            A sample for each size.

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
        """Cut each dataset into disjoint parts of the given sizes, which `split` has checked."""

    @abstractmethod
    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        """Cut each dataset by record index into `parts` groups of nearly equal size.

        Parameters
        ----------
        parts : int
            Number of groups in each dataset, from 1 to n.
        rng : Generator
            Assigns records at random in samples without record indices, such as `CountedSample`.

        Returns
        -------
        list of one or two Sample
            Samples in which each group is one dataset. The first sample contains the larger groups.
            A second sample contains the groups with one record less, unless all groups have equal
            sizes. The groups of the first trial come first, then those of the second, and so on.

        Raises
        ------
        ValueError
            If `parts` is below 1 or above n.
        """

    def by_group(
        self, parts: int, rng: np.random.Generator, question: Callable[[Sample], Floats]
    ) -> Floats:
        """Cut each dataset into groups of nearly equal size, and return a statistic of every group.

        Parameters
        ----------
        parts : int
            Number of groups in each dataset, from 1 to n.
        rng : Generator
            Assigns records at random in samples without record indices, such as `CountedSample`.
        question : callable
            Maps a sample to its statistic, one number or one vector per dataset.

        Returns
        -------
        ndarray of shape (trials, parts) or (trials, parts, d)
            Numbers, or vectors of d coordinates.
        """
        answers = [question(rows) for rows in self.groups(parts, rng)]
        shaped = [answer.reshape(self.trials, -1, *answer.shape[1:]) for answer in answers]
        return np.concatenate(shaped, axis=1)

    # Methods for scalar records. `DenseSample` accepts vectors in the first three, by coordinate.

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """Return the number of records of each dataset in [lower, upper).

        Parameters
        ----------
        lower, upper : float or ndarray of shape (trials,)
            Ends of the interval.

        Returns
        -------
        ndarray of shape (trials,)
        """
        raise self._wrong_records_error()

    def quantile(self, q: float) -> Floats:
        """Return the q-quantile of each dataset, for q in (0, 1].

        The quantile is the smallest record x such that at least q n of the n records are <= x.
        """
        raise self._wrong_records_error()

    def trimmed_mean(self, fraction: float) -> Floats:
        """Return the mean of each dataset without its smallest and its largest records.

        The floor(fraction n) smallest and the floor(fraction n) largest of the n records are
        left out. `fraction` is in [0, 1/2). A ValueError is raised if no record is left.
        """
        raise self._wrong_records_error()

    def clipped_values(self, lower: float, upper: float) -> tuple[Floats, Ints | None]:
        """Return the records clipped to [lower, upper], or values at which records are counted.

        The values have the shape (trials, n), and there are no counts; or the values have the shape
        (m,), and their counts (trials, m). A value may be the mean of its clipped records.
        """
        raise self._wrong_records_error()

    def occupied(self, bins: Bins) -> Occupied:
        """Return the nonempty bins of each dataset's histogram, and the counts of these bins."""
        raise self._wrong_records_error()

    def ranked(self, first: int, last: int, at_most: int | None = None) -> tuple[Floats, Floats]:
        """Return each dataset's records with ranks `first` to `last`, and their multiplicities.

        Parameters
        ----------
        first, last : int
            Ranks from 0, the smallest record, to n - 1; both are included.
        at_most : int, optional
            About how many values suffice. A sample that does not hold its records may then return
            one value for each group of (last + 1 - first)/`at_most` consecutive records.

        Returns
        -------
        tuple of two ndarray of shape (trials, m)
            m values in increasing order, and the multiplicity of each value: the number of records
            with this value and a rank from `first` to `last`, possibly 0. If a value is listed
            several times, its multiplicities add up.
        """
        raise self._wrong_records_error()

    def half_squared_differences(self, rng: np.random.Generator) -> Sample:
        """Return a sample with a record (x - y)^2/2 for each of floor(n/2) disjoint pairs (x, y).

        Here x and y are records, and the expectation of (x - y)^2/2 is the variance of their
        distribution. Pairs are fixed by record index, or drawn by `rng` if the sample stores no
        indices. A square that overflows is replaced by the largest double.
        """
        raise self._wrong_records_error()

    def size(self) -> Floats:
        """Return the number n of records of each dataset, as an array of floats of shape (trials,).

        If n is private, the caller must add noise to these numbers.
        """
        return np.full(self.trials, float(self.n))

    # Methods for vectors.

    def columns(self) -> Sample:
        """Return the coordinates of the vectors as datasets of scalars, d datasets for each trial.

        Dataset i d + j holds coordinate j of trial i. A record contributes to all d datasets of its
        trial, so the privacy costs of these datasets add up. Draw their noise from
        `Ledger.repeated`, which divides the budget by d.
        """
        raise self._wrong_records_error()

    def rows(self) -> Rows:
        """Return the vectors of every trial as `Rows`, which projects them to l2 balls."""
        raise self._wrong_records_error()

    def projected_mean(self, centre: float, radius: float, *, relative: bool = False) -> Floats:
        """Project every record to an l2 ball, and return the mean of each dataset.

        The centre of the ball is (centre, ..., centre). For scalar records the ball is the interval
        [centre - radius, centre + radius].

        Parameters
        ----------
        centre : float
            Every coordinate of the ball's centre.
        radius : float
            Radius of the ball.
        relative : bool
            If True, the centre is subtracted from every record. So the result does not round at the
            size of the centre.

        Returns
        -------
        ndarray of shape (trials,) or (trials, d)
        """
        if not self.vectors:
            if relative:
                return self.centred_mean(centre, radius)
            return self.clipped_mean(centre - radius, centre + radius)
        middle = np.full((self.trials, self.d), centre)
        rows = self.rows().projected(middle, radius)
        return rows.mean_offset(middle) if relative else rows.mean()

    def listed(self) -> tuple[Floats, Floats]:
        """Return a list of the vectors of each dataset, and the multiplicity of each vector.

        The list of vectors has the shape (trials, m, d), and the multiplicities have the shape
        (trials, m). Here m is the length of the longest list of a dataset. Shorter lists are filled
        up to length m with vectors of multiplicity 0.
        """
        raise self._wrong_records_error()

    def second_moment(self) -> Floats:
        """Return the mean of x x^T over the vectors x of each dataset, an array (trials, d, d)."""
        raise ValueError("second_moment: needs vectors that are all held, in a DenseSample")


class AddRemoveView:
    """Sample whose number n of records is private: it permits only counts and clipped sums.

    Estimators get this object in place of the sample if neighbours differ by an added or removed
    record (``add_remove``). Estimators may use counts and sums of clipped records, because the
    sensitivities of counts and sums do not depend on n. The methods `count` and `size` return
    counts. The methods `clipped_mean`, `centred_mean` and `projected_mean` return sums divided by
    n. The caller must add noise to counts and sums. The attributes `trials`, `d` and `vectors` are
    public. All other attributes of the sample raise ValueError. Only code with its own privacy
    guarantee may read the original sample, the attribute ``whole``.
    """

    ANSWERED = frozenset(
        {
            "trials",
            "d",
            "vectors",
            "count",
            "size",
            "centred_mean",
            "clipped_mean",
            "clipped_square",
            "projected_mean",
        }
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
