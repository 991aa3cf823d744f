"""The private mean and variance of another library, as estimators for any sweep."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dpbench.arrays import Floats
from dpbench.estimators.clipped import ErrorBound
from dpbench.estimators.estimands import VARIANCE, Estimand
from dpbench.estimators.external import OneDataset
from dpbench.libraries.means.expected import (
    ErrorAndBias,
    Noise,
    VarianceNoise,
    predict_error,
    predict_variance_error,
)
from dpbench.libraries.means.process import Releases, library
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated

__all__ = ["LibraryMean", "LibraryVariance"]


class _LibraryProperties(NamedTuple):
    """Properties of a library: its neighbouring relation, the noise of its mean, and truncation.

    `truncated` is True if the library truncates its mean to the bounds on the records.
    """

    relation: Relation
    noise: Noise
    truncated: bool
    sized: bool = False  # True if the library takes a declared number of records


LIBRARY_PROPERTIES = {
    "numpy": _LibraryProperties("replace", "laplace", False),
    "diffprivlib": _LibraryProperties("replace", "laplace", True),
    "opendp": _LibraryProperties("replace", "laplace", False, sized=True),
    "python-dp": _LibraryProperties("add_remove", "sum_and_count", True),
    "pipeline-dp": _LibraryProperties("add_remove", "sum_and_count", False),
    "tumult": _LibraryProperties("add_remove", "sum_and_count", False),
}


@validated
class LibraryMean(OneDataset):
    """Private mean of another library (diffprivlib, OpenDP, PyDP, ...), run in its own process.

    ``bash dev.sh libraries`` creates the libraries' Python environments. ``numpy``, a hand-written
    clipped mean with Laplace noise, needs no environment. If a library raises an exception, the
    release is NaN. The noise of a library cannot be seeded, so a second run gives other releases.

    Parameters
    ----------
    library : {'numpy', 'diffprivlib', 'opendp', 'python-dp', 'pipeline-dp', 'tumult'}
        The library. The first three guarantee privacy under replacement, with n public; the
        others under adding or removing a record, with n private.
    lower, upper : float or None
        Public bounds on the records, lower < upper. If both are None the library finds bounds
        itself. Only python-dp and diffprivlib do so; diffprivlib takes the range of the data,
        without privacy.
    contributions : {1, 2}
        Argument of OpenDP's `unit_of(contributions=...)`: the largest distance of neighbours, 2 by
        default. Datasets of equal size that differ in one record are at distance 2. OpenDP gets a
        declared number of records, so at 1 no two datasets are neighbours and it adds no noise.
    """

    library: Literal["numpy", "diffprivlib", "opendp", "python-dp", "pipeline-dp", "tumult"]
    lower: ErrorBound | None = 0.0
    upper: ErrorBound | None = 1.0
    contributions: Literal[1, 2] = 2
    seeded: ClassVar[bool] = False
    files: ClassVar[tuple[str, ...]] = ("worker.py", "requirements.json")  # run, not imported

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if (self.lower is None) != (self.upper is None):
            raise ValueError("give both lower and upper, or null for both")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        if self.lower is None and self.library not in ("diffprivlib", "python-dp"):
            raise ValueError(f"{self.library} needs lower and upper")
        if self.contributions != 2 and self.library != "opendp":
            raise ValueError("contributions: only opendp takes them; remove the key")
        return self

    @property
    def relations(self) -> tuple[Relation, ...]:  # type: ignore[override]
        return (LIBRARY_PROPERTIES[self.library].relation,)

    @property
    def takes_size(self) -> bool:
        """True if the library has to be given the number of records, which is then public."""
        return LIBRARY_PROPERTIES[self.library].sized

    @property
    def private(self) -> bool:
        """True if the library guarantees privacy with the present parameters."""
        return self.contributions == 2 and (self.lower is not None or self.library == "python-dp")

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        return float(self.releases(x, budget, 1).values[0])

    def releases(
        self, x: NDArray[Any], budget: Budget, repeats: int, size: int | None = None
    ) -> Releases:
        """Release the statistic of a column several times under pure DP, and time each release.

        The column has the records of one dataset, of shape (n,). The releases are independent, and
        each spends `budget`. `size` is the number of records declared to a library that takes it,
        by default n. If the library is not installed, or its process ends, a LibraryError is
        raised.
        """
        ask = {
            "epsilon": budget.amounts[0],
            "lower": self.lower,
            "upper": self.upper,
            "size": len(x) if size is None else size,
            "contributions": self.contributions,
            "statistic": self.estimand.name,
        }
        return library(self.library).release(x, ask, repeats)

    def predict_error(self, x: Floats, epsilon: float, width: float) -> ErrorAndBias | None:
        """Return the expected error and bias of the library on a column; None without a formula.

        No formula applies without bounds or without privacy. The n records `x` are within the
        bounds. The unit of the result is width/(n epsilon) for a mean, and width^2/(n epsilon) for
        a variance, where `width` need not be upper - lower.
        """
        if self.lower is None or self.upper is None or not self.private:
            return None
        ratio = ((self.upper - self.lower) / width) ** self.estimand.degree
        own = self._predict((x - self.lower) / (self.upper - self.lower), epsilon)
        return ErrorAndBias(ratio * own.error, ratio * own.bias)

    def _predict(self, u: Floats, epsilon: float) -> ErrorAndBias:
        """Return the expected error and bias for records u, scaled to [0, 1]."""
        properties, n_epsilon = LIBRARY_PROPERTIES[self.library], len(u) * epsilon
        truncated = properties.truncated
        return predict_error(properties.noise, float(u.mean()), n_epsilon, truncated=truncated)


VARIANCE_NOISES: dict[str, VarianceNoise] = {
    "numpy": "laplace",
    "diffprivlib": "bounded_laplace",
    "opendp": "laplace",
    "python-dp": "google_sums",
    "pipeline-dp": "pipeline_sums",
}


@validated
class LibraryVariance(LibraryMean):
    """Private variance of another library (diffprivlib, OpenDP, PyDP, ...), run in its own process.

    The variance has the divisor n. ``numpy`` is a hand-written variance of clipped records with
    Laplace noise. Otherwise as `LibraryMean`.

    Parameters
    ----------
    library : {'numpy', 'diffprivlib', 'opendp', 'python-dp', 'pipeline-dp'}
        The library. The first three guarantee privacy under replacement, with n public; the
        others under adding or removing a record, with n private.
    lower, upper : float
        Public bounds on the records, lower < upper.
    contributions : {1, 2}
        As for `LibraryMean`.
    """

    library: Literal["numpy", "diffprivlib", "opendp", "python-dp", "pipeline-dp"]
    lower: ErrorBound = 0.0
    upper: ErrorBound = 1.0
    estimand: ClassVar[Estimand] = VARIANCE

    @property
    def private(self) -> bool:
        """True if the library guarantees privacy; PipelineDP may not around 0, see ERRATA.md."""
        largest = max(abs(self.lower), abs(self.upper))
        too_quiet = self.lower < 0 < self.upper and (self.upper - self.lower) ** 2 > 2 * largest**2
        return super().private and not (self.library == "pipeline-dp" and too_quiet)

    def _predict(self, u: Floats, epsilon: float) -> ErrorAndBias:
        noise = VARIANCE_NOISES[self.library]
        return predict_variance_error(noise, u, self.lower, self.upper, epsilon)
