"""Scores and audits of one problem, with an estimator of this process in place of an entry's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbench.audit.attack import PairReleases
from dpbench.audit.releases import PrivacyBound
from dpbench.benchmark import scoring
from dpbench.benchmark.problems import Problem, read_benchmark
from dpbench.benchmark.scoring import ScoreTask, score
from dpbench.privacy import Budget
from dpbench.registry import ConfigError

Floats = NDArray[np.float64]


class Fake:
    """Release the mean with Laplace noise of a scale, and keep the records of all calls."""

    text = "fake"

    def __init__(self, scale: float = 0.0, *, fails: bool = False) -> None:
        self.scale, self.fails, self.calls = scale, fails, list[Floats]()

    def released(self, records: Floats, budget: Budget, rng: np.random.Generator) -> Any:
        self.calls.append(records[0].copy())
        if self.fails and records.ravel()[0] > 0:
            raise ConfigError("no such luck")
        value = records.mean(axis=1)
        return value + rng.laplace(0, self.scale or 1e-300, value.shape), 0.5


def task(name: str, fake: Fake, runs: int = 0, trials: int = 5) -> ScoreTask:
    (one,) = read_benchmark().select(name).at_places(7).problems
    made: Any = fake
    return ScoreTask(made, one, trials, runs, 1e-5)


@pytest.mark.parametrize("name", ["gauss-n100-pure1", "gauss16-n1000-gdp1"])
def test_errors_are_distances_from_the_members_means(name: str) -> None:
    """Every dataset that is released is nearest to its member's mean, by hand."""
    fake = Fake()
    asked = task(name, fake)
    found = score(asked)
    assert found.errors.shape == (2, 5)
    means = [np.atleast_1d(law.mean) for law in asked.problem.members.values()]
    wanted = [
        min(float(np.linalg.norm(x.mean(axis=0) - mean)) for mean in means) for x in fake.calls
    ]
    assert np.sort(found.errors.ravel()) == pytest.approx(np.sort(wanted), rel=1e-9)
    assert found.seconds == 0.5
    assert not found.failures
    assert not found.audits


def test_a_call_that_fails_is_an_error_without_end_and_a_line() -> None:
    found = score(task("binary-n300-pure0.1", Fake(fails=True)))
    assert found.failures == ["binary-n300-pure0.1: no such luck"]
    assert 0 < np.isnan(found.errors).sum() < found.errors.size


@pytest.mark.parametrize(
    "name", ["gauss-n100-pure1", "private-n-n300-pure0.1", "moments2-n300-pure1"]
)
def test_neighbours_of_a_scored_dataset_are_released_among_the_scored(name: str) -> None:
    """The datasets of all pairs again and again, in no order."""
    fake = Fake()
    asked = task(name, fake, runs=20)
    score(asked)
    kinds: dict[bytes, list[int]] = {}
    for at, x in enumerate(fake.calls):
        kinds.setdefault(np.sort(x, axis=0).tobytes(), []).append(at)
    often = {key: places for key, places in kinds.items() if len(places) >= 8}
    pairs = 5
    assert 2 * pairs - 1 <= len(often) <= 2 * pairs  # the scored dataset may be in two pairs
    for places in often.values():  # P(all 8 or more in one half) is below 2^-7 each, seed fixed
        assert min(places) < len(fake.calls) / 2 < max(places)


def test_a_rounded_mean_is_refuted_by_a_group() -> None:
    """Replacing one of 300 records moves it to another step in one of ten datasets at most."""

    class Rounds(Fake):
        def released(self, records: Floats, budget: Budget, rng: np.random.Generator) -> Any:
            return np.round(np.median(records, axis=1) / 0.05) * 0.05, 0.0

    asked = task("gauss-n300-pure0.1", Rounds(), runs=100)
    verdicts = {name: bound.verdict for name, bound in score(asked).audits}
    assert verdicts["10 typical"] == "refuted"
    assert verdicts["1 extreme"] == "not refuted"


def test_no_noise_is_refuted_and_enough_is_not() -> None:
    """At the scale of range/(n epsilon); the probability of a false alarm is 1e-5."""
    for scale, verdict in ((0.0, "refuted"), (1 / (300 * 0.1), "not refuted")):
        found = score(task("binary-n300-pure0.1", Clips(scale), runs=100))
        assert [bound.verdict for _, bound in found.audits[:4]] == [verdict] * 4


class Clips(Fake):
    """The same of records that are moved into [0, 1]."""

    def released(self, records: Floats, budget: Budget, rng: np.random.Generator) -> Any:
        return super().released(records.clip(0, 1), budget, rng)


def test_a_name_tells_all_of_a_task() -> None:
    one = task("gauss-n100-pure1", Fake(), runs=10)
    other: Problem = one.problem
    changes: list[dict[str, Any]] = [
        {"trials": 6}, {"runs": 11}, {"problem": replace(other, seed=8)},
        {"problem": read_benchmark().select("gauss-n300-pure0.1").at_places(7).problems[0]},
    ]  # fmt: skip
    names = {one.name, *(replace(one, **change).name for change in changes)}
    assert len(names) == len(changes) + 1


def test_pairs_have_as_many_runs_as_their_power_needs() -> None:
    """Most where all records are equal; the runs of a task limit all."""
    for runs, expected in ((1000, [250, 150, 750, 150, 400]), (200, [200, 150, 200, 150, 200])):
        asked = task("gauss-n100-pure1", Fake(), runs=runs)
        samples = [
            law.sample(np.random.default_rng(0), 2, asked.problem.n)
            for law in asked.problem.members.values()
        ]
        audits = list(scoring._draw_audits(asked, samples, np.random.default_rng(0)))
        kinds = [audit.name.partition(" ")[2] for audit in audits]
        assert kinds == ["typical", "extreme", "equal", "clusters", "one-sided"]
        assert [len(audit.left) + len(audit.right) for audit in audits] == [
            2 * number for number in expected
        ]


def test_the_audits_of_a_task_share_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []

    def bound(*arguments: Any) -> PrivacyBound:
        shares.append(arguments[-1])
        return PrivacyBound(1.0, 0.0, 1)

    monkeypatch.setattr(scoring, "bound_from_releases", bound)
    score(task("gauss-n100-pure1", Fake(), runs=10))
    assert len(shares) == 5
    assert sum(shares) == pytest.approx(1e-5)


def test_the_time_of_drawing_is_that_of_one_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds for five datasets of each of two members."""
    times = iter([3.0, 13.0])
    monkeypatch.setattr("dpbench.benchmark.scoring.time.thread_time", lambda: next(times))
    assert score(task("gauss-n100-pure1", Fake())).drawing_seconds == 1.0


def test_in_the_local_model_means_are_scored_and_reports_are_audited() -> None:
    class Local(Fake):
        """The mean of all, and 1000 as the report of one record."""

        def released(self, records: Floats, budget: Budget, rng: Any, place: int = -1) -> Any:
            assert 0 <= place < records.shape[1]
            return np.stack([records.mean(axis=1), np.full(len(records), 1000.0)], axis=1), 0.5

    bounds: list[PairReleases] = []
    with mock.patch.object(scoring, "bound_from_releases", lambda *a: bounds.append(a[0])):
        found = score(task("local-binary-n3000-pure1", Local(), runs=10))
    assert np.nanmax(found.errors) < 1
    assert len(bounds) == 2
    assert all(np.all(side == 1000) for releases in bounds for side in releases)
