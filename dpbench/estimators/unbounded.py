"""Means without public bounds on the data, for every notion of privacy.

The stability-based histogram is not used here: it also needs no bounds, but it is private only
under (epsilon, delta) with delta > 0.
"""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.geometric_histogram import (
    MAX_POWER,
    GeometricGrid,
    counts_along_line,
    private_radius_by_sparse_vector,
)
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import private_quantile
from dpbench.registry import Probability, validated
from dpbench.samples import Sample

__all__ = ["ApproximateBoundsMean", "UniversalMean"]

L1, L2 = 2.0, float(np.sqrt(2.0))  # sensitivities of a histogram: two counts change by 1
PRECISION = 2.0**-52  # relative precision of doubles
Powers = Annotated[int, Field(ge=1, le=MAX_POWER)]


@validated
class UniversalMean(Estimator):
    """Universal mean without bounds: private radius, median, second radius, clipped mean (DY23).

    The steps are the steps of DY23 with other constants (theorem numbers not checked):

    1. With 1/8 of the budget, release a radius 2^j around 0 by the sparse vector technique
       (`private_radius_by_sparse_vector`). It is the first power of two within which, by a noisy
       count, 3n/4 of the n records lie.
    2. With 1/4, release the median in [-2^j, 2^j] by the exponential mechanism, up to the precision
       of doubles (`private_quantile`).
    3. With 1/8, release a radius 2^i around that median. It is the first within which, by a noisy
       count, n - s records lie. Here s = 2 b ln(1/beta), in code `left_out`, and b = 2/epsilon is
       the scale of the noises at the epsilon of this step.
    4. With 1/2, clip the records to the median +- 2^i, average, and add noise for the sensitivity
       2^(i+1)/n.

    Each step is private given the outputs of the earlier steps, and the costs add up.

    The radius of step 3 is chosen by comparing noisy counts with a noisy threshold. For one power
    of two, count and threshold have one noise each. The two noises differ by more than s with
    probability at most e^(-s/(2b)) = beta.

    - Not too large: a radius that holds all records is passed over with probability at most beta.
      (If it is passed over, the next choice may be far larger.)
    - Not too small: let K = 2 max_power + 1 be the number of powers and a = 2 b ln((K + 1)/beta).
      By a union bound over the K + 1 noises, a power that leaves out more than s + a records is
      chosen with probability at most beta.

    With at most s + a records, which is 390/epsilon by default, these bounds say nothing. Noise may
    then choose a far too large power, and no failure is declared. Gaussian records at 5 were missed
    by more than 50 in up to 3% of releases, and by more than 1e6 in up to 1.3% (4,000 releases at
    each n from 10 to 1000, epsilon = 1; the worst n are about 100).

    So at most s + a records are clipped, and the radius is at most twice the radius needed. K is
    logarithmic in the range of the data, and a is logarithmic in K. Let mu be the mean and the
    spread a typical distance of records from mu. Only the median needs a number of records that is
    logarithmic in |mu|/spread. A packing argument shows that pure DP needs this number: there are
    |mu|/spread distinguishable locations, and group privacy over n records gives a factor
    e^(epsilon n).

    Parameters
    ----------
    max_power : int
        Largest exponent: radii are the powers 2^-max_power to 2^max_power. The default covers
        nearly all doubles.
    beta : float in (0, 1)
        Largest probability that the radius of step 3 is too large, and also that it is too small.
        With a smaller value more records may be clipped.
    """

    max_power: Powers = MAX_POWER
    beta: Probability = 0.1

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        first, second, third, last = ledger.split(0.125, 0.25, 0.125, 0.5)
        reach = private_radius_by_sparse_vector(sample, 0.0, 0.75 * sample.n, self.max_power, first)
        centre = private_quantile(sample, 0.5, -reach, reach, PRECISION * reach, second)
        left_out = 4 / third.budget.pure_epsilon * np.log(1 / self.beta)
        radius = private_radius_by_sparse_vector(
            sample, centre, sample.n - left_out, self.max_power, third
        )
        return noisy_clipped_mean(sample, centre, radius, last)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # The number of records at 0 is the number that the last radius has to hold, or one more.
        left_out = 4 / budget.fraction(0.125).pure_epsilon * np.log(1 / self.beta)
        far = np.where(np.arange(n) < n - int(min(left_out, n - 1)), 0.0, 1e6)
        # The radius is 2, and the replaced record is clipped to one end of it, then to the other.
        alternating = np.append(np.where(np.arange(n - 1) % 2, 1.0, -1.0), -1e6)
        return [
            Pair.replacing("at_the_radius", far, n - 1, 0.0),
            Pair.replacing("ends_of_the_radius", alternating, n - 1, 1e6),
        ]


@validated
class ApproximateBoundsMean(Estimator):
    """Clipped mean within bounds from a private histogram ("approximate bounds", WZLDSG20).

    The algorithm number was not checked. Libraries of private algorithms find bounds in this way if
    the user gives none. The documentation of OpenDP calls the histogram exponential.

    1. With `share` of the budget, release the counts of records in bins by sign and power of
       `base`. A replaced record leaves one bin and enters another, so l1 sensitivity is 2 and l2
       sensitivity sqrt(2). The bounds are the outer ends of the first and the last bin with a noisy
       count above a threshold. With probability `success` the noise is below the threshold in every
       bin.
    2. With the rest, clip the n records to the bounds, average, and add noise for the
       sensitivity (upper - lower)/n. Let mu be the mean. For records far from 0 the sensitivity is
       about |mu|/n, however close together the records are.

    Let c be the threshold. Records beyond a bound share bins whose noisy counts are at most c. Such
    a bin holds at most 2 c records with probability `success`, because the noise is symmetric. So
    clipping moves the mean of n records by at most 2 c/n times the sum of the distances from the
    bound to the outer ends of the occupied bins beyond it.

    Parameters
    ----------
    max_power : int
        Largest exponent: bins end at the powers base^min_power to base^max_power on either side of
        0. The default covers nearly all doubles.
    success : float in (0, 1)
        Probability that no empty bin passes the threshold. Under pure DP with fewer records than
        about (4/epsilon) ln(2 max_power/(1 - success)), it can happen that no bin passes the
        threshold. Then nothing is released (NaN).
    base : float > 1
        Ratio of neighbouring edges. With a larger base more records share a bin, so that fewer
        records are enough; the bounds are less tight. DP Wizard of OpenDP takes 10.
    min_power : int, optional
        Smallest exponent, by default -`max_power`. The first bin ends at base^min_power and begins
        at 0. DP Wizard takes 0, with `max_power` 9.
    share : float in (0, 1)
        Share of the budget that pays for the histogram.
    """

    max_power: Powers = MAX_POWER
    success: Annotated[float, Field(gt=0, lt=1)] = 1 - 1e-9
    base: Annotated[float, Field(gt=1, le=1000)] = 2.0
    min_power: Annotated[int, Field(ge=-MAX_POWER, le=MAX_POWER)] | None = None
    share: Probability = 0.5

    @model_validator(mode="after")
    def _check_powers(self) -> Self:
        grid = self._grid
        if grid.low > grid.high:
            raise ValueError(f"min_power = {grid.low} exceeds max_power = {grid.high}")
        if max(grid.high, -grid.low) * np.log2(self.base) > MAX_POWER:
            raise ValueError(
                f"base = {self.base:g} to the power {max(grid.high, -grid.low)} is beyond "
                f"2^{MAX_POWER} or its inverse; take smaller powers"
            )
        return self

    @property
    def _grid(self) -> GeometricGrid:
        low = -self.max_power if self.min_power is None else self.min_power
        return GeometricGrid(low, self.max_power, self.base)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        coarse, fine = ledger.split(self.share, 1 - self.share)
        ends, counts = counts_along_line(sample, self._grid)
        probability = -np.expm1(np.log(self.success) / counts.shape[1])
        threshold = coarse.budget.noise_tail(np.asarray(min(probability, 0.5)), L1, L2)
        occupied = coarse.add_noise(counts, L2, l1=L1) > threshold
        released = occupied.any(axis=1)
        low = ends[occupied.argmax(axis=1)]  # bin i: ends[i] to ends[i + 1]
        high = ends[len(ends) - 1 - occupied[:, ::-1].argmax(axis=1)]
        centre = np.where(released, low / 2 + high / 2, np.nan)
        return noisy_clipped_mean(sample, centre, np.where(released, high / 2 - low / 2, 1.0), fine)
