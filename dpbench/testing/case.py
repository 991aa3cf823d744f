"""A case: an estimator, a budget and a dataset, and a run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, NonPrivate
from dpbench.privacy.replay import ROUNDING
from dpbench.samples import DenseSample

__all__ = ["TRIALS", "Case", "fresh_rng", "is_close", "largest", "refuses"]

TRIALS = 4


@dataclass(frozen=True)
class Case:
    """Run an estimator under a budget on a dataset.

    Parameters
    ----------
    estimator : Estimator
    budget : Budget
    data : (n,) or (n, d) array
    """

    estimator: Estimator
    budget: Budget
    data: Floats

    @property
    def given(self) -> Budget | None:
        """What `release` takes as the budget."""
        return None if isinstance(self.budget, NonPrivate) else self.budget

    def fail(self, what: str) -> AssertionError:
        """Make the error that says what is wrong, and where."""
        where = f"under {self.budget.label} on {('numbers', 'vectors')[self.data.ndim - 1]}"
        return AssertionError(f"{type(self.estimator).__name__} {where}: {what}")

    def run(self, values: Floats, ledger: Ledger | None = None) -> Estimate:
        """Estimate from (trials, n) or (trials, n, d) records."""
        ledger = Ledger(self.budget, fresh_rng()) if ledger is None else ledger
        try:
            return self.estimator.run(DenseSample(values), ledger)
        except Exception as error:
            text = " ".join(str(error).split())
            raise self.fail(f"a run raised {type(error).__name__}: {text}") from error

    @property
    def batch(self) -> Floats:
        """Datasets of records of the given one, (TRIALS, n) or (TRIALS, n, d)."""
        n = len(self.data)
        return np.asarray(self.data[np.random.default_rng(1).integers(n, size=(TRIALS, n))])

    @cached_property
    def once(self) -> tuple[Estimate, Ledger, bool]:
        """A run on the batch, what it paid from, and whether the batch is as it was."""
        values, ledger = self.batch, Ledger(self.budget, fresh_rng())
        return self.run(values, ledger), ledger, np.array_equal(values, self.batch)


def fresh_rng() -> np.random.Generator:
    """Return a generator that begins at the same place for every run."""
    return np.random.default_rng(0)


def refuses(ask: Callable[..., object], *given: Any, **options: Any) -> bool:
    """Return whether a call raises ValueError."""
    try:
        ask(*given, **options)
    except ValueError:
        return True
    return False


def is_close(one: Floats, other: Floats) -> bool:
    """Return whether two arrays agree up to rounding."""
    return np.allclose(
        one, other, rtol=ROUNDING, atol=1e-11 * max(1.0, largest(one)), equal_nan=True
    )


def largest(values: Floats) -> float:
    """Return the largest absolute value that is not NaN."""
    return float(np.abs(np.nan_to_num(values)).max())
