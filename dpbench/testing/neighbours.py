"""Checks of noise and of stated sensitivities, on neighbouring datasets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.replay import compare_steps
from dpbench.privacy.tape import Step, Tape
from dpbench.testing.case import CheckCase, fresh_rng

__all__ = ["check_noise", "check_sensitivity"]

# Under large budgets noise is negligible, so that data-dependent choices agree on neighbouring
# datasets. Under small budgets noise shows in every release.
LARGE_BUDGETS = {
    budget.notion: budget for budget in (PureDP(1e4), ZCDP(1e4), GDP(200.0), ApproxDP(1e4, 1e-5))
}
SMALL_BUDGETS = {
    budget.notion: budget for budget in (PureDP(0.01), ZCDP(1e-5), GDP(0.01), ApproxDP(0.01, 1e-5))
}
# Absolute values of a distant record, and of a record near the end of the range of squares.
DISTANT_RECORD, EXTREME_RECORD = 1e6, 1e150


def check_sensitivity(case: CheckCase) -> None:
    """Check that changing one record moves a mechanism's input by at most the stated sensitivity.

    Nothing else may change: neither the course of the run, nor what is computed from the releases.
    The record is replaced by distant records or, for add/remove neighbours, removed.
    """
    n, tail = len(case.data), case.data.shape[1:]
    near, far = np.eye(*tail)[0] if tail else np.ones(()), np.ones(tail)
    places = [
        DISTANT_RECORD * near,
        -DISTANT_RECORD * near,
        EXTREME_RECORD * far,
        -EXTREME_RECORD * far,
    ]
    flat = np.repeat(case.data[:1], n, axis=0)  # n copies of the first record

    def steps(values: Floats, earlier: Sequence[Step] = ()) -> list[Step]:
        tape, rng = Tape(earlier), fresh_rng()
        ledger = Ledger(_budget_of_case(case, LARGE_BUDGETS), rng, tape=tape)
        tape.record_result(case.run(values[None], ledger).released, rng)
        return tape.steps

    first = steps(flat)
    for record in {case.estimator.first_private, n - 1}:
        tapes = []
        for place in places:
            neighbour = flat.copy()
            neighbour[record] = place
            tapes.append(steps(neighbour, first))
        pairs = list(itertools.combinations([*tapes, first], 2))
        if case.budget.neighbours == "add_remove":
            fewer = steps(np.delete(flat, record, axis=0), first)
            pairs = [(left, fewer) for left in [*tapes, first]]
        for left, right in pairs:
            _compare(case, left, right, record)


def _compare(case: CheckCase, left: list[Step], right: list[Step], record: int) -> None:
    """Check that two runs differ by at most the stated sensitivities of mechanisms.

    `left` and `right` are the recorded calls of mechanisms in the two runs. The datasets of the
    runs differ in the record with index `record`.
    """
    comparison = compare_steps(left, right, trials=1)
    if comparison.difference:
        raise case.fail(f"{comparison.difference} depends on record {record}")
    move = comparison.largest
    if move is not None and move.too_far:
        changing = "replacing" if case.budget.neighbours == "replace" else "removing"
        raise case.fail(
            f"{changing} record {record} moves {move.mechanism} by {move.distance:.6g}, "
            f"above its {move.norm} sensitivity {move.stated:.6g}"
        )


def check_noise(case: CheckCase) -> None:
    """Check that releases from one dataset under a small budget differ, because of noise."""
    copies = np.broadcast_to(case.data, (50, *case.data.shape))
    value = case.run(copies, Ledger(_budget_of_case(case, SMALL_BUDGETS), fresh_rng())).value
    if np.isfinite(value).all() and np.all(value == value[0]):
        raise case.fail("50 releases under a small budget are equal: there is no noise")


def _budget_of_case(case: CheckCase, sizes: dict[str, Any]) -> Budget:
    """Look up the budget for a check in `sizes`, which maps notions of privacy to budgets.

    The budget has the notion of privacy and the relation of neighbours of the case's budget.
    """
    return replace(sizes[case.budget.notion], neighbours=case.budget.neighbours)  # type: ignore[no-any-return]
