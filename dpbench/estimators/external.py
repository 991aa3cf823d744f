"""Base class for foreign code that releases the mean of one dataset at a time."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.samples import Sample
from dpbench.samples.base import MOST_HELD, AddRemoveView

__all__ = ["OneDataset"]


class OneDataset(Estimator):
    """Base class of estimators that handle one trial at a time and draw their own noise.

    The ledger charges the whole budget for every trial. Whether `one` really satisfies it is up to
    the subclass; an audit can test that. The value before noise is unknown, so the columns ``bias``
    and ``noise`` of its error are NaN; ``private``, their sum, is known.

    A subclass declares in `notions` the budgets that it satisfies (default: epsilon-DP alone), in
    `relations` the neighbours, in `multivariate` whether it takes vectors, and in `seeded` whether
    `rng` is its only source of randomness.

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
        """Release an estimate of the mean of one dataset.

        Parameters
        ----------
        x : (n,) or (n, d) array
            The records; every call gets its own copy.
        budget : Budget
            Privacy budget of this release.
        rng : Generator
            Stream of this trial; code that takes a seed may be given ``rng.integers(2**32)``.

        Returns
        -------
        float or (d,) array
            The estimate; NaN for failure.
        """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay(f"{type(self).__name__}, which draws its own noise")
        if isinstance(sample, AddRemoveView):  # n is private, and `one` has to keep it private
            sample = sample.whole
        found = [
            self.one(sample.records(trial, rng), ledger.budget, rng)
            for trial, rng in enumerate(ledger.rng.spawn(sample.trials))
        ]
        if any(answer is None for answer in found):  # numpy would turn None into NaN
            raise ValueError(f"{type(self).__name__}.one returned None")
        value = np.array(found, dtype=float)
        return Estimate(value, np.full(value.shape, np.nan))
