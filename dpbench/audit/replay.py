"""Audit by replay: repeat a run on a neighbouring dataset, with the releases of the first run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats
from dpbench.audit.pairs import check_pair
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.replay import ROUNDING, compare_steps
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import DenseSample
from dpbench.sweep.block import single_threaded_blas

__all__ = [
    "Replay", "audit_replay", "describe_compared", "first_reason", "largest_ratio", "replay",
]  # fmt: skip

# Runs on each dataset, in one batch; several runs, because later steps depend on releases.
TRIALS = 10


@dataclass(frozen=True)
class Replay:
    """Comparison of a run with its replay, a run on a neighbouring dataset with equal releases.

    Attributes
    ----------
    move_over_sensitivity : float
        Largest ratio over all mechanisms; NaN if no mechanism could be compared. The ratio is the
        change of a mechanism's input between the datasets, divided by the stated sensitivity.
    mechanism : str
        Name of the mechanism with this largest ratio; empty if no mechanism could be compared.
    difference : str
        Part of the run that may not depend on the replaced record but does: the mechanisms that
        run, their budgets, settings or sensitivities, the number of rows or of parallel parts whose
        inputs change, whether the run raises, or the final output. Empty if no part does.
    compared, not_compared : int
        Numbers of mechanisms that were compared and that could not be compared.
    pair : str
        Name of the pair.
    output_compared : bool
        True if the final outputs of both runs were compared.
    """

    move_over_sensitivity: float
    mechanism: str
    difference: str
    compared: int
    not_compared: int
    pair: str = "pair"
    output_compared: bool = False

    @property
    def same_flow(self) -> bool:
        """True if no part of the run depends on the record that may not, see `difference`."""
        return not self.difference

    @property
    def verdict(self) -> Literal["refuted", "not refuted", "nothing compared"]:
        """Verdict on the claimed budget.

        A claim is ``refuted`` if the input of a mechanism changes by more than its stated
        sensitivity, or if there is a `difference`. Otherwise it is ``not refuted``, or ``nothing
        compared`` if no mechanism could be compared.
        """
        if self.move_over_sensitivity > 1 + ROUNDING or not self.same_flow:
            return "refuted"
        return "not refuted" if self.compared else "nothing compared"

    @property
    def reason(self) -> str:
        """Reason why the privacy claim is refuted; empty if it is not refuted."""
        if not self.same_flow:
            return f"{self.difference} depends on the record of {self.pair}"
        if self.verdict != "refuted":
            return ""
        moved = f"moves by {self.move_over_sensitivity:.6g} times its stated sensitivity"
        return f"{self.mechanism} {moved} on {self.pair}"

    def __str__(self) -> str:
        result = self.reason or f"largest move over stated sensitivity {self._ratio}"
        output = "compared" if self.output_compared else "not compared"
        counts = f"mechanisms: {self.compared} compared, {self.not_compared} not; output {output}"
        return f"{self.verdict}: {result} ({counts})"

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
    """Check on two datasets that a record reaches the release through mechanisms alone.

    The estimator runs on the left dataset. Then it runs on the right dataset with the random
    numbers of the first run. In this replay each mechanism repeats its release from the left
    dataset (a frozen release). The inputs of a mechanism may then differ by at most its stated
    sensitivity. All else depends on releases and public numbers alone, so it must be equal in both
    runs: the sequence of mechanisms, their budgets and settings, and the final output in every bit.

    The result has the largest ratio of a difference to its stated sensitivity. A ratio above 1
    shows that the noise of a mechanism is scaled to too small a sensitivity. The mechanism then
    costs more than the ledger has counted. Every norm in which a sensitivity is stated is compared,
    even if the noise under `budget` does not use the norm. Any other difference distinguishes the
    datasets without noise. Neither the ratio nor such a difference measures the privacy loss of the
    final release, which may be below the total cost of the mechanisms.

    Without a refutation, the compared mechanisms kept their stated sensitivities, on this pair and
    after these releases. If the final output was compared, it contains nothing of the record but
    the releases of mechanisms. The result shows nothing about:

    - other datasets and releases, and mechanisms that could not be compared;
    - the noise and its calibration, and the sizes of the shares of the budget;
    - the final output if it could not be compared, because a release was not frozen or the runs
      ended with other states of the generator;
    - the time that the run takes, and what it writes elsewhere.

    A mechanism cannot be compared in four cases:

    - it pays the ledger and draws its noise by itself (local randomisers, histograms, smooth noise,
      other libraries);
    - it chooses among intervals whose ends are records;
    - its inputs differ by no more than their rounding, which is above the stated sensitivity;
    - it follows a release that cannot be frozen.

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
        If `rng` is a seed instead of a generator.

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
    >>> result = audit_replay(ClippedMean(lower=0, upper=1), PureDP(1.0), data,
    ...                       rng=np.random.default_rng(0))
    >>> result.verdict, round(result.move_over_sensitivity, 6), result.output_compared
    ('not refuted', 1.0, True)
    """
    with single_threaded_blas():
        return replay(estimator, budget, check_pair(estimator, budget, pair, rng), rng)


def replay(estimator: Estimator, budget: Budget, pair: Pair, rng: np.random.Generator) -> Replay:
    """Compare runs on two neighbouring datasets as `audit_replay` does, without checking them."""
    start = copy.deepcopy(rng)
    first, finished = _record_steps(estimator, budget, pair.left, rng)
    second, finished_too = _record_steps(estimator, budget, pair.right, start, first)
    if finished != finished_too:  # one run raised: compare the steps before the error
        length = min(len(first), len(second))
        first, second = first[:length], second[:length]
    comparison = compare_steps(first, second, TRIALS)
    difference = comparison.difference
    if comparison.complete and finished != finished_too:
        difference = difference or "whether it raises"
    return Replay(
        comparison.ratio,
        comparison.mechanism,
        difference,
        comparison.compared,
        comparison.skipped,
        pair.name,
        comparison.output,
    )


def largest_ratio(replays: Iterable[Replay]) -> float:
    """Return the largest ratio of an input's change to its stated sensitivity, over all replays.

    A replay compares runs on two neighbouring datasets; its ratio is
    `Replay.move_over_sensitivity`. The result is NaN if the ratios of all replays are NaN.
    """
    ratios = [replay.move_over_sensitivity for replay in replays]
    return max((ratio for ratio in ratios if not np.isnan(ratio)), default=np.nan)


def describe_compared(replays: Sequence[Replay]) -> str:
    """Return what all replays compared: how many mechanisms, and whether the final output."""
    if not any(replay.compared or replay.output_compared for replay in replays):
        return "nothing"
    fewest = min(replay.compared for replay in replays)
    most = max(replay.compared + replay.not_compared for replay in replays)
    output = ", output" * all(replay.output_compared for replay in replays)
    return f"{fewest} of {most}{output}"


def first_reason(replays: Sequence[Replay]) -> str:
    """Return the reason why a replay refutes a privacy claim; empty if no replay refutes it.

    The reason is from the refuting replay with the largest ratio of an input's change to its stated
    sensitivity.
    """
    refuting = [replay for replay in replays if replay.verdict == "refuted"]
    ranked = sorted(refuting, key=lambda replay: -np.nan_to_num(replay.move_over_sensitivity))
    return ranked[0].reason if ranked else ""


def _record_steps(
    estimator: Estimator,
    budget: Budget,
    data: Floats,
    rng: np.random.Generator,
    earlier: Sequence[Step] = (),
) -> tuple[list[Step], bool]:
    """Run an estimator on a dataset and return the recorded calls of mechanisms.

    The second result is True if the run raised no exception. The estimator runs `TRIALS` times at
    once. If `earlier` calls are given, the new calls repeat the releases of the earlier calls.
    """
    tape = Tape(earlier)
    sample = DenseSample(np.broadcast_to(data, (TRIALS, *data.shape)))
    try:
        estimate = estimator.run(sample, Ledger(budget, rng, tape=tape))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001, a plug-in may raise anything
        return tape.steps, False
    tape.record_result(estimate.released, rng)
    return tape.steps, True
