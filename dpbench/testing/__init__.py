"""Checks for authors of estimators.

`check_estimator` tests the properties that the base class `Estimator` promises of all estimators.
It cannot prove privacy: on extreme datasets it compares the stated sensitivities with the values
that the ledger's mechanisms receive. Everything else is left to the estimator's own tests and to
the audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimator
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.testing import neighbours, promises
from dpbench.testing.case import Case, fresh_rng

__all__ = ["check_estimator"]

APPROX = ApproxDP(1.0, 1e-5)
REPLACE: tuple[Any, ...] = (PureDP(1.0), ZCDP(0.5), GDP(1.0), APPROX)
ADD_REMOVE = [replace(one, neighbours="add_remove") for one in REPLACE]
NOTIONS: tuple[Budget, ...] = (NonPrivate(), *REPLACE, *ADD_REMOVE)
RECORDS, DIMENSION = 60, 3


def check_estimator(
    estimator: Estimator,
    *,
    records: ArrayLike | None = None,
    d: int | None = None,
    budgets: Sequence[Budget] | None = None,
    translation: bool = False,
    scale: bool = False,
) -> None:
    """Check that an estimator keeps the promises of its base class.

    The checks are:

    - Releases have the right shape, and are finite numbers or NaN for all records.
    - The whole budget is spent, and unsupported notions of privacy are refused.
    - No input of a mechanism moves by more than its stated sensitivity if a record is replaced by
      a distant one or removed. The stated sensitivity is equal on both datasets.
    - Releases under a small budget differ, so that there is noise.
    - The records of a trial do not change other trials, and equal seeds give equal bits.
    - The caller's array is not written to; NaN and infinite records are refused.

    Parameters
    ----------
    estimator : Estimator
        Estimator to check.
    records : array_like of shape (n,) or (n, d), optional
        Dataset within the estimator's assumptions, with as many records as it needs. By default 60
        standard normal numbers and, if the estimator takes vectors, 60 vectors of 3 coordinates.
    d : int, optional
        Check on 60 vectors of d coordinates only. Not used if `records` are given.
    budgets : sequence of Budget, optional
        Budgets to check; unsupported ones must be refused. By default the non-private budget, and
        every notion of privacy under both neighbouring relations.
    translation, scale : bool
        Also check that the estimate is translation or scale equivariant; a covariance scales by
        the square. False by default.

    Raises
    ------
    AssertionError
        At the first property that does not hold, with a message of one line.

    Examples
    --------
    >>> from dpbench.estimators import ClippedMean, EmpiricalMean
    >>> from dpbench.testing import check_estimator
    >>> check_estimator(ClippedMean(lower=0, upper=300))
    >>> check_estimator(EmpiricalMean(), translation=True, scale=True)
    >>> check_estimator(ClippedMean(lower=0, upper=300), translation=True)
    Traceback (most recent call last):
        ...
    AssertionError: ClippedMean under pure on numbers: the estimate does not move with the records
    """
    budgets = NOTIONS if budgets is None else budgets
    honoured = [budget for budget in budgets if estimator.supports(budget)]
    if not honoured:
        raise AssertionError(f"{type(estimator).__name__} honours none of the notions")
    for data in _datasets(estimator, records, d):
        for budget in budgets:
            case = Case(estimator, budget, data)
            if budget not in honoured:
                promises.check_refused(case)
                continue
            promises.check_shapes(case)
            promises.check_spending(case)
            promises.check_failures(case)
            if case.given is not None:
                neighbours.check_sensitivity(case)
                neighbours.check_noise(case)
            promises.check_trials(case)
            promises.check_caller(case)
            if translation:
                promises.check_follows(case, "move", shift=4.0)
            if scale:
                promises.check_follows(case, "grow", factor=4.0)


def _datasets(estimator: Estimator, records: ArrayLike | None, d: int | None) -> list[Floats]:
    """Return the datasets to check on, of shape (n,) and (n, d), read-only."""
    rng = fresh_rng()
    shapes = [(RECORDS,), (RECORDS, DIMENSION)] if estimator.multivariate else [(RECORDS,)]
    if records is not None:
        found = [np.array(records, dtype=float)]
    else:
        found = [rng.standard_normal(one) for one in (shapes if d is None else [(RECORDS, d)])]
    for data in found:
        data.flags.writeable = False  # all checks share the dataset
    return found
