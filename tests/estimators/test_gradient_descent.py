"""The mean by gradient descent: kinds of data, and the limit of the iterations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpbench.distributions import ContaminatedGaussian
from dpbench.estimators import GradientDescentMean
from dpbench.jobs.composition import compose
from dpbench.privacy import ZCDP, Ledger
from dpbench.report.study import gather_entries
from dpbench.samples import CountedSample
from tests.support import rng, run

RHO = ZCDP(0.5)


def test_counted_and_dense_data_agree() -> None:
    counts, values = np.array([[5, 9, 2]]), np.array([-1.0, 0.5, 7.0])
    from_counts = run(GradientDescentMean(clip=2), CountedSample(values, counts), RHO).value
    from_records = run(GradientDescentMean(clip=2), np.repeat(values, counts[0])[None], RHO).value
    np.testing.assert_allclose(from_counts, from_records, rtol=1e-12)


def psi(theta: float, clip: float, power: int, eta: float) -> float:
    """Return the moment of a clipped gradient at theta, for N(0, 1) and a share eta far above."""
    near = integrate.quad(
        lambda z: np.clip(z - theta, -clip, clip) ** power * stats.norm.pdf(z),
        -12, 12, points=[theta - clip, theta + clip],
    )[0]  # fmt: skip
    return float((1 - eta) * near + eta * clip**power)


def test_the_bias_is_that_of_hubers_location() -> None:
    eta, clip, n = 0.1, 2.0, 30_000
    location = float(optimize.brentq(psi, 0, clip, args=(clip, 1, eta)))
    law = ContaminatedGaussian(eta=eta, gap=1e3)
    estimates = run(GradientDescentMean(clip=clip, steps=20), law.sample(rng(), 40, n), RHO).value
    inside = (1 - eta) * float(np.diff(stats.norm.cdf([location - clip, location + clip]))[0])
    sd = math.sqrt(psi(location, clip, 2, eta) / n) / inside
    assert (
        abs(estimates.mean() - location) < 5 * sd / math.sqrt(40) + 0.002
    )  # 0.002 for the steps after the 20th
    law_of_error = stats.norm(location, sd)
    quantile = optimize.brentq(lambda x: law_of_error.cdf(x) - law_of_error.cdf(-x) - 0.9, 0, 2)
    claims = gather_entries(compose(["sweep=lecture17"])["sweep"], "claims")
    assert claims["huber_bias"]["exact"] == pytest.approx(quantile, rel=1e-4)


def test_the_value_before_noise_is_the_average_of_clean_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compute the average with weights t by a loop in which every noise is 1."""

    def one_more(self: Ledger, values: Any, *_: Any, **__: Any) -> Any:
        self.pay()
        return values + 1

    monkeypatch.setattr(Ledger, "add_noise", one_more)
    x = np.array([[-1.0, 0.5, 7.0]])
    estimate = run(GradientDescentMean(clip=2.0, steps=3), x, RHO)
    theta, points = 0.0, list[float]()
    for t in (1, 2, 3):
        points.append(float(np.clip(x, theta - 2, theta + 2).mean()))
        theta += 2 / (t + 1) * (points[-1] + 1 - theta)
    assert estimate.before_noise == pytest.approx([np.average(points, weights=[1, 2, 3])])
    assert estimate.value == pytest.approx([theta])
