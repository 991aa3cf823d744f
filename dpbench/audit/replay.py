"""Replay a run on one dataset of a pair with the other, given the same releases."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats
from dpbench.audit.pairs import checked_pair
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.replay import ROUNDING, compare_steps
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import DenseSample
from dpbench.sweep.block import steady

__all__ = ["Replay", "audit_replay", "first_reason", "largest_ratio", "replay"]

# Runs on each dataset, in one batch, because later steps depend on what earlier ones release.
TRIALS = 10


@dataclass(frozen=True)
class Replay:
    """Hold the comparison of a run on one dataset of a pair with its replay on the other.

    Attributes
    ----------
    move_over_sensitivity : float
        The largest move of a mechanism's values over its stated sensitivity; NaN if no mechanism
        could be compared.
    mechanism : str
        The mechanism with the largest move, or nothing.
    difference : str
        The part of the control flow that depends on the replaced record: which mechanisms run,
        the stated sensitivity of one, or whether the run raises. Empty if none does.
    compared, not_compared : int
        Mechanisms that were compared, and mechanisms that could not be.
    pair : str
        The name of the pair.
    """

    move_over_sensitivity: float
    mechanism: str
    difference: str
    compared: int
    not_compared: int
    pair: str = "pair"

    @property
    def same_flow(self) -> bool:
        """Return whether the same mechanisms ran, at the same stated sensitivities, on both."""
        return not self.difference

    @property
    def verdict(self) -> Literal["refuted", "not refuted"]:
        """Return ``refuted`` if a move exceeds its sensitivity, or the control flow differs."""
        too_far = self.move_over_sensitivity > 1 + ROUNDING
        return "refuted" if too_far or not self.same_flow else "not refuted"

    @property
    def reason(self) -> str:
        """Say what refutes the claim, or nothing."""
        if not self.same_flow:
            return f"{self.difference} depends on the record of {self.pair}"
        if self.verdict == "not refuted":
            return ""
        moved = f"moves by {self.move_over_sensitivity:.6g} times its stated sensitivity"
        return f"{self.mechanism} {moved} on {self.pair}"

    def __str__(self) -> str:
        told = self.reason or f"largest move over stated sensitivity {self._ratio}"
        counts = f"mechanisms: {self.compared} compared, {self.not_compared} not"
        return f"{self.verdict}: {told} ({counts})"

    @property
    def _ratio(self) -> str:
        ratio = self.move_over_sensitivity
        return "-" if np.isnan(ratio) else f"{ratio:.6g}"


def audit_replay(
    estimator: Estimator,
    budget: Budget,
    pair: Pair | tuple[ArrayLike, ArrayLike],
    *,
    rng: np.random.Generator,
) -> Replay:
    """Compare the inputs of mechanisms with their stated sensitivities on two datasets.

    The estimator runs on the left dataset. Then it runs on the right one, where each mechanism
    releases what it released on the left, and all other chance is the same. Given the same
    releases, no mechanism may be given values that differ by more than its stated sensitivity, and
    the same mechanisms have to run. Control flow that depends on releases alone is the same in both
    runs, since these are frozen.

    A ratio above 1 shows that the noise of a mechanism is scaled to too small a number: the cost
    that the ledger has counted is not what the mechanism costs. All norms in which a sensitivity is
    stated count, also one that the noise of this budget does not use. Control flow that differs
    shows that the run itself tells the datasets apart. Neither says how much privacy the final
    release loses, which may be less than all mechanisms cost together.

    A ratio of at most 1 shows that these mechanisms kept their stated sensitivities, on this pair
    and after these releases. It shows nothing of other datasets and releases, of a mechanism that
    could not be compared, of the noise itself, of its calibration, of the budget's split, or of a
    record that reaches the output outside of all mechanisms. A mechanism cannot be compared if it
    pays and draws by itself (coins of the local model, histograms, smooth noise, other libraries),
    chooses among pieces that the records cut up, or comes after a release that cannot be frozen.

    Parameters
    ----------
    estimator : Estimator
        The estimator; all its noise comes from the ledger.
    budget : Budget
        The privacy that it claims.
    pair : Pair or tuple of two arrays
        Datasets that differ in one record, (n,) or (n, d) each; under ``add_remove`` the right one
        lacks it.
    rng : Generator
        Draws the releases of the first run.

    Returns
    -------
    Replay
        The largest ratio, the mechanism that it belongs to, the control flow and a verdict.

    Raises
    ------
    ValueError
        If these are no neighbours, or the estimator claims nothing of the kind.
    TypeError
        If `rng` is a seed.

    References
    ----------
    .. [1] T. Cebere, D. Erb, D. Desfontaines, A. Bellet, J. Fitzsimons, "Privacy in theory, bugs in
       practice: grey-box auditing of differential privacy libraries", 2026, arXiv:2602.17454.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP
    >>> from dpbench.audit import audit_replay
    >>> from dpbench.estimators import ClippedMean
    >>> data = np.zeros(20), np.append(np.zeros(19), 5.0)
    >>> found = audit_replay(ClippedMean(lower=0, upper=1), PureDP(1.0), data,
    ...                      rng=np.random.default_rng(0))
    >>> print(found)
    not refuted: largest move over stated sensitivity 1 (mechanisms: 1 compared, 0 not)
    """
    with steady():
        return replay(estimator, budget, checked_pair(estimator, budget, pair, rng), rng)


def replay(estimator: Estimator, budget: Budget, pair: Pair, rng: np.random.Generator) -> Replay:
    """Replay a pair that is known to suit the estimator and the budget, see `audit_replay`."""
    start = copy.deepcopy(rng)
    first, ended = _steps(estimator, budget, pair.left, rng)
    second, ended_too = _steps(estimator, budget, pair.right, start, first)
    if ended != ended_too:  # compare them as far as both came
        shared = min(len(first), len(second))
        first, second = first[:shared], second[:shared]
    found = compare_steps(first, second)
    difference = found.difference
    if found.complete and ended != ended_too:
        difference = difference or "whether it raises"
    return Replay(
        found.ratio, found.mechanism, difference, found.compared, found.skipped, pair.name
    )


def largest_ratio(found: Iterable[Replay]) -> float:
    """Return the largest move over stated sensitivity of several pairs; NaN if none is known."""
    ratios = [one.move_over_sensitivity for one in found]
    return max((ratio for ratio in ratios if not np.isnan(ratio)), default=np.nan)


def first_reason(found: Sequence[Replay]) -> str:
    """Say what refutes the claim on the pair with the largest ratio, or nothing."""
    refuting = [one for one in found if one.verdict == "refuted"]
    ranked = sorted(refuting, key=lambda one: -np.nan_to_num(one.move_over_sensitivity))
    return ranked[0].reason if ranked else ""


def _steps(
    estimator: Estimator,
    budget: Budget,
    data: Floats,
    rng: np.random.Generator,
    earlier: Sequence[Step] = (),
) -> tuple[list[Step], bool]:
    """Return the steps of `TRIALS` runs on a dataset, and whether they ended without an error."""
    tape = Tape(earlier)
    sample = DenseSample(np.broadcast_to(data, (TRIALS, *data.shape)))
    try:
        estimator.run(sample, Ledger(budget, rng, tape=tape))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001, whatever a plug-in raises
        return tape.steps, False
    return tape.steps, True
