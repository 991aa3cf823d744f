"""Heavy-tailed scalars with an unknown location: a private range, then a clipped mean.

KSU20, Algorithms 1 and 2, Theorems 3.3 to 3.7, for E|X - mu|^k <= 1, mu in [-R, R] and error alpha.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.heavy_tailed import best_clip
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import L1, L2, audit_pairs, private_mode_bin, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, Probability, validated
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
    """Return the budget of the mean: under (epsilon, delta) pure DP, for Laplace noise as KSU20."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def smallest_alpha(needed: Callable[[float], float], n: float, constants: Constants) -> float:
    """Return the smallest error for which n records suffice.

    Parameters
    ----------
    needed : callable
        Number of records needed for an error alpha; decreasing in alpha.
    n : float
        Number of records.
    constants : {'paper', 'practical'}
        Choice of the largest alpha that is allowed.

    Returns
    -------
    float
        The largest alpha allowed, 1/16 or 1, if even that needs more than n records.
    """
    from scipy.optimize import brentq  # a slow import

    def missing(log_alpha: float) -> float:
        return float(np.log(needed(float(np.exp(log_alpha))) / n))

    largest = np.log(LARGEST_ALPHA[constants])
    if missing(largest) >= 0:
        return LARGEST_ALPHA[constants]
    return float(np.exp(brentq(missing, -0.5 * np.log(n) - 1, largest, xtol=1e-12)))


@validated
class _InBins(NeedsRadius):
    """Base class of estimators that locate the mean in bins of width 2r, aligned at -R - 2r.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment: the mean of |X - mu|^k is at most 1, so data have to be
        scaled.
    radius : float >= 0 or None
        Public bound R on abs(mu). None, without a bound, is possible under (epsilon, delta) only.
    constants : {'paper', 'practical', 'tuned'}
        Half width r of a bin. ``paper``: 10/alpha^(1/(k-1)). ``practical``: 2/alpha^(1/(k-1)).
        ``tuned``, for `KSU20Mean` only: 2^(1/k), because half of all records are within that
        distance of the mean.
    """

    k: MomentOrder
    constants: Constants | Literal["tuned"] = "practical"

    @abstractmethod
    def accuracy(self, n: int, budget: Budget) -> float:
        """Return the error alpha that is sought with n records.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Privacy budget of the whole estimator.

        Returns
        -------
        float
        """

    def bins(self, alpha: float) -> tuple[Bins, float]:
        """Return the bins for an error alpha, and half of their width, r."""
        if self.constants == "tuned":
            r = float(2 ** (1 / self.k))
        else:
            r = float(HALF_BIN[self.constants] * alpha ** (-1 / (self.k - 1)))
        reach = np.inf if self.radius is None else self.radius + 2 * r
        return Bins(2 * r, -reach, reach), r

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        return audit_pairs(n, self.bins(self.accuracy(n, budget))[0], budget)


@validated
class KSU20RangeEstimate(_InBins):
    """Private range that holds the mean and nearly all records: KSU20, Algorithm 1.

    If [a, b] is the fullest bin of a private histogram, the range is [a - 2r, b + 2r]. KSU20 call
    the algorithm PDPRE under pure DP, CDPRE under zCDP and ADPRE under (epsilon, delta). The value
    is the midpoint of the range. It is promised to be within 2r of the mean; then the mean is at
    least r away from both ends.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share of the records that may lie outside the range, or the accuracy sought for the mean
        later. A smaller value makes the range wider.
    """

    stream_name: ClassVar[str] = "KSU20Range"

    alpha: Alpha
    constants: Constants = "paper"

    def accuracy(self, n: int, budget: Budget) -> float:
        return self.alpha

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bins, r = self.bins(self.alpha)
        middle = private_mode_bin(sample, bins, ledger) + r
        return Estimate(middle, middle, interval=(middle - 3 * r, middle + 3 * r), accuracy=2 * r)


@validated
class KSU20Mean(_InBins):
    """KSU20 mean for heavy tails: median of means clipped to private ranges (Algorithm 2).

    The records are split into two halves, and each half into m groups. Every group of one half
    gives a range of width 6r by `KSU20RangeEstimate`. A group of the other half is clipped to that
    range, and its mean is released with noise of sensitivity 6r over the size of the group. (The
    listing in the paper divides by n.) The value is the median of the m releases. The groups are
    disjoint, so each mechanism has the whole budget. KSU20 call the algorithm PDPODME, CDPODME and
    ADPODME under the three notions; under (epsilon, delta) the noise of the means is Laplace noise.
    A group without a range counts as infinite in the median.

    The clip for ``practical`` and ``tuned`` constants. By Markov's inequality a bin that holds a
    quarter of the records is within 4^(1/k) of the mean. So the half width is r + 4^(1/k) + T,
    where records within T of the mean are not clipped:

    - ``practical``: T = ((k-1)/k) (n/(2q))^(1/k) for n records in the half and q the 1 - beta
      quantile of the noise at sensitivity 1.
    - ``tuned``: r = 2^(1/k). By Markov's inequality [mu - r, mu + r] holds half of the records, and
      it touches two bins, so one of them holds a quarter. T is that of ``minimax`` in
      `TunedClippedMean` for R = r + 4^(1/k). A tenth of the records (or as many as
      `histogram_needs`, at most half) locate the range; the rest are averaged.

    Parameters
    ----------
    alpha : float in (0, 1], optional
        Error sought, in units of the k-th root of the moment; by default the smallest for which n
        suffices, see `terms`. With ``tuned`` constants it has to be left out.
    constants : {'paper', 'practical', 'tuned'}
        ``paper``: bins of half width r = 10/alpha^(1/(k-1)), m = ceil(200 ln(2/beta)) groups, and
        the error is at most alpha with probability 1 - beta if alpha < 1/16 and n suffices (Theorem
        3.5). ``practical``: r = 2/alpha^(1/(k-1)), m = 1, and a clip that grows with n. ``tuned``:
        r = 2^(1/k), m = 1, the best clip of `TunedClippedMean`, and most of the records for the
        mean.
    beta : float in (0, 1)
        Probability that the error exceeds the one sought; a smaller value means more groups.
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
        """Number m of groups in each half."""
        return int(np.ceil(200 * np.log(2 / self.beta))) if self.constants == "paper" else 1

    def averaged(self, n: int, budget: Budget) -> int:
        """Return how many records are averaged; the others locate the range.

        Parameters
        ----------
        n : int
            Number of records.
        budget : Budget
            Privacy budget of the whole estimator.

        Returns
        -------
        int
        """
        if self.constants != "tuned":
            return n // 2
        needed = min(self.histogram_needs(1.0, n, budget), n / 2)
        return n - int(np.ceil(max(needed, n / 10)))

    @property
    def _parts(self) -> int:
        """Number of parts of the records; `terms` applies to one (`paper`: a group of a half)."""
        return 2 * self.groups if self.constants == "paper" else 1

    def terms(self, alpha: float, n: float, budget: Budget) -> tuple[float, float, float]:
        """Return the numbers of records that sampling, noise and range need for an error alpha.

        ``paper``, for one group of one half, q the 0.9 quantile of the noise at sensitivity 1,
        which is ln(10)/epsilon for pure DP:

        - sampling: 90/alpha^2 (Chebyshev's inequality at 0.1 for an error alpha/3);
        - noise: 180 q/alpha^(k/(k-1)) (the quantile 6r q/n is alpha/3);
        - range: `histogram_needs`.

        ``practical``: 1/alpha^2, 1/(epsilon alpha^(k/(k-1))) and ln(1 + R)/epsilon. For the other
        notions q/ln(10) replaces 1/epsilon, and the last is the tail of the noise at 1/(1 + R), or
        at delta.

        Parameters
        ----------
        alpha : float in (0, 1]
            Error sought.
        n : float
            Number of records at which logarithms of n are taken.
        budget : Budget
            Privacy budget of the whole estimator.

        Returns
        -------
        tuple of three float
        """
        mean_budget = _mean_budget(budget)
        q = mean_budget.noise_quantile(0.1)
        power = float(alpha ** (-self.k / (self.k - 1)))
        if self.constants == "paper":
            return 90 / alpha**2, 180 * q * power, self.histogram_needs(alpha, n, budget)
        rare = budget.delta if isinstance(budget, ApproxDP) else 1 / (1 + (self.radius or 0.0))
        tail = float(mean_budget.noise_tail(np.asarray(rare / 2), 1.0, 1.0))
        return 1 / alpha**2, float(q / np.log(10)) * power, tail

    def histogram_needs(self, alpha: float, n: float, budget: Budget) -> float:
        """Return the number of records at which the range is right with probability 0.9.

        With the constants of KSU20, all noises are below a sixteenth of that number. Under
        (epsilon, delta) also the fullest noisy count, at least 3/16 of it, is above the threshold.
        At most n bins are occupied.

        Parameters
        ----------
        alpha : float in (0, 1]
            Error sought, which gives the width of the bins.
        n : float
            Number of records at which logarithms of n are taken.
        budget : Budget
            Privacy budget of the histogram.

        Returns
        -------
        float
        """
        if isinstance(budget, ApproxDP):
            tail = L1 / budget.pure_epsilon * float(np.log(10 * n))
            return max(16 * tail, 16 / 3 * stability_threshold(budget))
        rare = 0.05 / float(self.bins(alpha)[0].count)
        return float(16 * budget.noise_tail(np.asarray(rare), L1, L2))

    def accuracy(self, n: int, budget: Budget) -> float:
        if self.constants == "tuned":
            return 1.0  # bins of ``tuned`` constants do not depend on alpha
        if self.alpha is not None:
            return self.alpha
        size = n / self._parts
        return smallest_alpha(lambda a: sum(self.terms(a, size, budget)), size, self.constants)

    def promise(self, n: int, budget: Budget) -> float | None:
        """Return the error that KSU20, Theorem 3.5 promises with n records, or None.

        Parameters
        ----------
        n : int
            Number of records, both halves together.
        budget : Budget
            Privacy budget of the whole estimator.

        Returns
        -------
        float or None
        """
        alpha, size = self.accuracy(n, budget), n / self._parts
        kept = self.constants == "paper" and alpha < LARGEST_ALPHA["paper"]
        enough = sum(self.terms(alpha, size, budget)) <= size * (1 + 1e-9)
        return alpha if kept and enough else None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        half = self.averaged(sample.n, ledger.budget)
        if half < self.groups:
            raise ValueError(f"{sample.n} records cannot fill two halves of {self.groups} groups")
        bins, r = self.bins(self.accuracy(sample.n, ledger.budget))
        # Replacing a record changes one group of one half.
        parts = iter(ledger.parallel(4))
        ranges, means = sample.split([sample.n - half, half], ledger.rng)
        middles = r + ranges.by_group(
            self.groups, ledger.rng, lambda rows: private_mode_bin(rows, bins, next(parts))
        )
        found = []
        for rows in means.groups(self.groups, ledger.rng):
            some, middles = np.split(middles, [rows.trials // sample.trials], axis=1)
            (paid,) = next(parts).split(_mean_budget(ledger.budget))
            width = self._half_width(rows.n, r, paid.budget)
            one = noisy_clipped_mean(rows, some.reshape(-1), width, paid)
            both = np.stack([one.value, one.before_noise])
            found.append(both.reshape(2, sample.trials, -1))
        released = np.concatenate(found, axis=2)
        middle = np.median(np.where(np.isnan(released), np.inf, released), axis=2)
        value, before = np.where(np.isfinite(middle), middle, np.nan)
        return Estimate(value, before, accuracy=self.promise(sample.n, ledger.budget))

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        if self.constants == "tuned":
            mean = _mean_budget(budget)
            _, one = best_clip(self.k, 0.0, beta, 0.9 / mean.noise_quantile(beta), mean)
            power = float((one / alpha) ** (self.k / (self.k - 1)))
            return {"privacy": power, "range": self.histogram_needs(alpha, n, budget)}
        _, privacy, reach = self.terms(alpha, n / self._parts, budget)
        return {"privacy": self._parts * privacy, "range": self._parts * reach}

    def _half_width(self, n: int, r: float, budget: Budget) -> float:
        if self.constants == "paper":
            return 3 * r
        located, effective = r + 4 ** (1 / self.k), n / budget.noise_quantile(self.beta)
        if self.constants == "tuned":
            return located + best_clip(self.k, located, self.beta, effective, budget)[0]
        return float(located + (self.k - 1) / self.k * (effective / 2) ** (1 / self.k))
