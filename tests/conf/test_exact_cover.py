"""What KSU20's cover does in the plane where noise decides, from the definitions of its steps.

Datasets and centres are drawn; given these, every point of the grid has a known probability.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbench.distributions import SignedTwoPoint
from dpbench.jobs.composition import compose

Floats = NDArray[np.float64]
DATASETS = 500
D, ALPHA = 2, 1.0  # n is too small for a smaller one
ROOT = math.sqrt(D)


def fewest(y: Floats, counts: Floats, mean: float, xi: float) -> Floats:
    """How many records are to become xi, the smallest first, until their mean is `mean`.

    Of every dataset, in which `counts` records have the values y, (values, datasets) both.
    """
    missing = mean * counts.sum(axis=0) - (counts * y).sum(axis=0)
    order, changes = np.argsort(y, axis=0), np.zeros(y.shape[1])
    for value, count in zip(*(np.take_along_axis(a, order, 0) for a in (y, counts)), strict=True):
        gain = np.maximum(xi - value, 1e-9)
        some = np.clip(np.ceil(missing / gain - 1e-9), 0, count)
        changes, missing = changes + some, missing - some * gain
    return np.where(missing > 1e-6, np.inf, changes)


def scores(grid: Floats, atoms: Floats, counts: Floats, centre: Floats, xi: float) -> Floats:
    """The fewest changes by which a point loses to another, at most n alpha, (points, datasets).

    p loses to q at D > 2 alpha if the mean of <z - p, (q - p)/D>, clipped to +-xi, is D/2.
    """
    found = np.tile(ALPHA * counts.sum(axis=0), (len(grid), 1))
    for i, p in enumerate(grid):
        for q in grid:
            distance = math.dist(p, q)
            if distance > 2 * ALPHA * (1 + 1e-9):
                unit = (q - p) / distance
                y = np.clip((atoms @ unit)[:, None] - centre @ unit - p @ unit, -xi, xi)
                found[i] = np.minimum(found[i], fewest(y, counts, distance / 2, xi))
    return found


def mean_error(p: float, n: int, epsilon: float) -> float:
    """Of 0 with probability 1 - p, else tau (1, +-1), from a quarter of the records on."""
    rng, tau = np.random.default_rng(0), SignedTwoPoint(d=D, p=p, k=2).tau
    atoms, shares = tau * np.array([[0, 0], [1, 1], [1, -1]]), [1 - p, p / 2, p / 2]
    # The first quarter finds the bin [-1, 3]. Clipped to its middle +- (2 + 2 + T), which clips
    # nothing, the second's coordinates are averaged, each at half of the budget.
    quarter, half, own = n // 4, n // 2, epsilon / D
    reach = 2 + 2 + 0.5 * math.sqrt(quarter * own / (2 * math.log(10)))
    assert 1 - reach < -tau < tau < 1 + reach
    centre = rng.multinomial(quarter, shares, DATASETS) @ atoms / quarter
    centre += rng.laplace(scale=2 * reach / quarter / own, size=centre.shape)
    # Steps of alpha/sqrt(2) reach or pass +-3 alpha.
    last = math.ceil(6 * ROOT)
    axis = (np.arange(last + 1) - last / 2) * ALPHA / ROOT
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, D)
    counts = rng.multinomial(half, shares, DATASETS).T.astype(float)
    score = scores(grid, atoms, counts, centre, 2 / ALPHA + axis.max() * ROOT)
    weight = np.exp(epsilon / 2 * (score - score.max(axis=0)))
    away = np.linalg.norm(grid[:, None] + centre - [p * tau, 0], axis=2)
    return float(np.mean((weight * away).sum(axis=0) / weight.sum(axis=0)))


def test_the_claim_states_what_a_cover_does() -> None:
    # The errors of datasets have a relative standard deviation of 0.22: that of 500 is off by 0.05
    # with probability 4e-7.
    whole = compose(["sweep=heavy_tail_cover"])["sweep"]
    part, law = whole["parts"]["noise"], whole["families"]["rare"]
    assert (law["kind"], law["d"], law["k"]) == ("signed_two_point", D, 2)
    assert whole["estimators"]["cover"] == {
        "kind": "ksu20_tournament_mean",
        "scale": 1,
        "radius": 1,
    }
    found = mean_error(law["p"], part["n"][0], part["budgets"]["pure"]["epsilon"])
    assert found == pytest.approx(part["claims"]["level"]["exact"], rel=0.05)
