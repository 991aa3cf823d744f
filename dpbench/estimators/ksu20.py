"""Heavy tails with an unknown location: find a range, clip to it, repeat in groups.

The class is E|X - mu|^k <= 1 with mu in [-R, R]. The error sought is alpha.

References
----------
.. [1] G. Kamath, V. Singhal, J. Ullman, "Private mean estimation of heavy-tailed
   distributions", COLT 2020 (KSU20), Algorithms 1 and 2, Theorems 3.3 to 3.7.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import brentq

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.privacy import ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import L1, L2, audit_pairs, fullest_bin, stability_threshold
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, Probability, Radius, validated
from dpbench.samples import Bins, Sample

__all__ = ["KSU20Mean", "KSU20Range", "accuracy_for", "accuracy_terms", "samples_for"]

Alpha = Annotated[float, Field(ge=1e-100, le=1)]
Constants = Literal["paper", "practical"]

# In units of alpha^(-1/(k-1)): half the width of a bin, r.
HALF_BIN = {"paper": 10.0, "practical": 2.0}
# The lemmas of [1]_ hold for alpha below 1/16; `practical` promises nothing.
LARGEST_ALPHA = {"paper": 1 / 16, "practical": 1.0}


def _half_bin(alpha: float, k: float, constants: Constants) -> float:
    return float(HALF_BIN[constants] * alpha ** (-1 / (k - 1)))


def _bins(radius: float | None, r: float) -> Bins:
    return Bins(2 * r) if radius is None else Bins(2 * r, -radius - 2 * r, radius + 2 * r)


def _mean_budget(budget: Budget) -> Budget:
    """What pays for the mean: Laplace noise under (epsilon, delta) too, as in [1]_."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def _histogram_needs(n: float, alpha: float, k: float, radius: float | None, b: Budget) -> float:
    """Records at which the range is right with probability 0.9, with the paper's constants.

    All noises are below a sixteenth of the records. Under (epsilon, delta), moreover, the
    fullest noisy count, at least 3/16 of them, is above the threshold; at most n bins
    are occupied.
    """
    if isinstance(b, ApproxDP):
        tail = L1 / b.pure_epsilon * float(np.log(10 * n))
        return max(16 * tail, 16 / 3 * stability_threshold(b))
    assert radius is not None
    count = float(_bins(radius, _half_bin(alpha, k, "paper")).count)
    return float(16 * b.noise_tail(np.asarray(0.05 / count), L1, L2))


def accuracy_terms(
    alpha: float, n: float, k: float, radius: float | None, budget: Budget, constants: Constants
) -> tuple[float, float, float]:
    """What error alpha needs for sampling, noise and range; logarithms of n are taken at n.

    `paper`, in one group of one half: 90/alpha^2 (Chebyshev at 0.1 for an error alpha/3),
    180 q/alpha^(k/(k-1)) (the 0.9 quantile 6r q/n of the noise at alpha/3; q is the one at
    sensitivity 1, ln(10)/epsilon for pure DP), and what the histogram needs.
    `practical`: 1/alpha^2, 1/(epsilon alpha^(k/(k-1))), ln(1+R)/epsilon, with q/ln(10) for
    1/epsilon and the noise's tail at 1/(1+R), or at delta, for the last term.
    """
    mean_budget = _mean_budget(budget)
    q = mean_budget.noise_quantile(0.1)
    power = float(alpha ** (-k / (k - 1)))
    if constants == "paper":
        needs = _histogram_needs(n, alpha, k, radius, budget)
        return 90 / alpha**2, 180 * q * power, needs
    rare = budget.delta if isinstance(budget, ApproxDP) else 1 / (1 + (radius or 0.0))
    tail = float(mean_budget.noise_tail(np.asarray(rare / 2), 1.0, 1.0))
    return 1 / alpha**2, float(q / np.log(10)) * power, tail


def samples_for(
    alpha: float, n: float, k: float, radius: float | None, budget: Budget, constants: Constants
) -> float:
    """The sum of `accuracy_terms`."""
    return sum(accuracy_terms(alpha, n, k, radius, budget, constants))


def accuracy_for(
    n: float, k: float, radius: float | None, budget: Budget, constants: Constants
) -> float:
    """The smallest alpha that n samples are enough for, see `samples_for`.

    The largest that is allowed, where they are not enough for any.
    """
    largest = LARGEST_ALPHA[constants]

    def missing(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        return float(np.log(samples_for(alpha, n, k, radius, budget, constants) / n))

    if missing(np.log(largest)) >= 0:
        return largest
    return float(np.exp(brentq(missing, -0.5 * np.log(n) - 1, np.log(largest), xtol=1e-12)))


@validated
class KSU20Range(Estimator):
    """A range that holds the mean and nearly all records: Algorithm 1 of [1]_.

    A private histogram over bins of width 2r, r = 10/alpha^(1/(k-1)), aligned at -R - 2r;
    if [a, b] is the fullest, the range is [a - 2r, b + 2r]. PDPRE, CDPRE and ADPRE are this
    estimator under the three notions. Its value is the middle of the range, and its promise
    that this is within 2r of the mean, which says that the mean is at least r inside.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment.
    alpha : float in (0, 1]
        The share of records that may lie outside; an accuracy for the mean later.
    radius : float >= 0 or None
        R, a bound on abs(mu); None under (epsilon, delta) only.
    constants : {'paper', 'practical'}
        ``practical``: r = 2/alpha^(1/(k-1)).
    """

    k: MomentOrder
    alpha: Alpha
    radius: Radius | None
    constants: Constants = "paper"

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.radius is not None else (ApproxDP,)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        r = _half_bin(self.alpha, self.k, self.constants)
        middle = fullest_bin(sample, _bins(self.radius, r), ledger) + r
        return Estimate(middle, middle, interval=(middle - 3 * r, middle + 3 * r), accuracy=2 * r)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        r = _half_bin(self.alpha, self.k, self.constants)
        return audit_pairs(n, _bins(self.radius, r), budget)


@validated
class KSU20Mean(Estimator):
    """The median over groups of means clipped to private ranges: Algorithm 2 of [1]_.

    The records are halved, and each half is cut into m groups. One half's group gives a
    range by `KSU20Range`, the other's is clipped to it, a width of 6r, and its mean
    released with noise of sensitivity 6r over the group's size (the paper's listing
    divides by n). Groups are disjoint: each mechanism has the whole budget. PDPODME,
    CDPODME and ADPODME are this estimator under the three notions; under
    (epsilon, delta) the noise of the mean is Laplace. A group whose histogram releases
    nothing counts as infinitely wrong in the median.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment.
    radius : float >= 0 or None
        R, a bound on abs(mu); None under (epsilon, delta) only.
    alpha : float in (0, 1], optional
        The error sought; by default the one that n is enough for, see `accuracy_for`.
    constants : {'paper', 'practical'}
        ``paper``: m = ceil(200 ln(2/beta)), and the error is at most alpha with
        probability 1 - beta if alpha < 1/16 and n is enough. ``practical``: m = 1,
        r = 2/alpha^(1/(k-1)), and the half width of the clip is r + 4^(1/k) + T with
        the T of ``minimax`` in `HeavyTailedMean`: a bin that holds a quarter of the records
        is within 4^(1/k) of the mean by Markov's inequality.
    beta : float in (0, 1)
        Failure probability.
    """

    k: MomentOrder
    radius: Radius | None
    alpha: Alpha | None = None
    constants: Constants = "practical"
    beta: Probability = 0.1

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.radius is not None else (ApproxDP,)

    @property
    def groups(self) -> int:
        """m, the groups in each half."""
        return 1 if self.constants == "practical" else int(np.ceil(200 * np.log(2 / self.beta)))

    def accuracy(self, n: int, budget: Budget) -> float:
        """The error sought with n records, both halves together."""
        if self.alpha is not None:
            return self.alpha
        return accuracy_for(self._enough_for(n), self.k, self.radius, budget, self.constants)

    def _enough_for(self, n: int) -> float:
        """The n that `samples_for` counts, of n records in all."""
        return n / (2 * self.groups) if self.constants == "paper" else n

    def promise(self, n: int, budget: Budget) -> float | None:
        """The error that Theorem 3.5 promises with n records; None if it promises nothing."""
        alpha = self.accuracy(n, budget)
        size = self._enough_for(n)
        needed = samples_for(alpha, size, self.k, self.radius, budget, self.constants)
        kept = self.constants == "paper" and alpha < LARGEST_ALPHA["paper"]
        return alpha if kept and needed <= size * (1 + 1e-9) else None

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        half = sample.n // 2
        if half < self.groups:
            raise ValueError(f"{sample.n} records cannot fill two halves of {self.groups} groups")
        alpha = self.accuracy(sample.n, ledger.budget)
        r = _half_bin(alpha, self.k, self.constants)
        bins = _bins(self.radius, r)
        # Replacing a record changes one group of one half.
        parts = iter(ledger.parallel(4))
        ranges, means = sample.split([sample.n - half, half], ledger.rng)
        middles = r + ranges.by_group(
            self.groups, ledger.rng, lambda rows: fullest_bin(rows, bins, next(parts))
        )
        released, before = [], []
        start = 0
        for rows in means.groups(self.groups, ledger.rng):
            stop = start + rows.trials // sample.trials
            (paid,) = next(parts).split(_mean_budget(ledger.budget))
            width = self._half_width(rows.n, r, paid.budget)
            found = noisy_clipped_mean(rows, middles[:, start:stop].reshape(-1), width, paid)
            released.append(found.value.reshape(sample.trials, -1))
            before.append(found.before_noise.reshape(sample.trials, -1))
            start = stop
        return Estimate(
            _median(released), _median(before), accuracy=self.promise(sample.n, ledger.budget)
        )

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        r = _half_bin(self.accuracy(n, budget), self.k, self.constants)
        return audit_pairs(n, _bins(self.radius, r), budget)

    def private_terms(
        self, alpha: float, beta: float, n: float, budget: Budget
    ) -> dict[str, float]:
        # Those of `paper` are for one group of one half.
        parts = 2 * self.groups if self.constants == "paper" else 1
        _, privacy, reach = accuracy_terms(
            alpha, n / parts, self.k, self.radius, budget, self.constants
        )
        return {"privacy": parts * privacy, "range": parts * reach}

    def _half_width(self, n: int, r: float, budget: Budget) -> float:
        if self.constants == "paper":
            return 3 * r
        best = (self.k - 1) / self.k * (n / (2 * budget.noise_quantile(self.beta))) ** (1 / self.k)
        return float(r + 4 ** (1 / self.k) + best)


def _median(parts: list[Floats]) -> Floats:
    """The median over groups; NaN where it is not a released number."""
    groups = np.concatenate(parts, axis=1)
    middle = np.median(np.where(np.isnan(groups), np.inf, groups), axis=1)
    return np.where(np.isfinite(middle), middle, np.nan)
