"""Formulas that figures draw beside what is measured: rates without constants, exact shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbench.arrays import Floats

__all__ = ["GUIDES", "Guide"]


@dataclass(frozen=True)
class Guide:
    """A line to compare with.

    Attributes
    ----------
    label : str
        For a legend, mathematical text.
    needs : tuple of str
        Columns of a summary, or the parameter on the axis, in the formula's order.
    formula : callable
    """

    label: str
    needs: tuple[str, ...]
    formula: Callable[..., Floats]


GUIDES = {
    # The blog's lower bounds, for records of norm 1; constants are not known.
    "pure": Guide(r"$d/(n\varepsilon)$", ("d", "n", "epsilon"), lambda d, n, e: d / (n * e)),
    "approx": Guide(
        r"$\sqrt{d\ln(1/\delta)}/(n\varepsilon)$",
        ("d", "n", "epsilon", "delta"),
        lambda d, n, e, delta: np.sqrt(-d * np.log(delta)) / (n * e),
    ),
    # What is left of a core of friends when a share of the records is far off.
    "core": Guide(
        r"$(1-\eta)(1-2\eta)$", ("eta",), lambda eta: (1 - eta) * np.maximum(1 - 2 * eta, 0)
    ),
}
