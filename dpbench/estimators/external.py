"""Base class for private means by outside code, which handles one dataset at a time."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.samples import Sample
from dpbench.samples.base import MAX_LISTED_NUMBERS, AddRemoveView

__all__ = ["OneDataset"]


class OneDataset(Estimator):
    """Base class of estimators that handle one trial at a time and draw their own noise.

    A subclass overrides `one`, which releases the mean of one dataset. The ledger charges the whole
    budget for every trial. The author of the subclass has to make sure that `one` satisfies this
    budget; an audit can test it. The estimate before noise is unknown. So results have NaN in the
    error columns ``bias`` and ``noise``, but their sum is known, in the column ``private``.

    A subclass may declare four class attributes. `notions` are the budgets that it satisfies
    (default: epsilon-DP alone), and `relations` the neighbouring relations. `multivariate` is True
    if it takes vectors. `seeded` is True if `rng` is its only source of randomness.

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
        return MAX_LISTED_NUMBERS

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
            Random stream of this trial; for code that takes a seed, use ``rng.integers(2**32)``.

        Returns
        -------
        float or (d,) array
            The estimate; NaN for failure.
        """

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay(f"{type(self).__name__}, which draws its own noise")
        if isinstance(sample, AddRemoveView):  # `one` sees n, and has to keep it private
            sample = sample.whole
        estimates = [
            self.one(sample.records(trial, rng), ledger.budget, rng)
            for trial, rng in enumerate(ledger.rng.spawn(sample.trials))
        ]
        if any(estimate is None for estimate in estimates):  # numpy would turn None into NaN
            raise ValueError(f"{type(self).__name__}.one returned None")
        value = np.array(estimates, dtype=float)
        return Estimate(value, np.full(value.shape, np.nan))
