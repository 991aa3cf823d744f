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

import pytest

from dpbench.registry import ConfigError
from dpbench.report.page import finished_runs, write_page
from dpbench.report.page_marks import HEIGHT, WIDTH
from dpbench.result import Result

from .page_folders import HOSTILE, MANIFEST, PAIR, write_run, write_table

PARTS = {
    "claims.csv": "scoreboard",
    "figures/curves.svg": "figures",
    "sample_complexity.csv": "samples",
    "summary.csv": "errors",
    "tracking.csv": "tracking",
}
TABLES = [file for file in PARTS if file.endswith(".csv")]


class Page(HTMLParser):
    """The elements of a page, in order, with their attributes and all text inside."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self._open, "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, dict(attrs), list[str]())
        self.elements.append(element)
        if tag not in self.VOID:
            self._open.append(element)

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

    def data(self, name: str) -> Any:
        return json.loads(
            next(text for attrs, text in self.all("script") if attrs.get("id") == name)
        )


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return write_run(tmp_path / "example")


def page_of(*folders: Path) -> Page:
    return Page(write_page(folders, folders[0].parent / "page.html"))


def test_the_same_files_give_the_same_bytes_whatever_a_rerun_changes(example: Path) -> None:
    before = write_page([example], example / "report.html").read_bytes()
    rerun = MANIFEST | {"wall_seconds": 99.5, "inputs": "f00", "cells_reused": 3, "outputs": {}}
    (example / "manifest.json").write_text(json.dumps(rerun))
    table = (example / "audit.csv").read_text()
    (example / "audit.csv").write_text(table.replace(",1.5\n", ",2.5\n"))
    assert (example / "audit.csv").read_text() != table
    assert write_page([example], example / "report.html").read_bytes() == before
    assert [path.name for path in example.glob(".*")] == []


def test_sections_stand_in_their_order(example: Path) -> None:
    page = page_of(example)
    order = ["scoreboard", "figures", "samples", "errors", "audit", "tracking", "failures"]
    order.append("origin")
    assert [name for name in page.ids() if name in {f"run1-{part}" for part in order}] == [
        f"run1-{part}" for part in order
    ]
    counts = page.texts("span")[:3]
    assert counts == ["2 consistent", "0 inconsistent", "0 inconclusive"]


@pytest.mark.parametrize("file", PARTS)
def test_a_missing_file_leaves_its_part_out_alone(example: Path, file: str) -> None:
    before = page_of(example).ids()
    (example / file).unlink()
    gone = f"run1-{PARTS[file]}"
    lost = set(before) - set(page_of(example).ids())
    stem = Path(file).stem.replace("claims", "scoreboard")
    assert {gone} <= lost <= {gone, f"{gone}-heading", f"run1-{stem}-data"}


@pytest.mark.parametrize("file", [*TABLES, "audit.csv", "controls.csv"])
def test_an_empty_table_is_as_good_as_none(example: Path, file: str) -> None:
    path = example / file
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with_header = write_page([example], example / "a.html").read_bytes()
    path.write_text("\n")
    assert write_page([example], example / "b.html").read_bytes() == with_header
    path.unlink()
    assert write_page([example], example / "c.html").read_bytes() == with_header


def test_a_folder_of_nothing_and_an_unreadable_manifest_give_a_page(tmp_path: Path) -> None:
    assert page_of(tmp_path).texts("h1") == [tmp_path.name]
    (tmp_path / "manifest.json").write_text("{")
    assert page_of(tmp_path).texts("h1") == [tmp_path.name]


def hostile_run(folder: Path) -> Path:
    sweep = {
        "claims": {f"rate{HOSTILE}": {"theorem": HOSTILE, "reason": HOSTILE}},
        "parts": {
            HOSTILE: {
                "families": HOSTILE,
                "figures": {"curves": {"kind": HOSTILE, "caption": HOSTILE, "metric": HOSTILE}},
            }
        },
    }
    manifest = {
        "sweep": HOSTILE,
        "command": HOSTILE,
        "configuration": {"sweep": sweep},
        "versions": {HOSTILE: HOSTILE},
        "commit": HOSTILE,
        "failures": [{"failure": HOSTILE, "replay": HOSTILE}],
    }
    write_run(folder, manifest=manifest, label=HOSTILE)
    table = (folder / "claims.csv").read_text(encoding="utf-8")
    quoted = HOSTILE.replace('"', '""')
    hostile = table.replace("rate,", f'"rate{quoted}",').replace("KSU20", f'"{quoted}"')
    (folder / "claims.csv").write_text(hostile.replace("consistent", f'"{quoted}"'))
    return folder


def test_labels_are_text_and_nothing_else(example: Path, tmp_path: Path) -> None:
    clean, page = page_of(example), page_of(hostile_run(tmp_path / "hostile"))
    assert [tag for tag, _, _ in page.elements if tag in {"script", "img", "style", "a"}] == [
        tag for tag, _, _ in clean.elements if tag in {"script", "img", "style", "a"}
    ]
    assert not any(name.startswith("on") for _, attrs, _ in page.elements for name in attrs)
    shown = " ".join(HOSTILE.split())
    assert page.texts("h1") == [shown]
    for tag in ("th", "td", "dd", "dt", "li", "code", "bdi", "figcaption"):
        assert any(shown in text for text in page.texts(tag)), tag
    for name in ("summary", "sample_complexity", "audit", "controls", "tracking"):
        labels = [c["labels"] for c in page.data(f"run1-{name}-data")["columns"] if "labels" in c]
        assert any(HOSTILE in label for column in labels for label in column), name


def test_half_a_surrogate_pair_does_no_harm(example: Path) -> None:
    (example / "manifest.json").write_text('{"sweep": "a\\ud800b"}')
    assert page_of(example).texts("h1") == ["a?b"]


def test_nothing_is_loaded_and_only_own_style_and_script_pass(example: Path) -> None:
    page = page_of(example)
    for _, attrs, _ in page.elements:
        assert "style" not in attrs  # the policy would drop it
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            assert str(attrs.get(name, "#")).startswith(("#", "data:"))
    style, script = page.all("style")[0][1], page.all("script")[-1][1]
    assert "url(" not in style
    assert "@import" not in style
    assert "innerHTML" not in script
    assert "//" not in page.all("img")[0][0]["src"][:40]  # type: ignore[index]
    policy = next(str(attrs["content"]) for attrs, _ in page.all("meta") if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; img-src data:;")
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_figures_are_embedded_with_words(example: Path) -> None:
    """With the caption, and with what they are about, which the part may say."""
    (example / "figures" / "another.svg").write_text("<svg/>")
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
    other = write_run(tmp_path / "elsewhere", rows=3)
    page = page_of(example, other)
    ids = page.ids()
    assert len(ids) == len(set(ids))
    links = {str(attrs["href"])[1:] for attrs, _ in page.all("a")}
    assert links <= set(ids)
    assert {"run1", "run2"} <= links
    overview = page.texts("tr")[1:3]
    assert page.texts("td")[:3] == ["2", "0", "0"]
    assert "in elsewhere" in overview[1]
    assert "1 of 2 refuted" in overview[0]
    assert "1 worse or gone" in overview[0]


def test_headings_step_down_one_at_a_time_and_name_their_sections(
    example: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "second", rows=3)
    for page in (page_of(example), page_of(example, other)):
        levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        labels = [str(attrs["aria-labelledby"]) for attrs, _ in page.all("section")]
        assert set(labels) <= set(page.ids())
        assert all("scope" in attrs for attrs, _ in page.all("th"))
        assert len(page.all("table")) == len(page.all("caption"))
        assert page.all("html")[0][0] == {"lang": "en"}


def test_audits_say_what_they_cannot_and_show_the_strongest_pair(example: Path) -> None:
    page = page_of(example)
    assert any("can falsify a claim of privacy, never prove one" in p for p in page.texts("p"))
    rows = [row for row in page.texts("tr") if row.startswith(("clipped", "no_noise"))]
    assert rows[0].startswith("clipped zcdp edge 1 1000 1.0 1.500")
    assert rows[0].endswith("refuted")
    assert rows[1].startswith("clipped pure far 2 1000 1.0 0.9000")
    assert any("must refute: 1 of 2 are" in p for p in page.texts("p"))
    assert rows[2].startswith("no_noise pure")  # the control that stood comes first
    columns = [column["name"] for column in page.data("run1-audit-data")["columns"]]
    assert columns == [name for name in PAIR if name != "seconds"]


def test_what_is_worse_comes_first_in_tracking(example: Path) -> None:
    columns = page_of(example).data("run1-tracking-data")["columns"]
    verdicts = next(column for column in columns if column["name"] == "verdict")
    assert [verdicts["labels"][i] for i in verdicts["places"]] == ["worse", "same"]


def test_failures_come_with_their_command_and_results_with_their_origin(example: Path) -> None:
    page = page_of(example)
    assert page.texts("li")[-1] == "ValueError: too few python -m dpbench replay=ab"
    assert "python -m dpbench replay=ab" in page.texts("code")
    facts = page.texts("dd")
    assert "0123abc with uncommitted changes" in facts
    assert "python 3.11.0, numpy 2.4.6" in facts
    assert any("theorem: near_optimal" in text for text in page.texts("code"))


def test_drawings_stay_inside_their_box(example: Path) -> None:
    shapes = [attrs for tag in ("rect", "line", "circle") for attrs, _ in page_of(example).all(tag)]
    assert len(shapes) > 10
    for attrs in shapes:
        across = [float(str(attrs[name])) for name in ("x", "x1", "x2", "cx") if name in attrs]
        width = float(str(attrs.get("width", 0)))
        assert 0 <= min(across) <= max(across) + width <= WIDTH
        down = [float(str(attrs[name])) for name in ("y", "y1", "y2", "cy") if name in attrs]
        assert 0 <= min(down) <= max(down) + float(str(attrs.get("height", 0))) <= HEIGHT


def test_finished_runs_have_a_manifest_of_a_sweep(tmp_path: Path) -> None:
    for name, text in {
        "b": '{"sweep": "b"}', "a": '{"sweep": "a"}', "broken": "{", "list": "[]", "other": "{}",
    }.items():  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(text)
    (tmp_path / "without").mkdir()
    (tmp_path / "manifest.json").write_text('{"sweep": "not in a example"}')
    assert finished_runs(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert finished_runs(tmp_path / "nowhere") == []


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_both_schemes(dark: bool) -> None:
    css = (files("dpbench.report") / "page.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--(\w+): (#\w{6});", css.split("@media screen")[dark]))
    for paper in (colours["paper"], colours["raised"]):
        for name in ("ink", "muted", "link", "good", "bad", "unsure"):
            pair = sorted([luminance(colours[name]), luminance(paper)])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (name, paper)


def test_the_page_of_a_real_run(numbers: Result, folder: Path, tmp_path: Path) -> None:
    """Every row of its tables; reasons and captions of its parts, and every budget of a claim."""
    page = Page(write_page([folder], tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    claims = numbers.claims
    assert len(page.all("svg")) == len(claims)
    for name, table in (("summary", numbers.summary), ("sample_complexity", numbers.samples)):
        assert page.data(f"run1-{name}-data")["size"] == len(table)
    shown = [row for row in page.texts("tr") if row.startswith("rate")]
    budgets = ("pure, ε = 0.5", "pure, ε = 1", "zcdp, ρ = 0.5")  # noqa: RUF001
    wanted = [f"rateKSU20 Thm 3.5 minimax pair_k{k}{one} " for k in (2, 3) for one in budgets]
    assert all(row.startswith(one) for row, one in zip(shown, wanted, strict=True))
    for row, measured in zip(shown, claims["measured"][claims["claim"] == "rate"], strict=True):
        assert f"± 0.5 {measured:#.4g} " in row
    reasons = ["few trials", "two <members>", "few trials"]
    assert [
        one.partition(" theorem: ")[0] for one in page.texts("dd") if " theorem" in one
    ] == reasons
    captions = page.texts("figcaption")
    assert captions[0].startswith("worst (error against n). The worst of <two>. ")
    assert "families: pair; estimators: minimax; budgets: pure, zcdp; by: budget" in captions[0]
    assert captions[1] == "exponents (exponents). Exponents against k. claims: rate"


def test_a_table_may_lack_what_only_some_runs_have(example: Path) -> None:
    write_table(example / "tracking.csv", [{"estimator": "rate", "verdict": "new"}])
    assert page_of(example).data("run1-tracking-data")["size"] == 1


def test_what_cannot_be_read_is_told_in_one_line(example: Path) -> None:
    (example / "claims.csv").write_text("claim,odd\na,1\n")
    with pytest.raises(ConfigError, match=f"^report: '{example}': cannot be read") as caught:
        page_of(example)
    assert "\n" not in str(caught.value)
