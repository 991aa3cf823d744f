"""Directions that a release with little information cannot name: eigenvalues by another route."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal

from dpbench.arrays import Floats
from dpbench.theory.bounds import sphere
from dpbench.theory.bounds.sphere import hidden_directions


def largest_eigenvalue(d: int, angle: float, weight: float, cells: int = 6000) -> float:
    """Of weight times the Laplacian plus the indicator of a cap, by differences in the angle.

    With m = (d-2)/2 and v = w sin^m the operator is v'' + (m^2 - m (m-1)/sin^2) v. For d < 4 the
    potential attracts to the poles, so the differences are of w, in finite volumes.
    """
    step, m = math.pi / cells, (d - 2) / 2
    if d >= 4:
        at = step * np.arange(1, cells)
        inside = np.clip((angle - at) / step + 0.5, 0, 1)
        at, inside = at[at > 0.2 * angle * (d > 100)], inside[at > 0.2 * angle * (d > 100)]
        diagonal = inside + weight * (m**2 - m * (m - 1) / np.sin(at) ** 2 - 2 / step**2)
        beside = np.full(len(at) - 1, weight / step**2)
    else:
        at = step * (np.arange(cells) + 0.5)
        mass, edge = np.sin(at) ** (d - 2), np.sin(step * np.arange(1, cells)) ** (d - 2)
        beside = weight * edge / np.sqrt(mass[1:] * mass[:-1]) / step**2
        flow = weight * (np.append(edge, 0) + np.append(0, edge)) / mass / step**2
        diagonal = np.clip((angle - at) / step + 0.5, 0, 1) - flow
    last = len(diagonal) - 1
    found = eigh_tridiagonal(
        diagonal, beside, eigvals_only=True, select="i", select_range=(last, last)
    )
    return float(found[0])


@pytest.mark.parametrize("d", [2, 3, 16, 256])
@pytest.mark.parametrize("beta", [0.1, 0.3])
def test_the_information_fails_with_probability_beta(d: int, beta: float) -> None:
    """And little more would not fail, for the best weight."""
    hidden = hidden_directions(d, beta)
    for i in np.linspace(len(hidden.angle) / 3, len(hidden.angle) - 8, 3).astype(int):
        angle, information, weight = hidden.angle[i], hidden.information[i], hidden.weight[i]
        top = largest_eigenvalue(d, angle, weight)
        assert top + weight * information / 4 <= 1 - beta + 1e-4
        most = max(
            4 * (1 - beta - largest_eigenvalue(d, angle, weight * f, 3000)) / (weight * f)
            for f in (0.8, 1.0, 1.25)
        )
        assert information >= 0.96 * most


def test_two_dimensions_from_the_circle() -> None:
    """Wrapped noise of density w^2 with its Fisher information: cos inside, cosh outside."""
    hidden = hidden_directions(2, 0.1)
    angle = np.linspace(-math.pi, math.pi, 8001)
    for i in (20, 50, 80):
        theta = hidden.angle[i]
        best = 0.0
        for inner in np.linspace(0.05, 1.5, 150) / theta:
            slope = inner * math.tan(inner * theta)
            for outer in np.linspace(0.05, 12, 40):
                if abs(outer * math.tanh(outer * (math.pi - theta)) / slope - 1) > 0.06:
                    continue
                w = np.where(
                    abs(angle) < theta,
                    np.cos(inner * angle) / math.cos(inner * theta),
                    np.cosh(outer * (math.pi - abs(angle))) / math.cosh(outer * (math.pi - theta)),
                )
                w /= math.sqrt(np.trapezoid(w**2, angle))
                information = 4 * np.trapezoid(np.gradient(w, angle) ** 2, angle)
                if information <= hidden.information[i]:
                    inside = abs(angle) < theta
                    best = max(best, float(np.trapezoid(w**2 * inside, angle)))
        assert 0.85 < best <= 0.9


@pytest.mark.parametrize("d", [1000, 100_000])
def test_many_dimensions(d: int) -> None:
    """The limit (1 - beta)/tan^2, from above, within the steps of the search."""
    hidden = hidden_directions(d, 0.1)
    middle = (hidden.angle > 0.3) & (hidden.angle < 1.2)
    ratio = hidden.information * np.tan(hidden.angle) ** 2 / (0.9 * (d - 1) ** 2)
    assert np.all(ratio[middle] > 0.95)
    assert np.all(ratio[middle] < (1.2 if d == 1000 else 1.05))


def test_how_steep_the_best_function_is() -> None:
    """On a dense grid, by the matching of the two solutions: no gradient is above `steepness`."""
    hidden = hidden_directions(5, 0.1)
    for i in (30, 60):
        bound = hidden.steepness[i]
        # A smaller cap needs a steeper function.
        assert bound > 0
        assert hidden.steepness[i] < hidden.steepness[i - 20]
        # The gradient carries the information: J/4 = E |gradient|^2 at the best weight.
        assert bound**2 >= hidden.information[i] / 4 * 0.9


@pytest.mark.parametrize(("limit", "proved"), [(1 + 1e-9, True), (1 - 1e-9, False)])
@pytest.mark.parametrize("error", [0.01, -0.01])
def test_errors_that_fall_with_the_square_of_the_step_are_removed(
    monkeypatch: pytest.MonkeyPatch, limit: float, proved: bool, error: float
) -> None:
    """The quotient is `limit` plus an error c step^2, for steps pi/(2 STEPS) and half of it."""

    def solve(d: int, start: Floats, angles: Floats, sign: float) -> Floats:
        quotient = limit + error * (angles[1] * 1000) ** 2
        return np.full((len(angles), len(start)), 1.0 if sign > 0 else quotient)

    monkeypatch.setattr(sphere, "_solve", solve)
    one = np.ones(1)
    assert sphere._is_proved(5, one, one, np.array([700])) == proved
