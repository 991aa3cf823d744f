"""Outside code that takes one dataset at a time: its arguments, its receipt, its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from dpbench import Estimator, OneDataset, OneRecord, PureDP
from dpbench.privacy import Budget, Ledger, OverdraftError
from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from tests.estimators.outsiders import _Scalars, once
from tests.support import Floats, rng

# Code that takes one dataset at a time.


class _Spy(OneDataset):
    """An estimator that applies a function, and records its arguments."""

    multivariate: ClassVar[bool] = True

    def __init__(self, answer: Callable[[Floats], Any] = lambda x: x.mean(axis=0)) -> None:
        self.answer = answer
        self.seen: list[tuple[Floats, Budget, float]] = []

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float | Floats:
        self.seen.append((x.copy(), budget, float(rng.random())))
        x.fill(np.nan)  # as careless code may
        value: float | Floats = self.answer(self.seen[-1][0])
        return value


SAMPLES: list[Sample] = [
    DenseSample(rng(1).normal(size=(3, 5))),
    DenseSample(rng(3).normal(size=(3, 5, 2))),
    DenseSample(rng(4).normal(size=(3, 5, 1))),
    CountedSample([-1.0, 0.0, 2.5], [[1, 3, 1], [0, 0, 5], [2, 1, 2]]),
    SparseSample(rng(5).normal(size=(6, 2)), np.array([1, 0, 5]), 5),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{type(s).__name__}{s.mean().shape}")
def test_every_trial_gets_its_records(sample: Sample) -> None:
    before = sample.mean().copy()
    spy, same_stream, other_stream = _Spy(), _Spy(), _Spy()
    account = Ledger(PureDP(1.0), rng(0))
    estimate = spy.run(sample, account)
    assert [x.shape for x, *_ in spy.seen] == [(5, *before.shape[1:])] * 3
    np.testing.assert_allclose(estimate.value, before, rtol=1e-12, atol=1e-15)
    assert np.isnan(estimate.before_noise).all()
    assert {budget for _, budget, _ in spy.seen} == {PureDP(1.0)}
    if isinstance(sample, DenseSample):  # in their order
        np.testing.assert_array_equal([x for x, *_ in spy.seen], sample.values)
    same_stream.run(sample, Ledger(PureDP(1.0), rng(0)))  # the sample is as it was
    other_stream.run(sample, Ledger(PureDP(1.0), rng(1)))
    for (x, _, draw), (y, _, same) in zip(spy.seen, same_stream.seen, strict=True):
        np.testing.assert_array_equal(x, y)
        assert draw == same
    # A stream for each trial.
    assert len({draw for *_, draw in spy.seen + other_stream.seen}) == 6


def test_receipt_names_the_code() -> None:
    account = Ledger(PureDP(1.0), rng())
    _Spy().run(DenseSample(np.zeros((2, 3))), account)
    assert account.spent == (1.0,)
    assert account.receipt().startswith("pure epsilon 1: _Spy, which draws its own noise\n")
    with pytest.raises(OverdraftError):
        _Spy().run(DenseSample(np.zeros((2, 3))), account)


@pytest.mark.parametrize(
    ("code", "budget", "data", "error", "text"),
    [
        (_Spy(lambda x: None), PureDP(1.0), np.zeros(3), ValueError, "_Spy.one returned None"),
        (_Spy(lambda x: x[:1]), PureDP(1.0), np.zeros(3), ValueError, "returned shapes"),
        (_Spy(lambda x: 1 / 0), PureDP(1.0), np.zeros(3), ZeroDivisionError, "division"),
        (_Spy(), None, np.zeros(3), ValueError, "cannot honour a budget of notion 'none'"),
        (_Scalars(), PureDP(1.0), np.zeros((3, 1)), ValueError, "takes scalar records"),
    ],
)
def test_what_outside_code_may_not(
    code: Estimator, budget: Budget | None, data: Floats, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        once(code, data, budget)


class _Watched(OneRecord):
    """Keep all that `report` gets, and ask in two rounds."""

    def rounds(self, n: int, budget: Budget) -> list[int]:
        return [1, n - 1]

    def report(self, x: Floats, found: Sequence[Floats], budget: Budget, rng: Any) -> Floats:
        SEEN.append((x, len(found)))
        return x + (100 * found[0] if found else 0)

    def combine(self, reports: Floats, found: Sequence[Floats], budget: Budget) -> Floats:
        return np.asarray(reports.sum(axis=1))


SEEN: list[tuple[Floats, int]] = []


def test_a_report_sees_one_record_of_each_dataset() -> None:
    """In their order, with what earlier rounds found, and no way to the other records."""
    SEEN.clear()
    records = np.array([[1.0, 2, 3], [4, 5, 6]])
    value, watched = _Watched().transcript(records, PureDP(1.0), np.random.default_rng(0), 2)
    assert [(x.tolist(), step) for x, step in SEEN] == [([1, 4], 0), ([2, 5], 1), ([3, 6], 1)]
    assert all(x.base is None for x, _ in SEEN)
    assert watched.tolist() == [103, 406]
    assert value.tolist() == [205, 811]
    ledger = Ledger(PureDP(1.0), np.random.default_rng(0))
    assert _Watched().run(DenseSample(records[:, :1]), ledger).value.tolist() == [0, 0]
    assert ledger.spent == (1.0,)
