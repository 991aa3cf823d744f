"""What `release` promises its caller, and what an estimator, or outside code, may return."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dpbench import Estimator, OneDataset, PureDP, release
from dpbench.estimators import ClippedMean, EmpiricalMean, Estimate, TrimmedMean, base, outside
from dpbench.privacy import Budget, Ledger, NonPrivate, OverdraftError
from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from tests.support import Floats, rng

CLIPPED = ClippedMean(lower=0.0, upper=10.0)
DATA = np.random.default_rng(0).gamma(2.0, 2.0, 100)


def once(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    repeats: int | None = None,
    seed: int = 1,
) -> float | Floats:
    return release(estimator, data, budget, rng=rng(seed), repeats=repeats)


def test_scalars_give_a_float_and_repeats_come_first() -> None:
    assert type(once(CLIPPED, DATA, PureDP(1.0))) is float
    assert type(once(CLIPPED, [5], PureDP(1.0))) is float
    small = np.array([1, 2, 3], dtype=np.uint8)
    assert once(CLIPPED, small, PureDP(1e6)) == pytest.approx(2.0, abs=1e-3)
    assert np.shape(once(_Scalars(), DATA, PureDP(1.0), repeats=5)) == (5,)
    for shape in ((20,), (20, 1), (20, 3)):
        for repeats in (1, 7):
            value = once(CLIPPED, np.ones(shape), PureDP(1.0), repeats)
            assert np.shape(value) == (repeats, *shape[1:])
            assert np.unique(value).size == np.size(value)
    with pytest.raises(ValueError, match=r"repeats|negative"):
        once(CLIPPED, DATA, PureDP(1.0), 0)


def test_no_budget_for_an_estimator_without_privacy() -> None:
    for budget in (None, NonPrivate()):
        assert once(EmpiricalMean(), [1, 2, 3, 1, 8], budget) == pytest.approx(3.0)
        assert once(TrimmedMean(fraction=0.2), [1, 2, 3, 1, 8], budget) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="ClippedMean cannot honour a budget of notion 'none'"):
        once(CLIPPED, DATA, None)
    with pytest.raises(ValueError, match="EmpiricalMean cannot honour a budget of notion 'pure'"):
        once(EmpiricalMean(), DATA, PureDP(1.0))


def test_the_stream_moves_on() -> None:
    first, again, other = (once(CLIPPED, DATA, PureDP(1.0), seed=s) for s in (1, 1, 2))
    assert first == again != other
    stream = rng(1)
    one, two = (release(CLIPPED, DATA, PureDP(1.0), rng=stream) for _ in range(2))
    assert one == first != two


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1.0, np.nan, 2.0], "1 of 3"),
        ([np.inf, -np.inf, 2.0], "2 of 3"),
        ([[1.0, np.nan], [np.nan, 2.0]], "2 of 4"),
        ([], "non-empty"),
        (np.zeros((3, 0)), "non-empty"),
        (3.0, r"shape \(n,\) or \(n, d\)"),
        (np.zeros((2, 2, 2)), r"shape \(n,\) or \(n, d\)"),
    ],
)
@pytest.mark.parametrize("repeats", [None, 5])
def test_other_data_are_refused(data: ArrayLike, text: str, repeats: int | None) -> None:
    with pytest.raises(ValueError, match=text):
        once(CLIPPED, data, PureDP(1.0), repeats)


def test_a_number_is_no_budget() -> None:
    with pytest.raises(TypeError, match=r"the budget is 1\.0; give one such as PureDP"):
        once(CLIPPED, DATA, 1.0)  # type: ignore[arg-type]


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(
        TypeError, match=r"^rng is 0; give a generator: np\.random\.default_rng\(0\)$"
    ):
        release(CLIPPED, DATA, PureDP(1.0), rng=0)  # type: ignore[arg-type]


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))  # one enters it
    for module, least in ((base, 4), (outside, 5)):
        result = doctest.testmod(module)
        assert result.attempted >= least
        assert result.failed == 0
    assert "one_dataset" not in Estimator.kinds()


# What an estimator may return, and one line on what it may not.

ARRAY = np.zeros(2)


class _Returns(Estimator):
    def __init__(self, what: Any) -> None:
        self.what = what

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found: Estimate = self.what
        return found


HINT = "; write: return Estimate(value, before_noise)"
ANSWERS: list[tuple[Any, str]] = [
    (ARRAY, f"_Returns.estimate returned an ndarray{HINT}"),
    (1, f"_Returns.estimate returned an int{HINT}"),
    (None, f"_Returns.estimate returned a NoneType{HINT}"),
    (
        Estimate([0.0, 0.0], ARRAY),  # type: ignore[arg-type]
        "_Returns.estimate returned an Estimate of list and ndarray; give two arrays",
    ),
    (
        Estimate(ARRAY, np.zeros((2, 1))),
        "_Returns returned shapes (2,) and (2, 1) for means of shape (2,)",
    ),
    (
        Estimate(ARRAY, ARRAY),
        "_Returns spends nothing of PureDP(epsilon=1.0, noise_by='laplace', neighbours='replace'): "
        "what it releases is not private; draw its noise by the ledger, or pay for it by "
        "ledger.pay()",
    ),
]


@pytest.mark.parametrize(("what", "text"), ANSWERS, ids=range(len(ANSWERS)))
def test_what_is_no_estimate(what: Any, text: str) -> None:
    sample = DenseSample(np.zeros((2, 5)))
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the whole text is compared
        _Returns(what).run(sample, Ledger(PureDP(1.0), rng()))
    assert str(caught.value) == text


# Code that takes one dataset at a time.


class _Spy(OneDataset):
    """Returns what it is told to; keeps what it was given."""

    multivariate: ClassVar[bool] = True

    def __init__(self, answer: Callable[[Floats], Any] = lambda x: x.mean(axis=0)) -> None:
        self.answer = answer
        self.seen: list[tuple[Floats, Budget, float]] = []

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float | Floats:
        self.seen.append((x.copy(), budget, float(rng.random())))
        x.fill(np.nan)  # as careless code may
        found: float | Floats = self.answer(self.seen[-1][0])
        return found


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
    spy, again, other = _Spy(), _Spy(), _Spy()
    account = Ledger(PureDP(1.0), rng(0))
    found = spy.run(sample, account)
    assert [x.shape for x, *_ in spy.seen] == [(5, *before.shape[1:])] * 3
    np.testing.assert_allclose(found.value, before, rtol=1e-12, atol=1e-15)
    assert np.isnan(found.before_noise).all()
    assert {budget for _, budget, _ in spy.seen} == {PureDP(1.0)}
    if isinstance(sample, DenseSample):  # in their order
        np.testing.assert_array_equal([x for x, *_ in spy.seen], sample.values)
    again.run(sample, Ledger(PureDP(1.0), rng(0)))  # the sample is as it was
    other.run(sample, Ledger(PureDP(1.0), rng(1)))
    for (x, _, draw), (y, _, same) in zip(spy.seen, again.seen, strict=True):
        np.testing.assert_array_equal(x, y)
        assert draw == same
    # A stream for each trial.
    assert len({draw for *_, draw in spy.seen + other.seen}) == 6


def test_receipt_names_the_code() -> None:
    account = Ledger(PureDP(1.0), rng())
    _Spy().run(DenseSample(np.zeros((2, 3))), account)
    assert account.spent == (1.0,)
    assert account.receipt().startswith("pure epsilon 1: _Spy, which draws its own noise\n")
    with pytest.raises(OverdraftError):
        _Spy().run(DenseSample(np.zeros((2, 3))), account)


class _Scalars(OneDataset):
    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float:
        assert isinstance(budget, PureDP)
        return float(x.mean() + rng.laplace(0, 1 / budget.epsilon))


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
