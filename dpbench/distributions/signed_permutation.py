"""Distributions of vectors under an isometry: permuted, sign-flipped and shifted coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.registry import validated
from dpbench.samples import DenseSample

__all__ = ["SignedPermutation"]


@validated
class SignedPermutation(Distribution):
    """Distribution of vectors with permuted coordinates, changed signs and a shift.

    A vector x drawn from the distribution `of` becomes a vector with the coordinates
    ``shift[j] + signs[j] * x[order[j]]``. The map keeps all distances. So it does not change the
    largest central moment over all directions. It does not change lower bounds over classes of
    distributions either.

    Parameters
    ----------
    of : distribution of vectors, or its configuration
        Distribution of the vectors x before the map.
    shift : list of d numbers
        Vector added to every record, in the unit of the data.
    signs : list of d numbers, 1 or -1
        Sign of each new coordinate.
    order : list of d integers
        Permutation of 0, ..., d - 1: the old index of each new coordinate.
    """

    of: Any
    shift: tuple[float, ...]
    signs: tuple[Literal[-1, 1], ...]
    order: tuple[int, ...]

    @field_validator("of")
    @classmethod
    def _build_vectors(cls, of: Any) -> Distribution:
        law = Distribution.build(of, "") if isinstance(of, Mapping) else of
        if not isinstance(law, Distribution) or np.ndim(law.target) != 1:
            raise ValueError("give a law of vectors")
        return law

    @model_validator(mode="after")
    def _check_map(self) -> Self:
        for name in ("shift", "signs", "order"):
            if len(getattr(self, name)) != self.of.d:
                raise ValueError(f"{name} must have {self.of.d} numbers, one for each coordinate")
        if sorted(self.order) != list(range(self.of.d)):
            raise ValueError(f"order must be a permutation of 0, ..., {self.of.d - 1}")
        return self

    def _move(self, x: Floats) -> Floats:
        """Permute the coordinates of vectors, change their signs, and add the shift.

        `x` and the result have the shape (..., d).
        """
        return np.asarray(np.multiply(x[..., list(self.order)], self.signs) + self.shift)

    @property
    def d(self) -> int:  # type: ignore[override]
        """Number of coordinates of a vector."""
        return int(self.of.d)

    @property
    def mean(self) -> Floats:
        return self._move(self.of.mean)

    @property
    def target(self) -> Floats:
        return self._move(self.of.target)

    @property
    def variance(self) -> float:
        return float(self.of.variance)

    def moment(self, k: float) -> float:
        return float(self.of.moment(k))

    @property
    def covariance(self) -> Floats:
        order, signs = list(self.order), np.array(self.signs)
        return np.asarray(self.of.covariance[np.ix_(order, order)] * np.outer(signs, signs))

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> DenseSample:
        still = self.of.sample(rng, trials, n)
        if isinstance(still, DenseSample):
            return DenseSample(self._move(still.values))
        return DenseSample(self._move(np.stack([still.records(t, rng) for t in range(trials)])))
