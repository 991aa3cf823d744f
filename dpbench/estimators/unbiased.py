"""A mean without bias (KMRSSU23): of a symmetric law, by bins that begin anywhere."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.histogram import audit_pairs, fullest_bin
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Probability, validated
from dpbench.samples import Bins, Sample

__all__ = ["UnbiasedMean"]


@validated
class UnbiasedMean(Estimator):
    """The fullest of bins at a random offset, then a clipped mean of the other records around it.

    KMRSSU23, their unbiased version of KV18. A share of the records: a stability histogram of bins
    of width sigma, the first of which is centred at a uniform U. The others: clip to the middle of
    the fullest bin +- c, average, add noise of sensitivity 2c over their number. Each part of the
    records pays the whole budget, in parallel: U is public, and the parts are fixed by index.

    Of a law that is symmetric about mu, reflection at mu leaves the law of the records as it is;
    of the bins it makes those of another offset, uniform, too. So the middle of the fullest bin is
    symmetric about mu, and given that it is mu + a the law of the clipped mean is that given mu - a
    reflected: without bias, whatever c is. With bins that stay where they are it is not, see
    `random_bins`. Where no bin passes the threshold nothing is released, which is as likely either
    way: what is released has no bias.

    Parameters
    ----------
    sigma : float > 0
        Width of a bin: standard deviation of a record.
    clip : float > 0, optional
        c in units of sigma; by default 1 + sqrt(2 ln(2n/beta)): the middle of the fullest bin is
        within sigma of mu unless noise decides, and a Gaussian is clipped with probability beta.
    share : float in (0, 1)
        Of the records for the histogram.
    random_bins : bool
        Whether the offset is random; if not, a bin is centred at 0.
    beta : float in (0, 1)
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
        centre = fullest_bin(found, bins, coarse) + self.sigma / 2
        clip = self.sigma * (self.clip or 1 + gaussian_tail(sample.n, self.beta))
        return noisy_clipped_mean(averaged, centre, clip, fine)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # Bins apart stay apart wherever they begin.
        first = self._first(n)
        own = audit_pairs(first, Bins(self.sigma, aligned=0.0), budget)
        rest = np.zeros(n - first)
        return [
            Pair(pair.name, np.append(pair.left, rest), np.append(pair.right, rest)) for pair in own
        ]

    def _first(self, n: int) -> int:
        """How many records the histogram has."""
        return min(max(1, int(np.ceil(self.share * n))), n - 1)
