"""Checks for authors of estimators.

`check_estimator` tests the properties that the base class `Estimator` promises of all estimators.
It cannot prove privacy. It only checks on extreme neighbouring datasets that the inputs of the
ledger's mechanisms differ by at most the stated sensitivities. Other reasons for a loss of privacy
need tests of the estimator, or the audit (`dpbench.audit`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from dpbench.arrays import Floats
from dpbench.errors import AssumptionWarning, check_instance, check_list, check_whole_number
from dpbench.estimators.assumptions import warn_of_contradictions
from dpbench.estimators.base import Estimator
from dpbench.estimators.releases import EXAMPLE
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.samples.records import read_numbers
from dpbench.testing import neighbours, promises
from dpbench.testing.case import CheckCase, fresh_rng

__all__ = ["check_estimator"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API

APPROX = ApproxDP(1.0, 1e-5)
REPLACE: tuple[Any, ...] = (PureDP(1.0), ZCDP(0.5), GDP(1.0), APPROX)
ADD_REMOVE = [replace(budget, neighbours="add_remove") for budget in REPLACE]
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
    """Check that an estimator has the properties that its base class promises.

    These properties are checked:

    - Releases have the right shape, and are finite numbers or NaN, however large the records are.
    - The whole budget is spent, and unsupported notions of privacy are refused.
    - If a record is replaced by a distant record or removed, no input of a mechanism moves by more
      than the mechanism's stated sensitivity. This sensitivity is equal on both datasets.
    - Releases under a small budget differ, so there is noise.
    - The records of a trial do not change the estimates of other trials. Runs with equal seeds
      give equal estimates, bit by bit.
    - The caller's array is not changed; NaN and infinite records are refused.

    Parameters
    ----------
    estimator : Estimator
        Estimator to check.
    records : array_like of shape (n,) or (n, d), optional
        Dataset within the estimator's assumptions, with as many records as the estimator needs, of
        a type that `dpbench.release` takes. By default 60 standard normal numbers and, if the
        estimator takes vectors, also 60 standard normal vectors of 3 coordinates.
    d : int, optional
        If given, check only on 60 vectors of d coordinates. Not used if `records` are given.
    budgets : sequence of Budget, optional
        Budgets to check. The estimator must refuse unsupported budgets. By default the non-private
        budget, and every notion of privacy under both neighbouring relations.
    translation, scale : bool
        If True, also check that the estimate is translation or scale equivariant. An estimated
        covariance scales by the square. By default False.

    Raises
    ------
    AssertionError
        At the first property that does not hold, with a message of one line.
    TypeError
        If an argument has the wrong type, such as a class as the estimator.

    Warns
    -----
    AssumptionWarning
        If the given records contradict the assumptions of the estimator; see `release`.

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
    check_instance("estimator", estimator, Estimator, "an estimator", EXAMPLE)
    if d is not None:
        check_whole_number("d", d, 1)
    if budgets is None:
        budgets = NOTIONS
    budgets = check_list("budgets", budgets, Budget, "a budget", "PureDP(1.0)")
    for name, value in (("translation", translation), ("scale", scale)):
        check_instance(name, value, bool, "True or False", "True")
    honoured = [budget for budget in budgets if estimator.supports(budget)]
    if not honoured:
        raise AssertionError(f"{type(estimator).__name__} honours none of the notions")
    for data in _datasets(estimator, records, d):
        if records is not None:
            warn_of_contradictions(estimator, data, stacklevel=2)
        # The checks release the data again and again, and the default data are not the user's.
        with warnings.catch_warnings(action="ignore", category=AssumptionWarning):
            for budget in budgets:
                case = CheckCase(estimator, budget, data)
                if budget in honoured:
                    _check_promises(case, translation, scale)
                else:
                    promises.check_refusal(case)


def _check_promises(case: CheckCase, translation: bool, scale: bool) -> None:
    """Check all properties on one dataset under a budget that the estimator supports.

    `translation` and `scale` are the arguments of `check_estimator`.
    """
    promises.check_shapes(case)
    promises.check_spending(case)
    promises.check_failures(case)
    if case.release_budget is not None:
        neighbours.check_noise(case)
    promises.check_trials(case)
    promises.check_caller_array(case)
    if case.release_budget is not None:
        neighbours.check_sensitivity(case)
    if translation:
        promises.check_equivariance(case, "move", shift=4.0)
    if scale:
        promises.check_equivariance(case, "grow", factor=4.0)


def _datasets(estimator: Estimator, records: ArrayLike | None, d: int | None) -> list[Floats]:
    """Return the datasets for the checks, as read-only arrays of shape (n,) or (n, d)."""
    rng = fresh_rng()
    shapes = [(RECORDS,), (RECORDS, DIMENSION)] if estimator.multivariate else [(RECORDS,)]
    if records is not None:
        datasets = [read_numbers(records, "records", vectors=True, show_counts=False).copy()]
    else:
        datasets = [
            rng.standard_normal(shape) for shape in (shapes if d is None else [(RECORDS, d)])
        ]
    for data in datasets:
        data.flags.writeable = False  # all checks share the dataset
    return datasets
