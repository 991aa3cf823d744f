"""The mean of a library, as an estimator for any sweep."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dpbench.arrays import Floats
from dpbench.estimators.clipped import Bound
from dpbench.estimators.libraries.expected import Expected, Noise, expected
from dpbench.estimators.libraries.process import Releases, library
from dpbench.estimators.outside import OneDataset
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation
from dpbench.registry import validated

__all__ = ["LibraryMean"]


class _Known(NamedTuple):
    """The neighbours that a library's guarantee is about, and how it makes its noise."""

    relation: Relation
    noise: Noise
    truncated: bool
    sized: bool = False  # whether it is told the number of records


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
    """The mean of another library, which runs in an environment and a process of its own.

    ``bash dev.sh libraries`` makes the environments; ``numpy``, a clipped mean with Laplace noise
    written by hand, needs none. What a library cannot release, because it raises, is NaN. Its noise
    cannot be seeded: runs do not repeat.

    Parameters
    ----------
    library : {'numpy', 'diffprivlib', 'opendp', 'python-dp', 'pipeline-dp', 'tumult'}
        The first three promise something where a record is replaced and n is public, the others
        where one is added or removed and n is private.
    lower, upper : float or None
        Bounds on the records. Both None leave it to the library to find bounds: diffprivlib and
        python-dp do.
    contributions : {1, 2}
        OpenDP's `unit_of(contributions=...)` beside a declared size. Datasets of one size that
        differ in a record are 2 apart; with 1 there are no neighbours, and no noise is added.
    """

    library: Literal["numpy", "diffprivlib", "opendp", "python-dp", "pipeline-dp", "tumult"]
    lower: Bound | None = 0.0
    upper: Bound | None = 1.0
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
            raise ValueError("contributions are for opendp alone")
        return self

    @property
    def relations(self) -> tuple[Relation, ...]:  # type: ignore[override]
        return (KNOWN[self.library].relation,)

    @property
    def takes_size(self) -> bool:
        """Whether the library takes a declared number of records."""
        return KNOWN[self.library].sized

    @property
    def private(self) -> bool:
        """Whether it is known to be private as it is called here."""
        return self.contributions == 2 and (self.lower is not None or self.library == "python-dp")

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        return float(self.releases(x, budget, 1).values[0])

    def releases(
        self, x: NDArray[Any], budget: Budget, repeats: int, size: int | None = None
    ) -> Releases:
        """Release on a column, (n,) of floats or integers, with the time that each takes.

        `size` is the declared one, by default n. LibraryError if the library is not installed, or
        its process ends.
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
        """Its error in units of width/(n epsilon), on columns within bounds; None if not known."""
        if self.lower is None or self.upper is None or not self.private:
            return None
        known = KNOWN[self.library]
        share = (mean - self.lower) / (self.upper - self.lower)
        return expected(known.noise, share, n_epsilon, truncated=known.truncated)
