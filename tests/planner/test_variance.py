"""Errors of private variances: against simulation, enumeration and a linear program."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import dpbench
from dpbench.distributions import Bernoulli, Beta, Distribution, LogNormal
from dpbench.estimators import BezierVariance, ClippedVariance, Estimator
from dpbench.planner import slider_page
from dpbench.planner.variance import HARDEST_COIN, BoundedVariance, KnownVariance
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact.noise import additive

SKEWED: dict[str, Any] = {"kind": "beta", "a": 2, "b": 8}


@pytest.mark.parametrize(
    ("law", "clip", "n", "amount"),
    [
        (Beta(a=2, b=8), (0.0, 1.0), 400, 0.5),
        (Beta(a=2, b=8), (0.05, 0.4), 600, 1.0),  # biased
        (LogNormal(sigma=0.7), (0.0, 8.0), 300, 2.0),  # skewed squares
        (Bernoulli(p=0.5), (0.0, 1.0), 200, 1.0),  # the square of the mean's error counts
        (Bernoulli(p=0.02), (0.0, 1.0), 200, 0.4),  # releases clipped at 0
    ],
)
def test_nine_in_ten_releases_are_within_the_quantile(
    law: Distribution, clip: tuple[float, float], n: int, amount: float
) -> None:
    """The share of 20,000 releases is .9 up to 5.7 standard errors, one in 8e7, and approximations.

    These are the first order of the noise under add/remove, which is 1/(n epsilon) of it, and the
    expectation in place of the square of the error of the mean, of order 1/n.
    """
    known, trials = KnownVariance.discretise(law), 20_000
    sample = law.sample(np.random.default_rng(7), trials, n)
    kinds: dict[Any, type[Estimator]] = {"replace": ClippedVariance, "add_remove": BezierVariance}
    budgets: list[Budget] = [PureDP(amount), ZCDP(amount / 5)]
    for (neighbours, kind), private in itertools.product(kinds.items(), budgets):
        estimator: Estimator = kind(lower=clip[0], upper=clip[1])
        budget = replace(private, neighbours=neighbours)
        released = estimator.run(sample, Ledger(budget, np.random.default_rng(8))).value
        error = known.error(clip, n, budget)
        size = np.abs(released - law.variance)
        spread = 5.7 * np.sqrt(0.09 / trials)
        first_order = 0.6 / (n * amount) if neighbours == "add_remove" else 0.0
        assert np.mean(size <= error.q90 * (1 + 1e-5)) > 0.9 - spread - first_order
        assert np.mean(size < error.q90 * (1 - 1e-5)) < 0.9 + spread + first_order
        root = known.root_q90(clip, n, budget)
        off = np.abs(np.sqrt(released) - np.sqrt(law.variance))
        assert np.mean(off <= root * (1 + 1e-5)) > 0.9 - spread - first_order
        assert np.mean(off < root * (1 - 1e-5)) < 0.9 + spread + first_order
        tiny = replace(known, values=1e-9 * known.values, target=1e-18 * known.target)
        ends = (1e-9 * clip[0], 1e-9 * clip[1])
        assert tiny.error(ends, n, budget).q90 / 1e-18 == pytest.approx(error.q90, rel=1e-4)
        assert tiny.root_q90(ends, n, budget) / 1e-9 == pytest.approx(root, rel=1e-4)
        noise = known.noise(clip, n, budget)
        assert noise is not None
        assert error.noise == pytest.approx((clip[1] - clip[0]) ** 2 * noise.isf(0.05))
        (values, weights), *_ = known._parts(clip, n, budget)
        assert weights @ values == pytest.approx(law.variance + error.bias, rel=3e-4)
        clipped = np.clip(known.values, *clip)
        variance = known.weights @ clipped**2 - (known.weights @ clipped) ** 2
        assert error.bias == pytest.approx(variance * (1 - 1 / n) - law.variance, abs=1e-9)


def test_the_variance_of_two_values_is_exact() -> None:
    """P(|V + Z - v| <= q90) over all counts of five records, with Laplace noise, is .9."""
    n, p, budget = 5, 0.3, PureDP(3.0)
    coin = KnownVariance.discretise(Bernoulli(p=p))
    q90, noise = coin.error((0.0, 1.0), n, budget).q90, additive(budget, 4 / 25, 4 / 25)
    covered = 0.0
    for records in itertools.product((0, 1), repeat=n):
        mean = sum(records) / n
        low, high = p * (1 - p) - q90, p * (1 - p) + q90
        ends = noise.cdf(np.array([high, low]) - mean * (1 - mean))
        inside = (1.0 if high >= 0.25 else ends[0]) - (0.0 if low <= 0 else ends[1])
        covered += p ** sum(records) * (1 - p) ** (n - sum(records)) * inside
    assert covered == pytest.approx(0.9, abs=1e-6)


def test_no_distribution_has_a_larger_sampling_variance_than_the_coin() -> None:
    """For each mean and variance on a grid, a linear program finds the largest fourth moment."""
    x = np.linspace(0, 1, 41)
    largest = 0.0
    for mean in np.linspace(0.05, 0.5, 10):
        d = x - mean
        for variance in np.linspace(0.05, 0.95, 19) * mean * (1 - mean):
            moments = np.stack([np.ones_like(x), d, d**2])
            found = linprog(-(d**4), A_eq=moments, b_eq=[1, 0, variance])
            largest = max(largest, -float(found.fun or 0) - variance**2)
    p = HARDEST_COIN
    assert p * (1 - p) == pytest.approx(1 / 8)
    assert (1 - 2 * p) ** 2 * p * (1 - p) == pytest.approx(1 / 16)
    assert 0.95 / 16 < largest <= 1 / 16 + 1e-9


def test_the_best_clip_of_a_grid() -> None:
    """No clip of a grid has an error below that of the best, up to 0.1%; 0.3% for other tails."""
    known, budget = KnownVariance.discretise(LogNormal(sigma=0.7), 0, 40), PureDP(0.5)
    best = known.error(known.best_clip(5000, budget), 5000, budget).q90
    low, high = known.best_clip(5000, budget)
    for a in (0.0, low / 2, 2 * low, 4 * low):  # other clips
        for b in high * np.linspace(0.8, 1.2, 9):
            assert known.error((a, float(b)), 5000, budget).q90 > 0.997 * best
    for tail in np.geomspace(1e-6, 0.3, 25):
        assert known.error(known.clip_at_tail(float(tail)), 5000, budget).q90 > 0.999 * best


def test_the_plan_of_any_law_and_its_needs() -> None:
    question: dict[str, Any] = {"target": "variance", "lower": -3, "upper": 7, "n": 800}
    made = dpbench.plan(**question, epsilon=0.5, alpha=2)
    assert made.clip == (-3, 7)
    assert made.expected.q90 == pytest.approx(
        100 * BoundedVariance.between(0, 1).error((0, 1), 800, PureDP(0.5)).q90
    )
    n = made.records(2)
    assert made.problem.error((-3, 7), n, PureDP(0.5)).q90 <= 2
    assert made.problem.error((-3, 7), n - 3, PureDP(0.5)).q90 > 1.99
    first = made.rows[0]
    assert first.estimator == "clipped_variance"
    assert first.low <= made.expected.q90 <= first.high
    assert np.isnan(made.limit[0].value)
    assert made.opendp is None
    assert "in the squared unit of the records." in str(made)
    assert f"the standard deviation, has a q90 of at most {made.expected.q90**0.5:.3g} " in str(
        made
    )
    for p in (0.0, 0.01, 0.1, 0.5):  # the class bounds the error of every root
        sample = Bernoulli(p=p).sample(np.random.default_rng(5), 20_000, 800)
        ledger = Ledger(PureDP(0.5), np.random.default_rng(6))
        off = np.abs(np.sqrt(ClippedVariance().run(sample, ledger).value) - np.sqrt(p * (1 - p)))
        share = np.mean(10 * off <= made.expected.q90**0.5)
        assert share > 0.9 - 5.7 * np.sqrt(0.09 / 20_000)


def test_the_page_has_the_error_of_a_standard_deviation() -> None:
    """Its example: the root's q90, and that of the variance over twice the standard deviation."""
    page = " ".join((Path(__file__).parents[2] / "docs/howto/plan.md").read_text("utf-8").split())
    command = re.findall(r"plan target=variance (n=\d+) (epsilon=\S+) lower=0 upper=1000", page)
    assert command == [("n=5000", "epsilon=0.5")]
    law = {"kind": "log_normal", "scale": 50, "sigma": 0.7}
    made = dpbench.plan(target="variance", n=5000, epsilon=0.5, lower=0, upper=1000, law=law)
    q90, sd = made.expected.q90, LogNormal(scale=50, sigma=0.7).variance ** 0.5
    root = re.findall(r"standard deviation, has a q90 of (\S+) \(best clip\)", str(made))
    assert f"has the q90 {root[0]} here" in page
    assert f"{q90:.0f}/(2 · {sd:.1f}) = {q90 / (2 * sd):.2f}" in page


@pytest.mark.parametrize("n", [5, 10, 50, 300])
def test_no_coin_errs_by_more_than_the_class(n: int) -> None:
    """Of 20,000 releases of each of ten coins; shares within 5.7 standard errors, one in 8e7."""
    q90, rng = (
        BoundedVariance.between(0, 1).error((0, 1), n, PureDP(1.0)).q90,
        np.random.default_rng(4),
    )
    for p in (0.01, 0.05, 0.1, HARDEST_COIN, 0.2, 0.25, 0.3, 0.35, 0.42, 0.5):
        sample = Bernoulli(p=p).sample(rng, 20_000, n)
        released = ClippedVariance().run(sample, Ledger(PureDP(1.0), rng)).value
        share = np.mean(np.abs(released - p * (1 - p)) <= q90 * (1 + 1e-6))
        assert share > 0.9 - 5.7 * np.sqrt(0.09 / 20_000), (n, p)


def test_an_error_that_two_records_reach_needs_two() -> None:
    question: dict[str, Any] = {"target": "variance", "lower": 0, "upper": 1, "n": 100}
    assert dpbench.plan(**question, epsilon=1).records(0.3) == 2
    assert dpbench.plan(**question, epsilon=1, law=SKEWED).records(0.3) == 2


def test_a_private_number_of_records_gets_the_bezier_mechanism(tmp_path: Any) -> None:
    question: dict[str, Any] = {"target": "variance", "lower": 0, "upper": 1, "n": 1000}
    budget = ApproxDP(1.0, 1e-6, neighbours="add_remove")
    made = dpbench.plan(**question, epsilon=1, delta=1e-6, neighbours="add_remove", law=SKEWED)
    assert made.budget == budget
    assert [row.estimator for row in made.rows[:2]] == ["bezier_variance", "three_sums_variance"]
    assert made.rows[0].low <= made.expected.q90 <= made.rows[0].high
    code, printed = made.code.replace("default_rng()", "default_rng(1)"), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert 0 <= float(printed.getvalue()) <= 0.25
    page = slider_page.write(made, "the printed plan", tmp_path).read_text("utf-8")
    assert "<h1>Plan of a private variance</h1>" in page
    assert "no sliders: they are for means" in page
    assert "<input" not in page
