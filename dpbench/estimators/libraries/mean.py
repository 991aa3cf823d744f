"""The private mean of another library, as an estimator for any sweep."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dpbench.arrays import Floats
from dpbench.estimators.clipped import ErrorBound
from dpbench.estimators.external import OneDataset
from dpbench.estimators.libraries.expected import Expected, Noise, expected
from dpbench.estimators.libraries.process import Releases, library
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated

__all__ = ["LibraryMean"]


class _Known(NamedTuple):
    """Neighbours of a library's guarantee, and the construction of its noise."""

    relation: Relation
    noise: Noise
    truncated: bool
    sized: bool = False  # True if the library takes a declared number of records


KNOWN = {
    "numpy": _Known("replace", "laplace", False),
    "diffprivlib": _Known("replace", "laplace", True),
    "opendp": _Known("replace", "laplace", False, sized=True),
    "python-dp": _Known("add_remove", "sum_and_count", True),
    "pipeline-dp": _Known("add_remove", "sum_and_count", False),
    "tumult": _Known("add_remove", "sum_and_count", False),
}


@validated
class LibraryMean(OneDataset):
    """Private mean of another library (diffprivlib, OpenDP, PyDP, ...), run in its own process.

    ``bash dev.sh libraries`` creates the environments; ``numpy``, a hand-written clipped mean with
    Laplace noise, needs none. If a library raises, the release is NaN. Its noise cannot be seeded:
    runs do not repeat.

    Parameters
    ----------
    library : {'numpy', 'diffprivlib', 'opendp', 'python-dp', 'pipeline-dp', 'tumult'}
        The library. The first three guarantee privacy under replacement, with n public; the
        others under adding or removing a record, with n private.
    lower, upper : float or None
        Public bounds on the records, lower < upper. If both are None the library finds bounds
        itself: diffprivlib (from the data, without privacy) and python-dp can.
    contributions : {1, 2}
        `unit_of(contributions=...)` of OpenDP, beside a declared size. Datasets of equal size that
        differ in one record are at distance 2. With 1 no two datasets are neighbours, and no noise
        is added.
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
        return (KNOWN[self.library].relation,)

    @property
    def takes_size(self) -> bool:
        """True if the library takes a declared number of records."""
        return KNOWN[self.library].sized

    @property
    def private(self) -> bool:
        """True if the library is known to be private as it is called here."""
        return self.contributions == 2 and (self.lower is not None or self.library == "python-dp")

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        return float(self.releases(x, budget, 1).values[0])

    def releases(
        self, x: NDArray[Any], budget: Budget, repeats: int, size: int | None = None
    ) -> Releases:
        """Release the mean of a column several times, and time each release.

        Parameters
        ----------
        x : (n,) array of float or int
            The column.
        budget : Budget
            Budget of one release; its first amount is epsilon.
        repeats : int
            Number of independent releases.
        size : int, optional
            Declared number of records; default n.

        Returns
        -------
        Releases

        Raises
        ------
        LibraryError
            If the library is not installed, or its process ends.
        """
        ask = {
            "epsilon": budget.amounts[0],
            "lower": self.lower,
            "upper": self.upper,
            "size": len(x) if size is None else size,
            "contributions": self.contributions,
        }
        return library(self.library).release(x, ask, repeats)

    def expected(self, mean: float, n_epsilon: float) -> Expected | None:
        """Return the expected error on a column within bounds; None if it is not known.

        Parameters
        ----------
        mean : float
            Mean of the column.
        n_epsilon : float
            Number of records times epsilon.

        Returns
        -------
        Expected or None
            In units of width/(n epsilon).
        """
        if self.lower is None or self.upper is None or not self.private:
            return None
        known = KNOWN[self.library]
        share = (mean - self.lower) / (self.upper - self.lower)
        return expected(known.noise, share, n_epsilon, truncated=known.truncated)
