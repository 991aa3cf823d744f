from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbench.registry import ConfigError
from dpbench.report.page import finished_runs, write_page
from dpbench.result import Result

from .page_folders import CLAIM, HOSTILE, MANIFEST, PAIR, write_run, write_table

PARTS = {
    "claims.csv": "scoreboard", "figures/curves.svg": "figures",
    "sample_complexity.csv": "samples", "summary.csv": "errors", "tracking.csv": "tracking",
}  # fmt: skip
Element = tuple[str, dict[str, str | None], list[str]]


class Page(HTMLParser):
    """The elements of a page, in order, with their attributes and all text inside."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self._open, "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, _, texts in self._open:
            texts.append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(texts)) for name, attrs, texts in self.elements if name == tag]

    def texts(self, tag: str) -> list[str]:
        return [" ".join(text.split()) for _, text in self.all(tag)]

    def ids(self) -> list[str]:
        return [str(attrs["id"]) for _, attrs, _ in self.elements if "id" in attrs]

    def columns(self, table: str) -> dict[str, dict[str, Any]]:
        """What the browser is given of a table, by column."""
        scripts = {attrs.get("id"): text for attrs, text in self.all("script")}
        data = json.loads(scripts[f"run1-{table}-data"])
        sizes = {len(one.get("places", one.get("values"))) for one in data["columns"]}
        assert sizes == {data["size"]}
        return {column["name"]: column for column in data["columns"]}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return write_run(tmp_path / "example")


def page_of(*folders: Path) -> Page:
    return Page(write_page(folders, folders[0].parent / "page.html"))


def test_the_same_files_give_the_same_bytes_whatever_a_rerun_changes(example: Path) -> None:
    before = write_page([example], example / "report.html").read_bytes()
    rerun = MANIFEST | {"wall_seconds": 99.5, "inputs": "f00", "cells_reused": 3}
    (example / "manifest.json").write_text(json.dumps(rerun))
    table = (example / "audit.csv").read_text()
    (example / "audit.csv").write_text(table.replace(",1.5\n", ",2.5\n"))
    assert (example / "audit.csv").read_text() != table
    assert write_page([example], example / "report.html").read_bytes() == before
    assert [path.name for path in example.glob(".*")] == []


def test_sections_stand_in_their_order_and_a_missing_file_leaves_its_own_out(
    example: Path,
) -> None:
    page = page_of(example)
    order = [f"run1-{part}" for part in ("scoreboard", "figures", "samples", "errors", "audit",
                                         "tracking", "failures", "origin")]  # fmt: skip
    assert [name for name in page.ids() if name in order] == order
    assert page.texts("span")[:3] == ["2 consistent", "0 inconsistent", "0 inconclusive"]
    for file, part in PARTS.items():
        before = set(page_of(example).ids())
        (example / file).unlink()
        gone = {f"run1-{part}", f"run1-{part}-heading", f"run1-{Path(file).stem}-data"}
        after = set(page_of(example).ids())
        assert f"run1-{part}" in before - after <= gone


@pytest.mark.parametrize("file", ["claims.csv", "tracking.csv", "audit.csv"])
def test_an_empty_table_is_as_good_as_none(example: Path, file: str) -> None:
    path = example / file
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with_header = write_page([example], example / "a.html").read_bytes()
    path.write_text("\n")
    assert write_page([example], example / "b.html").read_bytes() == with_header
    path.unlink()
    assert write_page([example], example / "c.html").read_bytes() == with_header


def test_whatever_the_manifest_there_is_a_page(tmp_path: Path) -> None:
    assert page_of(tmp_path).texts("h1") == [tmp_path.name]
    for text, name in (("{", tmp_path.name), ('{"sweep": "a\\ud800b"}', "a?b")):
        (tmp_path / "manifest.json").write_text(text)
        assert page_of(tmp_path).texts("h1") == [name]


def test_labels_are_text_and_nothing_else(example: Path, tmp_path: Path) -> None:
    figure = {"kind": HOSTILE, "caption": HOSTILE, "metric": HOSTILE}
    sweep = {
        "claims": {f"rate{HOSTILE}": {"theorem": HOSTILE, "reason": HOSTILE}},
        "parts": {HOSTILE: {"families": HOSTILE, "figures": {"curves": figure}}},
    }
    manifest = {
        "sweep": HOSTILE, "command": HOSTILE, "configuration": {"sweep": sweep},
        "outputs": MANIFEST["outputs"], "tracked": MANIFEST["tracked"],
        "versions": {HOSTILE: HOSTILE}, "commit": HOSTILE,
        "failures": [{"failure": HOSTILE, "replay": HOSTILE}],
    }  # fmt: skip
    hostile = write_run(tmp_path / "hostile", manifest=manifest, label=HOSTILE)
    labelled = {"claim": f"rate{HOSTILE}", "source": HOSTILE, "verdict": HOSTILE}
    write_table(hostile / "claims.csv", [CLAIM | labelled])
    clean, page = page_of(example), page_of(hostile)
    for tag in ("script", "img", "style", "a"):
        assert len(page.all(tag)) == len(clean.all(tag))
    assert not any(name.startswith("on") for _, attrs, _ in page.elements for name in attrs)
    shown = " ".join(HOSTILE.split())
    assert page.texts("h1") == [shown]
    for tag in ("th", "td", "dd", "dt", "li", "code", "bdi", "figcaption"):
        assert any(shown in text for text in page.texts(tag)), tag
    for name in ("summary", "sample_complexity", "audit", "controls", "tracking"):
        labels = [column.get("labels", []) for column in page.columns(name).values()]
        assert any(HOSTILE in label for column in labels for label in column), name


def test_nothing_is_loaded_and_only_own_style_and_script_pass(example: Path) -> None:
    page = page_of(example)
    for _, attrs, _ in page.elements:
        assert "style" not in attrs  # the policy would drop it
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            assert str(attrs.get(name, "#")).startswith(("#", "data:"))
    style, script = page.all("style")[0][1], page.all("script")[-1][1]
    assert not re.search(r"url\(|@import", style)
    assert "innerHTML" not in script
    policy = next(str(attrs["content"]) for attrs, _ in page.all("meta") if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; img-src data:;")
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_figures_are_embedded_with_words(example: Path) -> None:
    for name in ("another", "of_an_earlier_run"):
        (example / "figures" / f"{name}.svg").write_text("<svg/>")
    page = page_of(example)
    first, second = (attrs for attrs, _ in page.all("img"))
    data = str(first["src"]).removeprefix("data:image/svg+xml;base64,")
    assert base64.b64decode(data) == (example / "figures" / "curves.svg").read_bytes()
    assert str(first["alt"]).startswith("curves: The <worst>.")
    caption = page.texts("figcaption")[0]
    assert caption == "curves (error against n). The <worst>. families: two_point*"
    assert str(second["alt"]).startswith("another: a figure.")


def test_claims_with_their_budget_and_region(example: Path) -> None:
    """Also those under parts; upper limits have a sign and a region that begins below."""
    page = page_of(example)
    rows = [row for row in page.texts("tr") if "KSU20" in row]
    start = "rateKSU20 minimax two_pointpure, ε = 0.01 s in n ~ (1/α)ˢ"  # noqa: RUF001
    assert rows[0].startswith(start)
    assert "2.000 ± 0.02" in rows[0]
    assert "≤" not in rows[0]
    assert "≤ 1.250 ± 0.02" in rows[1]
    words = [str(attrs["aria-label"]) for attrs, _ in page.all("svg")]
    assert words[0] == (
        "measured 1.99, 95% interval 1.98 to 2.01, predicted 2 plus or minus 0.02: consistent"
    )
    assert "predicted at most 1.25 plus" in words[1]
    titles = [attrs["title"] for attrs, _ in page.all("td") if "title" in attrs]
    assert titles == ["n is finite", "few members"]
    reasons = [text for text in page.texts("dd") if "theorem: " in text]
    assert reasons == ["few members theorem: near_optimal", "n is finite theorem: heavy_tail_alpha"]


def test_several_runs_have_an_overview_and_no_id_twice(example: Path, tmp_path: Path) -> None:
    """Headings step down one at a time, name their sections, and no link leads nowhere."""
    both = page_of(example, write_run(tmp_path / "elsewhere", rows=3))
    assert {"run1", "run2"} <= {str(attrs["href"])[1:] for attrs, _ in both.all("a")}
    counts = "2002 of 3 refuted or failed 1 worse or gone 1"  # of claims: 2, 0, 0
    assert both.texts("tr")[1:3] == [f"example {counts}", f"example in elsewhere {counts}"]
    for page in (page_of(example), both):
        ids = page.ids()
        assert len(ids) == len(set(ids))
        assert {str(attrs["href"])[1:] for attrs, _ in page.all("a")} <= set(ids)
        levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch(r"h\d", tag)]
        assert (levels[0], levels.count(1)) == (1, 1)
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert {attrs["aria-labelledby"] for attrs, _ in page.all("section")} <= set(ids)
        assert all("scope" in attrs for attrs, _ in page.all("th"))
        assert len(page.all("table")) == len(page.all("caption"))
        assert page.all("html")[0][0] == {"lang": "en"}


def test_audits_say_what_they_cannot_and_show_the_strongest_pair(example: Path) -> None:
    page = page_of(example)
    assert any("can falsify a claim of privacy, never prove one" in p for p in page.texts("p"))
    rows = [row for row in page.texts("tr") if row.startswith(("clipped", "no_noise"))]
    assert rows[0] == "clipped approx 0.01 edge 9 1000 1.0 1.500 refuted"
    assert rows[1] == "clipped approx 1e-06 edge 9 1000 1.0 failed"
    assert rows[2] == "clipped pure far 9 1000 1.0 0.9000 x 0.5 not refuted"
    assert any("must refute: 1 of 2 are" in p for p in page.texts("p"))
    assert rows[3].startswith("no_noise pure")  # the control that stood comes first
    assert list(page.columns("audit")) == [name for name in PAIR if name != "seconds"]


def test_what_is_worse_comes_first_in_tracking(example: Path) -> None:
    verdicts = page_of(example).columns("tracking")["verdict"]
    assert [verdicts["labels"][i] for i in verdicts["places"]] == ["worse", "same"]
    # a table may lack what only some runs have
    write_table(example / "tracking.csv", [{"estimator": "rate", "verdict": "new"}])
    assert page_of(example).columns("tracking")["verdict"]["labels"] == ["new"]


def test_failures_come_with_their_command_and_results_with_their_origin(example: Path) -> None:
    page = page_of(example)
    assert page.texts("li")[-1] == "ValueError: too few python -m dpbench replay=ab"
    assert {"0123abc with uncommitted changes", "python 3.11.0, numpy 2.4.6"} <= {*page.texts("dd")}
    assert any("theorem: near_optimal" in text for text in page.texts("code"))


def test_finished_runs_have_a_manifest_of_a_sweep(tmp_path: Path) -> None:
    known = {"b": '{"sweep": "b"}', "a": '{"sweep": "a"}', "broken": "{", "list": "[]", "": "{}"}
    for name, text in known.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "manifest.json").write_text(text)
    (tmp_path / "without").mkdir()
    assert finished_runs(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert finished_runs(tmp_path / "nowhere") == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_both_schemes(dark: bool) -> None:
    """Contrast ratios of WCAG 2.2, from relative luminances."""
    css = (files("dpbench.report") / "page.css").read_text(encoding="utf-8")
    light = {}
    for name, colour in re.findall(r"--(\w+): #(\w{6});", css.split("@media screen")[dark]):
        share = np.frombuffer(bytes.fromhex(colour), np.uint8) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        light[name] = linear @ [0.2126, 0.7152, 0.0722] + 0.05
    for paper in ("paper", "raised"):
        for name in ("ink", "muted", "link", "good", "bad", "unsure"):
            ratio = light[name] / light[paper]
            assert max(ratio, 1 / ratio) >= 4.5, (name, paper)


def test_the_page_of_a_real_run(numbers: Result, folder: Path, tmp_path: Path) -> None:
    """Every row of its tables; reasons and captions of its parts, and every budget of a claim."""
    page = Page(write_page([folder], tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    claims = numbers.claims
    assert len(page.all("svg")) == len(claims)
    for name, table in (("summary", numbers.summary), ("sample_complexity", numbers.samples)):
        assert len(page.columns(name)["distribution"]["places"]) == len(table)
    shown = [row for row in page.texts("tr") if row.startswith("rate")]
    measured = claims["measured"][claims["claim"] == "rate"]
    budgets = ("pure, ε = 0.5", "pure, ε = 1", "zcdp, ρ = 0.5")  # noqa: RUF001
    about = [f"pair_k{k}{one} " for k in (2, 3) for one in budgets]
    for row, one, value in zip(shown, about, measured, strict=True):
        assert row.startswith(f"rateKSU20 Thm 3.5 minimax {one}")
        assert f"± 0.5 {value:#.4g} " in row
    reasons = [one.partition(" theorem: ")[0] for one in page.texts("dd") if " theorem" in one]
    assert reasons == ["few trials", "two <members>", "few trials"]
    worst, exponents = page.texts("figcaption")
    assert worst.startswith("worst (error against n). The worst of <two>. ")
    assert "families: pair; estimators: minimax; budgets: pure, zcdp; by: budget" in worst
    assert exponents == "exponents (exponents). Exponents against k. claims: rate"


def test_what_cannot_be_read_is_told_in_one_line(example: Path) -> None:
    (example / "claims.csv").write_text("claim,odd\na,1\n")
    with pytest.raises(ConfigError, match=f"^report: '{example}': cannot be read") as caught:
        page_of(example)
    assert "\n" not in str(caught.value)
