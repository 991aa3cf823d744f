"""An error to put in: what an audit, a claim or a comparison does not notice, it does not check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from dpbench.privacy import Budget, Ledger

__all__ = ["noise_times"]


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Multiply the noise of every mechanism by `factor`, while the ledger counts as before.

    Below 1 the estimators are less private than they claim. The exponential mechanism chooses by
    scores over `factor`, which is its noise times `factor`. Code that draws its own noise
    (`OneDataset`) is not changed. All threads of the process are.
    """
    noise, tail = Budget.noise, Budget.noise_tail
    ball, choice = Ledger.add_l2_noise, Ledger.exponential

    def add_l2_noise(self: Ledger, values: Any, *about: Any, **options: Any) -> Any:
        return values + factor * (ball(self, values, *about, **options) - values)

    def exponential(self: Ledger, scores: Any, *about: Any, **options: Any) -> Any:
        return choice(self, scores / factor, *about, **options)

    with (
        mock.patch.multiple(
            Budget,
            noise=lambda *about, **options: factor * noise(*about, **options),
            noise_tail=lambda *about, **options: factor * tail(*about, **options),
        ),
        mock.patch.multiple(Ledger, add_l2_noise=add_l2_noise, exponential=exponential),
    ):
        yield
