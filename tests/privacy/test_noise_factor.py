"""Noise factor of ledgers: for every mechanism, and by thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dpbench.audit import noise_times
from dpbench.estimators import ClippedMean
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import private_mode_bin
from dpbench.samples import Bins, DenseSample
from tests.support import rng

PURE = PureDP(1.0)
ZEROS, VECTORS = np.zeros(500), np.zeros((500, 3))
ADDED: list[tuple[Budget, Callable[[Ledger], Any]]] = [
    *((one, lambda a: a.add_noise(ZEROS, 2.0)) for one in (PURE, ZCDP(0.5), GDP(1.0))),
    (PureDP(1.0, "staircase"), lambda a: a.add_noise(ZEROS, 2.0)),
    (ApproxDP(1.0, 1e-6, "tulap"), lambda a: a.add_noise(ZEROS, 2.0)),
    (ApproxDP(1.0, 1e-6), lambda a: a.add_noise(VECTORS, 2.0)),
    *((one, lambda a: a.add_canonical_noise(ZEROS, 2.0)) for one in (PURE, GDP(1.0))),
    (PURE, lambda a: a.add_noise(ZEROS, 2.0, draws=3)),
    (PURE, lambda a: a.add_l2_noise(VECTORS, 2.0)),
    (PURE, lambda a: a.add_joint_noise(VECTORS, 2.0, base="box")),
    (PURE, lambda a: a.add_joint_noise(VECTORS, 2.0, base="ball")),
    (PURE, lambda a: a.add_smooth_noise(ZEROS, 2.0, 0.05)),
]


@pytest.mark.parametrize(("budget", "release"), ADDED)
def test_noise_is_multiplied(budget: Budget, release: Callable[[Ledger], Any]) -> None:
    usual, same, half = (
        release(Ledger(budget, rng(), noise_factor=factor)) for factor in (None, 1.0, 0.5)
    )
    np.testing.assert_array_equal(usual, same)
    np.testing.assert_array_equal(half, usual / 2)
    assert usual.any()


def test_geometric_noise_stays_whole() -> None:
    usual, half = (
        Ledger(PURE, rng(), noise_factor=factor).add_geometric_noise(ZEROS, 5.0)
        for factor in (1.0, 0.5)
    )
    np.testing.assert_array_equal(half, np.rint(usual / 2))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_choices_are_those_of_another_budget(factor: float) -> None:
    scores = np.linspace([0.0, 0.0], [3.0, 9.0], 4).T
    counts, bins = np.tile(np.arange(20.0), (300, 1)), Bins(1.0, 0.0, 1e6)
    sample = DenseSample(np.tile(np.arange(4.0), (300, 1)))
    mechanisms: list[Callable[[Ledger], Any]] = [
        lambda a: a.exponential(scores, 1.0, np.log([1.0, 2.0, 1.0, 0.5])),
        lambda a: a.above_threshold(counts, 1.0, 9.0),
        lambda a: private_mode_bin(sample, bins, a),
    ]
    for mechanism in mechanisms:
        found = mechanism(Ledger(PURE, rng(), noise_factor=factor))
        np.testing.assert_array_equal(found, mechanism(Ledger(PureDP(1 / factor), rng())))


def test_a_block_is_about_its_thread_and_an_argument_wins() -> None:
    def factor(**given: float) -> float:
        return Ledger(PURE, rng(), **given).noise_factor  # type: ignore[arg-type]

    with noise_times(0.5), ThreadPoolExecutor(1) as pool:
        assert (factor(), factor(noise_factor=2.0)) == (0.5, 2.0)
        assert pool.submit(factor).result() == 1
        with noise_times(0.25):
            assert factor() == 0.25
        assert factor() == 0.5
    assert factor() == 1
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="a finite number above 0"), noise_times(wrong):
            pass


def test_a_run_has_the_tails_of_its_noise() -> None:
    seen = []

    usual = PURE.noise_quantile(0.1)

    class Tails(ClippedMean):
        def estimate(self, sample: Any, ledger: Ledger) -> Any:
            seen.append(ledger.budget.noise_quantile(0.1))
            return super().estimate(sample, ledger)

    sample = DenseSample(np.zeros((1, 5)))
    for factor in (0.5, 1.0):
        with noise_times(4.0):
            Tails(lower=-1, upper=1).run(sample, Ledger(PURE, rng(), noise_factor=factor))
    assert seen == [usual / 2, usual]
    assert PURE.noise_quantile(0.1) == usual


@pytest.mark.parametrize("factor", [0.0, -1.0, np.inf, np.nan])
def test_a_factor_that_is_none(factor: float) -> None:
    """Check that 0 is refused, because it would release the value itself as private."""
    with pytest.raises(ValueError, match="noise factor"):
        Ledger(PURE, np.random.default_rng(0), noise_factor=factor)


@pytest.mark.parametrize("budget", [PURE, ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6, "laplace")])
def test_a_mechanism_of_its_own_chance_is_noisier_by_the_factor(budget: Budget) -> None:
    """Check that the returned budget has `factor` times the noise of the paid budget."""
    for factor in (0.25, 3.0):
        ledger = Ledger(budget, rng(), noise_factor=factor)
        found = ledger.pay_for_custom_mechanism("randomised response")
        wanted = factor * budget.noise_quantile(0.1)
        assert found.noise_quantile(0.1) == pytest.approx(wanted, rel=1e-12)
        assert ledger.spent == pytest.approx(budget.amounts)
