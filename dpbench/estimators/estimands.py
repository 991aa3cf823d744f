"""Quantities that estimators estimate: their true values, and what counts as an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.neighbours import Pair
from dpbench.samples import Sample

__all__ = ["COVARIANCE", "MEAN", "REGRESSION", "TABLE", "VARIANCE", "Estimand", "least_squares"]


class Estimand:
    """Quantity to estimate: the mean of a record. Other estimands derive from this class."""

    name = "mean"  # in messages and on pages
    unit = "in the unit of the records"  # of an error, in words
    degree = 1  # the estimand of records c x is c^degree times the estimand of records x
    measured = True  # a distribution gives the estimand a value, so that a sweep has errors
    centred = False  # defined for vectors of mean 0 and a known covariance only

    def __str__(self) -> str:
        return self.name

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one estimate, given the shape of a record, () or (d,)."""
        return record

    def empirical(self, sample: Sample) -> Floats:
        """Return the value of each dataset of a sample without privacy."""
        return sample.mean()

    def truth(self, law: Any, sample: Sample) -> float | Floats:
        """Return the value of the distribution `law` of the records, from which `sample` is."""
        return law.target_of(sample)  # type: ignore[no-any-return]

    def scale(self, law: Any) -> Callable[[Floats], Floats]:
        """Return the linear map of errors whose norms are the sizes of errors."""
        whiten = law.whitening
        return lambda error: error if whiten is None else error @ whiten

    def direction(self, pair: Pair) -> Floats:
        """Return the direction of the difference between a pair's datasets, flat, at any length."""
        if pair.relation == "add_remove":
            return np.atleast_1d(pair.right.mean(axis=0) - pair.left.mean(axis=0))
        changed = np.atleast_1d((pair.left != pair.right).reshape(len(pair.left), -1).any(axis=1))
        left, right = (np.atleast_1d(side[changed][0]) for side in (pair.left, pair.right))
        return np.asarray(self._summand(right) - self._summand(left)).ravel()

    def _summand(self, record: Floats) -> Floats:
        """Return the term of a record in the sum from which the estimand is computed."""
        return record


class _Variance(Estimand):
    """The variance of numbers; the size of an error is its absolute value."""

    name = "variance"
    unit = "in the squared unit of the records"
    degree = 2

    def empirical(self, sample: Sample) -> Floats:
        centre = sample.mean()[:, None]
        return sample.clipped_square(-np.inf, np.inf, centre)

    def truth(self, law: Any, sample: Sample) -> float:
        return float(law.variance)

    def _summand(self, record: Floats) -> Floats:
        return np.asarray(record**2)


class _Covariance(Estimand):
    """The covariance of vectors of mean 0, (d, d).

    The size of an error M is |S^(-1/2) M S^(-1/2)|_F, where S is the true covariance.
    """

    name = "covariance"
    unit = "relative to the covariance"
    degree = 2
    centred = True

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return record * 2

    def empirical(self, sample: Sample) -> Floats:
        return sample.second_moment()

    def truth(self, law: Any, sample: Sample) -> Floats:
        return np.asarray(law.covariance)

    def scale(self, law: Any) -> Callable[[Floats], Floats]:
        # The norm is equal for every square root of S, here the inverse of the Cholesky factor.
        root = np.linalg.inv(np.linalg.cholesky(law.covariance))
        return lambda error: root @ error @ root.T

    def _summand(self, record: Floats) -> Floats:
        return np.outer(record, record)


class _Regression(Estimand):
    """The least-squares regression of the last coordinate on the others, (d - 1,).

    The size of an error e is the root of the excess risk, |S^(1/2) e|, where S is the second moment
    of the features.
    """

    name = "regression"
    unit = "the root of the excess risk"
    degree = 0
    centred = True

    def shape(self, record: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d - 1 for d in record)

    def empirical(self, sample: Sample) -> Floats:
        return least_squares(sample.second_moment())

    def truth(self, law: Any, sample: Sample) -> Floats:
        return least_squares(law.covariance)

    def scale(self, law: Any) -> Callable[[Floats], Floats]:
        root = np.linalg.cholesky(law.covariance[:-1, :-1])
        return lambda error: error @ root

    def _summand(self, record: Floats) -> Floats:
        return np.asarray(record[:-1] * record[-1])


class _Table(Estimand):
    """The means of groups of records; the class of an estimator defines the shape."""

    name = "table"
    measured = False

    def direction(self, pair: Pair) -> Floats:
        return np.zeros(0)  # because the cells depend on the groups of the records


def least_squares(moment: Floats) -> Floats:
    """Return the least-squares coefficients theta for predicting y by <x, theta>, (..., d).

    `moment` has second moments of records (x, y), (..., d + 1, d + 1). A matrix with an entry that
    is not finite counts as 0. If several theta have the least squared error, the shortest is
    returned.
    """
    finite = np.isfinite(moment).all(axis=(-2, -1), keepdims=True)
    moment = np.where(finite, moment, 0.0)  # sums that overflowed carry no information
    largest = np.abs(moment).max(axis=(-2, -1), keepdims=True)
    moment = moment / np.where(largest > 0, largest, 1.0)
    inverse = np.linalg.pinv(moment[..., :-1, :-1], hermitian=True)
    return np.asarray((inverse @ moment[..., :-1, -1:])[..., 0])


MEAN, VARIANCE, COVARIANCE = Estimand(), _Variance(), _Covariance()
REGRESSION, TABLE = _Regression(), _Table()
