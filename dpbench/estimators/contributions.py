"""Means of people with different numbers of records, where a cap limits the weight of a person.

**Setting.** Person i of n has m_i >= 1 records in [lower, upper]. Neighbours replace one person:
all the person's records, and their number. The number n of people is public, the m_i are private.
Let c be the middle of the interval and h half its width.

**Contribution.** Let w_i = min(m_i, cap) be the weight of person i, and u_i in [-1, 1] the clipped
and scaled mean (mean_i - c)/h of the person's records. The contribution is s_i = w_i u_i, clipped
to [-C, C]. So |s_i| <= min(C, w_i), for C <= cap. The estimate is c + h A/N, where A is the sum of
the s_i and N the sum of the w_i. Both are private, because the m_i are.

**Sensitivity.** The pair (A, a N) is released at once, with a public factor a > 0. Let person i be
replaced, with the weights k and k' <= k. Then A moves by up to min(C, k) + min(C, k'), and N by
k - k'. Moving k to cap makes both larger. So the sensitivities are the largest values, over the
whole numbers k' from 1 to cap, of

    l1:   f + a g,    l2:   sqrt(f^2 + a^2 g^2),    f = min(C, cap) + min(C, k'), g = cap - k'.

Both are convex in k' from 1 to C and from C to cap. So the maximum is at k' = 1, at k' = cap, or at
a whole number next to C. `joint_sensitivity` compares these.

**A free count.** Let C = cap. For a <= 1 the l1 sensitivity is 2 cap, and for a <= sqrt(3) the l2
sensitivity is 2 cap: f = cap + k' gives f + g = 2 cap, and f^2 + 3 g^2 = 4 (cap^2 - k' (cap - k')).
These are the sensitivities of A alone. So the private count costs no noise in A, and a takes these
values. Splitting the budget between A and N would double the Laplace noise of A.

**Choice of a for C < cap.** The error is h (Z - v Z_N/a)/N to first order, for the noises Z and Z_N
of equal variance, and v = A/N. Let v = C/cap, the largest |A/N| at which no contribution is
clipped for people of full weight. Let b = cap - max(C, 1). At k' = max(C, 1) the squared error is
proportional to (2C + a b)^2 (1 + v^2/a^2) for Laplace noise and (4C^2 + a^2 b^2)(1 + v^2/a^2) for
Gaussian noise. The minima are at a^3 = 2 C v^2/b and at a^2 = 2 C v/b. Larger values than 1 and
sqrt(3) are not used. This choice affects the accuracy, but not the privacy.

**Other choices.** CFMT22 weights people by truncated inverse variances. RT26 minimises the worst
error over all datasets instead of a mean square error under a distribution.

**Equal weights.** With w_i = 1 the count N = n is public. A replaced person moves A/n by at most
2 min(C, 1)/n. A cap then only limits the records that are averaged, and needs no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator, noisy_clipped_mean
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.people import people_in

__all__ = ["BoundedContributionMean", "count_factor", "joint_sensitivity", "release_ratio"]


def joint_sensitivity(reach: float, cap: int, factor: float) -> tuple[float, float]:
    """Return the l1 and the l2 sensitivity of a sum of contributions and a scaled sum of weights.

    The weight of a person is from 1 to `cap`. A contribution is at most the person's weight and at
    most C = `reach` in absolute value, with C in (0, cap]. The sum of weights is multiplied by
    a = `factor`. The docstring of `dpbench.estimators.contributions` derives the sensitivities.
    """
    candidates = {1, cap, *(k for k in (math.floor(reach), math.ceil(reach)) if 1 <= k <= cap)}
    moves = [(min(reach, cap) + min(reach, k), factor * (cap - k)) for k in candidates]
    return max(f + g for f, g in moves), max(math.hypot(f, g) for f, g in moves)


def count_factor(reach: float, cap: int, *, gaussian: bool) -> float:
    """Return the factor a of the sum of weights that makes the error of the ratio small.

    See `joint_sensitivity` for the parameters. `gaussian` is False for Laplace noise.
    """
    largest, ratio, gap = math.sqrt(3) if gaussian else 1.0, reach / cap, cap - max(reach, 1.0)
    if gap <= 0:
        return largest
    best = math.sqrt(2 * reach * ratio / gap) if gaussian else math.cbrt(2 * reach * ratio**2 / gap)
    return min(largest, best)


def release_ratio(
    means: Floats, weights: Floats, reach: float, cap: int, ledger: Ledger
) -> tuple[Floats, Floats]:
    """Release the weighted mean of numbers in [-1, 1], with private weights.

    `means` and `weights` have an entry for each person, of shape (trials, n). A weight is a whole
    number from 1 to `cap`. A contribution, a number times its weight, is clipped to +-`reach`. The
    whole ledger is spent. The noisy ratios and the ratios before noise are returned, where the
    noisy count is clipped to [n, n cap].
    """
    n = means.shape[1]
    contributions = np.clip(weights * means, -reach, reach).sum(axis=1)
    count = weights.sum(axis=1)
    gaussian = ledger.budget.gaussian(*joint_sensitivity(reach, cap, 1.0))
    factor = count_factor(reach, cap, gaussian=gaussian)
    l1, l2 = joint_sensitivity(reach, cap, factor)
    noisy = ledger.add_noise(np.stack([contributions, factor * count], axis=1), l2, l1=l1)
    noisy_count = np.clip(noisy[:, 1] / factor, n, n * float(cap))
    return noisy[:, 0] / noisy_count, contributions / count


@validated
class BoundedContributionMean(_ClippingEstimator):
    """Mean of people with bounded contributions: a sum over a count, with a cap (WZLDSG20, AKMV19).

    WZLDSG20 and AKMV19, theorem numbers not checked. Each person contributes the mean of their
    records, times a weight of at most `cap`. The docstring of `dpbench.estimators.contributions`
    derives the noise. (WZLDSG20 splits the budget between the sum and the count. Under replaced
    people one joint release has half of the Laplace noise.)

    A sample holds people (`dpbench.samples.PeopleSample`), or rows as `dpbench.samples.person_rows`
    arranges them. If it holds numbers, each is the mean of a person, and all weights are equal.

    If the number of records of a person is independent of the values, all weights estimate one
    mean. Otherwise ``equal`` estimates the mean over people of their means. The other weights
    estimate a mean over records, in which a person counts for at most `cap` records.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval, lower < upper, in the unit of the data, to which the mean of a person
        is clipped. Choose them without looking at the data.
    cap : int in [1, 1e6]
        Largest weight of a person. Its noise is proportional to it, unless `weights` is ``equal``.
        Choose it without looking at the data; `dpbench.planner.best_cap` chooses it for a law.
    weights : {'records', 'capped', 'equal'}
        Weight of a person with m records. ``records``: the number min(m, cap) of records that are
        kept; the others are dropped without looking at their values. ``capped``: also min(m, cap),
        but the person's mean is the mean of all m records. ``equal``: 1, with the mean of the kept
        records.
    clip : float > 0, optional
        Bound on the absolute value of a contribution, the weight times the distance of the person's
        mean from the middle of the interval, in the unit of the data. None (the default): the
        largest possible value, which is the largest weight times (upper - lower)/2.
    """

    cap: Annotated[int, Field(ge=1, le=10**6)]
    weights: Literal["records", "capped", "equal"] = "records"
    clip: Annotated[float, Field(gt=0, le=1e300)] | None = None
    multivariate: ClassVar[bool] = True
    bounded_in: ClassVar[None] = None

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return ()

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        # Rows of people hold a number of records first, and end with zeros.
        return super().assumptions(n, d) if d == 1 else ()

    @property
    def _half_width(self) -> float:
        return self.upper / 2 - self.lower / 2

    def reach(self, largest_weight: int) -> float:
        """Return the bound on a contribution in units of (upper - lower)/2.

        The largest weight of a person is 1 or `cap`. The bound is in (0, largest_weight].
        """
        if self.clip is None:
            return float(largest_weight)
        smallest = float(np.finfo(float).tiny)
        return min(max(self.clip / self._half_width, smallest), float(largest_weight))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        centre, half, people = self.lower / 2 + self.upper / 2, self._half_width, people_in(sample)
        if people is None:
            numbers = sample.columns() if sample.vectors else sample
            return noisy_clipped_mean(numbers, centre, half * self.reach(1), ledger)
        means = people.values if self.weights == "capped" else people.kept_means(self.cap)
        scaled = np.clip((np.clip(means, self.lower, self.upper) - centre) / half, -1.0, 1.0)
        if self.weights == "equal" or self.cap == 1:
            reach = self.reach(1)
            exact = np.clip(scaled, -reach, reach).mean(axis=1)
            noisy = ledger.add_noise(exact, 2 * reach / people.n)
        else:
            weights = np.minimum(people.sizes, self.cap).astype(float)
            noisy, exact = release_ratio(scaled, weights, self.reach(self.cap), self.cap, ledger)
        return Estimate(centre + half * noisy, centre + half * exact)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        """Return pairs in which a person's records and their number change, for rows of people.

        The other people have one record, at an end of the interval or in its middle.
        """
        if d is None or d < 2:
            return []
        largest, low, high = d - 1, self.lower, self.upper

        def row(number: int, value: float) -> Floats:
            return np.array([number] + number * [value] + (d - 1 - number) * [0.0], dtype=float)

        others = {"low": low, "middle": low / 2 + high / 2, "high": high}
        changes: dict[str, Any] = {
            "to_the_other_end": (row(largest, low), row(largest, high)),
            "to_one_record": (row(largest, low), row(1, high)),
            "number_alone": (row(largest, high), row(1, high)),
        }
        return [
            Pair.replacing(f"{name}_{place}", np.vstack([left, *(n - 1) * [row(1, value)]]), 0, by)
            for name, (left, by) in changes.items()
            for place, value in others.items()
            if not np.array_equal(left, by)
        ]
