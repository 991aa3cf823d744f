"""Streams are named by what they are for."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

from dpbench.seeds import check_generator, digest, stream


def test_a_stream_is_that_of_its_name() -> None:
    """Whatever was drawn before; the entropy is SHA-256 of the names as JSON."""
    name = ("noise", 3, "é")
    text = '["noise", 3, "\\u00e9"]'
    assert digest(*name) == hashlib.sha256(text.encode()).hexdigest()
    first = stream(*name).random(5)
    random.seed(1)
    np.testing.assert_array_equal(stream(*name).random(5), first)
    entropy = np.random.SeedSequence(int(digest(*name), 16))
    np.testing.assert_array_equal(np.random.Generator(np.random.SFC64(entropy)).random(5), first)


def test_other_names_have_other_streams() -> None:
    names: list[tuple[str | int, ...]] = [("ab", "c"), ("a", "bc"), ("abc",), ("1",), (1,), ()]
    assert len({stream(*one).random() for one in names}) == len(names)


@pytest.mark.parametrize("rng", [0, None, np.random.RandomState(0), np.random])
def test_a_seed_is_no_generator(rng: object) -> None:
    check_generator(np.random.default_rng(0))
    with pytest.raises(TypeError, match="give a generator"):
        check_generator(rng)
