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

The final output is a function of the releases, of public numbers and of random numbers. If all
releases are frozen and the random numbers are equal, the final outputs are equal in every bit.
Otherwise a record reaches the output outside of all mechanisms.

References
----------
.. [1] T. Cebere, D. Erb, D. Desfontaines, A. Bellet, J. Fitzsimons, "Privacy in theory, bugs in
   practice: grey-box auditing of differential privacy libraries", 2026, arXiv:2602.17454.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbench.arrays import Bools, Floats
from dpbench.privacy.ledger import MIN_SENSITIVITY
from dpbench.privacy.tape import RESULT, Place, Step

__all__ = ["NORM_ORDERS", "ROUNDING", "Comparison", "Move", "compare_steps"]

# Relative tolerance of sensitivities, because shares of a budget and conversions are rounded.
ROUNDING = 1e-9
# A coordinate's difference below this share of the larger of its two values counts as rounding.
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
        Distance over sensitivity; 1 if it exceeds 1 by no more than `ROUNDING`. It is infinite if
        the sensitivity is 0 and the distance is not.
        If sensitivities differ by coordinate, the ratio is the norm of the coordinates' ratios,
        because the noise of each coordinate has its own scale.
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
        First difference between the runs that a record may not cause, see `compare_steps`. Empty if
        there is none.
    compared, skipped : int
        Number of compared mechanisms, and number of mechanisms that could not be compared.
    complete : bool
        True if the runs were compared up to their ends, because all releases were equal.
    output : bool
        True if the final outputs were compared.
    """

    largest: Move | None
    difference: str
    compared: int
    skipped: int
    complete: bool
    output: bool = False

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
        """True if the runs differ in nothing but the inputs of mechanisms."""
        return not self.difference


def compare_steps(
    first: Sequence[Step], second: Sequence[Step], trials: int | None = None
) -> Comparison:
    """Compare the mechanisms of two runs on neighbouring datasets, one by one.

    A step is a recorded call of a mechanism. The second run is a replay: it repeats the releases
    and the randomness of the first run. A release is called frozen if it is equal in both runs. The
    comparison ends after the first release that is not frozen. Apart from the inputs of mechanisms,
    the runs may not differ in:

    - the sequence of mechanisms, and the places of the budget from which they pay;
    - budgets, settings and stated sensitivities of mechanisms, and shapes of releases;
    - more rows of a trial than are paid for (`Account.repeated`), nor in more parts of a group that
      pays in parallel than records differ (`Account.parallel`);
    - the final output, if all releases are frozen and the generators end in equal states.

    A step ``pay`` records a payment, and belongs to the mechanism that follows it. The inputs of a
    mechanism with its own randomness are not recorded, so they cannot be compared. The release of
    such a mechanism can be frozen only if the mechanism records it. The exponential mechanism may
    choose among pieces whose ends depend on the records. Then its inputs cannot be compared, and
    its release cannot be frozen unless the estimator records the final output. Inputs cannot be
    compared, either, if their difference may be rounding, but would exceed the sensitivity. If the
    runs state different sensitivities, the ratio of distance to sensitivity uses the smaller one.

    Without `trials`, the number of trials of each run, rows and parallel parts are not compared.
    """
    comparer, frozen = _Comparer(trials), True
    pairs = list(itertools.zip_longest(first, second))
    for index, (a, b) in enumerate(pairs):
        if a is None or b is None or a.mechanism != b.mechanism:
            comparer.difference = "which mechanisms it runs"
            break
        if a.mechanism == RESULT:
            comparer.compare_results(a, b)
            continue
        comparer.compare(a, b, has_mechanism=_pays_for_next(pairs[index + 1 :]))
        if a.mechanism == "pay" and a.output is None and _pays_for_next(pairs[index + 1 :]):
            continue
        frozen = _same_release(a, b)
        if not frozen:
            left_out = (c.mechanism for c, _ in pairs[index + 1 :] if c is not None)
            comparer.skipped += sum(name not in ("pay", RESULT) for name in left_out)
            break
    return comparer.result(complete=frozen)


class _Comparer:
    """Comparison of two runs, to which pairs of steps are added in their order."""

    def __init__(self, trials: int | None) -> None:
        self.trials = trials
        self.moves: list[Move] = []
        self.compared = self.skipped = 0
        self.difference, self.output = "", False
        # For each group of parts that pay in parallel: in which trials the inputs of a part differ.
        self._differing: dict[tuple[Place, int], dict[int, Bools]] = {}

    def result(self, *, complete: bool) -> Comparison:
        """Return the comparison of all steps; `complete` tells whether all releases were equal."""
        largest = max(self.moves, key=lambda move: move.ratio, default=None)
        counts = self.compared, self.skipped
        return Comparison(largest, self.difference, *counts, complete, self.output)

    def note(self, difference: str) -> None:
        """Note a difference that a record may not cause, unless another one is noted."""
        self.difference = self.difference or difference

    def compare(self, a: Step, b: Step, *, has_mechanism: bool) -> None:
        """Compare two steps of one mechanism.

        `has_mechanism` tells whether a recorded call of a mechanism follows.
        """
        name = a.mechanism if a.mechanism != "pay" else str(a.settings[-1])
        if (a.place, a.rows, a.settings) != (b.place, b.rows, b.settings):
            self.note(f"the budget or a setting of {name}")
        if np.shape(_release(a)) != np.shape(_release(b)):
            self.note(f"the shape of the release of {name}")
        if a.mechanism != "pay" and a.is_comparable(b):
            moves, differing, resolved = _moves(a, b)
            self.moves += moves
            self.compared += resolved
            self.skipped += not resolved
            if not _same_sensitivity(a, b):
                self.note(f"the sensitivity of {name}")
            self._count_rows(a, differing)
        elif a.output is not None:
            self.skipped += a.output.size > 0  # `Ledger.allow_failure` releases nothing
        else:
            self.skipped += not (a.mechanism == "pay" and has_mechanism)

    def compare_results(self, a: Step, b: Step) -> None:
        """Compare the final outputs bit by bit, if equal random numbers were drawn."""
        self.output = repr(a.chance) == repr(b.chance)
        results = [[(x.shape, x.dtype, x.tobytes()) for x in step.released] for step in (a, b)]
        if self.output and results[0] != results[1]:
            self.note("the final output")

    def _count_rows(self, step: Step, differing: Bools) -> None:
        """Note too many differing rows or parallel parts; `differing` tells which rows differ.

        Rows are ordered by trial, so that consecutive rows belong to one trial.
        """
        if self.trials is None or len(differing) % self.trials:
            return
        by_trial = differing.reshape(self.trials, -1)
        if by_trial.sum(axis=1).max(initial=0) > step.rows:
            self.note(f"more than {step.rows} row{'s' * (step.rows > 1)} of {step.mechanism}")
        for level, (group, part, most) in enumerate(step.place):
            parts = self._differing.setdefault((step.place[:level], group), {})
            parts[part] = np.asarray(parts.get(part, False) | by_trial.any(axis=1))
            if np.sum([*parts.values()], axis=0).max(initial=0) > most:
                self.note(f"more than {most} of the parts that pay in parallel")


def _pays_for_next(rest: Sequence[tuple[Step | None, Step | None]]) -> bool:
    """Return whether a recorded payment is followed by a recorded call of a mechanism.

    `rest` lists the recorded steps after the payment, as pairs with one step of each of two runs.
    The result is True if the first pair contains a step, in either run, that is a mechanism.
    """
    return bool(rest) and any(
        step is not None and step.mechanism not in ("pay", RESULT) for step in rest[0]
    )


def _same_release(first: Step, second: Step) -> bool:
    """Return whether two recorded calls of a mechanism, one in each run, released equal outputs."""
    if first.output is None and (first.mechanism == "pay" or not first.is_comparable(second)):
        return False  # the releases are not on the tape or not comparable
    a, b = (np.asarray(_release(step), dtype=float) for step in (first, second))
    return np.array_equal(a, b, equal_nan=True)


def _release(step: Step) -> Any:
    """Return what a mechanism released: its recorded final output if there is one."""
    return step.released if step.output is None else step.output


def _same_sensitivity(first: Step, second: Step) -> bool:
    """Return whether two recorded calls of a mechanism state equal sensitivities."""
    a, b = first.sensitivity, second.sensitivity
    return a.keys() == b.keys() and all(
        np.allclose(a[norm], b[norm], rtol=ROUNDING, atol=0.0) for norm in a
    )


def _moves(first: Step, second: Step) -> tuple[list[Move], Bools, bool]:
    """Return the distance between the inputs of two calls of a mechanism, in one or more norms.

    The norms are those in which the first call states a sensitivity. The second result tells in
    which rows the inputs differ by more than rounding. The third result is False if the difference
    in a row may be rounding, but would exceed the sensitivity.
    """
    a, b = (step.values.reshape(len(step.values), -1) for step in (first, second))
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        gaps = first.draws * np.where(np.isnan(gaps), np.inf, gaps)
        digits = first.draws * ROUNDING_SHARE * np.maximum(np.abs(a), np.abs(b))
        sure = np.where(np.isfinite(gaps), np.maximum(gaps - digits, 0.0), gaps)
    moves, resolved = list[Move](), True
    for norm, limit in first.sensitivity.items():
        # Use the smaller sensitivity, because it has less noise.
        least = np.minimum(limit, second.sensitivity.get(norm, limit))
        stated = np.broadcast_to(np.asarray(least, dtype=float), first.values.shape)
        stated = np.where(stated > MIN_SENSITIVITY, stated, 0.0).reshape(gaps.shape)
        ratios = _ratios(gaps, stated, norm)
        unsure = ratios > 1 + ROUNDING
        if unsure.any():
            unsure &= _ratios(sure, stated, norm) <= 1 + ROUNDING
            resolved &= not unsure.any()
        ratios = np.where(ratios <= 1 + ROUNDING, np.minimum(ratios, 1.0), ratios)
        ratios = np.where(unsure, -1.0, ratios)
        if len(ratios) and ratios.max() >= 0:
            worst = int(np.argmax(ratios))
            distance = float(_norms(gaps[worst : worst + 1], norm)[0])
            sizes = distance, float(stated[worst].max(initial=0.0))
            moves.append(Move(first.mechanism, norm, *sizes, float(ratios[worst])))
    return moves, np.asarray((sure > 0).any(axis=1)), resolved


def _ratios(gaps: Floats, stated: Floats, norm: str) -> Floats:
    """Return the norm of the gaps over the stated sensitivities, for every row."""
    if norm == "hourglass":  # one sensitivity for a sum and a count
        return np.asarray(_norms(gaps, norm) / stated[:, 0])
    with np.errstate(divide="ignore", over="ignore"):
        return _norms(np.divide(gaps, stated, out=np.zeros_like(gaps), where=gaps > 0), norm)


def _norms(gaps: Floats, norm: str) -> Floats:
    """Return the norm of every row of gaps >= 0, shape (rows, coordinates), as shape (rows,).

    `norm` is the name of the norm, such as l2.
    """
    if norm == "ball":  # sums, then a count as the last coordinate
        return np.maximum(_norms(gaps[:, :-1], "l2"), gaps[:, -1])
    if norm == "hourglass":
        # Number of records in [-1, 1] that are added or removed for a gap z of sums and k of
        # counts: the least m >= z of the parity of k, and at least k.
        z, k = gaps[:, 0], np.rint(gaps[:, 1])
        return np.asarray(k + 2 * np.ceil(np.maximum(z - k - ROUNDING, 0.0) / 2))
    widest = gaps.max(axis=1, initial=0.0)
    unit = np.where((widest > 0) & np.isfinite(widest), widest, 1.0)  # squares may overflow
    return np.asarray(unit * np.linalg.norm(gaps / unit[:, None], NORM_ORDERS[norm], axis=1))
