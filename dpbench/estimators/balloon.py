"""Balloon mean of vectors (BALLOON26): clip to a ball that a sparse vector search blows up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, GaussianSpread, RecordsInBall
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.coinpress import ErrorBound, to_gdp
from dpbench.estimators.instance_optimal import list_clipped_records
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.noisy_search import noisy_projected_mean
from dpbench.registry import Deviation, Probability, validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = ["BalloonMean"]

Growth = Annotated[float, Field(ge=1.001, le=10)]
# Shares as in the authors' code: FIRST_SHARE of the budget for the first centre, RADIUS_SHARE of
# every round for its radius.
FIRST_SHARE, RADIUS_SHARE = 0.1, 0.5


@validated
class BalloonMean(Estimator):
    """Balloon mean: project vectors on a ball that grows until it holds most of them (BALLOON26).

    BALLOON26, algorithm and theorem numbers not checked; the steps follow the authors' code. The
    covariance is known to be sigma^2 times the identity, so Mahalanobis balls are l2 balls. Lengths
    are in units of sigma here. Let n be the number of records and R = `radius`. Round m has the
    share tau_m of `inside`.

    1. Project the records on the ball of radius R around 0, and release their mean. It is the first
       centre.
    2. In round m, try the radii r_i = growth^i for i = 0, 1, ..., up to 2R. Count the
       records in the ball of radius r_i around the centre. The sparse vector technique
       (`Ledger.above_threshold`) finds the first ball with about tau_m n records.
    3. Project all records on this ball, and release their mean. It is the next centre. The release
       is the centre after the last round.

    Projections ignore how far a record is outside of the ball. So a share of outliers below
    1 - tau_m neither widens the ball nor moves the mean by more than the radius times the share.

    Sensitivity. Two points of a ball of radius r are at most 2r apart. So a replaced record moves
    the mean of projections by at most 2r/n: 2R/n in step 1, and 2r/n in step 3. (The authors' code
    states r/n, which costs four times the claimed rho.) A replaced record at distance s from the
    centre counts for the radii r_i >= s. If its new distance is larger, the counts for the radii
    between the two distances fall by 1, and the other counts stay. If the new distance is smaller,
    these counts rise by 1. So all counts move in one direction, by at most 1, as the sparse vector
    technique requires.

    Step 1 has 1/10 of the budget. The rounds share the rest equally, half for the radius and half
    for the mean. The authors' code adds Gaussian noise of standard deviation sqrt(2/rho') to counts
    and threshold, for the budget rho' of a radius. Here the noise is exponential, because the
    sparse vector technique then has a proof of privacy for every number of counts. Its standard
    deviation is 2/epsilon' for the largest epsilon' that rho' pays for. The two are about equal,
    because epsilon'^2/2 is about rho'. An (epsilon, delta) budget is first converted to GDP by
    `to_gdp`.

    Parameters
    ----------
    radius : float > 0
        Public bound R on the norms of the records, in the unit of the data. Records outside are
        projected in step 1.
    sigma : float > 0
        Known standard deviation of a record in every direction, in the unit of the data.
    inside : list of float in (0, 1)
        Share tau_m of the records that the ball of every round should hold, one for each round.
        Smaller shares resist more outliers, and add less noise.
    growth : float in [1.001, 10]
        Factor growth of the radii, whose steps set the resolution of the radius.

    References
    ----------
    BALLOON26: "Computationally tractable robust differentially private mean estimation", 2026,
    arXiv:2606.12654.
    """

    notions: ClassVar[tuple[type[Budget], ...]] = (ZCDP, GDP, ApproxDP)
    multivariate: ClassVar[bool] = True

    radius: ErrorBound
    sigma: Deviation
    inside: list[Probability] = Field(
        default_factory=lambda: [0.9, 0.9, 0.9], min_length=1, max_length=10
    )
    growth: Growth = 1.01

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return GaussianSpread(self.sigma), RecordsInBall(self.radius)

    def radii(self) -> Floats:
        """Return the radii of the search in increasing order, in the unit of the data.

        The largest is 2 `radius`: two records within the public bound are at most so far apart.
        """
        largest = max(2 * self.radius / self.sigma, 1.0)
        steps = np.arange(np.ceil(np.log(largest) / np.log(self.growth)))
        return np.append(self.growth**steps, largest) * self.sigma

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, held = list_clipped_records(sample)
        rounds = len(self.inside)
        first, *parts = to_gdp(ledger).split(FIRST_SHARE, *[(1 - FIRST_SHARE) / rounds] * rounds)
        start = np.full(sample.trials, self.radius)
        centre, before = noisy_projected_mean(x, held, start, first)
        for share, part in zip(self.inside, parts, strict=True):
            search, fine = part.split(RADIUS_SHARE, 1 - RADIUS_SHARE)
            offset = x - centre[:, None]
            radius = self._release_radius(offset, held, share * sample.n, search)
            noisy, projected = noisy_projected_mean(offset, held, radius, fine)
            centre, before = centre + noisy, centre + projected
        return Estimate(centre, before)

    def _release_radius(
        self, offset: Floats, held: Floats, threshold: float, ledger: Ledger
    ) -> Floats:
        """Release the radius of a ball around 0 with about `threshold` offsets; spend the ledger.

        `offset` has the shape (trials, m, d), and `held` has the multiplicities, (trials, m). The
        result has the shape (trials,).
        """
        radii = self.radii()
        first_ball = np.searchsorted(radii, norms(offset))  # of the balls that hold the offset
        counts = np.zeros((len(offset), len(radii) + 1))  # the last column counts the others
        np.add.at(counts, (np.arange(len(offset))[:, None], first_ball), held)
        within = np.cumsum(counts[:, :-1], axis=1)
        return radii[ledger.above_threshold(within, 1.0, threshold, noise="exponential")]
