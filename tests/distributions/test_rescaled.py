"""Numbers that are shifted and multiplied."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbench.distributions import (
    ContaminatedGaussian,
    Distribution,
    LogNormal,
    MultivariateGaussian,
    RealColumn,
    Rescaled,
    TwoPoint,
)
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample
from tests.support import rng


@pytest.mark.parametrize("factor", [-0.25, 2.0])
@pytest.mark.parametrize(
    "of", [LogNormal(sigma=0.5), RealColumn(column="wind_speed"), TwoPoint(p=0.1, k=2)]
)
def test_records_are_those_of_the_law_moved(of: Distribution, factor: float) -> None:
    law = Rescaled(of=of, location=3.0, factor=factor)
    still, moved = (one.sample(rng(1), 3, 200) for one in (of, law))
    assert type(still) is type(moved)
    assert isinstance(moved, CountedSample | DenseSample)
    wanted = np.sort(3 + factor * (still.records(1, rng()) - of.mean))
    np.testing.assert_allclose(np.sort(moved.records(1, rng())), wanted, atol=1e-12)
    assert law.mean == law.target == 3.0
    assert law.moment(3) == pytest.approx(abs(factor) ** 3 * of.moment(3))
    assert (law.held(1000), law.counted) == (of.held(1000), of.counted)
    assert abs(float(moved.mean().mean()) - 3.0) < 6 * math.sqrt(law.variance / 600)


def test_the_records_of_large_datasets_are_held() -> None:
    of, n = LogNormal(sigma=0.5), 400_000
    law = Rescaled(of=of, location=3.0, factor=2.0)
    sample = law.sample(rng(1), 1, n)
    assert isinstance(sample, DenseSample)
    assert sample.values.size == law.held(n) == n
    assert of.held(n) < n


@pytest.mark.parametrize(
    ("of", "factor"),
    [
        (MultivariateGaussian(d=2), 1.0),
        (ContaminatedGaussian(eta=0.1, gap=3.0), 1.0),  # its clean mean is to be estimated
        (LogNormal(), 0.0),
        (LogNormal(), math.inf),
    ],
)
def test_what_cannot_be_moved_is_refused(of: Distribution, factor: float) -> None:
    with pytest.raises(ConfigError, match=r"x\.(of|factor)"):
        Distribution.build({"kind": "rescaled", "of": of, "location": 0, "factor": factor}, "x")
