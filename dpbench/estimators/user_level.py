"""Person-level (user-level) mean: clip and average the means of people (AKMMSU24).

**Setting.** n people have m records X each, with E|X - mu|^k <= scale^k and mean mu in [-R, R].
Lengths are in units of scale here: scale = 1.
Neighbours differ in all records of one person. A dataset holds the n means Y of people
(`dpbench.distributions.UserLevelData`), so neighbours differ in one Y.

**Location.** The variance of Y is at most 1/m, by Lyapunov's inequality. By Chebyshev's inequality
at least half of all people are within r = sqrt(2/m) of mu. The interval [mu - r, mu + r] touches at
most two bins of width 2r, so one bin holds a quarter of the people. A bin that holds a quarter has
its middle within r + 2/sqrt(m) of mu. With few people the histogram may err. By the public bound of
`dpbench.estimators.moment_bins` at D = 2r, the middle is within 3r of mu, or nothing is released
(NaN), except with probability 0.1. This holds for every number of people.

**Clip.** Means are clipped to +-(r + 2/sqrt(m) + T) around that middle, so means within T of mu are
not clipped. One person moves the average of n' people by at most 2 (r + 2/sqrt(m) + T)/n'. Let q be
the 1 - beta quantile of the absolute noise at sensitivity 1. T is the larger of the following two
numbers:

- Light tail: sqrt(2 ln(n'/q)/m). The average of m records is nearly N(mu, s^2/m), where s <= 1 is
  the standard deviation of a record. Let a = T sqrt(m), and let phi be the normal density. Clipping
  moves the mean by at most phi(a)/(a^2 sqrt(m)) <= 0.4 q/(n' a^2 sqrt(m)). For a >= 1 this bias is
  below the noise 2 q T/n'.
- Heavy tail: T'/m, where T' is the best clip of n' m single records, `best_clip` at R = 0. A mean
  farther than T from mu mainly contains one large record, at distance Z from mu. Clipping this mean
  moves it by (Z/m - T)_+ = (Z - T')_+/m. Each of m records may be large, so the bias is about the
  bias b(T') of single records clipped at T'. As T' is of the order of (n' m/q)^(1/k), T is of the
  order of (n'/q)^(1/k) m^-((k-1)/k).

**Rate.** The error is of the order of q sqrt(ln(n/q)/m)/n + (q/(n m))^((k-1)/k) + 1/sqrt(n m). Up
to logarithms, an error alpha needs

    n ~ 1/(alpha^2 m) + 1/(epsilon alpha sqrt(m)) + 1/(epsilon alpha^(k/(k-1)) m)
        + ln(R sqrt(m))/epsilon,

as in AKMMSU24 (theorem number not checked).

**Unequal numbers.** Let person i have m_i >= m records. All of the above holds for the means Y with
m as the smallest number. With a `cap`, person i has the weight w_i = min(m_i, cap). Let H be half
the width of the clip above. The mean Y is clipped to +-H around the middle, and the contribution
w_i (Y - middle) to +-C. The released mean is the middle plus a noisy sum of contributions over a
noisy sum of weights. `dpbench.estimators.contributions` derives the sensitivity; the middle costs
nothing there, because it was released before and comes from other people. C is the largest
|w_i (mu - middle)| plus the larger of two numbers:

- Light tail: sqrt(2 ln(n'/q) cap), because w_i Y has a variance of at most w_i^2/m_i <= cap.
- Heavy tail: T' as above. One large record moves the contribution by at most w_i Z/m_i <= Z.

For m_i = m = cap, C is m H, and the clip is the clip above.

Accuracy depends on the distribution and on T, but privacy does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpbench.estimators.assumptions import Assumption, MeanWithin, MomentSpread
from dpbench.estimators.base import Estimate, Estimator, Terms
from dpbench.estimators.clipped import noisy_clipped_mean
from dpbench.estimators.contributions import release_ratio
from dpbench.estimators.heavy_tailed import best_clip
from dpbench.estimators.moment_bins import MISS, MomentBins
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.histogram import audit_pairs
from dpbench.privacy.neighbours import Pair
from dpbench.registry import MomentOrder, MomentScale, Probability, Radius, validated
from dpbench.samples import Bins, PeopleSample, Sample
from dpbench.samples.people import people_in

__all__ = ["UserLevelMean"]


@validated
class UserLevelMean(Estimator):
    """Person-level (user-level) mean: average people's clipped means (AKMMSU24).

    Privacy protects all m records of a person, and a person's data enter only by their mean. One
    part of the people locates a histogram bin near the mean mu. The means of the other people are
    clipped around this bin and averaged. If people have unequal numbers of records, `cap` weights
    people by these numbers. The first part is a tenth of the people. It is larger, up
    to half of them, if a tenth would find a wrong bin with a probability above 0.1. If half of the
    people are too few, nothing is released (NaN). The parts are disjoint, so each has the whole
    budget. `dpbench.estimators.user_level` derives clip and sensitivity.

    Parameters
    ----------
    k : float >= 2
        Order of the bounded moment of single records: the mean of |X - mu|^k is at most scale^k.
    scale : float > 0
        Bound on the k-th root of the central moment of single records, in the unit of the data. For
        k = 2 it bounds the standard deviation.
    m : int in [1, 1e6]
        Number of records of each person, or the smallest number if they differ.
    radius : float >= 0
        Public bound R on abs(mu), in the unit of the data.
    beta : float in (0, 1)
        Probability that the noise exceeds the quantile to which the clip is tuned.
    cap : int in [1, 1e6], optional
        Largest weight of a person. A person's weight is the number of the person's records, up to
        `cap`. It is at least m. None (the default): all people have equal weights. Not used if a
        sample holds means instead of people, see `dpbench.samples.PeopleSample`.
    """

    k: MomentOrder
    scale: MomentScale
    m: Annotated[int, Field(ge=1, le=10**6)]
    radius: Radius
    beta: Probability = 0.1
    cap: Annotated[int, Field(ge=1, le=10**6)] | None = None
    multivariate: ClassVar[bool] = True
    fewest_records: ClassVar[int] = 2  # a person for each part

    @model_validator(mode="after")
    def _check_cap(self) -> Self:
        if self.cap is not None and self.cap < self.m:
            raise ValueError(f"cap: {self.cap}: below the smallest number m = {self.m}; raise it")
        return self

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return ()

    @property
    def _half_bin(self) -> float:
        """Half the width of a histogram bin, scale sqrt(2/m) for m records of each person."""
        return self.scale * float(np.sqrt(2 / self.m))

    @property
    def _bins(self) -> Bins:
        """Histogram bins for people's means, one of which has its middle at 0."""
        r = self._half_bin
        return Bins(2 * r, -self.radius - r, self.radius + r, aligned=-r)

    def count_averaged(self, n: int, budget: Budget) -> int:
        """Return the number of people whose means are averaged; the others locate the clip.

        There are n people. The budget is that of the whole estimator, for all records of a person.
        """
        needed = min(self._moment_bins.records(budget, MISS), n / 2)
        return n - int(np.ceil(max(needed, n / 10)))

    @property
    def _moment_bins(self) -> MomentBins:
        """Return the public facts about the counts of the histogram."""
        # In units of scale/sqrt(m) the means have a second moment of at most 1.
        r = float(np.sqrt(2))
        return MomentBins.within(2 * r, 2.0, r, float(self._bins.count))

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        return {"range": float(self.working_records(1, budget))}

    def working_records(self, d: int, budget: Budget) -> int:
        return 2 * int(np.ceil(self._moment_bins.records(budget, MISS))) - 1

    def half_width(self, n: int, budget: Budget) -> float:
        """Return half the width of the clip of people's means, in the unit of the data.

        n people are averaged. The budget is that of the average, for all records of a person.
        """
        located, log_square, heavy = self._lengths(n, budget)
        light = np.sqrt(log_square / self.m)
        return self.scale * float(located + max(light, heavy / self.m))

    def contribution_bound(self, cap: int, n: int, budget: Budget) -> float:
        """Return the bound C on the contribution of a person, in the unit of the data.

        The largest weight of a person is `cap`, and n people are averaged. The budget is that of
        the average, for all records of a person.
        """
        located, log_square, heavy = self._lengths(n, budget)
        return self.scale * float(cap * located + max(np.sqrt(log_square * cap), heavy))

    def _lengths(self, n: int, budget: Budget) -> tuple[float, float, float]:
        """Return the largest distance of the middle to mu, 2 ln(n'/q), and T', for scale 1."""
        effective = n / budget.noise_quantile(self.beta)
        heavy, _ = best_clip(self.k, 0.0, self.beta, effective * self.m, budget)
        located = np.sqrt(2 / self.m) + 2 / np.sqrt(self.m)
        return located, 2 * np.log(max(effective, float(np.exp(1)))), heavy

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        if d > 1:  # rows hold a number of records first, and end with zeros
            return ()
        # The records are means of m numbers, of variance at most scale^2/m.
        spread = MomentSpread(2.0, self.scale / float(np.sqrt(self.m)), "scale/sqrt(m)")
        return spread, MeanWithin(self.radius, spread)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        people = people_in(sample)
        data = people or (sample.columns() if sample.vectors else sample)
        n = self.count_averaged(data.n, ledger.budget)
        coarse, fine = ledger.parallel(2)
        first, others = data.split([data.n - n, n], ledger.rng)
        middle = self._moment_bins.fullest(first, self._bins, coarse, MISS) + self._half_bin
        half_width = self.half_width(n, ledger.budget)
        if self.cap is None or not isinstance(others, PeopleSample):
            return noisy_clipped_mean(others, middle, half_width, fine)
        scaled = np.clip((others.values - middle[:, None]) / half_width, -1.0, 1.0)
        weights = np.minimum(others.sizes, self.cap).astype(float)
        reach = self.contribution_bound(self.cap, n, ledger.budget) / half_width
        noisy, exact = release_ratio(scaled, weights, min(reach, self.cap), self.cap, fine)
        return Estimate(middle + half_width * noisy, middle + half_width * exact)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        if d is None:
            held, _, miss = self._moment_bins.lead(n, budget, MISS)
            return audit_pairs(n, self._bins, budget, held=held, miss=miss)
        if d == 1:
            return []
        # Others have one record at 0. The first person is in the histogram, the last is averaged.
        others, far, blank = np.tile(np.eye(d)[0], (n, 1)), 1e6, d - 2
        many = np.append(d - 1.0, np.full(d - 1, far))
        changes = {
            "to_the_other_end": np.append(d - 1.0, np.full(d - 1, -far)),
            "to_one_record": np.concatenate([[1.0, -far], np.zeros(blank)]),
            "number_alone": np.concatenate([[1.0, far], np.zeros(blank)]),
        }
        pairs = []
        for place in (0, n - 1):
            left = others.copy()
            left[place] = many
            pairs += [
                Pair.replacing(f"{name}_{place}", left, place, by)
                for name, by in changes.items()
                if not np.array_equal(many, by)
            ]
        return pairs
