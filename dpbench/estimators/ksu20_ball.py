"""Heavy-tailed vectors with an unknown location: find a ball, and average within.

KSU20, Algorithm 3, Theorems 4.6 and 4.7, for E|<v, X - mu>|^k <= 1 for every unit vector v. Then
E||X - mu||^k <= d^(k/2), so that for a ball of radius sqrt(d) T around mu, by Hölder's inequality,

- rows outside, if put at mu, bias the mean by at most P(outside)^((k-1)/k) <= T^-(k-1) in any
  direction, and if discarded by that over P(inside);
- if projected, by at most sup_x ((1 - T/x)_+ (T/x)^(k-1)) T^-(k-1): `worst_clipping_bias` at T.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from scipy.special import chdtri, gammainccinv

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, NeedsRadius
from dpbench.estimators.coinpress import under_zcdp
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.estimators.ksu20 import LARGEST_ALPHA, Alpha, Constants, KSU20Mean
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, Probability, validated
from dpbench.samples import Sample

__all__ = ["KSU20BallMean"]

PAPER_RADIUS = 4.0  # of the ball, in units of sqrt(d) alpha^(-1/(k-1))


def _gaussian(budget: Budget) -> Budget:
    """What pays for Gaussian noise on vectors under (epsilon, delta), too."""
    if isinstance(budget, ApproxDP) and budget.noise_by == "best":
        return replace(budget, noise_by="analytic")
    return budget


@validated
class KSU20BallMean(NeedsRadius):
    """A centre coordinate by coordinate, then the mean of the rows near it: KSU20, Algorithm 3.

    Two parts of the records are disjoint, so each pays the whole budget. One gives a centre c:
    `KSU20Mean` on every coordinate with 1/d of the budget, alpha = 1 and beta = 0.1/d. Of the
    other, of n records, those outside the ball B(c, r) are discarded and the rest, with c
    taken away, averaged: their sum over l = max(their number, 3n/4).

    Replacing a record that is inside by another moves that mean by at most 2r/l <= 8r/(3n);
    if one of the two is outside and l changes, the sum S of norm at most (l-1) r that stays
    and the row y give |(S + y)/l - S/l'| <= |y|/l + |S| (1/l' - 1/l) <= 2r/l, the same, where
    l' >= l - 1 is l - 1 or 3n/4; if l stays 3n/4, by r/l. With noise of that sensitivity it
    is released and c added: Gaussian, or under pure DP of density exp(-epsilon ||z||/sensitivity),
    the norm of which is Gamma(d): n ~ d^(3/2)/(epsilon alpha^(k/(k-1))).

    Under (epsilon, delta) with a finite R all runs `under_zcdp`; with R infinite each coordinate
    has epsilon/d, delta/d. For d <= 44 the authors would rather run `KSU20Mean` on each coordinate
    (Remark 4.1).

    Parameters
    ----------
    k : float >= 2
        Order of the moment that is at most 1 in every direction.
    outside : {'discard', 'project'}
        ``project``: to the ball's surface instead; l = n, and the sensitivity is 2r/n.
    constants : {'paper', 'practical', 'tuned'}
        ``paper``, not for pure DP: r = 4 sqrt(d)/alpha^(1/(k-1)), and the paper's constants for the
        centre. ``practical``: r = sqrt(d) (1 + T), where each coordinate of the centre may be off
        by 1. The parts are halves. ``tuned``: r as well, `KSU20Mean`'s tuned constants for the
        centre, and for it a fiftieth of the records, or twice what a histogram asks, up to half;
        where R <= 1 the centre is 0, no further off, and all the records are averaged.
    alpha : float in (0, 1], optional
        The error sought; in ``practical`` the module's bound on the bias at T is alpha. It is for
        a ball around mu: projecting on one whose centre is off by sqrt(d) may add as much as
        sqrt(d) E(1 - r/|X - c|)_+, of order sqrt(d) T^-k. By default, in ``practical``, T
        minimises the bias bound plus the 1 - beta quantile of the noise's norm, in ``tuned`` the
        root of the sum of their squares, bias and noise being orthogonal but for 1/sqrt(d), where
        sqrt(d) T is the radius; in ``paper`` Theorem 4.6 asks
        n = 16 d sd sqrt(2/3)/alpha^(k/(k-1)) for alpha, where sd = 1/sqrt(2 rho) is the noise's
        standard deviation at sensitivity 1.
    beta : float in (0, 1)
        Failure probability that T is tuned for.
    """

    k: MomentOrder
    outside: Literal["discard", "project"] = "discard"
    constants: Constants | Literal["tuned"] = "practical"
    alpha: Alpha | None = None
    beta: Probability = 0.1
    multivariate: ClassVar[bool] = True

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        paper = self.constants == "paper"
        return tuple(one for one in super().honoured if not (paper and one is PureDP))

    @property
    def _centred(self) -> bool:
        """Whether 0 is as near to the mean as r allows for."""
        return self.constants == "tuned" and self.radius is not None and self.radius <= 1

    @property
    def _step(self) -> float:
        """The sensitivity in units of r/n."""
        return 8 / 3 if self.outside == "discard" else 2.0

    def averaged(self, n: int, d: int, budget: Budget) -> int:
        """How many of n records are averaged; the others find the centre."""
        if self._centred:
            return n
        if self.constants != "tuned":
            return n // 2
        needed = 2 * self._coordinate(d).histogram_needs(1.0, n, budget.fraction(1 / d))
        return n - int(np.ceil(max(min(needed, n / 2), n / 50)))

    def ball_radius(self, n: int, d: int, budget: Budget) -> float:
        """The radius r for n records that are averaged."""
        root = float(np.sqrt(d))
        sd = _gaussian(budget).noise_quantile(self.beta) / float(np.sqrt(chdtri(1, self.beta)))
        if self.constants == "paper":
            needed = 16 * d * sd * np.sqrt(2 / 3) / n
            asked = min(LARGEST_ALPHA["paper"], needed ** ((self.k - 1) / self.k))
            return float(PAPER_RADIUS * root * (self.alpha or asked) ** (-1 / (self.k - 1)))
        bias = 1.0 if self.outside == "discard" else worst_clipping_bias(1.0, self.k)  # at T = 1
        if self.alpha is not None:
            return float(root * (1 + (bias / self.alpha) ** (1 / (self.k - 1))))
        if isinstance(budget, PureDP):
            quantile = float(gammainccinv(d, self.beta)) / budget.epsilon
        else:
            quantile = sd * float(np.sqrt(chdtri(d, self.beta)))
        noise = self._step * root * quantile / n  # at T = 1
        slope = self.k - 1 if self.constants == "practical" else float(np.sqrt(self.k - 1))
        return root * (1 + float((slope * bias / noise) ** (1 / self.k)))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not sample.vectors:
            raise ValueError("KSU20BallMean takes vectors; for numbers there is KSU20Mean")
        if sample.n < 2:
            raise ValueError("one record makes no two halves")
        if self.radius is not None:
            ledger = under_zcdp(ledger)
        rest = self.averaged(sample.n, sample.d, ledger.budget)
        if self._centred:
            second, fine, centre = sample, ledger, np.zeros((sample.trials, sample.d))
        else:
            first, second = sample.split([sample.n - rest, rest], ledger.rng)
            coarse, fine = ledger.parallel(2)
            if isinstance(fine.budget, ApproxDP):
                (fine,) = fine.split(_gaussian(fine.budget))
            centre = self._centre(first, coarse)
        r = self.ball_radius(rest, sample.d, fine.budget)
        rows = second.rows()
        if self.outside == "project":
            mean = rows.projected(centre, r).mean()
        else:
            total, count = rows.within(centre, r)
            mean = centre + total / np.maximum(count, 0.75 * rest)[:, None]
        release = fine.add_l2_noise if isinstance(fine.budget, PureDP) else fine.add_noise
        return Estimate(release(mean, self._step * r / rest), mean)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            return []
        if isinstance(budget, ApproxDP) and self.radius is not None:
            budget = ZCDP.within(budget)
        rest = self.averaged(n, d, budget)
        r, axis = self.ball_radius(rest, d, budget), np.eye(d)[0]
        # Of those that are averaged three quarters are inside, on one side, and one joins them.
        inside = np.arange(n) - (n - rest) < 0.75 * rest
        rows = np.where(inside & (np.arange(n) >= n - rest), -0.9 * r, 0.0)[:, None] * axis
        rows[~inside] = 2 * r * axis
        return [
            Pair.replacing("across_the_surface", np.zeros((n, d)), n - 1, 1.1 * r * axis),
            Pair.replacing("into_the_ball", rows, n - 1, 0.9 * r * axis),
        ]

    def _coordinate(self, d: int) -> KSU20Mean:
        constants, alpha = self.constants, None if self.constants == "tuned" else 1.0
        return KSU20Mean(
            k=self.k, radius=self.radius, alpha=alpha, beta=0.1 / d, constants=constants
        )

    def _centre(self, sample: Sample, ledger: Ledger) -> Floats:
        found = self._coordinate(sample.d).run(sample.columns(), ledger.repeated(sample.d))
        centre = found.value.reshape(sample.trials, sample.d)
        # Where one coordinate is not released, nothing is.
        return np.where(np.isnan(centre).any(axis=1, keepdims=True), np.nan, centre)
