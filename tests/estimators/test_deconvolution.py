"""Deconvolution: the basis of natural splines, and a normal distribution behind normal noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpbench.estimators.deconvolution import _spline_basis, deconvolve


def test_natural_splines_are_linear_at_the_ends_and_have_norm_1() -> None:
    basis = _spline_basis()
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(basis, axis=0), 1)
    bends = np.diff(basis, 2, axis=0)
    assert np.abs(bends[[0, -1]]).max() < 0.02 * np.abs(bends).max()
    line = np.linspace(-1, 1, len(basis))  # splines contain all straight lines
    assert np.linalg.lstsq(basis, line, rcond=None)[1][0] < 1e-12


def test_deconvolution_takes_the_noise_off() -> None:
    """N(0, 4) behind N(0, 1): quantiles are -+3.29, those of the noisy values -+3.68."""
    values = math.sqrt(5) * stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    low, high = deconvolve(values, 0.1)
    assert (low, high) == pytest.approx((-3.29, 3.29), abs=0.06)
