r"""FriendlyCore: keep the records with many friends, and release the mean of what is left.

TCKMS22; L17, section 3. Records are friends if a predicate holds for the two of them, here: if
their distance is at most r. The basic filter gives record i, of whose n records c_i are its
friends, itself included, the weight

    w_i = clip((c_i - h)/(n - h), 0, 1),   h = (n + 1)/2.

The core is the records of positive weight. Let x and x' differ in record 1, and let w, w'
and W = sum w, W' = sum w' be their weights. Then:

(a) \|w - w'\|_1 <= 3 and |W - W'| <= 3. The count of a shared record has one term that
    differs, so it changes by at most 1, and its weight by at most 1/(n - h) = 2/(n - 1);
    the n - 1 shared records add up to at most 2, and record 1 adds at most 1.
(b) Any two records of the two cores, together, have a common friend among x and x', so they
    are within 2r. A record in a core has more than (n + 1)/2 friends in its dataset. For two
    of the same core that makes more than n + 1 friends among n records: one is common. For
    one of each, leave out record 1: each has more than (n - 1)/2 friends among the n - 1
    shared records, so one of these is common.
(c) If W, W' > 0 the weighted means m and m' differ by at most 6r/max(W, W'). Let W be the
    larger. As sum_i w'_i (x'_i - m') = 0,

        W (m - m') = sum_i w_i (x_i - m') - sum_i w'_i (x'_i - m').

    m' is in the convex hull of a core, so by (b) each x_i - m' or x'_i - m' with a positive
    weight has norm at most 2r. The shared records give sum |w_i - w'_i| 2r <= 4r. Record 1
    gives w_1 a - w'_1 b with a = x_1 - m' and b = x'_1 - m'. If w_1 >= w'_1 > 0 this is
    (w_1 - w'_1) a + w'_1 (a - b), and by (b) its two places are within 2r of each other, so it
    is at most 2r w_1; as it is if w'_1 = 0. The same holds with the two exchanged: record 1
    gives at most 2r max(w_1, w'_1) <= 2r. (Searches find 2.7r/max(W, W') at most; whether
    less than 6r can be proved is open.)

L17 has h = n/2 and (c_i - n/2)/n. With that h two cores need not share a friend if n
is odd: with r = 1, x = (1.5, 2.5, 4) and x' = (4, 2.5, 4) the cores hold 1.5 and 4, each with
two friends of three, and 2.5 apart. And a slope of 1/n lets w jump from 1/2 to 1 at c_i = n;
the lecture's figure has the slope 2/n.

The release is (epsilon, delta)-DP. Step 1: the noisy W minus the bound that its noise
exceeds with probability delta/2 only, W_lo. Step 2: nothing but W_lo where it is at most
max(3, threshold n). Step 3: else, the weighted mean with noise of sensitivity 6r/W_lo.
Proof. Fix neighbours x, x'. Let M~ be the release on x, except that where W_lo > W step 3 runs
on x'. Step 1 has sensitivity 3 by (a). Given W_lo, step 3 of M~(x) and of M(x') are the same,
or else 3 < W_lo <= W, so that W' > 0 and the means differ by at most 6r/W <= 6r/W_lo by (c).
So M~(x) against M(x') is an adaptive composition of the two mechanisms, which costs
(epsilon, delta/2) as they are calibrated. M~(x) and M(x) differ only if the noise of step 1
exceeds its bound, so by delta/2 in total variation, and M(x) against M(x') costs (epsilon,
delta). The same holds with x and x' exchanged. No pure and no zCDP budget can pay for this.
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

WEIGHT_STEP = 3.0  # what one record moves W by,
MEAN_STEP = 6.0  # and the weighted mean, in units of r/W
CHUNK = 250_000  # distances, and coordinates of rows, held at a time
PROBE = 64  # records that place the origin of the distances
# Records up to which all pairs of many trials are asked at once. Rounding may differ from that
# of `cdist`, and n is public: neighbours are asked alike.
FEW = 16


def count_within(data: Floats, radius: float, counts: Floats | None = None) -> Floats:
    """How many of its dataset's (trials, n, d) rows are within `radius` of each, itself included.

    Whether two rows are friends depends on these two alone. They are asked in pairs, but for
    rows so near to an origin in the bulk that they must be friends, or so far that they cannot.
    The counts, (trials, n), say how many there are of each row.
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
    """The counts of some trials; in each, rows far from the origin get one of their own."""
    offset = rows - _origin(rows)
    offset /= radius
    square = np.einsum("tnd,tnd->tn", offset, offset)
    near = square < 0.25 * (1 - 1e-9)  # within radius/2, whatever rounding does
    found = np.where(near, (held * near).sum(axis=1, keepdims=True), 0.0)
    for trial in np.flatnonzero(~near.all(axis=1)):
        data, weight, count = rows[trial], held[trial], found[trial]
        # Beyond 3/2 of the radius none has a friend among the near ones.
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
    """A point near the bulk of the rows, (trials, 1, d): only speed depends on it.

    The median of a few rows leans to outliers; the mean of the half nearest to it hardly does.
    """
    some = rows[:, :: max(1, rows.shape[1] // PROBE)]
    half = some.shape[1] // 2
    middle = np.partition(some, half, axis=1)[:, half : half + 1]
    distance = np.square(some - middle).sum(axis=2)
    near = np.argpartition(distance, half, axis=1)[:, : half + 1, None]
    return np.asarray((np.take_along_axis(some, near, 1) / (half + 1)).sum(axis=1, keepdims=True))


def _friends(one: Floats, other: Floats, radius: float) -> Bools:
    """Which rows of the one are friends of which of the other."""
    from scipy.spatial.distance import cdist  # slow to load

    if 1e-140 < radius < 1e140:
        return np.asarray(cdist(one, other, "sqeuclidean") <= radius**2)
    return _direct(one[:, None], other, radius)  # such squares vanish or overflow


def _direct(one: Floats, other: Floats, radius: float) -> Bools:
    """Whether rows are friends; a power of two scales their difference without rounding."""
    unit = np.ldexp(1.0, max(int(np.frexp(radius)[1]), -1000))
    difference = (one - other) / unit
    return np.asarray(np.square(difference).sum(axis=-1) <= (radius / unit) ** 2)


def core_weights(friends: Floats, n: float) -> Floats:
    """The basic filter's weights of n records, by how many friends each has, itself included."""
    if n <= 2:
        raise ValueError(f"a core needs at least 3 records, got {n:g}")
    return np.asarray(np.clip((2 * friends - (n + 1)) / (n - 1), 0.0, 1.0))


def gaussian_diameter(n: float, d: int, beta: float) -> float:
    """The distance that n vectors from N(mu, I) keep from each other with probability 1 - beta.

    For two of them half its square is chi-squared of d degrees; by LM00, Lemma 1, it exceeds
    d + 2 sqrt(d t) + 2t with probability at most e^-t. Take t = ln(n^2/beta), for all pairs.
    """
    t = 2 * np.log(n) - np.log(beta)
    return float(np.sqrt(2 * d + 4 * np.sqrt(d * t) + 4 * t))


def _cut(ledger: Ledger, composition: Composition) -> tuple[Ledger, Ledger, float]:
    """The ledgers of W and of the mean, and the bound on W's noise, which is paid for."""
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
    """The mean of the core, (trials, d), around a record of it; NaN where it is empty."""
    middle = rows[np.arange(len(rows)), weights.argmax(axis=1), None]
    offset = rows - middle
    # The core is within 2r of it; what is far off has weight 0, and 0 times inf is no number.
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
    """The mean of the core of (trials, n, d) rows with noise, or NaN; the module proves privacy.

    The counts are of equal rows, (trials, n), with the same total in every trial.
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
        # Where nothing is released, noise is drawn all the same, to leave the others' as it is.
        step = MEAN_STEP * radius / np.where(kept, least, n)
        value = last.add_noise(before, step[:, None])
    largest = np.finfo(float).max
    return Estimate(np.clip(value, -largest, largest), before, core=total / n)


@validated
class FriendlyCoreMean(Estimator):
    """The mean of the records that have many friends: those within a distance r.

    No bound on the mean is needed, and some records may lie anywhere: if a fraction eta < 1/2 is
    far off, and the others are friends, W/n is near (1 - eta)(1 - 2 eta), which is above the
    default threshold while eta < 0.31.

    Parameters
    ----------
    radius : float > 0, optional
        r, the distance of friends. By default sigma times `gaussian_diameter`.
    sigma : float > 0
        Standard deviation of a coordinate, for the default radius.
    beta : float in (0, 1)
        Probability that not all Gaussian records are friends, for the default radius.
    threshold : float in [0, 1)
        Nothing is released (NaN) where W_lo is at most max(3, threshold n).
    composition : {'basic', 'zcdp'}
        ``basic``: W with Laplace noise at epsilon/2, the mean with the budget's own noise at
        (epsilon/2, delta/2). ``zcdp``: both at rho/2, the largest rho within (epsilon, delta/2).
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
        """The distance r of friends among n records of d coordinates."""
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
        # The first m records are friends, the others alone: W = m (2m - n - 1)/(n - 1).
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
    """Records as vectors, and how many there are of each if not one."""
    scalars = sample.mean().ndim == 1
    if isinstance(sample, DenseSample):
        return (sample.values[..., None] if scalars else sample.values), None
    rows, counts = sample.ranked(0, sample.n - 1) if scalars else sample.listed()
    return (rows[..., None] if scalars else rows), counts
