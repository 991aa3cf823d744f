"""Record the inputs and outputs of the mechanisms of a run, and replay the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpbench.arrays import Floats

__all__ = ["Step", "Tape"]


@dataclass
class Step:
    """Inputs and outputs of one mechanism.

    Attributes
    ----------
    mechanism : str
        Name of the method of the ledger. Every mechanism begins with a step ``pay``.
    values : array
        Values before noise, or scores.
    sensitivity : mapping
        Stated sensitivities by norm: ``l1``, ``l2``, ``max``, ``box`` or ``ball``.
    released : array or None
        Output of the mechanism, or in a replay the output of the earlier run.
    output : array or None
        Final output, if the mechanism transforms `released` or has its own randomness, and records
        its output on the ledger (`Ledger.record_output`).
    weights : float or array
        Logarithms of the base measure of an exponential mechanism.
    draws : int
        Number of noises that were averaged.
    chance : mapping or None
        State of the ledger's generator after the step.
    """

    mechanism: str
    values: Floats = field(default_factory=lambda: np.zeros(0))
    sensitivity: Mapping[str, float | Floats] = field(default_factory=dict)
    released: Any = None
    weights: float | Floats = 0.0
    draws: int = 1
    output: Floats | None = None
    chance: Mapping[str, Any] | None = None

    def like(self, other: Step) -> bool:
        """Return whether `other` has an equal mechanism and an equal range of outputs."""
        same = self.mechanism == other.mechanism and self.values.shape == other.values.shape
        return same and np.array_equal(self.weights, other.weights)


class Tape:
    """Steps of a run, with a replay of the outputs of an earlier run.

    Parameters
    ----------
    earlier : sequence of Step, optional
        Steps of another run. A step that matches the earlier step at its position releases the
        earlier output, so that later steps of both runs depend on equal releases. After the step
        the generator has the state of the earlier run, so that all later random numbers are equal,
        even if the mechanisms drew different numbers of them.
    """

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        self.steps: list[Step] = []
        self._earlier = earlier

    def add(self, step: Step, rng: np.random.Generator | None = None) -> Any:
        """Append a step and return its output, or the output of the matching earlier step.

        Parameters
        ----------
        step : Step
            Step of this run.
        rng : Generator, optional
            Generator of the ledger, set to its state in the earlier run.

        Returns
        -------
        array or None
        """
        self.steps.append(step)
        earlier = self._counterpart(rng)
        if earlier is not None and step.like(earlier):
            step.released = earlier.released
        return step.released

    def record_output(self, found: Floats, rng: np.random.Generator | None = None) -> Floats:
        """Record the output of the mechanism just paid for; return it, or the earlier output.

        Parameters
        ----------
        found : ndarray
            Output in this run.
        rng : Generator, optional
            Generator of the ledger, set to its state in the earlier run.

        Returns
        -------
        ndarray
        """
        earlier = self._counterpart(rng)
        known = None if earlier is None else earlier.output
        if known is not None and known.shape == found.shape:
            found = known
        self.steps[-1].output = found
        return found

    def _counterpart(self, rng: np.random.Generator | None) -> Step | None:
        """Return the earlier step that matches the last step, and restore the generator's state."""
        at, step = len(self.steps) - 1, self.steps[-1]
        earlier = self._earlier[at] if at < len(self._earlier) else None
        if earlier is None or earlier.mechanism != step.mechanism:
            earlier = None
        if rng is not None:
            if earlier is not None and earlier.chance is not None:
                rng.bit_generator.state = earlier.chance
            step.chance = rng.bit_generator.state
        return earlier
