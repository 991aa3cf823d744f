"""A tape: what the mechanisms of a run were given and what they released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpbench.arrays import Floats

__all__ = ["Step", "Tape"]


@dataclass
class Step:
    """Record what one mechanism was given and what it released.

    Attributes
    ----------
    mechanism : str
        The method of the ledger. Every mechanism begins with a step ``pay``.
    values : array
        The values before noise, or the scores.
    sensitivity : mapping
        The stated sensitivities by norm: ``l1``, ``l2``, ``max``, ``box`` or ``ball``.
    released : array or None
    weights : float or array
        The logarithms of the base measure of an exponential mechanism.
    draws : int
        The number of noises that were averaged.
    """

    mechanism: str
    values: Floats = field(default_factory=lambda: np.zeros(0))
    sensitivity: Mapping[str, float | Floats] = field(default_factory=dict)
    released: Any = None
    weights: float | Floats = 0.0
    draws: int = 1

    def like(self, other: Step) -> bool:
        """Whether it is the same mechanism with the same range of outputs."""
        same = self.mechanism == other.mechanism and self.values.shape == other.values.shape
        return same and np.array_equal(self.weights, other.weights)


class Tape:
    """Keep the steps of a run, and replay the outputs of an earlier run.

    Parameters
    ----------
    earlier : sequence of Step, optional
        The steps of another run. A step that is like the one at its place there releases what
        that one did, so that later steps of both runs rest on equal releases.
    """

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        self.steps: list[Step] = []
        self._earlier = earlier

    def add(self, step: Step) -> Any:
        """Keep a step, and return its output: what it releases, or what the earlier one did."""
        at = len(self.steps)
        self.steps.append(step)
        same = at < len(self._earlier) and step.like(self._earlier[at])
        return self._earlier[at].released if same else step.released

    def told(self, found: Floats) -> Floats:
        """Keep the output of the mechanism that was just paid for, and return it or the earlier."""
        at, self.steps[-1].released = len(self.steps) - 1, found
        known = np.asarray(self._earlier[at].released if at < len(self._earlier) else None)
        return known if known.shape == found.shape else found
