"""Means without any bound on the data, not even an infinite histogram's delta."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.magnitudes import MOST, magnitudes, powers, radius_of_most
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["ApproximateBoundsMean", "UniversalMean"]

L1, L2 = 2.0, float(np.sqrt(2.0))
PRECISION = 2.0**-52  # of doubles
Powers = Annotated[int, Field(ge=1, le=MOST)]


@validated
class UniversalMean(Estimator):
    """A radius, the median within it, a radius around that: then a clipped mean.

    After DY23, with constants of our own. (1) An eighth of the budget: the first 2^j that holds
    3n/4 of the magnitudes, by the sparse vector technique. (2) A quarter: the median in [-2^j, 2^j]
    by the exponential mechanism, up to the precision of doubles. (3) An eighth: the first 2^i that
    holds n - s of the distances from it, s = 2 b ln(1/beta) for noise of scale b. (4) Half: clip to
    the median +- 2^i, average, add noise of sensitivity 2 2^i/n.

    Each step is private on its own, given what the earlier ones released, and their costs add up;
    see `radius_of_most`, `private_quantile`, `noisy_clipped_mean`.

    The noises of a threshold and a count differ by more than s with probability at most beta
    (e^(-s/(2b)), by a union bound): a radius that holds all records is passed over as rarely, and
    then for one that may be far larger. Of K = 2 most + 1 powers none is taken too early by more
    than a = 2 b ln((K + 1)/beta), with the same probability. So at most s + a records are clipped,
    and the radius is at most twice what is needed. K is the logarithm of the range, and a that of
    K. Only the median pays the logarithm of |mu| over the spread, in n, as a pure-DP estimator
    must: n records move to any of |mu|/spread places, and group privacy costs e^(epsilon n).

    Parameters
    ----------
    most : int
        The powers are 2^-most to 2^most: by default all that doubles have, nearly.
    beta : float in (0, 1)
        Probability of a radius too large, or too small.
    """

    most: Powers = MOST
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        first, second, third, last = ledger.split(0.125, 0.25, 0.125, 0.5)
        reach = radius_of_most(sample, 0.0, 0.75 * sample.n, self.most, first)
        centre = private_quantile(sample, 0.5, -reach, reach, PRECISION * reach, second)
        left_out = 4 / third.budget.pure_epsilon * np.log(1 / self.beta)
        radius = radius_of_most(sample, centre, sample.n - left_out, self.most, third)
        return noisy_clipped_mean(sample, centre, radius, last)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # As many records at 0 as the last radius wants, and one more.
        left_out = 4 / budget.fraction(0.125).pure_epsilon * np.log(1 / self.beta)
        far = np.where(np.arange(n) < n - int(min(left_out, n - 1)), 0.0, 1e6)
        # A radius of 2, and a record that goes from end to end of it.
        apart = np.append(np.where(np.arange(n - 1) % 2, 1.0, -1.0), -1e6)
        return [
            Pair.replacing("at_the_radius", far, n - 1, 0.0),
            Pair.replacing("ends_of_the_radius", apart, n - 1, 1e6),
        ]


@validated
class ApproximateBoundsMean(Estimator):
    """Bounds from a histogram of powers of two, then a clipped mean: WZLDSG20.

    What libraries do where no bounds are given. Half of the budget: counts of the records by sign
    and power of two; a replaced record leaves one and enters another. The bounds are the
    ends of the first and the last bin whose count with noise exceeds what noise alone exceeds in
    none of them with probability `success`. The other half: clip to the bounds, average, add noise
    of their distance over n. For records far from 0 that is about |mu|/n, however close they are.

    Parameters
    ----------
    most : int
        The powers are 2^-most to 2^most, on either side of 0.
    success : float in (0, 1)
        Probability that no empty bin counts. Fewer records than some ln(2 most/(1 - success)) times
        4/epsilon are in no bin, and nothing is released.
    """

    most: Powers = MOST
    success: Annotated[float, Field(gt=0, lt=1)] = 1 - 1e-9

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(0.5, 0.5)
        below, above = magnitudes(sample, most=self.most).transpose(1, 0, 2)
        counts = np.concatenate([below[:, ::-1], above], axis=1)
        chance = -np.expm1(np.log(self.success) / counts.shape[1])
        threshold = coarse.budget.noise_tail(np.asarray(chance), L1, L2)
        full = coarse.add_noise(counts, L2, l1=L1) > threshold
        sizes = powers(self.most)
        ends = np.concatenate([-sizes[::-1], [0.0], sizes])  # of the bins, one more than those
        found = full.any(axis=1)
        low = ends[full.argmax(axis=1)]
        high = ends[len(ends) - 1 - full[:, ::-1].argmax(axis=1)]
        centre = np.where(found, low / 2 + high / 2, np.nan)
        return noisy_clipped_mean(sample, centre, np.where(found, high / 2 - low / 2, 1.0), fine)
