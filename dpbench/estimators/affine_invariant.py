r"""A mean whose noise has the shape of the data: the core of records of little leverage.

After BHS23 and KDH23: a covariance that outliers do not move, a test that it is stable, noise of
that covariance. Here one core serves for mean and covariance; constants and proof are ours. With
z = (1, x) the leverage of a record in a set S is z'(A_S)^-1 z, A_S the sum of z z' over S: 1/|S|,
and the squared Mahalanobis distance from the mean of S over |S|. That of T x + b, T invertible, is
the same. For 1/L_l = M - l, l = 0, 1, ..., let S_l be the largest set in which no leverage is above
L_l. There is one: leverages fall as a set grows, so a union of such sets is one, and a record above
L_l in a larger set is in none. S_l grows with l; the level of a record is the least l with the
record in S_l.

(a) Let X and X' differ in record i. S_l(X) without i is in S_(l+1)(X'): without z_i, of leverage
    at most L = L_l, A is at least (1 - L) A, so leverages are at most L/(1 - L) = L_(l+1). So
    levels of shared records move by at most 1, and so does the score u, the least l with at most l
    records outside of S_l.
(b) Weights w = clip((K + R - level)/R, 0, 1) of shared records move by at most 1/R. Let u <= K in
    X and X': in each, at most K records have a level above K, and the others weigh 1. Let B be the
    sum of min(w, w') z z' over the shared records, A = B + D and A' = B + D' the weighted sums of X
    and X'. The weights in D add up to at most s = 1 + K/R: w > w' only where w' < 1. Those of X add
    up to W >= n - K.
(c) A record of weight above 0 has in A at most the leverage lam = 1/(M - 2K - R). With all such
    records it is in one S_l, l < K + R, and A lacks at most the weight K there: A is at least
    (1 - K L_l) A_(S_l), so z'A^-1 z <= L_l/(1 - K L_l) = 1/(M - l - K).
(d) Let m be the weighted mean of X, V the sum of w (x - m)(x - m)', and m_B, V_B those of B. Take
    coordinates in which m = 0 and V = I: |x|^2 <= lam - 1/W in D, where records have weights v.
    The weighted sum of x in B is -b, b = sum v x, |b|^2 <= s sum v |x|^2, and so
        |m - m_B| <= s sqrt(lam - 1/W)/(W - s),
        tr(V - V_B) = sum v |x|^2 + |b|^2/W_B <= s (lam - 1/W) W/(W - s) <= s lam = t < 1.
    So V >= V_B >= (1 - t) V. The same holds for X', so V' >= V_B >= (1 - t) V, and in the norm of
    V' (of V, by symmetry), |V'^(-1/2) x|, m and m' differ by at most
        step = s sqrt(lam - 1/n)/(n - K - s) (1 + 1/sqrt(1 - t)).
(e) N(m, c^2 V) and N(m, c^2 V'): let 1 + a_j be the eigenvalues of V'^(-1/2) V V'^(-1/2), which is
    I + (V - V_B) - (V' - V_B) in the coordinates of V'. The positive a_j add up to at most
    q = t/(1 - t), the others to at least -t. The privacy loss is, of independent normal y_j,
        sum (a_j y_j^2 - ln(1 + a_j))/2 <= (sum over a_j > 0 of a_j y_j^2 - ln(1 - t))/2,
    and above eps_V = (q g^2 - ln(1 - t))/2 with probability at most delta_V, with the g of
    `gaussian_norm` for one coordinate and delta_V (LM00, Lemma 1).
(f) N(m, c^2 V') and N(m', c^2 V') are (eps_m, delta_m)-close with the Gaussian mechanism's c for
    the sensitivity `step`; after (e) it is (eps_V + eps_m, delta_V + e^eps_V delta_m).
(g) u is released with Laplace noise, the rest only if that is at most K - b, where the noise is
    below -b with probability at most delta_1. If u or u' is above K, both are at least K, and
    anything is released with probability at most delta_1. K >= 2b: with u = 0 as rarely nothing is.
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

__all__ = ["AffineInvariantMean", "Core", "cut"]

# Eigenvalues of correlations are taken for this at least; the spread that is left where they are
# 0 is then some 1e-9 by rounding, and with less than FLAT records are in a plane.
FLOOR, FLAT = 1e-13, 1e-8
# Smaller numbers are taken for 0: squares of differences of the others do not vanish. One of 1e-162
# that does, where a neighbour's does not, would decide whether all records are in a plane.
LEAST = 1e-130


class Core(NamedTuple):
    """The constants of the module: M, K and R, with what follows from them for n records."""

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
        """The t of (d)."""
        return self._mass * self._leverage

    @property
    def step(self) -> float:
        """How far a record moves the mean, see (d)."""
        one = self._mass * np.sqrt(self._leverage - 1 / self.n) / (self.n - self.most - self._mass)
        return float(one * (1 + 1 / np.sqrt(1 - self.loss)))

    def shape_epsilon(self, delta: float) -> float:
        """The eps_V of (e); infinite where nothing is proved."""
        t = self.loss
        if not (t < 1 and self.n > self.most + self._mass):
            return np.inf
        return float((t / (1 - t) * gaussian_norm(1, delta) ** 2 - np.log1p(-t)) / 2)

    def summary(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Weighted means, roots of V, scores, and mean weights; means NaN where u is above K."""
        weights, score = self.weights(x)
        good = score <= self.most
        mean, _, back, _ = _whitened(x, np.where(good[:, None], weights, 1.0))
        upper = np.linalg.qr(back)[1]  # the triangular root, which follows triangular maps
        sign = np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None]
        root = upper.transpose(0, 2, 1) * sign
        return np.where(good[:, None], mean, np.nan), root, score, weights.mean(axis=1)

    def weights(self, x: Floats) -> tuple[Floats, Floats]:
        """The records' weights, (trials, n), and the scores u, (trials,), at most K + 1."""
        level = self._levels(x)
        some = min(self.most, self.n - 1)
        largest = -np.sort(-np.partition(level, self.n - 1 - some, axis=1)[:, -1 - some :], axis=1)
        few = np.pad(largest <= np.arange(some + 1), ((0, 0), (0, 1)), constant_values=True)
        weights = np.clip((self.most + self.ramp - level) / self.ramp, 0, 1)
        return weights, np.asarray(few.argmax(axis=1), dtype=float)

    def _levels(self, x: Floats) -> Floats:
        """The records' levels, down to where more than K are out; those beyond K + R are equal."""
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
            # The set stays as it is while its largest leverage is no more than L_l.
            lower = np.ceil(self.inverse - 1 / leverage.max(axis=1))
            at[live] = np.where(some, at[live], np.minimum(lower, at[live]) - 1)
            more = ((~held[live]).sum(axis=1) <= self.most) & (at[live] >= 0)
            live = live[more]
        return level


def cut(n: int, leverage: float, test: Budget, delta: float) -> tuple[Core, float]:
    """The constants for L_0 = leverage/n, and the bound b of (g) on the noise of the test.

    R is where s sqrt(lam) is least: R^2 + 3KR = 2K(M - 2K).
    """
    bound = float(test.noise_tail(np.asarray(delta), 1.0, 1.0))
    most, inverse = int(np.ceil(2 * bound)), n / leverage
    root = max(8 * most * inverse - 7 * most**2, 0.0) ** 0.5
    return Core(n, inverse, most, max(1.0, (root - 3 * most) / 2)), bound


def leverages(x: Floats, held: Bools) -> tuple[Floats, Bools]:
    """Leverages of the records held, else 0, (trials, n), and where the records are in a plane.

    There leverages in single coordinates, which are no more, stand for them. Up to rounding, that
    is: what is within 3e-15 of its spread from a plane cannot be told from it.
    """
    _, rows, _, flat = _whitened(x, held)
    square = (rows**2).sum(axis=2)
    if flat.any():
        square[flat] = (_standard(x[flat], held[flat])[1] ** 2).max(axis=2)
    return np.where(held, 1 / held.sum(axis=1)[:, None] + square, 0.0), flat


def _whitened(x: Floats, weights: Floats | Bools) -> tuple[Floats, Floats, Floats, Bools]:
    """Means; records turned to have I for V; what turns them back; where they are in a plane.

    In three passes, which takes correlations up to the digits that records have (as a Cholesky QR
    with a shift does), where one pass loses twice as many.
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
    """Means; records less these over their spread, 0 if of no weight; spread; correlations."""
    mean = (weights / weights.sum(axis=1, keepdims=True))[:, None] @ x
    offset = np.where(weights[..., None] > 0, x - mean, 0.0)
    spread = np.sqrt(weights[:, None] @ offset**2)
    offset /= np.where(spread > 0, spread, 1.0)
    correlation = offset.transpose(0, 2, 1) @ (weights[..., None] * offset)
    return [mean[:, 0], offset, spread, correlation]


@validated
class AffineInvariantMean(Estimator):
    """The mean of records of little leverage, with noise of the shape of their covariance.

    No bound on mean or covariance is needed: T x + b in place of the records x, T invertible, has
    T m + b for an estimate m. The module has algorithm and proof. Nothing is released (NaN) where
    too many records stand out, and for fewer than `least_records`, whatever the records. Not
    protected are records within about 5e-15 of their spread from a plane: by rounding one of them
    may decide whether all are in it, and so whether anything is released (see `leverages`).

    Parameters
    ----------
    leverage : float >= 1, optional
        n times the largest leverage of a good record; as all add up to d + 1, nothing is ever
        released with less than that. By default that of Gaussian records: 1 and
        the quantile of chi-square at 1 - beta/n.
    beta : float in (0, 1)
        Probability that a Gaussian record has more, which costs little.
    share : float in (0, 1)
        Of epsilon, for the test. Of delta a quarter is for the test, another for the covariance.
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
        # Records at -1 and 1 have leverages 2/n; as far out as one may be, at (M - K)/n; and so
        # many far ones that something is released about as often as nothing.
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
        """The fewest records for which at most half of the mean's epsilon is for the covariance."""
        low, high = 1, 2
        while high < MOST_RECORDS and self._core(high, d, budget) is None:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._core(middle, d, budget) is None else (low, middle)
        return high

    def _core(
        self, n: int, d: int, budget: Budget
    ) -> tuple[Core, float, tuple[PureDP, ApproxDP, ApproxDP]] | None:
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
            raise ValueError("leverages need the records one by one")
        means, found = sample.mean(), self._core(sample.n, sample.d, ledger.budget)
        if found is None:
            return Estimate(np.full(means.shape, np.nan), np.full(means.shape, np.nan))
        core, bound, parts = found
        ledger.allow_failure(ledger.budget.amounts[1] / 4)
        test, shape, last = ledger.split(*parts)
        # Repeated releases on the same data know it once.
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
