"""Unbiased private mean of a symmetric distribution, by a randomly placed histogram (KMRSSU23)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.histogram import audit_pairs, private_mode_bin
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Bins, Sample

__all__ = ["UnbiasedMean"]


@validated
class UnbiasedMean(Estimator):
    """Unbiased private mean of symmetric distributions: histogram at a random offset, then a clip.

    KMRSSU23 give it as their unbiased version of KV18 (theorem number not checked).

    1. One part of the records: a stability-based histogram of bins of width sigma; one bin is
       centred at U, uniform on [0, sigma]. Its fullest bin has the middle c.
    2. The other part: clip to c +- C, average, and add noise of sensitivity 2C over their number.

    U is public and the parts are fixed by index, so each part has the whole budget.

    Why it is unbiased. Let the distribution be symmetric about mu. Reflection at mu preserves the
    distribution of the records and turns the bins into bins of another offset, which is uniform,
    too. So c is symmetric about mu. Given c = mu + a, the clipped mean is distributed as the
    reflection of the clipped mean given c = mu - a. So the release has no bias, whatever C is. With
    fixed bins it is biased, see `random_bins`. If no bin passes the threshold nothing is released
    (NaN); this is equally likely for the records and their reflection, so it adds no bias.

    Parameters
    ----------
    sigma : float > 0
        Standard deviation of a record, the width of a bin, in the unit of the data.
    clip : float > 0, optional
        Half width C of the clip in units of sigma; by default 1 + sqrt(2 ln(2n/beta)). The middle
        of the fullest bin is within sigma of mu unless the noise decides, so a Gaussian record is
        then clipped with probability at most beta.
    share : float in (0, 1)
        Share of the records for the histogram.
    random_bins : bool
        If True, the offset U is random; if False, a bin is centred at 0, and the release is biased.
    beta : float in (0, 1)
        Probability that some record is clipped, for the default of `clip`.
    """

    sigma: Positive = 1.0
    clip: Positive | None = None
    share: Probability = 0.25
    random_bins: bool = True
    beta: Probability = 0.1
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        first = self._first(sample.n)
        found, averaged = sample.split([first, sample.n - first], ledger.rng)
        coarse, fine = ledger.parallel(2)
        offset = np.zeros(sample.trials)
        if self.random_bins:
            offset = self.sigma * ledger.rng.random(sample.trials)
        bins = Bins(self.sigma, aligned=offset - self.sigma / 2)
        centre = private_mode_bin(found, bins, coarse) + self.sigma / 2
        clip = self.sigma * (self.clip or 1 + gaussian_tail(sample.n, self.beta))
        return noisy_clipped_mean(averaged, centre, clip, fine)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # Records in distant bins stay in distinct bins for every offset.
        first = self._first(n)
        own = audit_pairs(first, Bins(self.sigma, aligned=0.0), budget)
        rest = np.zeros(n - first)
        return [
            Pair(pair.name, np.append(pair.left, rest), np.append(pair.right, rest)) for pair in own
        ]

    def _first(self, n: int) -> int:
        """Return the number of records for the histogram."""
        return min(max(1, int(np.ceil(self.share * n))), n - 1)
