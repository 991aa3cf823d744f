"""Mean around public records, which replace a public bound on the mean (BKS22)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpbench.estimators.assumptions import Assumption, GaussianSpread
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import L2ClippedMean
from dpbench.estimators.coinpress import MAX_COORDINATE, CoinPressMean, gaussian_norm, schedule
from dpbench.estimators.gaussian import Rounds
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.registry import Deviation, Probability, validated
from dpbench.samples import DenseSample, Sample

__all__ = ["PublicRecordMean"]

MAX_RECORDS = 300_000  # all records of a dataset are in memory


@validated
class PublicRecordMean(Estimator):
    """Mean of Gaussian records around a public record, without a bound on the mean (BKS22).

    BKS22, theorem number not checked. The first k = `public_records` records of a dataset are
    public, the others are private. Let n be the number of private records, d their coordinates and
    c the mean of the public records. All lengths are in units of sigma.

    1. A normal vector is longer than gamma (`dpbench.estimators.coinpress.gaussian_norm`) with
       probability at most b. So c is within r = gamma/sqrt(k) of the mean of the distribution. This
       r takes the place of a public bound R on the norm of the mean.
    2. Subtract c from the private records, and estimate the mean of the differences by `rounds`
       rounds of CoinPress with the bound r, as in the authors' code. A single round projects the
       differences on a ball of radius s = min(sqrt(r^2 + 6r + gamma^2), r + gamma) around 0
       (`dpbench.estimators.coinpress.schedule`), and averages them with noise.
    3. Add c.

    The range is of the order sqrt(d) + sqrt(2 ln(1/b)), and no step searches for the mean. So the
    error does not depend on the norm of the mean. Without public records, pure DP and zCDP need a
    bound R, and n has a term of order ln(R)/epsilon or sqrt(ln(R)/rho).

    Sensitivity. Neighbouring datasets have equal public records, so c is equal, too. A replaced
    private record moves its projection by at most 2s, and the average by 2s/n in l2
    (`L2ClippedMean`; `CoinPressMean` for more rounds). The noise for one round under pure DP is the
    l2 mechanism of HT10. The guarantee protects private records only: the release may reveal public
    records.

    Parameters
    ----------
    sigma : float > 0
        Known standard deviation of a record in every direction, in the unit of the data.
    rounds : int
        Number of rounds. More rounds than 1, the default, need a budget that Gaussian noise honours
        (zCDP, GDP or approximate DP).
    b : float in (0, 1)
        Probability that the bound on the norm of a normal vector fails; 0.01 as in the authors'
        code.
    public_records : int
        Number k of public records at the start of the dataset; 1 by default.

    References
    ----------
    BKS22: "Private estimation with public data", NeurIPS 2022, arXiv:2208.07984.
    """

    multivariate: ClassVar[bool] = True
    bounded_in: ClassVar[None] = None  # a public record is more than the lower bounds assume

    sigma: Deviation
    rounds: Rounds = 1
    b: Probability = 0.01
    public_records: Annotated[int, Field(ge=1, le=1000)] = 1
    narrowed_by: ClassVar[tuple[str, ...]] = ("rounds",)

    @property
    def first_private(self) -> int:
        return self.public_records

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.rounds == 1 else (ZCDP, GDP, ApproxDP)

    @property
    def most_at_once(self) -> int:
        return MAX_RECORDS

    def least_records(self, d: int, budget: Budget) -> int:
        return self.public_records + 1

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (GaussianSpread(self.sigma),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not isinstance(sample, DenseSample) or sample.n <= self.public_records:
            raise ValueError(
                f"{self.public_records} public records: needs more records than these, one by one"
            )
        x = np.clip(sample.values, -MAX_COORDINATE, MAX_COORDINATE)
        public, private = np.split(x, [self.public_records], axis=1)
        centre = public.mean(axis=1)
        base = self._differences_mean(sample.d, ledger.budget)
        found = base.estimate(DenseSample(private - centre[:, None]), ledger)
        return Estimate(centre + found.value, centre + found.before_noise)

    def _differences_mean(self, d: int, budget: Budget) -> Estimator:
        """Return the estimator of the mean of differences of d coordinates."""
        radius = gaussian_norm(d, self.b) / float(np.sqrt(self.public_records))
        if self.rounds > 1:
            return CoinPressMean(
                radius=radius * self.sigma, rounds=self.rounds, sigma=self.sigma, b=self.b
            )
        # The first clip depends neither on n nor on the budget.
        clip = float(schedule(1, d, radius, 1.0, 1, self.b)[0].clip_radius)
        mechanism: Literal["l2", "additive"] = "l2" if isinstance(budget, PureDP) else "additive"
        return L2ClippedMean(radius=clip * self.sigma, mechanism=mechanism)
