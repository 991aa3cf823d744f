"""Means of vectors clipped to a private ball, by HLY21 and by PLAN.

PLAN also scales every coordinate by a private standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MeanWithin, MomentSpread, RecordsInBall
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import (
    MAX_COORDINATE,
    ErrorBound,
    gaussian_norm,
    rho_of,
    to_gdp,
)
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.noisy_search import (
    clipped_mean_at_private_radius,
    private_quantile_by_bisection,
)
from dpbench.privacy.rotation import Rotation
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["InstanceOptimalMean", "PlanMean", "list_clipped_records"]

DeviationBound = Annotated[
    float,
    Field(
        ge=1e-100,
        le=1e100,
        description="public bound on the standard deviations of the coordinates, in the unit of "
        "the data",
    ),
]
Steps = Annotated[int, Field(ge=1, le=100)]
# Shares as in the experiments of both papers: FIRST_SHARE of the budget goes to all steps before
# radius and mean, and RADIUS_SHARE of the rest to the radius.
FIRST_SHARE = RADIUS_SHARE = 0.25
CENTRE_SHARE = 0.25  # share of FIRST_SHARE that PLAN spends on the centre; the scales get the rest


class _AroundMedians(Estimator):
    """Base class of estimators that clip vectors to a ball around private medians."""

    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True


def list_clipped_records(sample: Sample) -> tuple[Floats, Floats]:
    """Return the distinct vectors of a sample and their multiplicities.

    Vectors have the shape (trials, m, d), and multiplicities (trials, m). Coordinates are clipped
    to +-MAX_COORDINATE (1e150), because sums of larger squares overflow.
    """
    values, held = sample.listed()
    return np.clip(values, -MAX_COORDINATE, MAX_COORDINATE), held


@validated
class InstanceOptimalMean(_AroundMedians, kind="instance_optimal_mean"):
    """Shifted-clipped mean of vectors: clip to a private ball around rotated medians (HLY21).

    Let n be the number of records, d their coordinates, and T = `rounds`. Let rho_radius and
    rho_mean be the zCDP budgets of steps 2 and 3.

    1. Rotate the records by three rounds of random signs and Hadamard matrices, after which all
       coordinates have about the same scale. Release the medians of the rotated coordinates by
       `private_quantile_by_bisection` in +-radius/sqrt(d'), where d' is the power of two to which
       d is padded. Rotate the medians back; this is the centre c.
    2. Release the radius C of a ball around c by `clipped_mean_at_private_radius`. C is chosen
       so that about this number of records is outside of the ball:

           k + sqrt(T/(2 rho_radius)),    k = 2 sqrt(d/(2 rho_mean)),

       where the second term is one standard deviation of a noisy count.
    3. Project the records on the ball, and average them with noise of l2 sensitivity 2C/n.

    Reason for k. Projection moves a record at distance r > C from c by r - C, so it changes the
    mean by at most (r - C)/n. If k records are outside and all records are within D of c, the bias
    is at most k (D - C)/n. The noise has a norm of about (2C/n) sqrt(d/(2 rho_mean)) = k C/n. Hence
    bias and noise together are at most, for every C <= D,

        k (D - C)/n + k C/n = k D/n = (2D/n) sqrt(d/(2 rho_mean)).

    If the centre lies among the records, D is of the order of the diameter of the data. The error
    against the empirical mean is then of the order of the diameter times sqrt(d/rho)/n, for a whole
    budget rho (HLY21; theorem number not checked). `radius` affects the error by its logarithm
    only, because the number T of search steps has to grow with log(radius).

    Medians, radius and mean have 1/4, 3/16 and 9/16 of the budget (`coarse`, `search`, `fine`).
    HLY21 clip the rotated records, which is equivalent because a rotation preserves norms.
    Coordinates that pad d to a power of two are not released here. An (epsilon, delta) budget is
    first converted to GDP by `to_gdp`.

    Parameters
    ----------
    radius : float > 0
        Public bound u on the norms of records, in the unit of the data. The mean mu should be
        within about u/4 of 0, because its rotated coordinates are about N(0, |mu|^2/d) and are
        searched in +-u/sqrt(d). A bound that is too small costs accuracy, not privacy.
    rounds : int in [1, 100]
        Number T of bisection steps of each search. The norm of the centre's error and the radius of
        the ball are resolved to radius/2^T; each step has 1/T of the search's budget.
    """

    radius: ErrorBound
    rounds: Steps = 10

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (RecordsInBall(self.radius),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, held = list_clipped_records(sample)
        shares = (
            FIRST_SHARE,
            (1 - FIRST_SHARE) * RADIUS_SHARE,
            (1 - FIRST_SHARE) * (1 - RADIUS_SHARE),
        )
        coarse, search, fine = to_gdp(ledger).split(*shares)
        rotation = Rotation.draw_rotation(ledger.rng, sample.trials, sample.d)
        rotated = rotation.apply_to(x)
        size = rotated.shape[2]
        end = np.full((sample.trials, size), self.radius / np.sqrt(size))
        medians = private_quantile_by_bisection(
            lambda points: (held[:, None] @ (rotated < points[:, None]))[:, 0],
            sample.n / 2, -end, end, self.rounds, coarse,
        )  # fmt: skip
        centre = rotation.invert(medians, sample.d)
        most_inside = sample.n - 2 * np.sqrt(sample.d / (2 * rho_of(fine.budget)))
        rank = np.floor(most_inside - np.sqrt(self.rounds / (2 * rho_of(search.budget))))
        ends = np.full(sample.trials, self.radius)
        noisy, clipped = clipped_mean_at_private_radius(
            x - centre[:, None], held, rank, ends, self.rounds, search, fine
        )
        return Estimate(centre + noisy, centre + clipped)


@validated
class PlanMean(_AroundMedians, kind="plan_mean"):
    """PLAN: variance-aware mean of vectors, with noise in proportion to each coordinate's scale.

    PLAN, algorithm and theorem numbers not checked. Let n be the number of records x, d their
    coordinates, and T = `rounds`. Let rho_radius and rho be the zCDP budgets of the radius and of
    the mean. |.|_1 and |.|_2 are the l1 and l2 norms.

    1. Release the median of every coordinate by `private_quantile_by_bisection` in +-radius. This
       is the centre c.
    2. Release a standard deviation s_i of every coordinate. `private_quantile_by_bisection`
       searches log s_i, where s_i^2 is the median of (x - y)^2/2 over floor(n/2) disjoint pairs x,
       y of records. A record is in one pair at most. (PLAN divides by 0.4705, the median of a
       chi-square distribution. A common factor of all s_i cancels, except at the ends of the
       search.)
    3. Let a_i = s_i + |s|_1/d for the vector s of the s_i. Divide each coordinate (x - c)_i by
       sqrt(a_i). Release the mean of the divided records, projected on a ball of private radius C,
       by `clipped_mean_at_private_radius`. Its l2 sensitivity is 2C/n. Multiply its coordinates by
       sqrt(a_i) again.

    C^2 is about sum s_i^2/a_i <= |s|_1, so the noise has a norm of about

        2/(n sqrt(2 rho)) sqrt(sum s_i^2/a_i) sqrt(2 |s|_1) <= 2 sqrt(2) |s|_1/(n sqrt(2 rho)).

    A ball for the records without division has noise of norm 2 sqrt(d) |s|_2/(n sqrt(2 rho)). (With
    a_i = s_i the bound would be smaller by sqrt(2). But constant coordinates would have a_i = 0 and
    no bound on their noise.)

    The ball is meant to hold all records but sqrt(n) + sqrt(T ln(T/beta)/rho_radius). The counts of
    the search have noise N(0, T/(2 rho_radius)). By a union bound all T noises are below the second
    term with probability 1 - beta. (PLAN searches by an exponential mechanism. So it has half of
    the square of the second term, and T is the logarithm of the range. The authors' code runs this
    mechanism with half of the correct sensitivity.) The radius is searched up to g sqrt(|a|_1), for
    the vector a of the a_i. A standard normal number exceeds g in absolute value with probability
    at most 1/n (`gaussian_norm`). PLAN has another bound, which is 0 for d = 1.

    Centre, scales, radius and mean have 1/16, 3/16, 3/16 and 9/16 of the budget. An
    (epsilon, delta) budget is first converted to GDP by `to_gdp`.

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

    radius: ErrorBound
    sigma_low: DeviationBound
    sigma_high: DeviationBound
    rounds: Steps = 20
    beta: Probability = 0.1
    fewest_records: ClassVar[int] = 2  # one record makes no pair

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = MomentSpread(2.0, self.sigma_high, "sigma_high")
        return spread, MeanWithin(self.radius, spread)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if sample.n < 2:
            raise ValueError("one record makes no pair")
        x, held = list_clipped_records(sample)
        last_shares = (1 - FIRST_SHARE) * RADIUS_SHARE, (1 - FIRST_SHARE) * (1 - RADIUS_SHARE)
        coarse, spread, search, fine = to_gdp(ledger).split(
            FIRST_SHARE * CENTRE_SHARE, FIRST_SHARE * (1 - CENTRE_SHARE), *last_shares
        )
        columns, end = sample.columns(), np.full((sample.trials, sample.d), self.radius)
        centre = private_quantile_by_bisection(
            _counter_below(columns), sample.n / 2, -end, end, self.rounds, coarse
        )
        root = np.sqrt(self._release_scales(columns, sample, spread))
        excluded = np.sqrt(sample.n) + np.sqrt(
            self.rounds * np.log(self.rounds / self.beta) / rho_of(search.budget)
        )
        ends = np.sqrt((root**2).sum(axis=1)) * gaussian_norm(1, 1 / sample.n)
        noisy, clipped = clipped_mean_at_private_radius(
            (x - centre[:, None]) / root[:, None], held, np.floor(sample.n - excluded), ends,
            self.rounds, search, fine,
        )  # fmt: skip
        return Estimate(centre + root * noisy, centre + root * clipped)

    def _release_scales(self, columns: Sample, sample: Sample, ledger: Ledger) -> Floats:
        """Release the scale a_i of every coordinate, shape (trials, d), and spend the ledger.

        a_i is the private standard deviation s_i of the coordinate plus the average of all s_i.
        """
        pairs = columns.half_squared_differences(ledger.rng)
        low = np.full((sample.trials, sample.d), np.log(self.sigma_low))
        high = max(np.log(self.sigma_high), np.log(self.sigma_low))
        below = _counter_below(pairs)
        log_scales = private_quantile_by_bisection(
            lambda log: below(np.exp(2 * log)), pairs.n / 2, low, high, self.rounds, ledger
        )
        scale = np.exp(log_scales)
        return np.asarray(scale + scale.mean(axis=1, keepdims=True))


def _counter_below(columns: Sample) -> Callable[[Floats], Floats]:
    """Return a function that counts, for every coordinate, the records below a point.

    The function takes points of shape (trials, d) and returns counts of this shape. `columns` holds
    the coordinates as separate trials.
    """
    return lambda points: columns.count(-np.inf, points.ravel()).reshape(points.shape)
