"""Code that takes one dataset at a time."""

from __future__ import annotations

import doctest
from typing import Any, ClassVar

import numpy as np
import pytest

from dpbench.arrays import Floats
from dpbench.estimators import Estimator, OneDataset, outside, release
from dpbench.privacy import ZCDP, Budget, Ledger, NonPrivate, OverdraftError, PureDP
from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample


class _Spy(OneDataset):
    """Returns what it is told to; keeps what it was given."""

    multivariate: ClassVar[bool] = True

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.seen: list[tuple[Floats, Budget, float]] = []

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float | Floats:
        self.seen.append((x.copy(), budget, float(rng.random())))
        x.fill(np.nan)  # as careless code may
        found: float | Floats = self.answer(self.seen[-1][0])
        return found


def mean(x: Floats) -> Any:
    return x.mean(axis=0)


def ledger(budget: Budget | None = None, seed: int = 0) -> Ledger:
    return Ledger(budget or PureDP(1.0), np.random.default_rng(seed))


def samples() -> list[Sample]:
    rng = np.random.default_rng(1)
    return [
        DenseSample(rng.normal(size=(3, 5))),
        DenseSample(np.broadcast_to(rng.normal(size=5), (3, 5))),
        DenseSample(rng.normal(size=(3, 5, 2))),
        DenseSample(rng.normal(size=(3, 5, 1))),
        CountedSample([-1.0, 0.0, 2.5], [[1, 3, 1], [0, 0, 5], [2, 1, 2]]),
        SparseSample(rng.normal(size=(6, 2)), np.array([1, 0, 5]), 5),
    ]


@pytest.mark.parametrize("sample", samples(), ids=lambda s: f"{type(s).__name__}{s.mean().shape}")
def test_every_trial_gets_its_records(sample: Sample) -> None:
    before = sample.mean().copy()
    spy, account = _Spy(mean), ledger()
    found = spy.run(sample, account)
    assert [x.shape for x, *_ in spy.seen] == [(5, *before.shape[1:])] * 3
    np.testing.assert_allclose(found.value, before, rtol=1e-12, atol=1e-15)
    assert np.isnan(found.before_noise).all()
    assert account.spent == (1.0,)
    assert {budget for _, budget, _ in spy.seen} == {PureDP(1.0)}
    again = _Spy(mean)
    again.run(sample, ledger())  # the sample is as it was, whatever was done to the records
    for (x, _, draw), (y, _, other) in zip(spy.seen, again.seen, strict=True):
        np.testing.assert_array_equal(x, y)
        assert draw == other
    assert len({draw for *_, draw in spy.seen}) == 3  # a stream for each trial
    other_seed = _Spy(mean)
    other_seed.run(sample, ledger(seed=1))
    assert not {draw for *_, draw in spy.seen} & {draw for *_, draw in other_seed.seen}


def test_dense_records_come_in_their_order() -> None:
    values = np.random.default_rng(2).normal(size=(2, 4, 3))
    spy = _Spy(mean)
    spy.run(DenseSample(values), ledger())
    np.testing.assert_array_equal([x for x, *_ in spy.seen], values)


def test_receipt_names_the_code() -> None:
    account = ledger()
    _Spy(mean).run(DenseSample(np.zeros((2, 3))), account)
    assert account.receipt().startswith("pure epsilon 1: _Spy, which draws its own noise\n")
    with pytest.raises(OverdraftError):
        _Spy(mean).run(DenseSample(np.zeros((2, 3))), account)


def test_what_it_honours() -> None:
    spy = _Spy(mean)
    with pytest.raises(ValueError, match="cannot honour a budget of notion 'zcdp'"):
        spy.run(DenseSample(np.zeros((2, 3))), ledger(ZCDP(1.0)))
    assert not spy.seen

    class _Free(_Spy):
        notions: ClassVar[tuple[type[Budget], ...]] = (NonPrivate,)

    found = _Free(mean).run(DenseSample(np.ones((2, 3))), ledger(NonPrivate()))
    np.testing.assert_array_equal(found.value, 1.0)


def test_scalars_only_by_default() -> None:
    class _Scalars(OneDataset):
        def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
            return 0.0

    with pytest.raises(ValueError, match="takes scalar records"):
        _Scalars().run(DenseSample(np.zeros((2, 3, 1))), ledger())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda x: None, "_Spy.one returned None"),
        (lambda x: x[:1], r"returned shapes \(2, 1\) and \(2, 1\) for means of shape \(2,\)"),
    ],
)
def test_answers_that_are_no_number(answer: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        _Spy(answer).run(DenseSample(np.zeros((2, 3))), ledger())


def test_what_the_code_raises_is_let_through() -> None:
    with pytest.raises(ZeroDivisionError):
        _Spy(lambda x: 1 / 0).run(DenseSample(np.zeros((2, 3))), ledger())


def test_repeated_releases_by_the_front_door() -> None:
    class _Noisy(OneDataset):
        def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
            assert isinstance(budget, PureDP)
            return float(x.mean() + rng.laplace(0, 1 / budget.epsilon))

    data, rng = np.arange(4.0), np.random.default_rng(3)
    found = release(_Noisy(), data, PureDP(1.0), rng=rng, repeats=5)
    assert isinstance(found, np.ndarray)
    assert len(set(found)) == 5
    assert isinstance(release(_Noisy(), data, PureDP(1.0), rng=rng), float)


def test_the_base_is_no_kind_and_its_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "one_dataset" not in Estimator.kinds()
    assert Estimator.seeded
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))  # the example enters it
    result = doctest.testmod(outside)
    assert result.attempted >= 5
    assert result.failed == 0
