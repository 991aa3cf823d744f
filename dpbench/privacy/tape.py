"""Tapes, which record the inputs and outputs of a run's mechanisms and may replay the outputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpbench.arrays import Floats

__all__ = ["RESULT", "Place", "Step", "Tape"]

RESULT = "result"  # mechanism of the step that holds the final output of a run

# Place of an account among the parts of a budget. It has three numbers for each level, from the
# whole budget down: the index of a group of parts that pay in parallel, the index of the part in
# the group, and the number of parts whose records may differ between neighbours.
Place = tuple[tuple[int, int, int], ...]


@dataclass
class Step:
    """Recorded call of one mechanism: its inputs and outputs.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism, a method of `Ledger`. A step ``pay`` precedes the step of every
        mechanism. A step ``result`` ends the tape, if the final output of the run is recorded.
    values : array
        Values before noise, or scores.
    sensitivity : mapping
        Stated sensitivities, keyed by norm: ``l1``, ``l2``, ``max``, ``hourglass``, or the norms
        ``box`` and ``ball`` of `Ledger.add_joint_noise`.
    released : array, tuple of arrays or None
        Output of the mechanism. If this run repeats an earlier run, this is the earlier output. Of
        a step ``result``: the final output.
    output : array or None
        Final output that code has recorded by `Ledger.record_output`, else None. Code records it if
        it transforms `released`, or if its mechanism has its own randomness.
    weights : float or array
        Logarithms of the base measure of an exponential mechanism.
    draws : int
        Number of noises that were averaged.
    chance : mapping or None
        State of the ledger's generator after the step.
    settings : tuple
        Budget and parameters of the mechanism, on which the law of its noise depends. They may not
        depend on the records.
    rows : int
        Largest number of rows of one trial that may differ between neighbours.
    place : Place
        Place of the ledger that pays, among the parts of the budget.
    """

    mechanism: str
    values: Floats = field(default_factory=lambda: np.zeros(0))
    sensitivity: Mapping[str, float | Floats] = field(default_factory=dict)
    released: Any = None
    weights: float | Floats = 0.0
    draws: int = 1
    output: Floats | None = None
    chance: Mapping[str, Any] | None = None
    settings: tuple[object, ...] = ()
    rows: int = 1
    place: Place = ()

    def is_comparable(self, other: Step) -> bool:
        """Return whether `other` has this step's mechanism, shape of values, and weights."""
        same_inputs = self.mechanism == other.mechanism and self.values.shape == other.values.shape
        return same_inputs and np.array_equal(self.weights, other.weights)


class Tape:
    """Recorder of the calls (steps) of mechanisms in a run; it may repeat an earlier run's outputs.

    A step that matches the earlier step at its position releases the earlier output. So later steps
    of both runs depend on equal releases. After the step the generator has the state of the earlier
    run. So all later random numbers are equal, even if the mechanisms drew different amounts of
    them.
    """

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        self.steps: list[Step] = []
        self._earlier = earlier

    def add(self, step: Step, rng: np.random.Generator | None = None) -> Any:
        """Append a step (the recorded call of a mechanism), and return the output to release.

        If the tape repeats an earlier run, the output of the earlier step at the same position is
        returned. This step must have the mechanism, the weights and the shape of values of `step`.
        If there is no such earlier step, the output of `step` is returned. The generator `rng` of
        the ledger is set to its state in the earlier run.
        """
        self.steps.append(step)
        earlier = self._counterpart(rng)
        if earlier is not None and step.is_comparable(earlier):
            step.released = earlier.released
        return copy.copy(step.released)  # code may change its release in place

    def record_output(self, output: Floats, rng: np.random.Generator | None = None) -> Floats:
        """Record the output of the mechanism just paid for, and return the output to use.

        It is the output of the matching step of the earlier run if the tape repeats one, else
        `output`. The generator `rng` of the ledger is set to its state in the earlier run.
        """
        earlier = self._counterpart(rng)
        earlier_output = None if earlier is None else earlier.output
        if earlier_output is not None and earlier_output.shape == output.shape:
            output = earlier_output
        self.steps[-1].output = output
        return output.copy()

    def record_result(self, parts: Sequence[Floats], rng: np.random.Generator) -> None:
        """Record the arrays of the run's final output, and the state of the ledger's generator."""
        chance = rng.bit_generator.state
        self.steps.append(Step(RESULT, released=tuple(parts), chance=chance))

    def _counterpart(self, rng: np.random.Generator | None) -> Step | None:
        """Return the earlier run's step (recorded call) that matches the last step of this run.

        Steps match if they have the same position and mechanism. The method also sets the
        generator `rng` to its state after the earlier step. It returns None if no step matches or
        there is no earlier run.
        """
        index, step = len(self.steps) - 1, self.steps[-1]
        earlier = self._earlier[index] if index < len(self._earlier) else None
        if earlier is None or earlier.mechanism != step.mechanism:
            earlier = None
        if rng is not None:
            if earlier is not None and earlier.chance is not None:
                rng.bit_generator.state = earlier.chance
            step.chance = rng.bit_generator.state
        return earlier
