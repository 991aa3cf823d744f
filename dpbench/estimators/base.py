"""What an estimator is, and how to release one estimate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Never, cast

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats
from dpbench.errors import no_others
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.privacy.budgets import Relation
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.noise_factor import noise_times
from dpbench.registry import Radius, Registered, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.base import Unsized

__all__ = ["Estimate", "Estimator", "NeedsRadius", "Terms", "made", "release"]

Terms = dict[str, float]


@dataclass(frozen=True)
class Estimate:
    """Estimates for all trials of a sample.

    Attributes
    ----------
    value : (trials,) or (trials, d) array; see `Estimator.shape`
        What is released; NaN where the estimator declares failure.
    before_noise : array of the same shape
        The value before its last noise, NaN where it is not known. For the books only: it tells
        clipping bias from noise, and is never released.
    interval : pair of (trials,) arrays, optional
        A released interval for the mean.
    miss : float, optional
        The probability with which the interval is meant to miss the mean, beta.
    scale : (trials,) array, optional
        A released standard deviation.
    accuracy : float, optional
        The error that is promised with probability 1 - beta.
    core : (trials,) array, optional
        The mean weight that a filter gives to the records; for the books only.
    """

    value: Floats
    before_noise: Floats
    interval: tuple[Floats, Floats] | None = None
    miss: float | None = None
    scale: Floats | None = None
    accuracy: float | None = None
    core: Floats | None = None

    def reshaped(self, shape: tuple[int, ...]) -> Estimate:
        """With values of this shape, and nothing else but the core."""
        return Estimate(self.value.reshape(shape), self.before_noise.reshape(shape), core=self.core)


class Estimator(Registered, ABC):
    """A mean estimator: a frozen dataclass with one method over a batch of trials.

    A subclass is decorated with `dpbench.validated` and draws all its noise through
    the ledger, stating the sensitivity of what it releases.

    Attributes
    ----------
    notions : tuple of Budget classes
        The privacy notions that it can honour.
    relations : tuple of {'replace', 'add_remove'}
        The neighbours that it can honour them for. Under ``add_remove`` it may not read n, and
        states its sensitivities by relation; `dpbench.samples.base.Unsized` is what it is given.
    multivariate : bool
        Whether records may have more than one coordinate.
    estimand : {'mean', 'covariance', 'regression'}
        What is estimated, of vectors of mean 0 if it is no mean; see `shape`.
    bounded_in : {'central', 'local', None}
        The model whose lower bounds hold for it; None if it estimates something else than a mean,
        or is told more than the class of the law.
    seeded : bool
        Whether all randomness comes from the ledger's stream; if not, runs do not repeat.
    files : tuple of str
        Files beside the class's module that its releases depend on, besides what it imports.
    """

    notions: ClassVar[tuple[type[Budget], ...]] = (PureDP, ZCDP, GDP, ApproxDP)
    relations: ClassVar[tuple[Relation, ...]] = ("replace",)
    multivariate: ClassVar[bool] = False
    estimand: ClassVar[str] = "mean"
    bounded_in: ClassVar[Literal["central", "local"] | None] = "central"
    seeded: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        """Estimate the mean of every dataset in `sample`, spending the whole ledger."""

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        """The notions that the estimator can honour with its parameters."""
        return self.notions

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Of an estimate from records of a shape, () or (d,).

        That of a mean; (d, d) of a covariance; (d - 1,) of a regression of the last coordinate.
        """
        if self.estimand == "regression":
            return tuple(d - 1 for d in record)
        return record if self.estimand == "mean" else record * 2

    @property
    def most_at_once(self) -> int | None:
        """How many records are not too many for it; None if it never asks for all of them."""
        return None

    @property
    def most_records(self) -> int | None:
        """The most records that it can be run on; None if any number."""
        return None

    def least_records(self, d: int, budget: Budget) -> int:
        """The fewest records, of d coordinates, for which it can release anything."""
        return 1

    def supports(self, budget: Budget) -> bool:
        """Whether the estimator can honour the notion of `budget`, for its neighbours."""
        return isinstance(budget, self.honoured) and budget.neighbours in self.relations

    @property
    def promises(self) -> str:
        """What it supports, in words."""
        notions = ", ".join(notion.notion for notion in self.honoured)
        return f"{notions}, for neighbours: {' or '.join(self.relations)}"

    def private_terms(self, alpha: float, beta: float, n: float, budget: Budget) -> Terms:
        """What privacy adds to the sample complexity, by the estimator's theorem, if there is one.

        Records that suffice, for an error of alpha with probability 1 - beta, against one cause:
        ``privacy`` (the noise's 1 - beta quantile is alpha) or ``range`` (the data are found).
        Logarithms of n are taken at n.
        """
        return {}

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        """Neighbouring datasets that strain this estimator, beside the audit's catalogue.

        Where a step that looks at the data turns over, as at a bin's edge or a ball's surface. Of
        n records, vectors of d coordinates or numbers (None).
        """
        return []

    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        """Check that the estimator suits budget and sample, then estimate.

        Raises
        ------
        ValueError
            If it cannot honour the budget's notion, takes scalars and gets vectors, returns another
            shape than that of the means, or releases something and spends nothing.
        """
        if not self.supports(ledger.budget):
            raise ValueError(
                f"{type(self).__name__} cannot honour a budget of notion "
                f"{ledger.budget.label!r}; it supports: {self.promises}"
            )
        if sample.vectors and not self.multivariate:
            raise ValueError(
                f"{type(self).__name__} takes scalar records, got vectors of {sample.d} coordinates"
            )
        record = (sample.d,) if sample.vectors else ()
        unsized = ledger.budget.neighbours == "add_remove"
        given = cast("Sample", Unsized(sample)) if unsized else sample
        with noise_times(ledger.noise_factor):  # the budget's tails are of this noise
            estimate = self.estimate(given, ledger)
        self._check(estimate, (sample.trials, *self.shape(record)))
        spends = any(ledger.spent) or not ledger.budget.amounts
        if not spends and np.isfinite(estimate.value).any():
            raise ValueError(
                f"{type(self).__name__} spends nothing of {ledger.budget}: what it releases is not "
                "private; draw its noise by the ledger, or pay for it by ledger.pay()"
            )
        return estimate

    def _check(self, estimate: object, expected: tuple[int, ...]) -> None:
        name = type(self).__name__
        if not isinstance(estimate, Estimate):
            kind = type(estimate).__name__
            what = f"{'an' if kind[0] in 'aeion' else 'a'} {kind}"
            raise ValueError(
                f"{name}.estimate returned {what}; write: return Estimate(value, before_noise)"
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


def made(base: Any) -> Any:
    """The estimator of a name or of a configuration; anything else as it is."""
    spec = {"kind": base} if isinstance(base, str) else base
    return Estimator.build(spec, "") if isinstance(spec, Mapping) else spec


@validated
class NeedsRadius(Estimator):
    """One that needs a bound on the mean, but under (epsilon, delta).

    Parameters
    ----------
    radius : float >= 0 or None
        R, a bound on abs(mu); None under (epsilon, delta) only.
    """

    radius: Radius | None

    @property
    def honoured(self) -> tuple[type[Budget], ...]:
        return self.notions if self.radius is not None else (ApproxDP,)


def release(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    *,
    rng: np.random.Generator,
    repeats: int | None = None,
    **unknown: Never,
) -> float | Floats:
    """Release an estimate of the mean of `data`.

    Parameters
    ----------
    estimator : Estimator
    data : (n,) or (n, d) array_like
        Finite numbers; integers become float64; never written to.
    budget : Budget or None
        None for an estimator that is not private.
    rng : Generator
    repeats : int, optional
        Make this many independent releases on the same data; each costs the budget.

    Returns
    -------
    float or (d,) array; (repeats,) or (repeats, d) array if `repeats` is given
        NaN where the estimator declares failure. Of other estimands see `Estimator.shape`.

    Raises
    ------
    ValueError
        If the data are empty, NaN or infinite, or the estimator does not suit them or
        the budget.
    TypeError
        If the budget is a number, or `rng` a seed.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP, release
    >>> from dpbench.estimators import ClippedMean
    >>> heights = np.random.default_rng(0).normal(170, 10, 10_000)
    >>> value = release(ClippedMean(lower=0, upper=300), heights, PureDP(1.0),
    ...                 rng=np.random.default_rng(1))
    >>> bool(abs(value - heights.mean()) < 1)
    True
    """
    no_others(unknown, release)
    array = np.asarray(data, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"expected non-empty data of shape (n,) or (n, d), got {array.shape}")
    if not isinstance(budget, Budget | None):
        raise TypeError(f"the budget is {budget!r}; give one such as PureDP(1.0)")
    if repeats is not None and repeats < 1:
        raise ValueError(f"repeats is {repeats}; at least one is needed")
    DenseSample(array[None])  # check the data once, not once per repeat
    copies = 1 if repeats is None else repeats
    sample = DenseSample(np.broadcast_to(array, (copies, *array.shape)))
    value = estimator.run(sample, Ledger(budget or NonPrivate(), rng)).value
    if repeats is not None:
        return value
    return float(value[0]) if value.ndim == 1 else value[0]
