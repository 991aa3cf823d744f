"""Mistakes that the check of an estimator finds, and requirements of the check."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpbench import testing
from dpbench.estimators import ClippedMean, EmpiricalMean, Estimate, Estimator, KarwaVadhanMean
from dpbench.privacy import ApproxDP, Ledger, PureDP
from dpbench.privacy.histogram import private_mode_bin
from dpbench.samples import Bins, DenseSample, Sample
from dpbench.testing import check_estimator
from tests.support import Floats


def test_the_example_of_the_check_runs() -> None:
    assert doctest.testmod(testing) == (0, 5)


# Estimators that are wrong in one way each: what is said of each is what the check must find.

Released = Callable[[Sample, Ledger], Estimate]


class _Wrong(Estimator):
    """Estimate of numbers in [0, 1] by any function of a sample and a ledger."""

    def __init__(self, how: Released, **attributes: Any) -> None:
        self.how = how
        vars(self).update(attributes)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return self.how(sample, ledger)


def noisy(clean: Floats, ledger: Ledger, sensitivity: Any, l1: Any = None) -> Estimate:
    return Estimate(ledger.add_noise(clean, sensitivity, l1=l1), clean)


def clipped(sample: Sample) -> Floats:
    return sample.clipped_mean(0.0, 1.0)


def right(sample: Sample, ledger: Ledger) -> Estimate:
    return noisy(clipped(sample), ledger, 1.0 / sample.n)


def halved_in_the_ball(sample: Sample, ledger: Ledger) -> Estimate:
    clean = clipped(sample)
    noise = ledger.add_l2_noise(clean.reshape(sample.trials, -1), 0.4 / sample.n)
    return Estimate(noise.reshape(clean.shape), clean)


def halved_scores(sample: Sample, ledger: Ledger) -> Estimate:
    above = sample.count(0.5, np.inf)
    scores = np.stack([sample.n - above, above], axis=1)
    return Estimate(ledger.exponential(scores, 0.5).astype(float), above / sample.n)


def second_step_halved(sample: Sample, ledger: Ledger) -> Estimate:
    """Clip around a private bin; only the second step has a wrong sensitivity."""
    coarse, fine = ledger.split(0.5, 0.5)
    left = private_mode_bin(sample, Bins(4.0, -8.0, 8.0), coarse)
    return noisy(sample.clipped_mean(left - 1.0, left + 5.0), fine, 3.0 / sample.n)


def scale_from_the_data(sample: Sample, ledger: Ledger) -> Estimate:
    widest = np.maximum(abs(sample.quantile(1.0)), abs(sample.quantile(1e-9)))
    return noisy(sample.mean(), ledger, 2 * widest / sample.n)


def no_noise(sample: Sample, ledger: Ledger) -> Estimate:
    found = right(sample, ledger)
    return Estimate(found.before_noise, found.before_noise)


def overdraws(sample: Sample, ledger: Ledger) -> Estimate:
    right(sample, ledger)
    return right(sample, ledger)


def writes_to_the_caller(sample: Sample, ledger: Ledger) -> Estimate:
    assert isinstance(sample, DenseSample)
    owner = sample.values.base
    if owner is not None and owner.flags.writeable:
        owner[...] = np.clip(owner, 0.0, 1.0)
    return right(sample, ledger)


def own_randomness(sample: Sample, ledger: Ledger) -> Estimate:
    found = right(sample, ledger)
    own = np.random.default_rng().normal(size=sample.trials)
    return Estimate(found.value + own, found.before_noise)


def failure_is_zero(sample: Sample, ledger: Ledger) -> Estimate:
    found = KarwaVadhanMean(radius=None, sigma=1).estimate(sample, ledger)
    return Estimate(np.nan_to_num(found.value), found.before_noise)


def infinite(sample: Sample, ledger: Ledger) -> Estimate:
    found = right(sample, ledger)
    lost = np.abs(sample.mean()) > 1e200
    return Estimate(np.where(lost, np.inf, found.value), found.before_noise)


def raises_on_the_data(sample: Sample, ledger: Ledger) -> Estimate:
    if np.any(sample.mean() > 1e100):
        raise ArithmeticError("too far")
    return right(sample, ledger)


def one_shape(sample: Sample, ledger: Ledger) -> Estimate:
    found = noisy(clipped(sample), ledger, sample.d**0.5 / sample.n)
    return Estimate(found.value[:, :1] if sample.d > 1 else found.value, found.before_noise)


class _TakesEverything(_Wrong):
    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        return self.estimate(sample, ledger)


class _SpendsAndRefuses(_Wrong):
    def run(self, sample: Sample, ledger: Ledger) -> Estimate:
        if not self.supports(ledger.budget):
            ledger.pay()
        return super().run(sample, ledger)


def lowered(share: float, **attributes: Any) -> Estimator:
    """Return a mean with noise for this share of the l2 and of the l1 sensitivity."""
    return _Wrong(
        lambda s, a: noisy(clipped(s), a, share * s.d**0.5 / s.n, share * s.d**0.5 / s.n),
        **attributes,
    )


PURE = (PureDP,)
WRONG: list[tuple[Estimator, str]] = [
    (lowered(0.5), r"moves add_noise by 0\.0166667, above its l2 sensitivity 0\.00833"),
    (lowered(1.0, multivariate=True), "on vectors: .*above its l1 sensitivity"),
    (
        _Wrong(halved_in_the_ball, notions=PURE, multivariate=True),
        "moves add_l2_noise by .*above",
    ),
    (_Wrong(halved_scores), "moves exponential by 1, above its max sensitivity 0.5"),
    (_Wrong(second_step_halved), "moves add_noise by 0.1, above its l2 sensitivity 0.05"),
    (_Wrong(lambda s, a: noisy(s.mean(), a, 1.0 / s.n)), "moves add_noise by .*, above its l2"),
    (_Wrong(scale_from_the_data), "the sensitivity of add_noise depends on record 0"),
    (_Wrong(no_noise), "there is no noise"),
    (_Wrong(lambda s, a: right(s, a.split(0.9)[0])), r"spends \(0.9,\) of a budget of \(1.0,\)"),
    (_Wrong(overdraws), "a run raised OverdraftError: PureDP.*exceeds what is left"),
    (_Wrong(writes_to_the_caller), "the caller's array is written to"),
    (
        _Wrong(lambda s, a: noisy(np.full(s.trials, clipped(s).mean()), a, 1 / s.n)),
        "the records of one trial change the value of another",
    ),
    (
        _Wrong(lambda s, a: noisy(clipped(s) / s.trials, a, 1.0 / s.n)),
        "a trial has another value in a batch than alone",
    ),
    (_Wrong(own_randomness), "equal seeds give other bits"),
    (_Wrong(failure_is_zero, notions=(ApproxDP,)), "released where the value before noise is NaN"),
    (_Wrong(infinite), "an estimate from far records is infinite"),
    (_Wrong(raises_on_the_data), "a run raised ArithmeticError: too far"),
    (_Wrong(one_shape, multivariate=True), "a run raised ValueError: _Wrong returned shapes"),
    (_TakesEverything(right, notions=PURE), "under none on numbers: .* is not refused"),
    (_SpendsAndRefuses(right, notions=PURE), "under zcdp on numbers: spends before it refuses"),
]


@pytest.mark.parametrize(
    ("wrong", "said"), WRONG, ids=lambda v: v[:40] if isinstance(v, str) else ""
)
def test_errors_are_found(wrong: Estimator, said: str) -> None:
    with pytest.raises(AssertionError, match=said) as caught:
        check_estimator(wrong)
    assert str(caught.value).startswith(f"{type(wrong).__name__} under ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("how", "said"), [("translation", "move"), ("scale", "grow")])
def test_claims_that_are_not_kept_are_found(how: str, said: str) -> None:
    check_estimator(_Wrong(right))
    claims: dict[str, Any] = {how: True}
    with pytest.raises(AssertionError, match=f"the estimate does not {said} with the records"):
        check_estimator(ClippedMean(lower=-1.0, upper=1.0), **claims)


def test_no_notion_is_an_error() -> None:
    with pytest.raises(AssertionError, match="EmpiricalMean honours none of the notions"):
        check_estimator(EmpiricalMean(), budgets=[PureDP(1.0)])
