"""What every batch of datasets can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from dpbench.arrays import Floats
from dpbench.samples.bins import Bins, Occupied
from dpbench.samples.rows import Rows

__all__ = ["Sample", "part_sizes"]

# Numbers of one dataset that `Sample.records` will hold: 0.8 GB.
MOST_HELD = 10**8


def part_sizes(n: int, parts: int) -> list[int]:
    """Sizes of `parts` parts of n records that differ by at most one.

    Raises
    ------
    ValueError
        If there are fewer records than parts.
    """
    if not 1 <= parts <= n:
        raise ValueError(f"{n} records cannot be cut into {parts} parts of at least one")
    return [n // parts + (i < n % parts) for i in range(parts)]


class Sample(ABC):
    """Independent datasets of n records each, one per trial.

    All questions are answered for all trials at once. With one-dimensional records
    an answer has shape (trials,), with d-dimensional ones (trials, d).

    Attributes
    ----------
    trials, n : int
        Datasets, and records in each.
    d : int
        Dimension of a record.
    """

    trials: int
    n: int
    d: int

    @abstractmethod
    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        """The records of one dataset, one by one: a new array of shape (n,) or (n, d).

        In the order of their index. Where they have none, as in counted data, `rng` draws one
        at random, for who reads them may depend on it.

        Raises
        ------
        ValueError
            If they are too many to be held.
        """

    def _check_held(self) -> None:
        """Refuse to hold the records of a dataset one by one where they are too many."""
        if self.n * self.d > MOST_HELD:
            raise ValueError(
                f"{self.n * self.d:.3g} numbers of one dataset are too many to hold one by one; "
                f"at most {MOST_HELD:.0e}"
            )

    @abstractmethod
    def mean(self) -> Floats:
        """The empirical mean of each dataset."""

    @abstractmethod
    def clipped_mean(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """The mean of each dataset with its records moved into [lower, upper].

        A bound is one number, or one per trial. It is accurate whatever lies outside:
        a record at 1e150 takes no digits from the others.
        """

    @abstractmethod
    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """How many records of each dataset lie in [lower, upper)."""

    @abstractmethod
    def quantile(self, q: float) -> Floats:
        """The smallest record with at least q n records at or below it, 0 < q <= 1."""

    @abstractmethod
    def trimmed_mean(self, fraction: float) -> Floats:
        """The mean without the floor(fraction n) smallest and as many largest records."""

    @abstractmethod
    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """Cut each dataset into disjoint datasets of the given sizes.

        The cut is by record index, never by value, so that replacing one record
        changes one part only and the parts' privacy costs compose in parallel.
        Records have no index in counted data; there `rng` says where each went.
        """

    @abstractmethod
    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        """Cut each dataset into `parts` disjoint groups whose sizes differ by at most one.

        Returns
        -------
        list of one or two samples
            The larger groups, then the smaller ones if sizes differ. Each row is a group:
            those of the first trial, then those of the second, and so on. Cut by record
            index as in `split`, the groups of a trial pay for privacy in parallel.

        Raises
        ------
        ValueError
            If there are fewer records than groups.
        """

    def by_group(
        self, parts: int, rng: np.random.Generator, question: Callable[[Sample], Floats]
    ) -> Floats:
        """Ask every group of `groups` for a number, or a vector.

        Returns
        -------
        (trials, parts) or (trials, parts, d) array
        """
        answers = [question(rows) for rows in self.groups(parts, rng)]
        shaped = [answer.reshape(self.trials, -1, *answer.shape[1:]) for answer in answers]
        return np.concatenate(shaped, axis=1)

    def columns(self) -> Sample:
        """The coordinates of vectors as scalar datasets: trial by trial, one after another.

        Coordinate j of trial i is row i d + j of the answer. A record has a part in all of
        them, so their privacy costs add up: draw the noise from `Ledger.repeated`.

        Raises
        ------
        ValueError
            If the records are scalars.
        """
        raise ValueError("this takes vectors, got scalar records")

    def second_moment(self) -> Floats:
        """The mean of x x' over each dataset of vectors x, (trials, d, d).

        Raises
        ------
        ValueError
            If the records are scalars, or not held one by one.
        """
        raise ValueError("this takes vectors, record by record")

    def rows(self) -> Rows:
        """The vectors of every trial, to be asked about balls.

        Raises
        ------
        ValueError
            If the records are scalars.
        """
        raise ValueError("this takes vectors, got scalar records")

    def listed(self) -> tuple[Floats, Floats]:
        """Vectors one by one, and how many there are of each.

        Returns
        -------
        rows : (trials, m, d) array
        counts : (trials, m) array
            May be 0, where a trial has fewer rows than others.

        Raises
        ------
        ValueError
            If the records are scalars.
        """
        raise ValueError("this takes vectors, got scalar records")

    @abstractmethod
    def occupied(self, bins: Bins) -> Occupied:
        """The bins that hold records, and how many; scalar records only."""

    @abstractmethod
    def ranked(self, first: int, last: int) -> tuple[Floats, Floats]:
        """The records of the ranks `first` to `last`, from 0; scalar records only.

        Returns
        -------
        values, counts : (trials, m) arrays
            Increasing values and how many of the records of these ranks have each.
        """

    @abstractmethod
    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        """Half the squared difference of each of floor(n/2) disjoint pairs; scalars only.

        The mean of each is the variance of a record. Pairs are fixed by record index.
        Those that overflow are set to the largest number there is.

        Raises
        ------
        ValueError
            If there is one record only.
        """
