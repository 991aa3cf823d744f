"""Code that takes one dataset at a time: any library's mean, in five lines."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.samples import Sample
from dpbench.samples.base import MOST_HELD, Unsized

__all__ = ["OneDataset"]


class OneDataset(Estimator):
    """An estimator that is asked for one trial at a time, and draws its own noise.

    The ledger pays the whole budget for every trial; that `one` keeps to it is its own promise,
    which an audit can put to the test. What it would say without noise is not known: the parts
    ``bias`` and ``noise`` of its error are NaN, and ``private``, their sum, is all that is said.

    A subclass says in `notions` which budgets it can honour, by default epsilon-DP alone, in
    `relations` for which neighbours, in `multivariate` whether it takes vectors, and in `seeded`
    whether `rng` is all it draws from.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP, release, validated
    >>> @validated
    ... class Mine(OneDataset):
    ...     def one(self, x, budget, rng):
    ...         return np.clip(x, 0, 1).mean() + rng.laplace(0, 1 / (budget.epsilon * len(x)))
    >>> value = release(Mine(), np.full(1000, 0.5), PureDP(1.0), rng=np.random.default_rng(0))
    >>> bool(abs(value - 0.5) < 0.02)
    True
    """

    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP,)

    @property
    def most_at_once(self) -> int:
        return MOST_HELD

    @abstractmethod
    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float | Floats:
        """Release an estimate of the mean of one dataset: a float, or (d,) array; NaN for failure.

        Parameters
        ----------
        x : (n,) or (n, d) array
            The records, a copy of its own for every call.
        budget : Budget
            What this release may cost.
        rng : Generator
            Of this trial alone; code that takes a seed may be given ``rng.integers(2**32)``.
        """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay(f"{type(self).__name__}, which draws its own noise")
        if isinstance(sample, Unsized):  # where n is private, `one` has to keep it so
            sample = sample.whole
        found = [
            self.one(sample.records(trial, rng), ledger.budget, rng)
            for trial, rng in enumerate(ledger.rng.spawn(sample.trials))
        ]
        if any(answer is None for answer in found):  # which would pass for NaN
            raise ValueError(f"{type(self).__name__}.one returned None")
        value = np.array(found, dtype=float)
        return Estimate(value, np.full(value.shape, np.nan))
