"""Clip vectors to a private ball: HLY21 (one radius) and PLAN (one scale per coordinate)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import WIDEST, ErrorBound, gaussian_norm, rho_of, under_zcdp
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.noisy_search import (
    clipped_mean_at_private_radius,
    private_quantile_by_bisection,
)
from dpbench.privacy.rotation import Rotation
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["InstanceOptimalMean", "PlanMean"]

Steps = Annotated[int, Field(ge=1, le=100)]
# Shares as in the experiments of both papers: BEFORE of the budget goes to all steps ahead of
# radius and mean, and RADIUS of the rest to the radius.
BEFORE = RADIUS = 0.25
CENTRE = 0.25  # share of BEFORE that PLAN spends on the centre; the scales have the rest


class _AroundMedians(Estimator):
    """Base class of estimators that clip vectors around private medians."""

    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True


def _listed(sample: Sample) -> tuple[Floats, Floats]:
    """Return the distinct vectors, (trials, m, d), and their multiplicities, (trials, m).

    Coordinates are clipped to +-WIDEST, so that sums of squares do not overflow.
    """
    values, held = sample.listed()
    return np.clip(values, -WIDEST, WIDEST), held


@validated
class InstanceOptimalMean(_AroundMedians, kind="instance_optimal_mean"):
    """Shifted-clipped mean of vectors: clip to a private ball around rotated medians (HLY21).

    1. Rotate the records by three rounds of random signs and Hadamard matrices, after which all
       coordinates have about the same scale. Release the medians of the rotated coordinates by
       `private_quantile_by_bisection` in +-radius/sqrt(d'), d' the power of two to which d is
       padded, and rotate them back: the centre c.
    2. Release the radius C of a ball around c by `private_quantile_by_bisection` (see
    `clipped_mean_at_private_radius`). The ball is
       meant to hold all records but

           k + sqrt(steps/(2 rho_radius)),    k = 2 sqrt(d/(2 rho_mean)),

       where the second term is one standard deviation of a noisy count.
    3. Project the records on the ball, average them, and add noise of l2 sensitivity 2C/n.

    Why k. Projection moves a record at distance r > C from c by r - C, so it changes the mean by
    (r - C)/n. If k records are outside and all records are within D of c, the bias is at most
    k (D - C)/n. The noise has a norm of about (2C/n) sqrt(d/(2 rho_mean)) = k C/n. Hence bias and
    noise together are at most

        k (D - C)/n + k C/n = k D/n = (2D/n) sqrt(d/(2 rho_mean)),    whatever C <= D.

    If the centre lies among the records, D is of the order of the diameter of the data. The error
    against the empirical mean is then of the order of the diameter times sqrt(d/rho)/n (HLY21;
    theorem number not checked), and `radius` enters by its logarithm only, through `steps`.

    Medians, radius and mean have 1/4, 3/16 and 9/16 of the budget (`coarse`, `search`, `fine`).
    HLY21 clip the rotated records, which is equivalent because a rotation preserves norms;
    coordinates that pad d to a power of two are not released here. Under (epsilon, delta) see
    `under_zcdp`.

    Parameters
    ----------
    radius : float > 0
        Public bound u on the norms of records, in the unit of the data. The mean should be within
        about u/4 of 0: its rotated coordinates are about N(0, |mu|^2/d) and are searched in
        +-u/sqrt(d). A bound that is too small costs accuracy, not privacy.
    rounds : int in [1, 100]
        Number T of bisection steps of each search. The norm of the centre's error and the radius of
        the ball are resolved to radius/2^T; each step has 1/T of the search's budget.
    """

    first_names: ClassVar[dict[str, str]] = {"rounds": "steps"}

    stream_name: ClassVar[str] = "ShiftedClippedMean"

    radius: ErrorBound
    rounds: Steps = 10

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, held = _listed(sample)
        shares = BEFORE, (1 - BEFORE) * RADIUS, (1 - BEFORE) * (1 - RADIUS)
        coarse, search, fine = under_zcdp(ledger).split(*shares)
        rotation = Rotation.drawn(ledger.rng, sample.trials, sample.d)
        turned = rotation.there(x)
        size = turned.shape[2]
        end = np.full((sample.trials, size), self.radius / np.sqrt(size))
        found = private_quantile_by_bisection(
            lambda points: (held[:, None] @ (turned < points[:, None]))[:, 0],
            sample.n / 2, -end, end, self.rounds, coarse,
        )  # fmt: skip
        centre = rotation.back(found, sample.d)
        most = sample.n - 2 * np.sqrt(sample.d / (2 * rho_of(fine.budget)))
        rank = np.floor(most - np.sqrt(self.rounds / (2 * rho_of(search.budget))))
        ends = np.full(sample.trials, self.radius)
        noisy, clipped = clipped_mean_at_private_radius(
            x - centre[:, None], held, rank, ends, self.rounds, search, fine
        )
        return Estimate(centre + noisy, centre + clipped)


@validated
class PlanMean(_AroundMedians, kind="plan_mean"):
    """PLAN: variance-aware mean of vectors, with noise in proportion to each coordinate's scale.

    1. Release the median of every coordinate by `private_quantile_by_bisection` in +-radius: the
    centre c.
    2. Release a standard deviation s_i of every coordinate: `private_quantile_by_bisection`
    searches log s_i, where
       s_i^2 is the median of (x - y)^2/2 over floor(n/2) disjoint pairs of records. One record is
       in one pair. (PLAN divides by 0.4705, the median of a chi-square distribution. A common
       factor of all s_i cancels, except at the ends of the search.)
    3. Set a_i = s_i + |s|_1/d, divide (x - c)_i by sqrt(a_i), release the mean of the divided
       records in a private ball by `clipped_mean_at_private_radius`, and multiply by sqrt(a_i)
       again.

    The squared radius of the ball is about sum s_i^2/a_i <= |s|_1, so the noise has a norm of about

        2/(n sqrt(2 rho)) sqrt(sum s_i^2/a_i) sqrt(2 |s|_1) <= 2 sqrt(2) |s|_1/(n sqrt(2 rho)).

    A ball for the records without division has noise of norm 2 sqrt(d) |s|_2/(n sqrt(2 rho)). (With
    a = s the bound would be smaller by sqrt(2), but constant coordinates would have a_i = 0 and no
    bound on their noise.)

    The ball is meant to hold all records but kappa = sqrt(n) + sqrt(T ln(T/beta)/rho_radius). The
    counts of the search have noise N(0, T/(2 rho_radius)), and by a union bound all T noises are
    below the second term with probability 1 - beta. (PLAN has half of the square of that term, with
    T the logarithm of the range, because it searches by an exponential mechanism; its code runs
    this mechanism with half of the correct sensitivity.) The radius is searched up to sqrt(|a|_1)
    times the value that a standard Gaussian exceeds with probability 1/n (`gaussian_norm`; PLAN's
    bound is 0 for d = 1).

    Centre, scales, radius and mean have 1/16, 3/16, 3/16 and 9/16 of the budget. Under (epsilon,
    delta) see `under_zcdp`.

    Parameters
    ----------
    radius : float > 0
        Public bound on the absolute value of every coordinate of the mean, in the unit of the data.
    sigma_low, sigma_high : float > 0
        Public bounds on the standard deviations of the coordinates, in the unit of the data.
        Estimates outside are moved to the nearer bound.
    rounds : int in [1, 100]
        Number T of bisection steps of each search; each has 1/T of the search's budget.
    beta : float in (0, 1)
        Failure probability of the radius: smaller values clip fewer records and add more noise.
    """

    first_names: ClassVar[dict[str, str]] = {"rounds": "steps"}

    radius: ErrorBound
    sigma_low: ErrorBound = 1e-3
    sigma_high: ErrorBound = 1e3
    rounds: Steps = 20
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
        centre = private_quantile_by_bisection(
            _below(columns), sample.n / 2, -end, end, self.rounds, coarse
        )
        root = np.sqrt(self._scales(columns, sample, spread))
        rest = np.sqrt(sample.n) + np.sqrt(
            self.rounds * np.log(self.rounds / self.beta) / rho_of(search.budget)
        )
        ends = np.sqrt((root**2).sum(axis=1)) * gaussian_norm(1, 1 / sample.n)
        noisy, clipped = clipped_mean_at_private_radius(
            (x - centre[:, None]) / root[:, None], held, np.floor(sample.n - rest), ends,
            self.rounds, search, fine,
        )  # fmt: skip
        return Estimate(centre + root * noisy, centre + root * clipped)

    def _scales(self, columns: Sample, sample: Sample, ledger: Ledger) -> Floats:
        """Return PLAN's scales a_i = s_i + |s|_1/d, shape (trials, d)."""
        pairs = columns.half_squared_differences(ledger.rng)
        low = np.full((sample.trials, sample.d), np.log(self.sigma_low))
        high = max(np.log(self.sigma_high), np.log(self.sigma_low))
        below = _below(pairs)
        found = private_quantile_by_bisection(
            lambda log: below(np.exp(2 * log)), pairs.n / 2, low, high, self.rounds, ledger
        )
        scale = np.exp(found)
        return np.asarray(scale + scale.mean(axis=1, keepdims=True))


def _below(columns: Sample) -> Callable[[Floats], Floats]:
    """Return a function that counts the records below points, (trials, d), by coordinate."""
    return lambda points: columns.count(-np.inf, points.ravel()).reshape(points.shape)
