"""Half of the additive noise, and nothing else."""

from __future__ import annotations

import numpy as np

from dpbench.audit.blind import trace_steps
from dpbench.audit.half_additive import HalfAdditive
from dpbench.estimators import ClippedMean, InverseSensitivity, SmoothSensitivityTrimmedMean
from dpbench.privacy import ApproxDP, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.samples import DenseSample

APPROX = ApproxDP(1.0, 1e-6)
CLIPPED = ClippedMean(lower=-1, upper=1)
PAIR = Pair.replacing("ends", np.zeros(20), 0, 5.0)


def test_half_of_the_additive_noise_alone() -> None:
    """Of one stream: noise of a clipped mean is halved, the choice of a median is not."""
    median = InverseSensitivity(lower=-1, upper=1, statistic="median", resolution=0.01)
    smooth = SmoothSensitivityTrimmedMean(
        lower=-1, upper=1, trimmed_records=2, smoothness_share=0.05
    )
    spread = np.broadcast_to(np.linspace(-0.9, 0.9, 20), (9, 20))  # a mean of 0, choices of 20
    for estimator, factor in ((CLIPPED, 0.5), (smooth, 0.5), (median, 1.0)):
        usual, half = (
            one.run(DenseSample(spread), Ledger(APPROX, np.random.default_rng(0)))
            for one in (estimator, HalfAdditive(estimator))
        )
        np.testing.assert_allclose(half.value, factor * usual.value, atol=1e-12)
        steps = trace_steps(estimator, APPROX, PAIR, np.random.default_rng(0))
        assert [one.additive for one in steps] == [factor < 1]
    assert HalfAdditive(CLIPPED).estimand == CLIPPED.estimand
