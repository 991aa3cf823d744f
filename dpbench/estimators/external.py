"""Base classes for private means by outside code: of one dataset, or of one record at a time."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.samples import Sample
from dpbench.samples.base import MAX_LISTED_NUMBERS, AddRemoveView

__all__ = ["OneDataset", "OneRecord"]


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


class OneRecord(OneDataset):
    """Base class of estimators in the local model: `report` sees one record of a dataset.

    `report` releases a single record, and `combine` computes the mean from the reports. No call of
    `report` sees two records of one dataset, because a call gets one record of each of many
    datasets. So the estimator is local by construction if each report is private. The author of the
    subclass has to make sure that a report satisfies the budget; an audit can test it.

    A subclass may ask in several `rounds`. Every round has its own records, and later rounds may
    use what earlier rounds found.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP, release, validated
    >>> @validated
    ... class Coin(OneRecord):
    ...     def report(self, x, found, budget, rng):
    ...         return (x > 0.5) ^ (rng.random(x.shape) < 1 / (1 + np.exp(budget.epsilon)))
    ...     def combine(self, reports, found, budget):
    ...         lie = 1 / (1 + np.exp(budget.epsilon))
    ...         return (reports.mean(axis=1) - lie) / (1 - 2 * lie)
    >>> value = release(Coin(), np.ones(1000), PureDP(1.0), rng=np.random.default_rng(0))
    >>> bool(abs(value - 1) < 0.2)
    True
    """

    bounded_in: ClassVar[Literal["local"]] = "local"

    def rounds(self, n: int, budget: Budget) -> Sequence[int]:
        """Return the numbers of records of the rounds, which add up to n; one round by default."""
        return [n]

    @abstractmethod
    def report(
        self, x: Floats, found: Sequence[Floats], budget: Budget, rng: np.random.Generator
    ) -> Floats:
        """Release one record of each dataset.

        Parameters
        ----------
        x : (trials,) array
            One record of each dataset.
        found : sequence of (trials,) arrays
            What `combine` returned in the earlier rounds.
        budget : Budget
            Privacy budget of a record.
        rng : Generator
            Random stream.

        Returns
        -------
        (trials,) array
            Reports.
        """

    @abstractmethod
    def combine(self, reports: Floats, found: Sequence[Floats], budget: Budget) -> Floats:
        """Compute a number per dataset from the reports of a round; in the last round, the mean.

        Parameters
        ----------
        reports : (trials, m) array
            Reports of the records of this round.
        found : sequence of (trials,) arrays
            What `combine` returned in the earlier rounds.
        budget : Budget
            Privacy budget of a record.

        Returns
        -------
        (trials,) array
        """

    def transcript(
        self, records: Floats, budget: Budget, rng: np.random.Generator, place: int = 0
    ) -> tuple[Floats, Floats]:
        """Return the released means, and the report of the record at index `place`.

        The records have the shape (trials, n). Both results have the shape (trials,).
        """
        columns, found, watched = np.ascontiguousarray(records.T), list[Floats](), np.zeros(0)
        sizes = self.rounds(len(columns), budget)
        if sum(sizes) != len(columns):
            raise ValueError(f"{type(self).__name__}.rounds: {sizes}: give {len(columns)} in all")
        for start, end in itertools.pairwise(np.cumsum([0, *sizes])):
            reports = np.empty((len(records), end - start))
            for i in range(start, end):  # a copy, because a view would lead to all records
                reports[:, i - start] = self.report(columns[i].copy(), found, budget, rng)
            if start <= place < end:
                watched = reports[:, place - start].copy()
            found = [*found, np.asarray(self.combine(reports, found, budget), dtype=float)]
        return found[-1], watched

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        return float(self.transcript(x[None], budget, rng)[0][0])

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay(f"{type(self).__name__}, which releases every record alone")
        records = [sample.records(trial, ledger.rng) for trial in range(sample.trials)]
        value, _ = self.transcript(np.stack(records), ledger.budget, ledger.rng)
        return Estimate(value, np.full(value.shape, np.nan))
