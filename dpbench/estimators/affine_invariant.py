"""Affine-invariant mean: weighted by leverage, with noise shaped like the weighted covariance.

The method follows BHS23 and KDH23. It computes a covariance that outliers hardly move, and tests
that one record cannot change this covariance much. Then it releases the mean with noise of this
covariance. Here the same weights of records serve for the mean and for the covariance. Constants
and proof (docs/theory/affine_invariant.md) are ours.

A record is a column x of d coordinates, z = (1, x), and z' is the transpose. The leverage of a
record in a set S of records is z'(A_S)^-1 z, where A_S is the sum of z z' over S. M, K and R are
public constants (`inverse`, `most` and `ramp` of `StableCore`). Let L_l = 1/(M - l) for
l = 0, 1, ..., and let S_l be the largest set in which no leverage is above L_l. The level of a
record is the least l for which the record is in S_l. The score u of a dataset is the least l for
which at most l records are outside of S_l. The weight of a record is
w = clip((K + R - level)/R, 0, 1).

(a) Replacing one record moves u and the levels of the other records by at most 1.
(b) Let u <= K for both of two neighbours. Add up the amounts by which weights in one dataset exceed
    the weights in the other. This sum is at most s = 1 + K/R (`_mass`).
(c) A record of positive weight has at most the leverage lam = 1/(M - 2K - R) (`_leverage`) with
    respect to the weighted sum of z z'.
(d) Let m and V be the weighted mean and scatter matrix, and t = s lam < 1 (`loss`). For a neighbour
    with m' and V', V' >= (1 - t) V. In the norm |V^(-1/2) x| the means m, m' differ by at most
        step = s sqrt(lam - 1/n)/(n - K - s) (1 + 1/sqrt(1 - t)).
(e) Call two distributions (eps, delta)-close if they satisfy the inequalities of (eps, delta)-DP.
    For every c > 0, N(m, c^2 V) and N(m, c^2 V') are (eps_V, delta_V)-close. Here delta_V > 0 may
    be chosen, q = t/(1 - t), and eps_V = (q g^2 - ln(1 - t))/2 (`shape_epsilon`). A standard normal
    number exceeds g in absolute value with probability at most delta_V (`gaussian_norm`).
(f) Let the Gaussian mechanism with sensitivity `step` and noise of standard deviation c be
    (eps_m, delta_m)-DP. Then N(m, c^2 V') and N(m', c^2 V') are (eps_m, delta_m)-close. With (e)
    the release N(m, c^2 V) is (eps_V + eps_m, delta_V + e^eps_V delta_m)-close to the neighbour's.
(g) Test: u gets Laplace noise, which is below -b with probability at most delta_1. The estimate is
    released only if the noisy u is at most K - b, with K >= 2b. So u <= K in a release, except with
    probability delta_1.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import chdtri

from dpbench.arrays import Bools, Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import MAX_COORDINATE, gaussian_norm
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MAX_RECORDS, Probability, validated
from dpbench.samples import DenseSample, Sample

__all__ = ["AffineInvariantMean", "StableCore", "choose_core"]

# Eigenvalues of correlations are raised to MIN_EIGENVALUE. By rounding, directions of eigenvalue 0
# then keep a spread of some 1e-9. Records with a spread below FLAT_SPREAD count as in a plane.
MIN_EIGENVALUE, FLAT_SPREAD = 1e-13, 1e-8
# Smaller numbers are set to 0, so that squares of differences of the others do not underflow. An
# underflow for one neighbour alone would decide whether all records are in a plane.
MIN_COORDINATE = 1e-130


class StableCore(NamedTuple):
    """Constants M, K and R that turn the leverages of n records into weights.

    The methods bound the effect of a replaced record on the weighted mean and covariance.

    The level of a record is a number that grows with its leverage. The weight of a record is
    clip((K + R - level)/R, 0, 1). The score of a dataset is a number that bounds its number of
    outliers. M, K and R are the attributes `inverse`, `most` and `ramp`. 1/M is the largest
    leverage at level 0. K is the largest score at which an estimate is released. Weights fall from
    1 to 0 over R levels. Definitions and proofs: docs/theory/affine_invariant.md.
    """

    n: int
    inverse: float  # M
    most: int  # K
    ramp: float  # R

    @property
    def _mass(self) -> float:
        """Bound 1 + K/R on the total weight that records lose if one record is replaced.

        K = `most` is the level up to which records have weight 1. Weights fall from 1 to 0 over the
        next R = `ramp` levels.
        """
        return 1 + self.most / self.ramp

    @property
    def _leverage(self) -> float:
        """Bound 1/(M - 2K - R) on the leverage of a record of positive weight.

        The leverage is with respect to the weighted records. M = `inverse`, K = `most` and
        R = `ramp` are constants, see `StableCore`. The bound is infinite if M - 2K - R <= 0.
        """
        excess = self.inverse - 2 * self.most - self.ramp
        return 1 / excess if excess > 0 else np.inf

    @property
    def loss(self) -> float:
        """Bound t on how much the weighted scatter matrix V shrinks if one record is replaced.

        The scatter matrix of the new dataset is at least (1 - t) V.
        """
        return self._mass * self._leverage

    @property
    def step(self) -> float:
        """Bound on the move of the weighted mean if one record is replaced.

        A move x is measured by |V^(-1/2) x|, where V is the weighted scatter matrix of the records.
        """
        shift = (
            self._mass * np.sqrt(self._leverage - 1 / self.n) / (self.n - self.most - self._mass)
        )
        return float(shift * (1 + 1 / np.sqrt(1 - self.loss)))

    def shape_epsilon(self, delta: float) -> float:
        """Return the epsilon spent because the noise's covariance depends on the data.

        Let V and V' be the weighted scatter matrices of neighbours. Normal distributions with
        covariances c^2 V and c^2 V' and equal means satisfy the inequalities of
        (epsilon, delta_V)-DP for delta_V = `delta` and every c. The result is infinite if there are
        too few records.
        """
        t = self.loss
        if not (t < 1 and self.n > self.most + self._mass):
            return np.inf
        return float((t / (1 - t) * gaussian_norm(1, delta) ** 2 - np.log1p(-t)) / 2)

    def summary(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Compute the weighted mean, scatter matrix, score and mean weight of each dataset.

        The score of a dataset bounds its number of outliers. Above the score K = `most` a dataset
        has too many outliers, and its mean is NaN. The scatter matrix is returned as its lower
        triangular root with a positive diagonal; above the score K, all records have weight 1 in
        this matrix. The shapes are (trials, d), (trials, d, d), (trials,) and (trials,), for
        (trials, n, d) records.
        """
        weights, score = self.weights(x)
        good = score <= self.most
        mean, _, back, _ = _whitened(x, np.where(good[:, None], weights, 1.0))
        upper = np.linalg.qr(back)[1]  # the triangular root is equivariant under triangular maps
        sign = np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None]
        root = upper.transpose(0, 2, 1) * sign
        return np.where(good[:, None], mean, np.nan), root, score, weights.mean(axis=1)

    def weights(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the weights of records, (trials, n), and the scores of datasets, (trials,).

        The score bounds the number of outliers. Scores above K = `most` are set to K + 1.
        """
        level = self._levels(x)
        largest_rank = min(self.most, self.n - 1)
        top_levels = -np.sort(
            -np.partition(level, self.n - 1 - largest_rank, axis=1)[:, -1 - largest_rank :], axis=1
        )
        enough_inside = np.pad(
            top_levels <= np.arange(largest_rank + 1), ((0, 0), (0, 1)), constant_values=True
        )
        weights = np.clip((self.most + self.ramp - level) / self.ramp, 0, 1)
        return weights, np.asarray(enough_inside.argmax(axis=1), dtype=float)

    def _levels(self, x: Floats) -> Floats:
        """Return the levels of records, (trials, n); a larger level means a larger leverage.

        Let M = `inverse`, K = `most` and R = `ramp`. S_l is the largest set of records in which no
        leverage is above 1/(M - l), for l = 0, 1, ... The level of a record is the least l for
        which the record is in S_l. A record of level at most K has weight 1, and a record of level
        K + R or more has weight 0.

        The loop goes down from l = ceil(K + R), which is `index` in the code. It stops when more
        than K records are outside of S_l. The records still inside get level 0. If the score of the
        dataset is at most K, their true levels are at most K, so level 0 gives the correct weight.
        """
        level, held = np.zeros(x.shape[:2]), np.ones(x.shape[:2], dtype=bool)
        index = np.full(len(x), np.ceil(self.most + self.ramp))
        live = np.arange(len(x))
        while live.size:
            leverage, flat = leverages(x[live], held[live])
            out = leverage > 1 / (self.inverse - index[live, None])
            any_out = out.any(axis=1)
            out |= held[live] & (flat & ~any_out)[:, None]  # no set in a plane has leverages
            level[live] += np.where(out, index[live, None] + 1, 0)
            held[live] &= ~out
            # The set stays unchanged for all l with L_l at least its largest leverage: skip them.
            lower = np.ceil(self.inverse - 1 / leverage.max(axis=1))
            index[live] = np.where(any_out, index[live], np.minimum(lower, index[live]) - 1)
            unfinished = ((~held[live]).sum(axis=1) <= self.most) & (index[live] >= 0)
            live = live[unfinished]
        return level


def choose_core(n: int, leverage: float, test: Budget, delta: float) -> tuple[StableCore, float]:
    """Choose the constants by which records are weighted, and a noise bound b for a test.

    The test adds noise to the score of a dataset, which bounds the number of outliers. The noise is
    below -b with probability `delta`. The constants M, K and R are `inverse`, `most` and `ramp` of
    `StableCore`. M is n/leverage, and K is the smallest integer with K >= 2b. R minimises
    (1 + K/R)/sqrt(M - 2K - R), to which a bound on the sensitivity of the mean is proportional. So
    R solves R^2 + 3KR = 2K(M - 2K). R is raised to 1 if the solution is smaller.

    `leverage` >= 1 is n times the largest leverage of a record that is not an outlier. The budget
    `test` is spent on the test alone.
    """
    bound = float(test.noise_tail(np.asarray(delta), 1.0, 1.0))
    most, inverse = int(np.ceil(2 * bound)), n / leverage
    root = max(8 * most * inverse - 7 * most**2, 0.0) ** 0.5
    return StableCore(n, inverse, most, max(1.0, (root - 3 * most) / 2)), bound


def leverages(x: Floats, held: Bools) -> tuple[Floats, Bools]:
    """Return the leverages of the records in a set S, and whether S lies in a plane.

    Each trial has its own set S.

    Let z = (1, x) for a record x. Its leverage is z'A^-1 z, where A is the sum of z z' over S. If S
    lies in a plane, A is singular. Then a lower bound is returned: the largest leverage in a single
    coordinate. Because of rounding, S also counts as lying in a plane if its records are within
    3e-15 times their spread from the plane.

    `held` is True for the records of S, of shape (trials, n). The leverages have the same shape,
    and are 0 outside of S. The second array has shape (trials,).
    """
    _, rows, _, flat = _whitened(x, held)
    square = (rows**2).sum(axis=2)
    if flat.any():
        square[flat] = (_standard(x[flat], held[flat])[1] ** 2).max(axis=2)
    return np.where(held, 1 / held.sum(axis=1)[:, None] + square, 0.0), flat


def _whitened(x: Floats, weights: Floats | Bools) -> tuple[Floats, Floats, Floats, Bools]:
    """Whiten records: transform them linearly, to make their weighted scatter matrix the identity.

    Three passes resolve correlations up to the precision of the records, like a shifted Cholesky
    QR; a single pass loses twice as many digits. For (trials, n, d) records with (trials, n)
    weights, the results are the weighted means, the whitened rows, the inverse transform `back`,
    and whether the records lie in a plane. The records are mean + rows @ back. The shapes are
    (trials, d), (trials, n, d), (trials, d, d) and (trials,).
    """
    mean, rows, back, flat = x[:, 0], x, np.eye(x.shape[2]), np.zeros(len(x), dtype=bool)
    for step in range(3):
        step_mean, rows, spread, correlation = _standard(rows, weights)
        mean = mean if step else step_mean
        flat = ~(spread.min(axis=(1, 2)) > FLAT_SPREAD) if step == 1 else flat
        values, vectors = np.linalg.eigh(correlation)
        root = np.sqrt(np.maximum(values, MIN_EIGENVALUE))[:, None]
        rows = rows @ (vectors / root)
        back = (vectors * root).transpose(0, 2, 1) @ (spread.transpose(0, 2, 1) * back)
    return mean, rows, back, flat


def _standard(x: Floats, weights: Floats | Bools) -> list[Floats]:
    """Return weighted means, standardised records, spreads, and correlations of coordinates.

    The spread of a coordinate is the root of the weighted sum of squared deviations from the mean.
    Standardised records are these deviations divided by the spread; they are 0 for weight 0.
    """
    mean = (weights / weights.sum(axis=1, keepdims=True))[:, None] @ x
    offset = np.where(weights[..., None] > 0, x - mean, 0.0)
    spread = np.sqrt(weights[:, None] @ offset**2)
    offset /= np.where(spread > 0, spread, 1.0)
    correlation = offset.transpose(0, 2, 1) @ (weights[..., None] * offset)
    return [mean[:, 0], offset, spread, correlation]


@validated
class AffineInvariantMean(Estimator):
    """Affine-invariant mean: covariance-shaped noise, no bounds on the data (BHS23, KDH23).

    BHS23 and KDH23, algorithm numbers not checked. No bound on mean or covariance is needed. The
    estimate m is affine-equivariant: if an invertible matrix T and a vector b map each record x to
    T x + b, the estimate becomes T m + b. Records of high leverage are down-weighted. Nothing is
    released (NaN) if too many records stand out, or if n is below `least_records`. Sensitivity,
    method and proof: docs/theory/affine_invariant.md.

    Limit of the guarantee: records are not protected if they are within about 5e-15 times their
    spread from a plane. By rounding, one such record may decide whether all records count as being
    in the plane, and so whether anything is released (see `leverages`).

    Parameters
    ----------
    leverage : float >= 1, optional
        n times the largest leverage of a record that is not an outlier. The leverages of n vectors
        of d coordinates add up to d + 1, so nothing is released for a value below d + 1. Default:
        the value for Gaussian records, 1 plus the chi-square quantile (d degrees of freedom) at
        1 - beta/n.
    beta : float in (0, 1)
        Probability that some Gaussian record has a larger leverage than the default; a large beta
        costs little accuracy.
    share : float in (0, 1)
        Share of epsilon for the test, which checks that few records stand out. The test has a
        quarter of delta, and the covariance of the noise another quarter.
    """

    leverage: Annotated[float, Field(ge=1)] | None = None
    beta: Probability = 0.1
    share: Probability = 0.25
    multivariate: ClassVar[bool] = True
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        plan = self._core(n, d or 1, budget)
        if plan is None:
            return []
        core, bound, _ = plan
        # Records at -1 and 1 have leverages 2/n. Pairs: a record near the largest leverage that
        # level K allows, on either side; a record far outside; and so many distant records that
        # about half of the releases fail the test.
        signs = (-1.0) ** np.arange(n)
        surface = 0.99 * np.sqrt(n / (core.inverse - core.most) - 1)
        across, many = signs.copy(), np.where(np.arange(n) < core.most - bound, 1e6, 1.0) * signs
        across[0] = surface
        pairs = [
            Pair.replacing("across_the_core", across, 0, -surface),
            Pair.replacing("out_of_the_core", across, 0, 1e6),
            Pair.replacing("at_the_threshold", many, n - 1, 1e6),
        ]
        return pairs if d is None else [pair.along(np.eye(d)[0]) for pair in pairs]

    def least_records(self, d: int, budget: Budget) -> int:
        # The least n at which the covariance takes at most half of the epsilon left by the test.
        low, high = 1, 2
        while high < MAX_RECORDS and self._core(high, d, budget) is None:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._core(middle, d, budget) is None else (low, middle)
        return high

    def _core(
        self, n: int, d: int, budget: Budget
    ) -> tuple[StableCore, float, tuple[PureDP, ApproxDP, ApproxDP]] | None:
        """Return the constants of the weights, a noise bound b, and three budgets.

        A test checks, with noise, that few records are outliers. Its noise is below -b with
        probability delta/4. The budgets are for the test, the covariance of the noise, and the
        mean. The result is None if n is too small for a release.
        """
        assert isinstance(budget, ApproxDP)
        epsilon, delta = budget.epsilon, budget.delta
        test = PureDP(self.share * epsilon)
        leverage = self.leverage or 1 + float(chdtri(d, self.beta / n))
        core, bound = choose_core(n, leverage, test, delta / 4)
        shape, rest = core.shape_epsilon(delta / 4), (1 - self.share) * epsilon
        if shape > rest / 2:
            return None
        fine = ApproxDP(rest - shape, np.exp(-shape) * delta / 2, "analytic")
        # (f): the covariance pays delta_V + (e^eps_V - 1) delta_m, because the mean pays delta_m.
        # The test leaves just delta_V + e^eps_V delta_m: a larger delta_m overdraws the ledger.
        paid = delta / 4 + np.expm1(shape) * fine.delta
        return core, bound, (test, ApproxDP(shape, paid), fine)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not isinstance(sample, DenseSample):
            raise ValueError(
                "affine_invariant_mean needs records one by one, not counts; draw them"
            )
        means, plan = sample.mean(), self._core(sample.n, sample.d, ledger.budget)
        if plan is None:
            return Estimate(np.full(means.shape, np.nan), np.full(means.shape, np.nan))
        core, bound, parts = plan
        ledger.allow_failure(ledger.budget.amounts[1] / 4)
        test, shape, last = ledger.split(*parts)
        # Repeated releases on the same data compute the core once.
        values = sample.values[:1] if sample.values.strides[0] == 0 else sample.values
        x = np.clip(values.reshape(*values.shape[:2], sample.d), -MAX_COORDINATE, MAX_COORDINATE)
        x[np.abs(x) < MIN_COORDINATE] = 0.0
        with np.errstate(all="ignore"):
            summary = core.summary(x)
        mean, root, score, share = (np.repeat(a, sample.trials // len(x), 0) for a in summary)
        passed = test.add_noise(score, 1.0) <= core.most - bound
        shape.pay("noise of the covariance of the core")
        before = np.where(passed[:, None], mean, np.nan)
        noise = last.add_noise(np.zeros_like(mean), core.step)
        value = before + (root @ noise[..., None])[..., 0]
        return Estimate(value, before, core=share).reshaped(means.shape)
