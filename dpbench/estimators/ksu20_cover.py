"""Heavy tails in few dimensions, pure DP: points of a grid play matches, and one is chosen.

KSU20, Algorithm 4, Definitions 5.3 and 5.4, Theorem 5.8.

**Match.** p meets q at distance D = |p - q|. The records, in m groups fixed by index, give
y = <z - p, (q - p)/D> clipped to +-xi. If the median of the groups' means is D/2 or more, p
loses. Points at most the tie radius apart tie.

**Score.** The fewest records to replace so that p loses to some q of the grid, at most n alpha.
As a Hamming distance to a set of datasets, capped, it moves by at most 1 when a record is
replaced, whatever function of a record y is. A replaced record may get y = xi: the smallest of
a group go first until its mean is D/2, in the cheapest (m+1)/2 groups.

**Speed.** In one direction from p, a vector of coprime whole numbers of steps, all q have the
same y, and the nearest beyond the tie radius is the easiest to lose to.

**Rounding.** y is in whole numbers of h, a power of two. While alpha/4096 >= h >=
4 n (xi + half the grid's diagonal)/2^51 all sums are exact: no rounding moves a score by more.
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

__all__ = ["MOST_POINTS", "Cover", "KSU20CoverMean", "Records", "scores"]

Units = Annotated[float, Field(gt=0, le=1e6)]

MOST_POINTS = 5000
# In units of alpha: half the box's width and the tie radius; of alpha^(-1/(k-1)): xi.
BOX = {"paper": 1.0, "practical": 3.0}
TIE = {"paper": 20.0, "practical": 2.0}
XI = {"paper": 60.0, "practical": 2.0}
MOST_NUMBERS = 2_000_000  # about what the largest arrays hold


@dataclass(frozen=True)
class Cover:
    """A cubic grid of step alpha/sqrt(d), in units of alpha, that just reaches or passes +-box."""

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
        return int(np.ceil(2 * self.box * np.sqrt(self.d) * (1 - 1e-12))) + 1

    @property
    def log_size(self) -> float:
        return float(self.d * np.log(self.per_axis))

    @property
    def half_diagonal(self) -> float:
        return (self.per_axis - 1) / 2

    @cached_property
    def places(self) -> Ints:
        """The points in steps from the first, (points, d)."""
        return _grid(self.per_axis, self.d)

    @property
    def offsets(self) -> Floats:
        """The points off the centre, (points, d)."""
        return np.asarray((self.places - self.half_diagonal) / np.sqrt(self.d))

    @cached_property
    def rivals(self) -> Ints:
        """The step to the nearest q beyond the tie radius in every direction, shortest first."""
        v = _grid(2 * self.per_axis - 1, self.d) - (self.per_axis - 1)
        v = v[np.gcd.reduce(np.abs(v), axis=1) == 1]
        most = self.tie**2 * self.d * (1 + 1e-12)  # room for rounding: equal is a tie
        v = v * (np.floor(np.sqrt(most / (v**2).sum(axis=1))) + 1)[:, None].astype(np.int64)
        v = v[np.all(np.abs(v) < self.per_axis, axis=1)]
        return np.asarray(v[np.argsort((v**2).sum(axis=1), kind="stable")])


def _grid(side: int, d: int) -> Ints:
    return np.asarray(np.indices((side,) * d).reshape(d, -1).T)


class Records(NamedTuple):
    """Rows (trials, m, length, d), their weights, None if all are 1, and sizes of m groups."""

    rows: Floats
    weights: Floats | None
    sizes: Floats

    @classmethod
    def of(cls, sample: Sample, groups: int, rng: np.random.Generator) -> Self:
        """The rows of a sample of vectors, cut into groups by index."""
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
    """Records projected on a direction, (groups, length), and sorted; xi and reach are whole."""

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
        # One search finds places in all groups.
        self.keys = (y.astype(np.int64) + self.stride * np.arange(len(y))[:, None]).ravel()

    def changes(self, group: Ints, t: Floats, target: Floats, most: Floats) -> Floats:
        """The fewest records, (pairs,), to replace until the sums of y - t, clipped, reach targets.

        Groups and targets are (pairs, m), t is (pairs, 1). Too small, perhaps, if not below `most`.
        """
        xi, place = self.xi, self.stride * group + t.astype(np.int64)
        # Where the clip begins and ends among prefix sums, one more than rows in every group.
        low, high = (np.searchsorted(self.keys, place + s * int(xi)) + group for s in (-1, 1))
        below, upto = self.upto[low], self.upto[high]
        inside = self.total[high] - self.total[low] - t * (upto - below)
        need = np.maximum(target - inside - xi * (self.sizes[group] - upto - below), 0.0)
        costs = np.ceil(need / (2 * xi))  # at least, and right if all are at -xi
        found = _cheapest(costs)
        beyond = need > 2 * xi * below
        again = np.flatnonzero((found < most) & np.any(beyond, axis=1))
        if again.size:
            more = self._inside(group[again], t[again], need[again], low[again], high[again])
            found[again] = _cheapest(np.where(beyond[again], more, costs[again]))
        return found

    def _inside(self, group: Ints, t: Floats, need: Floats, low: Ints, high: Ints) -> Floats:
        """The changes of groups where all at -xi are replaced, and some inside the clip."""
        # Replaced, y gains xi - (y - t), and 2 xi where it is below the clip.
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
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums.ravel()


def _cheapest(costs: Floats) -> Floats:
    half = costs.shape[1] // 2
    return np.asarray(np.partition(costs, half, axis=1)[:, : half + 1].sum(axis=1))


def scores(records: Records, centre: Floats, cover: Cover, alpha: float, xi: float) -> Floats:
    """The scores of all points of the grid around a (trials, d) centre, (trials, points)."""
    trials, m, length, _ = records.rows.shape
    reach = xi + cover.half_diagonal * alpha
    exact = 4 * reach * records.sizes.max() * 2.0**-51
    least = reach * max(2.0**-50, m * 2.0**-58)  # so that keys are below 2^62
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
    """`scores` around 0 with rows in units of h, as columns (d, trials m, length)."""
    columns, m, last = records.rows, records.sizes.size, cover.per_axis - 1
    sizes = np.tile(records.sizes, columns.shape[1] // m)
    grid = cover.offsets * (alpha / h)
    xi, reach = max(1.0, float(np.rint(xi))), float(np.rint(xi + cover.half_diagonal * alpha / h))
    found = np.full((columns.shape[1] // m, len(grid)), alpha * records.sizes.sum())
    trial, point = np.nonzero(found)  # pairs of a score above 0
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
class KSU20CoverMean(Estimator):
    """The point of a grid that is hardest to make lose a match: KSU20, Algorithm 4.

    Halves of the records are disjoint, and each pays the whole budget. One gives a centre c:
    `KSU20Mean` on every coordinate with epsilon/d. A grid of step alpha/sqrt(d) covers c +- w in
    every coordinate, and the exponential mechanism at sensitivity 1 chooses one of its points by
    the `scores` on the other half. **paper**: w = alpha, tie radius 20 alpha,
    xi = 60/alpha^(1/(k-1)), centre asked for alpha. For d <= 100 all points then tie: the choice is
    uniform, and the box keeps the error below 20 alpha. **practical**, in units of alpha, with a
    centre asked for 1, so that `KSU20Mean` tunes its clip to n:

    - tie radius 2: some p is within 1/2 of the mean; those farther than 2 + 1/2 lose to it.
    - w = 3: if the centre is within 1, a mean has rivals on all sides; within 3, the grid holds it.
    - xi = xi0 + H, xi0 = 2/alpha^(1/(k-1)), H half the grid's diagonal. Clipping xi0 from the mean
      or farther biases by b alpha at most, b = (k-1)^(k-1)/(k^k 2^(k-1)) <= 1/8. A p at t <= 2H
      from the mean clips a >= xi0 - t/2 above it: as the variance is at most 1, the bias is below
      (sqrt(1 + a^2) - a)/2, and p loses all the same, since xi0 >= 2.

    Without `alpha` it solves n = sampling + privacy + range: the centre's, in ``paper``; in
    ``practical``, for halves of N records, L = ln(3 points/beta), and a third of beta for each:

    - sampling: N = (sqrt(d) + sqrt(2 ln(3/beta)))^2/alpha^2, as for normal vectors.
    - privacy: in all groups a p within 1/2 of the mean is g = 1/2 - b short of every D/2, and a
      record moves a mean by 2 xi m/N: its score is at least N g alpha (m+1)/(4 m xi). If that is
      2L/epsilon the mechanism takes none of score 0.
    - range: N/2 = 32 d ln(3 d bins/beta)/epsilon: a histogram's noises are a sixteenth of it.

    Parameters
    ----------
    k : float >= 2
        Order of the moment that is at most 1 in every direction.
    radius : float >= 0
        R, a bound on the mean's coordinates.
    alpha : float in (0, 1], optional
        The error sought.
    constants : {'paper', 'practical'}
    beta : float in (0, 1)
        Failure probability.
    groups : odd int, optional
        m; by default 1, in ``paper`` at least 400 d ln(8 sqrt(d)/beta).
    box, tie, xi : float, optional
        w and the tie radius over alpha, and xi over 1/alpha^(1/(k-1)), with nothing added.
    """

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
        return Cover(d, self.box or BOX[self.constants], self.tie or TIE[self.constants])

    def half_clip(self, alpha: float, d: int) -> float:
        """The xi of an error alpha."""
        base = (self.xi or XI[self.constants]) * alpha ** (-1 / (self.k - 1))
        added = self.xi is None and self.constants == "practical"
        return float(base + added * self.cover(d).half_diagonal * alpha)

    def match_groups(self, d: int) -> int:
        """The m in d dimensions."""
        if self.groups is not None or self.constants == "practical":
            return self.groups or 1
        return int(np.ceil(400 * d * np.log(8 * np.sqrt(d) / self.beta))) // 2 * 2 + 1

    def coarse(self, alpha: float, d: int) -> ksu20.KSU20Mean:
        """The estimator of the centre's coordinates."""
        sought, beta = alpha if self.constants == "paper" else 1.0, self.beta / d
        return ksu20.KSU20Mean(
            k=self.k, radius=self.radius, alpha=sought, constants=self.constants, beta=beta
        )

    def terms(self, alpha: float, n: float, d: int, budget: Budget) -> Floats:
        """What sampling, privacy and range ask of n for an error alpha."""
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
        """The error sought with n records, both halves together."""
        if self.alpha is not None:
            return self.alpha
        needed = lambda alpha: float(self.terms(alpha, n, d, budget).sum())  # noqa: E731
        return ksu20.smallest_alpha(needed, n, self.constants)

    def promise(self, n: int, d: int, budget: Budget) -> float | None:
        """20 alpha in ``paper``, if n is enough for the centre; else nothing."""
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
