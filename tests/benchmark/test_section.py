"""The page of ``benchmark compare``: one file with the entry's ranks, scores and profile."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from dpbench.analysis.factors import profile
from dpbench.benchmark.compare import MAX_PLOTTED_SCORE
from dpbench.benchmark.leaderboard import standings
from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.table import Scores, archive_path
from dpbench.cli.main import run
from dpbench.report.drawing.style import SCREEN, save
from tests.support import page_columns

NAME = "gaussian_score_mean"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a copy of an entry of the archive, which has its scores and so its rank."""
    folder, benchmark = tmp_path_factory.mktemp("leaderboard"), read_benchmark()
    archive = Scores.read(archive_path(benchmark.name), benchmark)
    rows = archive.rows[archive.rows["entry"] == NAME].assign(entry="mine")
    card = replace(archive.cards[NAME], name="mine")
    Scores(rows, {"mine": card}, archive.about).write(folder / "mine.parquet")
    words = [str(folder / "mine.parquet"), f"out={folder}", "problems=gauss-*,binary-*"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save, "__defaults__", (SCREEN, None))
        assert run(["benchmark", "compare", *words]) == 0
    return folder / "leaderboard.html"


def _cells(text: str, table: str) -> list[list[str]]:
    body = text.partition(f'id="run1-{table}"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [
        [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in rows
    ]


def test_the_tables_have_the_columns_of_their_page(page: Path) -> None:
    for file, other, name in (
        ("standings.csv", "", ""), ("shares.csv", "<=.*", "<=X"), ("problems.csv", "mine", "ENTRY"),
    ):  # fmt: skip
        columns = (page.parent / file).read_text("utf-8").partition("\n")[0].split(",")
        columns = [name if re.fullmatch(other, one) else one for one in columns]
        assert list(dict.fromkeys(columns)) == page_columns(file)


def test_the_page_has_the_ranks_and_needs_no_other_file(page: Path) -> None:
    text, benchmark = page.read_text("utf-8"), read_benchmark().select("gauss-*,binary-*")
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", text)
    archive = Scores.read(archive_path(benchmark.name), read_benchmark())
    divisions = {name: card.division for name, card in archive.cards.items()}
    classes = standings(archive.ranked, benchmark.problems, divisions)
    found, number = classes["Gaussian"], [*classes].index("Gaussian") + 1
    (place,) = [one.rank + 1 for one in found if one.entry == NAME and one.rank]
    ranked = sum(one.rank is not None for one in found)
    # The copy ties with its original, which the archive names first.
    (own,) = _cells(text, "yours")
    assert own[:5] == ["yours", "Gaussian", str(place), "mine", "16 of 16"]
    assert f"mine has a rank in 1 class; the best is {place} of {ranked + 1}, Gaussian" in text
    entries = [row[2] for row in _cells(text, f"standings{number}")]
    assert sorted(entries) == sorted([*(one.entry for one in found), "mine"])
    assert {row[0] for row in _cells(text, "shares") if row[1] == "mine"} == {"yours"}
    assert len(_cells(text, "problems")) == len(benchmark.problems)


def test_a_browser_shows_it(page: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("selenium", reason="selenium is not installed")
    browser = request.getfixturevalue("browser")
    browser.get(page.as_uri())
    assert browser.title == "How good is mine on dpbench-mean-v2, beside the archive?: dpbench"
    shown = "return [...document.images].map((image) => image.complete && image.naturalWidth > 0)"
    assert browser.execute_script(shown) == [True]
    width = "return document.documentElement.scrollWidth - innerWidth"
    assert browser.execute_script(width) <= 0
    assert browser.get_log("browser") == []


def test_the_profile_can_be_asked_for_its_numbers(page: Path) -> None:
    """Lines of the archive have the shares of all scores at their corners, and few other points."""
    assert 'class="interactive"' in page.read_text("utf-8")
    (gaussian,) = [
        panel
        for panel in json.loads((page.parent / "figures/profile.json").read_text("utf-8"))["panels"]
        if panel["title"] == "Gaussian (21)"
    ]
    lines = [line for line in gaussian["lines"] if line["name"] == "archive"]
    benchmark = read_benchmark()
    ids = [problem.id for problem in benchmark.select("gauss-*").problems]
    rows = Scores.read(archive_path(benchmark.name), benchmark).ranked
    entries = rows[rows["problem"].isin(ids)].groupby("entry")
    assert len(lines) == len(entries)
    for line, (_, entry) in zip(lines, entries, strict=True):
        x = np.geomspace(0.8, MAX_PLOTTED_SCORE, 300)  # as drawn
        share = profile(entry["score"], len(ids), x)
        np.testing.assert_allclose(np.interp(x, line["x"], line["y"]), share, atol=1e-4)
        assert len(line["x"]) <= 2 * len(ids) + 2
