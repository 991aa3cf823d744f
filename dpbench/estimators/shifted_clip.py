"""Means clipped around private medians: HLY21 (one radius), PLAN (one scale per coordinate)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import WIDEST, Bound, gaussian_norm, rho_of, under_zcdp
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.noisy_search import mean_in_ball, noisy_rank
from dpbench.privacy.rotation import Rotation
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["PlanMean", "ShiftedClippedMean"]

Steps = Annotated[int, Field(ge=1, le=100)]
# Of the budget, as in both papers' experiments: before the mean, and of the rest for the radius.
BEFORE = RADIUS = 0.25
CENTRE = 0.25  # PLAN: of what goes before, for the centre


class _AroundMedians(Estimator):
    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True


def _listed(sample: Sample) -> tuple[Floats, Floats]:
    """The vectors, moved to where sums of them do not overflow, and how many of each."""
    values, held = sample.listed()
    return np.clip(values, -WIDEST, WIDEST), held


@validated
class ShiftedClippedMean(_AroundMedians, kind="shifted_clipped_mean"):
    """Private medians after a random rotation; a ball around them; the mean in it (HLY21).

    Three rounds of random signs and Hadamard matrices leave all coordinates alike; the medians of
    the rotated ones, by `noisy_rank` in +-radius/sqrt(d), turned back, are the centre. Then see
    `mean_in_ball`: all but

        2 sqrt(d/(2 rho_mean)) + sqrt(steps/(2 rho_radius))

    records are in the ball. A record outside costs at most C/n of bias, noise 2C/n
    sqrt(d/(2 rho_mean)): as many as these bring no more bias than noise. The rest is one standard
    deviation of a noisy count. So the error against the empirical mean is of the order of the
    data's diameter times sqrt(d/rho)/n, and knows the radius by its logarithm, `steps`. Shares of
    the budget: 1/4, 3/16, 9/16. HLY21 clip after the rotation, which is the same, as a rotation
    keeps norms; padded coordinates are not released here. Under (epsilon, delta) see `under_zcdp`.

    Parameters
    ----------
    radius : float > 0
        u: records are within this of 0, and the mean within some u/4: its rotated coordinates are
        as N(0, |mu|^2/d) and are sought within u/sqrt(d). Accuracy rests on it, not privacy.
    steps : int
        T: of each search; what it finds is off by radius/2^T of its range.
    """

    radius: Bound
    steps: Steps = 10

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, held = _listed(sample)
        shares = BEFORE, (1 - BEFORE) * RADIUS, (1 - BEFORE) * (1 - RADIUS)
        coarse, search, fine = under_zcdp(ledger).split(*shares)
        rotation = Rotation.drawn(ledger.rng, sample.trials, sample.d)
        turned = rotation.there(x)
        size = turned.shape[2]
        end = np.full((sample.trials, size), self.radius / np.sqrt(size))
        found = noisy_rank(
            lambda points: (held[:, None] @ (turned < points[:, None]))[:, 0],
            sample.n / 2, -end, end, self.steps, coarse,
        )  # fmt: skip
        centre = rotation.back(found, sample.d)
        most = sample.n - 2 * np.sqrt(sample.d / (2 * rho_of(fine.budget)))
        rank = np.floor(most - np.sqrt(self.steps / (2 * rho_of(search.budget))))
        ends = np.full(sample.trials, self.radius)
        noisy, clipped = mean_in_ball(
            x - centre[:, None], held, rank, ends, self.steps, search, fine
        )
        return Estimate(centre + noisy, centre + clipped)


@validated
class PlanMean(_AroundMedians, kind="plan_mean"):
    """Noise in proportion to the root of each coordinate's standard deviation (PLAN).

    Medians by `noisy_rank` in +-radius are the centre c. Standard deviations s are searched on a
    scale of logarithms: s^2 is the median of (x_i - x_j)^2/2 over floor(n/2) disjoint pairs,
    and one record changes one pair. (PLAN divides by 0.4705, of a chi-square; a factor of all s
    cancels, but for the ends of searches.) To these the average of all is added, a_i = s_i +
    |s|_1/d. Then `mean_in_ball` of (x - c)/sqrt(a), times sqrt(a): its squared radius is about
    sum s_i^2/a_i <= |s|_1, and its noise has a norm of some

        2/(n sqrt(2 rho)) sqrt(sum s_i^2/a_i) sqrt(2 |s|_1) <= 2 sqrt(2) |s|_1/(n sqrt(2 rho)),

    where one ball for the records as they are has 2 sqrt(d) |s|_2/(n sqrt(2 rho)). (With a = s the
    bound would be |s|_1 without sqrt(2), and a coordinate that does not vary no bound.) All but
    kappa = sqrt(n) + sqrt(T ln(T/beta)/rho_radius) records are in the ball: counts with noise
    N(0, T/(2 rho_radius)) are all within the second term with probability 1 - beta. Theirs has
    half of that square, T the logarithm of the range: of an exponential mechanism, which their
    code runs with half of its sensitivity. The ball is sought up to sqrt(|a|_1) times what a
    Gaussian exceeds with probability 1/n (`gaussian_norm`; theirs is 0 for d = 1). Shares of the
    budget: 1/16, 3/16, 3/16, 9/16 for centre, scales, radius, mean. Under (epsilon, delta) see
    `under_zcdp`.

    Parameters
    ----------
    radius : float > 0
        A bound on every coordinate of the mean.
    sigma_low, sigma_high : float > 0
        Bounds on the standard deviations.
    steps : int
        T: of each search.
    beta : float in (0, 1)
    """

    radius: Bound
    sigma_low: Bound = 1e-3
    sigma_high: Bound = 1e3
    steps: Steps = 20
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        x, held = _listed(sample)
        after = (1 - BEFORE) * RADIUS, (1 - BEFORE) * (1 - RADIUS)
        coarse, spread, search, fine = under_zcdp(ledger).split(
            BEFORE * CENTRE, BEFORE * (1 - CENTRE), *after
        )
        columns, end = sample.columns(), np.full((sample.trials, sample.d), self.radius)
        centre = noisy_rank(_below(columns), sample.n / 2, -end, end, self.steps, coarse)
        root = np.sqrt(self._scales(columns, sample, spread))
        rest = np.sqrt(sample.n) + np.sqrt(
            self.steps * np.log(self.steps / self.beta) / rho_of(search.budget)
        )
        ends = np.sqrt((root**2).sum(axis=1)) * gaussian_norm(1, 1 / sample.n)
        noisy, clipped = mean_in_ball(
            (x - centre[:, None]) / root[:, None], held, np.floor(sample.n - rest), ends,
            self.steps, search, fine,
        )  # fmt: skip
        return Estimate(centre + root * noisy, centre + root * clipped)

    def _scales(self, columns: Sample, sample: Sample, ledger: Ledger) -> Floats:
        """The a of every coordinate, (trials, d)."""
        pairs = columns.half_squared_differences(ledger.rng)
        low = np.full((sample.trials, sample.d), np.log(self.sigma_low))
        high = max(np.log(self.sigma_high), np.log(self.sigma_low))
        below = _below(pairs)
        found = noisy_rank(
            lambda log: below(np.exp(2 * log)), pairs.n / 2, low, high, self.steps, ledger
        )
        scale = np.exp(found)
        return np.asarray(scale + scale.mean(axis=1, keepdims=True))


def _below(columns: Sample) -> Callable[[Floats], Floats]:
    """Counts of the records below points, (trials, d), by the datasets of coordinates."""
    return lambda points: columns.count(-np.inf, points.ravel()).reshape(points.shape)
