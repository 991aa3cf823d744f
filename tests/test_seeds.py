"""Random streams that are named by their purpose."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml

from dpbench.distributions.base import Distribution
from dpbench.estimators.base import Estimator
from dpbench.privacy.budgets import Budget
from dpbench.registry import validated
from dpbench.seeds import (
    canonical,
    check_generator,
    digest,
    stream,
    stream_name,
    stream_parameters,
)
from dpbench.suite.problems import ProblemClass
from dpbench.theory.families import Family


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


def test_the_names_in_streams_are_fixed() -> None:
    """Check the names and parameters of every class that configurations can name.

    Add an entry for a new class or parameter. Changing an entry moves every number of the class:
    keep the old name in `stream_name` or `first_names`.
    """
    registries: list[type[Any]] = [Budget, Distribution, Estimator, Family]
    classes = {base.__name__: list(base.kinds().values()) for base in registries}
    classes["nested"] = [ProblemClass]
    actual = {
        registry: {
            stream_name(one): list(stream_parameters(one).values())
            for one in ours
            if one.__module__.startswith("dpbench.")
        }
        for registry, ours in classes.items()
    }
    listed = yaml.safe_load((Path(__file__).parent / "stream_names.yaml").read_text("utf-8"))
    assert actual == listed


@validated
class Renamed:
    stream_name: ClassVar[str] = "Old"
    first_names: ClassVar[dict[str, str]] = {"threshold": "clip_at"}
    added_parameters: ClassVar[dict[str, float]] = {"share": 1.0}
    threshold: float
    share: float = 1.0


@validated
class Holder:
    parts: dict[str, Any]


def test_the_order_of_a_mapping_is_part_of_a_name() -> None:
    text = 'Holder{"parts": [["b", {"Old": {"clip_at": 1.0}}], ["a", 2]]}'
    assert canonical(Holder(parts={"b": Renamed(threshold=1.0), "a": 2})) == text
    assert canonical(Holder(parts={"a": 2, "b": Renamed(threshold=1.0)})) != text


@validated
class Child(Renamed):
    inner: Renamed | None = None


def test_a_renamed_class_keeps_its_streams() -> None:
    """Check that a subclass has another name, but inherits first names of parameters."""

    assert canonical(Renamed(threshold=2.0)) == 'Old{"clip_at": 2.0}'
    assert canonical(Renamed(threshold=2.0, share=0.5)) == 'Old{"clip_at": 2.0, "share": 0.5}'
    child = Child(threshold=2.0, inner=Renamed(threshold=1.0))
    assert canonical(child) == 'Child{"clip_at": 2.0, "inner": {"Old": {"clip_at": 1.0}}}'
