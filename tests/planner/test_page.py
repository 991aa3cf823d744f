"""Sentences of a printed plan that explain its numbers."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

import dpbench
from dpbench.planner import page as page_module
from dpbench.planner.page import page_lines
from dpbench.planner.ranking import RankedEstimator
from dpbench.theory.bounds.class_bound import ErrorBound

LOG_NORMAL = {"kind": "log_normal", "scale": 50, "sigma": 0.7}
AGES = {"kind": "gaussian", "location": 40, "scale": 15}


def page(**question: Any) -> str:
    return "\n".join(page_lines(dpbench.plan(n=500, epsilon=1, **question)))


def test_a_smaller_error_of_another_clip_is_explained() -> None:
    ages = page(law=AGES, lower=0, upper=120)
    rows = re.findall(r"^(best|half as wide) .*\] +(\S+) +(\S+) ", ages, re.MULTILINE)
    (_, _, best), (_, q90, guarded) = rows
    assert f"half as wide: q90 is {q90} only because the two biases cancel for exactly" in ages
    assert f"For a law that is less symmetric it may be {guarded}, so this clip" in ages
    assert float(guarded) > float(best)
    assert "cancel for exactly" not in page(law=LOG_NORMAL, lower=0, upper=1000)


def test_a_clip_of_nothing_but_its_middle_is_explained() -> None:
    law = {"kind": "two_point", "p": 0.01, "k": 2}
    lines = "\n".join(page_lines(dpbench.plan(n=30, epsilon=0.1, law=law)))
    assert "half as wide: so narrow that it releases its middle" in lines


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            {"law": LOG_NORMAL, "lower": 0, "upper": 1000},
            "this one law is easier than the worst of them.",
        ),
        ({"law": AGES, "lower": 0, "upper": 120}, None),
    ],
)
def test_errors_below_the_bound_of_a_class_are_explained(
    question: dict[str, Any], words: str | None
) -> None:
    made = dpbench.plan(n=500, epsilon=1, **question)
    below = made.rows[0].q90 < made.limit[0].value
    assert below == (words is not None)
    text = " ".join(" ".join(page_lines(made)).split())
    assert ("Errors below it are possible here" in text) == below
    assert words is None or words in text


@pytest.mark.parametrize(
    "question",
    [
        {"law": AGES, "lower": 0, "upper": 120},
        {"k": 3, "scale": 9, "upper": 7},
        {"k": 3, "scale": 9e-5, "upper": 7e-5},
    ],
)
def test_the_printed_errors_are_those_of_the_clips(question: dict[str, Any]) -> None:
    made = dpbench.plan(**{"n": 500, "epsilon": 1, "lower": 0} | question)
    head, *lines = page_module._errors(made)
    assert head.split()[1:3] == (["q90", "guarded"] if "law" in question else ["q50", "q90"])
    for line, (name, clip) in zip(lines, made.clips.items(), strict=False):
        error = made.error(*clip)
        first = error.q90 if "law" in question else error.q50
        second = error.q90_without_cancellation if "law" in question else error.q90
        bias = error.bias if abs(error.bias) > 1e-6 * error.q90 else 0.0
        wanted = *(f"{x:.3g}" for x in (first, second, error.sampling)), f"{bias:.2g}"
        assert line.startswith(name)
        assert line.split()[-5:] == [*wanted, f"{error.noise:.3g}"]
        ends = re.findall(r"\[(\S+), (\S+)\]", line)[0]
        assert [float(end) for end in ends] == pytest.approx(clip, abs=1e-3 * (clip[1] - clip[0]))


def test_the_printed_needs_are_those_of_the_plan() -> None:
    made = dpbench.plan(n=200, epsilon=1, lower=0, upper=1, alpha=0.08)
    told = " ".join(page_module._needs(made))
    budget = made.privacy(0.08).named_amounts["epsilon"]
    assert f"A q90 of 0.08 needs {made.records(0.08)} records at this budget" in told
    assert told.endswith(f"with 200 records it needs epsilon = {budget:.4g}.")
    out = dpbench.plan(n=200, epsilon=1, delta=1e-6, lower=0, upper=1, alpha=0.01)
    assert "with 200 records it is not reached with any epsilon." in " ".join(
        page_module._needs(out)
    )


def test_the_printed_ranking_and_limit_by_hand() -> None:
    def row(name: str, assumes: str, q90: float, how: str, trials: int) -> RankedEstimator:
        by: Any = None
        return RankedEstimator(name, assumes, q90, 0.9 * q90, 1.5 * q90, how, trials, by)

    rows = [
        row("a", "records within the clip", 0.25, "exact", 0), row("b", "nothing", 0.5, "by", 400),
        row("c", "nothing", 0.75, "by", 100), row("d", "nothing", math.inf, "by", 400),
    ]  # fmt: skip
    plan: Any = SimpleNamespace(problem=None, rows=rows, law=None)
    lines = list(page_module._ranking(plan))
    assert lines[2].split() == ["a", "records", "within", "the", "clip", "0.25", "computed"]
    assert lines[3].split() == ["b", "nothing", "0.5", "0.45", "..", "0.75"]
    assert lines[6:] == [
        "Without bounds or moments, take b: q90 0.5.",
        "c: 100 simulated releases (slow); others: 400.",
    ]
    for bound, below in ((0.24, False), (0.26, True)):
        plan.limit = ErrorBound(bound, "two-point"), "laws"
        told = " ".join(" ".join(page_module._limit(plan)).split())
        assert f"has a q90 below {bound:g} for all laws." in told
        assert ("Errors below it are possible here" in told) == below
    plan.limit = ErrorBound(math.inf, ""), "laws"
    assert next(iter(page_module._limit(plan))).startswith("Too few records at this budget")
