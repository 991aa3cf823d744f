"""Unbiased private mean of a symmetric distribution, by a randomly placed histogram (KMRSSU23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dpbench.estimators.assumptions import Assumption, MomentSpread
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.gaussian import Positive, gaussian_tail
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.privacy.histogram import audit_pairs, private_mode_bin
from dpbench.privacy.neighbours import Pair
from dpbench.registry import Deviation, Probability, validated
from dpbench.samples import Bins, Sample

__all__ = ["UnbiasedMean"]


@validated
class UnbiasedMean(Estimator):
    """Unbiased private mean of symmetric distributions: histogram at a random offset, then a clip.

    Records have the unknown mean mu and the known standard deviation sigma. KMRSSU23 (theorem
    number not checked) give this unbiased version of KV18.

    1. From one part of the records, release the middle c of the fullest bin of a stability-based
       histogram. The bins have width sigma, and one bin is centred at U, uniform on [0, sigma].
    2. Clip the other part, n' records, to c +- C, average them, and add noise of sensitivity 2C/n'.

    U is public and the parts are fixed by index, so each part has the whole budget.

    Proof that the release is unbiased. Let the distribution be symmetric about mu. Reflection at mu
    preserves the distribution of the records. It turns the bins into bins of another offset, which
    is also uniform. So c is symmetric about mu. Given c = mu + a, the clipped mean is distributed
    as the reflection of the clipped mean given c = mu - a. So the release has no bias, whatever C
    is. If no bin passes the threshold nothing is released (NaN). A missing release is equally
    likely for the records and their reflection, so it adds no bias.

    The histogram has no bound on mu, so it releases occupied bins only. With too few records it
    usually releases nothing. Let t be the threshold, and let a bin hold c < t records. The bin
    passes the threshold with probability e^(-epsilon (t - c)/2)/2. So a release needs about t =
    1 + (2/epsilon) ln(1/(2 delta)) records in one bin.

    Parameters
    ----------
    sigma : float > 0
        Standard deviation of a record, and width of a bin, in the unit of the data.
    clip : float > 0, optional
        C/sigma, the half width of the clip in units of sigma; by default 1 + sqrt(2 ln(2n/beta)).
        Unless the noise changes which bin is fullest, the middle of the fullest bin is within sigma
        of mu. Then the probability that some Gaussian record is clipped is at most beta.
    share : float in (0, 1)
        Share of the records for the histogram. A larger share leaves fewer records for the mean.
    random_bins : bool
        If True, the offset U is random; if False, a bin is centred at 0, and the release is biased.
    beta : float in (0, 1)
        Probability that some record is clipped, for the default of `clip`.
    """

    sigma: Deviation
    clip: Positive | None = None
    share: Probability = 0.25
    random_bins: bool = True
    beta: Probability = 0.1
    notions: ClassVar[tuple[type[Budget], ...]] = (ApproxDP,)
    fewest_records: ClassVar[int] = 2  # a record for each part

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (MomentSpread(2.0, self.sigma, "sigma"),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        first = self._histogram_size(sample.n)
        located, averaged = sample.split([first, sample.n - first], ledger.rng)
        coarse, fine = ledger.parallel(2)
        offset = np.zeros(sample.trials)
        if self.random_bins:
            offset = self.sigma * ledger.rng.random(sample.trials)
        bins = Bins(self.sigma, aligned=offset - self.sigma / 2)
        centre = private_mode_bin(located, bins, coarse) + self.sigma / 2
        clip = self.sigma * (self.clip or 1 + gaussian_tail(sample.n, self.beta))
        return noisy_clipped_mean(averaged, centre, clip, fine)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # Records in distant bins stay in distinct bins for every offset.
        first = self._histogram_size(n)
        pairs = audit_pairs(first, Bins(self.sigma, aligned=0.0), budget)
        rest = np.zeros(n - first)
        return [
            Pair(pair.name, np.append(pair.left, rest), np.append(pair.right, rest))
            for pair in pairs
        ]

    def _histogram_size(self, n: int) -> int:
        """Return the number of records for the histogram; the other records are averaged."""
        return min(max(1, int(np.ceil(self.share * n))), n - 1)
