"""A run into the folder of a run with another configuration says so before it computes."""

from __future__ import annotations

import pytest

from dpbench.jobs.replaced_run import MAX_KEYS, differences, replaced_report
from dpbench.output.run_folder import read_manifest
from tests.bench import Bench

LINE = "'out': replaces the report of another configuration; out=DIR keeps both\n"


def test_another_configuration_is_told_before_it_is_computed(bench: Bench) -> None:
    first = bench.done()
    assert "replaces the report" not in first.out
    assert "replaces the report" not in bench.done().out  # a rerun
    told = bench.done("sweep.budgets.pure.epsilon=0.2", "seed=1").out
    assert told.startswith(f"{LINE}  sweep.budgets.pure.epsilon: 0.1, now 0.2\n  seed: 0, now 1\n")
    assert "replaces" in bench.done().out  # back
    assert "replaces" not in bench.done("seed=1", "out=other").out


def test_trials_and_processes_are_no_other_configuration(bench: Bench) -> None:
    bench.done()
    for word in ("trials=50", "n_jobs=2", "resume=false"):
        assert "replaces the report" not in bench.done(word).out


@pytest.mark.parametrize(
    ("number", "last"), [(0, []), (1, ["  and 1 more key"]), (2, ["  and 2 more keys"])]
)
def test_no_key_is_left_unsaid(number: int, last: list[str]) -> None:
    values = range(MAX_KEYS + number)
    before, after = ({"sweep": {f"k{i}": i + j for i in values}} for j in (0, 1))
    lines = differences(before, after, "{}, now {}")
    assert lines == [*(f"  sweep.k{i}: {i}, now {i + 1}" for i in range(MAX_KEYS)), *last]


def test_many_keys_are_counted(bench: Bench) -> None:
    bench.done()
    bench.write(lambda spec: spec["budgets"].update(
        {f"b{i}": {"kind": "pure_dp", "epsilon": 1 + i} for i in range(4)}
    ))  # fmt: skip
    config = read_manifest(bench.folder / "out")["configuration"]
    lines = replaced_report(bench.folder / "out", {**config, "sweep": {"name": 90 * "x"}})
    assert lines[-1].endswith(" more keys")
    assert len(lines) == 2 + 5
    assert max(map(len, lines[1:])) <= 80
    assert "  sweep.budgets.b0.epsilon: not set, now 1\n" in bench.done().out
    assert replaced_report(bench.folder / "nowhere", config) == []
