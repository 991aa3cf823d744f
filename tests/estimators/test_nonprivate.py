"""Tests of estimators without privacy, by hand."""

from __future__ import annotations

import dpbench.estimators as est
from dpbench.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from dpbench.samples import CountedSample, DenseSample
from tests.support import run

# Budgets at which choices are neither certain nor noise.
NONE, PURE, GAUSS, APPROX = NonPrivate(), PureDP(6.0), ZCDP(4.0), ApproxDP(6.0, 0.01)


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    for sample in (DenseSample([[3.0, 1.0, 2.0, 10.0]]), CountedSample([2.0, 3.0], [[2, 2]])):
        assert run(est.Median(), sample, NONE).value.tolist() == [2.5]
