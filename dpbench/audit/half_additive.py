"""Injected error: the additive noise is halved, all other noise is correct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpbench.estimators import Estimate, Estimator
from dpbench.privacy import Ledger
from dpbench.samples import Sample

__all__ = ["HALF", "HalfAdditive"]

HALF = 0.5  # factor by which the noise is multiplied


class _HalfAdditive(Ledger):
    """Ledger that halves the noise of additive mechanisms only."""

    def add_noise(self, *given: Any, **options: Any) -> Any:
        return self._half(super().add_noise, *given, **options)

    def add_l2_noise(self, *given: Any, **options: Any) -> Any:
        return self._half(super().add_l2_noise, *given, **options)

    def add_joint_noise(self, *given: Any, **options: Any) -> Any:
        return self._half(super().add_joint_noise, *given, **options)

    def add_geometric_noise(self, *given: Any, **options: Any) -> Any:
        return self._half(super().add_geometric_noise, *given, **options)

    def add_smooth_noise(self, *given: Any, **options: Any) -> Any:
        return self._half(super().add_smooth_noise, *given, **options)

    def above_threshold(self, *given: Any, **options: Any) -> Any:
        return self._half(super().above_threshold, *given, **options)

    def _half(self, mechanism: Callable[..., Any], *given: Any, **options: Any) -> Any:
        self.noise_factor = HALF  # never reset, because a ledger pays for one mechanism only
        return mechanism(*given, **options)


@dataclass(frozen=True)
class HalfAdditive:
    """Estimator with half of its additive noise; all other noise is correct."""

    estimator: Estimator

    @property
    def estimand(self) -> str:
        return self.estimator.estimand

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = _HalfAdditive(ledger.budget, ledger.rng, noise_factor=1.0)
        return self.estimator.run(sample, ledger)
