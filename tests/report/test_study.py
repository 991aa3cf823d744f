"""A sweep, checked as a whole: every key that cannot be used, in one line."""

from __future__ import annotations

from typing import Any

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.study import Study
from tests.bench import FIGURE, REQUEST, TINY, changed

APPROX = {"kind": "approx_dp", "epsilon": 1}
RATIO = {"theorem": "noise_ratio", "predicted": 1.0}
RADIUS = {"theorem": "naive_radius"}
GRID = {"low": 10, "high": 100, "points": 2}
MANY = {"families": "tails", "trials": 10_000_000}
NESTED = {"theorem": "heavy_tail_alpha", "tolerance": 0, "reason": "few trials"}
AGAINST: dict[str, Any] = {
    "kind": "against_parameter", "families": "tails", "estimators": "minimax",
    "parameter": "epsilon", "n": 1000,
}  # fmt: skip

# The key below `sweep`, what it is given, what the line says after `sweep.KEY`, other words.
STUDIES: list[tuple[str, Any, str, list[str]]] = [
    ("budgets.pure.epsilon", 0, ": 0: ", ["greater"]),
    ("budgets.pure.epsilon", "abc", ": 'abc': ", ["number"]),
    ("budgets.pure.epsilon", True, ": True: ", ["not a number"]),
    ("budgets.pure.epsilon", [1, 0], ": 0: ", []),
    ("budgets.pure.epsilon", [], ": []: ", ["empty"]),
    ("budgets.pure.eps", 3, ": no such key", ["choose from epsilon"]),
    ("budgets.pure.kind", "nope", ": 'nope': ", ["pure_dp, zcdp"]),
    ("budgets.b", {**APPROX, "delta": 0}, ".delta: 0: ", ["greater than or equal to 2.2"]),
    ("budgets.b", {**APPROX, "delta": 1}, ".delta: 1: ", ["less than 1"]),
    ("families.two_point.k", 1.5, ": 1.5: ", ["2"]),
    ("families.tails.standardised_moment", 5, "", ["sweep.families.tails: ", "5.0 is infinite"]),
    ("families.tails.kind", "location_scale", ": 'location_scale': choose from ", []),  # abstract
    ("estimators.minimax.k", 1, ": 1: ", ["2"]),
    ("estimators.minimax.k", 3, "", ["parts.tails.families: 'tails': minimax needs a moment of"]),
    ("estimators.rate.kind", "nope", ": 'nope': ", ["clipped_mean", "trimmed_mean"]),
    ("estimators.twice", {"kind": "ksu20_mean", "scale": 1}, ".radius: this key is required", []),
    ("parts", {}, ": at least one", []),
    ("parts.worst.trials", 10**8, ": 100000000: ", ["10000000"]),
    ("parts.tails", {**MANY, "n": [1e5, 3e5]}, ".trials: 10000000: ", ["1000000 batches"]),
    ("parts.worst.n", [2e15], ".0: 2000000000000000.0: ", ["1000000000000000"]),
    ("parts.worst.n", {**GRID, "points": 10**6}, ".points: 1000000: ", ["10000"]),
    ("families.two_point.location", [*range(10_001)], ": more than 10000 entries", []),
    ("claims.alpha.theorem", {}, ".source: this key is required", []),
    ("figures.x", {**FIGURE, "ylabel": r"$\frac$"}, r".ylabel: '$\\frac$': not valid", []),
    ("sample_complexity.a", {**REQUEST, "points": 10**4}, ".points: 10000: ", ["1000"]),
    ("sample_complexity.a", {**REQUEST, "trials": 10**8}, ".trials: 100000000: ", []),
    ("parts.worst.trails", 3, ": no such key", ["choose from", "trials"]),
    ("parts.worst.n", [1e25], ".0: 1e+25: ", []),
    ("parts.worst.n", [], ": []: ", ["at least 1"]),
    ("parts.worst.n", {**GRID, "nope": 1}, ".nope: no such key; choose from low, high, points", []),
    ("parts.worst.estimators", ["nope"], ": 'nope': ", ["minimax, rate, mean"]),
    ("parts.worst.families", {"two_point": {"k": 4}}, ".two_point.k: 4: ", ["choose from 2, 3"]),
    ("parts.worst.budgets", {"pure": {"epsilon": 0.3}}, ".pure.epsilon: 0.3: ", ["0.1"]),
    ("trials", 20, ": no such key here; write parts.LABEL.trials", []),
    ("estimators.rate.kind", "normal", ": 'normal': ", ["; to search descriptions, type --help"]),
    ("fail_on_inconsistency", True, ": no such key", ["choose from", "fail_on_inconsistent"]),
    ("name", "../x", ": '../x': ", []),
    ("claims.alpha.theorem", "nope", ": 'nope': ", ["heavy_tail_alpha"]),
    ("claims.alpha.tolerance", 0, ": 0: ", []),
    ("claims.alpha.denominator", "mean", ": no such key", ["choose from", "n_max"]),
    ("claims.alpha.families", "tails", "", ["sweep.claims.alpha: one n", "two or more"]),
    ("claims.alpha.n_max", 10, "", ["sweep.claims.alpha.n_min: 1: ", "no n"]),
    ("claims.alpha.predicted", 1.0, "",
     ["sweep.claims.alpha: predicted is only for", "noise_ratio"]),
    ("claims.alpha", {**RADIUS, "alpha": 1.0}, ": the sweep gives no list of ", []),
    ("claims.alpha", {**RADIUS, "alpha": [1.0, 2.0]}, ".alpha: [1.0, 2.0]", ["a valid number"]),
    ("claims.alpha.theorem", "pure_dimension", "", ["fewer than two values of d on two_point"]),
    ("claims.alpha", RATIO, ".denominator: this key is required", []),
    ("claims.alpha", {**RATIO, "denominator": "rate"}, ".denominator: 'rate': not among", []),
    ("parts.worst.claims", {"alpha": TINY["claims"]["alpha"]}, "", ["sweep.claims.alpha", "too"]),
    ("parts.worst.claims", {"b": NESTED}, ".b.tolerance: 0: ", []),
    ("figures.x", {**FIGURE, "kind": "nope"}, ".kind: 'nope': ", ["error_against_n"]),
    ("figures.x", {**FIGURE, "metric": "nope"}, ".metric: 'nope': ", ["q90"]),
    ("figures.x", {"kind": "thresholds", "request": "nope"}, ".request: 'nope': ", []),
    ("figures.x", {"kind": "exponents", "claims": "nope"}, ".claims: 'nope': ", ["alpha"]),
    ("figures.x", {**AGAINST, "parameter": "groups"}, ".parameter: 'groups': ", ["epsilon"]),
    ("figures.x", {**AGAINST, "n": 17}, ".n: 17: ", []),
    ("figures", {"../../evil": FIGURE}, ": '../../evil': ", []),
    ("sample_complexity.a", {**REQUEST, "families": "nope"}, ".families: 'nope': ", ["tails"]),
    ("figures.x", {"kind": "exponents", "claims": "!*"}, ".claims: ['!*']: ", ["no claim is left"]),
    ("sample_complexity.a", {**REQUEST, "low": 1e-200}, ".low: 1e-200: ", ["greater"]),
    ("sample_complexity.a", {**REQUEST, "low": 1}, ": low is 1.0, above high", []),
    ("sample_complexity.a", {**REQUEST, "nope": 1}, ".nope: no such key", ["beta"]),
]  # fmt: skip


def refused(spec: Any) -> str:
    with pytest.raises(ConfigError) as error:
        from_mapping(Study, spec, "sweep").plan()
    return str(error.value)


def test_the_tiny_sweep_itself_is_usable() -> None:
    for key, value in (("name", "tiny"), ("figures.x", FIGURE), ("figures.x", AGAINST)):
        assert len(from_mapping(Study, changed(key, value), "sweep").plan().cells) == 5
    spec = changed("sample_complexity.a", REQUEST)
    spec["parts"]["tails"]["n"] = [10, 1000]
    assert from_mapping(Study, spec, "sweep").plan()
    assert from_mapping(Study, changed("parts.worst.n", GRID), "sweep").plan()


@pytest.mark.parametrize(
    ("key", "value", "after", "words"), STUDIES, ids=[f"{k}-{v}" for k, v, *_ in STUDIES]
)
def test_a_study(key: str, value: Any, after: str, words: list[str]) -> None:
    line = refused(changed(key, value))
    assert "\n" not in line
    assert line.startswith(f"sweep.{key}{after}" if after else "sweep.")
    assert not [word for word in words if word not in line], line


LABELS = [
    "", "_a", "-a", "=cmd", "[/x]", ":smile:", r"$\frac$", "a b", "a/b", "../a", "a\n", "\x1b[31m",
    "<b>", "a|b", "a`b", "é", "\ud800", "a" * 101,
]  # fmt: skip

ALLOWED = "up to 100 letters, digits and _ . = + -, a letter or digit first"


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_text_everywhere(label: str) -> None:
    """In tables, legends, file names, on terminals: what means something there is refused."""
    sections = ("families", "estimators", "budgets", "parts", "claims", "figures")
    for section in (*sections, "sample_complexity", "parts.worst.claims", "parts.worst.figures"):
        of_part, _, name = section.rpartition(".")
        entry: Any = next(iter(TINY.get(name, {}).values()), {})
        spec = changed(f"{of_part}.{name}" if of_part else name, {label: entry})
        line = refused(spec)
        assert line.startswith(f"sweep.{section}: "), line
        assert line.endswith(": a label has " + ALLOWED)
        assert line.isprintable()
    assert refused(changed("name", label)).startswith("sweep.name: ")


def test_a_label_with_values_is_a_label() -> None:
    values = ["[/x]", "y"]
    spec = changed("estimators.outer", {"kind": "coordinate_wise", "base": values})
    assert refused(spec).startswith("sweep.estimators: 'outer_base_[/x]': a label has ")


def test_a_study_that_is_no_mapping_or_has_too_little() -> None:
    for given in (None, 3, [1]):
        told = "of type list" if isinstance(given, list) else repr(given)
        assert refused(given) == f"sweep: {told}: not a mapping; write {{KEY: VALUE}}"
    for key in ("families", "estimators", "budgets", "parts"):
        spec = {name: one for name, one in TINY.items() if name != key}
        assert refused(spec) == f"sweep.{key}: this key is required"


def test_kinds_that_were_meant() -> None:
    for section, name, meant in (
        ("estimators", "tuned_clip_mean", "tuned_clipped_mean"),
        ("families", "two_point_famly", "two_point_family"),
        ("families", "studnt_t", "student_t"),
        ("budgets", "pure", "pure_dp"),
    ):
        spec = {**TINY, section: {"x": {"kind": name}}}
        with pytest.raises(ConfigError, match=rf"kind: '{name}': did you mean '{meant}'\? choose"):
            from_mapping(Study, spec, "sweep")
