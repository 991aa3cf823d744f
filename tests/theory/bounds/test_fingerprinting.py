"""Bounds from rotations against enumeration, quadrature, mechanisms and other bounds."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.special import chdtri, iv
from scipy.stats import norm

import dpbench.estimators as est
from dpbench.arrays import Floats
from dpbench.distributions import MultivariateGaussian
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds import fingerprinting
from dpbench.theory.bounds.class_bound import class_bound, heavy_tail_bound
from dpbench.theory.bounds.fingerprinting import (
    _largest_tau,
    _probability,
    _tilts,
    fingerprinting_bound,
    gaussian_fingerprinting_bound,
    record_correlation,
)
from dpbench.theory.bounds.numbers import two_point_lower_bound
from dpbench.theory.bounds.record_information import record_information
from dpbench.theory.bounds.sphere import HiddenDirections, hidden_directions
from dpbench.theory.bounds.vectors import gaussian_lower_bound, moments_lower_bound
from dpbench.theory.exact.value import exact
from dpbench.theory.families import build_family

RING = 24  # points of a circle


def test_the_page_has_the_factors_over_the_other_bounds() -> None:
    page = (Path(__file__).parents[3] / "docs" / "bounds.md").read_text("utf-8")
    head, _, *lines = page.partition("\n| d | 16")[2].partition("\n\n")[0].splitlines()
    dimensions = [16, *map(int, re.findall(r"\d+", head))]
    for rare, line in zip((0.0, 1.0), lines, strict=True):
        found = [
            fingerprinting_bound(10**9, d, 2.0, ZCDP(0.5), rare=rare)
            / moments_lower_bound(10**9, d, 2.0, ZCDP(0.5)).alpha
            for d in dimensions
        ]
        assert line.split("|")[2:-1] == [f" {factor:.1f} " for factor in found]


def ring_laws(b: float, p: float) -> tuple[Floats, Floats]:
    """A record on a circle, or 0: its law for u at angle 0, and the derivative in the angle."""
    angle = 2 * np.pi * np.arange(RING) / RING
    density = np.exp(b * np.cos(angle))
    density /= density.sum()
    score = b * np.sin(angle)  # of the rotation of u
    return np.append(p * density, 1 - p), np.append(p * density * score, 0.0)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("p", [0.3, 1.0])
def test_the_information_of_a_release_by_enumeration(n: int, p: float) -> None:
    """d = 2: votes for the nearest of three directions, and an exponential mechanism."""
    b, epsilon = 1.3, 0.8
    law, slope = ring_laws(b, p)
    tilts = slope / np.maximum(law, 1e-300)
    angle = 2 * np.pi * np.arange(RING) / RING
    points = np.vstack([np.column_stack([np.cos(angle), np.sin(angle)]), [0.0, 0.0]])
    turned = 2 * np.pi * (np.arange(3) + 0.25) / 3
    answers = np.column_stack([np.cos(turned), np.sin(turned)])
    nearest = np.eye(3)[np.argmax(points @ answers.T, axis=1)]
    nearest[-1] = 0
    fisher = b * float(iv(1, b) / iv(0, b))  # of a record that is not 0
    share = record_correlation(2, PureDP(epsilon))
    bound = 1 / (1 / ((n * p) ** 2 * share * fisher) + (1 - 1 / n) / (n * p * fisher))
    found = []
    for utility, factor in ((points @ answers.T, epsilon / 4), (nearest, epsilon / (1 + (n > 1)))):
        probability, derivative = np.zeros(3), np.zeros(3)
        for data in itertools.product(range(RING + (p < 1)), repeat=n):
            chosen = np.exp(factor * utility[list(data)].sum(axis=0))
            chosen /= chosen.sum()
            chance = np.prod(law[list(data)])
            probability += chance * chosen
            derivative += chance * tilts[list(data)].sum() * chosen
        found.append(float(np.sum(derivative**2 / probability)))
    assert 0.08 * bound < max(found) <= bound


@pytest.mark.parametrize("n", [5, 400])
def test_both_costs_add_up_for_gaussian_noise(n: int) -> None:
    """One coordinate of normal records, with noise at the distance of rho for records +-1.

    Its information is 1/(1/n + variance of the noise), which the bound exceeds by next to nothing.
    """
    rho = 1e-6
    share = record_correlation(7, ZCDP(rho))
    assert share == pytest.approx(rho / 2, rel=0.04)
    variance = (2 / n) ** 2 / (2 * rho)
    exact_information = 1 / (1 / n + variance)
    bound = 1 / (1 / (n**2 * share) + (1 - 1 / n) / n)
    assert exact_information <= bound <= 1.05 * exact_information


@pytest.mark.parametrize(("d", "k"), [(2, 2), (3, 3.5), (10, 2)])
def test_the_laws_are_in_the_class(d: int, k: float) -> None:
    """Moments of the records in random directions, by sums over random records."""
    rng, tilts = np.random.default_rng(0), _tilts(d, k)
    y = rng.normal(size=(200_000 // d, d))
    y /= np.linalg.norm(y, axis=1)[:, None]
    for i in (10, 25) + ((85, 180) if k == 2 else ()):
        b = np.geomspace(0.05, 6, 50)[i % 50] * math.sqrt(d)
        c = (0.0, 0.1, 0.2, 0.33, 0.5)[i // 50] * d
        weight = np.exp(b * y[:, 0] - c * y[:, 0] ** 2)
        weight /= weight.sum()
        assert tilts.mean[i] == pytest.approx(math.sqrt(d) * weight @ y[:, 0], rel=0.1, abs=0.02)
        score = (b - 2 * c * y[:, 0])[:, None] * y[:, 1:]
        assert tilts.fisher[i] == pytest.approx(np.mean(weight @ score**2), rel=0.1)
        assert np.linalg.norm(score, axis=1).max() <= tilts.longest[i]
        for p in (0.01, 0.4):
            tau = _largest_tau(np.full(len(tilts.mean), p), tilts, k)[i]
            largest = 0.0
            for v in np.vstack([np.eye(d)[:2], rng.normal(size=(2, d))]):
                x = tau * math.sqrt(d) * (y @ v) / np.linalg.norm(v)
                centre = p * (weight @ x)
                moment = p * (weight @ np.abs(x - centre) ** k) + (1 - p) * abs(centre) ** k
                largest = max(largest, float(moment))
            assert largest <= 1.06
            assert largest >= 0.94 or k != 2


VECTORS: dict[str, Any] = {"kind": "signed_two_point_family", "k": 2, "c": [0, 0.1, 0.3, 1, 3, 10]}


@pytest.mark.parametrize("d", [4, 256])
@pytest.mark.parametrize("budget", [ZCDP(0.5), ZCDP(5e-5), GDP(1.0), ApproxDP(1.0, 1e-6)], ids=str)
def test_no_bound_is_above_the_error_of_an_estimator(d: int, budget: Budget) -> None:
    """The ball's exact error over the family. Three times the bound would be too much."""
    n = 10**7
    ball = est.KSU20BallMean(k=2, radius=1, scale=1, outside="project", constants="tuned")
    family = build_family(VECTORS | {"d": d}, "family")
    worst = max(
        exact("q90", ball, law, n, budget) for law in family.members("", n, budget).values()
    )
    bound = family.lower_bound(n, budget)
    assert bound.by == "fingerprinting"
    assert bound.value <= worst <= (4 if isinstance(budget, ApproxDP) else 3) * bound.value


@pytest.mark.parametrize("d", [2, 16, 1024])
@pytest.mark.parametrize("budget", [ZCDP(0.5), ZCDP(1e-3), GDP(1.0), ApproxDP(1.0, 1e-6)], ids=str)
def test_gaussian_records_and_the_gaussian_mechanism(d: int, budget: Budget) -> None:
    """Noise for records of a norm of at most sqrt(d) + 4, around a known centre."""
    n = 10**8
    reach = math.sqrt(d) + 4
    noise = (
        2 * reach / n * float(budget._sd(1e9, 1.0) or 0)
        if not isinstance(budget, ApproxDP)
        else 2 * reach / n * float(budget.noise_quantile(0.1) / 1.645)
    )
    error = math.sqrt(chdtri(d, 0.1) * (noise**2 + 1 / n))
    bound = gaussian_fingerprinting_bound(n, d, budget)
    assert bound <= error
    if d > 2 and not isinstance(budget, ApproxDP):
        assert bound >= error / 3


@pytest.mark.parametrize(("d", "gain"), [(64, 2.5), (1024, 4.7)])
def test_how_much_is_gained_over_directions(d: int, gain: float) -> None:
    budget = ZCDP(0.5)
    old = moments_lower_bound(10**5, d, 2, budget).alpha
    assert fingerprinting_bound(10**5, d, 2, budget) > gain * old
    limit = math.sqrt(d / 1e5) * (0.9 / record_correlation(d, budget)) ** 0.25
    assert fingerprinting_bound(10**5, d, 2, budget) == pytest.approx(0.54 * limit, rel=0.08)
    assert heavy_tail_bound(10**5, 2, budget, d=d, rare=0).by == "fingerprinting"


def test_where_other_bounds_are_larger() -> None:
    """In two dimensions the pair, and for a large epsilon the directions."""
    n = 10**5
    for budget in (PureDP(1.0), ZCDP(0.5)):
        assert fingerprinting_bound(n, 2, 2, budget) < two_point_lower_bound(n, 2, budget).alpha
        assert heavy_tail_bound(n, 2, budget, d=2, rare=0).by in ("two-point", "packing")
    assert (
        fingerprinting_bound(n, 64, 2, PureDP(8.0))
        < moments_lower_bound(n, 64, 2, PureDP(8.0)).alpha
    )


def test_what_delta_costs() -> None:
    """A tiny delta costs nothing, and under a large one the bound falls like (n delta)^-1/2."""
    n, d = 10**6, 64
    bounds = [
        fingerprinting_bound(n, d, 2, ApproxDP(0.1, delta)) for delta in (1e-15, 1e-9, 1e-5, 1e-2)
    ]
    assert all(a >= b for a, b in itertools.pairwise(bounds))
    assert bounds[0] == pytest.approx(bounds[1], rel=0.01)
    large = [fingerprinting_bound(10**9, d, 2, ApproxDP(1e-5, delta)) for delta in (1e-4, 1e-2)]
    assert large[1] / large[0] == pytest.approx(0.1, rel=0.02)
    assert bounds[0] <= fingerprinting_bound(n, d, 2, PureDP(0.1)) <= 1.2 * bounds[0]
    normal = [gaussian_fingerprinting_bound(10**8, d, ApproxDP(0.1, x)) for x in (1e-15, 1e-9, 0.5)]
    assert normal[0] >= normal[1] > 0
    assert 0 < normal[2] < 1e-3 * normal[1]
    # E|v_1| of a unit vector in d - 1 dimensions: 1, 2/pi, 1/2 and nearly sqrt(2/(pi (d-1))).
    half = (math.expm1(0.3) / 2) ** 2
    for d, share in ((2, 1), (3, 2 * (2 / math.pi) ** 2), (4, 3 / 4), (10**5, 2 / math.pi)):
        assert record_correlation(d, ApproxDP(0.3, 1e-6)) == pytest.approx(half * share, rel=1e-4)


def test_sampling_adds_to_the_cost() -> None:
    """Both costs at once are at most twice the larger; the probability of a record caps them."""
    n, d, budget = 10**5, 16, ZCDP(0.5)
    private, joint = (fingerprinting_bound(n, d, 2, budget, rare=rare) for rare in (0.0, 1.0))
    sampled = fingerprinting_bound(n, d, 2, ZCDP(900.0), rare=1.0)
    assert max(private, sampled) < joint < 2 * max(private, sampled)
    assert private <= fingerprinting_bound(n, d, 2, budget, rare=1e-4) < joint
    assert sampled <= math.sqrt(chdtri(d, 0.1) / n)


def test_where_nothing_is_known() -> None:
    assert math.isnan(fingerprinting_bound(100, 5, 2, NonPrivate()))
    assert math.isnan(gaussian_fingerprinting_bound(100, 5, NonPrivate()))
    assert fingerprinting_bound(100, 5, 2, PureDP(1e6), rare=1.0) > 0
    assert gaussian_fingerprinting_bound(100, 5, ApproxDP(1e6, 1e-6)) == 0
    assert math.isnan(record_information(NonPrivate()))
    assert gaussian_fingerprinting_bound(3, 5, ZCDP(1e-9)) <= 1
    assert gaussian_lower_bound(10**6, 256, ZCDP(1e-3)).alpha < gaussian_fingerprinting_bound(
        10**6, 256, ZCDP(1e-3)
    )
    law = MultivariateGaussian(d=256, scale=2.0)
    found = class_bound(law, 10**4, ZCDP(1e-4))
    assert found == (2 * gaussian_fingerprinting_bound(10**4, 256, ZCDP(1e-4)), "fingerprinting")


def test_normal_records_from_the_sign_of_a_score() -> None:
    """For small epsilon, randomised response on the sign of a score attains j of normal records.

    The score of a record in a direction is a normal z. The release has the information
    (t E|z|)^2 for t = tanh(epsilon/2); quadrature gives E|z|. Privacy costs more than sampling.
    """
    n, d, epsilon = 10**8, 16, 1e-4
    z = np.linspace(0, 12, 120_001)
    attained = (math.tanh(epsilon / 2) * 2 * np.trapezoid(z * norm.pdf(z), z)) ** 2
    hidden = hidden_directions(d, 0.1)
    largest = np.sqrt(hidden.information / (n**2 * attained))
    assert 0.005 < largest[np.argmax(largest * np.sin(hidden.angle))] < 1
    wanted = np.max(np.minimum(largest, 1) * np.sin(hidden.angle))
    found = gaussian_fingerprinting_bound(n, d, ApproxDP(epsilon, 1e-300))
    assert found == pytest.approx(wanted, rel=0.01)


def _largest_root(holds: Any) -> float:
    """Return the largest number in [0, 1] up to which a condition holds."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@pytest.mark.parametrize("delta", [1e-300, 1e-8, 1e-6])
def test_the_leak_doubles_if_sampling_counts(delta: float) -> None:
    """Search for the largest R and P at which J plus the leak is at most the allowed number.

    If sampling counts, a mean is subtracted from the gradient, so its largest norm doubles.
    """
    n, d, budget = 20_000, 16, ApproxDP(0.05, delta)
    hidden, tilts, half = hidden_directions(d, 0.1), _tilts(d, 2), (math.expm1(0.05) / 2) ** 2
    score = delta * (math.sqrt(d) + 12) + math.sqrt(d) * math.exp(-36)
    errors, rare, j = [], [], record_correlation(d, budget)
    parts = HiddenDirections(*(part[::8] for part in hidden))
    for angle, allowed, _, steep in zip(*parts, strict=True):
        for doubled, sampled in ((1, 0.0), (2, (1 - 1 / n) / (n * (d - 1)))):
            costs = 1 / (n**2 * half * 2 / math.pi) + sampled
            leak = 4 * doubled * steep * n * score
            errors.append(
                math.sin(angle)
                * _largest_root(lambda r, c=costs, s=leak, a=allowed: r**2 / c + s * r <= a)
            )
        i = 20
        private = 1 / (n**2 * j * tilts.fisher[i])
        sampled = (1 - 1 / n) / (n * (d - 1) * tilts.fisher[i])
        leak = 8 * steep * n * delta * tilts.longest[i]
        rare.append(
            _largest_root(
                lambda p, c=private, s=sampled, y=leak, a=allowed: p * p / (c + s * p) + y * p <= a
            )
        )
    with mock.patch.object(fingerprinting, "hidden_directions", return_value=parts):
        found = gaussian_fingerprinting_bound.__wrapped__(n, d, budget)
    assert found == pytest.approx(max(errors), rel=1e-9)
    probability = _probability(n, d, j, parts, tilts, 1.0, delta)[:, 20]
    alone = _probability(n, d, j, parts, tilts, 0.0, delta)[:, 20]
    np.testing.assert_allclose(probability, np.maximum(alone, np.minimum(rare, 0.5)), rtol=1e-9)


@pytest.mark.parametrize("p", [0.01, 0.5])
def test_the_moment_of_other_orders_by_the_triangle_inequality(p: float) -> None:
    """A record is 0 or tau sqrt(d) y. With mean c, the parts are c^k and (|y|_k + c)^k."""
    k, tilts = 3.5, _tilts(3, 3.5)
    tau = _largest_tau(np.full(len(tilts.mean), p), tilts, k)
    for i in (0, 20, 49):
        centre = p * tilts.mean[i] * tau[i]
        rest = tilts.along[i] * tau[i] + centre
        assert (1 - p) * centre**k + p * rest**k == pytest.approx(1)
