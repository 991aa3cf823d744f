"""Sentences of a printed plan that explain its numbers."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dpbench
from dpbench.planner.page import page_lines

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
