"""Affine-invariant mean: noise with the shape of the covariance of records of little leverage.

After BHS23 and KDH23: a covariance that outliers do not move, a test that it is stable, noise of
that covariance. Here one core serves for mean and covariance; constants and proof are ours.

Let z = (1, x) for a record x. Its leverage in a set S is z'(A_S)^-1 z, A_S the sum of z z' over S.
Let 1/L_l = M - l for l = 0, 1, ..., and S_l the largest set in which no leverage is above L_l. The
level of a record is the least l with the record in S_l; the score u is the least l with at most l
records outside of S_l. The weight of a record is w = clip((K + R - level)/R, 0, 1).

(a) One replaced record moves levels of the others, and u, by at most 1.
(b) If u <= K for both neighbours, their weights differ by at most s = 1 + K/R to either side.
(c) A record of positive weight has at most the leverage lam = 1/(M - 2K - R) in the weighted sum.
(d) Let m and V be the weighted mean and scatter matrix, and t = s lam < 1. Then V' >= (1 - t) V for
    neighbours, and in the norm |V^(-1/2) x| the means m, m' differ by at most
        step = s sqrt(lam - 1/n)/(n - K - s) (1 + 1/sqrt(1 - t)).
(e) N(m, c^2 V) and N(m, c^2 V') are (eps_V, delta_V)-close, eps_V = (q g^2 - ln(1 - t))/2, with
    q = t/(1 - t) and g from `gaussian_norm` for one coordinate and delta_V.
(f) N(m, c^2 V') and N(m', c^2 V') are (eps_m, delta_m)-close, by the Gaussian mechanism for the
    sensitivity `step`; after (e) the release is (eps_V + eps_m, delta_V + e^eps_V delta_m)-close.
(g) Test: u is released with Laplace noise, and the estimate only if that is at most K - b, where
    the noise is below -b with probability at most delta_1. K >= 2b.

Proof: docs/theory/affine_invariant.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import chdtri

from dpbench.arrays import Bools, Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import WIDEST, gaussian_norm
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MOST_RECORDS, Probability, validated
from dpbench.samples import DenseSample, Sample

__all__ = ["AffineInvariantMean", "StableCore", "cut"]

# Eigenvalues of correlations are raised to FLOOR. Directions of eigenvalue 0 then keep a spread of
# some 1e-9 by rounding. With a spread below FLAT, records count as being in a plane.
FLOOR, FLAT = 1e-13, 1e-8
# Smaller numbers are set to 0, so that squares of differences of the others do not underflow. An
# underflow for one neighbour alone would decide whether all records are in a plane.
LEAST = 1e-130


class StableCore(NamedTuple):
    """Constants M, K and R of the core for n records, and the bounds that follow from them."""

    n: int
    inverse: float  # M
    most: int  # K
    ramp: float  # R

    @property
    def _mass(self) -> float:
        return 1 + self.most / self.ramp

    @property
    def _leverage(self) -> float:
        left = self.inverse - 2 * self.most - self.ramp
        return 1 / left if left > 0 else np.inf

    @property
    def loss(self) -> float:
        """The bound t = s lam of (d) on the relative change of V."""
        return self._mass * self._leverage

    @property
    def step(self) -> float:
        """Sensitivity of the mean in the norm of V, see (d)."""
        one = self._mass * np.sqrt(self._leverage - 1 / self.n) / (self.n - self.most - self._mass)
        return float(one * (1 + 1 / np.sqrt(1 - self.loss)))

    def shape_epsilon(self, delta: float) -> float:
        """Return eps_V of (e) at delta_V = `delta`; infinite if the proof does not apply."""
        t = self.loss
        if not (t < 1 and self.n > self.most + self._mass):
            return np.inf
        return float((t / (1 - t) * gaussian_norm(1, delta) ** 2 - np.log1p(-t)) / 2)

    def summary(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return weighted means, roots of V, scores u, and mean weights.

        Parameters
        ----------
        x : (trials, n, d) array
            Records.

        Returns
        -------
        mean : (trials, d) array
            NaN where u > K.
        root : (trials, d, d) array
            Triangular root of V.
        score, share : (trials,) array
            u, and the mean weight of the records.
        """
        weights, score = self.weights(x)
        good = score <= self.most
        mean, _, back, _ = _whitened(x, np.where(good[:, None], weights, 1.0))
        upper = np.linalg.qr(back)[1]  # the triangular root is equivariant under triangular maps
        sign = np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None]
        root = upper.transpose(0, 2, 1) * sign
        return np.where(good[:, None], mean, np.nan), root, score, weights.mean(axis=1)

    def weights(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the records' weights, (trials, n), and the scores u, (trials,), at most K + 1."""
        level = self._levels(x)
        some = min(self.most, self.n - 1)
        largest = -np.sort(-np.partition(level, self.n - 1 - some, axis=1)[:, -1 - some :], axis=1)
        few = np.pad(largest <= np.arange(some + 1), ((0, 0), (0, 1)), constant_values=True)
        weights = np.clip((self.most + self.ramp - level) / self.ramp, 0, 1)
        return weights, np.asarray(few.argmax(axis=1), dtype=float)

    def _levels(self, x: Floats) -> Floats:
        """Return the records' levels, computed until more than K records are out of S_l.

        Levels beyond K + R are all equal, as their weight is 0.
        """
        level, held = np.zeros(x.shape[:2]), np.ones(x.shape[:2], dtype=bool)
        at = np.full(len(x), np.ceil(self.most + self.ramp))
        live = np.arange(len(x))
        while live.size:
            leverage, flat = leverages(x[live], held[live])
            out = leverage > 1 / (self.inverse - at[live, None])
            some = out.any(axis=1)
            out |= held[live] & (flat & ~some)[:, None]  # no set in a plane has leverages
            level[live] += np.where(out, at[live, None] + 1, 0)
            held[live] &= ~out
            # The set stays unchanged for all l with L_l at least its largest leverage: skip them.
            lower = np.ceil(self.inverse - 1 / leverage.max(axis=1))
            at[live] = np.where(some, at[live], np.minimum(lower, at[live]) - 1)
            more = ((~held[live]).sum(axis=1) <= self.most) & (at[live] >= 0)
            live = live[more]
        return level


def cut(n: int, leverage: float, test: Budget, delta: float) -> tuple[StableCore, float]:
    """Return the constants for L_0 = leverage/n, and the bound b of (g) on the noise of the test.

    R minimises s sqrt(lam): it solves R^2 + 3KR = 2K(M - 2K), and is at least 1.

    Parameters
    ----------
    n : int
        Number of records.
    leverage : float >= 1
        n times the largest leverage L_0 of a good record.
    test : Budget
        Budget of the test.
    delta : float in (0, 1)
        Probability delta_1 that the noise of the test is below -b.

    Returns
    -------
    core : Core
    bound : float
        b.
    """
    bound = float(test.noise_tail(np.asarray(delta), 1.0, 1.0))
    most, inverse = int(np.ceil(2 * bound)), n / leverage
    root = max(8 * most * inverse - 7 * most**2, 0.0) ** 0.5
    return StableCore(n, inverse, most, max(1.0, (root - 3 * most) / 2)), bound


def leverages(x: Floats, held: Bools) -> tuple[Floats, Bools]:
    """Return the leverages of the records held, and which trials have all of these in a plane.

    In a plane A_S is singular; the largest leverage in a single coordinate, which is a lower bound,
    is returned instead. Records within 3e-15 of their spread from a plane count as in it, because
    of rounding.

    Parameters
    ----------
    x : (trials, n, d) array
        Records.
    held : (trials, n) array of bool
        The set S of each trial.

    Returns
    -------
    leverage : (trials, n) array
        0 for records outside of S.
    flat : (trials,) array of bool
        True where the records of S are in a plane.
    """
    _, rows, _, flat = _whitened(x, held)
    square = (rows**2).sum(axis=2)
    if flat.any():
        square[flat] = (_standard(x[flat], held[flat])[1] ** 2).max(axis=2)
    return np.where(held, 1 / held.sum(axis=1)[:, None] + square, 0.0), flat


def _whitened(x: Floats, weights: Floats | Bools) -> tuple[Floats, Floats, Floats, Bools]:
    """Return means, records whitened to V = I, the inverse transform, and which trials are flat.

    Three passes resolve correlations up to the precision of the records, like a shifted Cholesky
    QR; a single pass loses twice as many digits.
    """
    mean, rows, back, flat = x[:, 0], x, np.eye(x.shape[2]), np.zeros(len(x), dtype=bool)
    for step in range(3):
        at, rows, spread, correlation = _standard(rows, weights)
        mean = mean if step else at
        flat = ~(spread.min(axis=(1, 2)) > FLAT) if step == 1 else flat
        values, vectors = np.linalg.eigh(correlation)
        root = np.sqrt(np.maximum(values, FLOOR))[:, None]
        rows = rows @ (vectors / root)
        back = (vectors * root).transpose(0, 2, 1) @ (spread.transpose(0, 2, 1) * back)
    return mean, rows, back, flat


def _standard(x: Floats, weights: Floats | Bools) -> list[Floats]:
    """Return means, standardised records (0 for weight 0), spreads, and correlations."""
    mean = (weights / weights.sum(axis=1, keepdims=True))[:, None] @ x
    offset = np.where(weights[..., None] > 0, x - mean, 0.0)
    spread = np.sqrt(weights[:, None] @ offset**2)
    offset /= np.where(spread > 0, spread, 1.0)
    correlation = offset.transpose(0, 2, 1) @ (weights[..., None] * offset)
    return [mean[:, 0], offset, spread, correlation]


@validated
class AffineInvariantMean(Estimator):
    """Affine-invariant mean: covariance-shaped noise, no bounds on the data (BHS23, KDH23).

    No bound on mean or covariance is needed. The estimate is affine-equivariant: if T x + b
    replaces the records x, T invertible, T m + b replaces the estimate m. Records of high leverage
    are down-weighted. Nothing is released (NaN) if too many records stand out, and for n below
    `least_records` whatever the records. Method and proof: docs/theory/affine_invariant.md.

    Limit of the guarantee: records within about 5e-15 of their spread from a plane are not
    protected. By rounding, one of them may decide whether all records count as being in the plane,
    and so whether anything is released (see `leverages`).

    Parameters
    ----------
    leverage : float >= 1, optional
        n times the largest leverage of a good record. Leverages add up to d + 1, so with less than
        d + 1 nothing is ever released. Default: the value for Gaussian records, 1 plus the
        chi-square quantile (d degrees of freedom) at 1 - beta/n.
    beta : float in (0, 1)
        Probability that some Gaussian record has a larger leverage, which costs little.
    share : float in (0, 1)
        Share of epsilon for the test of stability. The test also has a quarter of delta, and so
        has the covariance.
    """

    leverage: Annotated[float, Field(ge=1)] | None = None
    beta: Probability = 0.1
    share: Probability = 0.25
    multivariate: ClassVar[bool] = True
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        found = self._core(n, d or 1, budget)
        if found is None:
            return []
        core, bound, _ = found
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
        while high < MOST_RECORDS and self._core(high, d, budget) is None:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._core(middle, d, budget) is None else (low, middle)
        return high

    def _core(
        self, n: int, d: int, budget: Budget
    ) -> tuple[StableCore, float, tuple[PureDP, ApproxDP, ApproxDP]] | None:
        """Return the constants, and the budgets of the steps; None if n is too small."""
        assert isinstance(budget, ApproxDP)
        epsilon, delta = budget.epsilon, budget.delta
        test = PureDP(self.share * epsilon)
        leverage = self.leverage or 1 + float(chdtri(d, self.beta / n))
        core, bound = cut(n, leverage, test, delta / 4)
        shape, left = core.shape_epsilon(delta / 4), (1 - self.share) * epsilon
        if shape > left / 2:
            return None
        fine = ApproxDP(left - shape, np.exp(-shape) * delta / 2, "analytic")
        # (f): the covariance pays delta_V + (e^eps_V - 1) delta_m, because the mean pays delta_m.
        # The test leaves just delta_V + e^eps_V delta_m: a larger delta_m overdraws the ledger.
        paid = delta / 4 + np.expm1(shape) * fine.delta
        return core, bound, (test, ApproxDP(shape, paid), fine)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not isinstance(sample, DenseSample):
            raise ValueError(
                "affine_invariant_mean needs records one by one, not counts; draw them"
            )
        means, found = sample.mean(), self._core(sample.n, sample.d, ledger.budget)
        if found is None:
            return Estimate(np.full(means.shape, np.nan), np.full(means.shape, np.nan))
        core, bound, parts = found
        ledger.allow_failure(ledger.budget.amounts[1] / 4)
        test, shape, last = ledger.split(*parts)
        # Repeated releases on the same data compute the core once.
        once = sample.values[:1] if sample.values.strides[0] == 0 else sample.values
        x = np.clip(once.reshape(*once.shape[:2], sample.d), -WIDEST, WIDEST)
        x[np.abs(x) < LEAST] = 0.0
        with np.errstate(all="ignore"):
            found_once = core.summary(x)
        mean, root, score, share = (np.repeat(a, sample.trials // len(x), 0) for a in found_once)
        kept = test.add_noise(score, 1.0) <= core.most - bound
        shape.pay("noise of the covariance of the core")
        before = np.where(kept[:, None], mean, np.nan)
        noise = last.add_noise(np.zeros_like(mean), core.step)
        value = before + (root @ noise[..., None])[..., 0]
        return Estimate(value, before, core=share).reshaped(means.shape)
