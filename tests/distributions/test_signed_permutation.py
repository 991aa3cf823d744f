"""Distributions of vectors that are moved by an isometry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench.distributions import (
    Distribution,
    MultivariateGaussian,
    SignedPermutation,
    SignedTwoPoint,
)
from dpbench.registry import ConfigError
from tests.support import rng

MOVE: dict[str, Any] = {"shift": (10.0, 20.0, 30.0), "signs": (1, -1, 1), "order": (2, 0, 1)}


@pytest.mark.parametrize(
    "law", [MultivariateGaussian(d=3, norm=2.0), SignedTwoPoint(d=3, k=2, p=0.1)]
)
def test_records_are_those_of_the_law_moved_one_by_one(law: Distribution) -> None:
    """Compare with a naive loop over records and coordinates."""
    moved = SignedPermutation(of=law, **MOVE).sample(rng(3), 2, 20)
    generator = rng(3)
    still = law.sample(generator, 2, 20)
    records = [still.records(trial, generator) for trial in range(2)]
    for trial in range(2):
        for record, other in zip(moved.records(trial, rng(0)), records[trial], strict=True):
            for j in range(3):
                expected = MOVE["shift"][j] + MOVE["signs"][j] * other[MOVE["order"][j]]
                assert record[j] == pytest.approx(expected, rel=1e-15)


def test_what_a_rigid_body_keeps() -> None:
    """Compare with the covariance of 200,000 records, with 1e-6 quantiles of 0.05."""
    matrix = [[1.0, 0.5, 0.0], [0.5, 2.0, 0.3], [0.0, 0.3, 1.0]]
    law = MultivariateGaussian(d=3, matrix=matrix)
    moved = SignedPermutation(of=law, **MOVE)
    assert moved.variance == law.variance
    assert moved.moment(3) == law.moment(3)
    assert np.array_equal(moved.mean, MOVE["shift"])
    (records,) = moved.sample(rng(4), 1, 200_000).values
    assert np.allclose(np.cov(records, rowvar=False), moved.covariance, atol=0.05)
    assert not np.allclose(moved.covariance, law.covariance, atol=0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shift": (1.0,)}, "shift must have 3 numbers"),
        ({"order": (0, 0, 1)}, "order must be a permutation of 0, ..., 2"),
        ({"signs": (1, 0, 1)}, "signs"),
        ({"of": {"kind": "gaussian"}}, "give a law of vectors"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    given = {"of": {"kind": "multivariate_gaussian", "d": 3}, **MOVE, **change}
    with pytest.raises(ConfigError, match=message):
        Distribution.build({"kind": "signed_permutation", **given}, "here")
