"""Heavy-tailed vectors in few dimensions under pure DP: choose a grid point by pairwise matches.

Source: KSU20, Algorithm 4, Definitions 5.3 and 5.4, Theorem 5.8. alpha is the error sought, and
the step of the grid is alpha/sqrt(d).

**Match.** Let p and q be points of the grid at distance D = |p - q|. The n records z are in m
groups, fixed by index. A record gives the number y = <z - p, (q - p)/D>, clipped to +-xi. p loses
to q if the median of the groups' means of y is D/2 or more. Two points tie if their distance is at
most the tie radius, a parameter.

**Score.** The score of p is the smallest number of records to replace until p loses to some q of
the grid. It is capped at n alpha. The score is a capped Hamming distance to a set of datasets. So
the score changes by at most 1 if a record is replaced. This holds for every function y of a record.
A replaced record may get y = xi. So the fewest records are replaced if the smallest y of a group go
first, until the mean of the group is D/2. The (m+1)/2 groups that need the fewest replaced records
decide the match.

**Speed.** A direction from p is a vector of coprime whole numbers of steps. All q in one direction
have the same y, and p loses most easily to the nearest q beyond the tie radius. So only this q is
tried.

**Rounding.** y is rounded to multiples of h, a power of two. Let the largest group have n' records.
If h is at least 4 n' (xi + half the grid's diagonal)/2^51, all sums of y are exact. So rounding
cannot make a score change by more than 1 between neighbours. The code takes the smallest such h
unless it exceeds alpha/4096, which would be too coarse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats, Ints
from dpbench.estimators import ksu20
from dpbench.estimators.assumptions import Assumption, MeanWithin, MomentSpread
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.registry import MomentOrder, MomentScale, Probability, Radius, validated
from dpbench.samples import Sample

__all__ = ["MAX_POINTS", "Cover", "KSU20TournamentMean", "Records", "scores"]

Units = Annotated[float, Field(gt=0, le=1e6)]

MAX_POINTS = 5000  # points of a grid, which bounds time and memory
# Half the box's width and the tie radius in units of alpha; xi in units of alpha^(-1/(k-1)).
BOX = {"paper": 1.0, "practical": 3.0}
TIE = {"paper": 20.0, "practical": 2.0}
XI = {"paper": 60.0, "practical": 2.0}
MAX_ARRAY_SIZE = 2_000_000  # approximate limit on the numbers in a temporary array


@dataclass(frozen=True)
class Cover:
    """Smallest cubic grid around 0 that reaches from -box to box in every coordinate.

    The points of the grid are candidates for the mean. `KSU20TournamentMean` compares them in pairs
    on the records, and each comparison is called a match. The step of the grid is alpha/sqrt(d),
    where alpha is the error sought. A ValueError is raised if the grid has more than `MAX_POINTS`
    points.
    """

    d: int
    box: float  # Half the width of the box to cover, above 0, in units of alpha.
    tie: float  # Largest distance at which two points are not compared, above 0, in units of alpha.

    def __post_init__(self) -> None:
        if self.log_size > np.log(MAX_POINTS + 0.5):
            size = f"{self.per_axis}^{self.d}" if self.d > 9 else self.per_axis**self.d
            raise ValueError(
                f"d = {self.d} with {self.per_axis} points per axis makes {size} points to choose "
                f"from, above the limit of {MAX_POINTS}; take a smaller box or d"
            )

    @property
    def per_axis(self) -> int:
        """Number of points of the grid along an axis."""
        return int(np.ceil(2 * self.box * np.sqrt(self.d) * (1 - 1e-12))) + 1

    @property
    def log_size(self) -> float:
        """Natural logarithm of the number of points of the grid."""
        return float(self.d * np.log(self.per_axis))

    @property
    def half_diagonal(self) -> float:
        """Half the diagonal of the grid, in units of the error alpha."""
        return (self.per_axis - 1) / 2

    @cached_property
    def places(self) -> Ints:
        """Points of the grid in whole numbers of steps from the first corner, (points, d)."""
        return _grid(self.per_axis, self.d)

    @property
    def offsets(self) -> Floats:
        """Points of the grid relative to its centre, in units of the error alpha, (points, d)."""
        return np.asarray((self.places - self.half_diagonal) / np.sqrt(self.d))

    @cached_property
    def rivals(self) -> Ints:
        """Vectors from a point to its nearest rival in every direction, (rivals, d).

        A rival of a point is a grid point with which it is compared: one farther away than the tie
        radius. Vectors are in steps of the grid.
        """
        steps = _grid(2 * self.per_axis - 1, self.d) - (self.per_axis - 1)
        steps = steps[np.gcd.reduce(np.abs(steps), axis=1) == 1]
        limit = self.tie**2 * self.d * (1 + 1e-12)  # rounding must not undo a tie at equality
        steps = steps * (np.floor(np.sqrt(limit / (steps**2).sum(axis=1))) + 1)[:, None].astype(
            np.int64
        )
        steps = steps[np.all(np.abs(steps) < self.per_axis, axis=1)]
        return np.asarray(steps[np.argsort((steps**2).sum(axis=1), kind="stable")])


def _grid(side: int, d: int) -> Ints:
    """Return all points of {0, ..., side - 1}^d as an array (side^d, d)."""
    return np.asarray(np.indices((side,) * d).reshape(d, -1).T)


class Records(NamedTuple):
    """Records of each trial, cut into m groups, on which grid points are compared in pairs."""

    rows: Floats  # (trials, m, length, d) array of distinct rows, padded to the longest group.
    # (trials, m, length) array of the rows' multiplicities, 0 for padding; None if all are 1.
    weights: Floats | None
    sizes: Floats  # Number of records in each of the m groups.

    @classmethod
    def from_sample(cls, sample: Sample, groups: int, rng: np.random.Generator) -> Self:
        """Cut the records of a sample of vectors into groups, which are fixed by index.

        The random generator is only used for samples that hold counts of records instead of rows.
        """
        samples = sample.groups(groups, rng)
        parts = [part.listed() for part in samples]
        length = max(counts.shape[1] for _, counts in parts)
        shape, rows, weights = (sample.trials, -1, length), [], []
        for values, counts in parts:
            pad = ((0, 0), (0, length - counts.shape[1]))
            rows.append(np.pad(values, (*pad, (0, 0))).reshape(*shape, sample.d))
            weights.append(np.pad(counts, pad).reshape(shape))
        weight = np.concatenate(weights, axis=1)
        sizes = np.concatenate([np.full(s.trials // sample.trials, float(s.n)) for s in samples])
        return cls(np.concatenate(rows, axis=1), None if np.all(weight == 1) else weight, sizes)


class _Lines:
    """Projections y of records on one direction, sorted within groups, with prefix sums.

    `y` has the shape (groups, length). The difference of y and the projection of a grid point is
    clipped to +-`xi`. `reach` is `xi` plus half the grid's diagonal: if abs(y) is larger, the
    difference is clipped for every grid point. All three are in units of h, the step to which
    projections are rounded. `xi` and `reach` are whole numbers.
    """

    def __init__(
        self, y: Floats, weights: Floats | None, sizes: Floats, xi: float, reach: float
    ) -> None:
        self.sizes, self.xi, self.stride = sizes, xi, 2 * int(reach) + 8
        np.rint(np.clip(y, -reach, reach, out=y), out=y)
        if weights is None:
            y.sort(axis=1)
            self.y_sums, self.count_sums = _prefix_sums(y), _prefix_sums(np.ones_like(y))
        else:
            order = np.argsort(y, axis=1)
            y, weights = (np.take_along_axis(a, order, axis=1) for a in (y, weights))
            self.y_sums, self.count_sums = _prefix_sums(weights * y), _prefix_sums(weights)
        self.y = y.ravel()
        # Add `stride` to the keys from group to group, so that one searchsorted finds the places in
        # all groups.
        self.keys = (y.astype(np.int64) + self.stride * np.arange(len(y))[:, None]).ravel()

    def changes(self, group: Ints, t: Floats, target: Floats, smallest: Floats) -> Floats:
        """Return how many records to replace until a grid point loses against another grid point.

        y is the projection of a record on the direction from the point to the other point, and t is
        the projection of the point. For each of m groups, y - t is clipped and summed over the
        records of the group. The point loses if (m + 1)/2 of these sums reach their targets. A
        returned number below `smallest` is exact. Other returned numbers are lower bounds.
        `smallest` is the smallest number at which the point loses against the other points compared
        before.

        `group` holds the indices of the m groups for each pair of a trial and a grid point, of
        shape (pairs, m). `target` has the same shape. `t` has the shape (pairs, 1), and `smallest`
        and the result have the shape (pairs,). `t` and `target` are in units of h, the step to
        which projections are rounded.
        """
        xi, place = self.xi, self.stride * group + t.astype(np.int64)
        # Indices into the prefix sums at which the clip begins and ends. Add `group`, because a
        # group has one prefix sum more than rows.
        low, high = (np.searchsorted(self.keys, place + s * int(xi)) + group for s in (-1, 1))
        below, up_to_end = self.count_sums[low], self.count_sums[high]
        inside = self.y_sums[high] - self.y_sums[low] - t * (up_to_end - below)
        need = np.maximum(target - inside - xi * (self.sizes[group] - up_to_end - below), 0.0)
        costs = np.ceil(need / (2 * xi))  # a lower bound, exact if enough rows are at -xi
        fewest = _sum_cheapest_half(costs)
        beyond = need > 2 * xi * below
        inexact = np.flatnonzero((fewest < smallest) & np.any(beyond, axis=1))
        if inexact.size:
            exact = self._changes_inside(
                group[inexact], t[inexact], need[inexact], low[inexact], high[inexact]
            )
            fewest[inexact] = _sum_cheapest_half(np.where(beyond[inexact], exact, costs[inexact]))
        return fewest

    def _changes_inside(
        self, group: Ints, t: Floats, need: Floats, low: Ints, high: Ints
    ) -> Floats:
        """Return how many records to replace in each group to reach its target, (pairs, m).

        y is the projection of a record on one direction, and t is the projection of a grid point.
        In each group the values y - t are clipped to +-`xi` and summed. `need` is the target minus
        this sum. The result holds for groups in which replacing all records with y - t below -`xi`
        does not suffice. In other groups it is not valid.
        """
        # A replaced y gains xi - (y - t), or 2 xi if it is below the clip.
        gain_plus_y = self.xi + t
        start = (2 * self.xi - gain_plus_y) * self.count_sums[low] + self.y_sums[low]

        def shortfall(i: Ints) -> Floats:
            return np.asarray(need - start - gain_plus_y * self.count_sums[i] + self.y_sums[i])

        first, last = low, high
        for _ in range(int((high - low).max()).bit_length()):
            middle = (first + last) // 2
            reached = shortfall(middle) <= 0
            last = np.where(reached, middle, last)
            first = np.minimum(np.where(reached, first, middle + 1), last)
        before = np.maximum(first - 1, low)
        gain = gain_plus_y - self.y[np.minimum(before - group, self.y.size - 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            fewest = self.count_sums[before] + np.ceil(shortfall(before) / gain)
        return np.where(shortfall(high) > 0, np.inf, fewest)


def _prefix_sums(values: Floats) -> Floats:
    """Return the prefix sums of every row of an array, with a leading 0, as one flat array."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums.ravel()


def _sum_cheapest_half(costs: Floats) -> Floats:
    """Return the sum of the (m + 1)/2 smallest of m costs, for each pair of a trial and a point.

    `costs` is (pairs, m), and m is odd.
    """
    half = costs.shape[1] // 2
    return np.asarray(np.partition(costs, half, axis=1)[:, : half + 1].sum(axis=1))


def scores(records: Records, centre: Floats, cover: Cover, alpha: float, xi: float) -> Floats:
    """Return the scores of all points of the grid for the exponential mechanism.

    Two points are compared by the projections of the records on the line through both, and one
    point may lose. The score of a point is the smallest number of records to replace until it loses
    to some other point, at most n alpha. `dpbench.estimators.ksu20_tournament` defines the
    comparison as a match.

    The centre of the grid, of shape (trials, d), is public or released before, and the cover is in
    units of alpha. The error sought, alpha, is in the unit of the data. So is `xi`, half the width
    of the clip of projected records. The scores have the shape (trials, points).
    """
    trials, m, length, _ = records.rows.shape
    reach = xi + cover.half_diagonal * alpha
    exact_step = 4 * reach * records.sizes.max() * 2.0**-51
    smallest_step = reach * max(2.0**-50, m * 2.0**-58)  # keeps the integer keys below 2^62
    h = float(2.0 ** np.ceil(np.log2(max(smallest_step, min(exact_step, alpha * 2.0**-12)))))
    chunk = (
        min(MAX_ARRAY_SIZE // max(length, len(cover.places)), int(2.0**60 * h / reach)) // m or 1
    )
    blocks = []
    for block in (slice(start, start + chunk) for start in range(0, trials, chunk)):
        with np.errstate(over="ignore"):
            rows = (records.rows[block] - centre[block, None, None]) / h
        rows = np.clip(rows, -1e300, 1e300)  # so that sums of d are finite
        columns = rows.transpose(3, 0, 1, 2).reshape(cover.d, -1, length)
        weights = None if records.weights is None else records.weights[block].reshape(-1, length)
        blocks.append(_scores(Records(columns, weights, records.sizes), cover, alpha, xi / h, h))
    return np.concatenate(blocks)


def _scores(records: Records, cover: Cover, alpha: float, xi: float, h: float) -> Floats:
    """Return the scores of all points of a grid around 0; see the function `scores`.

    `records.rows` is transposed here: its shape is (d, trials m, length) for m groups. The rows and
    `xi` are in units of h, the step to which projections are rounded. `alpha` is in the unit of
    the data.
    """
    columns, m, last = records.rows, records.sizes.size, cover.per_axis - 1
    sizes = np.tile(records.sizes, columns.shape[1] // m)
    grid = cover.offsets * (alpha / h)
    xi, reach = max(1.0, float(np.rint(xi))), float(np.rint(xi + cover.half_diagonal * alpha / h))
    lowest = np.full((columns.shape[1] // m, len(grid)), alpha * records.sizes.sum())
    trial, point = np.nonzero(lowest)  # pairs whose score is still above 0
    places = cover.places[point]
    for rival in cover.rivals:
        playing = np.flatnonzero(np.all((places >= -rival) & (places <= last - rival), axis=1))
        if not playing.size:
            continue
        distance = float(np.sqrt((rival**2).sum()))
        y = np.einsum("dgl,d->gl", columns, rival / distance)
        lines = _Lines(y, records.weights, sizes, xi, reach)
        projections = np.rint(grid @ (rival / distance))
        block = max(1, MAX_ARRAY_SIZE // m)
        for pairs in (playing[start : start + block] for start in range(0, playing.size, block)):
            cells = trial[pairs], point[pairs]
            group = cells[0][:, None] * m + np.arange(m)
            target = np.ceil(sizes[group] * (distance / np.sqrt(cover.d) / 2 * (alpha / h)))
            changes = lines.changes(group, projections[cells[1], None], target, lowest[cells])
            lowest[cells] = np.minimum(lowest[cells], changes)
        alive = lowest[trial, point] > 0
        trial, point, places = trial[alive], point[alive], places[alive]
    return lowest


@validated
class KSU20TournamentMean(Estimator):
    """KSU20 pure-DP mean of heavy-tailed vectors: exponential mechanism on a grid (Algorithm 4).

    1. One half of the records gives a centre c: `KSU20Mean` on each of the d coordinates with
       epsilon/d.
    2. A grid of step alpha/sqrt(d) covers c +- w in every coordinate, w = box alpha. The
       exponential mechanism at sensitivity 1 chooses a point of the grid by its `scores` on the
       other half. A match compares two points by the records, projected on the line through both
       points and clipped to +-xi. The score of a point is the number of records to replace until
       the point loses a match to a point beyond the tie radius.
       `dpbench.estimators.ksu20_tournament` derives the sensitivity.

    If a coordinate of the centre declares failure, nothing is released (NaN). `KSU20Mean` does so
    by public numbers alone. A bin of some coordinate is wrong with probability at most beta.

    Lengths are in units of `scale`, except for the bound R on the mean. The halves are disjoint, so
    each has the whole budget. ``paper`` has w = alpha, a tie radius of
    20 alpha and xi = 60/alpha^(1/(k-1)). For d <= 100 all points then tie, and the size of the grid
    keeps the error below 20 alpha. ``practical`` has w = 3 alpha and a tie radius of 2 alpha. There
    xi is the sum of 2/alpha^(1/(k-1)) and half the grid's diagonal, and the error sought for each
    coordinate of the centre is 1.
    Proof: docs/theory/ksu20_tournament.md.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment: E|<v, X - mu>|^k is at most scale^k for records X of mean mu
        and every unit vector v.
    scale : float > 0
        Bound on the k-th root of the central moment in every direction, in the unit of the data.
        For k = 2 it bounds the standard deviation.
    radius : float >= 0
        Public bound R on the absolute value of every coordinate of the mean, in the unit of the
        data.
    alpha : float in (0, 1], optional
        Error sought, in units of `scale`; by default the smallest error for which n records
        suffice, see the method `terms`.
    constants : {'paper', 'practical'}
        Choice of w, tie radius and xi. ``paper``: the constants of the paper's proof.
        ``practical``: smaller constants.
    beta : float in (0, 1)
        Probability that the error exceeds the promised error.
    groups : odd int, optional
        Number m of groups of the records in a match; by default 1, in ``paper`` at least 400 d ln(8
        sqrt(d)/beta).
    box : float > 0, optional
        w/alpha, where w is half the width of the grid; by default 3, in ``paper`` 1.
    tie : float > 0, optional
        Tie radius divided by alpha; by default 2, in ``paper`` 20.
    xi : float > 0, optional
        Half the width of the clip, in units of alpha^(-1/(k-1)); by default 2, in ``paper`` 60. If
        it is given, half the grid's diagonal is not added.
    """

    k: MomentOrder
    scale: MomentScale
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
    def _check_odd(self) -> Self:
        if self.groups is not None and self.groups % 2 == 0:
            raise ValueError(f"groups is {self.groups}; only an odd number has a middle one")
        return self

    def cover(self, d: int) -> Cover:
        """Return the grid of candidate points in d dimensions, in units of the error alpha.

        Raise ValueError if the grid has too many points.
        """
        return Cover(d, self.box or BOX[self.constants], self.tie or TIE[self.constants])

    def half_clip(self, alpha: float, d: int) -> float:
        """Return half the width of the clip of projected records, in units of `scale`.

        The error sought, alpha, has this unit, too, and the records have d coordinates.
        """
        base = (self.xi or XI[self.constants]) * alpha ** (-1 / (self.k - 1))
        added = self.xi is None and self.constants == "practical"
        return float(base + added * self.cover(d).half_diagonal * alpha)

    def match_groups(self, d: int) -> int:
        """Return the number m of groups of records by which grid points in R^d are compared."""
        if self.groups is not None or self.constants == "practical":
            return self.groups or 1
        return int(np.ceil(400 * d * np.log(8 * np.sqrt(d) / self.beta))) // 2 * 2 + 1

    def centre_estimator(self, alpha: float, d: int) -> ksu20.KSU20Mean:
        """Return the estimator of one of the d coordinates of the centre of the grid.

        The error sought, alpha, is in units of `scale`.
        """
        centre_alpha, beta = alpha if self.constants == "paper" else 1.0, self.beta / d
        return ksu20.KSU20Mean(
            k=self.k, scale=self.scale, radius=self.radius, alpha=centre_alpha,
            constants=self.constants, beta=beta,
        )  # fmt: skip

    def terms(self, alpha: float, n: float, d: int, budget: Budget) -> Floats:
        """Return the numbers of records that sampling, privacy and range need for an error alpha.

        The needed numbers may depend on n, by logarithms. The error sought, alpha, is in units of
        `scale`, and the budget is that of the whole estimator. A ValueError is raised if `tie` or
        `xi` is so small that no number of records suffices.
        """
        if self.constants == "paper":
            centre = self.centre_estimator(alpha, d)
            parts = 4 * centre.groups
            return parts * np.array(centre.terms(alpha, n / parts, budget.fraction(1 / d)))
        epsilon, m, cover = budget.pure_epsilon, self.match_groups(d), self.cover(d)
        gap = (cover.tie - 1) / 2 - worst_clipping_bias(self.xi or XI["practical"], self.k)
        if gap <= 0:
            raise ValueError(f"tie = {self.tie} or xi = {self.xi} is too small: give alpha")
        spread = np.sqrt(d) + np.sqrt(2 * np.log(3 / self.beta))
        log = cover.log_size + np.log(3 / self.beta)
        privacy = 16 * m / (m + 1) * self.half_clip(alpha, d) * log / (gap * alpha * epsilon)
        located = self._records_to_locate(alpha, d, budget)
        return np.array([2 * spread**2 / alpha**2, privacy, located])

    def _records_to_locate(self, alpha: float, d: int, budget: Budget) -> float:
        """Return the number of records at which no coordinate of the centre declares failure."""
        return 2.0 * self.centre_estimator(alpha, d).working_records(1, budget.fraction(1 / d))

    def least_records(self, d: int, budget: Budget) -> int:
        located = self.centre_estimator(1.0, d).least_records(1, budget)
        return max(2 * self.match_groups(d), 2 * located - 1)

    def working_records(self, d: int, budget: Budget) -> int:
        alpha = self.alpha or ksu20.LARGEST_ALPHA[self.constants]
        return int(self._records_to_locate(alpha, d, budget)) - 1  # half of an odd n is rounded up

    def accuracy(self, n: int, d: int, budget: Budget) -> float:
        """Return the error alpha that the estimator seeks with n records of d coordinates.

        The error is in units of `scale`. Both halves together have n records, and the budget is
        that of the whole estimator.
        """
        if self.alpha is not None:
            return self.alpha
        needed = lambda alpha: float(self.terms(alpha, n, d, budget).sum())  # noqa: E731
        return ksu20.smallest_alpha(needed, n, self.constants)

    def promise(self, n: int, d: int, budget: Budget) -> float | None:
        """Return the guaranteed error, 20 alpha, with ``paper`` constants; None without guarantee.

        The guaranteed error is in the unit of the data. alpha is the error sought. A guarantee
        exists if both conditions hold:

        - `KSU20Mean` guarantees an error alpha for every coordinate of the centre of the grid.
        - If this error is met, every grid point is within 20 alpha of the mean.

        Both halves together have n records, and the budget is that of the whole estimator.
        """
        alpha = self.accuracy(n, d, budget)
        centre_error = self.centre_estimator(alpha, d).promise(n - n // 2, budget.fraction(1 / d))
        farthest = np.sqrt(d) + self.cover(d).half_diagonal  # largest error of a point over alpha
        met = centre_error is not None and farthest <= TIE["paper"]
        return self.scale * (TIE["paper"] * alpha) if met else None

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = MomentSpread(self.k, self.scale)
        return spread, MeanWithin(self.radius, spread)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, d, half = sample.n, sample.d, sample.n // 2
        cover, m = self.cover(d), self.match_groups(d)
        if half < m:
            raise ValueError(f"{n} records cannot fill two halves of {m} groups")
        alpha = self.accuracy(n, d, ledger.budget)
        first, second = sample.split([n - half, half], ledger.rng)
        coarse, fine = ledger.parallel(2)
        centre = (
            self.centre_estimator(alpha, d)
            .run(first.columns(), coarse.repeated(d))
            .value.reshape(-1, d)
        )
        # The centre is released only if all of its coordinates are.
        failed = np.isnan(centre).any(axis=1, keepdims=True)
        centre = np.where(failed, 0.0, centre)
        records = Records.from_sample(second, m, ledger.rng)
        with np.errstate(over="ignore"):  # a small scale; the function `scores` clips its rows
            scaled = records._replace(rows=records.rows / self.scale)
        score = scores(scaled, centre / self.scale, cover, alpha, self.half_clip(alpha, d))
        grid = self.scale * (alpha * cover.offsets)
        points = grid[fine.exponential(score, 1.0)], grid[score.argmax(1)]
        value, best = (np.where(failed, np.nan, centre + point) for point in points)
        return Estimate(value, best, accuracy=self.promise(n, d, ledger.budget))
