"""Error messages of one line."""

from __future__ import annotations

import pickle

import pytest

from dpbench.errors import ConfigError, ErrorCollector, choose_from, reject_unknown_keywords


def test_a_refusal_is_one_line_that_no_terminal_obeys() -> None:
    assert str(ConfigError("a\n  b\x1b[31m\u202e \ud800")) == "a b?[31m? ?"


def test_the_name_that_was_meant_comes_first() -> None:
    known = ["clipped_mean", "median"]
    every = "choose from clipped_mean, median"
    assert choose_from("medain", known) == f"did you mean 'median'? {every}"
    assert choose_from("clip", known) == f"did you mean 'clipped_mean'? {every}"
    for name in ("nothing_like_it", "", 3):
        assert choose_from(name, known) == every


def test_other_arguments_are_refused() -> None:
    def plan(*, n: int, epsilon: float, **others: object) -> None: ...

    reject_unknown_keywords({}, plan)
    with pytest.raises(ConfigError, match=r"^eps: no such argument; did you mean 'epsilon'\? "):
        reject_unknown_keywords({"eps": 1}, plan)


def test_several_errors_are_collected_and_raised_as_one() -> None:
    errors = ErrorCollector()
    errors.raise_all()
    for texts in (("a: 1",), ("b: 2\nwrapped", "c: 3"), ("a: 1",)):
        with errors.step():
            raise ConfigError(*texts)
    with errors.step():
        pass
    with pytest.raises(ConfigError) as caught:
        errors.raise_all()
    assert caught.value.lines == ("a: 1", "b: 2 wrapped", "c: 3")
    assert str(caught.value) == "a: 1\nb: 2 wrapped\nc: 3"
    assert pickle.loads(pickle.dumps(caught.value)).lines == caught.value.lines
    with pytest.raises(ValueError, match="other"), errors.step():
        raise ValueError("other")
