r"""FriendlyCore: keep the records with many friends, and release the mean of what is left.

Records are friends if a predicate holds for the two of them, here: if their distance is
at most r. The basic filter gives record i, of whose n records c_i are its friends, itself
included, the weight

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
(c) If W, W' > 0 the weighted means m and m' differ by at most 8r/max(W, W'). Let W be the
    larger. As sum_i w'_i (x'_i - m') = 0,

        W (m - m') = sum_i w_i (x_i - m') - sum_i w'_i (x'_i - m').

    m' is in the convex hull of a core, so by (b) each x_i - m' or x'_i - m' with a positive
    weight has norm at most 2r. The shared records give sum |w_i - w'_i| 2r <= 4r. Record 1
    gives at most (w_1 + w'_1) 2r <= 4r. (As its two places are within 2r of each other, too,
    it gives no more than 2r max(w_1, w'_1), which would do for 6r; 8r is what is used.)

Lecture 17 has h = n/2 and (c_i - n/2)/n. With that h two cores need not share a friend if n
is odd: with r = 1, x = (1.5, 2.5, 4) and x' = (4, 2.5, 4) the cores hold 1.5 and 4, each with
two friends of three, and 2.5 apart. And a slope of 1/n lets w jump from 1/2 to 1 at c_i = n;
the lecture's figure has the slope 2/n.

The release is (epsilon, delta)-DP. Step 1: the noisy W minus the bound that its noise
exceeds with probability delta/2 only, W_lo. Step 2: nothing but W_lo where it is at most
max(3, threshold n). Step 3: else, the weighted mean with noise of sensitivity 8r/W_lo.
Proof. Fix neighbours x, x'. Let M~ be the release on x, except that where W_lo > W step 3 runs
on x'. Step 1 has sensitivity 3 by (a). Given W_lo, step 3 of M~(x) and of M(x') are the same,
or else 3 < W_lo <= W, so that W' > 0 and the means differ by at most 8r/W <= 8r/W_lo by (c).
So M~(x) against M(x') is an adaptive composition of the two mechanisms, which costs
(epsilon, delta/2) as they are calibrated. M~(x) and M(x) differ only if the noise of step 1
exceeds its bound, so by delta/2 in total variation, and M(x) against M(x') costs (epsilon,
delta). The same holds with x and x' exchanged. No pure and no zCDP budget can pay for this.

References
----------
.. [1] G. Brown, lecture 17, section 3.
.. [2] E. Tsfadia, E. Cohen, H. Kaplan, Y. Mansour, U. Stemmer, "FriendlyCore: practical
   differentially private aggregation", ICML 2022.
.. [3] B. Laurent, P. Massart, "Adaptive estimation of a quadratic functional by model
   selection", Annals of Statistics 2000, Lemma 1.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.spatial.distance import cdist

from dpbench.arrays import Bools, Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.gaussian import Positive
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import DenseSample, Sample

__all__ = [
    "FriendlyCoreMean",
    "core_weights",
    "count_within",
    "friendly_mean",
    "gaussian_diameter",
]

Composition = Literal["basic", "zcdp"]
Share = Annotated[float, Field(ge=0, lt=1)]

# What one record moves W by, and the weighted mean in units of r/W.
WEIGHT_STEP = 3.0
MEAN_STEP = 8.0

# Distances, and coordinates of rows, held at a time.
CHUNK = 250_000
# Records that place the origin of the distances.
PROBE = 64


def count_within(rows: ArrayLike, radius: float, counts: Floats | None = None) -> Floats:
    """How many rows of its dataset are within `radius` of each row, itself included.

    Whether two rows are friends depends on these two alone. They are asked in pairs, but for
    rows so near to an origin in the bulk that they must be friends, or so far that they cannot.

    Parameters
    ----------
    rows : (trials, n, d) array_like of finite numbers
    radius : float > 0
    counts : (trials, n) array, optional
        How many there are of each row.

    Returns
    -------
    (trials, n) array
    """
    data = np.asarray(rows, dtype=float)
    if data.ndim != 3 or 0 in data.shape:
        raise ValueError(f"expected a non-empty (trials, n, d) array, got {data.shape}")
    if not 0 < radius < np.inf:
        raise ValueError(f"radius {radius} is not a finite number > 0")
    held = np.ones(data.shape[:2]) if counts is None else counts
    step = max(1, CHUNK // data[0].size)
    with np.errstate(over="ignore"):
        found = [
            _count(data[start : start + step], radius, held[start : start + step])
            for start in range(0, len(data), step)
        ]
    return np.concatenate(found)


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

    The coordinate-wise median of a few rows, fixed by index, withstands outliers but
    leans to their side; the mean of the half of these that is nearest to it hardly does.
    """
    some = rows[:, :: max(1, rows.shape[1] // PROBE)]
    half = some.shape[1] // 2
    middle = np.partition(some, half, axis=1)[:, half : half + 1]
    distance = np.square(some - middle).sum(axis=2)
    near = np.argpartition(distance, half, axis=1)[:, : half + 1, None]
    return np.asarray((np.take_along_axis(some, near, 1) / (half + 1)).sum(axis=1, keepdims=True))


def _friends(one: Floats, other: Floats, radius: float) -> Bools:
    """Which rows of the one are friends of which of the other."""
    if 1e-140 < radius < 1e140:
        return np.asarray(cdist(one, other, "sqeuclidean") <= radius**2)
    # Such squares vanish or overflow; a power of two scales differences without rounding.
    unit = np.ldexp(1.0, max(int(np.frexp(radius)[1]), -1000))
    return np.asarray(np.square((one[:, None] - other) / unit).sum(axis=2) <= (radius / unit) ** 2)


def core_weights(friends: ArrayLike, n: float | None = None) -> Floats:
    """The basic filter: weights from the records' counts of friends, for any predicate.

    Parameters
    ----------
    friends : (..., n) array_like
        Friends of each record, itself included.
    n : float, optional
        Records of a dataset, if equal ones are listed once.

    Raises
    ------
    ValueError
        If there are fewer than three records.

    Examples
    --------
    >>> core_weights([5, 5, 5, 5, 5]).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    >>> core_weights([4, 4, 4, 4, 1]).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.0]
    """
    counts = np.asarray(friends, dtype=float)
    n = counts.shape[-1] if n is None else n
    if n <= 2:
        raise ValueError(f"a core needs at least 3 records, got {n:g}")
    return np.asarray(np.clip((2 * counts - (n + 1)) / (n - 1), 0.0, 1.0))


def gaussian_diameter(n: float, d: int, beta: float) -> float:
    """The distance that n vectors from N(mu, I) all keep from each other.

    With probability 1 - beta. For two of them, half the squared distance is chi-squared of
    d degrees; by [3]_ it exceeds d + 2 sqrt(d t) + 2t with probability at most e^-t. Take
    t = ln(n^2/beta) and add up over the pairs.
    """
    t = 2 * np.log(n) - np.log(beta)
    return float(np.sqrt(2 * d + 4 * np.sqrt(d * t) + 4 * t))


def _cut(ledger: Ledger, composition: Composition) -> tuple[Ledger, Ledger]:
    """The ledgers of W and of the mean; the bound on W's noise is paid for."""
    budget = ledger.budget
    if not isinstance(budget, ApproxDP):
        raise ValueError(f"FriendlyCore needs an (epsilon, delta) budget, got {budget}")
    ledger.allow_failure(budget.delta / 2)
    if composition == "basic":
        first, last = ledger.split(PureDP(budget.epsilon / 2), budget.fraction(0.5))
        return first, last
    (rest,) = ledger.split(ApproxDP(budget.epsilon, budget.delta / 2))
    (whole,) = rest.split(ZCDP.within(ApproxDP(budget.epsilon, budget.delta / 2)))
    first, last = whole.split(0.5, 0.5)
    return first, last


def _weighted_mean(rows: Floats, weights: Floats, total: Floats, radius: float) -> Floats:
    """The mean of the core, (trials, d), around a record of it; NaN where it is empty."""
    middle = rows[np.arange(len(rows)), weights.argmax(axis=1), None]
    offset = rows - middle
    # The core is within 2r of it; what is far off has weight 0, and 0 times inf is no number.
    np.clip(offset, -4 * radius, 4 * radius, out=offset)
    total = np.where(total > 0, total, np.nan)
    return np.asarray(middle[:, 0] + np.matmul(weights[:, None], offset)[:, 0] / total[:, None])


def _filtered(rows: Floats, radius: float, counts: Floats | None) -> tuple[Floats, Floats, float]:
    """The weighted means of the trials, the sums of weights, and n."""
    n = float(rows.shape[1] if counts is None else counts[0].sum())
    if counts is None and rows.strides[0] == 0:  # repeated releases on the same data
        rows, copies = rows[:1], len(rows)
    else:
        copies = len(rows)
    weights = core_weights(count_within(rows, radius, counts), n)
    weights = weights if counts is None else weights * counts
    total = weights.sum(axis=1)
    mean = _weighted_mean(rows, weights, total, radius)
    return np.repeat(mean, copies // len(mean), 0), np.repeat(total, copies // len(mean)), n


def friendly_mean(
    rows: Floats,
    radius: float,
    ledger: Ledger,
    *,
    threshold: float = 0.25,
    composition: Composition = "basic",
    counts: Floats | None = None,
) -> Estimate:
    """The mean of the core with noise, or NaN; see the module for why it is private.

    Parameters
    ----------
    rows : (trials, n, d) array of finite numbers
        Records, or what a base estimator returns for each bucket of them.
    radius : float > 0
        r, public. The noise grows with it.
    ledger : Ledger of an (epsilon, delta) budget
        Is spent.
    threshold : float in [0, 1)
        Nothing is released where W_lo is at most max(3, threshold n).
    composition : {'basic', 'zcdp'}
        ``basic``: W with Laplace noise at epsilon/2, the mean with the budget's own noise at
        (epsilon/2, delta/2). ``zcdp``: both with Gaussian noise at rho/2, where rho is the
        largest that is within (epsilon, delta/2).
    counts : (trials, n) array, optional
        How many there are of each row, with the same total in every trial.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        before, total, n = _filtered(rows, radius, counts)
        first, last = _cut(ledger, composition)
        assert isinstance(ledger.budget, ApproxDP)
        upper = np.asarray(ledger.budget.delta / 2)
        bound = float(first.budget.noise_tail(upper, WEIGHT_STEP, WEIGHT_STEP))
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

    The module proves that it is (epsilon, delta)-DP. No bound on the mean is needed, and some
    records may lie anywhere: if a fraction eta < 1/2 is far off, and the others are friends, W/n
    is near (1 - eta)(1 - 2 eta), which is above the default threshold while eta < 0.31.
    With W = n and threshold 1/4 a release succeeds with probability 0.99 from about n = 142
    records (epsilon = 1, delta = 1e-6).

    Parameters
    ----------
    radius : float > 0, optional
        r, the distance of friends. By default sigma times `gaussian_diameter`.
    sigma : float > 0
        Standard deviation of a coordinate, for the default radius.
    beta : float in (0, 1)
        Probability that not all Gaussian records are friends, for the default radius.
    threshold : float in [0, 1)
        Nothing is released (NaN) where the private lower bound on W is at most this
        fraction of n, or 3.
    composition : {'basic', 'zcdp'}
        How the two noisy steps compose; see `friendly_mean`.
    """

    radius: Positive | None = None
    sigma: Positive = 1.0
    beta: Probability = 0.1
    threshold: Share = 0.25
    composition: Composition = "basic"
    multivariate: ClassVar[bool] = True
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)

    def friend_radius(self, n: float, d: int) -> float:
        """The distance r of friends among n records of d coordinates."""
        if self.radius is not None:
            return self.radius
        return min(self.sigma * gaussian_diameter(n, d, self.beta), 1e300)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        rows, counts = _listed(sample)
        found = friendly_mean(
            rows,
            self.friend_radius(sample.n, sample.d),
            ledger,
            threshold=self.threshold,
            composition=self.composition,
            counts=counts,
        )
        shape = sample.mean().shape
        value, before = found.value.reshape(shape), found.before_noise.reshape(shape)
        return Estimate(value, before, core=found.core)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        r, m = self.friend_radius(n, d or 1), np.arange(1, n + 1)
        # The first m records are friends, the others alone: W = m (2m - n - 1)/(n - 1).
        first, _ = _cut(Ledger(budget, np.random.default_rng(0)), self.composition)
        assert isinstance(budget, ApproxDP)
        upper = np.asarray(budget.delta / 2)
        bound = float(first.budget.noise_tail(upper, WEIGHT_STEP, WEIGHT_STEP))
        total = m * (2 * m - n - 1) / (n - 1) - bound
        held = int(m[np.argmin(np.abs(total - max(3.0, self.threshold * n)))])
        scattered = np.where(m <= held, 0.0, 10.0 * r * m)
        friends = np.where(m % 2 == 0, 0.0, 0.9 * r)
        halves = np.where(m <= n // 2, 0.0, 100.0 * r)
        made = {
            "at_the_threshold": (scattered, 0, 10.0 * r * (n + 1)),
            "across_the_core": (friends, 1, 0.9 * r),
            "two_camps": (halves, 0, 100.0 * r),
        }
        pairs = [Pair.replacing(name, *what) for name, what in made.items()]
        return pairs if d is None else [pair.along(np.eye(d)[0]) for pair in pairs]


def _listed(sample: Sample) -> tuple[Floats, Floats | None]:
    """Records as vectors, and how many there are of each if not one."""
    scalars = sample.mean().ndim == 1
    if isinstance(sample, DenseSample):
        return (sample.values[..., None] if scalars else sample.values), None
    rows, counts = sample.ranked(0, sample.n - 1) if scalars else sample.listed()
    return (rows[..., None] if scalars else rows), counts
