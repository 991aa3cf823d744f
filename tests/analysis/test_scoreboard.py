"""What a run prints at its end."""

from __future__ import annotations

import re
import shlex

from dpbench.output.terminal import replay_line
from tests.bench import MINE, TINY, Bench


def test_a_sweep_without_claims_prints_errors_by_n(bench: Bench) -> None:
    bench.write(lambda spec: spec.pop("claims"))
    bench.done()
    lines = bench.read("scoreboard.txt").splitlines()
    at = lines.index("Errors on two_point_k2: the 0.9 quantile, worst over its laws")
    assert lines[at + 1].split() == ["estimator", "privacy", "n=100,000", "n=1e+08"]
    summary = bench.table().query("family == 'two_point_k2' and estimator == 'minimax'")
    worst = summary.groupby("n")["q90"].max()
    (row,) = [one for one in lines[at + 2 : at + 5] if one.startswith("minimax")]
    assert row.split() == ["minimax", "eps=0.1", *(f"{q:.3g}" for q in worst)]


def test_a_failure_now_and_then_is_replayed_by_what_is_printed(bench: Bench) -> None:
    """In the second of two blocks, by its data; of two runs together each has its own command."""
    often = "if clipped[0] > 0: raise ArithmeticError('no luck')"
    part = {**TINY["parts"]["tails"], "trials": 800}
    bench.odd(often, lambda spec: (spec.update(parts={"tails": part}), spec.pop("claims")))
    both = bench.raw(*bench.argv("--multirun", "seed=1,2", "out=out-${seed}", MINE))
    printed = re.findall(r"first failure's traceback: (.*)", both.out)
    assert len(printed) == 2
    for seed, command in enumerate(printed, 1):
        failed = len(bench.manifest(f"out-{seed}")["failures"])
        assert 0 < failed < len(bench.table(out=f"out-{seed}"))
        replayed = bench.raw(*shlex.split(command)[3:])
        assert (replayed.code, "no luck" in replayed.err) == (1, True)
    assert replay_line(["a=1", "track=check"], "f").endswith("dpbench a=1 replay=f")


def test_fewer_trials_say_how_to_see_more_again(bench: Bench) -> None:
    bench.done()
    before = bench.results()
    fewer = bench.done("trials=4")
    (line,) = [one for one in fewer.out.splitlines() if "showed" in one]
    assert line.startswith("'out' showed 40 trials and shows 4 from now on")
    shown = bench.read("scoreboard.txt")
    assert ", visible -\n" in shown
    assert "\n-: too few trials (under 36, 72 if " in shown
    assert "nan" not in shown
    assert bench.results() != before
    assert "showed" not in bench.done("trials=4").out
    again = bench.raw(*shlex.split(line.partition("to show them again: ")[2])[3:])
    assert (again.code, "showed" in again.out, bench.counts()[0]) == (0, False, 0)
    assert bench.results() == before
