"""What the theorems predict: exponents, and factors over a lower bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["THEOREMS", "Theorem"]


@dataclass(frozen=True)
class Theorem:
    """A statement about n, the error alpha, epsilon and the moment order k.

    Attributes
    ----------
    source : str
        Where it is proved.
    variable : {'alpha', 'epsilon', 'factor'}
        ``alpha``: the e in n ~ (1/alpha)^e at fixed epsilon. ``epsilon``: the s in
        n ~ (1/epsilon)^s at fixed alpha. ``factor``: the error over the lower bound,
        a geometric mean over n.
    predicted : callable
        The number at a moment order k.
    metric : str
        The column of a summary that alpha is read from, at its worst over a family.
    at_most : bool
        Whether the number is an upper limit rather than a value.
    """

    source: str
    variable: Literal["alpha", "epsilon", "factor"]
    predicted: Callable[[float], float]
    metric: str = "q90"
    at_most: bool = False

    @property
    def floor(self) -> float | None:
        """What an upper limit's number exceeds: 0, or 1 for a factor over a lower bound."""
        return float(self.variable == "factor") if self.at_most else None


KSU20 = "KSU20 Thm 3.5"

THEOREMS = {
    # n ~ 1/(epsilon alpha^(k/(k-1))), the private term of Theorem 3.5
    "heavy_tail_alpha": Theorem(KSU20, "alpha", lambda k: k / (k - 1)),
    "heavy_tail_epsilon": Theorem(KSU20, "epsilon", lambda _: 1.0),
    # the same as an upper bound on what privacy costs on one law
    "heavy_tail_private_part": Theorem(
        KSU20, "alpha", lambda k: k / (k - 1), metric="private_q90", at_most=True
    ),
    "heavy_tail_lower_bound": Theorem(
        "KSU20 Thm 3.8", "alpha", lambda k: k / (k - 1), metric="lower_bound"
    ),
    # clipping at tau = n^(1/k): alpha ~ tau/(epsilon n), so n ~ (1/(alpha epsilon))^(k/(k-1))
    "keep_all_alpha": Theorem("Lecture 15", "alpha", lambda k: k / (k - 1)),
    "keep_all_epsilon": Theorem("Lecture 15", "epsilon", lambda k: k / (k - 1)),
    "local_alpha": Theorem("DJW13, KSU20 1.2", "alpha", lambda k: 2 * k / (k - 1)),
    "local_epsilon": Theorem("DJW13, KSU20 1.2", "epsilon", lambda _: 2.0),
    "sampling": Theorem("Central limit", "alpha", lambda _: 2.0, metric="sampling_q90"),
    # No theorem promises a constant: this is the project's own yardstick, half of 2.5 for the
    # bound with one sign. An error below the bound itself would be a broken estimator or bound.
    "near_optimal": Theorem("Lower bound", "factor", lambda _: 1.25, at_most=True),
}
