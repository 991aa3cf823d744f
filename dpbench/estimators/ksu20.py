"""Heavy tails with an unknown location: find a range, and average within.

KSU20, Algorithms 1 and 2, Theorems 3.3 to 3.7, for E|X - mu|^k <= 1, mu in [-R, R] and error alpha.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.estimators.base import Estimate, NeedsRadius, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.heavy_tailed import best_clip
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import L1, L2, audit_pairs, fullest_bin, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, Probability, validated
from dpbench.samples import Bins, Sample

__all__ = ["LARGEST_ALPHA", "Alpha", "Constants", "KSU20Mean", "KSU20Range", "smallest_alpha"]

Alpha = Annotated[float, Field(ge=1e-100, le=1)]
Constants = Literal["paper", "practical"]

# In units of alpha^(-1/(k-1)): half the width of a bin, r.
HALF_BIN = {"paper": 10.0, "practical": 2.0}
# The lemmas hold for alpha below 1/16; `practical` promises nothing.
LARGEST_ALPHA = {"paper": 1 / 16, "practical": 1.0}


def _mean_budget(budget: Budget) -> Budget:
    """What pays for the mean: Laplace noise under (epsilon, delta) too, as in KSU20."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def smallest_alpha(needed: Callable[[float], float], n: float, constants: Constants) -> float:
    """The smallest error that needs n records, or the largest allowed, where all need more."""
    from scipy.optimize import brentq  # a slow import

    def missing(log_alpha: float) -> float:
        return float(np.log(needed(float(np.exp(log_alpha))) / n))

    largest = np.log(LARGEST_ALPHA[constants])
    if missing(largest) >= 0:
        return LARGEST_ALPHA[constants]
    return float(np.exp(brentq(missing, -0.5 * np.log(n) - 1, largest, xtol=1e-12)))


@validated
class _InBins(NeedsRadius):
    """What looks for the mean in bins of width 2r, aligned at -R - 2r.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment.
    constants : {'paper', 'practical', 'tuned'}
        ``paper``: r = 10/alpha^(1/(k-1)); ``practical``: r = 2/alpha^(1/(k-1)); ``tuned``, of
        `KSU20Mean` only: r = 2^(1/k), within which of the mean are half of all records.
    """

    k: MomentOrder
    constants: Constants | Literal["tuned"] = "practical"

    @abstractmethod
    def accuracy(self, n: int, budget: Budget) -> float:
        """The alpha of n records."""

    def bins(self, alpha: float) -> tuple[Bins, float]:
        """The bins of an error alpha, and r."""
        if self.constants == "tuned":
            r = float(2 ** (1 / self.k))
        else:
            r = float(HALF_BIN[self.constants] * alpha ** (-1 / (self.k - 1)))
        reach = np.inf if self.radius is None else self.radius + 2 * r
        return Bins(2 * r, -reach, reach), r

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        return audit_pairs(n, self.bins(self.accuracy(n, budget))[0], budget)


@validated
class KSU20Range(_InBins):
    """A range that holds the mean and nearly all records: KSU20, Algorithm 1.

    If [a, b] is the fullest bin of a private histogram the range is [a - 2r, b + 2r]; PDPRE, CDPRE
    and ADPRE under the three notions. Its value is the middle of the range, and its promise that
    this is within 2r of the mean, which says that the mean is at least r inside.

    Parameters
    ----------
    alpha : float in (0, 1]
        The share of records that may lie outside; an accuracy for the mean later.
    """

    alpha: Alpha
    constants: Constants = "paper"

    def accuracy(self, n: int, budget: Budget) -> float:
        return self.alpha

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        bins, r = self.bins(self.alpha)
        middle = fullest_bin(sample, bins, ledger) + r
        return Estimate(middle, middle, interval=(middle - 3 * r, middle + 3 * r), accuracy=2 * r)


@validated
class KSU20Mean(_InBins):
    """The median over groups of means clipped to private ranges: KSU20, Algorithm 2.

    The records are halved, and each half is cut into m groups. One half's group gives a range by
    `KSU20Range`, the other's is clipped to it, a width of 6r, and its mean released with noise of
    sensitivity 6r over the group's size (the paper's listing divides by n). Groups are disjoint:
    each mechanism has the whole budget. PDPODME, CDPODME and ADPODME under the three notions; under
    (epsilon, delta) the noise of the mean is Laplace. A group whose histogram releases nothing
    counts as infinitely wrong in the median.

    Parameters
    ----------
    alpha : float in (0, 1], optional
        The error sought; by default the one that n is enough for, see `terms`.
    constants : {'paper', 'practical', 'tuned'}
        ``paper``: m = ceil(200 ln(2/beta)), and the error is at most alpha with probability
        1 - beta if alpha < 1/16 and n is enough. ``practical``: m = 1, r = 2/alpha^(1/(k-1)), and
        the half width of the clip is r + 4^(1/k) + T, T = ((k-1)/k) (n/(2q))^(1/k) for n records
        in the half: a bin that holds a quarter of the records is within 4^(1/k) of the mean by
        Markov's inequality. ``tuned``, which takes no alpha: m = 1, r = 2^(1/k), for by Markov's
        inequality [mu - r, mu + r] holds half of the records and touches two bins, of which one
        holds a quarter; T is that of ``minimax`` in `HeavyTailedMean` for R = r + 4^(1/k). Not
        half of the records find the range but a tenth, or as many as `terms` asks for it in
        ``paper``, up to a half.
    beta : float in (0, 1)
        Failure probability.
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
        """m, the groups in each half."""
        return int(np.ceil(200 * np.log(2 / self.beta))) if self.constants == "paper" else 1

    def averaged(self, n: int, budget: Budget) -> int:
        """How many of n records are averaged; the others find the range."""
        if self.constants != "tuned":
            return n // 2
        needed = min(self.histogram_needs(1.0, n, budget), n / 2)
        return n - int(np.ceil(max(needed, n / 10)))

    @property
    def _parts(self) -> int:
        """Parts of the records that `terms` are for: in `paper` a group of a half."""
        return 2 * self.groups if self.constants == "paper" else 1

    def terms(self, alpha: float, n: float, budget: Budget) -> tuple[float, float, float]:
        """What error alpha needs for sampling, noise and range; logarithms of n are taken at n.

        `paper`, in one group of one half: 90/alpha^2 (Chebyshev at 0.1 for an error alpha/3),
        180 q/alpha^(k/(k-1)) (the 0.9 quantile 6r q/n of the noise at alpha/3; q is the one at
        sensitivity 1, ln(10)/epsilon for pure DP), and what the histogram needs. `practical`:
        1/alpha^2, 1/(epsilon alpha^(k/(k-1))), ln(1+R)/epsilon, with q/ln(10) for 1/epsilon and the
        noise's tail at 1/(1+R), or at delta, for the last.
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
        """Records at which the range is right with probability 0.9, with the paper's constants.

        All noises are below a sixteenth of them; under (epsilon, delta), moreover, the fullest
        noisy count, at least 3/16 of them, is above the threshold. At most n bins are occupied.
        """
        if isinstance(budget, ApproxDP):
            tail = L1 / budget.pure_epsilon * float(np.log(10 * n))
            return max(16 * tail, 16 / 3 * stability_threshold(budget))
        rare = 0.05 / float(self.bins(alpha)[0].count)
        return float(16 * budget.noise_tail(np.asarray(rare), L1, L2))

    def accuracy(self, n: int, budget: Budget) -> float:
        """The error sought with n records, both halves together."""
        if self.constants == "tuned":
            return 1.0  # all that the range is for
        if self.alpha is not None:
            return self.alpha
        size = n / self._parts
        return smallest_alpha(lambda a: sum(self.terms(a, size, budget)), size, self.constants)

    def promise(self, n: int, budget: Budget) -> float | None:
        """The error that Theorem 3.5 promises with n records; None if it promises nothing."""
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
            self.groups, ledger.rng, lambda rows: fullest_bin(rows, bins, next(parts))
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
