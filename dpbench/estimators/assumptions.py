"""Tests of data against the assumptions of an estimator, for warnings in simulations.

An estimator lists its assumptions by `Estimator.assumptions`. An assumption looks at the data and
tells in words how they contradict it. The tests are not private. For n independent records from one
distribution that satisfies the assumption, each test gives a false alarm with probability at most
`FALSE_ALARM`, here alpha = 1e-6, for every n.

**Order statistics.** Let m independent lengths Y exceed each t with probability at most p(t), and
let y_j be the j-th largest of them. At least j of m lengths exceed t with a probability of at most
G_j(t) = P(Bin(m, p(t)) >= j), which falls with t. So G_j(y_j) <= u has probability at most u. The
test is an alarm if G_j(y_j) <= alpha/m for some j. By the union bound a false alarm has probability
at most alpha. For vectors each of d coordinates is tested at alpha/d.

**Lengths.** Let records X have the mean mu.

- Spread: Y = |X - X'| for disjoint pairs of records, so mu need not be known. The pairs are drawn
  at random, because records may be sorted.
- Location: Y is the distance of X from [-R, R]. If |mu| <= R, it is at most |X - mu|.

**Tails.** If E|X - mu|^k <= s^k, Markov's inequality gives p(t) = (s/t)^k for |X - mu|. For
|X - X'| it gives (c s/t)^k with c = 2, by Minkowski's inequality, and c = sqrt(2) for k = 2. For
Gaussians p(t) = P(|N(0, 1)| > t/s) and, for pairs, P(|N(0, 1)| > t/(sqrt(2) s)). There s is
`SLACK` = 2 times the stated sigma: a smaller excess hardly matters for the clips, and would be
found in every large dataset.

A test on order statistics finds what a test of the empirical moment would miss. The empirical k-th
moment of heavy tails may exceed its expectation by the factor 1/alpha with probability alpha.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainc, betaincinv, ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.errors import AssumptionWarning, to_one_line

__all__ = [
    "Assumption", "GaussianShape", "GaussianSpread", "ManyDifferences", "MeanInBox", "MeanWithin",
    "MedianInBox", "MomentSpread", "MostWithin", "RecordsInBall", "RecordsInBox",
    "warn_of_contradictions",
]  # fmt: skip

FALSE_ALARM = 1e-6  # largest probability of an alarm for data that satisfy an assumption
SLACK = 2.0  # factor on the sigma of Gaussians up to which there is no alarm
MAX_OUTSIDE = 0.1  # share of records outside of public bounds up to which there is no warning
MIN_DIFFERENCES = 40.0  # least n P(X != X') at which errors of a mean are taken as normal
MIN_PAIRS = 20  # pairs of records below which equal pairs give no warning
MAX_TESTED = 10_000  # records that are tested, drawn at random from larger data


class Assumption(Protocol):
    """One assumption of an estimator about the records or their distribution."""

    def contradiction(self, records: Floats) -> str | None:
        """Describe how records of shape (n, d) contradict the assumption; None if they do not."""


@dataclass(frozen=True)
class MomentSpread:
    """E|X - mu|^k <= scale^k in every coordinate; `name` is the parameter that states the scale."""

    k: float
    scale: float
    name: str = "scale"

    @property
    def statement(self) -> str:
        bound = f"E|X - mean|^{self.k:g} <= {self.scale:g}^{self.k:g}"
        return f"{self.name} = {self.scale:g} assumes {bound}"

    def probability(self, t: Floats, pairs: bool) -> Floats:
        factor = (np.sqrt(2) if self.k == 2 else 2.0) if pairs else 1.0
        with np.errstate(all="ignore"):
            return np.asarray(np.minimum(1.0, np.exp(self.k * np.log(factor * self.scale / t))))

    def contradiction(self, records: Floats) -> str | None:
        return _describe_spread(self, records)


@dataclass(frozen=True)
class GaussianSpread:
    """Gaussian coordinates of a standard deviation up to sigma; `name` states the sigma."""

    sigma: float
    name: str = "sigma"

    @property
    def statement(self) -> str:
        return f"{self.name} = {self.sigma:g} assumes Gaussian records of this standard deviation"

    def probability(self, t: Floats, pairs: bool) -> Floats:
        factor = SLACK * (np.sqrt(2) if pairs else 1.0)
        with np.errstate(all="ignore"):
            return np.asarray(2 * ndtr(-t / (factor * self.sigma)))

    def contradiction(self, records: Floats) -> str | None:
        return _describe_spread(self, records) or self._describe_ties(records)

    def _describe_ties(self, records: Floats) -> str | None:
        """Describe a coordinate in which half of all pairs are equal, or more.

        Two records of a Gaussian are equal with probability 0, so there is no false alarm. Records
        that are rounded to a tenth of sigma are equal in 3 of 100 pairs. 20 pairs at least are
        needed, because P(Bin(20, 0.03) >= 10) < 1e-9.
        """
        equal = _differences(records) == 0
        pairs = len(equal)
        if pairs < MIN_PAIRS or (count := int(equal.sum(axis=0).max())) * 2 < pairs:
            return None
        return (
            f"{self.name} assumes Gaussian records, but {count:,} of {pairs:,} pairs of records "
            "are equal"
        )


@dataclass(frozen=True)
class GaussianShape(GaussianSpread):
    """Gaussian coordinates of an unknown standard deviation; `name` states who assumes it.

    The median of m differences |X - X'| bounds sigma from above. Let j be its place from below. The
    j-th of m uniform variables is below u with probability `FALSE_ALARM`, for a quantile u of the
    beta distribution. Otherwise the median is at least sqrt(2) sigma Phi^-1((1 + u)/2). Then the
    differences are tested as for this largest sigma. Because of `SLACK`, a false alarm of this
    second test is far rarer than one of the first.
    """

    sigma: float = np.inf
    name: str = "beta"

    def contradiction(self, records: Floats) -> str | None:
        lengths = _differences(records)
        m, d = lengths.shape
        if not m:
            return None
        place = (m + 1) // 2
        u = float(betaincinv(place, m - place + 1, FALSE_ALARM / (2 * d)))
        middle = np.sort(lengths, axis=0)[place - 1].max()
        if middle == 0:  # by rounding of few records; ties of many are tested
            return super().contradiction(records)
        with np.errstate(over="ignore"):
            largest = float(middle / (np.sqrt(2) * ndtri((1 + u) / 2)))
        found = _first_alarm(lengths, GaussianSpread(largest), pairs=True)
        if found is None:
            return super().contradiction(records)
        return (
            f"{self.name} assumes Gaussian records, but of {m:,} pairs of records half are within "
            f"{_number(float(middle))}, and {found[0]:,} at least {_number(found[1])} apart"
        )


@dataclass(frozen=True)
class ManyDifferences:
    """Two of n records differ with a probability of at least min(1, `MIN_DIFFERENCES`/n).

    If records differ more rarely, their mean hangs on a few records, and its error is not normal.
    Of more than `MAX_TESTED` records only a part is tested, so large data give fewer alarms.
    """

    n: int
    name: str = "beta"

    def contradiction(self, records: Floats) -> str | None:
        differ = np.asarray((_differences(records) > 0).any(axis=1))
        count, pairs = int(differ.sum()), len(differ)
        if bdtr(count, pairs, min(1.0, MIN_DIFFERENCES / self.n)) > FALSE_ALARM:
            return None
        return (
            f"{self.name} assumes that the error of the mean is nearly normal, but only {count:,} "
            f"of {pairs:,} pairs of records differ"
        )


@dataclass(frozen=True)
class MeanWithin:
    """Every coordinate of the mean is in [-radius, radius], for records with the given tail."""

    radius: float
    tail: MomentSpread | GaussianSpread

    def contradiction(self, records: Floats) -> str | None:
        found = _first_alarm(np.maximum(np.abs(records) - self.radius, 0.0), self.tail, pairs=False)
        if found is None:
            return None
        count, distance = found
        return (
            f"radius = {self.radius:g} assumes a mean in [{-self.radius:g}, {self.radius:g}], but "
            f"{count:,} of {len(records):,} records are at least {_number(distance)} outside"
        )


@dataclass(frozen=True)
class MeanInBox:
    """Every coordinate of the mean is in [lower, upper], whatever the tails."""

    lower: float
    upper: float

    def contradiction(self, records: Floats) -> str | None:
        beyond = (records > self.upper).all(axis=0) | (records < self.lower).all(axis=0)
        if not beyond.any():
            return None
        return (
            f"the mean is assumed in [{self.lower:g}, {self.upper:g}], but all records are outside"
        )


@dataclass(frozen=True)
class MedianInBox:
    """Every coordinate of the median is in [lower, upper]."""

    lower: float
    upper: float

    def contradiction(self, records: Floats) -> str | None:
        n, d = records.shape
        beyond = np.maximum(
            (records > self.upper).sum(axis=0), (records < self.lower).sum(axis=0)
        ).max()
        # Each side holds half of the distribution at most.
        if beyond < 1 or bdtrc(beyond - 1, n, 0.5) > FALSE_ALARM / (2 * d):
            return None
        return (
            f"the median is assumed in [{self.lower:g}, {self.upper:g}], but {beyond:,} of {n:,} "
            "records are on one side of it"
        )


@dataclass(frozen=True)
class RecordsInBox:
    """The coordinates of the records are in [lower, upper]; a few records may be clipped.

    `column` is the index of the only coordinate with these bounds; None stands for all coordinates.
    """

    lower: float
    upper: float
    column: int | None = None

    def contradiction(self, records: Floats) -> str | None:
        chosen = records if self.column is None else records[:, [self.column]]
        outside = (chosen < self.lower) | (chosen > self.upper)
        bounds = f"records in [{self.lower:g}, {self.upper:g}]"
        if self.column is not None:
            bounds += f" in column {self.column}"
        return _describe_outside(np.asarray(outside.any(axis=1)), bounds)


@dataclass(frozen=True)
class RecordsInBall:
    """The l2 norms of the records are at most `radius`; a few may be projected.

    The norm is that of the coordinates from `start` to before `stop`; `name` states the radius.
    """

    radius: float
    name: str = "radius"
    start: int | None = None
    stop: int | None = None

    def contradiction(self, records: Floats) -> str | None:
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(records[:, self.start : self.stop], axis=1)
        outside = norms > self.radius * (1 + 1e-12)  # vectors on the sphere are inside
        return _describe_outside(np.asarray(outside), f"norms up to {self.name} = {self.radius:g}")


@dataclass(frozen=True)
class MostWithin:
    """More than half of the records are within `apart` of each other; `name` states this distance.

    So two records are farther apart with a probability of at most 3/4.
    """

    apart: float
    name: str

    def contradiction(self, records: Floats) -> str | None:
        with np.errstate(over="ignore"):
            far = np.linalg.norm(_differences(records), axis=1) > self.apart
        count, pairs = int(far.sum()), len(far)
        if count < 1 or bdtrc(count - 1, pairs, 0.75) > FALSE_ALARM:
            return None
        return (
            f"{self.name} assumes that most records are within {self.apart:g} of each other, but "
            f"{count:,} of {pairs:,} pairs of records are farther apart"
        )


class Assuming(Protocol):
    """An estimator, as far as this module reads it."""

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        """Return the assumptions about n records of d coordinates."""

    def working_records(self, d: int, budget: Any) -> int:
        """Return the smallest n from which the estimator works."""


def warn_of_contradictions(
    estimator: Assuming, data: Floats, stacklevel: int, place: str = "", budget: Any = None
) -> None:
    """Warn of too few records, and of each assumption of an estimator that the data contradict.

    The records are finite. If there are more than 10,000, a random 10,000 of them are tested.
    `place` are words before the warning that say where the data stand in a table. `stacklevel` is
    the number of calls between the reader's line and this function, plus 1. Too few records for the
    budget are only reported if their number is public.
    """
    name = type(estimator).__name__
    if budget is not None and budget.neighbours == "replace":
        least = estimator.working_records(data[0].size, budget)
        if len(data) < least:
            warnings.warn(
                f"{place}n: {len(data)}: too few records for {name} at {budget.label}, which "
                f"declares failure; it works from n = {least:,}",
                AssumptionWarning,
                stacklevel=stacklevel + 1,
            )
    assumptions = estimator.assumptions(len(data), data[0].size)
    if not assumptions:
        return
    rng = np.random.default_rng(0)  # equal data give equal warnings, and no user's stream moves
    chosen = rng.choice(len(data), min(len(data), MAX_TESTED), replace=False)
    records = data[chosen].reshape(len(chosen), -1)
    for assumption in assumptions:
        text = assumption.contradiction(records)
        if text is not None:
            warnings.warn(
                to_one_line(
                    f"{place}{name}: {text}; choose the parameter from public knowledge of the "
                    "records. (This warning looks at the data, so it is not private and for "
                    "simulation only. Silence it by warnings.filterwarnings('ignore', "
                    "category=dpbench.AssumptionWarning).)"
                ),
                AssumptionWarning,
                stacklevel=stacklevel + 1,
            )


def _differences(records: Floats) -> Floats:
    """Return the absolute differences of disjoint pairs of records, in the order of the records."""
    half = len(records) // 2
    with np.errstate(over="ignore"):
        return np.asarray(np.abs(records[:half] - records[half : 2 * half]))


def _describe_spread(tail: MomentSpread | GaussianSpread, records: Floats) -> str | None:
    """Describe pairs of records that are too far apart for a tail; None if there are none."""
    differences = _differences(records)
    found = _first_alarm(differences, tail, pairs=True)
    if found is None:
        return None
    count, distance = found
    return (
        f"{tail.statement}, but {count:,} of {len(differences):,} pairs of records are at least "
        f"{_number(distance)} apart"
    )


def _first_alarm(
    lengths: Floats, tail: MomentSpread | GaussianSpread, pairs: bool
) -> tuple[int, float] | None:
    """Return a number j and the j-th largest length, for which there is an alarm; None without.

    `lengths` are (m, d): each of d coordinates has m independent lengths. The place j is that of
    the median if it gives an alarm, because readers compare its length with their parameter.
    Otherwise j is the place of the clearest alarm.
    """
    m, d = lengths.shape
    if not m:
        return None
    ordered = -np.sort(-lengths, axis=0)
    places = np.arange(1, m + 1)[:, None]
    probability = tail.probability(ordered, pairs)
    at_least = betainc(places, m - places + 1, probability)  # P(Bin(m, p) >= j)
    at_least = np.where(ordered > 0, at_least, 1.0)
    j, coordinate = np.unravel_index(np.argmin(at_least), at_least.shape)
    if at_least[j, coordinate] > FALSE_ALARM / (m * d):
        return None
    middle = (m - 1) // 2
    j = middle if at_least[middle, coordinate] <= FALSE_ALARM / (m * d) else j
    return int(j) + 1, float(ordered[j, coordinate])


def _number(value: float) -> str:
    """Return a number with three digits, such as 19,600."""
    return f"{float(f'{value:.3g}'):,.12g}"


def _describe_outside(outside: NDArray[np.bool_], bounds: str) -> str | None:
    """Describe a large share of records outside of bounds; None if the share is small."""
    share = float(np.mean(outside))
    if share <= MAX_OUTSIDE:
        return None
    return f"it assumes {bounds}, but {100 * share:.0f} per cent of the records are outside"
