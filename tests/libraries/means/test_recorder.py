"""Tests of the recorder, with fake classes of mechanisms and with installed libraries."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from dpbench.libraries.means.process import library, python
from dpbench.libraries.means.recorder import (
    QUERIES,
    Recorder,
    record_mechanisms,
    replay,
    split_datasets,
)
from dpbench.libraries.means.worker import Ask

ASK = Ask(epsilon=1.0, lower=0.0, upper=1.0, size=0, contributions=2)
needs_diffprivlib = pytest.mark.skipif(
    not python("diffprivlib").exists(), reason="bash dev.sh libraries diffprivlib"
)


class Base:
    """Fake base class of the mechanisms of a library."""

    sensitivity = 2.0

    def randomise(self, value: Any) -> Any:
        raise NotImplementedError


class Shifted(Base):
    """Mechanism that adds 10 in place of noise."""

    def randomise(self, value: Any) -> Any:
        return value + 10.0


class Folded(Shifted):
    """Mechanism that calls another mechanism."""

    def randomise(self, value: Any) -> Any:
        return abs(super().randomise(value))


class Chosen(Base):
    """Mechanism that gets no value and chooses by its utilities."""

    utility = (1.0, 3.0)

    def randomise(self, value: Any = None) -> Any:
        return 1


def _run(tape: Recorder, value: float, *, chooses: bool = False) -> list[float]:
    with record_mechanisms(Base, tape):
        first = Chosen().randomise() if chooses else Folded().randomise(value)
        return [first, Shifted().randomise(value + first)]


def test_mechanisms_are_recorded_once_and_left_as_they_were() -> None:
    methods = [vars(one)["randomise"] for one in (Base, Shifted, Folded, Chosen)]
    tape = Recorder()
    assert _run(tape, 1.0) == [11.0, 22.0]
    assert tape.steps == [
        {"mechanism": "Folded", "values": [1.0], "stated": 2.0, "norm": "l1", "released": 11.0},
        {"mechanism": "Shifted", "values": [12.0], "stated": 2.0, "norm": "l1", "released": 22.0},
    ]
    assert [vars(one)["randomise"] for one in (Base, Shifted, Folded, Chosen)] == methods
    assert Folded().randomise(-1.0) == 9.0
    assert len(tape.steps) == 2
    chosen = Recorder()
    _run(chosen, 1.0, chooses=True)
    assert chosen.steps[0] | {"released": 1} == chosen.steps[0]
    assert chosen.steps[0]["values"] == [1.0, 3.0]
    assert chosen.steps[0]["norm"] == "max"


def test_a_replay_releases_what_the_first_run_did() -> None:
    first = Recorder()
    _run(first, 1.0)
    again = Recorder(first.steps)
    assert _run(again, 5.0) == [11.0, 22.0]
    assert [step["values"] for step in again.steps] == [[5.0], [16.0]]
    other = Recorder(first.steps)  # a mechanism of another name makes its own release
    assert _run(other, 1.0, chooses=True) == [1, 22.0]
    longer = Recorder(again.steps[:1])
    assert _run(longer, 5.0) == [11.0, 26.0]


def test_the_class_is_left_as_it_was_by_a_run_that_raises() -> None:
    own = vars(Folded)["randomise"]
    with pytest.raises(ValueError, match="nine"), record_mechanisms(Base, Recorder()):
        Folded().randomise("nine")
    assert vars(Folded)["randomise"] is own


def test_the_mean_by_hand_and_half_of_its_sensitivity() -> None:
    """One record of four moves the mean of [0, 1] by 1/4."""
    datasets = split_datasets(array("d", [0, 0, 0, 0, 0, 0, 0, 7]), [(4, 1), (4, 1)])
    for query, share in (("mean", 1.0), ("halved_mean", 0.5)):
        replayed = replay("numpy", query, ASK, datasets)
        (one, result), (other, _) = replayed["tapes"]
        assert (result["mechanism"], result["released"]) == ("result", one["released"])
        assert other["values"][0] - one["values"][0] == 0.25
        assert one["stated"] == share / 4
        assert one["released"] == other["released"]
        assert replayed["message"] == ["", ""]
    message = replay("numpy", "mean", ASK._replace(lower=None), datasets)["message"]
    assert message == ["ValueError: bounds are needed"] * 2


def _steps(query: str, rows: Any, ends: tuple[float, float] = (0.0, 1.0)) -> Any:
    """Return the recorded steps of diffprivlib on several datasets, from its process."""
    datasets = [np.array(one, dtype=float) for one in rows]
    ask = ASK._replace(lower=ends[0], upper=ends[1])._asdict()
    runs = library("diffprivlib").replay(query, datasets, ask)
    assert not any(message for _, message in runs)
    assert all(steps[-1]["mechanism"] == "result" for steps, _ in runs)
    return [steps[:-1] for steps, _ in runs]


def _moved(query: str, rows: Any, index: int, **options: Any) -> tuple[float, float]:
    """Return the stated sensitivity of a step, and the distance by which its value moved."""
    one, other = (steps[index] for steps in _steps(query, rows, **options))
    assert one["stated"] == other["stated"]
    return one["stated"], abs(other["values"][0] - one["values"][0])


def _pair(last: Any, others: Any, n: int = 12) -> list[Any]:
    return [[*[others] * (n - 1), end] for end in last]


@pytest.mark.slow
@needs_diffprivlib
def test_squares_of_diffprivlib_state_the_lower_bound_twice() -> None:
    """The sum of x^2 over x in [0, 1] moves by 1, but max(lower, lower)^2 = 0 is stated."""
    query = "linear_regression_no_intercept"
    assert _moved(query, _pair([(0, 0), (1, 0)], (0, 0)), 2) == (0.0, 1.0)
    # for [2, 3] a replaced record moves it by 9 - 4 = 5, an added one by 9; 4 is stated
    assert _moved(query, _pair([(2, 2), (3, 2)], (2, 2)), 2, ends=(2.0, 3.0)) == (4.0, 5.0)
    # with an intercept, offsets are equal: here the released offset is at the lower bound
    assert _moved("linear_regression", _pair([(0, 0), (1, 0)], (0, 0)), 4) == (0.0, 1.0)


@pytest.mark.slow
@needs_diffprivlib
def test_a_regression_of_diffprivlib_without_intercept_does_not_clip() -> None:
    """For features and targets beyond the declared bounds, x^2 and x y move by 100^2."""
    rows = _pair([(0, 0), (100, 100)], (0, 0))
    for at, stated in ((0, 1.0), (1, 1.0), (2, 0.0)):
        assert _moved("linear_regression_no_intercept", rows, at) == (stated, 1e4)
        assert _moved("linear_regression", rows, at + 2) == (stated, 1.0)


@pytest.mark.slow
@needs_diffprivlib
def test_diffprivlib_counts_missing_records_in_the_sensitivity() -> None:
    """If m of 12 records are numbers, the mean moves by 1/m, but 1/12 is stated."""
    numbers = np.full((2, 12, 1), np.nan)
    numbers[:, :3], numbers[1, 0] = 0.0, 1.0
    assert _moved("nanmean", numbers, 0) == pytest.approx((1 / 12, 1 / 3))
    assert _moved("nanvar", numbers, 0) == pytest.approx((11 / 144, 2 / 9))  # (m - 1)/m^2
    assert _moved("nanstd", numbers, 0) == pytest.approx((11 / 144, 2 / 9))
    # in [2, 3] a missing record counts as 0 in a sum
    goes = np.full((2, 12, 1), 2.0)
    goes[0, 0], goes[1, 0] = 3.0, np.nan
    assert _moved("nansum", goes, 0, ends=(2.0, 3.0)) == (1.0, 3.0)


@pytest.mark.slow
@needs_diffprivlib
def test_naive_bayes_of_diffprivlib_takes_a_change_of_class_for_one_of_features() -> None:
    """A record of feature 3 leaves a class: its sum in [2, 3] moves by 3, but 3 - 2 is stated.

    A class is counted only if some record has it: one record decides which mechanisms run, with
    both classes declared.
    """
    both = [(2, 2), (2, 3)] * 6
    leaves = [[(3, 2), *both], [(3, 3), *both]]
    assert _moved("gaussian_nb", leaves, 2, ends=(2.0, 3.0)) == (1.0, 3.0)
    alone = _steps("gaussian_nb", _pair([(0, 0), (0, 1)], (0, 0)))
    assert [len(steps) for steps in alone] == [3, 6]
    assert [step["mechanism"] for step in alone[1][:2]] == ["GeometricTruncated"] * 2


@pytest.mark.slow
@needs_diffprivlib
def test_statistics_of_diffprivlib_move_as_far_as_they_state() -> None:
    for query in ("mean", "sum", "var", "std", "count_nonzero"):
        stated, moved = _moved(query, _pair([(0,), (1e6,)], (0,)), 0)
        assert moved == pytest.approx(stated)


@pytest.mark.slow
@pytest.mark.skipif(not python("opendp").exists(), reason="bash dev.sh libraries opendp")
@pytest.mark.parametrize("query", QUERIES["opendp"])
def test_opendp_states_what_a_replaced_record_moves(query: str) -> None:
    """Moves equal the stated sensitivities; a count states two records, but does not move."""
    datasets = [np.zeros((12, 1)), np.append(np.zeros(11), 1e6)[:, None]]
    runs = library("opendp").replay(query, datasets, ASK._replace(size=12)._asdict())
    (one, _), (other, _) = (steps for steps, _ in runs)
    gaps = np.abs(np.subtract(one["values"], other["values"]))
    change = {"count": 0.0}.get(query, one["stated"])
    assert (gaps.max() if one["norm"] == "max" else gaps.sum()) == pytest.approx(change)


@pytest.mark.slow
@pytest.mark.skipif(not python("pipeline-dp").exists(), reason="bash dev.sh libraries pipeline-dp")
@pytest.mark.parametrize(
    ("query", "lower", "stated", "moves"),
    [
        ("mean", 0.0, [1.0, 0.5], [1.0, 0.5]),
        ("sum", 0.0, [1.0], [1.0]),
        ("variance", 0.0, [1.0, 0.5, 0.5], [1.0, 0.5, 0.25]),
        ("variance", -1.0, [1.0, 1.0, 0.5], [1.0, 1.0, 1.0]),  # the mistake of ERRATA.md
    ],
)
def test_the_mechanisms_of_pipeline_dp(
    query: str, lower: float, stated: list[float], moves: list[float]
) -> None:
    """A person at the upper bound 1 is added to five at the lower bound; n, sum, sum of squares."""
    few = np.full((5, 1), lower)
    ask = {"epsilon": 1.0, "lower": lower, "upper": 1.0, "size": 5, "contributions": 1}
    runs = library("pipeline-dp").replay(query, [few, np.append(few, [[1.0]], axis=0)], ask)
    first, second = ([step for step in tape if step["mechanism"] == "Laplace"] for tape, _ in runs)
    pairs = zip(first, second, strict=True)
    found = sorted(
        (one["stated"], abs(other["values"][0] - one["values"][0])) for one, other in pairs
    )
    np.testing.assert_allclose(found, sorted(zip(stated, moves, strict=True)))
