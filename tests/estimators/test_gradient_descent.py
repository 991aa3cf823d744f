"""The mean by gradient descent: kinds of data, and the place that it tends to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpbench.analysis.study import gathered
from dpbench.distributions import ContaminatedGaussian
from dpbench.estimators import GradientDescentMean
from dpbench.jobs.composition import composed
from dpbench.privacy import ZCDP, Ledger
from dpbench.samples import CountedSample
from tests.support import rng, run

RHO = ZCDP(0.5)


def test_counted_and_dense_data_agree() -> None:
    counts, values = np.array([[5, 9, 2]]), np.array([-1.0, 0.5, 7.0])
    one = run(GradientDescentMean(clip=2), CountedSample(values, counts), RHO).value
    other = run(GradientDescentMean(clip=2), np.repeat(values, counts[0])[None], RHO).value
    np.testing.assert_allclose(one, other, rtol=1e-12)


def psi(at: float, clip: float, power: int, eta: float) -> float:
    """E of a power of a clipped gradient, of (1 - eta) N(0, 1) and a share eta far above."""
    near = integrate.quad(
        lambda z: np.clip(z - at, -clip, clip) ** power * stats.norm.pdf(z),
        -12, 12, points=[at - clip, at + clip],
    )[0]  # fmt: skip
    return float((1 - eta) * near + eta * clip**power)


def test_the_bias_is_that_of_hubers_location() -> None:
    eta, clip, n = 0.1, 2.0, 30_000
    at = float(optimize.brentq(psi, 0, clip, args=(clip, 1, eta)))
    law = ContaminatedGaussian(eta=eta, gap=1e3)
    found = run(GradientDescentMean(clip=clip, steps=20), law.sample(rng(), 40, n), RHO).value
    inside = (1 - eta) * float(np.diff(stats.norm.cdf([at - clip, at + clip]))[0])
    sd = math.sqrt(psi(at, clip, 2, eta) / n) / inside
    assert abs(found.mean() - at) < 5 * sd / math.sqrt(40) + 0.002  # and what 20 steps leave
    law_of_error = stats.norm(at, sd)
    quantile = optimize.brentq(lambda x: law_of_error.cdf(x) - law_of_error.cdf(-x) - 0.9, 0, 2)
    claims = gathered(composed(["sweep=lecture17"])["sweep"], "claims")
    assert claims["huber_bias"]["exact"] == pytest.approx(quantile, rel=1e-4)


def test_the_value_before_noise_is_the_average_of_clean_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where every noise is 1: by weights t, of points that each begin where noise has led to."""

    def one_more(self: Ledger, values: Any, *_: Any, **__: Any) -> Any:
        self.pay()
        return values + 1

    monkeypatch.setattr(Ledger, "add_noise", one_more)
    x = np.array([[-1.0, 0.5, 7.0]])
    found = run(GradientDescentMean(clip=2.0, steps=3), x, RHO)
    theta, points = 0.0, list[float]()
    for t in (1, 2, 3):
        points.append(float(np.clip(x, theta - 2, theta + 2).mean()))
        theta += 2 / (t + 1) * (points[-1] + 1 - theta)
    assert found.before_noise == pytest.approx([np.average(points, weights=[1, 2, 3])])
    assert found.value == pytest.approx([theta])
