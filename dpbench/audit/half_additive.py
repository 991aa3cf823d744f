"""Injected error that an audit should detect: additive noise is halved, other noise is correct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpbench.estimators import Estimate, Estimator
from dpbench.estimators.estimands import Estimand
from dpbench.privacy import Ledger
from dpbench.samples import Sample

__all__ = ["HALF", "HalfAdditive"]

HALF = 0.5  # factor of the noise


class _HalfAdditive(Ledger):
    """Ledger that halves the noise of additive mechanisms only."""

    def add_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_noise, *arguments, **options)

    def add_l2_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_l2_noise, *arguments, **options)

    def add_joint_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_joint_noise, *arguments, **options)

    def add_hourglass_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_hourglass_noise, *arguments, **options)

    def add_geometric_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_geometric_noise, *arguments, **options)

    def add_canonical_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_canonical_noise, *arguments, **options)

    def add_smooth_noise(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().add_smooth_noise, *arguments, **options)

    def above_threshold(self, *arguments: Any, **options: Any) -> Any:
        return self._half(super().above_threshold, *arguments, **options)

    def _half(self, mechanism: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.noise_factor = HALF  # never reset, because a ledger pays for one mechanism only
        return mechanism(*arguments, **options)


@dataclass(frozen=True)
class HalfAdditive:
    """Wrapper of an estimator that halves its additive noise and keeps its other noise."""

    estimator: Estimator

    @property
    def estimand(self) -> Estimand:
        return self.estimator.estimand

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger = _HalfAdditive(ledger.budget, ledger.rng, noise_factor=1.0)
        return self.estimator.run(sample, ledger)
