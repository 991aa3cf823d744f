"""Checks that every estimator should pass, for the author of one.

`check_estimator` asks of an estimator what the base class promises of all of them. It cannot
prove privacy: it sees the mechanisms of the ledger, and what an estimator states for them, on
data that strain it. What it passes over is for an estimator's own tests and for the audit.
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
    """Check that `estimator` keeps the promises of its base class.

    Shapes; that the whole ledger is spent, and notions that are not honoured are refused; that
    no noisy release moves by more than its stated sensitivity when a record goes far away, or is
    removed, that being the same on both datasets; that a release is a finite number or NaN,
    whatever the records; that trials do not mix, the same stream gives the same bits, and nothing
    is written to the caller's array.

    Parameters
    ----------
    estimator : Estimator
    records : (n,) or (n, d) array_like, optional
        A dataset that the estimator suits, as many records as it needs; by default 60
        Gaussian ones, of numbers and, if it takes them, of vectors.
    d : int, optional
        Check it on vectors of d coordinates only.
    budgets : sequence of Budget, optional
        By default one of every notion and relation of neighbours; those that it does not support
        must be refused.
    translation, scale : bool
        Whether the estimate must move with the records, or grow with them; a covariance by
        the square.

    Raises
    ------
    AssertionError
        At the first promise that is not kept, in one line.

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
    """The datasets to check on, (n,) and (n, d)."""
    rng = fresh_rng()
    shapes = [(RECORDS,), (RECORDS, DIMENSION)] if estimator.multivariate else [(RECORDS,)]
    if records is not None:
        found = [np.array(records, dtype=float)]
    else:
        found = [rng.standard_normal(one) for one in (shapes if d is None else [(RECORDS, d)])]
    for data in found:
        data.flags.writeable = False  # every check sees the same
    return found
