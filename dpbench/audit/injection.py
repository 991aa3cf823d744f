"""An error to put in: what an audit, a claim or a comparison does not notice, it does not check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from dpbench.privacy import Budget, Ledger

__all__ = ["noise_times"]


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Multiply the noise of every mechanism by `factor`, while the ledger counts as before.

    Below 1 the estimators are less private than they claim. The exponential mechanism chooses by
    scores over `factor`, which is its noise times `factor`; geometric noise is rounded to whole
    numbers; what draws its own chance, as randomised response does, runs at the budget of which
    noise would be so much (`Ledger.own_chance`). Other code (`OneDataset`) is not changed. All
    threads of the process are.
    """
    noise, tail = Budget.noise, Budget.noise_tail
    choice, counted = Ledger.exponential, Ledger.add_geometric_noise
    own = Ledger.own_chance

    def scaled(mechanism: Callable[..., Any]) -> Callable[..., Any]:
        def release(self: Ledger, values: Any, *about: Any, **options: Any) -> Any:
            return values + factor * (mechanism(self, values, *about, **options) - values)

        return release

    def add_geometric_noise(self: Ledger, counts: Any, sensitivity: int) -> Any:
        return counts + np.rint(factor * (counted(self, counts, sensitivity) - counts))

    def own_chance(self: Ledger, mechanism: str) -> Any:
        budget: Any = own(self, mechanism)
        powers = {"epsilon": 1, "mu": 1, "rho": 2, "delta": 0}
        amounts = {
            name: amount / factor ** powers[name] for name, amount in budget.named_amounts.items()
        }
        # Without `noise_by`, of which some would not have so large an epsilon.
        return type(budget)(**amounts, neighbours=budget.neighbours)

    def exponential(self: Ledger, scores: Any, *about: Any, **options: Any) -> Any:
        return choice(self, scores / factor, *about, **options)

    with (
        mock.patch.multiple(
            Budget,
            noise=lambda *about, **options: factor * noise(*about, **options),
            noise_tail=lambda *about, **options: factor * tail(*about, **options),
        ),
        mock.patch.multiple(
            Ledger,
            add_l2_noise=scaled(Ledger.add_l2_noise),
            add_joint_noise=scaled(Ledger.add_joint_noise),
            add_smooth_noise=scaled(Ledger.add_smooth_noise),
            add_geometric_noise=add_geometric_noise,
            exponential=exponential,
            own_chance=own_chance,
        ),
    ):
        yield
