"""Tapes that record the inputs of mechanisms and replay their outputs."""

from __future__ import annotations

import numpy as np

from dpbench.privacy import ApproxDP, Ledger, PureDP
from dpbench.privacy.tape import Tape
from tests.support import rng

PURE = PureDP(1.0)
ZEROS, VECTORS = np.zeros(500), np.zeros((500, 3))


def test_parts_have_the_factor_and_the_tape() -> None:
    tape = Tape()
    ledger = Ledger(ApproxDP(1.0, 1e-6), rng(), noise_factor=0.5, tape=tape)
    first, second, third = ledger.split(0.25, 0.25, 0.25)
    first.allow_failure(1e-8)
    parts = [second.repeated(3), *third.parallel(2)]
    for part in parts:
        assert (part.noise_factor, part.tape) == (0.5, tape)
        part.add_noise(ZEROS, 1.0)
    steps = ["pay", *["pay", "add_noise"] * 3]
    assert [step.mechanism for step in tape.steps] == steps


def test_a_tape_replays_an_earlier_run() -> None:
    first = Tape()
    Ledger(PURE, rng(), tape=first).add_noise(ZEROS, 1.0)
    again = Tape(first.steps)
    released = Ledger(PURE, np.random.default_rng(1), tape=again).add_noise(ZEROS + 3, 1.0)
    np.testing.assert_array_equal(released, first.steps[1].released)
    np.testing.assert_array_equal(again.steps[1].values, ZEROS + 3)
    other = Tape(first.steps)  # for values of another shape
    released = Ledger(PURE, rng(), tape=other).add_noise(ZEROS[:2], 1.0)
    np.testing.assert_array_equal(released, other.steps[1].released)


def test_a_replay_has_the_chance_and_the_words_of_the_earlier_run() -> None:
    """Check outputs and the generator after mechanisms that draw different amounts of numbers."""
    first = Tape()
    ledger = Ledger(PURE, rng(), tape=first)
    ledger.pay()
    told = ledger.record_output(ledger.rng.random(2))
    drawn = ledger.rng.random()
    again = Tape(first.steps)
    other = Ledger(PURE, rng(), tape=again)
    other.pay()
    np.testing.assert_array_equal(other.record_output(other.rng.random(20)[-2:]), told)
    np.testing.assert_array_equal(again.steps[0].output, told)
    assert other.rng.random() == drawn
    once = Tape(first.steps)
    another = Ledger(PURE, rng(), tape=once)
    another.pay()
    assert another.record_output(another.rng.random(3)).shape == (3,)  # the shape differs


def test_a_choice_by_other_weights_is_not_replayed() -> None:
    """Check that other weights make another mechanism, whose choice differs."""
    scores, weights = np.tile([0.0, 0.0], (9, 1)), np.array([0.0, -1e9])
    first = Tape()
    Ledger(PURE, rng(), tape=first).exponential(scores, 1.0, weights)
    for other, chosen in ((weights, 0), (weights[::-1], 1)):
        tape = Tape(first.steps)
        found = Ledger(PURE, rng(1), tape=tape).exponential(scores, 1.0, other)
        np.testing.assert_array_equal(found, chosen)


def test_code_that_changes_its_output_leaves_the_tape_as_it_was() -> None:
    tape = Tape()
    ledger = Ledger(PURE, rng(), tape=tape)
    ledger.pay("own noise")
    output = ledger.record_output(np.arange(3.0))
    output += 5.0
    assert tape.steps[-1].output is not None
    assert tape.steps[-1].output.tolist() == [0.0, 1.0, 2.0]
