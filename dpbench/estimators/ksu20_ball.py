"""Heavy tails in many dimensions: find each coordinate, discard what is far, average.

KSU20, Algorithm 3, Theorems 4.6 and 4.7. The class is E|<v, X - mu>|^k <= 1 for every unit vector
v. Then E||X - mu||^k <= d^(k/2), so that for a ball of radius sqrt(d) T around mu, by Hölder's
inequality,

- rows outside, if put at mu, bias the mean by at most P(outside)^((k-1)/k) <= T^-(k-1) in any
  direction, and if discarded by that over P(inside);
- if projected, by at most sup_x ((1 - T/x)_+ (T/x)^(k-1)) T^-(k-1): `worst_clipping_bias` at T.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.special import chdtri

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, NeedsRadius
from dpbench.estimators.coinpress import under_zcdp
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.estimators.ksu20 import LARGEST_ALPHA, Alpha, Constants, KSU20Mean
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, Probability, validated
from dpbench.samples import Sample

__all__ = ["KSU20BallMean"]

PAPER_RADIUS = 4.0  # of the ball, in units of sqrt(d) alpha^(-1/(k-1))


@validated
class KSU20BallMean(NeedsRadius):
    """A centre coordinate by coordinate, then the mean of the rows near it: KSU20, Algorithm 3.

    Halves of the records are disjoint, so each pays the whole budget. One half gives a centre c:
    `KSU20Mean` on every coordinate with 1/d of the budget, alpha = 1 and beta = 0.1/d. Of the
    other half, of n records, those outside the ball B(c, r) are discarded and the rest, with c
    taken away, averaged: their sum over l = max(their number, 3n/4).

    Replacing a record that is inside by another moves that mean by at most 2r/l <= 8r/(3n);
    if one of the two is outside and l changes, the sum S of norm at most (l-1) r that stays
    and the row y give |(S + y)/l - S/l'| <= |y|/l + |S| (1/l' - 1/l) <= 2r/l, the same, where
    l' >= l - 1 is l - 1 or 3n/4; if l stays 3n/4, by r/l. With noise of that sensitivity it
    is released and c added.

    Under (epsilon, delta) with a finite R all runs `under_zcdp`; with R infinite each coordinate
    has epsilon/d, delta/d. For d <= 44 the authors would rather run `KSU20Mean` on each coordinate
    (Remark 4.1).

    Parameters
    ----------
    k : float >= 2
        Order of the moment that is at most 1 in every direction.
    outside : {'discard', 'project'}
        ``project``: to the ball's surface instead; l = n, and the sensitivity is 2r/n.
    constants : {'paper', 'practical'}
        ``paper``: r = 4 sqrt(d)/alpha^(1/(k-1)), and the paper's constants for the centre.
        ``practical``: r = sqrt(d) (1 + T), where each coordinate of the centre may be off by 1.
    alpha : float in (0, 1], optional
        The error sought; in ``practical`` the module's bound on the bias at T is alpha. It is for
        a ball around mu: projecting on one whose centre is off by sqrt(d) may add as much as
        sqrt(d) E(1 - r/|X - c|)_+, of order sqrt(d) T^-k. By default, in ``practical``, T
        minimises the bias bound plus the 1 - beta quantile of the noise's norm; in ``paper``
        Theorem 4.6 asks n = 16 d sd sqrt(2/3)/alpha^(k/(k-1)) for alpha, where sd = 1/sqrt(2 rho)
        is the noise's standard deviation at sensitivity 1.
    beta : float in (0, 1)
        Failure probability that T is tuned for.
    """

    k: MomentOrder
    outside: Literal["discard", "project"] = "discard"
    constants: Constants = "practical"
    alpha: Alpha | None = None
    beta: Probability = 0.1
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, ApproxDP)
    multivariate: ClassVar[bool] = True

    @property
    def _step(self) -> float:
        """The sensitivity in units of r/n."""
        return 8 / 3 if self.outside == "discard" else 2.0

    def ball_radius(self, n: int, d: int, budget: Budget) -> float:
        """The radius r for n records in the second half."""
        root = float(np.sqrt(d))
        sd = budget.noise_quantile(self.beta) / float(np.sqrt(chdtri(1, self.beta)))
        if self.constants == "paper":
            needed = 16 * d * sd * np.sqrt(2 / 3) / n
            asked = min(LARGEST_ALPHA["paper"], needed ** ((self.k - 1) / self.k))
            return float(PAPER_RADIUS * root * (self.alpha or asked) ** (-1 / (self.k - 1)))
        bias = 1.0 if self.outside == "discard" else worst_clipping_bias(1.0, self.k)  # at T = 1
        if self.alpha is not None:
            return float(root * (1 + (bias / self.alpha) ** (1 / (self.k - 1))))
        noise = self._step * root * (sd * float(np.sqrt(chdtri(d, self.beta)))) / n  # at T = 1
        return root * (1 + float(((self.k - 1) * bias / noise) ** (1 / self.k)))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if sample.mean().ndim == 1:
            raise ValueError("KSU20BallMean takes vectors; for numbers there is KSU20Mean")
        if sample.n < 2:
            raise ValueError("one record makes no two halves")
        if self.radius is not None:
            ledger = under_zcdp(ledger)
        half = sample.n // 2
        first, second = sample.split([sample.n - half, half], ledger.rng)
        coarse, fine = ledger.parallel(2)
        centre = self._centre(first, coarse)
        r = self.ball_radius(half, sample.d, fine.budget)
        rows = second.rows()
        if self.outside == "project":
            mean = rows.projected(centre, r).mean()
        else:
            total, count = rows.within(centre, r)
            mean = centre + total / np.maximum(count, 0.75 * half)[:, None]
        return Estimate(fine.add_noise(mean, self._step * r / half), mean)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            return []
        if isinstance(budget, ApproxDP) and self.radius is not None:
            budget = ZCDP.within(budget)
        half = n // 2
        r, axis = self.ball_radius(half, d, budget), np.eye(d)[0]
        # Of the half that is averaged three quarters are inside, on one side, and one joins them.
        inside = np.arange(n) - (n - half) < 0.75 * half
        rows = np.where(inside & (np.arange(n) >= n - half), -0.9 * r, 0.0)[:, None] * axis
        rows[~inside] = 2 * r * axis
        return [
            Pair.replacing("across_the_surface", np.zeros((n, d)), n - 1, 1.1 * r * axis),
            Pair.replacing("into_the_ball", rows, n - 1, 0.9 * r * axis),
        ]

    def _centre(self, sample: Sample, ledger: Ledger) -> Floats:
        beta, constants = 0.1 / sample.d, self.constants
        one = KSU20Mean(k=self.k, radius=self.radius, alpha=1.0, beta=beta, constants=constants)
        found = one.run(sample.columns(), ledger.repeated(sample.d))
        centre = found.value.reshape(sample.trials, sample.d)
        # Where one coordinate is not released, nothing is.
        return np.where(np.isnan(centre).any(axis=1, keepdims=True), np.nan, centre)
