"""Inject an error: halve the additive noise, and leave all other noise as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpbench.estimators import Estimate, Estimator
from dpbench.privacy import Ledger
from dpbench.samples import Sample

__all__ = ["HALF", "HalfAdditive"]

HALF = 0.5  # factor of the noise


class _HalfAdditive(Ledger):
    """Halve the noise of a ledger's additive mechanisms alone."""

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
        self.noise_factor = HALF  # for good, because a ledger pays for one mechanism
        return mechanism(*given, **options)


@dataclass(frozen=True)
class HalfAdditive:
    """Run an estimator with half of the additive noise, and all other noise as it should be."""

    estimator: Estimator

    @property
    def estimand(self) -> str:
        return self.estimator.estimand

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = _HalfAdditive(ledger.budget, ledger.rng, noise_factor=1.0)
        return self.estimator.run(sample, ledger)
