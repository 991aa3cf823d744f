"""The interval around Huber's location: its steps by a loop, and its spread by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpbench.distributions import Gaussian
from dpbench.estimators import GradientDescentMean, HuberInterval
from dpbench.privacy import GDP, ZCDP, ApproxDP, Ledger
from tests.support import rng, run


def test_the_steps_are_those_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every noise is one standard deviation here. Pairs of equal records have the variance 0."""
    sds = []

    def one_sd(self: Ledger, values: Any, sensitivity: Any, *_: Any, **__: Any) -> Any:
        self.pay()
        (mu,) = self.budget.amounts
        sds.append(np.max(sensitivity) / mu)
        return values + sds[-1]

    monkeypatch.setattr(Ledger, "add_noise", one_sd)
    x = np.full((1, 200), 7.0)
    estimate = run(HuberInterval(scale=2.0, beta=0.05), x, GDP(1.5))
    # n = 200: ln n = 5.298, so 5 steps, and six parts of the budget
    tau = 0.5 * 2 * np.sqrt(1.5 * 200 / np.sqrt(200 * 6.298317366548036))
    noise = 2 * tau / 200 * np.sqrt(6) / 1.5
    theta = 0.0
    for _ in range(5):
        clean = np.clip(7.0, theta - tau, theta + tau)
        theta = clean + noise
    xi = 10 * 4 * np.sqrt(200 / 5.298317366548036)
    variance = xi / 100 * np.sqrt(6) / 1.5
    assert sds == pytest.approx([noise] * 5 + [variance])
    assert estimate.value == pytest.approx([theta])
    assert estimate.before_noise == pytest.approx([clean])
    width = norm.ppf(0.975) * np.sqrt(variance / 200 + noise**2)
    assert estimate.interval is not None
    assert np.ravel(estimate.interval) == pytest.approx([theta - width, theta + width])


def test_width_and_error_are_those_of_the_last_step() -> None:
    """2000 errors, whose mean square has a relative sd of 0.032: 5 of them are exceeded in 6e-7."""
    n, mu = 10_000, 1.0
    law = Gaussian(location=0.3)
    estimator = HuberInterval(scale=1)
    estimate = run(estimator, law.sample(rng(), 2000, n), GDP(mu))
    tau = estimator.clip(n, Ledger(GDP(mu), rng()))
    assert tau > 2.5  # a hundredth of the records is clipped at most
    spread = 1 / n + (2 * tau / n) ** 2 * 10 / mu**2  # nine steps and the variance
    assert np.mean((estimate.value - 0.3) ** 2) / spread == pytest.approx(1, abs=0.16)
    assert estimate.interval is not None
    width = np.median(estimate.interval[1] - estimate.interval[0])
    assert width == pytest.approx(2 * norm.ppf(0.95) * np.sqrt(spread), rel=0.02)


@pytest.mark.parametrize("budget", [GDP(0.4), ZCDP(0.08), ApproxDP(0.4, 1e-6)])
def test_the_whole_budget_sets_the_clip(budget: Any) -> None:
    """0.08-zCDP pays for the Gaussian noise of 0.4-GDP; (0.4, 1e-6)-DP for less."""
    n, estimator = 1000, HuberInterval(scale=3, steps=1)
    reference = run(estimator, np.full((1, n), 1e6), GDP(0.4)).before_noise
    clean = run(estimator, np.full((1, n), 1e6), budget).before_noise
    assert reference == pytest.approx(1.5 * np.sqrt(0.4 * np.sqrt(n / (1 + np.log(n)))))
    if isinstance(budget, ApproxDP):
        assert clean < 0.8 * reference
    else:
        assert clean == pytest.approx(reference)


def test_an_average_over_steps_has_less_noise() -> None:
    """2000 errors with a relative sd of 0.016: the ratio of two is off by 0.12 in less than 1e-6.

    All records are 0, so that errors are noise: the last of T steps against their average.
    """
    x, steps = np.zeros((2000, 100)), 9
    one = HuberInterval(scale=1, steps=steps)
    clip = one.clip(100, Ledger(GDP(1.0), rng()))
    last = run(one, x, GDP(1.0)).value.std()
    # the interval keeps a tenth of the budget for the variance
    average = run(GradientDescentMean(clip=clip, steps=steps), x, GDP(np.sqrt(0.9))).value.std()
    expected = np.sqrt(2 * (2 * steps + 1) / (3 * (steps + 1)) / steps)
    assert average / last == pytest.approx(expected, rel=0.12)
