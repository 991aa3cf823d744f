"""Checks of noise and of stated sensitivities, on neighbouring datasets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Step, Tape
from dpbench.testing.case import ROUNDING, Case, fresh_rng, is_close, largest

__all__ = ["check_noise", "check_sensitivity"]

# So large that steps with noise of their own choose alike on neighbouring data; so small that
# all noise shows.
LARGE = {one.notion: one for one in (PureDP(1e4), ZCDP(1e4), GDP(200.0), ApproxDP(1e4, 1e-5))}
SMALL = {one.notion: one for one in (PureDP(0.01), ZCDP(1e-5), GDP(0.01), ApproxDP(0.01, 1e-5))}
# Where a record is replaced to, and where many of them are.
NEAR, WILD = 1e6, 1e150


def check_sensitivity(case: Case) -> None:
    """Check that no record moves the values of a mechanism by more than it states."""
    n, tail = len(case.data), case.data.shape[1:]
    near, far = np.eye(*tail)[0] if tail else np.ones(()), np.ones(tail)
    places = [NEAR * near, -NEAR * near, WILD * far, -WILD * far]
    flat = np.repeat(case.data[:1], n, axis=0)  # as many records, all like the first

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
    """Compare the steps of runs on neighbouring datasets, given the same releases."""
    if [step.mechanism for step in one] != [step.mechanism for step in other]:
        raise case.fail(f"which mechanisms it runs depends on record {record}")
    changing = "replacing" if case.budget.neighbours == "replace" else "removing"
    for a, b in zip(one, other, strict=True):
        if not a.like(b):
            continue  # a choice among pieces that the records cut up
        for norm, limit in a.sensitivity.items():
            if not is_close(np.asarray(limit), np.asarray(b.sensitivity[norm])):
                raise case.fail(f"the sensitivity of {a.mechanism} depends on record {record}")
            moved = _move(a.values, b.values, norm) * a.draws
            # One limit may be stated for each coordinate: the largest bounds a row's.
            wide = np.broadcast_to(np.asarray(limit, dtype=float), a.values.shape)
            allowed = wide.reshape(len(wide), -1).max(axis=1)
            digits = 1e-14 * max(largest(a.values), largest(b.values))
            for step, most in zip(moved, allowed, strict=True):
                if not step <= most * (1 + ROUNDING) + digits:
                    raise case.fail(
                        f"{changing} record {record} moves {a.mechanism} by {step:.6g}, "
                        f"above its {norm} sensitivity {most:.6g}"
                    )


def check_noise(case: Case) -> None:
    """Check that releases of a small budget differ."""
    copies = np.broadcast_to(case.data, (50, *case.data.shape))
    value = case.run(copies, Ledger(_of_size(case, SMALL), fresh_rng())).value
    if np.isfinite(value).all() and np.all(value == value[0]):
        raise case.fail("50 releases of a small budget are equal: there is no noise")


def _of_size(case: Case, sizes: dict[str, Any]) -> Budget:
    """Return the budget of the case's notion, about its neighbours."""
    return replace(sizes[case.budget.notion], neighbours=case.budget.neighbours)  # type: ignore[no-any-return]


def _move(one: Floats, other: Floats, norm: str) -> Floats:
    """How far apart two batches of numbers or vectors are, row by row."""
    both = np.isnan(one) & np.isnan(other)
    gaps = np.where(both, 0.0, np.abs(one - other))
    if gaps.ndim == 1:
        return gaps
    if norm == "ball":  # of sums; the last is a count
        return np.maximum(_move(one[:, :-1], other[:, :-1], "l2"), gaps[:, -1])
    widest = gaps.max(axis=1)
    unit = np.where(widest > 0, widest, 1.0)  # squares may overflow
    order = {"l1": 1, "l2": 2, "max": np.inf, "box": np.inf}[norm]
    return np.asarray(unit * np.linalg.norm(gaps / unit[:, None], order, axis=1))
