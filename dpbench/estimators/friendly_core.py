"""FriendlyCore: filter outliers by counting friends, then release the mean of the core.

Sources: TCKMS22; L17, section 3. Two records are friends if their distance is at most r (`radius`).
Let c_i be the number of friends of record i among the n records of its dataset, itself included.
The record has the weight

    w_i = clip((c_i - h)/(n - h), 0, 1),   h = (n + 1)/2.

The core is the set of records of positive weight. Let x, x' be neighbours with weights w, w'. Let
W, W' be the sums of the weights, and m, m' the weighted means.

(a) The l1 norm of w - w' is at most 3, and so is |W - W'| (`WEIGHT_STEP`).
(b) Any two records in the union of the two cores are within 2r, because they have a common friend.
(c) If W, W' > 0, then |m - m'| <= 6r/max(W, W') (`MEAN_STEP` is 6).

The release has three steps, with a public parameter `threshold`. (1) W_lo is the noisy W minus a
bound that the noise exceeds with probability at most delta/2. (2) If W_lo <= max(3, threshold n),
nothing is released. (3) Otherwise the weighted mean is released with noise of sensitivity 6r/W_lo.
The release is (epsilon, delta)-DP. No pure or zCDP budget can pay for it, because of the failure
probability delta/2.

L17 has h = n/2. For that value statement (b) is wrong if n is odd: let r = 1,
x = (1.5, 2.5, 4), x' = (4, 2.5, 4).

Proof: docs/theory/friendly_core.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Bools, Floats
from dpbench.estimators.assumptions import Assumption, MostWithin
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.gaussian import Positive
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.binned import MAX_WHOLE_RECORDS

__all__ = ["FriendlyCoreMean", "core_weights", "count_within", "friendly_mean", "gaussian_diameter"]

Composition = Literal["basic", "zcdp", "gdp"]
Share = Annotated[float, Field(ge=0, lt=1)]

WEIGHT_STEP = 3.0  # sensitivity of W, by (a)
MEAN_STEP = 6.0  # sensitivity of the weighted mean in units of r/W, by (c)
CHUNK = 250_000  # numbers held at a time: distances, and coordinates of rows
PROBE_SIZE = 64  # approximate number of records from which `_origin` is computed
# Up to this n all pairwise distances of many trials are computed at once. The rounding may differ
# from the rounding of `cdist`; n is public, so both neighbours take the same branch.
MAX_N_PAIRWISE = 16


def count_within(data: Floats, radius: float, counts: Floats | None = None) -> Floats:
    """Count the friends of each record, which are the records of its dataset within `radius`.

    A record is its own friend. The friendship of two records depends on no other record, not even
    by rounding. If n is large, pairs are not compared where the result is known. Let c be a point
    in the bulk of the data. Records within radius/2 of c are friends of each other. None of them is
    a friend of a record that is farther than 3 radius/2 from c. Records have the shape
    (trials, n, d). If `counts` is given, it holds multiplicities with which friends count.
    """
    weights = np.ones(data.shape[:2]) if counts is None else counts
    pairwise = data.shape[1] <= MAX_N_PAIRWISE
    step = max(1, CHUNK // (data[0].size * (data.shape[1] if pairwise else 1)))
    parts = [slice(start, start + step) for start in range(0, len(data), step)]
    with np.errstate(over="ignore"):
        if not pairwise:
            return np.concatenate(
                [_count_friends(data[part], radius, weights[part]) for part in parts]
            )
        near = (_are_within(data[part, :, None], data[part, None], radius) for part in parts)
        products = [
            matrix @ weights[part, :, None] for matrix, part in zip(near, parts, strict=True)
        ]
        return np.concatenate(products)[..., 0]


def _count_friends(rows: Floats, radius: float, weights: Floats, peels: int = 3) -> Floats:
    """Count the friends of each record, which are the records of its dataset within `radius`.

    A record is its own friend. Records far from a point in the bulk of the data are counted by a
    recursive call. The recursion has at most `peels` levels. Friends count with their `weights`,
    the multiplicities of shape (trials, n).
    """
    offset = rows - _origin(rows)
    offset /= radius
    square = np.einsum("tnd,tnd->tn", offset, offset)
    near = square < 0.25 * (1 - 1e-9)  # within radius/2 in spite of rounding
    counts = np.where(near, (weights * near).sum(axis=1, keepdims=True), 0.0)
    for trial in np.flatnonzero(~near.all(axis=1)):
        data, weight, count = rows[trial], weights[trial], counts[trial]
        # A row beyond 3/2 of the radius has no friend among the near rows.
        far = (square[trial] > 2.3) & (peels > 0) & near[trial].any()
        if far.any():
            count[far] = _count_friends(data[None, far], radius, weight[None, far], peels - 1)[0]
        between = np.flatnonzero(~near[trial] & ~far)
        step = max(1, CHUNK // data.size)
        blocks = np.split(between, range(step, between.size, step))
        totals = []
        for block in blocks:
            friends = _friend_matrix(data[block], data, radius)
            count += weight[block] @ friends
            totals.append(friends @ weight)
        count[between] = np.concatenate(totals)
    return counts


def _origin(rows: Floats) -> Floats:
    """Return a point near the bulk of the records, (trials, 1, d), for the counting of friends.

    Only the speed of counting depends on this point. About `PROBE_SIZE` records are sampled, and
    their coordinate-wise median is taken. The point is the mean of the half of this sample nearest
    to the median. Outliers move this mean less than the median.
    """
    probe = rows[:, :: max(1, rows.shape[1] // PROBE_SIZE)]
    half = probe.shape[1] // 2
    middle = np.partition(probe, half, axis=1)[:, half : half + 1]
    distance = np.square(probe - middle).sum(axis=2)
    near = np.argpartition(distance, half, axis=1)[:, : half + 1, None]
    return np.asarray((np.take_along_axis(probe, near, 1) / (half + 1)).sum(axis=1, keepdims=True))


def _friend_matrix(left: Floats, right: Floats, radius: float) -> Bools:
    """Return a matrix that is True where a row of `left` and a row of `right` are friends.

    Two rows are friends if their distance is at most `radius`.
    """
    from scipy.spatial.distance import cdist

    if 1e-140 < radius < 1e140:
        return np.asarray(cdist(left, right, "sqeuclidean") <= radius**2)
    return _are_within(left[:, None], right, radius)  # squares vanish or overflow


def _are_within(left: Floats, right: Floats, radius: float) -> Bools:
    """Return True where rows of `left` and `right`, which broadcast, are within distance `radius`.

    Differences are scaled by a power of two, which is exact and keeps squares from overflowing.
    """
    unit = np.ldexp(1.0, max(int(np.frexp(radius)[1]), -1000))
    difference = (left - right) / unit
    return np.asarray(np.square(difference).sum(axis=-1) <= (radius / unit) ** 2)


def core_weights(friends: Floats, n: float) -> Floats:
    """Return the weights of records in [0, 1], which are 0 for records with few friends.

    A record with c friends among n records has weight clip((c - h)/(n - h), 0, 1), h = (n + 1)/2.
    `friends` counts the record itself. A ValueError is raised if n <= 2.
    """
    if n <= 2:
        raise ValueError(f"a core needs at least 3 records, got {n:g}")
    return np.asarray(np.clip((2 * friends - (n + 1)) / (n - 1), 0.0, 1.0))


def gaussian_diameter(n: float, d: int, beta: float) -> float:
    """Return a bound on all distances of n N(mu, I) vectors, valid with probability 1 - beta.

    Half the squared distance of two vectors is chi-squared with d degrees of freedom. By LM00,
    Lemma 1, it exceeds d + 2 sqrt(d t) + 2t with probability at most e^-t. Here t = ln(n^2/beta),
    for a union bound over all pairs.
    """
    t = 2 * np.log(n) - np.log(beta)
    return float(np.sqrt(2 * d + 4 * np.sqrt(d * t) + 4 * t))


def _split_budget(ledger: Ledger, composition: Composition) -> tuple[Ledger, Ledger, float]:
    """Split an (epsilon, delta) budget between the total weight W of the records and their mean.

    Return the ledger of W, the ledger of the mean, and a bound on the noise of W. The noise exceeds
    the bound with probability delta/2. `FriendlyCoreMean` describes the values of
    `composition`.
    """
    budget = ledger.budget
    assert isinstance(budget, ApproxDP)
    ledger.allow_failure(budget.delta / 2)
    if composition == "basic":
        first, last = ledger.split(PureDP(budget.epsilon / 2), budget.fraction(0.5))
    else:
        half = ApproxDP(budget.epsilon, budget.delta / 2)
        (rest,) = ledger.split(half)
        (whole,) = rest.split((GDP if composition == "gdp" else ZCDP).within(half))
        first, last = whole.split(0.5, 0.5)
    upper = np.asarray(budget.delta / 2)
    return first, last, float(first.budget.noise_tail(upper, WEIGHT_STEP, WEIGHT_STEP))


def _weighted_mean(rows: Floats, weights: Floats, total: Floats, radius: float) -> Floats:
    """Return the weighted means of records, (trials, d); NaN where all weights are 0.

    The mean is computed from differences to a record of the largest weight, because these are
    small.
    """
    middle = rows[np.arange(len(rows)), weights.argmax(axis=1), None]
    offset = rows - middle
    # The core is within 2r of `middle`. Other records have weight 0; clip them: 0 * inf is NaN.
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
    """Release the mean of records weighted by their number of friends; NaN if too few have weight.

    Two records are friends if their distance is at most `radius`; `core_weights` computes weights
    from numbers of friends. Let W be the sum of the weights of the n records. W_lo is W with noise,
    minus a bound that this noise exceeds with probability at most delta/2. Nothing is released
    (NaN) if W_lo <= max(3, threshold n). `composition` says how the budget, which is
    (epsilon, delta), is split between W and the mean; see `FriendlyCoreMean`. The whole ledger is
    spent.

    `counts` holds the multiplicity of each record, with equal totals in all trials. The field
    `core` of the result is W/n, without noise. A ValueError is raised for fewer than 3 records.
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
        first, last, bound = _split_budget(ledger, composition)
        lower = first.add_noise(total, WEIGHT_STEP) - bound
        passes = lower > max(3.0, threshold * n)
        before = np.where(passes[:, None], before, np.nan)
        # Draw noise for every trial, released or not, so that other trials' noise does not shift.
        step = MEAN_STEP * radius / np.where(passes, lower, n)
        value = last.add_noise(before, step[:, None])
    largest = np.finfo(float).max
    return Estimate(np.clip(value, -largest, largest), before, core=total / n)


@validated
class FriendlyCoreMean(Estimator):
    """FriendlyCore: noisy mean of the records within distance r of most others (TCKMS22).

    TCKMS22, theorem number not checked; L17, section 3. Two records are friends if their distance
    is at most r. A record's weight, in [0, 1], grows with its number of friends (`core_weights`).
    The core is the set of records of positive weight, and W is the sum of the weights of all n
    records. The estimator releases the weighted mean with noise.

    No bound on the mean is needed, and a minority of records may lie anywhere. Suppose that a
    fraction eta < 1/2 of the records is far away, and that all others are friends. Then W/n is near
    (1 - eta)(1 - 2 eta), which is above the default threshold for eta < 0.31. The docstring of
    `dpbench.estimators.friendly_core` has the sensitivities; the proof is in
    docs/theory/friendly_core.md.

    Parameters
    ----------
    radius : float > 0, optional
        Distance r up to which two records are friends, in the unit of the data. Default: `sigma`
        times a bound on all distances of n Gaussian records, `gaussian_diameter`.
    sigma : float > 0, optional
        Standard deviation of a coordinate, in the unit of the data, for the default radius.
    beta : float in (0, 1)
        Bound on the probability that two of the n Gaussian records are not friends, for the default
        radius.
    threshold : float in [0, 1)
        Nothing is released (NaN) if a noisy lower bound on W is at most max(3, threshold n).
    composition : {'basic', 'zcdp', 'gdp'}
        Split of the (epsilon, delta) budget between W and the mean. ``basic``: W gets Laplace noise
        at epsilon/2, and the mean gets noise at (epsilon/2, delta/2). ``zcdp``: W and the mean get
        rho/2 each. Here rho is the largest zCDP budget that implies (epsilon, delta/2)-DP. ``gdp``:
        W and the mean get mu/sqrt(2) each, for the largest mu-GDP budget that implies
        (epsilon, delta/2)-DP. This needs less noise than ``zcdp``. In all cases delta/2 is the
        probability that the lower bound on W fails.
    """

    radius: Positive | None = None
    sigma: Positive | None = None
    beta: Probability = 0.1
    threshold: Share = 0.25
    composition: Composition = "basic"
    multivariate: ClassVar[bool] = True
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)
    fewest_records: ClassVar[int] = 3

    @model_validator(mode="after")
    def _check_scale(self) -> Self:
        if self.radius is None and self.sigma is None:
            raise ValueError(
                "give sigma, the standard deviation of a coordinate in the unit of the data, or "
                "radius"
            )
        return self

    @property
    def most_at_once(self) -> int:
        return MAX_WHOLE_RECORDS

    def friend_radius(self, n: float, d: int) -> float:
        """Return the largest distance of two friends (records), in the unit of the data."""
        if self.radius is not None:
            return self.radius
        assert self.sigma is not None
        return min(self.sigma * gaussian_diameter(n, d, self.beta), 1e300)

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        name = "sigma" if self.radius is None else "radius"
        return (MostWithin(self.friend_radius(n, d), name),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        rows, counts = _list_records(sample)
        radius = self.friend_radius(sample.n, sample.d)
        released = friendly_mean(rows, radius, ledger, self.threshold, self.composition, counts)
        return released.reshaped(sample.mean().shape)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        r, m = self.friend_radius(n, d or 1), np.arange(1, n + 1)
        # If the first m records are friends and the others have none, then
        # W = m (2m - n - 1)/(n - 1).
        *_, bound = _split_budget(Ledger(budget, np.random.default_rng(0)), self.composition)
        total = m * (2 * m - n - 1) / (n - 1) - bound
        friends = int(m[np.argmin(np.abs(total - max(3.0, self.threshold * n)))])
        cases = [
            ("at_the_threshold", np.where(m <= friends, 0.0, 10.0 * r * m), 0, 10.0 * r * (n + 1)),
            ("across_the_core", np.where(m % 2 == 0, 0.0, 0.9 * r), 1, 0.9 * r),
            ("two_camps", np.where(m <= n // 2, 0.0, 100.0 * r), 0, 100.0 * r),
        ]
        pairs = [Pair.replacing(*case) for case in cases]
        return pairs if d is None else [pair.along(np.eye(d)[0]) for pair in pairs]


def _list_records(sample: Sample) -> tuple[Floats, Floats | None]:
    """Return the records of a sample as vectors, (trials, m, d), and their multiplicities.

    The multiplicities are None if each of them is 1.
    """
    scalars = sample.mean().ndim == 1
    if isinstance(sample, DenseSample):
        return (sample.values[..., None] if scalars else sample.values), None
    rows, counts = sample.ranked(0, sample.n - 1) if scalars else sample.listed()
    return (rows[..., None] if scalars else rows), counts
