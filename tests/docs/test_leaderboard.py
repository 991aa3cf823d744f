"""The leaderboard's pages, as they are written for Sphinx: an own entry beside the archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from docs import archive
from docs.generate import link_sources
from dpbench.benchmark.problems import MEAN_BENCHMARK, read_benchmark
from dpbench.benchmark.table import Scores, archive_path

PAPER = "A. Stranger, arXiv:2302.01855, v2"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages with an entry that is better than all others, but for one problem."""
    folder, benchmark = tmp_path_factory.mktemp("pages"), read_benchmark()
    scores = Scores.read(archive_path(MEAN_BENCHMARK), benchmark)
    mine = scores.rows[scores.rows["entry"] == "universal_mean"].assign(entry="mine")
    for name in ("score", "score_low", "score_high", "draws"):
        mine[name] = mine[name] * 1e-9
    mine = mine[mine["problem"] != "gauss-n100-pure1"].reset_index(drop=True)
    card = replace(scores.cards["universal_mean"], name="mine", paper=PAPER)
    about = {**scores.about, "quick": True}
    Scores(mine.assign(chance=1.0), {"mine": card}, about).write(folder / "mine.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_profile", lambda *_: "")  # takes two seconds
        archive.write_archive(folder, folder / "mine.parquet")
    return folder / "benchmark"


def of_class(pages: Path, label: str) -> tuple[str, str]:
    """The ranked entries of a class on the leaderboard, and the others."""
    text = (pages / "leaderboard.rst").read_text("utf-8")
    section = text.partition(f".. _class-{label}:\n")[2].partition(".. _class-")[0]
    ranked, _, others = section.partition("*Not ranked")
    return ranked, others


def test_an_own_entry_is_marked_and_ranked_where_it_is_complete(pages: Path) -> None:
    ranked, others = of_class(pages, "gaussian-mean-anywhere")
    assert "* - 1\n     - :doc:`mine </benchmark/entries/mine>` :own:`yours`\n" in ranked
    assert "* - 2\n     - :doc:`universal_mean </benchmark/entries/universal_mean>`\n" in ranked
    assert "universal_mean" not in others
    ranked, others = of_class(pages, "gaussian")
    assert "mine>" not in ranked
    assert "gaussian_score_mean" in ranked
    assert ":own:`yours`\n     - 15 of 16\n" in others
    front = (pages / "index.rst").read_text("utf-8")
    assert ":own:`yours` rank 1" in front
    assert ":own:`yours` 15 of 16" in front
    assert "quick=true: fewer trials" in front
    assert "quick=true" in (pages / "entries" / "mine.rst").read_text("utf-8")
    assert "quick=true" not in (pages / "entries" / "universal_mean.rst").read_text("utf-8")


def test_tables_that_compare_are_sortable_and_the_others_are_not(pages: Path) -> None:
    ranked, others = of_class(pages, "gaussian")
    assert ":class: sortable" in ranked
    assert ":class: sortable" not in others  # their means cover different problems


def test_sources_are_links(pages: Path) -> None:
    ranked, others = of_class(pages, "gaussian")
    assert "`AD20 <https://arxiv.org/abs/2005.10630>`__" in ranked
    assert ":doc:`L15 </reference/sources>`" in ranked  # nobody checked an identifier
    assert "`arXiv:2302.01855 <https://arxiv.org/abs/2302.01855>`__" in others
    assert "`AD20 <" in (pages / "entries" / "private_median.rst").read_text("utf-8")
    assert link_sources("A_b*").endswith("A_b\\*")


def test_the_leaderboard_has_the_class_of_real_data(pages: Path) -> None:
    ranked, others = of_class(pages, "bounded-variance")
    assert "shrinking_intervals" in ranked
    assert "coinpress_mean" in others  # under zCDP alone
    text = (pages / "problems" / "medical-spending-n1000-pure1.rst").read_text("utf-8")
    assert "Smallest 0.9 quantile of the error in the archive: **" in text
    index = (pages / "problems" / "index.rst").read_text("utf-8")
    assert "wind-speed-n10000-zcdp0.005" in index
