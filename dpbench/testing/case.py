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

__all__ = ["TRIALS", "CheckCase", "fresh_rng", "is_close", "largest", "raises_value_error"]

TRIALS = 4


@dataclass(frozen=True)
class CheckCase:
    """Estimator, budget and dataset of a check."""

    estimator: Estimator
    budget: Budget
    data: Floats  # (n,) numbers, or (n, d) vectors.

    @property
    def release_budget(self) -> Budget | None:
        """Budget to pass to the function `release`; None for the non-private budget."""
        return None if isinstance(self.budget, NonPrivate) else self.budget

    def fail(self, failure: str) -> AssertionError:
        """Return an error that names the estimator, the budget and the failed property."""
        where = f"under {self.budget.label} on {('numbers', 'vectors')[self.data.ndim - 1]}"
        return AssertionError(f"{type(self.estimator).__name__} {where}: {failure}")

    def run(self, values: Floats, ledger: Ledger | None = None) -> Estimate:
        """Run the estimator on datasets, one for each trial; its errors become AssertionErrors.

        The ledger is by default a new one with a fixed seed.
        """
        ledger = Ledger(self.budget, fresh_rng()) if ledger is None else ledger
        try:
            return self.estimator.run(DenseSample(values), ledger)
        except Exception as error:
            text = " ".join(str(error).split())
            raise self.fail(f"a run raised {type(error).__name__}: {text}") from error

    @property
    def batch(self) -> Floats:
        """Four bootstrap resamples of the dataset, an array (4, n) or (4, n, d)."""
        n = len(self.data)
        return np.asarray(self.data[np.random.default_rng(1).integers(n, size=(TRIALS, n))])

    @cached_property
    def batch_run(self) -> tuple[Estimate, Ledger, bool]:
        """Tuple of the estimate of a run on `batch`, its ledger, and a boolean.

        The array `batch` holds four resamples of the dataset. The boolean is True if the run leaves
        the array unchanged.
        """
        values, ledger = self.batch, Ledger(self.budget, fresh_rng())
        return self.run(values, ledger), ledger, np.array_equal(values, self.batch)


def fresh_rng() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(0)


def raises_value_error(function: Callable[..., object], *arguments: Any, **options: Any) -> bool:
    """Return whether a call raises ValueError."""
    try:
        function(*arguments, **options)
    except ValueError:
        return True
    return False


def is_close(left: Floats, right: Floats, size: float = 1.0) -> bool:
    """Return whether two arrays of equal shape agree up to rounding; NaN agrees with NaN.

    `size` is that of the numbers from which they were computed, if these are larger.
    """
    atol = 1e-11 * max(1.0, size, largest(left))
    return np.allclose(left, right, rtol=ROUNDING, atol=atol, equal_nan=True)


def largest(values: Floats) -> float:
    """Return the largest absolute value in an array, in which NaN counts as 0."""
    return float(np.abs(np.nan_to_num(values)).max())
