"""Record what the mechanisms of a run were given and what they released."""

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
        The mechanism's own output, or the output of an earlier run in its place.
    told : array or None
        The output of a mechanism that turns `released` into it, or that pays and draws by itself,
        where it tells the ledger.
    weights : float or array
        The logarithms of the base measure of an exponential mechanism.
    draws : int
        The number of noises that were averaged.
    chance : mapping or None
        The state of the ledger's generator after it.
    """

    mechanism: str
    values: Floats = field(default_factory=lambda: np.zeros(0))
    sensitivity: Mapping[str, float | Floats] = field(default_factory=dict)
    released: Any = None
    weights: float | Floats = 0.0
    draws: int = 1
    told: Floats | None = None
    chance: Mapping[str, Any] | None = None

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
        that one did, so that later steps of both runs rest on equal releases. Chance that is drawn
        after it is that of the other run, too, however many numbers each mechanism drew.
    """

    def __init__(self, earlier: Sequence[Step] = ()) -> None:
        self.steps: list[Step] = []
        self._earlier = earlier

    def add(self, step: Step, rng: np.random.Generator | None = None) -> Any:
        """Keep a step, and return its output: what it releases, or what the earlier one did."""
        self.steps.append(step)
        earlier = self._counterpart(rng)
        if earlier is not None and step.like(earlier):
            step.released = earlier.released
        return step.released

    def told(self, found: Floats, rng: np.random.Generator | None = None) -> Floats:
        """Keep the output of the mechanism that was just paid for, and return it or the earlier."""
        earlier = self._counterpart(rng)
        known = None if earlier is None else earlier.told
        if known is not None and known.shape == found.shape:
            found = known
        self.steps[-1].told = found
        return found

    def _counterpart(self, rng: np.random.Generator | None) -> Step | None:
        """Return the earlier run's step for the last one, and set the generator as it was there."""
        at, step = len(self.steps) - 1, self.steps[-1]
        earlier = self._earlier[at] if at < len(self._earlier) else None
        if earlier is None or earlier.mechanism != step.mechanism:
            earlier = None
        if rng is not None:
            if earlier is not None and earlier.chance is not None:
                rng.bit_generator.state = earlier.chance
            step.chance = rng.bit_generator.state
        return earlier
