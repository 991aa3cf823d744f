"""Heavy-tailed scalars with an unknown location: a private range, then a clipped mean.

Source: KSU20, Algorithms 1 and 2, Theorems 3.3 to 3.7. The distribution of a record X has mean mu
in [-R, R] and E|X - mu|^k <= scale^k. Formulas are those of KSU20 for scale = 1: lengths other than
R are in units of scale, and so is alpha, the error sought.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MeanWithin, MomentSpread
from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.heavy_tailed import best_clip
from dpbench.estimators.moment_bins import MISS, MomentBins
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import audit_pairs, smallest_passing
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, MomentScale, Probability, validated
from dpbench.samples import Bins, Sample

__all__ = [
    "LARGEST_ALPHA",
    "Alpha",
    "Constants",
    "KSU20Mean",
    "KSU20RangeEstimate",
    "smallest_alpha",
]

Alpha = Annotated[float, Field(ge=1e-100, le=1)]
Constants = Literal["paper", "practical"]

# Half width r of a bin, in units of alpha^(-1/(k-1)).
HALF_BIN = {"paper": 10.0, "practical": 2.0}
# The lemmas of KSU20 hold for alpha below 1/16; `practical` has no guarantee.
LARGEST_ALPHA = {"paper": 1 / 16, "practical": 1.0}


def _mean_budget(budget: Budget) -> Budget:
    """Return the budget that sets the noise of the clipped mean.

    Under (epsilon, delta) it is pure DP with the same epsilon, because KSU20 use Laplace noise.
    Other budgets are returned unchanged.
    """
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def smallest_alpha(needed: Callable[[float], float], n: float, constants: Constants) -> float:
    """Return the smallest error alpha that an estimator can reach with n records.

    `needed` maps alpha to the number of records needed, which decreases as alpha grows. The largest
    error that is allowed is 1/16 for the constants ``paper``, and 1 for ``practical``. It is
    returned if even this error needs more than n records.
    """
    from scipy.optimize import brentq

    def missing(log_alpha: float) -> float:
        return float(np.log(needed(float(np.exp(log_alpha))) / n))

    largest = np.log(LARGEST_ALPHA[constants])
    if missing(largest) >= 0:
        return LARGEST_ALPHA[constants]
    return float(np.exp(brentq(missing, -0.5 * np.log(n) - 1, largest, xtol=1e-12)))


@validated
class _BinBasedEstimator(NeedsRadius):
    """Base class of estimators that locate the mean in histogram bins of width 2r.

    Records X have the unknown mean mu. The bins begin at -R - 2r, for a public bound R on abs(mu).

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment: the mean of |X - mu|^k is at most scale^k.
    scale : float > 0
        Bound on the k-th root of the central moment of order k, in the unit of the data. For k = 2
        it bounds the standard deviation.
    radius : float >= 0 or None
        Public bound R on abs(mu), in the unit of the data. None, without a bound, is possible under
        (epsilon, delta) only.
    constants : {'paper', 'practical', 'tuned'}
        Rule for r, half the width of a bin in units of `scale`, at an error alpha. ``paper``:
        10/alpha^(1/(k-1)). ``practical``: 2/alpha^(1/(k-1)). ``tuned``, for `KSU20Mean` only:
        2^(1/k), because half of all records are within that distance of the mean.
    """

    k: MomentOrder
    scale: MomentScale
    constants: Constants | Literal["tuned"] = "practical"

    @abstractmethod
    def accuracy(self, n: int, budget: Budget) -> float:
        """Return the error alpha that the estimator seeks with n records, in units of `scale`.

        The error sets the width of the bins. The budget is that of the whole estimator.
        """

    def bins(self, alpha: float) -> tuple[Bins, float]:
        """Return the histogram bins for an error alpha, and half the width of a bin.

        The error is in units of `scale`, and the bins are in the unit of the data.
        """
        if self.constants == "tuned":
            r = self.scale * float(2 ** (1 / self.k))
        else:
            r = self.scale * float(HALF_BIN[self.constants] * alpha ** (-1 / (self.k - 1)))
        reach = np.inf if self.radius is None else self.radius + 2 * r
        return Bins(2 * r, -reach, reach), r

    def _moment_bins(self, alpha: float) -> MomentBins:
        """Return what is public about the counts of the histogram for an error alpha."""
        bins, r = self.bins(alpha)
        near = self._near(r / self.scale)
        return MomentBins.within(near, self.k, r / self.scale, float(bins.count))

    def _near(self, r: float) -> float:
        """Return D: a bin is wrong if all its points are farther than D from mu.

        D and r, half the width of a bin, are in units of `scale`.
        """
        return r

    @property
    def _wrong_bin(self) -> float:
        """Largest probability of a wrong bin; a histogram with a larger one declares failure."""
        return MISS

    def histogram_needs(self, alpha: float, budget: Budget) -> float:
        """Return how many records locate a bin near the mean, by `MomentBins.records`.

        The error sought, alpha in (0, 1], gives the width of the bins. The budget is that of the
        histogram.
        """
        return self._moment_bins(alpha).records(budget, self._wrong_bin)

    def _fullest_bin(self, sample: Sample, alpha: float, ledger: Ledger) -> Floats:
        """Release the left end of the fullest bin, NaN if it may be wrong; spend the ledger."""
        bins, miss = self.bins(alpha)[0], self._wrong_bin
        return self._moment_bins(alpha).fullest(sample, bins, ledger, miss)

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        spread = MomentSpread(self.k, self.scale)
        return [spread] if self.radius is None else [spread, MeanWithin(self.radius, spread)]

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        alpha = self.accuracy(n, budget)
        held, _, miss = self._moment_bins(alpha).lead(n, budget, self._wrong_bin)
        return audit_pairs(n, self.bins(alpha)[0], budget, held=held, miss=miss)


@validated
class KSU20RangeEstimate(_BinBasedEstimator):
    """Private range that holds the mean and nearly all records: KSU20, Algorithm 1.

    Let [a, b] be the fullest bin, of width 2r, of a private histogram. The released range is
    [a - 2r, b + 2r], and the released value is its midpoint. Except with probability 0.1 the
    midpoint is within 2r of the mean, or nothing is released (NaN). Then the mean is at least r
    away from both ends of the range. `dpbench.estimators.moment_bins` bounds the probability of a
    wrong bin by public numbers, with D = r. With noise on all bins nothing is released if the bound
    exceeds 0.1, which means for less than `histogram_needs` records. A stability-based histogram,
    always used without a radius, releases nothing if no bin passes its threshold.
    KSU20 call the algorithm PDPRE under pure DP, CDPRE under zCDP and ADPRE under (epsilon, delta).

    Parameters
    ----------
    alpha : float in (0, 1]
        Share of the records that may lie outside the range. alpha is also the error sought for a
        mean of records clipped to the range. A smaller value makes the range wider.
    """

    alpha: Alpha
    constants: Constants = "paper"

    def accuracy(self, n: int, budget: Budget) -> float:
        return self.alpha

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        _, r = self.bins(self.alpha)
        middle = self._fullest_bin(sample, self.alpha, ledger) + r
        return Estimate(middle, middle, interval=(middle - 3 * r, middle + 3 * r), accuracy=2 * r)

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        return {"range": float(self.working_records(1, budget))}

    def working_records(self, d: int, budget: Budget) -> int:
        return int(np.ceil(self.histogram_needs(self.alpha, budget)))


@validated
class KSU20Mean(_BinBasedEstimator):
    """KSU20 mean for heavy tails: median of means clipped to private ranges (Algorithm 2).

    Records X have the mean mu, with E|X - mu|^k <= scale^k. The records are split into two halves,
    and each half into m groups. Every group of one half is paired with a group of the other half.
    The first group of a pair gives a range by `KSU20RangeEstimate`. The records of the second group
    are clipped to the interval of half width w around the midpoint of the range. Their mean is
    released with noise for the sensitivity 2w divided by the size of the group. (The listing in the
    paper divides by n.) The value is the median of the m releases. If a pair has no range, its
    release counts as infinite.

    The groups are disjoint, so each mechanism has the whole budget. KSU20 call the algorithm
    PDPODME, CDPODME and ADPODME under pure DP, zCDP and (epsilon, delta). Under (epsilon, delta)
    the noise of the means is Laplace noise.

    With ``paper`` constants the interval is the range, and w = 3r. With the other constants w = r +
    4^(1/k) + T, in units of scale. Here r is half the width of a bin. By Markov's inequality a bin
    that holds a quarter of the records is within 4^(1/k) of mu. So records within T of mu are not
    clipped:

    - ``practical``: T = ((k-1)/k) (n/(2q))^(1/k) for n records in the half. Here q is the 1 - beta
      quantile of the absolute noise at sensitivity 1.
    - ``tuned``: r = 2^(1/k). T is the clip of `TunedClippedMean` with ``minimax``, for a mean
      within r + 4^(1/k) of 0. A tenth of the records locate the range, or as many as the method
      `histogram_needs` returns if that is more, but at most half. The rest are averaged.

    A histogram with too few records declares failure by the public bound of
    `dpbench.estimators.moment_bins`. With ``paper`` constants D = r, and the range of a group is
    wrong with probability at most 0.1. With the other constants D = 8^(1/k). Except with
    probability beta, the middle of the range is within r + 8^(1/k) of mu, or nothing is released
    (NaN). Then records within T + 4^(1/k) - 8^(1/k) of mu are not clipped. Without a radius the
    histogram is stability-based. With too few records it usually releases nothing, because no bin
    passes its threshold.

    Parameters
    ----------
    alpha : float in (0, 1], optional
        Error sought, in units of `scale`; by default the smallest error for which n records
        suffice, see the method `terms`. With ``tuned`` constants it has to be left out.
    constants : {'paper', 'practical', 'tuned'}
        ``paper``: bins of half width r = 10/alpha^(1/(k-1)), and m = ceil(200 ln(2/beta)) groups.
        The error is then at most alpha with probability 1 - beta if alpha < 1/16 and n suffices
        (Theorem 3.5). ``practical``: r = 2/alpha^(1/(k-1)), m = 1, and a clip that grows with n.
        ``tuned``: r = 2^(1/k), m = 1, the best clip of `TunedClippedMean`, and most of the records
        for the mean.
    beta : float in (0, 1)
        Probability that the error exceeds the error sought. With ``paper`` constants a smaller
        value means more groups. With the others it is also the largest probability of a wrong bin.
    """

    alpha: Alpha | None = None
    beta: Probability = 0.1

    @model_validator(mode="after")
    def _no_alpha(self) -> Self:
        if self.constants == "tuned" and self.alpha is not None:
            raise ValueError(f"tuned constants depend on no alpha, got {self.alpha}")
        return self

    @property
    def groups(self) -> int:
        """Number m of groups into which each half of the records is split."""
        return int(np.ceil(200 * np.log(2 / self.beta))) if self.constants == "paper" else 1

    def count_averaged(self, n: int, budget: Budget) -> int:
        """Return the number of records that are averaged; the other records locate the range.

        The budget is that of the whole estimator.
        """
        if self.constants != "tuned":
            return n // 2
        needed = min(self.histogram_needs(1.0, budget), n / 2)
        return n - int(np.ceil(max(needed, n / 10)))

    @property
    def _parts(self) -> int:
        """Number of equal parts into which the records are split.

        With ``paper`` constants each group of each half is a part. With other constants all records
        form one part. The method `terms` returns numbers of records of one part.
        """
        return 2 * self.groups if self.constants == "paper" else 1

    def terms(self, alpha: float, n: float, budget: Budget) -> tuple[float, float, float]:
        """Return the numbers of records that sampling, noise and range need for an error alpha.

        Records X have the mean mu in [-R, R], with E|X - mu|^k <= 1 in units of `scale`. Let q be
        the 0.9 quantile of the absolute noise at sensitivity 1, which is ln(10)/epsilon for pure
        DP. With ``paper`` constants the numbers are for one group of one half of the records:

        - sampling: 90/alpha^2 (Chebyshev's inequality at 0.1 for an error alpha/3);
        - noise: 180 q/alpha^(k/(k-1)). The clip is 3r to each side, r = 10/alpha^(1/(k-1)). So the
          0.9 quantile of the noise is 6r q/N for N records, which is alpha/3 at
          N = 180 q/alpha^(k/(k-1));
        - range: the number that `histogram_needs` returns.

        With ``practical`` constants the numbers are 1/alpha^2, 1/(epsilon alpha^(k/(k-1))) and
        ln(1 + R)/epsilon, for all records. They have no guarantee, and only set the width of the
        bins. For notions other than pure DP, q/ln(10) replaces 1/epsilon. The last number is then
        the 1 - 1/(1 + R) quantile of the absolute noise at sensitivity 1, or under (epsilon, delta)
        the 1 - delta quantile.

        The needed numbers may depend on n, by logarithms. The error sought is alpha in (0, 1], and
        the budget is that of the whole estimator.
        """
        mean_budget = _mean_budget(budget)
        q = mean_budget.noise_quantile(0.1)
        power = float(alpha ** (-self.k / (self.k - 1)))
        if self.constants == "paper":
            return 90 / alpha**2, 180 * q * power, self.histogram_needs(alpha, budget)
        radius = min((self.radius or 0.0) / self.scale, 1e300)
        probability = budget.delta if isinstance(budget, ApproxDP) else 1 / (1 + radius)
        tail = float(mean_budget.noise_tail(np.asarray(probability / 2), 1.0, 1.0))
        return 1 / alpha**2, float(q / np.log(10)) * power, tail

    def least_records(self, d: int, budget: Budget) -> int:
        return max(super().least_records(d, budget), 2 * self.groups)

    def _near(self, r: float) -> float:
        return r if self.constants == "paper" else float(8 ** (1 / self.k))

    @property
    def _wrong_bin(self) -> float:
        return MISS if self.constants == "paper" else self.beta

    def working_records(self, d: int, budget: Budget) -> int:
        if self.constants == "practical" and self.alpha is None:

            def fails(n: int) -> bool:
                bins = self._moment_bins(self.accuracy(n, budget))
                return not bins.works(bins.lead(n - n // 2, budget, self._wrong_bin), budget)

            return smallest_passing(fails)
        # For less records than a range needs, ``paper`` seeks the largest alpha.
        alpha = self.alpha or LARGEST_ALPHA["paper" if self.constants == "paper" else "practical"]
        return 2 * self.groups * int(np.ceil(self.histogram_needs(alpha, budget))) - 1

    def accuracy(self, n: int, budget: Budget) -> float:
        if self.constants == "tuned":
            return 1.0  # an arbitrary value, because the bins do not depend on alpha
        if self.alpha is not None:
            return self.alpha
        size = n / self._parts
        return smallest_alpha(lambda a: sum(self.terms(a, size, budget)), size, self.constants)

    def promise(self, n: int, budget: Budget) -> float | None:
        """Return the error that KSU20, Theorem 3.5, guarantees with n records, or None.

        The error is in the unit of the data. A guarantee exists for ``paper`` constants and enough
        records. The error of the estimate exceeds the guaranteed error with probability at most
        beta. Both halves together have n records, and the budget is that of the whole estimator.
        """
        alpha, size = self.accuracy(n, budget), n / self._parts
        applies = self.constants == "paper" and alpha < LARGEST_ALPHA["paper"]
        enough = sum(self.terms(alpha, size, budget)) <= size * (1 + 1e-9)
        return self.scale * alpha if applies and enough else None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        averaged = self.count_averaged(sample.n, ledger.budget)
        if averaged < self.groups:
            raise ValueError(f"{sample.n} records cannot fill two halves of {self.groups} groups")
        alpha = self.accuracy(sample.n, ledger.budget)
        _, r = self.bins(alpha)
        # Replacing a record changes one group of one half, so each part has the whole budget.
        parts = iter(ledger.parallel(4))
        ranges, means = sample.split([sample.n - averaged, averaged], ledger.rng)
        middles = r + ranges.by_group(
            self.groups, ledger.rng, lambda rows: self._fullest_bin(rows, alpha, next(parts))
        )
        releases = []
        for rows in means.groups(self.groups, ledger.rng):
            centres, middles = np.split(middles, [rows.trials // sample.trials], axis=1)
            (fine,) = next(parts).split(_mean_budget(ledger.budget))
            width = self._half_width(rows.n, r, fine.budget)
            group_mean = noisy_clipped_mean(rows, centres.reshape(-1), width, fine)
            values = np.stack([group_mean.value, group_mean.before_noise])
            releases.append(values.reshape(2, sample.trials, -1))
        released = np.concatenate(releases, axis=2)
        middle = np.median(np.where(np.isnan(released), np.inf, released), axis=2)
        value, before = np.where(np.isfinite(middle), middle, np.nan)
        return Estimate(value, before, accuracy=self.promise(sample.n, ledger.budget))

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        alpha /= self.scale
        # Half of the records, in equal groups, fill histograms if all of them are needed.
        located = 2 * self.groups * np.ceil(self.histogram_needs(min(alpha, 1.0), budget))
        if self.constants == "tuned":
            mean = _mean_budget(budget)
            _, error = best_clip(self.k, 0.0, beta, 0.9 / mean.noise_quantile(beta), mean)
            power = float((error / alpha) ** (self.k / (self.k - 1)))
            return {"privacy": power, "range": float(located)}
        _, privacy, _ = self.terms(alpha, n / self._parts, budget)
        return {"privacy": self._parts * privacy, "range": float(located)}

    def _half_width(self, n: int, r: float, budget: Budget) -> float:
        """Return half the width of the clip of n records, for histogram bins of half width r.

        Both lengths are in the unit of the data.
        """
        if self.constants == "paper":
            return 3 * r
        effective = n / budget.noise_quantile(self.beta)
        located = r / self.scale + 4 ** (1 / self.k)
        if self.constants == "tuned":
            t = best_clip(self.k, located, self.beta, effective, budget)[0]
        else:
            t = (self.k - 1) / self.k * (effective / 2) ** (1 / self.k)
        return self.scale * float(located + t)
