"""Checks of estimates, kinds of data, and sensitivities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpbench.estimators as est
from dpbench import Estimator, PureDP
from dpbench.estimators import Estimate
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate
from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from tests.support import Floats, name, rng, run, same_law

# Results that an estimator may not return, with the message.

ARRAY = np.zeros(2)


class _Returns(Estimator):
    """An estimator that returns a given object."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        answer: Estimate = self.answer
        return answer


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


@pytest.mark.parametrize(("answer", "text"), ANSWERS, ids=range(len(ANSWERS)))
def test_what_is_no_estimate(answer: Any, text: str) -> None:
    sample = DenseSample(np.zeros((2, 5)))
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the whole text is compared
        _Returns(answer).run(sample, Ledger(PureDP(1.0), rng()))
    assert str(caught.value) == text


# Budgets at which choices are neither certain nor noise.
NONE, PURE, GAUSS, APPROX = NonPrivate(), PureDP(6.0), ZCDP(4.0), ApproxDP(6.0, 0.01)
CLIPPED = est.ClippedMean(lower=-2.0, upper=3.0)
OUTPUTS: dict[str, Any] = {"buckets": 3, "lower": -4.0, "upper": 5.0}
PAPER = est.KSU20Mean(k=2.5, scale=1, radius=1e300, constants="paper", beta=0.99)


@pytest.mark.parametrize(
    ("estimator", "budget", "fewest"),
    [
        (est.FriendlyCoreMean(radius=3.0, sigma=1), APPROX, 3),
        (est.KSU20Mean(k=2, scale=1, radius=1.5), PURE, 2),
        (PAPER, PURE, 282),
        (est.KarwaVadhanGaussian(radius=2.0), GAUSS, 2),
        (est.SubsampleAggregate(**OUTPUTS), PURE, 3),
        (est.SubsampleTest(buckets=4), PURE, 4),
    ],
    ids=name,
)
def test_too_few_records_are_refused(estimator: est.Estimator, budget: Budget, fewest: int) -> None:
    message = (
        r"cannot (be cut|fill)|one record makes no pair|pairs need at least 2|at least 3 records"
    )
    for n in {1, fewest - 1}:
        for sample in (DenseSample(np.zeros((2, n))), CountedSample([0.0, 1.0], [[0, n], [n, 0]])):
            ledger = Ledger(budget, rng())
            with pytest.raises(ValueError, match=message):
                estimator.run(sample, ledger)
            assert not any(ledger.spent)
    assert run(estimator, np.zeros((2, fewest)), budget).value.shape == (2,)


NUMBERS, SPARSE = (
    DenseSample(np.zeros((2, 50))),
    SparseSample(np.ones((2, 3)), np.array([1, 1]), 50),
)


@pytest.mark.parametrize(
    ("estimator", "sample", "text"),
    [
        (est.CoinPressCovariance(bound=4.0), NUMBERS, "vectors"),
        (est.CoinPressCovariance(bound=4.0), SPARSE, "record by record"),
        (est.WhitenedCoinPressMean(radius=3.0, bound=4.0), SPARSE, "record by record"),
        (
            est.WhitenedCoinPressMean(radius=3.0, bound=4.0),
            DenseSample([[[1.0, 2.0]]]),
            "one record",
        ),
        (est.KSU20BallMean(k=2, scale=1, radius=3.0), NUMBERS, "vectors"),
        (est.KSU20BallMean(k=2, scale=1, radius=3.0), DenseSample([[[1.0, 2.0]]]), "one record"),
    ],
    ids=name,
)
def test_data_of_another_kind_are_refused(
    estimator: est.Estimator, sample: Sample, text: str
) -> None:
    ledger = Ledger(ZCDP(0.1), rng())
    with pytest.raises(ValueError, match=text):
        estimator.run(sample, ledger)
    assert not any(ledger.spent)


@pytest.mark.parametrize(
    ("estimator", "budget"),
    [
        (est.EmpiricalMean(), NONE),
        (est.Median(), NONE),
        (est.MedianOfMeans(groups=3), NONE),
        (est.TrimmedMean(fraction=0.2), NONE),
        (est.FriendlyCoreMean(radius=3.0, sigma=1), APPROX),
        (PAPER, PURE),
        (est.KarwaVadhanGaussian(radius=1e300, sigma_low=0.5, sigma_high=2.0), GAUSS),
        (est.LocalMean(k=2, scale=1), PURE),
        (est.SubsampleAggregate(**OUTPUTS), PURE),
        (est.SubsampleAggregate(**OUTPUTS, aggregate="mean", base="median"), GAUSS),
        (est.SubsampleAggregate(**OUTPUTS, aggregate="mode", resolution=0.5), APPROX),
        (est.SubsampleTest(buckets=4, aggregate="exponential"), GAUSS),
    ],
    ids=name,
)
def test_dense_and_counted_data_agree(estimator: est.Estimator, budget: Budget) -> None:
    atoms, counts = np.array([-1.5, 0.25, 0.5, 2.0]), np.array([3, 9, 8, 5])
    counts = counts * (12 if isinstance(estimator, est.KSU20Mean) else 1)
    rows = np.tile(np.repeat(atoms, counts), (800, 1))
    # Records have an index in dense data, which counted data leave to chance.
    dense = run(estimator, rng(7).permuted(rows, axis=1), budget, seed=8).value
    ledger = Ledger(budget, rng(9))
    counted = estimator.run(CountedSample(atoms, np.tile(counts, (800, 1))), ledger)
    assert same_law(dense, counted.value)
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-9, abs=0)
    for far in (1e12, 1e300):
        sample = CountedSample([0.25, far], np.full((6, 2), counts.sum()))
        assert not np.isinf(run(estimator, sample, budget).value).any()


@pytest.mark.parametrize(
    ("estimator", "budget"),
    [
        (est.L2ClippedMean(radius=2.0), PureDP(0.5)),
        (est.CoinPressMean(radius=3.0, sigma=1), ZCDP(0.1)),
        (est.CoordinateWise(base=CLIPPED), ApproxDP(0.5, 1e-5)),
        (est.FriendlyCoreMean(radius=3.0, sigma=1), ApproxDP(9.0, 1e-2)),
    ],
    ids=name,
)
def test_sparse_rows_are_records(estimator: est.Estimator, budget: Budget) -> None:
    rows = rng(14).choice([-2.0, 0.5, 0.0, 3.0, 1e150], (44, 3))
    dense = np.zeros((3, 40, 3))
    dense[0, :4], dense[2] = rows[:4], rows[4:]
    sparse = SparseSample(rows, np.array([4, 0, 40]), 40)
    from_sparse, from_dense = (run(estimator, x, budget, seed=1) for x in (sparse, dense))
    np.testing.assert_allclose(
        from_sparse.before_noise, from_dense.before_noise, rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(from_sparse.value, from_dense.value, rtol=1e-9, atol=1e-12)


HEAVY = est.TunedClippedMean(k=3, scale=1, policy="ksu20_order", radius=1.5)
LOCAL = est.LocalMean(k=3, scale=1, radius=1.5, beta=0.01)
# Estimators with one noisy statistic, and the width of their clip for n records.
ONE_STEP: list[tuple[Any, Callable[[int, Budget], float]]] = [
    (est.BinaryMean(), lambda n, b: 1.0),
    (est.L2ClippedMean(radius=2.5), lambda n, b: 5.0),
    (CLIPPED, lambda n, b: 5.0),
    (est.CoordinateWise(base=CLIPPED), lambda n, b: 5.0),
    (
        est.NaiveGaussianMean(radius=1.5, sigma=1),
        lambda n, b: 2 * (1.5 + math.sqrt(2 * math.log(20 * n))),
    ),
    (HEAVY, lambda n, b: 2 * (1.5 + HEAVY.clipping_threshold(n, b))),
    (est.TunedClippedMean(k=4, scale=1, threshold=0.7, radius=0.2), lambda n, b: 2 * (0.2 + 0.7)),
    (LOCAL, lambda n, b: 2 * (1.5 + LOCAL.clipping_threshold(n, b))),
]


def moves(estimator: est.Estimator, budget: Budget, points: Floats, n: int) -> Floats:
    """Return the changes of the value before noise between all neighbours of n of `points`."""
    index = np.array(list(itertools.product(range(len(points)), repeat=n)))
    values = run(estimator, points[index], budget).before_noise
    left, right = np.nonzero((index[:, None] != index[None]).sum(axis=2) == 1)
    return np.asarray(values[left] - values[right])


@pytest.mark.parametrize(("estimator", "width"), ONE_STEP, ids=name)
@pytest.mark.parametrize(("budget", "n"), [(PureDP(0.5), 1), (ZCDP(0.1), 3)], ids=["1", "3"])
def test_sensitivities_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, estimator: est.Estimator, width: Any, budget: Budget, n: int
) -> None:
    """The largest change between neighbours equals the stated sensitivity."""
    stated: list[float] = []
    real = Ledger.add_noise

    def spy(self: Ledger, values: Floats, sensitivity: float, **how: Any) -> Floats:
        l1 = how.get("l1")
        # An average of `draws` releases states the sensitivity of one release, draws times larger.
        stated.extend(s / how.get("draws", 1) for s in (sensitivity, l1) if s is not None)
        return real(self, values, sensitivity, **how)

    monkeypatch.setattr(Ledger, "add_noise", spy)
    largest = np.abs(moves(estimator, budget, np.array([-1e6, -1.0, 0.0, 0.3, 1e6]), n)).max()
    assert stated == pytest.approx([largest] * len(stated), rel=1e-12, abs=0)
    assert largest == pytest.approx(width(n, budget) / n, rel=1e-12)


PRIVATE_SIZE = PureDP(1.0, neighbours="add_remove")
WIDE: dict[str, Any] = {"lower": -1e150, "upper": 1e150}
NARROW: dict[str, Any] = {"lower": 0.0, "upper": 1e-140}
EXTREME: list[tuple[Estimator, Budget]] = [
    (est.ClippedVariance(**WIDE), PureDP(1.0)),
    (est.ClippedVariance(**NARROW), PureDP(1.0)),
    (est.BezierVariance(**WIDE), PRIVATE_SIZE),
    (est.BezierVariance(**NARROW), PRIVATE_SIZE),
    (est.ThreeSumsVariance(**WIDE), PRIVATE_SIZE),
    (est.ThreeSumsVariance(**NARROW), PRIVATE_SIZE),
    (est.BergerBoosInterval(**WIDE), PureDP(1.0)),
    (est.BergerBoosInterval(**NARROW), PureDP(1.0)),
    (est.HuberInterval(scale=1e140), ZCDP(0.5)),
    (est.AdaSSP(feature_bound=1.0, response_bound=1e-300), ZCDP(0.5)),
]


@pytest.mark.parametrize(("estimator", "budget"), EXTREME, ids=name)
def test_extreme_parameters_give_finite_releases(estimator: est.Estimator, budget: Budget) -> None:
    """Squares of the widest and the narrowest bounds neither overflow nor underflow."""
    shape = (2, 7, 3) if isinstance(estimator, est.AdaSSP) else (2, 7)
    far = np.where(rng(5).random(shape) < 0.5, 1e300, -1e300)
    with np.errstate(all="raise", under="ignore"):
        released = run(estimator, far, budget)
    assert np.isfinite(released.value).all()


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (est.ClippedVariance, {"upper": 1e151}, "upper: 1e\\+151: "),
        (est.BergerBoosInterval, {"lower": 0, "upper": 1e-141}, "by 1e-140 or more"),
        (est.HuberInterval, {"scale": 1e141}, "scale: 1e\\+141: "),
    ],
)
def test_bounds_whose_squares_are_no_numbers(kind: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kind(**options)
