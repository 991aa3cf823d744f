"""What is measured in every trial of known releases."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest
from scipy import linalg

from dpbench import distributions as laws
from dpbench.arrays import Floats
from dpbench.distributions import Gaussian, TwoPoint
from dpbench.estimators import ClippedMean, EmpiricalMean, Estimate, Estimator, FriendlyCoreMean
from dpbench.estimators.estimands import COVARIANCE
from dpbench.privacy import ApproxDP, Ledger, NonPrivate, PureDP
from dpbench.registry import validated
from dpbench.samples import DenseSample, Sample
from dpbench.sweep.block import Setting, _measure_outputs, run_block
from dpbench.sweep.metrics import ERRORS, EXTRAS
from tests.sweep.blocks import data_of, parts_of, task_of

LAW = Gaussian(location=0.5, scale=2.0)
CLIP = Setting("clip", ClippedMean(lower=-1, upper=1), PureDP(1.0))
MEAN = Setting("mean", EmpiricalMean(), NonPrivate())


# Intervals, learned Gaussians, promises and cores.


@validated
class Preset(Estimator):
    """Releases numbers that cycle through the trials, and nothing where one is NaN."""

    LOW: ClassVar[Floats] = np.array([-1.0, 0.5, 0.6, -np.inf, np.nan])
    HIGH: ClassVar[Floats] = np.array([0.5, 3.0, 3.0, np.inf, np.nan])
    VALUE: ClassVar[Floats] = np.array([0.0, 0.5, 1.5, -2.5, np.nan])
    SCALE: ClassVar[Floats] = np.array([2.0, 1.0, 3.0, 2.0, np.nan])

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay()
        known = (self.LOW, self.HIGH, self.VALUE, self.SCALE)
        low, high, value, scale = (np.resize(one, sample.trials) for one in known)
        return Estimate(value, value, interval=(low, high), miss=0.1, scale=scale, accuracy=0.25)


def test_the_extra_values_of_known_releases() -> None:
    task = task_of(Setting("preset", Preset(), PureDP(1.0)), CLIP, law=LAW, n=40)
    result = run_block(task)
    assert set(result.values) == {*ERRORS, *EXTRAS} - {"core", "spent", "signed"}
    values = {name: table[0] for name, table in result.values.items()}
    np.testing.assert_array_equal(values["width"], np.resize([1.5, 2.5, 2.4, np.inf, np.inf], 200))
    usual = 2 * 1.6448536269514722 * math.sqrt(LAW.variance / 40)
    np.testing.assert_allclose(values["width_ratio"], values["width"] / usual, rtol=1e-12)
    # The target, 0.5, is at an end of the first two: it is in them. The last declares failure.
    np.testing.assert_array_equal(values["missed"], np.resize([0.0, 0, 1, 0, 0], 200))
    np.testing.assert_array_equal(values["promise"], np.resize([2.0, 0.0, 4.0, 12.0, np.inf], 200))
    # N(0, 2) and N(-2.5, 2) beside N(0.5, 2): the densities cross half-way between the means.
    # Against N(0.5, 1), crossing at +-c: 2 Phi(c) - 2 Phi(c/2) with c = sqrt(8/3 ln 2).
    c = math.sqrt(8 / 3 * math.log(2))
    crossing = math.erf(c / math.sqrt(2)) - math.erf(c / 2 / math.sqrt(2))
    wanted = [math.erf(0.125 / math.sqrt(2)), crossing, np.nan, math.erf(0.75 / math.sqrt(2))]
    tv = values["tv"].reshape(-1, 5)
    np.testing.assert_allclose(tv[:, [0, 1, 3]], [np.take(wanted, [0, 1, 3])] * 40, rtol=1e-9)
    assert np.isinf(tv[:, 4]).all()
    sample = data_of(task, LAW)
    assert isinstance(sample, DenseSample)
    low, high = np.resize(Preset.LOW, 200)[:, None], np.resize(Preset.HIGH, 200)[:, None]
    outside = ((sample.values < low) | (sample.values > high)).mean(axis=1)
    outside[4::5] = np.inf  # of no interval
    np.testing.assert_allclose(values["outside"], outside, atol=1e-12)
    # The other setting has none of these, and no distance is known of a law that is not Gaussian.
    assert all(
        np.isnan(result.values[name][1]).all()
        for name in {*EXTRAS} - {"core", "spent", "sign", "signed"}
    )
    assert "tv" not in run_block(task_of(Setting("p", Preset(), PureDP(1.0)))).values


def test_ends_of_an_interval_are_inside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are exactly at the ends, of counted data."""
    law = TwoPoint(p=0.25, k=2)
    task = task_of(Setting("ends", Preset(), PureDP(1.0)), law=law, n=10**6)
    monkeypatch.setattr(Preset, "LOW", np.zeros(1))
    for tau, share, near in ((law.tau, 0.0, 1e-9), (float(np.nextafter(law.tau, 0)), 0.25, 0.01)):
        monkeypatch.setattr(Preset, "HIGH", np.array([tau]))
        np.testing.assert_allclose(run_block(task).values["outside"], share, atol=near)


def _weights(rows: Floats, radius: float) -> float:
    """W/n of one dataset, record by record: (2c - n - 1)/(n - 1) between 0 and 1."""
    n = len(rows)
    friends = (np.linalg.norm(rows[:, None] - rows, axis=2) <= radius).sum(axis=1)
    return float(np.clip((2 * friends - n - 1) / (n - 1), 0, 1).mean())


@pytest.mark.parametrize("threshold", [0.25, 0.99])
def test_the_core_is_its_share_of_the_records(threshold: float) -> None:
    """Also where nothing is released, which is in some or in all trials."""
    law = laws.MultivariateContaminatedGaussian(d=3, eta=0.3, gap=1e3)
    core = FriendlyCoreMean(radius=4.0, sigma=1, threshold=threshold)
    task = task_of(MEAN, Setting("core", core, ApproxDP(4.0, 1e-3)), law=law, n=30)
    values, sample = run_block(task).values, data_of(task, law)
    assert isinstance(sample, DenseSample)
    wanted = [_weights(rows, 4.0) for rows in sample.values]
    np.testing.assert_allclose(values["core"][1], wanted, rtol=1e-12, atol=1e-12)
    assert np.ptp(wanted) > 0.1  # they differ
    failed = np.isnan(values["error"][1])
    assert failed.any()
    assert failed.all() == (threshold > 0.5)


# Vectors and covariances.


@validated
class KnownCovariance(Estimator):
    """A covariance that is known beforehand, and nothing in every fifth trial."""

    multivariate = True
    estimand = COVARIANCE

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        shape = (2, sample.trials, sample.d, sample.d)
        value, before = np.random.default_rng(5).standard_normal(shape)
        value[::5] = np.nan
        ledger.pay()
        return Estimate(value, before)


def test_the_errors_of_a_covariance() -> None:
    """|S^(-1/2) (A - B) S^(-1/2)|_F with the symmetric root."""
    law = laws.MultivariateGaussian(d=4, scale=3.0, condition=50.0)
    task = task_of(Setting("known", KnownCovariance(), PureDP(1.0)), law=law, n=20)
    values, sample = run_block(task).values, data_of(task, law)
    assert isinstance(sample, DenseSample)
    value, before = np.random.default_rng(5).standard_normal((2, task.trials, 4, 4))
    value[::5] = np.nan
    root = np.linalg.inv(np.real(linalg.sqrtm(law.covariance)))
    second = np.array([rows.T @ rows / 20 for rows in sample.values])
    wanted = parts_of(value, before, second, law.covariance)
    assert set(values) == set(wanted)
    for name, part in wanted.items():
        size = np.sqrt(((root @ part @ root) ** 2).sum(axis=(1, 2)))
        np.testing.assert_allclose(values[name][0], size, rtol=1e-9)


def test_a_record_at_an_end_is_inside() -> None:
    """Intervals are closed."""
    sample = DenseSample(np.array([[0.0, 1.0, 1.0, 2.0, 5.0]]))
    low, high = np.array([1.0]), np.array([2.0])
    found = _measure_outputs(Estimate(low, low, interval=(low, high)), sample, LAW, low)
    assert found["outside"] == pytest.approx([2 / 5])
