"""Entries of the local model, by the catalogue's estimators and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench.benchmark.local_entries import LOCAL_ENTRIES, _list_clips
from dpbench.benchmark.problems import read_benchmark
from dpbench.estimators import Estimator, OneRecord
from dpbench.estimators.heavy_tailed import LocalMean
from dpbench.estimators.local_votes import three_values
from dpbench.estimators.randomized_response_sign import RandomizedResponseSignMean
from dpbench.privacy import GDP, Budget, Ledger, PureDP
from dpbench.samples import DenseSample
from dpbench.testing import check_estimator
from tests.support import rng

PROBLEMS = {one.id: one for one in read_benchmark().problems if one.local}
BINARY, GAUSSIAN, MOMENTS = (
    "local-binary-n3000-pure1", "local-gauss-n30000-pure1", "local-moments4-n30000-pure1",
)  # fmt: skip


def entry(name: str, problem: str) -> OneRecord:
    one = LOCAL_ENTRIES[name][1](PROBLEMS[problem].public_knowledge(open_division=False))
    assert one is not None
    return one


def test_every_local_problem_has_one_entry() -> None:
    told = [problem.public_knowledge(open_division=False) for problem in read_benchmark().problems]
    answers = [[choose(one) is not None for _, choose in LOCAL_ENTRIES.values()] for one in told]
    assert [sum(row) for row in answers] == [int(one.local) for one in told]


def released(one: Estimator, x: Any, budget: Budget) -> Any:
    return one.run(DenseSample(x), Ledger(budget, rng(1))).value


def test_randomised_response_by_hand() -> None:
    """Unbiased, of variance 1/(4 t^2 n) - p(1-p)/n + ... = (1/t^2 - (2p-1)^2)/(4n); 5 sd of 400."""
    x, t = np.tile([1.0, 0.0, 0.0, 0.0], (400, 50)), np.tanh(0.5)
    value = released(entry("randomized_response_mean", BINARY), x, PureDP(1.0))
    # The records are fixed, so that only the lies vary: each has the variance (1 - t^2)/(4 t^2).
    sd = np.sqrt((1 - t**2) / (4 * t**2 * 200))
    assert abs(value.mean() - 0.25) < 5 * sd / 20
    assert value.std() == pytest.approx(sd, rel=5 / np.sqrt(800))


@pytest.mark.parametrize(
    ("name", "problem", "worst"),
    [
        ("randomized_response_mean", BINARY, (0.0, 1.0)),
        ("randomized_response_sign_mean", GAUSSIAN, (-9.0, 9.0)),
        ("local_mean", MOMENTS, (-99.0, 99.0)),
    ],
)
@pytest.mark.parametrize("found", [[], [0.5]])
def test_a_report_spends_its_budget(
    name: str, problem: str, worst: tuple[float, float], found: list[float]
) -> None:
    """The largest ratio of frequencies is e^1, up to 5 standard errors of 400,000 reports."""
    one, told = entry(name, problem), [np.full(400_000, value) for value in found]
    sides = [one.report(np.full(400_000, x), told, PureDP(1.0), rng(2)) for x in worst]
    values = np.unique(np.concatenate(sides).astype(float))
    shares = np.array([[(side == value).mean() for value in values] for side in sides])
    log_ratio = np.log(shares[0] / shares[1])
    assert np.abs(log_ratio).max() == pytest.approx(1.0, abs=5 * np.sqrt(2 / (400_000 * 0.2)))


@pytest.mark.parametrize("budget", [PureDP(1.0), GDP(0.5)])
def test_signs_are_those_of_the_catalogue(budget: Budget) -> None:
    """The catalogue draws counts of answers: equal medians and quartiles, by 5 standard errors."""
    x = rng(3).normal(3.3, 1, (300, 3000))
    ours = released(entry("randomized_response_sign_mean", GAUSSIAN), x, budget)
    theirs = released(RandomizedResponseSignMean(radius=10.0, sigma=1.0), x, budget)
    scale = np.subtract(*np.quantile(theirs, [0.75, 0.25]))
    for q in (0.25, 0.5, 0.75):
        assert abs(np.quantile(ours, q) - np.quantile(theirs, q)) < 5 * scale * np.sqrt(2 / 300)
    assert abs(np.median(ours) - 3.3) < scale


def test_signs_halve_the_interval() -> None:
    """After k rounds of equal reports, the centre is within radius/2^k of every mean."""
    one: Any = entry("randomized_response_sign_mean", GAUSSIAN)
    means, found = np.linspace(-one.radius, one.radius, 401), list[Any]()
    for k in range(1, one.halvings + 1):
        above = means >= (found[-1] if found else 0.0)
        found.append(one.combine(np.repeat(above[:, None], 5, axis=1), found, PureDP(1.0)))
        assert np.abs(found[-1] - means).max() <= one.radius / 2**k * (1 + 1e-12)
    assert one.halvings >= 2
    assert one.radius / 2**one.halvings <= one.sigma


def test_votes_have_the_clip_of_the_catalogue_and_the_mean() -> None:
    """The first round is the catalogue's local mean of a quarter; the second clips at less."""
    budget, n = PureDP(1.0), 8000
    clips, (low, high) = _list_clips(10.0, 4.0, n, budget), three_values(budget)
    law = LocalMean(k=4.0, scale=1.0, radius=10.0, mechanism="three_values")
    assert clips[0] == 10.0 + law.clipping_threshold(n // 4, budget)
    assert clips[1] < clips[0] / 2
    x = np.full((100, n), 4.2)
    one = LOCAL_ENTRIES["local_mean"][1](PROBLEMS[MOMENTS].public_knowledge(open_division=False))
    value = released(type(one)(radius=10.0, k=4.0, n=n), x, budget)  # type: ignore[misc, call-arg]
    sd = clips[1] / (high - low) * np.sqrt((low + high) / (n - n // 4))
    assert abs(value.mean() - 4.2) < 5 * sd / 10
    assert value.std() < 1.4 * sd


@pytest.mark.parametrize("name", LOCAL_ENTRIES)
def test_entries_keep_the_promises_of_estimators(name: str) -> None:
    problem = {"randomized_response_mean": BINARY, "local_mean": MOMENTS}.get(name, GAUSSIAN)
    check_estimator(entry(name, problem), records=(np.arange(60) % 2).astype(float))
