"""Distributions for lower bounds in many dimensions: vectors that are usually zero."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.distributions.continuous import Gaussian
from dpbench.distributions.multivariate import Dimension
from dpbench.registry import MomentOrder, validated
from dpbench.samples import SparseSample
from dpbench.seeds import stream

__all__ = ["ProductTwoPoint", "SignedTwoPoint", "code_word"]

# Largest number of code words of a dimension, and of attempts to draw another word.
MAX_CODE_WORDS = 64
MAX_WORD_DRAWS = 100_000


def code_word(d: int, index: int) -> tuple[int, ...]:
    """Return the positions of the ones in a word (a vector of zeros and ones) of a binary code.

    A word has d places and max(1, floor(d/2)) ones. Words are drawn at random. A drawn word joins
    the code if it differs from every earlier word of the code in at least d/4 places. The positions
    are from 0, and increase. Words are numbered by `index` from 0. A ValueError is raised if no
    word with this number is found.
    """
    words: list[set[int]] = []
    for i in range(index + 1):
        rng = stream("code word", d, i)
        candidates = (
            set(rng.permutation(d)[: max(1, d // 2)].tolist()) for _ in range(MAX_WORD_DRAWS)
        )
        word = next(
            (w for w in candidates if all(4 * len(w ^ earlier) >= d for earlier in words)), None
        )
        if word is None:
            raise ValueError(f"no code word {i} for d = {d}: there are too few at that distance")
        words.append(word)
    return tuple(sorted(words[-1]))


@validated
class _Sparse(Distribution):
    """Base class of distributions of vectors that are zero with high probability.

    Parameters
    ----------
    d : int in [1, 100000]
        Number of coordinates.
    p : float in [0, 1)
        Probability that a coordinate or a vector is not zero, depending on the subclass.
    """

    d: Dimension = Field()  # type: ignore[misc]  # scalar laws have no such parameter
    p: Annotated[float, Field(ge=0, lt=1)]
    counted: ClassVar[bool] = True

    @property
    @abstractmethod
    def _nonzero_probability(self) -> float:
        """Probability that a vector is not zero."""

    @abstractmethod
    def _draw(self, rng: np.random.Generator, m: int) -> Floats:
        """Draw m vectors that are not zero, an array (m, d)."""

    def held(self, n: int) -> float:
        return float(self.d * (1 + n * self._nonzero_probability))

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> SparseSample:
        held = rng.binomial(n, self._nonzero_probability, trials)
        return SparseSample(self._draw(rng, int(held.sum())), held, n)


@validated
class ProductTwoPoint(_Sparse):
    """Vectors with independent two-point coordinates, the hard instance of KSU20, Theorem 6.1.

    The ones of a binary code word of length d select coordinates. A selected coordinate is p^(-1/2)
    with probability p, else 0. All other coordinates are 0. KSU20 sets p = alpha^2/d, where alpha
    is the l2 error of its lower bound. The variance is at most 1 in every direction.

    Parameters
    ----------
    word : int in [0, 63]
        Number of the code word, see `code_word`. Different words give distant means.
    """

    word: Annotated[int, Field(ge=0, lt=MAX_CODE_WORDS)] = 0

    @cached_property
    def _ones(self) -> NDArray[np.intp]:
        return np.asarray(code_word(self.d, self.word), dtype=np.intp)

    @property
    def mean(self) -> Floats:
        mean = np.zeros(self.d)
        mean[self._ones] = np.sqrt(self.p)
        return mean

    @property
    def variance(self) -> float:
        return self._ones.size * self.moment(2)

    def moment(self, k: float) -> float:
        return (1 - self.p if self.p else 0.0) if k == 2 else float("nan")

    @property
    def _nonzero_probability(self) -> float:
        return float(-np.expm1(self._ones.size * np.log1p(-self.p)))

    def _draw(self, rng: np.random.Generator, m: int) -> Floats:
        """Draw m vectors that are not zero, an array (m, d).

        The index of the first nonzero coordinate has a truncated geometric distribution. Later
        coordinates are independent of it.
        """
        rows = np.zeros((m, self.d))
        if not m:
            return rows
        first = np.floor(np.log1p(-rng.random(m) * self._nonzero_probability) / np.log1p(-self.p))
        first = np.minimum(first, self._ones.size - 1)[:, None]
        place = np.arange(self._ones.size)
        hit = (place == first) | ((place > first) & (rng.random((m, place.size)) < self.p))
        rows[:, self._ones] = hit * self.p**-0.5
        return rows


@validated
class SignedTwoPoint(_Sparse):
    """Rare sign vectors: X = 0, or with probability p a vector tau (sign, +-1, ..., +-1).

    The signs +-1 are random, and `sign` is a parameter. The distribution is hard for estimators
    that clip records to a ball. The mean has the norm p tau and lies along the first axis. A vector
    that is not zero has the much larger norm tau sqrt(d).

    Let v be a unit vector, and g = E|N(0,1)|^k. By Khintchine's inequality with the best constant
    (Haagerup 1981), the k-th absolute moment of <v, (sign, +-1, ..., +-1)> is at most g. By
    Minkowski's inequality,

        E|<v, X - mean>|^k <= (1-p) (p tau)^k + p tau^k (g^(1/k) + p)^k.

    The positive number tau is chosen to make the right-hand side 1.

    Parameters
    ----------
    k : float >= 2
        Order of the moment that is at most 1 in every direction.
    sign : 1 or -1
        Sign of the mean along the first axis.
    """

    k: MomentOrder
    sign: Literal[-1, 1] = 1

    @property
    def tau(self) -> float:
        """Absolute value of every coordinate of a vector that is not zero; 0 if p = 0."""
        if not self.p:
            return 0.0
        p, k = self.p, self.k
        gaussian = Gaussian().moment(k) ** (1 / k)
        return float(((1 - p) * p**k + p * (gaussian + p) ** k) ** (-1 / k))

    @property
    def mean(self) -> Floats:
        mean = np.zeros(self.d)
        mean[0] = self.sign * self.p * self.tau
        return mean

    @property
    def variance(self) -> float:
        return float(self.p * self.tau**2 * (self.d - self.p))

    def moment(self, k: float) -> float:
        if k == 2:
            return float(self.p * self.tau**2 * (1 if self.d > 1 else 1 - self.p))
        return 1.0 if k == self.k and self.p else float("nan")

    @property
    def _nonzero_probability(self) -> float:
        return self.p

    def _draw(self, rng: np.random.Generator, m: int) -> Floats:
        signs = 2.0 * rng.integers(0, 2, (m, self.d), dtype=np.int8) - 1
        rows = np.asarray(self.tau * signs)
        rows[:, 0] = self.sign * self.tau
        return rows
