"""Heavy-tailed vectors with unknown location: private centre, then a mean in a ball around it.

Source: KSU20, Algorithm 3, Theorems 4.6 and 4.7. Records X of R^d have mean mu and satisfy
E|<v, X - mu>|^k <= scale^k for every unit vector v. Lengths are in units of scale here, except for
the bound R on the mean. Then E||X - mu||^k <= d^(k/2). Let T > 0, and
consider the ball of radius sqrt(d) T around mu. Rows are records. By Hölder's inequality the bias
of the mean in any direction is

- at most P(outside)^((k-1)/k) <= T^-(k-1) if rows outside are replaced by mu, and at most
  T^-(k-1)/P(inside) if rows outside are discarded;
- at most sup_x ((1 - T/x)_+ (T/x)^(k-1)) T^-(k-1), `worst_clipping_bias` at T, if rows outside
  are projected to the surface.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from scipy.special import chdtri, gammainccinv

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MeanWithin, MomentSpread
from dpbench.estimators.base import Estimate, NeedsRadius
from dpbench.estimators.coinpress import to_gdp
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.estimators.ksu20 import LARGEST_ALPHA, Alpha, Constants, KSU20Mean
from dpbench.privacy import GDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, MomentScale, Probability, validated
from dpbench.samples import Sample

__all__ = ["KSU20BallMean"]

PAPER_RADIUS = 4.0  # radius of the ball in units of sqrt(d) alpha^(-1/(k-1))


def _with_gaussian_noise(budget: Budget) -> Budget:
    """Return the budget, with Gaussian noise in place of the best noise under (epsilon, delta).

    Other budgets are returned unchanged.
    """
    if isinstance(budget, ApproxDP) and budget.noise_by in ("best", "tulap"):
        return replace(budget, noise_by="analytic")
    return budget


@validated
class KSU20BallMean(NeedsRadius):
    """KSU20 mean of heavy-tailed vectors, truncated to a private ball (Algorithm 3).

    1. One part of the records gives the centre c: `KSU20Mean` on each of the d coordinates with 1/d
       of the budget, alpha = 1 and beta = 0.1/d.
    2. The other part, n records x, is truncated to the ball of radius r: rows y = x - c with
       ||y|| > r are discarded. The sum of the rows inside is divided by l, the larger of their
       number and 3n/4. The release is this mean plus noise plus c.

    The two parts are disjoint, so each has the whole budget. If a coordinate of the centre declares
    failure, nothing is released (NaN). `KSU20Mean` does so by public numbers alone. Otherwise all
    bins are near the mean except with probability 0.1.

    Sensitivity, if rows are discarded. If a replaced record is inside the ball before and after,
    the mean moves by at most 2r/l <= 8r/(3n). Otherwise one row y joins or leaves the ball. Let S
    be the sum of the other rows inside, l the divisor with y, and l' the divisor without y. If
    l = l' = 3n/4, the mean moves by at most r/l. Otherwise l counts the rows inside, so ||S|| is at
    most (l - 1) r. As l' is at least l - 1,

        ||(S + y)/l - S/l'|| <= ||y||/l + ||S|| (1/l' - 1/l) <= 2r/l.

    The noise, for sensitivity 8r/(3n), is Gaussian except under pure DP. There its density at z is
    proportional to exp(-epsilon ||z||/sensitivity), and its norm is in proportion to a Gamma(d)
    variable. An error alpha then needs n of the order of d^(3/2)/(epsilon alpha^(k/(k-1))).

    Let R be the public bound on the coordinates of the mean. Under (epsilon, delta) with a finite
    R, all steps run under GDP, see `to_gdp`. Without R each coordinate of the centre has
    (epsilon/d, delta/d). For d <= 44 the authors prefer `KSU20Mean` on each coordinate (Remark
    4.1).

    The radius, in units of `scale`. In ``practical`` and ``tuned``, r = sqrt(d) (1 + T), because
    every coordinate of the centre may be off by 1. Here T sqrt(d) is the radius that a ball around
    the mean mu would have. The bound on the bias at T, stated at the top of
    `dpbench.estimators.ksu20_ball`, holds for a ball around mu. If the centre is off by sqrt(d),
    projection may add a bias of sqrt(d) E(1 - r/||X - c||)_+, of the order of sqrt(d) T^-k. Let q
    be the 1 - beta quantile of the norm of the noise for a ball of radius sqrt(d) T. By default T
    minimises

    - ``practical``: bias + q;
    - ``tuned``: sqrt(bias^2 + q^2), because bias and noise are orthogonal up to 1/sqrt(d).

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment: E|<v, X - mu>|^k is at most scale^k for records X of mean mu
        and every unit vector v.
    scale : float > 0
        Bound on the k-th root of the central moment in every direction, in the unit of the data.
        For k = 2 it bounds the standard deviation.
    radius : float >= 0 or None
        Public bound R on the absolute value of every coordinate of the mean, in the unit of the
        data. None, without a bound, is possible under (epsilon, delta) only.
    outside : {'discard', 'project'}
        Treatment of rows outside the ball. ``discard``: leave them out, with sensitivity 8r/(3n).
        ``project``: move them to the surface of the ball and divide by n, with sensitivity 2r/n.
    constants : {'paper', 'practical', 'tuned'}
        ``paper``, not under pure DP: r = 4 sqrt(d)/alpha^(1/(k-1)), and half of the records for
        the centre, with ``paper`` constants of `KSU20Mean`. ``practical``: a radius that grows with
        n, and half of the records for the centre. ``tuned``: ``tuned`` constants of `KSU20Mean` for
        the centre. It has a fiftieth of the records, or twice the number that the histograms need
        if that is more, but at most half. If R <= scale, ``tuned`` fixes the centre at 0 and
        averages all records.
    alpha : float in (0, 1], optional
        Error sought, in units of `scale`. In ``practical`` and ``tuned`` T is set so that the bound
        on the bias is alpha; by default T balances bias and noise. In ``paper`` the default solves
        n = 16 d sd sqrt(2/3)/alpha^(k/(k-1)) for alpha, and is at most 1/16 (Theorem 4.6). There sd
        = 1/sqrt(2 rho) is the standard deviation of the noise at sensitivity 1.
    beta : float in (0, 1)
        Probability that the noise exceeds the quantile to which T is tuned.
    """

    k: MomentOrder
    scale: MomentScale
    outside: Literal["discard", "project"] = "discard"
    constants: Constants | Literal["tuned"] = "practical"
    alpha: Alpha | None = None
    beta: Probability = 0.1
    multivariate: ClassVar[bool] = True
    narrowed_by: ClassVar[tuple[str, ...]] = ("radius", "constants")

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        paper = self.constants == "paper"
        return tuple(notion for notion in super().honoured if not (paper and notion is PureDP))

    @property
    def _has_fixed_centre(self) -> bool:
        """True if the ball is centred at 0, without a private centre.

        The centre is 0 if the constants are ``tuned`` and the public bound on every coordinate of
        the mean is at most `scale`.
        """
        return self.constants == "tuned" and self.radius is not None and self.radius <= self.scale

    @property
    def _sensitivity_factor(self) -> float:
        """Sensitivity of the mean of n truncated records, divided by r/n for a ball of radius r."""
        return 8 / 3 if self.outside == "discard" else 2.0

    def count_averaged(self, n: int, d: int, budget: Budget) -> int:
        """Return the number of records that are averaged; the other records locate the centre.

        The records have d coordinates, and the budget is that of the whole estimator.
        """
        if self._has_fixed_centre:
            return n
        if self.constants != "tuned":
            return n // 2
        needed = 2 * self._coordinate_estimator(d).histogram_needs(1.0, budget.fraction(1 / d))
        return n - int(np.ceil(max(min(needed, n / 2), n / 50)))

    def ball_radius(self, n: int, d: int, budget: Budget) -> float:
        """Return the radius r of the ball to which records are truncated, in the unit of the data.

        n records of d coordinates are averaged, and the budget is that of the step that releases
        the mean.
        """
        return self.scale * self._unit_ball_radius(n, d, budget)

    def _unit_ball_radius(self, n: int, d: int, budget: Budget) -> float:
        """Return the radius of the ball, in units of `scale`; see `ball_radius`."""
        root = float(np.sqrt(d))
        sd = _with_gaussian_noise(budget).noise_quantile(self.beta) / float(
            np.sqrt(chdtri(1, self.beta))
        )
        if self.constants == "paper":
            needed = 16 * d * sd * np.sqrt(2 / 3) / n
            by_default = min(LARGEST_ALPHA["paper"], needed ** ((self.k - 1) / self.k))
            return float(PAPER_RADIUS * root * (self.alpha or by_default) ** (-1 / (self.k - 1)))
        bias = 1.0 if self.outside == "discard" else worst_clipping_bias(1.0, self.k)  # at T = 1
        if self.alpha is not None:
            return float(root * (1 + (bias / self.alpha) ** (1 / (self.k - 1))))
        if isinstance(budget, PureDP):
            quantile = float(gammainccinv(d, self.beta)) / budget.epsilon
        else:
            quantile = sd * float(np.sqrt(chdtri(d, self.beta)))
        noise = self._sensitivity_factor * root * quantile / n  # at T = 1
        slope = self.k - 1 if self.constants == "practical" else float(np.sqrt(self.k - 1))
        return root * (1 + float((slope * bias / noise) ** (1 / self.k)))

    def least_records(self, d: int, budget: Budget) -> int:
        if self._has_fixed_centre:
            return 1
        return 2 * self._coordinate_estimator(d).least_records(1, budget) - 1

    def working_records(self, d: int, budget: Budget) -> int:
        if self._has_fixed_centre:
            return 1
        if isinstance(budget, ApproxDP) and self.radius is not None:
            budget = GDP.within(budget)
        return 2 * self._coordinate_estimator(d).working_records(1, budget.fraction(1 / d)) - 1

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = MomentSpread(self.k, self.scale)
        return [spread] if self.radius is None else [spread, MeanWithin(self.radius, spread)]

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not sample.vectors:
            raise ValueError("KSU20BallMean takes vectors; for numbers there is KSU20Mean")
        if sample.n < 2 and not self._has_fixed_centre:
            raise ValueError("one record makes no two halves")
        if self.radius is not None:
            ledger = to_gdp(ledger)
        averaged = self.count_averaged(sample.n, sample.d, ledger.budget)
        if self._has_fixed_centre:
            second, fine, centre = sample, ledger, np.zeros((sample.trials, sample.d))
        else:
            first, second = sample.split([sample.n - averaged, averaged], ledger.rng)
            coarse, fine = ledger.parallel(2)
            if isinstance(fine.budget, ApproxDP):
                (fine,) = fine.split(_with_gaussian_noise(fine.budget))
            centre = self._centre(first, coarse)
        r = self.ball_radius(averaged, sample.d, fine.budget)
        rows = second.rows()
        if self.outside == "project":
            offset = rows.projected(centre, r).mean_offset(centre)
        else:
            total, count = rows.within(centre, r)
            offset = total / np.maximum(count, 0.75 * averaged)[:, None]
        release = fine.add_l2_noise if isinstance(fine.budget, PureDP) else fine.add_noise
        released = centre + release(offset, self._sensitivity_factor * r / averaged)
        return Estimate(released, centre + offset)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            return []
        if isinstance(budget, ApproxDP) and self.radius is not None:
            budget = GDP.within(budget)
        averaged = self.count_averaged(n, d, budget)
        r, axis = self.ball_radius(averaged, d, budget), np.eye(d)[0]
        # Three quarters of the averaged rows are inside, all on one side, and the replaced row
        # joins them on the other side: both the sum and the divisor change.
        inside = np.arange(n) - (n - averaged) < 0.75 * averaged
        rows = np.where(inside & (np.arange(n) >= n - averaged), -0.9 * r, 0.0)[:, None] * axis
        rows[~inside] = 2 * r * axis
        return [
            Pair.replacing("across_the_surface", np.zeros((n, d)), n - 1, 1.1 * r * axis),
            Pair.replacing("into_the_ball", rows, n - 1, 0.9 * r * axis),
        ]

    def _coordinate_estimator(self, d: int) -> KSU20Mean:
        """Return the estimator of one coordinate of the private centre."""
        constants, alpha = self.constants, None if self.constants == "tuned" else 1.0
        return KSU20Mean(
            k=self.k, scale=self.scale, radius=self.radius, alpha=alpha, beta=0.1 / d,
            constants=constants,
        )  # fmt: skip

    def _centre(self, sample: Sample, ledger: Ledger) -> Floats:
        """Return the private centre of the ball, (trials, d); NaN in trials without a release.

        The centre is released only if all of its coordinates are.
        """
        coordinates = self._coordinate_estimator(sample.d).run(
            sample.columns(), ledger.repeated(sample.d)
        )
        centre = coordinates.value.reshape(sample.trials, sample.d)
        # The centre is released only if all of its coordinates are.
        return np.where(np.isnan(centre).any(axis=1, keepdims=True), np.nan, centre)
