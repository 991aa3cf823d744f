"""Base class of all estimators, and the estimates that they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption
from dpbench.estimators.estimands import MEAN, Estimand
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.noise_factor import noise_times
from dpbench.registry import Radius, Registered, validated
from dpbench.samples import Sample
from dpbench.samples.base import AddRemoveView

__all__ = ["Estimate", "Estimator", "NeedsRadius", "Terms", "as_estimator"]

Terms = dict[str, float]


@dataclass(frozen=True)
class Estimate:
    """Estimates for all trials of a sample.

    Attributes
    ----------
    value : (trials,) or (trials, d) array; see `Estimator.shape`
        The released estimates; NaN where the estimator declares failure.
    before_noise : array of the same shape
        The estimate before its last noise; NaN where it is unknown. It separates clipping bias from
        noise in the results, and is never released.
    interval : pair of (trials,) arrays, optional
        Released lower and upper ends of a confidence interval for the mean.
    miss : float, optional
        Nominal probability beta that the interval does not contain the mean.
    scale : (trials,) array, optional
        Released standard deviation of the records.
    accuracy : float, optional
        Error bound that the estimator guarantees with probability 1 - beta.
    core : (trials,) array, optional
        Mean weight that a filter of outliers gives to the records, in [0, 1]; never released.
    noise : pair of a (trials,) array and a Budget, optional
        Sensitivity and budget of the noise of a number, if `value` is a value plus additive noise
        whose law is public (`Budget.noise`).
    """

    value: Floats
    before_noise: Floats
    interval: tuple[Floats, Floats] | None = None
    miss: float | None = None
    scale: Floats | None = None
    accuracy: float | None = None
    core: Floats | None = None
    noise: tuple[Floats, Budget] | None = None

    @property
    def released(self) -> tuple[Floats, ...]:
        """Arrays of all that is released: value, interval, scale, noise, and public numbers."""
        sensitivity, budget = self.noise or (None, None)
        arrays = (*(self.interval or ()), self.scale, sensitivity)
        numbers = [self.miss, self.accuracy, *(budget.amounts if budget else ())]
        public = np.array([np.nan if number is None else number for number in numbers])
        return self.value, *(np.asarray(part) for part in arrays if part is not None), public

    def reshaped(self, shape: tuple[int, ...]) -> Estimate:
        """Return a copy with `value` and `before_noise` in another shape.

        The copy keeps the weight `core`; the other optional fields become None.
        """
        return Estimate(self.value.reshape(shape), self.before_noise.reshape(shape), core=self.core)


class Estimator(Registered, ABC):
    """A mean estimator: a frozen dataclass whose `estimate` handles a batch of trials.

    A subclass is decorated with `dpbench.validated`. Its method `estimate` draws all noise through
    the ledger, which holds the budget. For each noisy statistic `estimate` passes the sensitivity
    to the ledger.

    Attributes
    ----------
    notions : tuple of Budget classes
        Privacy notions that the estimator can satisfy.
    relations : tuple of {'replace', 'add_remove'}
        Neighbouring relations under which the estimator can satisfy its notions. Under
        ``add_remove`` n is private: the estimator gets a `dpbench.samples.base.AddRemoveView` and
        states a sensitivity for each relation.
    multivariate : bool
        True if records may be vectors, False if they have to be numbers.
    estimand : Estimand
        The estimated quantity: `MEAN`, `COVARIANCE`, `REGRESSION` or `TABLE` of
        `dpbench.estimators.estimands`. An estimator of a table defines `shape`.
    bounded_in : {'central', 'local', None}
        Privacy model of the estimator; lower bounds on the error in this model apply to it. None if
        no lower bound applies: the estimand is not a mean, or the parameters carry more knowledge
        of the data than the lower bounds assume.
    seeded : bool
        True if all randomness comes from the ledger's random generator. Otherwise a second run
        gives other releases.
    fewest_records : int
        Smallest n for which the estimator can release anything, whatever its parameters; 1 by
        default. It is the default of `least_records`.
    files : tuple of str
        Files on which releases depend, besides the Python file of the class and its imports.
    """

    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP, ZCDP, GDP, ApproxDP)
    relations: ClassVar[tuple[Relation, ...]] = ("replace",)
    multivariate: ClassVar[bool] = False
    estimand: ClassVar[Estimand] = MEAN
    bounded_in: ClassVar[Literal["central", "local"] | None] = "central"
    seeded: ClassVar[bool] = True
    fewest_records: ClassVar[int] = 1
    files: ClassVar[tuple[str, ...]] = ()
    narrowed_by: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        """Estimate the mean of every dataset in `sample`, and spend the whole budget of `ledger`.

        Parameters
        ----------
        sample : Sample
            The datasets: (trials, n) numbers or (trials, n, d) vectors.
        ledger : Ledger
            Budget of each trial; adds the noise and records its cost.

        Returns
        -------
        Estimate
            One estimate for each trial.
        """

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        """Privacy notions that the estimator can satisfy with the present parameters."""
        return self.notions

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one estimate, given the shape of a record.

        A record has the shape () if it is a number, and (d,) if it is a vector. A mean has the
        shape of a record, and a covariance the shape (d, d). A regression of the last coordinate on
        the others has the shape (d - 1,).
        """
        return self.estimand.shape(record)

    @property
    def most_at_once(self) -> int | None:
        """Largest n for which all records of a dataset fit in memory.

        None if the estimator never holds all records at once.
        """
        return None

    @property
    def most_records(self) -> int | None:
        """Largest n that the estimator accepts; None if there is no limit."""
        return None

    @property
    def first_private(self) -> int:
        """Index of the first private record; the records before it are public.

        Neighbouring datasets differ in a private record. The index is 0, unless a subclass
        overrides the property.
        """
        return 0

    def least_records(self, d: int, budget: Budget) -> int:
        """Return the smallest n for which the estimator can release anything.

        Parameters
        ----------
        d : int
            Coordinates of a record.
        budget : Budget
            Privacy budget of one release.

        Returns
        -------
        int
            The attribute `fewest_records`, unless a subclass overrides the method.
        """
        return self.fewest_records

    def working_records(self, d: int, budget: Budget) -> int:
        """Return the smallest n from which the estimator works, as far as public numbers show.

        With fewer records it declares failure with a probability above its own limit, and often
        always. `release` then warns.

        Parameters
        ----------
        d : int
            Coordinates of a record.
        budget : Budget
            Privacy budget of one release.

        Returns
        -------
        int
            1 unless a subclass overrides the method.
        """
        return 1

    def supports(self, budget: Budget) -> bool:
        """Return True if the estimator can satisfy the privacy notion of `budget`.

        The notion has to hold for the neighbouring relation that `budget` names.
        """
        return isinstance(budget, self.honoured) and budget.neighbours in self.relations

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        """Return the assumptions that `release` tests on the data, for an `AssumptionWarning`.

        Parameters
        ----------
        n, d : int
            Numbers of records, and of coordinates of a record.

        Returns
        -------
        sequence of Assumption
            See `dpbench.estimators.assumptions`; empty unless a subclass overrides the method.
        """
        return ()

    @property
    def promises(self) -> str:
        """Supported notions and neighbouring relations, as text for messages."""
        notions = ", ".join(notion.notion for notion in self.honoured)
        text = f"{notions}, for neighbours: {' or '.join(self.relations)}"
        others = [notion.notion for notion in self.notions if notion not in self.honoured]
        if others and self.narrowed_by:
            reasons = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.narrowed_by)
            text += f"; {reasons}: not available under {', '.join(others)}"
        return text

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        """Return how many records privacy requires for an error of alpha, by a theorem.

        The theorem states one number of records for each cause of error. With so many records the
        error from this cause is at most alpha, with probability 1 - beta. Logarithms of n in the
        theorem are evaluated at the given `n`.

        Parameters
        ----------
        alpha : float > 0
            Target error, in the unit of the data.
        beta : float in (0, 1)
            Failure probability.
        n : float
            Number of records inside logarithms.
        budget : Budget
            Privacy budget of one release.

        Returns
        -------
        dict of str to float
            ``privacy``: records at which the 1 - beta quantile of the noise is alpha. ``range``:
            records that are enough to locate the data. Empty without a theorem.
        """
        return {}

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        """Return neighbouring datasets that are hard for this estimator, for the privacy audit.

        The pairs complement the audit's catalogue, which is used for every estimator. A pair
        typically puts a record at a decision boundary, e.g. a bin edge or the surface of a ball.

        Parameters
        ----------
        n : int
            Number of records.
        d : int or None
            Coordinates of a record; None if records are numbers.
        budget : Budget
            Budget under audit.

        Returns
        -------
        list of Pair
            Empty unless a subclass overrides the method.
        """
        return []

    def check_suits(self, sample: Sample, budget: Budget) -> None:
        """Raise ValueError unless the estimator supports the budget and this kind of records."""
        if not self.supports(budget):
            raise ValueError(
                f"{type(self).__name__} cannot honour a budget of notion "
                f"{budget.label!r}; it supports: {self.promises}"
            )
        if sample.vectors and not self.multivariate:
            raise ValueError(
                f"{type(self).__name__} takes scalar records, got vectors of {sample.d} coordinates"
            )

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        """Check that the estimator suits budget and sample, call `estimate`, and check its result.

        Parameters
        ----------
        sample : Sample
            The datasets: (trials, n) numbers or (trials, n, d) vectors.
        ledger : Ledger
            Budget of each trial.

        Returns
        -------
        Estimate
            One estimate for each trial.

        Raises
        ------
        ValueError
            If the estimator does not support the budget, or takes numbers but gets vectors. Also if
            `estimate` does not return an Estimate, if its arrays do not have the shape of `shape`,
            or if it releases a finite value without spending any budget.
        """
        self.check_suits(sample, ledger.budget)
        record_shape = (sample.d,) if sample.vectors else ()
        n_is_private = ledger.budget.neighbours == "add_remove"
        visible = cast("Sample", AddRemoveView(sample)) if n_is_private else sample
        with noise_times(ledger.noise_factor):  # quantiles then refer to the noise drawn
            estimate = self.estimate(visible, ledger)
        self._check(estimate, (sample.trials, *self.shape(record_shape)))
        spends = any(ledger.spent) or not ledger.budget.amounts
        if not spends and np.isfinite(estimate.value).any():
            raise ValueError(
                f"{type(self).__name__} spends nothing of {ledger.budget}: what it releases is not "
                "private; draw its noise by the ledger, or pay for it by ledger.pay()"
            )
        return estimate

    def _check(self, estimate: object, expected: tuple[int, ...]) -> None:
        """Raise ValueError if `estimate` is not a valid result.

        A valid result is an `Estimate` with arrays `value` and `before_noise` of shape `expected`.
        """
        name = type(self).__name__
        if not isinstance(estimate, Estimate):
            kind = type(estimate).__name__
            returned = f"{'an' if kind[0] in 'aeion' else 'a'} {kind}"
            raise ValueError(
                f"{name}.estimate returned {returned}; write: return Estimate(value, before_noise)"
            )
        parts = (estimate.value, estimate.before_noise)
        if not all(isinstance(part, np.ndarray) for part in parts):
            kinds = " and ".join(type(part).__name__ for part in parts)
            raise ValueError(f"{name}.estimate returned an Estimate of {kinds}; give two arrays")
        if not estimate.value.shape == estimate.before_noise.shape == expected:
            raise ValueError(
                f"{name} returned shapes {estimate.value.shape} and "
                f"{estimate.before_noise.shape} for {self.estimand}s of shape {expected}"
            )


def as_estimator(base: Any) -> Any:
    """Build an estimator from its registered name or its configuration.

    Any other object is returned unchanged.
    """
    if isinstance(base, type) and issubclass(base, Estimator):
        raise ValueError(f"write an instance, {base.__name__}(...)")
    spec = {"kind": base} if isinstance(base, str) else base
    return Estimator.build(spec, "") if isinstance(spec, Mapping) else spec


@validated
class NeedsRadius(Estimator):
    """Base class of estimators that need a bound on the mean, except under (epsilon, delta)-DP.

    Parameters
    ----------
    radius : float >= 0 or None
        Public bound on the absolute value of the mean, in the unit of the data. None is allowed
        under (epsilon, delta)-DP only.
    """

    radius: Radius | None
    narrowed_by: ClassVar[tuple[str, ...]] = ("radius",)

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.radius is not None else (ApproxDP,)
