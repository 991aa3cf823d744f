"""Heavy-tailed vectors in few dimensions under pure DP: choose a grid point by pairwise matches.

KSU20, Algorithm 4, Definitions 5.3 and 5.4, Theorem 5.8.

**Match.** Let p and q be points of the grid at distance D = |p - q|. The records z, in m groups
fixed by index, give y = <z - p, (q - p)/D>, clipped to +-xi. p loses to q if the median of the
groups' means of y is D/2 or more. Points at most the tie radius apart tie.

**Score.** The score of p is the fewest records to replace so that p loses to some q of the grid,
capped at n alpha. It is a capped Hamming distance to a set of datasets, so it changes by at most 1
if a record is replaced, whatever function of the record y is. A replaced record may get y = xi. So
it is cheapest to replace the smallest y of a group until its mean is D/2, in the (m+1)/2 groups
where this takes the fewest records.

**Speed.** A direction from p is a vector of coprime whole numbers of steps. All q in one direction
have the same y, and the nearest q beyond the tie radius is the easiest to lose to: the others need
not be tried.

**Rounding.** y is rounded to whole numbers of h, a power of two. If h is at most alpha/4096 and at
least 4 n (xi + half the grid's diagonal)/2^51, all sums of y are exact. So rounding cannot make a
score change by more than 1 between neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats, Ints
from dpbench.estimators import ksu20
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.registry import MomentOrder, Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["MOST_POINTS", "Cover", "KSU20TournamentMean", "Records", "scores"]

Units = Annotated[float, Field(gt=0, le=1e6)]

MOST_POINTS = 5000
# Half the box's width and the tie radius in units of alpha; xi in units of alpha^(-1/(k-1)).
BOX = {"paper": 1.0, "practical": 3.0}
TIE = {"paper": 20.0, "practical": 2.0}
XI = {"paper": 60.0, "practical": 2.0}
MOST_NUMBERS = 2_000_000  # size of the largest temporary arrays, about


@dataclass(frozen=True)
class Cover:
    """Cubic grid of step alpha/sqrt(d), in units of alpha, that just reaches or passes +-box.

    Parameters
    ----------
    d : int
        Number of coordinates.
    box : float > 0
        Half the width of the box to cover, in units of alpha.
    tie : float > 0
        Tie radius, in units of alpha.
    """

    d: int
    box: float
    tie: float

    def __post_init__(self) -> None:
        if self.log_size > np.log(MOST_POINTS + 0.5):
            size = f"{self.per_axis}^{self.d}" if self.d > 9 else self.per_axis**self.d
            raise ValueError(
                f"d = {self.d} with {self.per_axis} points per axis makes {size} points to choose "
                f"from, above the limit of {MOST_POINTS}; take a smaller box or d"
            )

    @property
    def per_axis(self) -> int:
        """Number of points along an axis."""
        return int(np.ceil(2 * self.box * np.sqrt(self.d) * (1 - 1e-12))) + 1

    @property
    def log_size(self) -> float:
        """Natural logarithm of the number of points."""
        return float(self.d * np.log(self.per_axis))

    @property
    def half_diagonal(self) -> float:
        """Half the diagonal of the grid, in units of alpha."""
        return (self.per_axis - 1) / 2

    @cached_property
    def places(self) -> Ints:
        """Points as whole numbers of steps from the first corner, (points, d)."""
        return _grid(self.per_axis, self.d)

    @property
    def offsets(self) -> Floats:
        """Points relative to the centre, in units of alpha, (points, d)."""
        return np.asarray((self.places - self.half_diagonal) / np.sqrt(self.d))

    @cached_property
    def rivals(self) -> Ints:
        """Steps to the nearest q beyond the tie radius in every direction, (rivals, d)."""
        v = _grid(2 * self.per_axis - 1, self.d) - (self.per_axis - 1)
        v = v[np.gcd.reduce(np.abs(v), axis=1) == 1]
        most = self.tie**2 * self.d * (1 + 1e-12)  # room for rounding: equal is a tie
        v = v * (np.floor(np.sqrt(most / (v**2).sum(axis=1))) + 1)[:, None].astype(np.int64)
        v = v[np.all(np.abs(v) < self.per_axis, axis=1)]
        return np.asarray(v[np.argsort((v**2).sum(axis=1), kind="stable")])


def _grid(side: int, d: int) -> Ints:
    """Return all points of {0, ..., side - 1}^d, (side^d, d)."""
    return np.asarray(np.indices((side,) * d).reshape(d, -1).T)


class Records(NamedTuple):
    """Records cut into m groups.

    Parameters
    ----------
    rows : ndarray of shape (trials, m, length, d)
        Distinct rows of every group, padded to the longest group.
    weights : ndarray of shape (trials, m, length) or None
        Multiplicities of the rows, 0 for padding; None if all are 1.
    sizes : ndarray of shape (m,)
        Number of records in every group.
    """

    rows: Floats
    weights: Floats | None
    sizes: Floats

    @classmethod
    def of(cls, sample: Sample, groups: int, rng: np.random.Generator) -> Self:
        """Cut the rows of a sample of vectors into groups by index.

        Parameters
        ----------
        sample : Sample
            Vectors, (trials, n, d).
        groups : int
            Number m of groups.
        rng : numpy.random.Generator
            Stream for the cut of samples that are not held as rows.

        Returns
        -------
        Records
        """
        cut = sample.groups(groups, rng)
        found = [part.listed() for part in cut]
        length = max(counts.shape[1] for _, counts in found)
        shape, rows, weights = (sample.trials, -1, length), [], []
        for values, counts in found:
            pad = ((0, 0), (0, length - counts.shape[1]))
            rows.append(np.pad(values, (*pad, (0, 0))).reshape(*shape, sample.d))
            weights.append(np.pad(counts, pad).reshape(shape))
        weight = np.concatenate(weights, axis=1)
        sizes = np.concatenate([np.full(s.trials // sample.trials, float(s.n)) for s in cut])
        return cls(np.concatenate(rows, axis=1), None if np.all(weight == 1) else weight, sizes)


class _Lines:
    """Records projected on one direction and sorted, (groups, length), with prefix sums.

    `y`, `xi` and `reach`, the largest |y|, are in units of h; `xi` and `reach` are whole numbers.
    """

    def __init__(
        self, y: Floats, weights: Floats | None, sizes: Floats, xi: float, reach: float
    ) -> None:
        self.sizes, self.xi, self.stride = sizes, xi, 2 * int(reach) + 8
        np.rint(np.clip(y, -reach, reach, out=y), out=y)
        if weights is None:
            y.sort(axis=1)
            self.total, self.upto = _prefix(y), _prefix(np.ones_like(y))
        else:
            order = np.argsort(y, axis=1)
            y, weights = (np.take_along_axis(a, order, axis=1) for a in (y, weights))
            self.total, self.upto = _prefix(weights * y), _prefix(weights)
        self.y = y.ravel()
        # The keys of a group begin `stride` after those of the last, so that one searchsorted
        # finds the places in all groups.
        self.keys = (y.astype(np.int64) + self.stride * np.arange(len(y))[:, None]).ravel()

    def changes(self, group: Ints, t: Floats, target: Floats, most: Floats) -> Floats:
        """Return the fewest records to replace until the sums of clipped y - t reach their targets.

        A value is exact only if it is below `most`; others may be too small.

        Parameters
        ----------
        group : ndarray of int, shape (pairs, m)
            Indices of the groups of each pair of a trial and a point.
        t : ndarray of shape (pairs, 1)
            Projection of the point, in units of h.
        target : ndarray of shape (pairs, m)
            Sums to reach, in units of h.
        most : ndarray of shape (pairs,)
            Best values so far, above which none is of interest.

        Returns
        -------
        ndarray of shape (pairs,)
        """
        xi, place = self.xi, self.stride * group + t.astype(np.int64)
        # Indices at which the clip begins and ends. A group has one prefix sum more than rows,
        # hence `+ group`.
        low, high = (np.searchsorted(self.keys, place + s * int(xi)) + group for s in (-1, 1))
        below, upto = self.upto[low], self.upto[high]
        inside = self.total[high] - self.total[low] - t * (upto - below)
        need = np.maximum(target - inside - xi * (self.sizes[group] - upto - below), 0.0)
        costs = np.ceil(need / (2 * xi))  # a lower bound, exact if enough rows are at -xi
        found = _cheapest(costs)
        beyond = need > 2 * xi * below
        again = np.flatnonzero((found < most) & np.any(beyond, axis=1))
        if again.size:
            more = self._inside(group[again], t[again], need[again], low[again], high[again])
            found[again] = _cheapest(np.where(beyond[again], more, costs[again]))
        return found

    def _inside(self, group: Ints, t: Floats, need: Floats, low: Ints, high: Ints) -> Floats:
        """Return the changes of groups where all y at -xi are replaced, and some in the clip."""
        # A replaced y gains xi - (y - t), or 2 xi if it is below the clip.
        level = self.xi + t
        start = (2 * self.xi - level) * self.upto[low] + self.total[low]

        def short(i: Ints) -> Floats:
            return np.asarray(need - start - level * self.upto[i] + self.total[i])

        first, last = low, high
        for _ in range(int((high - low).max()).bit_length()):
            middle = (first + last) // 2
            done = short(middle) <= 0
            last = np.where(done, middle, last)
            first = np.minimum(np.where(done, first, middle + 1), last)
        before = np.maximum(first - 1, low)
        gain = level - self.y[np.minimum(before - group, self.y.size - 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.upto[before] + np.ceil(short(before) / gain)
        return np.where(short(high) > 0, np.inf, found)


def _prefix(values: Floats) -> Floats:
    """Return the prefix sums of every row, with a leading 0, as one flat array."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums.ravel()


def _cheapest(costs: Floats) -> Floats:
    """Return the sum of the (m + 1)/2 smallest of m costs, (pairs,)."""
    half = costs.shape[1] // 2
    return np.asarray(np.partition(costs, half, axis=1)[:, : half + 1].sum(axis=1))


def scores(records: Records, centre: Floats, cover: Cover, alpha: float, xi: float) -> Floats:
    """Return the scores of all points of the grid.

    Parameters
    ----------
    records : Records
        Rows, weights and sizes of the groups.
    centre : ndarray of shape (trials, d)
        Centre of the grid, public or released before.
    cover : Cover
        Grid in units of alpha.
    alpha : float > 0
        Error sought, in the unit of the data.
    xi : float > 0
        Half width of the clip of y, in the unit of the data.

    Returns
    -------
    ndarray of shape (trials, points)
        Numbers of records, at most n alpha.
    """
    trials, m, length, _ = records.rows.shape
    reach = xi + cover.half_diagonal * alpha
    exact = 4 * reach * records.sizes.max() * 2.0**-51
    least = reach * max(2.0**-50, m * 2.0**-58)  # keeps the integer keys below 2^62
    h = float(2.0 ** np.ceil(np.log2(max(least, min(exact, alpha * 2.0**-12)))))
    chunk = min(MOST_NUMBERS // max(length, len(cover.places)), int(2.0**60 * h / reach)) // m or 1
    found = []
    for some in (slice(start, start + chunk) for start in range(0, trials, chunk)):
        with np.errstate(over="ignore"):
            rows = (records.rows[some] - centre[some, None, None]) / h
        rows = np.clip(rows, -1e300, 1e300)  # so that sums of d are finite
        columns = rows.transpose(3, 0, 1, 2).reshape(cover.d, -1, length)
        weights = None if records.weights is None else records.weights[some].reshape(-1, length)
        found.append(_scores(Records(columns, weights, records.sizes), cover, alpha, xi / h, h))
    return np.concatenate(found)


def _scores(records: Records, cover: Cover, alpha: float, xi: float, h: float) -> Floats:
    """Return `scores` around 0, for rows in units of h as columns (d, trials m, length)."""
    columns, m, last = records.rows, records.sizes.size, cover.per_axis - 1
    sizes = np.tile(records.sizes, columns.shape[1] // m)
    grid = cover.offsets * (alpha / h)
    xi, reach = max(1.0, float(np.rint(xi))), float(np.rint(xi + cover.half_diagonal * alpha / h))
    found = np.full((columns.shape[1] // m, len(grid)), alpha * records.sizes.sum())
    trial, point = np.nonzero(found)  # pairs whose score is still above 0
    here = cover.places[point]
    for rival in cover.rivals:
        playing = np.flatnonzero(np.all((here >= -rival) & (here <= last - rival), axis=1))
        if not playing.size:
            continue
        distance = float(np.sqrt((rival**2).sum()))
        y = np.einsum("dgl,d->gl", columns, rival / distance)
        lines = _Lines(y, records.weights, sizes, xi, reach)
        where = np.rint(grid @ (rival / distance))
        block = max(1, MOST_NUMBERS // m)
        for some in (playing[start : start + block] for start in range(0, playing.size, block)):
            at = trial[some], point[some]
            group = at[0][:, None] * m + np.arange(m)
            target = np.ceil(sizes[group] * (distance / np.sqrt(cover.d) / 2 * (alpha / h)))
            changes = lines.changes(group, where[at[1], None], target, found[at])
            found[at] = np.minimum(found[at], changes)
        left = found[trial, point] > 0
        trial, point, here = trial[left], point[left], here[left]
    return found


@validated
class KSU20TournamentMean(Estimator):
    """KSU20 pure-DP mean of heavy-tailed vectors: exponential mechanism on a grid (Algorithm 4).

    1. One half of the records gives a centre c: `KSU20Mean` on every coordinate with epsilon/d.
    2. A grid of step alpha/sqrt(d) covers c +- w in every coordinate, w = box alpha. The
       exponential mechanism at sensitivity 1 chooses a point of the grid by its `scores` on the
       other half.

    The halves are disjoint, so each has the whole budget. ``paper`` has w = alpha, a tie radius of
    20 alpha and xi = 60/alpha^(1/(k-1)); for d <= 100 all points then tie, and the box keeps the
    error below 20 alpha. ``practical`` has w = 3 alpha, a tie radius of 2 alpha, and for xi the sum
    of 2/alpha^(1/(k-1)) and half the grid's diagonal; the centre is asked for an error of 1.
    Proof: docs/theory/ksu20_tournament.md.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment: it is at most 1 in every direction, so data have to be scaled.
    radius : float >= 0
        Public bound R on the absolute value of every coordinate of the mean.
    alpha : float in (0, 1], optional
        Error sought; by default the smallest for which n suffices.
    constants : {'paper', 'practical'}
        Choice of box, tie radius and clip: those of the paper's proof, or smaller ones.
    beta : float in (0, 1)
        Probability that the error exceeds the one sought.
    groups : odd int, optional
        Number m of groups; by default 1, in ``paper`` at least 400 d ln(8 sqrt(d)/beta).
    box : float > 0, optional
        Half width w of the grid over alpha; by default 3, in ``paper`` 1.
    tie : float > 0, optional
        Tie radius over alpha; by default 2, in ``paper`` 20.
    xi : float > 0, optional
        Half width of the clip over 1/alpha^(1/(k-1)), to which nothing is added; by default see
        above.
    """

    stream_name: ClassVar[str] = "KSU20CoverMean"

    k: MomentOrder
    radius: Radius
    alpha: ksu20.Alpha | None = None
    constants: ksu20.Constants = "practical"
    beta: Probability = 0.1
    groups: Annotated[int, Field(ge=1)] | None = None
    box: Units | None = None
    tie: Units | None = None
    xi: Units | None = None
    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP,)
    multivariate: ClassVar[bool] = True

    @model_validator(mode="after")
    def _odd(self) -> Self:
        if self.groups is not None and self.groups % 2 == 0:
            raise ValueError(f"groups is {self.groups}; only an odd number has a middle one")
        return self

    def cover(self, d: int) -> Cover:
        """Return the grid in d dimensions; a ValueError if it has too many points."""
        return Cover(d, self.box or BOX[self.constants], self.tie or TIE[self.constants])

    def half_clip(self, alpha: float, d: int) -> float:
        """Return the half width xi of the clip.

        Parameters
        ----------
        alpha, d : float, int
            Error sought, and number of coordinates.

        Returns
        -------
        float
        """
        base = (self.xi or XI[self.constants]) * alpha ** (-1 / (self.k - 1))
        added = self.xi is None and self.constants == "practical"
        return float(base + added * self.cover(d).half_diagonal * alpha)

    def match_groups(self, d: int) -> int:
        """Return the number m of groups in d dimensions."""
        if self.groups is not None or self.constants == "practical":
            return self.groups or 1
        return int(np.ceil(400 * d * np.log(8 * np.sqrt(d) / self.beta))) // 2 * 2 + 1

    def coarse(self, alpha: float, d: int) -> ksu20.KSU20Mean:
        """Return the estimator of the centre's coordinates.

        Parameters
        ----------
        alpha, d : float, int
            Error sought, and number of coordinates.

        Returns
        -------
        KSU20Mean
        """
        sought, beta = alpha if self.constants == "paper" else 1.0, self.beta / d
        return ksu20.KSU20Mean(
            k=self.k, radius=self.radius, alpha=sought, constants=self.constants, beta=beta
        )

    def terms(self, alpha: float, n: float, d: int, budget: Budget) -> Floats:
        """Return the numbers of records that sampling, privacy and range need for an error alpha.

        Parameters
        ----------
        alpha, n : float
            Error sought, and number of records at which logarithms of n are taken.
        d, budget : int, Budget
            Number of coordinates, and privacy budget of the whole estimator.

        Returns
        -------
        ndarray of shape (3,)

        Raises
        ------
        ValueError
            If `tie` or `xi` is so small that no number of records suffices.
        """
        if self.constants == "paper":
            coarse = self.coarse(alpha, d)
            parts = 4 * coarse.groups
            return parts * np.array(coarse.terms(alpha, n / parts, budget.fraction(1 / d)))
        epsilon, m, cover = budget.pure_epsilon, self.match_groups(d), self.cover(d)
        gap = (cover.tie - 1) / 2 - worst_clipping_bias(self.xi or XI["practical"], self.k)
        if gap <= 0:
            raise ValueError(f"tie = {self.tie} or xi = {self.xi} is too small: give alpha")
        spread = np.sqrt(d) + np.sqrt(2 * np.log(3 / self.beta))
        bins = np.ceil(self.radius / ksu20.HALF_BIN["practical"]) + 2
        log = cover.log_size + np.log(3 / self.beta)
        privacy = 16 * m / (m + 1) * self.half_clip(alpha, d) * log / (gap * alpha * epsilon)
        reach = 128 * d * np.log(3 * d * bins / self.beta) / epsilon
        return np.array([2 * spread**2 / alpha**2, privacy, reach])

    def accuracy(self, n: int, d: int, budget: Budget) -> float:
        """Return the error that is sought with n records.

        Parameters
        ----------
        n, d : int
            Numbers of records, both halves together, and of coordinates.
        budget : Budget
            Privacy budget of the whole estimator.

        Returns
        -------
        float
        """
        if self.alpha is not None:
            return self.alpha
        needed = lambda alpha: float(self.terms(alpha, n, d, budget).sum())  # noqa: E731
        return ksu20.smallest_alpha(needed, n, self.constants)

    def promise(self, n: int, d: int, budget: Budget) -> float | None:
        """Return 20 alpha in ``paper`` if n suffices for the centre, otherwise None.

        Parameters
        ----------
        n, d : int
            Numbers of records, both halves together, and of coordinates.
        budget : Budget
            Privacy budget of the whole estimator.

        Returns
        -------
        float or None
        """
        alpha = self.accuracy(n, d, budget)
        kept = self.coarse(alpha, d).promise(n - n // 2, budget.fraction(1 / d))
        farthest = np.sqrt(d) + self.cover(d).half_diagonal  # from the mean to a point, over alpha
        return None if kept is None or farthest > TIE["paper"] else TIE["paper"] * alpha

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, d, half = sample.n, sample.d, sample.n // 2
        cover, m = self.cover(d), self.match_groups(d)
        if half < m:
            raise ValueError(f"{n} records cannot fill two halves of {m} groups")
        alpha = self.accuracy(n, d, ledger.budget)
        first, second = sample.split([n - half, half], ledger.rng)
        coarse, fine = ledger.parallel(2)
        centre = self.coarse(alpha, d).run(first.columns(), coarse.repeated(d)).value.reshape(-1, d)
        records = Records.of(second, m, ledger.rng)
        score = scores(records, centre, cover, alpha, self.half_clip(alpha, d))
        grid = alpha * cover.offsets
        value, best = centre + grid[fine.exponential(score, 1.0)], centre + grid[score.argmax(1)]
        return Estimate(value, best, accuracy=self.promise(n, d, ledger.budget))
