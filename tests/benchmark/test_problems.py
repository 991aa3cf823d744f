"""The problems are frozen, and each can be scored."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dpbench.benchmark.problems import MEAN_BENCHMARK, REAL_BENCHMARK, Benchmark, read_benchmark
from dpbench.distributions.real_column import column_names
from dpbench.package import conf_folder
from dpbench.registry import ConfigError
from dpbench.seeds import digest

FILE = conf_folder() / "benchmark" / f"{MEAN_BENCHMARK}.yaml"
# Of all ids and digests: what is published under the name of this version.
PUBLISHED = {
    "dpbench-mean-v2": "c53556968e9ee9dc", "dpbench-real-v2": "8544fa6b1d9c1c58",
}  # fmt: skip


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return read_benchmark()


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_problems_are_these(name: str) -> None:
    """What may change in them is nothing: a new problem is one of another benchmark."""
    problems = read_benchmark(name).problems
    assert digest([[one.id, one.digest] for one in problems])[:16] == PUBLISHED[name]


def test_the_name_in_the_file_is_that_of_its_problems(tmp_path: Path) -> None:
    """The same problems without their places are others."""
    text = with_one("gauss-n100-pure1")
    (tmp_path / FILE.name).write_text(text.replace("placed: true", "placed: false"))
    with pytest.raises(ConfigError, match=r"its digest is \w+, not \w+"):
        read_benchmark(folder=tmp_path)


def with_one(name: str) -> str:
    """The file with one problem alone."""
    head, problems = FILE.read_text().split("problems:\n")
    (line,) = re.findall(rf"  - \{{id: {re.escape(name)},.*\n", problems)
    return f"{head}problems:\n{line}"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("binary-n300-pure0.1", "n: 300,", "n: 301,"),
        ("binary-n300-pure0.1", "p: 0.5}", "p: 0.44}"),
        ("private-n-n300-pure0.1", ", neighbours: add_remove", ""),
        ("gauss-heights-n1000-pure0.5", "radius: 300", "radius: 400"),
        ("gauss-n100-pure1", "[400, 100]", "[401, 100]"),
        ("gauss-n100-pure1", "id: gauss", "id: gauss2"),
        ("local-binary-n3000-pure1", ", local: true", ""),
        ("moments2-n300-pure1", "c: [1, 2, 3]", "c: [1, 2]"),
    ],
)
def test_an_edited_problem_is_refused(tmp_path: Path, name: str, old: str, new: str) -> None:
    text = with_one(name)
    (tmp_path / FILE.name).write_text(text)
    assert [one.id for one in read_benchmark(folder=tmp_path).problems] == [name]
    (tmp_path / FILE.name).write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=r"its digest is \w+, not \w+: a problem is never edited"):
        read_benchmark(folder=tmp_path)


def test_two_problems_of_one_id_are_refused(tmp_path: Path) -> None:
    text = with_one("binary-n300-pure0.1")
    (tmp_path / FILE.name).write_text(text + text.splitlines()[-1])
    with pytest.raises(ConfigError, match="two problems have this id"):
        read_benchmark(folder=tmp_path)


def test_every_problem_has_a_bound_that_what_is_known_does_not_beat(benchmark: Benchmark) -> None:
    """Finite, and far below the radius: one who answers the middle of it is no better."""
    for seed in range(5):
        for one in benchmark.at_places(seed).problems:
            assert 0 < one.bound.value < np.inf, one.id
            assert one.bound.value < 0.05 * (one.known.radius or np.inf), one.id
            means = [np.linalg.norm(law.mean) for law in one.members.values()]
            assert max(means) <= (one.known.radius or np.inf), one.id


def test_the_problems_are_of_all_kinds(benchmark: Benchmark) -> None:
    kinds = {(one.budget.notion, one.budget.neighbours) for one in benchmark.problems}
    notions = ("pure", "zcdp", "gdp", "approx")
    assert kinds == {(a, b) for a in notions for b in ("replace", "add_remove")}
    for records in ("binary", "gaussian", "moments"):
        of = [one for one in benchmark.problems if one.known.records == records]
        assert {one.budget.notion for one in of if not one.local and one.d == 1} == set(notions)
        assert any(one.local for one in of)
    assert {one.d for one in benchmark.problems} == {1, 16}
    # an answer to a class of moments is judged by the worst of a family, not by an easier law
    classes = [one for one in benchmark.problems if one.known.records == "moments"]
    assert all(len(one.members) > 1 for one in classes)


def test_what_is_told(benchmark: Benchmark) -> None:
    """Neither where the law is, nor what it is but in the open division, nor a private n."""
    for one in benchmark.problems:
        told = one.public_knowledge(open_division=False)
        assert told.law is None
        assert (told.n is None) == (one.budget.neighbours == "add_remove")
        shape = one.public_knowledge(open_division=True).law
        assert shape is not None
        assert shape["kind"] == one.law["kind"]
        assert not {"location", "norm", "p", "c"} & set(shape)


def test_public_knowledge_holds_and_moves_along_with_real_columns() -> None:
    """In the unit of a run the standard deviation and the mean are within what is told."""
    units, columns = set(), set()
    for seed in range(3):
        for one in read_benchmark(REAL_BENCHMARK).at_places(seed).problems:
            told, opened = (
                one.public_knowledge(open_division=division) for division in (False, True)
            )
            assert (told.records, told.scale, told.radius) == ("variance", one.unit, 10 * one.unit)
            assert told.law is None
            assert opened.law is not None
            assert not {"column", "location"} & set(opened.law)
            assert (opened.law["kind"] == "real_column") <= ("scale" not in opened.law)
            for law in one.members.values():
                assert abs(float(law.mean)) <= 10 * one.unit
                assert 0.15 * one.unit <= law.variance**0.5 <= one.unit
            tilts = sorted(law.of.tilt for law in one.members.values())  # type: ignore[attr-defined]
            assert -2 <= tilts[0] <= -1
            assert 1 <= tilts[1] <= 2
            units.add(one.unit)
            columns.add(one.law.get("column"))
    assert units <= {2.0**i for i in range(-4, 5)}
    assert len(units) > 5
    assert columns == {*column_names()} - {"strike_cost"}
    assert {one.unit for one in read_benchmark().at_places(3).problems} == {1.0}
