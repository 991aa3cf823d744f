"""Rotations keep norms, have inverses, and spread a vector."""

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
    rotation = Rotation.draw_rotation(rng(), 4, d)
    x = rng(1).standard_normal((4, 7, d))
    there = rotation.apply_to(x)
    assert there.shape[2] == {1: 1, 5: 8, 16: 16}[d]
    np.testing.assert_allclose(there @ there.transpose(0, 2, 1), x @ x.transpose(0, 2, 1))
    np.testing.assert_allclose(rotation.invert(there[:, 2], d), x[:, 2])


def test_a_rotation_spreads_a_vector() -> None:
    """Check that coordinates of a rotated axis are near N(0, 1/D); before they are 0 or 1."""
    axis = np.zeros((4000, 1, 64))
    axis[:, :, 5] = 8.0
    turned = Rotation.draw_rotation(rng(), 4000, 64).apply_to(axis)
    for j in (0, 17):  # a false alarm has 2 exp(-2 n x^2) = 1e-13 at x = 0.06
        assert stats.kstest(turned[:, 0, j], "norm").statistic < 0.07
