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
from dpbench.testing.case import Case, fresh_rng

__all__ = ["check_noise", "check_sensitivity"]

# LARGE: noise is negligible, so that data-dependent choices agree on neighbouring datasets.
# SMALL: noise is so large that it shows in every release.
LARGE = {one.notion: one for one in (PureDP(1e4), ZCDP(1e4), GDP(200.0), ApproxDP(1e4, 1e-5))}
SMALL = {one.notion: one for one in (PureDP(0.01), ZCDP(1e-5), GDP(0.01), ApproxDP(0.01, 1e-5))}
# Absolute values that replace a record: a distant one, and one near the end of the float range.
NEAR, WILD = 1e6, 1e150


def check_sensitivity(case: Case) -> None:
    """Check that no record moves the input of a mechanism by more than its sensitivity."""
    n, tail = len(case.data), case.data.shape[1:]
    near, far = np.eye(*tail)[0] if tail else np.ones(()), np.ones(tail)
    places = [NEAR * near, -NEAR * near, WILD * far, -WILD * far]
    flat = np.repeat(case.data[:1], n, axis=0)  # n copies of the first record

    def steps(values: Floats, earlier: Sequence[Step] = ()) -> list[Step]:
        tape = Tape(earlier)
        case.run(values[None], Ledger(_of_size(case, LARGE), fresh_rng(), tape=tape))
        return tape.steps

    first = steps(flat)
    for record in {0, n - 1}:
        tapes = []
        for place in places:
            neighbour = flat.copy()
            neighbour[record] = place
            tapes.append(steps(neighbour, first))
        both = list(itertools.combinations([*tapes, first], 2))
        if case.budget.neighbours == "add_remove":
            fewer = steps(np.delete(flat, record, axis=0), first)
            both = [(one, fewer) for one in [*tapes, first]]
        for one, other in both:
            _compare(case, one, other, record)


def _compare(case: Case, one: list[Step], other: list[Step], record: int) -> None:
    """Check that runs on neighbouring datasets differ by at most the stated sensitivities."""
    found = compare_steps(one, other)
    if found.difference:
        raise case.fail(f"{found.difference} depends on record {record}")
    move = found.largest
    if move is not None and move.too_far:
        changing = "replacing" if case.budget.neighbours == "replace" else "removing"
        raise case.fail(
            f"{changing} record {record} moves {move.mechanism} by {move.distance:.6g}, "
            f"above its {move.norm} sensitivity {move.stated:.6g}"
        )


def check_noise(case: Case) -> None:
    """Check that releases under a small budget differ, as noise makes them."""
    copies = np.broadcast_to(case.data, (50, *case.data.shape))
    value = case.run(copies, Ledger(_of_size(case, SMALL), fresh_rng())).value
    if np.isfinite(value).all() and np.all(value == value[0]):
        raise case.fail("50 releases under a small budget are equal: there is no noise")


def _of_size(case: Case, sizes: dict[str, Any]) -> Budget:
    """Return the budget in `sizes` of the case's notion and neighbouring relation."""
    return replace(sizes[case.budget.notion], neighbours=case.budget.neighbours)  # type: ignore[no-any-return]
