"""Test of stated sensitivities: compare two runs of an estimator on neighbouring datasets.

The privacy costs of the mechanisms in a run add up if two conditions hold whenever all earlier
releases are equal. First, the inputs of a mechanism in the two runs differ by at most its stated
sensitivity. Second, both runs execute equal mechanisms, at equal stated sensitivities.

Each run has a tape, which records the inputs and the releases of its mechanisms. The second run is
a replay: its tape replaces each release by the release of the first run, and repeats all other
randomness. So later mechanisms of both runs depend on equal releases. The two tapes show whether
the conditions hold [1]_.

A release is called frozen if it is equal on both tapes. After a release that is not frozen, the two
runs may differ without a loss of privacy, so the comparison ends there.

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
from dpbench.privacy.ledger import MIN_SENSITIVITY
from dpbench.privacy.tape import Step

__all__ = ["ROUNDING", "Comparison", "Move", "compare_steps"]

# Relative tolerance of sensitivities, because shares of a budget and conversions are rounded.
ROUNDING = 1e-9
# Differences below this share of the largest value count as rounding.
ROUNDING_SHARE = 1e-14
NORM_ORDERS = {"l1": 1, "l2": 2, "max": np.inf, "box": np.inf}


@dataclass(frozen=True)
class Move:
    """Distance between the inputs of one mechanism in two runs on neighbouring datasets.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism, a method of `Ledger`.
    norm : str
        Norm of the distance and of the stated sensitivity, for example ``l2``.
    distance, stated : float
        Distance and stated sensitivity in the trial in which their ratio is largest.
    ratio : float
        Distance over sensitivity. It is 0 if the distance is below the rounding of the inputs, and
        at most 1 if the distance exceeds the sensitivity by less than this rounding. It is infinite
        if the sensitivity is 0 and the distance is above rounding. If sensitivities differ by
        coordinate, the ratio is the norm of the coordinates' ratios, because the noise of each
        coordinate has its own scale.
    """

    mechanism: str
    norm: str
    distance: float
    stated: float
    ratio: float

    @property
    def too_far(self) -> bool:
        """True if the distance exceeds the stated sensitivity by more than rounding."""
        return self.ratio > 1 + ROUNDING


@dataclass(frozen=True)
class Comparison:
    """Comparison of the mechanisms in two runs of an estimator on neighbouring datasets.

    The second run repeats the releases of the first, so later mechanisms depend on equal releases.

    Attributes
    ----------
    largest : Move or None
        Largest distance between the two inputs of a mechanism, relative to its stated sensitivity;
        None if no mechanism could be compared.
    difference : str
        First difference between the runs: in the list of mechanisms, or in the stated sensitivity
        of a mechanism. Empty if there is none.
    compared, skipped : int
        Number of compared mechanisms, and number of mechanisms that could not be compared.
    complete : bool
        True if the runs were compared up to their ends, because all releases were equal.
    """

    largest: Move | None
    difference: str
    compared: int
    skipped: int
    complete: bool

    @property
    def ratio(self) -> float:
        """Largest ratio of the distance between a mechanism's inputs to its stated sensitivity.

        NaN if no mechanism could be compared.
        """
        return np.nan if self.largest is None else self.largest.ratio

    @property
    def mechanism(self) -> str:
        """Name of the mechanism with the largest ratio of input distance to stated sensitivity.

        Empty if no mechanism could be compared.
        """
        return "" if self.largest is None else self.largest.mechanism

    @property
    def same_flow(self) -> bool:
        """True if both runs executed equal mechanisms at equal stated sensitivities."""
        return not self.difference


def compare_steps(first: Sequence[Step], second: Sequence[Step]) -> Comparison:
    """Compare the mechanisms of two runs on neighbouring datasets, one by one.

    A step is a recorded call of a mechanism. The second run is a replay: it repeats the releases
    and the randomness of the first run. A release is called frozen if it is equal in both runs. The
    comparison ends after the first release that is not frozen.

    A step ``pay`` records a payment, and belongs to the mechanism that follows it. The inputs of a
    mechanism with its own randomness are not recorded, so they cannot be compared. The release of
    such a mechanism can be frozen only if the mechanism records it. The exponential mechanism may
    choose among pieces whose ends depend on the records. Then its inputs cannot be compared, and
    its release cannot be frozen unless the estimator records the final output. If the runs state
    different sensitivities, the ratio of distance to sensitivity uses the smaller sensitivity.

    Parameters
    ----------
    first, second : sequence of Step
        Steps of a run and of its replay, or of two replays of one run.

    Returns
    -------
    Comparison
    """
    moves: list[Move] = []
    compared = skipped = 0
    difference, frozen = "", True
    pairs = list(itertools.zip_longest(first, second))
    for index, (a, b) in enumerate(pairs):
        if a is None or b is None or a.mechanism != b.mechanism:
            difference = difference or "which mechanisms it runs"
            break
        if a.mechanism != "pay" and a.is_comparable(b):
            compared += 1
            moves += _moves(a, b)
            if not difference and not _same_sensitivity(a, b):
                difference = f"the sensitivity of {a.mechanism}"
        elif a.output is not None:
            skipped += a.output.size > 0  # `Ledger.allow_failure` releases nothing
        elif a.mechanism == "pay" and _pays_for_next(pairs[index + 1 :]):
            continue
        else:
            skipped += 1
        frozen = _same_release(a, b)
        if not frozen:
            skipped += sum(c is not None and c.mechanism != "pay" for c, _ in pairs[index + 1 :])
            break
    largest = max(moves, key=lambda move: move.ratio, default=None)
    return Comparison(largest, difference, compared, skipped, frozen)


def _pays_for_next(rest: Sequence[tuple[Step | None, Step | None]]) -> bool:
    """Return whether a recorded payment is followed by a recorded call of a mechanism.

    `rest` lists the recorded steps after the payment, as pairs with one step of each of two runs.
    The result is True if the first pair contains a step, in either run, that is not a payment.
    """
    return bool(rest) and any(step is not None and step.mechanism != "pay" for step in rest[0])


def _same_release(first: Step, second: Step) -> bool:
    """Return whether two recorded calls of a mechanism, one in each run, released equal outputs."""
    if first.output is None and (first.mechanism == "pay" or not first.is_comparable(second)):
        return False  # the releases are not on the tape or not comparable
    releases = (
        (first.released, second.released) if first.output is None else (first.output, second.output)
    )
    a, b = (np.asarray(end, dtype=float) for end in releases)
    return np.array_equal(a, b, equal_nan=True)


def _same_sensitivity(first: Step, second: Step) -> bool:
    """Return whether two recorded calls of a mechanism state equal sensitivities."""
    a, b = first.sensitivity, second.sensitivity
    return a.keys() == b.keys() and all(
        np.allclose(a[norm], b[norm], rtol=ROUNDING, atol=0.0) for norm in a
    )


def _moves(first: Step, second: Step) -> list[Move]:
    """Return the distance between the inputs of two calls of a mechanism, in one or more norms.

    The norms are those in which the first call states a sensitivity.
    """
    digits = ROUNDING_SHARE * max(_largest(first.values), _largest(second.values))
    gaps = np.where(
        np.isnan(first.values) & np.isnan(second.values), 0.0, first.values - second.values
    )
    gaps = first.draws * np.abs(gaps).reshape(len(gaps), -1)
    moves = []
    for norm, limit in first.sensitivity.items():
        # Use the smaller sensitivity, because it has less noise.
        least = np.minimum(limit, second.sensitivity.get(norm, limit))
        stated = np.broadcast_to(np.asarray(least, dtype=float), first.values.shape)
        stated = np.where(stated > MIN_SENSITIVITY, stated, 0.0).reshape(gaps.shape)
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
            moves.append(Move(first.mechanism, norm, *sizes, float(ratios[worst])))
    return moves


def _norms(gaps: Floats, norm: str) -> Floats:
    """Return the norm of every row of an array of numbers >= 0; `norm` is its name, such as l2."""
    if norm == "ball":  # sums, then a count as the last coordinate
        return np.maximum(_norms(gaps[:, :-1], "l2"), gaps[:, -1])
    widest = gaps.max(axis=1, initial=0.0)
    unit = np.where((widest > 0) & np.isfinite(widest), widest, 1.0)  # squares may overflow
    return np.asarray(unit * np.linalg.norm(gaps / unit[:, None], NORM_ORDERS[norm], axis=1))


def _largest(values: Floats) -> float:
    """Return the largest absolute value in an array, in which NaN counts as 0."""
    return float(np.abs(np.nan_to_num(values)).max(initial=0.0))
