"""Audit by replay: repeat a run on the neighbouring dataset, given equal releases."""

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
from dpbench.sweep.block import single_threaded_blas

__all__ = ["Replay", "audit_replay", "first_reason", "largest_ratio", "replay"]

# Runs on each dataset, in one batch; several, because later steps depend on earlier releases.
TRIALS = 10


@dataclass(frozen=True)
class Replay:
    """Comparison of a run on one dataset of a pair with its replay on the other.

    Attributes
    ----------
    move_over_sensitivity : float
        Largest change of a mechanism's input divided by its stated sensitivity; NaN if no
        mechanism could be compared.
    mechanism : str
        Mechanism with the largest change; may be empty.
    difference : str
        Part of the control flow that depends on the replaced record: the mechanisms that run, a
        stated sensitivity, or whether the run raises. Empty if there is none.
    compared, not_compared : int
        Numbers of mechanisms that were compared and that could not be compared.
    pair : str
        Name of the pair.
    """

    move_over_sensitivity: float
    mechanism: str
    difference: str
    compared: int
    not_compared: int
    pair: str = "pair"

    @property
    def same_flow(self) -> bool:
        """True if mechanisms and stated sensitivities were equal on both datasets."""
        return not self.difference

    @property
    def verdict(self) -> Literal["refuted", "not refuted"]:
        """Verdict: ``refuted`` if a change exceeds its sensitivity or the control flow differs."""
        too_far = self.move_over_sensitivity > 1 + ROUNDING
        return "refuted" if too_far or not self.same_flow else "not refuted"

    @property
    def reason(self) -> str:
        """Reason why the claim is refuted; empty if it is not."""
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

    The estimator runs on the left dataset. Then it runs on the right dataset with the random
    numbers of the first run, and each mechanism repeats its release from the left (a frozen
    release). Given equal releases, the inputs of a mechanism may differ by at most its stated
    sensitivity, and the sequence of mechanisms must be equal. Control flow that depends on releases
    alone is equal in both runs, because the releases are frozen.

    A ratio above 1 shows that the noise of a mechanism is scaled to too small a sensitivity, so
    that it costs more than the ledger has counted. Every norm in which a sensitivity is stated is
    compared, even if the noise of this budget does not use it. A difference in control flow shows
    that the course of the run distinguishes the datasets. Neither measures the privacy loss of the
    final release, which may be below the total cost of the mechanisms.

    A ratio of at most 1 shows that the compared mechanisms kept their stated sensitivities, on this
    pair and after these releases. It shows nothing about other datasets and releases, mechanisms
    that could not be compared, the noise and its calibration, the split of the budget, or a record
    that reaches the output outside of all mechanisms. A mechanism cannot be compared if it pays and
    draws by itself (local randomisers, histograms, smooth noise, other libraries), if it chooses
    among intervals whose ends are records, or if it follows a release that cannot be frozen.

    Parameters
    ----------
    estimator : Estimator
        Estimator to audit; all its noise must come from the ledger.
    budget : Budget
        Claimed budget.
    pair : Pair or tuple of two arrays
        Datasets of shape (n,) or (n, d) that differ in one record; under ``add_remove`` the right
        dataset lacks this record.
    rng : Generator
        Source of the releases of the first run.

    Returns
    -------
    Replay
        Largest ratio, its mechanism, the comparison of the control flow, and a verdict.

    Raises
    ------
    ValueError
        If the datasets are not neighbours, or the estimator does not claim the budget's notion.
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
    with single_threaded_blas():
        return replay(estimator, budget, checked_pair(estimator, budget, pair, rng), rng)


def replay(estimator: Estimator, budget: Budget, pair: Pair, rng: np.random.Generator) -> Replay:
    """Replay a pair without checking it; see `audit_replay`.

    Parameters
    ----------
    estimator, budget, pair, rng
        See `audit_replay`; `pair` is a `Pair` that suits the estimator and the budget.

    Returns
    -------
    Replay
    """
    start = copy.deepcopy(rng)
    first, ended = _steps(estimator, budget, pair.left, rng)
    second, ended_too = _steps(estimator, budget, pair.right, start, first)
    if ended != ended_too:  # one run raised: compare the steps before the error
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
    """Return the largest ratio of change to stated sensitivity over replays; NaN if all are NaN."""
    ratios = [one.move_over_sensitivity for one in found]
    return max((ratio for ratio in ratios if not np.isnan(ratio)), default=np.nan)


def first_reason(found: Sequence[Replay]) -> str:
    """Return the reason of the refuting replay with the largest ratio; empty if none refutes."""
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
    except Exception:  # noqa: BLE001, a plug-in may raise anything
        return tape.steps, False
    return tape.steps, True
