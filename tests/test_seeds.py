"""Random streams that are named by their purpose."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
import pytest

from dpbench.registry import validated
from dpbench.seeds import (
    canonical,
    check_generator,
    digest,
    stream,
)


def test_a_stream_is_that_of_its_name() -> None:
    """Check that earlier draws do not matter; the entropy is SHA-256 of the names as JSON."""
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
    with pytest.raises(TypeError, match="not a generator"):
        check_generator(rng)


@validated
class Clip:
    threshold: float
    share: float = 1.0


@validated
class Holder:
    parts: dict[str, Any]


def test_the_order_of_a_mapping_is_part_of_a_name() -> None:
    text = 'Holder{"parts": [["b", {"Clip": {"threshold": 1.0}}], ["a", 2]]}'
    assert canonical(Holder(parts={"b": Clip(threshold=1.0), "a": 2})) == text
    assert canonical(Holder(parts={"a": 2, "b": Clip(threshold=1.0)})) != text


@validated
class Child(Clip):
    inner: Clip | None = None


def test_a_further_parameter_with_its_default_moves_no_stream() -> None:
    assert canonical(Clip(threshold=2.0)) == 'Clip{"threshold": 2.0}'
    assert canonical(Clip(threshold=2.0, share=1)) == 'Clip{"threshold": 2.0}'
    assert canonical(Clip(threshold=2.0, share=0.5)) == 'Clip{"share": 0.5, "threshold": 2.0}'
    child = Child(threshold=2.0, inner=Clip(threshold=1.0))
    assert canonical(child) == 'Child{"inner": {"Clip": {"threshold": 1.0}}, "threshold": 2.0}'
