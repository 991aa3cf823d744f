"""What claims, the audit and tracking each find of errors that are put in.

One table. Too much noise is private and too wide a clip is, too: the audit sees neither. What a
library computes that changes between two runs is in tests/cli.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpbench
from dpbench import PureDP
from dpbench import estimators as est
from dpbench.audit import audit_pair, noise_times
from dpbench.estimators import Estimator
from dpbench.privacy import Budget, Ledger, histogram
from dpbench.privacy.neighbours import Pair
from dpbench.tracking import compare, comparison
from dpbench.tracking.baseline import collect_errors
from dpbench.tracking.check import find_suspects

CLAIMED = PureDP(1.0)  # in the audit
KINDS: dict[str, dict[str, Any]] = {
    "binary": {"kind": "binary_mean"},
    "minimax": {"kind": "tuned_clipped_mean", "scale": 1, "k": 2},
    "buckets": {"kind": "subsample_aggregate", "aggregate": "mean", "buckets": 20, "lower": -1,
                "upper": 1},
    "vector": {"kind": "l2_clipped_mean", "radius": 1, "mechanism": "additive"},
    "range": {"kind": "ksu20_range_estimate", "scale": 1, "k": 2, "alpha": 10 / 256,
                 "radius": 2.0**20},
}  # fmt: skip
STUDY: dict[str, Any] = {
    "families": {"coins": {"kind": "bernoulli", "p": 0.3},
                 "rare": {"kind": "two_point_family", "k": 2, "c": [1]},
                 "normal": {"kind": "gaussian", "location": 0.3},
                 "heavy": {"kind": "student_t", "tail_index": 2.5, "standardised_moment": 2},
                 "cube": {"kind": "hypercube", "d": 3}},
    "estimators": KINDS,
    "budgets": {"pure": {"kind": "pure_dp", "epsilon": 0.1}},
    "parts": {
        "coins": {"families": "coins", "estimators": "binary", "n": [10**3, 10**4], "trials": 1000},
        "rare": {"families": "rare", "estimators": "minimax", "n": [10**4, 10**5], "trials": 1000},
        "normal": {"families": "normal", "estimators": "buckets", "n": [1000], "trials": 1000},
        "heavy": {"families": "heavy", "estimators": "range", "trials": 200,
                  "n": {"low": 100, "high": 1600, "points": 16}},
        "cube": {"families": "cube", "estimators": "vector", "n": [1000], "trials": 1500},
    },
    "claims": {
        "noise": {"theorem": "exact_noise", "estimators": ["!range", "!vector"]},
        "norm": {"theorem": "exact_mean_error", "estimators": "vector"},
        "rate": {"theorem": "bounded_private_part", "estimators": "binary"},
        "range": {"theorem": "exact_samples", "estimators": "range", "alpha": 512},
    },
}  # fmt: skip
for claim in STUDY["claims"].values():
    claim |= {"tolerance": 0.05, "reason": "finite trials"}


def changed(holder: Any, name: str, wrong: Callable[..., Any]) -> Any:
    """A function or method, given to `wrong` with its arguments."""
    right = getattr(holder, name)
    return mock.patch.object(holder, name, lambda *at, **options: wrong(right, *at, **options))


def noise(factor: Callable[[float], float]) -> Any:
    """Noise that is multiplied by a function of its sensitivity, which is of order 1/n."""

    def times(
        right: Any, self: Any, rng: Any, shape: Any, l1: float, *more: Any, **options: Any
    ) -> Any:
        return factor(l1) * right(self, rng, shape, l1, *more, **options)

    return changed(Budget, "noise", times)


def wide() -> Any:
    threshold = est.TunedClippedMean.clipping_threshold
    return mock.patch.object(
        est.TunedClippedMean, "clipping_threshold", lambda *at: 2 * threshold(*at)
    )


def fewer_groups() -> Any:
    def half(right: Any, self: Any, *given: Any) -> Any:
        return right(dataclasses.replace(self, buckets=self.buckets // 2), *given)

    return changed(est.SubsampleAggregate, "estimate", half)


@contextlib.contextmanager
def half_of_the_budget() -> Iterator[None]:
    """A first step spends half, and what it finds is not used."""

    def less(right: Any, self: Any, sample: Any, ledger: Ledger) -> Any:
        first, second = ledger.split(0.5, 0.5)
        first.pay("nothing that is used")
        return right(self, sample, second)

    with contextlib.ExitStack() as stack:
        for kind in (est.BinaryMean, est.TunedClippedMean, est.SubsampleAggregate,
                     est.L2ClippedMean, est.KSU20RangeEstimate):  # fmt: skip
            stack.enter_context(changed(kind, "estimate", less))
        yield


@contextlib.contextmanager
def add_remove() -> Iterator[None]:
    """Sensitivities of records that are added or removed: half, and one bin of a histogram."""

    def half(right: Any, self: Any, values: Any, sensitivity: Any, **options: Any) -> Any:
        l1 = options.pop("l1", None)
        return right(self, values, sensitivity / 2, l1=None if l1 is None else l1 / 2, **options)

    with changed(Ledger, "add_noise", half), mock.patch.multiple(histogram, L1=1.0, L2=1.0):
        yield


def reused() -> Any:
    """One draw for all coordinates."""

    def same(right: Any, self: Any, rng: Any, shape: Any, *about: Any, **options: Any) -> Any:
        drawn = right(self, rng, shape, *about, **options)
        return np.broadcast_to(drawn[:, :1], shape) if len(shape) == 2 else drawn

    return changed(Budget, "noise", same)


EVERY = set(KINDS)
NOTHING: set[str] = set()
# A range declares failure before it is often wrong, so that less noise shows in no error.
SHOWN = EVERY - {"range"}
FIRST = 0.1  # a sensitivity, at the least n


class Found(NamedTuple):
    """By claims, by the audit, and what tracking calls worse and asks about."""

    error: Callable[[], Any]
    claims: set[str]
    audit: set[str]
    worse: set[str]
    better: set[str]


MOST = {"binary", "minimax", "vector"}  # the others need more trials, or noise that n moves
ERRORS = {
    "nothing": Found(contextlib.nullcontext, NOTHING, NOTHING, NOTHING, NOTHING),
    "noise x 2": Found(lambda: noise_times(2.0), EVERY, NOTHING, EVERY, NOTHING),
    "noise x 0.8": Found(
        lambda: noise_times(0.8), SHOWN, {"binary", "minimax", "buckets"}, NOTHING, SHOWN
    ),
    "noise x 0.5": Found(lambda: noise_times(0.5), EVERY, EVERY, NOTHING, SHOWN),
    "threshold x 2": Found(wide, {"minimax"}, NOTHING, {"minimax"}, NOTHING),
    "groups / 2": Found(fewer_groups, {"buckets"}, NOTHING, {"buckets"}, NOTHING),
    "n^-0.9": Found(lambda: noise(lambda s: (FIRST / s) ** 0.1), MOST, NOTHING, MOST, NOTHING),
    "a factor ln n": Found(
        lambda: noise(lambda s: np.log(s) / np.log(FIRST)),
        MOST,
        {"range"},
        MOST,
        NOTHING,
    ),
    "half of the budget lost": Found(half_of_the_budget, EVERY, NOTHING, EVERY, NOTHING),
    "sensitivity of add/remove": Found(add_remove, EVERY, EVERY, NOTHING, SHOWN),
    "one noise for all coordinates": Found(reused, {"vector"}, {"vector"}, NOTHING, {"vector"}),
}


def run() -> tuple[set[str], pd.DataFrame]:
    result = dpbench.run(STUDY, n_jobs=1)
    claims = result.claims
    wrong = set(claims["estimator"][claims["verdict"] == "inconsistent"])
    return wrong, collect_errors(result.cells, result.blocks, result.seed)


def pairs() -> Iterator[tuple[str, Estimator, Pair]]:
    """For each estimator one or two that tell most: a record goes from one end to the other."""
    n, far = 20, 1e6
    halves = np.where(np.arange(5 * n) % 2 == 0, -far, far)  # with n records it declares failure
    axis, diagonal = np.eye(3)[0], np.full(3, 3**-0.5)
    data: dict[str, list[tuple[Any, Any]]] = {
        "binary": [(np.zeros(n), 1.0)], "minimax": [(np.full(n, -far), far)],
        "buckets": [(np.full(n, -far), far)], "range": [(halves, far)],
        "vector": [(np.tile(-way, (n, 1)), way) for way in (axis, diagonal)],
    }  # fmt: skip
    for label, about in KINDS.items():
        for left, by in data[label]:
            yield label, Estimator.build(about, label), Pair.replacing("pair", left, 0, by)


@pytest.fixture(scope="module")
def right() -> pd.DataFrame:
    return run()[1]


# Of the kind of other rows, or in tests/whole/test_injected_errors.py of all estimators.
ALIKE = {
    "noise x 0.5",
    "noise x 0.8",
    "a factor ln n",
    "half of the budget lost",
    "threshold x 2",
    "groups / 2",
}
CASES = [pytest.param(e, marks=[pytest.mark.slow] if e in ALIKE else []) for e in ERRORS]


@pytest.mark.parametrize("name", CASES)
def test_what_finds(name: str, right: pd.DataFrame) -> None:
    error, claims, audit, worse, better = ERRORS[name]
    with error():
        wrong, errors = run()
        refuted = set()
        for label, estimator, pair in pairs():
            rng = np.random.default_rng(1)
            bound = audit_pair(estimator, CLAIMED, pair, runs=10_000, rng=rng)
            if bound.verdict == "refuted":
                refuted.add(label)
    with mock.patch.object(comparison, "DRAWS", 250):  # spreads within a tenth
        table = compare(right, errors)
    assert (wrong, refuted) == (claims, audit)
    assert set(table["estimator"][table["verdict"] == "worse"]) == worse
    assert {table["estimator"][place] for place in find_suspects(table)} == better
