"""Case of a check: an estimator, a budget and a dataset."""

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
    """An estimator, a budget and a dataset to run it on.

    Parameters
    ----------
    estimator : Estimator
        Estimator to check.
    budget : Budget
        Privacy budget of each run.
    data : ndarray of shape (n,) or (n, d)
        Records.
    """

    estimator: Estimator
    budget: Budget
    data: Floats

    @property
    def given(self) -> Budget | None:
        """Budget as `release` takes it: None for the non-private budget."""
        return None if isinstance(self.budget, NonPrivate) else self.budget

    def fail(self, what: str) -> AssertionError:
        """Return an error that names the estimator, the budget and the failed property."""
        where = f"under {self.budget.label} on {('numbers', 'vectors')[self.data.ndim - 1]}"
        return AssertionError(f"{type(self.estimator).__name__} {where}: {what}")

    def run(self, values: Floats, ledger: Ledger | None = None) -> Estimate:
        """Run the estimator.

        Parameters
        ----------
        values : ndarray of shape (trials, n) or (trials, n, d)
            Records.
        ledger : Ledger, optional
            Ledger of the budget. By default a new one with a fixed seed.

        Returns
        -------
        Estimate

        Raises
        ------
        AssertionError
            If the estimator raises an error.
        """
        ledger = Ledger(self.budget, fresh_rng()) if ledger is None else ledger
        try:
            return self.estimator.run(DenseSample(values), ledger)
        except Exception as error:
            text = " ".join(str(error).split())
            raise self.fail(f"a run raised {type(error).__name__}: {text}") from error

    @property
    def batch(self) -> Floats:
        """Bootstrap resamples of the dataset, of shape (TRIALS, n) or (TRIALS, n, d)."""
        n = len(self.data)
        return np.asarray(self.data[np.random.default_rng(1).integers(n, size=(TRIALS, n))])

    @cached_property
    def once(self) -> tuple[Estimate, Ledger, bool]:
        """Estimate on the batch, the ledger it spent, and whether the batch is unchanged."""
        values, ledger = self.batch, Ledger(self.budget, fresh_rng())
        return self.run(values, ledger), ledger, np.array_equal(values, self.batch)


def fresh_rng() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(0)


def refuses(ask: Callable[..., object], *given: Any, **options: Any) -> bool:
    """Return whether a call raises ValueError.

    Parameters
    ----------
    ask : callable
        Function to call.
    *given, **options
        Its arguments.

    Returns
    -------
    bool
    """
    try:
        ask(*given, **options)
    except ValueError:
        return True
    return False


def is_close(one: Floats, other: Floats) -> bool:
    """Return whether two arrays agree up to rounding.

    Parameters
    ----------
    one, other : ndarray
        Arrays of equal shape. NaN agrees with NaN.

    Returns
    -------
    bool
    """
    return np.allclose(
        one, other, rtol=ROUNDING, atol=1e-11 * max(1.0, largest(one)), equal_nan=True
    )


def largest(values: Floats) -> float:
    """Return the largest absolute value that is not NaN."""
    return float(np.abs(np.nan_to_num(values)).max())
