"""What an estimator may return, and one line on what it may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench.estimators import Estimate
from dpbench.estimators.base import Estimator
from dpbench.privacy import Ledger, PureDP
from dpbench.samples import DenseSample, Sample

ARRAY = np.zeros(2)


class _Returns(Estimator):
    def __init__(self, what: Any) -> None:
        self.what = what

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        found: Estimate = self.what
        return found


def run(what: Any) -> Estimate:
    sample = DenseSample(np.zeros((2, 5)))
    return _Returns(what).run(sample, Ledger(PureDP(1.0), np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (ARRAY, "an ndarray"),
        (0.5, "a float"),
        (np.float64(0.5), "a float64"),
        ((ARRAY, ARRAY), "a tuple"),
        (1, "an int"),
        (None, "a NoneType"),
    ],
)
def test_no_estimate(what: Any, text: str) -> None:
    line = f"_Returns.estimate returned {text}; write: return Estimate(value, before_noise)"
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the whole text is compared
        run(what)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("value", "before", "text"),
    [
        ([0.0, 0.0], ARRAY, "an Estimate of list and ndarray; give two arrays"),
        (ARRAY, 0.0, "an Estimate of ndarray and float; give two arrays"),
        (np.zeros(3), ARRAY, r"shapes \(3,\) and \(2,\) for means of shape \(2,\)"),
        (ARRAY, np.zeros((2, 1)), r"shapes \(2,\) and \(2, 1\) for means of shape \(2,\)"),
    ],
)
def test_an_estimate_of_something_else(value: Any, before: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run(Estimate(value, before))


def test_an_estimate_of_the_means_shape_is_handed_on() -> None:
    found = Estimate(ARRAY, ARRAY)
    assert run(found) is found
