"""Fingerprinting against mechanisms, and by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpbench.theory.bounds.fingerprinting import fingerprinting_lower_bound

# Fingerprinting.


def test_each_record_shows_by_enumeration() -> None:
    """The identity that the proof begins with, of any release from n = 3 signs."""
    n, s = 3, 1.5
    signs = np.array(list(itertools.product((-1, 1), repeat=n)))
    release = np.random.default_rng(0).normal(size=len(signs))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    weights = weights * (1 - nodes**2) ** s
    weights /= weights.sum()
    assert weights @ nodes**2 == pytest.approx(1 / (2 * s + 3))
    law = np.prod((1 + signs * nodes[:, None, None]) / 2, axis=2)  # (200, 8)
    correlated = (law * release * (signs.sum(axis=1) - n * nodes[:, None])).sum(axis=1)
    assert weights @ correlated == pytest.approx(2 * (s + 1) * weights @ (nodes * (law @ release)))


@pytest.mark.parametrize("rho", [1e-4, 0.5, 3.0])
def test_fingerprinting_against_the_gaussian_mechanism(rho: float) -> None:
    for n, d in ((10, 1), (1000, 5), (1000, 400), (10**6, 50)):
        bound = fingerprinting_lower_bound(n, d, rho)
        noise, sampled = 2 * d / (n * math.sqrt(2 * rho)), math.sqrt(d / n)
        assert bound <= min(math.hypot(noise, sampled), math.sqrt(d))
        if rho < 0.1 and noise < 0.05 * math.sqrt(d):
            assert noise / bound == pytest.approx(2, rel=0.6)


def test_fingerprinting_against_the_best_of_one_sign() -> None:
    """n = 1, d = 1: randomised response of epsilon = sqrt(2 rho), for every prior's best rule."""
    for rho in (0.05, 0.5, 2.0):
        keep = math.tanh(math.sqrt(2 * rho) / 2)
        s = np.linspace(-0.9, 20, 400)
        v = 1 / (2 * s + 3)
        risk = np.sqrt(v - keep**2 * v**2)  # of the best multiple of the sign
        assert fingerprinting_lower_bound(1, 1, rho) <= risk.max()


@pytest.mark.parametrize(("n", "d", "rho"), [(10, 4, 0.05), (50, 3, 0.4), (200, 100, 0.02)])
def test_fingerprinting_from_its_two_sides(n: int, d: int, rho: float) -> None:
    """Where what records show meets what hides them, for Gaussians at the distance of rho."""
    sd, z = 1 / math.sqrt(2 * rho), np.linspace(-60, 60, 200_001)
    one, other = (np.exp(-((z - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (1 / sd, 0.0))
    seen = other > 0
    apart = float(np.trapezoid(one[seen] ** 2 / other[seen], z[seen])) - 1  # chi-square

    def error(s: float) -> float:
        v = d / (2 * s + 3)

        def excess(a: float) -> float:
            return 2 * (s + 1) * (v - a * math.sqrt(v)) - n * a * math.sqrt(apart)

        return float(brentq(excess, 0.0, math.sqrt(v)))

    largest = max(error(s) for s in np.geomspace(1e-2, 1e5, 3000) - 1)
    assert fingerprinting_lower_bound(n, d, rho) == pytest.approx(largest, rel=1e-4)
