"""Controls: estimators broken on purpose, which test whether an audit detects mistakes.

If an audit misses a control, its other results show nothing. Controls are audited on the catalogue
of pairs like other estimators. Each has a mistake found in published code, except
`SlightlySmallSensitivity`, `PublicWeights` and `IgnoredCap`. They have a separate registry, so no
sweep can name them.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dpbench.arrays import Bools, Floats
from dpbench.audit.task import Way
from dpbench.estimators import Estimate, Estimator, TableMean
from dpbench.estimators.estimands import TABLE, Estimand
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.budgets import Relation
from dpbench.privacy.geometric_histogram import magnitudes
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.quantile import audit_pairs as quantile_pairs
from dpbench.privacy.smooth import largest_rate
from dpbench.registry import Registered, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.people import people_in

__all__ = ["CONTROLS", "Control"]


class Control(Estimator, Registered, ABC):
    """Base class of controls: estimators with a deliberate mistake that an audit must detect.

    Attributes
    ----------
    budgets : tuple of Budget
        Claimed budgets.
    seen_by : tuple of str
        Methods that must refute the claimed budget: ``runs`` (`dpbench.audit.audit_pair`),
        ``replay`` (`dpbench.audit.audit_replay`) or both.
    n : int
        Number of records.
    d : int or None
        Dimension of the records; None for scalars.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0), ZCDP(0.5))
    seen_by: ClassVar[tuple[Way, ...]] = ("runs", "replay")
    n: ClassVar[int] = 50
    d: ClassVar[int | None] = None
    multivariate: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """Name of the control in the tables of an audit."""
        return next(name for name, kind in self._registry.items() if kind is type(self))


def _dense_values(sample: Sample) -> Floats:
    assert isinstance(sample, DenseSample)
    return sample.values


@validated
class HalvedSensitivity(Control):
    """Broken mean with noise for half of the true sensitivity.

    The n records are clipped to [-1, 1]. Replacing one changes the mean by up to 2/n, but the noise
    is scaled to 1/n.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0), ZCDP(0.5), GDP(1.0))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(-1.0, 1.0)
        return Estimate(ledger.add_noise(clipped, 1 / sample.n), clipped)


@validated
class RadiusForDiameter(Control):
    """Broken mean of vectors projected on a ball, with noise for the radius of the ball.

    The ball has the radius 1. Replacing one of n vectors moves the mean of the projections by up to
    2/n in l2, but the noise is scaled to 1/n. The public code of the balloon mean (BALLOON26) has
    this mistake in every mean; it costs four times the claimed rho.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (ZCDP(0.5), GDP(1.0))
    d: ClassVar[int | None] = 2

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        projected = sample.projected_mean(0.0, 1.0)
        return Estimate(ledger.add_noise(projected, 1 / sample.n), projected)


@validated
class HalvedDeviation(HalvedSensitivity):
    """Broken mean with noise for half of the true sensitivity, under (epsilon, delta)-DP.

    delta is 0.1, because a small delta would hide the mistake in the Gaussian tails.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (ApproxDP(1.0, 0.1),)


@validated
class RangeOfTheData(Control):
    """Broken mean whose noise is scaled to R/n for n records with the range R.

    The range is taken from the data, so a single record can change it.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        values = _dense_values(sample)
        width = np.ptp(values, axis=1)
        return Estimate(ledger.add_noise(sample.mean(), width / sample.n), sample.mean())


@validated
class EmpiricalQuantiles(Control):
    """Broken mean that clips the records to their exact 5% and 95% quantiles.

    The quantiles get no noise, although a single record can change them.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        low, high = np.quantile(_dense_values(sample), (0.05, 0.95), axis=1)
        clipped = sample.clipped_mean(low, high)
        return Estimate(ledger.add_noise(clipped, (high - low) / sample.n), clipped)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # The replaced record moves the upper quantile from 0 to 1.
        ones = np.where(np.arange(n) < n // 20, 1.0, 0.0)
        return [Pair.replacing("at_the_quantile", ones, n - 1, 1.0)]


@validated
class FailsOnSpread(Control):
    """Broken mean that releases nothing if the range of the records exceeds 10.

    The records are clipped to [-1, 1], and the noise is correct. But a single record can decide
    whether the mean is released.
    """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(-1.0, 1.0)
        released = ledger.add_noise(clipped, 2 / sample.n)
        return Estimate(
            np.where(np.ptp(_dense_values(sample), axis=1) > 10, np.nan, released), clipped
        )


@validated
class NoClipping(Control):
    """Broken mean of unclipped records, with noise for records in [-1, 1]."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return Estimate(ledger.add_noise(sample.mean(), 2 / sample.n), sample.mean())


@validated
class ScaleAsLocation(Control):
    """Broken sum that passes the scale of its Laplace noise as the location of the noise.

    The scale is therefore 1 instead of 2/epsilon. The records are clipped to [-1, 1].
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0),)
    seen_by: ClassVar[tuple[Way, ...]] = ("runs",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        total = sample.n * sample.clipped_mean(-1.0, 1.0)
        ledger.pay()
        noise = ledger.rng.laplace(2 / ledger.budget.pure_epsilon, size=total.shape)
        return Estimate(total + noise, total)


@validated
class AddRemoveHistogram(Control):
    """Broken histogram under replacement, with noise that fits only add/remove.

    A replaced record changes two counts, so the l1 sensitivity is 2. The noise is scaled to 1. The
    bin of a record is the index of its largest coordinate.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0),)
    d: ClassVar[int | None] = 5

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        values = _dense_values(sample)
        one_hot = values.argmax(axis=2)[..., None] == np.arange(sample.d)
        counts = one_hot.sum(axis=1).astype(float)
        return Estimate(ledger.add_noise(counts, 1.0, l1=1.0), counts)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        assert d is not None
        rows = np.eye(d)[np.arange(n) % d]
        return [Pair.replacing("to_another_bin", rows, 0, np.eye(d)[1])]


@validated
class AddRemoveMedian(Control):
    """Broken median by the exponential mechanism, whose scores' sensitivity fits only add/remove.

    Under replacement the sensitivity of the scores is 1, but the median states 1/2. Records lie in
    [-1, 1]. The public code of PLAN has this mistake; it costs twice the claimed epsilon, or four
    times the claimed rho.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (ZCDP(0.5),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        points = np.linspace(-0.95, 1, 40)
        below = (_dense_values(sample)[:, :, None] < points).sum(axis=1)
        median = points[ledger.exponential(-abs(below - sample.n / 2), 0.5)]
        return Estimate(median, median)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        return quantile_pairs(n, 0.5, -1.0, 1.0, 0.0)


@validated
class AddRemoveSum(Control):
    """Broken sum under replacement, with noise that fits only add/remove.

    The records are clipped to [-1, 1]. Replacing a record changes the sum by up to 2, but the noise
    is scaled to 1.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0), ZCDP(0.5))

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        total = sample.n * sample.clipped_mean(-1.0, 1.0)
        return Estimate(ledger.add_noise(total, 1.0), total)


@validated
class ReplaceSum(Control):
    """Broken sum under add/remove, with noise that fits only replacement.

    The records are clipped to [2, 3]. Removing a record changes the sum by up to 3, but the noise
    is scaled to 1.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (
        PureDP(1.0, neighbours="add_remove"),
        ZCDP(0.5, neighbours="add_remove"),
    )
    relations: ClassVar[tuple[Relation, ...]] = ("add_remove",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        count = sample.count(-np.inf, np.inf)
        total = count * sample.clipped_mean(2.0, 3.0)
        return Estimate(ledger.add_noise(total, {"add_remove": 1.0}), total)


@validated
class ReusedNoise(Control):
    """Broken mean of two coordinates that adds the same noise to both.

    Each coordinate is clipped to [-1, 1] and pays half of the budget. The difference of the
    released coordinates has no noise.
    """

    seen_by: ClassVar[tuple[Way, ...]] = ("runs",)
    d: ClassVar[int | None] = 2

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = np.clip(_dense_values(sample), -1.0, 1.0).mean(axis=1)
        first, second = ledger.split(0.5, 0.5)
        second.pay()
        zero = np.zeros(len(clipped))
        return Estimate(clipped + first.add_noise(zero, 2 / sample.n)[:, None], clipped)


@validated
class UnsortedSensitivity(Control):
    """Broken trimmed mean of records in [-1, 1] with the smooth sensitivity of unsorted records.

    The formula of the smooth sensitivity needs sorted records, see
    `dpbench.estimators.smooth_sensitivity_trimmed`.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0), ZCDP(0.5))
    seen_by: ClassVar[tuple[Way, ...]] = ("runs",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        x, m, t = _dense_values(sample), sample.n // 5, 0.6 * largest_rate(ledger.budget)
        bounds = np.ones((sample.trials, 1))
        p, q = (
            np.concatenate([x[:, -m - 1 :], bounds], 1),
            np.concatenate([x[:, m::-1], -bounds], 1),
        )
        ranks = np.broadcast_to(np.arange(m + 2.0), p.shape)
        gaps = np.exp(-t * ranks[:, :, None] - t * ranks[:, None]) * (p[:, :, None] - q[:, None])
        smooth = np.maximum(gaps.max(axis=(1, 2)), 0.0) / (sample.n - 2 * m)
        mean = sample.trimmed_mean(m / sample.n)
        return Estimate(ledger.add_smooth_noise(mean, smooth, t), mean)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # In storage order the nonzero records are in the middle, in sorted order at both ends.
        records = np.where(np.arange(n) % 2, 1.0, -1.0)
        records[: n // 5 + 1] = records[-n // 5 - 1 :] = 0.0
        return [Pair.replacing("in_the_middle", records, n // 2, -records[n // 2])]


@validated
class PublicWeights(Control):
    """Broken mean of people with capped weights, whose sum of weights gets no noise.

    Rows hold the number of a person's records, then the records. The noise is for the sum of
    contributions, divided by the exact sum of weights. But the weights are private: a person with
    other records also has another weight.
    """

    n: ClassVar[int] = 4
    d: ClassVar[int | None] = 33

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        people = people_in(sample)
        assert people is not None
        cap = sample.d - 1
        weights = np.minimum(people.sizes, cap).astype(float)
        total, count = (weights * np.clip(people.values, -1, 1)).sum(axis=1), weights.sum(axis=1)
        mean = total / count
        return Estimate(ledger.add_noise(mean, 2 * cap / count), mean)

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return ()

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        assert d is not None
        rows = np.tile(np.append([1.0, 1.0], np.zeros(d - 2)), (n, 1))
        many = np.append([d - 1.0], np.full(d - 1, -1.0))
        return [Pair.replacing("to_many_records", rows, 0, many)]


class _UncappedTable(TableMean):
    """Broken table that keeps all rows of a person, and pays for `cap` rows."""

    def _kept_rows(self, people: Floats) -> tuple[Floats, Bools]:
        return TableMean._kept_rows(replace(self, cap=people.shape[2]), people)


@validated
class IgnoredCap(Control):
    """Broken mean of a table of people that ignores its cap of 1 row for each person.

    A record holds the number of a person's rows, then 4 rows with a group and a number.
    """

    n: ClassVar[int] = 8
    d: ClassVar[int | None] = 9
    relations: ClassVar[tuple[Relation, ...]] = ("replace", "add_remove")
    estimand: ClassVar[Estimand] = TABLE

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return self._table.estimate(sample, ledger)

    @property
    def _table(self) -> TableMean:
        columns = {"x": {"kind": "transformed_noise_mean", "lower": -1, "upper": 1}}
        return _UncappedTable(columns=columns, groups=["first", "second"], cap=1)

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return (2,)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        return self._table.audit_pairs(n, d, budget)


@validated
class NoiselessQueries(Control):
    """Broken sparse vector technique: its threshold gets noise, but its queries get none.

    It searches the smallest power of 2 that bounds the absolute values of half of the records.
    Algorithm 5 in the comparison by Lyu, Su and Li (2017) has this mistake.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0),)
    multivariate: ClassVar[bool] = False

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        within = np.cumsum(magnitudes(sample).sum(axis=1), axis=1)
        level = ledger.add_noise(np.full(sample.trials, sample.n / 2), 1.0)
        first = np.argmax(within >= level[:, None], axis=1).astype(float)
        return Estimate(first, first)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # If the last record moves from 1 to 0, all counts are equal, and an output is impossible.
        records = np.where(np.arange(n) < n // 2, 0.0, 1e6)
        records[-1] = 1.0
        return [Pair.replacing("between_two_counts", records, n - 1, 0.0)]


@validated
class SlightlySmallSensitivity(Control):
    """Broken mean of records in [-1, 1] with noise for 95% of the sensitivity.

    The release costs epsilon/0.95 = 1.053 epsilon, or 1.108 rho. These costs are too close to the
    claim to be refuted by runs, so only a replay must refute them.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (PureDP(1.0), ZCDP(0.5))
    seen_by: ClassVar[tuple[Way, ...]] = ("replay",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(-1.0, 1.0)
        return Estimate(ledger.add_noise(clipped, 0.95 * 2 / sample.n), clipped)


@validated
class TwoLooksAtSpread(Control):
    """Broken mean of records in [-1, 1] that uses a second mechanism if the records spread.

    If the range of the records exceeds 10, the release is the average of two noisy means. Each of
    them uses half of the budget. Otherwise the release is one noisy mean at the whole budget. The
    average of two Gaussian noises at half of the budget is distributed like one noise at the whole
    budget. The release has the same distribution in both cases, but the number of mechanisms
    depends on the records.
    """

    budgets: ClassVar[tuple[Budget, ...]] = (ZCDP(0.5), GDP(1.0))
    seen_by: ClassVar[tuple[Way, ...]] = ("replay",)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        clipped = sample.clipped_mean(-1.0, 1.0)
        spreads = np.ptp(_dense_values(sample), axis=1).max() > 10
        parts = ledger.split(0.5, 0.5) if spreads else [ledger]
        looks = [part.add_noise(clipped, 2 / sample.n) for part in parts]
        return Estimate(np.mean(looks, axis=0), clipped)


CONTROLS: tuple[Control, ...] = tuple(
    control()
    for control in (
        HalvedSensitivity,
        RadiusForDiameter,
        HalvedDeviation,
        RangeOfTheData,
        EmpiricalQuantiles,
        FailsOnSpread,
        NoClipping,
        ScaleAsLocation,
        AddRemoveHistogram,
        AddRemoveMedian,
        AddRemoveSum,
        ReplaceSum,
        ReusedNoise,
        UnsortedSensitivity,
        PublicWeights,
        IgnoredCap,
        NoiselessQueries,
        SlightlySmallSensitivity,
        TwoLooksAtSpread,
    )
)
