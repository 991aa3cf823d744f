"""What every batch of datasets can be asked."""

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
    "Sample", "Unsized", "chances", "half_squares", "part_sizes", "share", "voted", "votes_of",
]  # fmt: skip

T = TypeVar("T")

# Numbers of one dataset that `Sample.records` will hold: 0.8 GB.
MOST_HELD = 10**8


def part_sizes(n: int, parts: int) -> list[int]:
    """Sizes of `parts` parts of n records that differ by at most one; a ValueError if n < parts."""
    if not 1 <= parts <= n:
        raise ValueError(f"{n} records cannot be cut into {parts} parts of at least one")
    return [n // parts + (i < n % parts) for i in range(parts)]


def share(q: float, n: int) -> float:
    """The product to 14 digits: 0.1 * 30 is 3.0000000000000004."""
    return float(f"{q * n:.14g}")


def half_squares(one: Floats, other: Floats) -> Floats:
    """(one - other)^2/2, or the largest number there is where that overflows."""
    difference = one / 2 - other / 2
    with np.errstate(over="ignore"):
        return np.minimum(2 * difference**2, np.finfo(float).max)


def chances(values: Floats, bound: float, lean: float) -> Floats:
    """Of heads, as `Sample.heads` has them."""
    return (1 + lean * (np.clip(values, -bound, bound) / bound)) / 2


def votes_of(values: Floats, bound: float, low: float, high: float) -> tuple[Floats, Floats]:
    """The chances of a vote up and of one down, as `Sample.votes` has them."""
    lean = (high - low) * (np.clip(values, -bound, bound) / bound)
    return low + np.maximum(lean, 0.0), low + np.maximum(-lean, 0.0)


def voted(
    values: Floats, bound: float, low: float, high: float, rng: np.random.Generator
) -> Floats:
    """Votes up less votes down, of each row."""
    up, down = votes_of(values, bound, low, high)
    chance = rng.random(values.shape)
    net = np.count_nonzero(chance < up, axis=1) - np.count_nonzero(chance >= 1 - down, axis=1)
    return np.asarray(net, dtype=float)


def _key(one: Any) -> Hashable:
    """What tells arguments apart."""
    if isinstance(one, Bins):
        return type(one), *(_key(np.asarray(getattr(one, f.name))) for f in fields(one))
    return (one.shape, one.tobytes()) if isinstance(one, np.ndarray) else one


class Sample(ABC):
    """Independent datasets of n records each, one per trial.

    All questions are answered for all trials at once: (trials,) numbers or, of vectors, (trials,
    d). A question about numbers is refused for vectors, and the other way round, with a
    ValueError, as are data that are no such datasets.
    """

    trials: int
    n: int  # records in each
    d: int  # coordinates of a record
    vectors: bool = False  # whether records are vectors, be it of one coordinate

    @cached_property
    def _answers(self) -> dict[Hashable, Any]:
        return {}

    def _once(self, answer: Callable[[], T], *question: Any) -> T:
        """The answer to a question, found once: several budgets ask the same."""
        key = tuple(_key(one) for one in question)
        if key not in self._answers:
            self._answers[key] = answer()
            if isinstance(self._answers[key], np.ndarray):
                self._answers[key].flags.writeable = False
        return self._answers[key]  # type: ignore[no-any-return]

    def _unfit(self) -> ValueError:
        """The refusal of a question about numbers, or vectors, where records are the other."""
        if self.vectors:
            return ValueError(f"this takes scalar records, got d = {self.d}; see columns()")
        return ValueError("this takes vectors, got scalar records")

    def _ends(self, *bounds: float | Floats, axes: int = 1) -> list[Floats]:
        """Bounds that broadcast to (trials, ...): numbers as they are, others (trials, 1, ...)."""
        arrays = [np.asarray(bound, dtype=float) for bound in bounds]
        for array in arrays:
            if array.shape not in {(), (self.trials,)}:
                raise ValueError(f"a bound is one number or one per trial, got shape {array.shape}")
        return [a.reshape(-1, *(1,) * axes) if a.ndim else a for a in arrays]

    @abstractmethod
    def records(self, trial: int, rng: np.random.Generator) -> Floats:
        """The records of one dataset, one by one: a new array of shape (n,) or (n, d).

        In the order of their index; where they have none, as in counted data, `rng` draws one.
        A ValueError says they are too many.
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

        A bound is one number, or one per trial. A record at 1e150 takes no digits from the others.
        """

    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """Cut each dataset into disjoint datasets of the given sizes.

        The cut is by record index, never by value, so that replacing one record changes one part
        only and the parts' privacy costs compose in parallel. Where records have no index, in
        counted data, `rng` says where each went.
        """
        if sum(sizes) != self.n or min(sizes) < 1:
            raise ValueError(f"parts of {list(sizes)} records do not make up {self.n}")
        return self._split(sizes, rng)

    @abstractmethod
    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        """The parts, of sizes that add up to n."""

    @abstractmethod
    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        """Cut each dataset, as `split` does, into `parts` groups whose sizes differ by at most one.

        Returns
        -------
        list of one or two samples
            The larger groups, then the smaller ones if sizes differ. Each row is a group:
            those of the first trial, then those of the second, and so on.
        """

    def by_group(
        self, parts: int, rng: np.random.Generator, question: Callable[[Sample], Floats]
    ) -> Floats:
        """Ask every group of `groups` for a number, or a vector: (trials, parts[, d])."""
        answers = [question(rows) for rows in self.groups(parts, rng)]
        shaped = [answer.reshape(self.trials, -1, *answer.shape[1:]) for answer in answers]
        return np.concatenate(shaped, axis=1)

    # About numbers; vectors that are held one by one answer the first three by coordinate.

    def count(self, lower: float | Floats, upper: float | Floats) -> Floats:
        """How many records of each dataset lie in [lower, upper)."""
        raise self._unfit()

    def quantile(self, q: float) -> Floats:
        """The smallest record with at least q n records at or below it, 0 < q <= 1."""
        raise self._unfit()

    def trimmed_mean(self, fraction: float) -> Floats:
        """The mean without the floor(fraction n) smallest and as many largest records."""
        raise self._unfit()

    def heads(self, bound: float, lean: float, rng: np.random.Generator) -> Floats:
        """How many of n coins fall heads, tossed anew for every question.

        That of x, moved into [-bound, bound], does so with probability (1 + lean x/bound)/2.
        """
        raise self._unfit()

    def votes(self, bound: float, low: float, high: float, rng: np.random.Generator) -> Floats:
        """How many of n votes are up, less those that are down, cast anew for every question.

        That of x, moved into [-bound, bound], is up with probability low + (high - low) x/bound
        and down with `low` where x > 0, the other way round where x < 0, and else none.
        """
        raise self._unfit()

    def occupied(self, bins: Bins) -> Occupied:
        """The bins that hold records, and how many."""
        raise self._unfit()

    def ranked(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Increasing values and how many of the records of ranks `first` to `last` have each.

        Both are (trials, m); ranks are from 0.
        """
        raise self._unfit()

    def half_squared_differences(self, rng: np.random.Generator) -> Self:
        """Half the squared difference, of mean the variance, of floor(n/2) disjoint pairs.

        Pairs are fixed by record index. What overflows is the largest number there is.
        """
        raise self._unfit()

    def size(self) -> Floats:
        """How many records each dataset has, (trials,): to be released with noise."""
        return np.full(self.trials, float(self.n))

    # About vectors.

    def columns(self) -> Sample:
        """The coordinates of vectors as datasets of numbers: j of trial i is row i d + j.

        A record has a part in all of them, so their privacy costs add up: draw the noise
        from `Ledger.repeated`.
        """
        raise self._unfit()

    def rows(self) -> Rows:
        """The vectors of every trial, to be asked about balls."""
        raise self._unfit()

    def projected_mean(self, centre: float, radius: float) -> Floats:
        """The mean of records moved to the nearest points of a ball around (centre, ..., centre).

        Of numbers that is an interval.
        """
        if not self.vectors:
            return self.clipped_mean(centre - radius, centre + radius)
        return self.rows().projected(np.full((self.trials, self.d), centre), radius).mean()

    def listed(self) -> tuple[Floats, Floats]:
        """Vectors one by one, (trials, m, d), and how many of each, perhaps 0, (trials, m)."""
        raise self._unfit()

    def second_moment(self) -> Floats:
        """The mean of x x' over each dataset of vectors x, (trials, d, d)."""
        raise ValueError("this takes vectors, record by record")


class Unsized:
    """A sample whose n is private, for where records are added or removed.

    It answers what has a sensitivity whatever n is, counts, and clipped means, to be made sums; n
    is its `size`, which needs noise. Nothing else can be read, but for the `whole`
    of it by code whose guarantee is its own.
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
            f"{name}: not to be read where records are added or removed, for n is private; "
            "ask size() and clipped_mean, and add noise to counts and sums"
        )
