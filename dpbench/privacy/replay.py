"""Compare runs of an estimator on neighbouring datasets, given equal releases.

The second run is a replay: its tape substitutes the releases of the first run for its own and
repeats all other randomness, so that later steps of both runs depend on equal releases (see
`dpbench.privacy.tape`). The ledger adds up the costs of mechanisms, which is correct under two
conditions, given all earlier releases. No mechanism receives values that differ by more than its
stated sensitivity. Both runs execute equal mechanisms, at equal sensitivities. The two tapes show
whether the conditions hold [1]_.

A release is frozen if it is equal on both tapes. Steps after a release that is not frozen may
legitimately differ, so the comparison ends there.

References
----------
.. [1] T. Cebere, D. Erb, D. Desfontaines, A. Bellet, J. Fitzsimons, "Privacy in theory, bugs in
   practice: grey-box auditing of differential privacy libraries", 2026, arXiv:2602.17454.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import LEAST_SENSITIVITY
from dpbench.privacy.tape import Step

__all__ = ["ROUNDING", "Comparison", "Move", "compare_steps"]

# Relative tolerance of sensitivities, because shares of a budget and conversions are rounded.
ROUNDING = 1e-9
# Differences below this share of the values count as rounding.
DIGITS = 1e-14
ORDERS = {"l1": 1, "l2": 2, "max": np.inf, "box": np.inf}


@dataclass(frozen=True)
class Move:
    """Distance between the values of one mechanism on neighbouring datasets.

    Attributes
    ----------
    mechanism : str
        The method of the ledger.
    norm : str
        The norm of the stated sensitivity, see `Step`.
    distance, stated : float
        The distance in the trial with the largest ratio, and the sensitivity stated there.
    ratio : float
        The distance over the sensitivity. A distance below the rounding of the values counts as 0,
        and an excess below it as none. A larger distance over a stated sensitivity of 0 is
        infinity. If sensitivities differ by coordinate, the ratio is the norm of the coordinates'
        ratios, because each coordinate has noise of its own scale.
    """

    mechanism: str
    norm: str
    distance: float
    stated: float
    ratio: float

    @property
    def too_far(self) -> bool:
        """True if the ratio exceeds 1 by more than rounding."""
        return self.ratio > 1 + ROUNDING


@dataclass(frozen=True)
class Comparison:
    """Comparison of two runs on neighbouring datasets, given equal releases.

    Attributes
    ----------
    largest : Move or None
        The move with the largest ratio; None if no mechanism could be compared.
    difference : str
        The part of the control flow that differs: the list of mechanisms, or the stated
        sensitivity of a mechanism. Empty if nothing differs.
    compared, skipped : int
        Numbers of mechanisms that were compared, and that could not be compared.
    complete : bool
        Whether all releases were frozen, so that the runs could be compared up to their ends.
    """

    largest: Move | None
    difference: str
    compared: int
    skipped: int
    complete: bool

    @property
    def ratio(self) -> float:
        """Largest ratio of a move; NaN if no mechanism could be compared."""
        return np.nan if self.largest is None else self.largest.ratio

    @property
    def mechanism(self) -> str:
        """Mechanism of the largest ratio, or ""."""
        return "" if self.largest is None else self.largest.mechanism

    @property
    def same_flow(self) -> bool:
        """True if both runs executed equal mechanisms at equal stated sensitivities."""
        return not self.difference


def compare_steps(one: Sequence[Step], other: Sequence[Step]) -> Comparison:
    """Compare the steps of two runs on neighbouring datasets, the second a replay of the first.

    A step ``pay`` belongs to the mechanism that follows it. A mechanism with its own randomness
    cannot be compared, and is frozen only if it records its release on the tape. A choice among
    pieces into which the records cut a range can be neither compared nor frozen. If the stated
    sensitivities differ, the ratio uses the smaller.

    Parameters
    ----------
    one, other : sequence of Step
        The steps of the first run and of its replay; or of two replays of one run.

    Returns
    -------
    Comparison
    """
    found: list[Move] = []
    compared = skipped = 0
    difference, frozen = "", True
    both = list(itertools.zip_longest(one, other))
    for at, (a, b) in enumerate(both):
        if a is None or b is None or a.mechanism != b.mechanism:
            difference = difference or "which mechanisms it runs"
            break
        if a.mechanism != "pay" and a.like(b):
            compared += 1
            found += _moves(a, b)
            if not difference and not _same_sensitivity(a, b):
                difference = f"the sensitivity of {a.mechanism}"
        elif a.output is not None:
            skipped += a.output.size > 0  # an event that may fail releases nothing
        elif a.mechanism == "pay" and _pays_for_next(both[at + 1 :]):
            continue
        else:
            skipped += 1
        frozen = _same_release(a, b)
        if not frozen:
            skipped += sum(c is not None and c.mechanism != "pay" for c, _ in both[at + 1 :])
            break
    largest = max(found, key=lambda move: move.ratio, default=None)
    return Comparison(largest, difference, compared, skipped, frozen)


def _pays_for_next(rest: Sequence[tuple[Step | None, Step | None]]) -> bool:
    """Return whether the next step of either run is a mechanism of the ledger."""
    return bool(rest) and any(step is not None and step.mechanism != "pay" for step in rest[0])


def _same_release(one: Step, other: Step) -> bool:
    """Return whether the releases of two steps are frozen: equal in both runs."""
    if one.output is None and (one.mechanism == "pay" or not one.like(other)):
        return False  # own randomness, or a choice among pieces into which records cut a range
    ends = (one.released, other.released) if one.output is None else (one.output, other.output)
    a, b = (np.asarray(end, dtype=float) for end in ends)
    return np.array_equal(a, b, equal_nan=True)


def _same_sensitivity(one: Step, other: Step) -> bool:
    """Return whether two steps state equal sensitivities, up to rounding."""
    a, b = one.sensitivity, other.sensitivity
    return a.keys() == b.keys() and all(
        np.allclose(a[norm], b[norm], rtol=ROUNDING, atol=0.0) for norm in a
    )


def _moves(one: Step, other: Step) -> list[Move]:
    """Return the move between two steps' values for each norm of a stated sensitivity."""
    digits = DIGITS * max(_largest(one.values), _largest(other.values))
    gaps = np.where(np.isnan(one.values) & np.isnan(other.values), 0.0, one.values - other.values)
    gaps = one.draws * np.abs(gaps).reshape(len(gaps), -1)
    found = []
    for norm, limit in one.sensitivity.items():
        # take the smaller sensitivity, because its noise is the smaller
        least = np.minimum(limit, other.sensitivity.get(norm, limit))
        stated = np.broadcast_to(np.asarray(least, dtype=float), one.values.shape)
        stated = np.where(stated > LEAST_SENSITIVITY, stated, 0.0).reshape(gaps.shape)
        distance = _norms(gaps, norm)
        with np.errstate(divide="ignore", over="ignore"):
            scaled = np.divide(gaps, stated, out=np.zeros_like(gaps), where=gaps > 0)
        ratios = np.where(distance > digits, _norms(scaled, norm), 0.0)
        excess = distance * (1 - 1 / np.maximum(ratios, 1.0))
        ratios = np.where(excess > digits, ratios, np.minimum(ratios, 1.0))
        ratios = np.where(np.isnan(gaps).any(axis=1), np.inf, ratios)
        if len(ratios):
            worst = int(np.argmax(ratios))
            sizes = float(distance[worst]), float(stated[worst].max(initial=0.0))
            found.append(Move(one.mechanism, norm, *sizes, float(ratios[worst])))
    return found


def _norms(gaps: Floats, norm: str) -> Floats:
    """Return the norm of every row of distances >= 0."""
    if norm == "ball":  # sums, then a count as the last coordinate
        return np.maximum(_norms(gaps[:, :-1], "l2"), gaps[:, -1])
    widest = gaps.max(axis=1, initial=0.0)
    unit = np.where((widest > 0) & np.isfinite(widest), widest, 1.0)  # squares may overflow
    return np.asarray(unit * np.linalg.norm(gaps / unit[:, None], ORDERS[norm], axis=1))


def _largest(values: Floats) -> float:
    """Return the largest absolute value that is not NaN."""
    return float(np.abs(np.nan_to_num(values)).max(initial=0.0))
