"""The tables of verdicts: what fails a run, and what each looks like, agree."""

from __future__ import annotations

import pytest

from dpbench.app import applications
from dpbench.audit.verdicts import AUDIT, CONTROLS
from dpbench.libraries.verdicts import HOSTILE
from dpbench.output import verdicts
from dpbench.output.verdicts import (
    BAD,
    CLAIMS,
    FACTORS,
    GOOD,
    PRINTED,
    SEVERITY,
    Verdict,
    any_fails,
    failing_words,
    page_tones,
)
from dpbench.tracking.verdicts import TRACKING

SUBJECTS = (CLAIMS, AUDIT, CONTROLS, TRACKING, FACTORS, HOSTILE)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_ranks_begin_with_the_worst(subject: dict[str, Verdict]) -> None:
    ordered = sorted(subject.values(), key=lambda one: one.rank)
    assert [one.rank for one in ordered] == list(range(len(subject)))
    bad = [one.tone is BAD for one in ordered]
    assert bad == sorted(bad, reverse=True)
    assert all(one.tone is BAD for one in ordered if one.fails)
    assert set(page_tones(subject).values()) <= set(SEVERITY)


def test_words_that_fail_a_run() -> None:
    assert failing_words(CLAIMS) == ["inconsistent"]
    assert failing_words(AUDIT) == ["refuted", "failed"]
    assert failing_words(CONTROLS) == ["not refuted", "failed"]
    assert failing_words(TRACKING) == ["worse", "gone"]
    assert not failing_words(FACTORS)


def test_a_printed_word_has_one_colour() -> None:
    printed = [*PRINTED, *(subject for app in applications() for subject in app.verdicts())]
    colours: dict[str, set[str]] = {}
    for one in (one for subject in printed for one in subject.values()):
        colours.setdefault(one.text, set()).add(one.tone.terminal)
    assert all(len(found) == 1 for found in colours.values())
    assert GOOD.figure != BAD.figure != verdicts.CALM.figure


def test_a_word_that_no_table_has_fails_a_run() -> None:
    assert not any_fails(AUDIT, ["not refuted", "not refuted"])
    for word in ("refuted", "failed", "odd", "nan"):
        assert any_fails(AUDIT, ["not refuted", word])
