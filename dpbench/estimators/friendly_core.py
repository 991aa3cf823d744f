r"""FriendlyCore: filter outliers by counting friends, then release the mean of the core.

Sources: TCKMS22; L17, section 3. Two records are friends if their distance is at most r (`radius`).
Record i, with c_i friends among the n records of its dataset (itself included), has the weight

    w_i = clip((c_i - h)/(n - h), 0, 1),   h = (n + 1)/2.

The core is the set of records of positive weight. For neighbours x, x' with weights w, w', their
sums W, W', and weighted means m, m':

(a) \|w - w'\|_1 <= 3 and |W - W'| <= 3.
(b) Any two records of the two cores, together, are within 2r, because they have a common friend.
(c) If W, W' > 0, then |m - m'| <= 6r/max(W, W').

The release: (1) W_lo, the noisy W less a bound that its noise exceeds with probability at most
delta/2; (2) nothing else if W_lo <= max(3, threshold n); (3) otherwise the weighted mean, with
noise of sensitivity 6r/W_lo. It is (epsilon, delta)-DP; no pure or zCDP budget can pay for it.

L17 has h = n/2, with which (b) fails for odd n: let r = 1, x = (1.5, 2.5, 4), x' = (4, 2.5, 4).

Proof: docs/theory/friendly_core.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpbench.arrays import Bools, Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.gaussian import Positive
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.streamed import MOST_WHOLE

__all__ = ["FriendlyCoreMean", "core_weights", "count_within", "friendly_mean", "gaussian_diameter"]

Composition = Literal["basic", "zcdp"]
Share = Annotated[float, Field(ge=0, lt=1)]

WEIGHT_STEP = 3.0  # sensitivity of W, by (a)
MEAN_STEP = 6.0  # sensitivity of the weighted mean in units of r/W, by (c)
CHUNK = 250_000  # numbers held at a time: distances, and coordinates of rows
PROBE = 64  # number of records from which `_origin` is computed
# Up to this n all pairwise distances of many trials are computed at once. The rounding may differ
# from that of `cdist`; n is public, so both neighbours take the same branch.
FEW = 16


def count_within(data: Floats, radius: float, counts: Floats | None = None) -> Floats:
    """Count the friends of each row: rows of its dataset within `radius`, itself included.

    Whether two rows are friends depends on these two alone. All pairs are compared, except for rows
    so near to an origin in the bulk that they must be friends, or so far that they cannot be.

    Parameters
    ----------
    data : (trials, n, d) array
        Records as vectors.
    radius : float > 0
        Largest distance r of two friends.
    counts : (trials, n) array, optional
        Multiplicity of each row; default 1.

    Returns
    -------
    (trials, n) array
        Number of friends, with multiplicity.
    """
    held = np.ones(data.shape[:2]) if counts is None else counts
    few = data.shape[1] <= FEW
    step = max(1, CHUNK // (data[0].size * (data.shape[1] if few else 1)))
    parts = [slice(start, start + step) for start in range(0, len(data), step)]
    with np.errstate(over="ignore"):
        if not few:
            return np.concatenate([_count(data[some], radius, held[some]) for some in parts])
        near = (_direct(data[some, :, None], data[some, None], radius) for some in parts)
        found = [one @ held[some, :, None] for one, some in zip(near, parts, strict=True)]
        return np.concatenate(found)[..., 0]


def _count(rows: Floats, radius: float, held: Floats, peels: int = 3) -> Floats:
    """Count friends in some trials; rows far from the origin are counted by a recursive call."""
    offset = rows - _origin(rows)
    offset /= radius
    square = np.einsum("tnd,tnd->tn", offset, offset)
    near = square < 0.25 * (1 - 1e-9)  # within radius/2, whatever rounding does
    found = np.where(near, (held * near).sum(axis=1, keepdims=True), 0.0)
    for trial in np.flatnonzero(~near.all(axis=1)):
        data, weight, count = rows[trial], held[trial], found[trial]
        # A row beyond 3/2 of the radius has no friend among the near rows.
        far = (square[trial] > 2.3) & (peels > 0) & near[trial].any()
        if far.any():
            count[far] = _count(data[None, far], radius, weight[None, far], peels - 1)[0]
        between = np.flatnonzero(~near[trial] & ~far)
        step = max(1, CHUNK // data.size)
        blocks = np.split(between, range(step, between.size, step))
        own = []
        for block in blocks:
            friends = _friends(data[block], data, radius)
            count += weight[block] @ friends
            own.append(friends @ weight)
        count[between] = np.concatenate(own)
    return found


def _origin(rows: Floats) -> Floats:
    """Return a point near the bulk of the rows, (trials, 1, d); only speed depends on it.

    It is the mean of the half of some rows that is nearest to their median: outliers move it less
    than they move the median of a few rows.
    """
    some = rows[:, :: max(1, rows.shape[1] // PROBE)]
    half = some.shape[1] // 2
    middle = np.partition(some, half, axis=1)[:, half : half + 1]
    distance = np.square(some - middle).sum(axis=2)
    near = np.argpartition(distance, half, axis=1)[:, : half + 1, None]
    return np.asarray((np.take_along_axis(some, near, 1) / (half + 1)).sum(axis=1, keepdims=True))


def _friends(one: Floats, other: Floats, radius: float) -> Bools:
    """Return a matrix: True where a row of `one` and a row of `other` are friends."""
    from scipy.spatial.distance import cdist  # slow to load

    if 1e-140 < radius < 1e140:
        return np.asarray(cdist(one, other, "sqeuclidean") <= radius**2)
    return _direct(one[:, None], other, radius)  # such squares vanish or overflow


def _direct(one: Floats, other: Floats, radius: float) -> Bools:
    """Return True where rows are friends; scaling by a power of two keeps differences exact."""
    unit = np.ldexp(1.0, max(int(np.frexp(radius)[1]), -1000))
    difference = (one - other) / unit
    return np.asarray(np.square(difference).sum(axis=-1) <= (radius / unit) ** 2)


def core_weights(friends: Floats, n: float) -> Floats:
    """Return the basic filter's weights w_i, in [0, 1].

    Parameters
    ----------
    friends : array
        Number of friends of each record, itself included.
    n : float
        Number of records.

    Returns
    -------
    array of the same shape

    Raises
    ------
    ValueError
        If n <= 2.
    """
    if n <= 2:
        raise ValueError(f"a core needs at least 3 records, got {n:g}")
    return np.asarray(np.clip((2 * friends - (n + 1)) / (n - 1), 0.0, 1.0))


def gaussian_diameter(n: float, d: int, beta: float) -> float:
    """Return a bound on the distances of n N(mu, I) vectors, valid with probability 1 - beta.

    Half the squared distance of two vectors is chi-squared with d degrees of freedom. By LM00,
    Lemma 1, it exceeds d + 2 sqrt(d t) + 2t with probability at most e^-t. Take t = ln(n^2/beta),
    for a union bound over all pairs.

    Parameters
    ----------
    n : float
        Number of vectors.
    d : int
        Dimension.
    beta : float in (0, 1)
        Failure probability.

    Returns
    -------
    float
    """
    t = 2 * np.log(n) - np.log(beta)
    return float(np.sqrt(2 * d + 4 * np.sqrt(d * t) + 4 * t))


def _cut(ledger: Ledger, composition: Composition) -> tuple[Ledger, Ledger, float]:
    """Return the ledgers of W and of the mean, and the bound on the noise of W."""
    budget = ledger.budget
    assert isinstance(budget, ApproxDP)
    ledger.allow_failure(budget.delta / 2)
    if composition == "basic":
        first, last = ledger.split(PureDP(budget.epsilon / 2), budget.fraction(0.5))
    else:
        half = ApproxDP(budget.epsilon, budget.delta / 2)
        (rest,) = ledger.split(half)
        (whole,) = rest.split(ZCDP.within(half))
        first, last = whole.split(0.5, 0.5)
    upper = np.asarray(budget.delta / 2)
    return first, last, float(first.budget.noise_tail(upper, WEIGHT_STEP, WEIGHT_STEP))


def _weighted_mean(rows: Floats, weights: Floats, total: Floats, radius: float) -> Floats:
    """Return the mean of the core, (trials, d), by offsets from a core record; NaN if empty."""
    middle = rows[np.arange(len(rows)), weights.argmax(axis=1), None]
    offset = rows - middle
    # The core is within 2r of `middle`. Other records have weight 0; clip them, as 0 * inf is NaN.
    np.clip(offset, -4 * radius, 4 * radius, out=offset)
    total = np.where(total > 0, total, np.nan)
    return np.asarray(middle[:, 0] + np.matmul(weights[:, None], offset)[:, 0] / total[:, None])


def friendly_mean(
    rows: Floats,
    radius: float,
    ledger: Ledger,
    threshold: float = 0.25,
    composition: Composition = "basic",
    counts: Floats | None = None,
) -> Estimate:
    """Return the mean of the core with noise; NaN where W_lo is too small.

    Parameters
    ----------
    rows : (trials, n, d) array
        Records as vectors.
    radius : float > 0
        Largest distance r of two friends.
    ledger : Ledger
        An (epsilon, delta) budget.
    threshold : float in [0, 1)
        Nothing is released if W_lo <= max(3, threshold n).
    composition : {'basic', 'zcdp'}
        See `FriendlyCoreMean`.
    counts : (trials, n) array, optional
        Multiplicity of each row, with equal totals in all trials; default 1.

    Returns
    -------
    Estimate
        `core` is W/n.
    """
    n, copies = float(rows.shape[1] if counts is None else counts[0].sum()), 1
    if counts is None and rows.strides[0] == 0:  # repeated releases on the same data
        rows, copies = rows[:1], len(rows)
    weights = core_weights(count_within(rows, radius, counts), n)
    weights = weights if counts is None else weights * counts
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights.sum(axis=1)
        before = np.repeat(_weighted_mean(rows, weights, total, radius), copies, 0)
        total = np.repeat(total, copies)
        first, last, bound = _cut(ledger, composition)
        least = first.add_noise(total, WEIGHT_STEP) - bound
        kept = least > max(3.0, threshold * n)
        before = np.where(kept[:, None], before, np.nan)
        # Draw noise for every trial, released or not, so that other trials' noise does not shift.
        step = MEAN_STEP * radius / np.where(kept, least, n)
        value = last.add_noise(before, step[:, None])
    largest = np.finfo(float).max
    return Estimate(np.clip(value, -largest, largest), before, core=total / n)


@validated
class FriendlyCoreMean(Estimator):
    """FriendlyCore: noisy mean of the records within distance r of most others (TCKMS22).

    No bound on the mean is needed, and a minority of records may lie anywhere. If a fraction eta <
    1/2 is far away and the others are friends, W/n is near (1 - eta)(1 - 2 eta), which is above the
    default threshold for eta < 0.31. The module has the filter and its privacy.

    Parameters
    ----------
    radius : float > 0, optional
        Distance r up to which two records are friends, in the unit of the data. Default: `sigma`
        times a bound on all distances of n Gaussian records, `gaussian_diameter`.
    sigma : float > 0
        Standard deviation of a coordinate, for the default radius.
    beta : float in (0, 1)
        Probability that some two Gaussian records are not friends, for the default radius.
    threshold : float in [0, 1)
        Nothing is released (NaN) if the noisy lower bound on the total weight of the core is at
        most max(3, threshold n).
    composition : {'basic', 'zcdp'}
        Split of the budget between W, the total weight of the core, and the mean. ``basic``: W
        has Laplace noise at epsilon/2, and the mean the budget's own noise at
        (epsilon/2, delta/2). ``zcdp``: each has rho/2, for the largest rho within
        (epsilon, delta/2).
    """

    radius: Positive | None = None
    sigma: Positive = 1.0
    beta: Probability = 0.1
    threshold: Share = 0.25
    composition: Composition = "basic"
    multivariate: ClassVar[bool] = True
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)

    @property
    def most_at_once(self) -> int:
        return MOST_WHOLE

    def friend_radius(self, n: float, d: int) -> float:
        """Return the distance r of friends.

        Parameters
        ----------
        n : float
            Number of records.
        d : int
            Coordinates of a record.

        Returns
        -------
        float
            r, in the unit of the data.
        """
        if self.radius is not None:
            return self.radius
        return min(self.sigma * gaussian_diameter(n, d, self.beta), 1e300)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        rows, counts = _listed(sample)
        radius = self.friend_radius(sample.n, sample.d)
        found = friendly_mean(rows, radius, ledger, self.threshold, self.composition, counts)
        return found.reshaped(sample.mean().shape)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        r, m = self.friend_radius(n, d or 1), np.arange(1, n + 1)
        # If the first m records are friends and the others alone, W = m (2m - n - 1)/(n - 1).
        *_, bound = _cut(Ledger(budget, np.random.default_rng(0)), self.composition)
        total = m * (2 * m - n - 1) / (n - 1) - bound
        held = int(m[np.argmin(np.abs(total - max(3.0, self.threshold * n)))])
        cases = [
            ("at_the_threshold", np.where(m <= held, 0.0, 10.0 * r * m), 0, 10.0 * r * (n + 1)),
            ("across_the_core", np.where(m % 2 == 0, 0.0, 0.9 * r), 1, 0.9 * r),
            ("two_camps", np.where(m <= n // 2, 0.0, 100.0 * r), 0, 100.0 * r),
        ]
        pairs = [Pair.replacing(*case) for case in cases]
        return pairs if d is None else [pair.along(np.eye(d)[0]) for pair in pairs]


def _listed(sample: Sample) -> tuple[Floats, Floats | None]:
    """Return records as vectors, and the multiplicity of each; None if that is 1."""
    scalars = sample.mean().ndim == 1
    if isinstance(sample, DenseSample):
        return (sample.values[..., None] if scalars else sample.values), None
    rows, counts = sample.ranked(0, sample.n - 1) if scalars else sample.listed()
    return (rows[..., None] if scalars else rows), counts
