"""Rotations keep norms, go back, and spread a vector."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import hadamard

from dpbench.privacy.rotation import Rotation, walsh_hadamard
from tests.support import rng


@pytest.mark.parametrize("d", [1, 2, 8, 32, 128])
def test_the_transform_is_that_of_the_matrix(d: int) -> None:
    x = rng().standard_normal((2, 3, d))
    np.testing.assert_allclose(walsh_hadamard(x), x @ hadamard(d) / np.sqrt(d), atol=1e-13)


@pytest.mark.parametrize("d", [1, 5, 16])
def test_a_rotation_keeps_norms_and_goes_back(d: int) -> None:
    rotation = Rotation.drawn(rng(), 4, d)
    x = rng(1).standard_normal((4, 7, d))
    there = rotation.there(x)
    assert there.shape[2] == {1: 1, 5: 8, 16: 16}[d]
    np.testing.assert_allclose(there @ there.transpose(0, 2, 1), x @ x.transpose(0, 2, 1))
    np.testing.assert_allclose(rotation.back(there[:, 2], d), x[:, 2])


def test_a_rotation_spreads_a_vector() -> None:
    """Each coordinate of a rotated unit vector is near N(0, 1/D); unrotated ones are 0 or 1."""
    axis = np.zeros((4000, 1, 64))
    axis[:, :, 5] = 8.0
    turned = Rotation.drawn(rng(), 4000, 64).there(axis)
    for j in (0, 17):  # by 2 exp(-2 n x^2) a false alarm has 1e-13 at 0.06, and 0.01 is no normal
        assert stats.kstest(turned[:, 0, j], "norm").statistic < 0.07
