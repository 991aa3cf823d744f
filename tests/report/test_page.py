from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dpbench.analysis.result import Result
from dpbench.jobs.audit import AuditJob
from dpbench.jobs.libraries import LibrariesJob
from dpbench.jobs.study import StudyJob
from dpbench.registry import ConfigError
from dpbench.report import page_tables
from dpbench.report.page import finished_runs, write_page
from dpbench.report.sections.base import SECTIONS

from .page_folders import CLAIM, HOSTILE, MANIFEST, PAIR, write_run, write_table

PARTS = {
    "claims.csv": "claims", "factors.csv": "limit", "figures/another.svg": "figures",
    "sample_complexity.csv": "samples", "summary.csv": "errors", "tracking.csv": "baseline",
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

    def columns(self, name: str) -> dict[str, list[str]]:
        """What a table says, by column."""
        tags = [tag for tag, *_ in self.elements]
        start = next(i for i, (_, at, _) in enumerate(self.elements) if at.get("id") == name)
        end = tags.index("table", start + 1) if "table" in tags[start + 1 :] else len(tags)
        inside = self.elements[start:end]
        heads, cells = (
            ["".join(texts) for tag, _, texts in inside if tag == which] for which in ("th", "td")
        )
        assert len(cells) % len(heads) == 0
        return {head: cells[i :: len(heads)] for i, head in enumerate(heads)}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return write_run(tmp_path / "example")


def page_of(*folders: Path) -> Page:
    return Page(write_page(folders, folders[0].parent / "page.html"))


def test_the_same_files_give_the_same_bytes_whatever_a_rerun_changes(example: Path) -> None:
    """Another time of computing changes the line that tells it."""
    before = write_page([example], example / "report.html").read_bytes()
    rerun = MANIFEST | {"wall_seconds": 99.5, "inputs": "f00", "cells_reused": 3}
    (example / "manifest.json").write_text(json.dumps(rerun))
    table = (example / "audit.csv").read_text()
    (example / "audit.csv").write_text(table.replace(",1.5\n", ",2.5\n"))
    assert (example / "audit.csv").read_text() != table
    assert write_page([example], example / "report.html").read_bytes() == before
    assert [path.name for path in example.glob(".*")] == []
    again = rerun | {"computed": {"at": "2027-01-02 03:04 UTC", "seconds": 7.8}}
    (example / "manifest.json").write_text(json.dumps(again))
    after = write_page([example], example / "report.html").read_bytes()
    lines = zip(before.splitlines(), after.splitlines(), strict=True)
    changed = [(one, other) for one, other in lines if one != other]
    assert len(changed) == 1
    assert b"2027-01-02 03:04 UTC, in 7.8 s" in changed[0][1]


def test_sections_stand_in_their_order_and_a_missing_file_leaves_its_own_out(
    example: Path,
) -> None:
    """What went wrong stands before the tables."""
    (example / "figures" / "another.svg").write_text("<svg/>")
    page = page_of(example)
    order = [f"run1-{part}" for part in ("failures", "baseline", "claims", "limit", "privacy",
                                         "figures", "samples", "errors", "origin")]  # fmt: skip
    assert [name for name in page.ids() if name in order] == order
    for file, part in PARTS.items():
        before = set(page_of(example).ids())
        (example / file).unlink()
        gone = {f"run1-{part}", f"run1-{part}-heading", f"run1-{Path(file).stem}"}
        after = set(page_of(example).ids())
        assert f"run1-{part}" in before - after <= gone


def test_a_run_has_the_sections_that_it_names(example: Path) -> None:
    """In its order, with their parts of the answer."""
    for names in (("errors", "limit"), ("limit", "errors")):
        manifest = MANIFEST | {"sections": names, "exit_code": 0}
        (example / "manifest.json").write_text(json.dumps(manifest))
        page = page_of(example)
        assert [at["id"] for at, _ in page.all("section")] == [f"run1-{name}" for name in names]
        assert [at["href"] for at, _ in page.all("a")][1:] == [f"#run1-{name}" for name in names]
        assert page.texts("p")[2].startswith("Found: the best private estimators' worst errors")
        assert "answer calm" in [at.get("class") for at, _ in page.all("div")]
    later = MANIFEST | {"sections": ["errors", "odd"]}  # of a later version
    (example / "manifest.json").write_text(json.dumps(later))
    assert [at["id"] for at, _ in page_of(example).all("section")] == ["run1-errors"]


def test_every_section_is_of_a_kind_of_job_that_names_no_other() -> None:
    assert {name for kind in (StudyJob, AuditJob, LibrariesJob) for name in kind.sections} == {
        *SECTIONS
    }


# Of a law at three n: what has no privacy, and what gives nothing, is not the least.
ERRORS = [
    {"distribution": "a", "privacy": privacy, "estimator": name, "n": n, "trials": 9, "q90": q90}
    for n, errors in ((10, (1, 3, 4)), (20, (1, 2, 3)), (30, (1, 3, 2)))
    for name, privacy, q90 in zip(
        ("mean", "clip", "wide", "odd", "median"), ("none", *["pure"] * 3, "none"),
        (*errors, "inf", 2), strict=True,
    )
]  # fmt: skip


def test_what_was_asked_and_found_comes_first(example: Path, tmp_path: Path) -> None:
    """In a sentence each; also of a run without claims, and of one that checks nothing."""
    page = page_of(example)
    tags = [tag for tag, *_ in page.elements]
    assert page.texts("p")[1:3] == [
        "Asked: Do 1 estimator lose no more privacy than they claim, on pairs of neighbouring "
        "datasets with 1000 runs on each?",
        "Found: 2 of 2 tests of theory consistent, 0 inconsistent, 0 inconclusive; the best "
        "private estimators' worst errors 1.01 to 1.2 times their lower bounds; 2 of 3 claims of "
        "privacy refuted or failed; 1 of 2 broken controls caught; 1 of 2 errors worse than the "
        "baseline's or gone; 1 setting that raised an error.",
    ]
    assert tags.index("img") < tags.index("h2")
    (example / "audit.csv").unlink()
    about = (
        "3 estimators on 4 distributions under pure DP, with n = 1 to 1e12 and 100 trials of each"
    )
    asked = f"Asked: Is what theory says (KSU20) true of {about}?"
    assert page_of(example).texts("p")[1] == asked
    for name in ("claims", "controls", "factors"):
        (example / f"{name}.csv").unlink()
    asked = f"Asked: How large are the errors of {about}, and are they those of the baseline?"
    assert page_of(example).texts("p")[1] == asked
    (example / "tracking.csv").unlink()
    found = page_of(example).texts("p")[2]
    assert found.startswith("Found: the 0.9 quantile of the error is ")  # 40 letters
    write_table(example / "summary.csv", ERRORS)
    assert (
        page_of(example)
        .texts("p")[2]
        .removeprefix(found[:40])
        .startswith("1 to 4; clip has the smallest in 2 of 3 settings; ")
    )
    for ties, told in (
        ([10, 20], "wide has the smallest in 1 of 3 settings"),
        ([20], "clip and wide each have the smallest in 1 of 3 settings"),
    ):
        tied = [
            row | {"q90": 2} if row["n"] in ties and row["q90"] != "inf" else row for row in ERRORS
        ]
        write_table(example / "summary.csv", tied)
        assert f"; {told}; " in page_of(example).texts("p")[2]
    (tmp_path / "bare").mkdir()
    assert "Asked" not in " ".join(page_of(tmp_path / "bare").texts("p"))


def test_the_tone_of_the_answer_is_that_of_the_worst_finding(tmp_path: Path) -> None:
    for verdict, tone in (
        ("consistent", "good"),
        ("inconclusive", "unsure"),
        ("inconsistent", "bad"),
    ):
        folder = tmp_path / verdict
        folder.mkdir()
        (folder / "manifest.json").write_text('{"sweep": "a", "outputs": {"claims.csv": []}}')
        write_table(folder / "claims.csv", [CLAIM, CLAIM | {"verdict": verdict}])
        classes = [attrs.get("class") for attrs, _ in page_of(folder).all("div")]
        assert f"answer {tone}" in classes


@pytest.mark.parametrize(("expected", "tone"), [("refuted", "good"), ("not refuted", "bad")])
def test_what_is_known_to_be_refuted_is_no_finding(
    tmp_path: Path, expected: str, tone: str
) -> None:
    """It is told, and red in its row."""
    manifest = '{"sweep": "a", "outputs": {"claims.csv": [], "audit.csv": []}}'
    (tmp_path / "manifest.json").write_text(manifest)
    write_table(tmp_path / "claims.csv", [CLAIM])
    pair = PAIR | {"lower_bound": 2.0, "verdict": "refuted", "expected": expected}
    write_table(tmp_path / "audit.csv", [pair])
    page = page_of(tmp_path)
    assert f"answer {tone}" in [attrs.get("class") for attrs, _ in page.all("div")]
    assert "verdict bad" in [attrs.get("class") for attrs, _ in page.all("span")]
    known = "as is known of clipped" in " ".join(page.texts("p"))
    assert known == (expected == "refuted")


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
    for tag in ("th", "td", "dd", "li", "code", "bdi", "summary", "figcaption"):
        assert any(shown in text for text in page.texts(tag)), tag
    for name in ("summary", "factors", "sample_complexity", "audit", "controls", "tracking"):
        cells = [cell for column in page.columns(f"run1-{name}").values() for cell in column]
        assert any(HOSTILE in cell for cell in cells), name


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
    """Of what they draw, not of their configuration; the first stands before all tables."""
    for name in ("another", "of_an_earlier_run"):
        (example / "figures" / f"{name}.svg").write_text("<svg/>")
    page = page_of(example)
    first, second = (attrs for attrs, _ in page.all("img"))
    data = str(first["src"]).removeprefix("data:image/svg+xml;base64,")
    assert base64.b64decode(data) == (example / "figures" / "curves.svg").read_bytes()
    assert (first["alt"], second["alt"]) == ("The <worst>", "another")
    captions = page.texts("figcaption")
    assert captions[0] == (
        "The <worst>. Shown: error (0.9 quantile) against n; bands: 95 per cent intervals of the "
        "quantile from order statistics.For print: figures/curves.pdf"
    )
    assert captions[1] == "another. For print: figures/another.pdf"


def test_claims_are_grouped_by_what_they_say_and_the_worst_is_open(example: Path) -> None:
    """Also those under parts; upper limits have a sign and a region that begins below."""
    page = page_of(example)
    rows = [row for row in page.texts("tr") if "two_pointpure" in row]
    assert rows[0].startswith("consistent rate minimax two_pointpure, ε = 0.01 2.000 ± 0.02 1.990")
    assert rows[1].startswith("consistent near minimax two_pointpure, ε = 0.01 ≤ 1.250 ± 0.02")
    words = [str(attrs["aria-label"]) for attrs, _ in page.all("svg")]
    assert words[0] == "1 of 1 measurements within what was predicted, with tolerances: KSU20"
    assert words[1] == (
        "measured 1.99, 95% interval 1.98 to 2.01, predicted 2 plus or minus 0.02: consistent"
    )
    assert "predicted at most 1.25 plus" in words[3]
    # of a group, then of its claim: from 1.98 to 2.02, and from 0.98 to 1.27
    dots = [float(str(attrs["cx"])) for attrs, _ in page.all("circle")]
    across = page_tables.WIDTH - 2 * page_tables.MARGIN
    assert dots[0] == pytest.approx(page_tables.MARGIN + across * 1.5 / 4, abs=0.06)
    assert dots[2] == pytest.approx(page_tables.MARGIN + across * (1 + 0.04 / 0.29) / 4, abs=0.06)
    notes = [text for text in page.texts("p") if text.startswith("The tolerance of")]
    why = "The tolerance of {}, declared before the run: {}."
    assert notes == [why.format("rate", "n is finite"), why.format("near", "few members")]
    write_table(example / "claims.csv", [CLAIM | dict.fromkeys(("measured", "low", "high"), "")])
    page = page_of(example)
    (row,) = (row for row in page.texts("tr") if "two_pointpure" in row)
    assert row.startswith("consistent rate minimax two_pointpure, ε = 0.01 2.000 ± 0.02 -")
    assert any("Not measured (-): too few trials" in text for text in page.texts("p"))
    several = [CLAIM, CLAIM | {"verdict": "inconsistent", "measured": 2.5}, CLAIM | {"epsilon": 1}]
    write_table(example / "claims.csv", [CLAIM | {"claim": "near", "variable": "odd"}, *several])
    page = page_of(example)
    groups = [at for at, _ in page.all("details") if at.get("class") == "group"]
    assert ["open" in at for at in groups] == [True, False]
    assert page.texts("summary")[1:3] == [
        "2 of 3 consistent KSU20 s in n ~ (1/α)ˢ error (0.9 quantile)",  # noqa: RUF001
        "1 of 1 consistent KSU20 odd error (0.9 quantile)",
    ]
    rows = [row for row in page.texts("tr") if " rate " in row]
    assert [row.split()[0] for row in rows] == ["inconsistent", "consistent", "consistent"]


def test_factors_have_a_column_per_moment_order(example: Path) -> None:
    page = page_of(example)
    rows = [row for row in page.texts("tr") if row.endswith("two laws")]
    assert rows[:2] == [
        "rare pure, ε = 1e-6 1.01 … 1.04 1.05 … 1.2 minimax two laws",
        "coin pure, ε = 1e-6 0.9 minimax two laws",
    ]
    heads = "distributionbudget factor k = 2 k = 3 best estimatorbound by"
    assert heads in page.texts("tr")
    tones = [
        (at["class"], text) for at, text in page.all("span") if text in rows[0] and "…" in text
    ]
    assert tones == [("verdict good", "1.01 … 1.04"), ("verdict unsure", "1.05 … 1.2")]


def test_several_runs_are_opened_one_by_one_and_no_id_is_there_twice(
    example: Path, tmp_path: Path
) -> None:
    """Headings step down one at a time, name their sections, and no link leads nowhere."""
    both = page_of(example, write_run(tmp_path / "elsewhere", rows=3))
    runs = [at for at, _ in both.all("details") if at.get("class") == "run"]
    assert [(at["id"], "open" in at) for at in runs] == [("run1", False), ("run2", False)]
    opening = [one for one in both.texts("summary") if one.startswith("example")]
    counts = "2 of 2 tests of theory consistent, 0 inconsistent"
    assert opening[0].startswith(f"example {counts}")
    assert opening[1].startswith(f"example in elsewhere {counts}")
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
    rows = [row for row in page.texts("tr") if " 9 1000 " in row and row[0] in "rnf"]
    assert rows[0] == "refuted clipped approx 0.01 edge 9 1000 1.0 1.500"
    assert rows[1] == "failed clipped approx 1e-06 edge 9 1000 1.0"
    assert rows[2] == "not refuted clipped pure far 9 1000 1.0 0.9000 x 0.5"
    assert any("must refute: 1 of 2 are" in p for p in page.texts("p"))
    assert rows[3].startswith("not refuted no_noise pure")  # the control that stood comes first
    assert list(page.columns("run1-audit")) == [name for name in PAIR if name != "seconds"]


def test_what_is_worse_comes_first_in_tracking_and_is_open(example: Path) -> None:
    def opened() -> list[bool]:
        return ["open" in at for at, text in page.all("details") if "of the baseline" in text]

    page = page_of(example)
    assert page.columns("run1-tracking")["verdict"] == ["worse", "same"]
    assert opened() == [True]
    # a table may lack what only some runs have
    write_table(example / "tracking.csv", [{"estimator": "rate", "verdict": "new"}])
    page = page_of(example)
    assert page.columns("run1-tracking")["verdict"] == ["new"]
    assert opened() == [False]


def test_failures_come_with_their_command_and_results_with_their_origin(example: Path) -> None:
    page = page_of(example)
    assert page.texts("li")[-1] == "ValueError: too few python -m dpbench replay=ab"
    assert "python -m dpbench sweep=example" in page.texts("pre")
    assert "2026-01-02 03:04 UTC, in 5.6 s" in page.texts("dd")
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
    groups = [at for at, _ in page.all("details") if at.get("class") == "group"]
    measured = claims.groupby("source", sort=False)["measured"].count()
    assert len(page.all("svg")) == len(claims) + len(groups) - (measured == 0).sum()
    for name, table in (("summary", numbers.summary), ("sample_complexity", numbers.samples)):
        assert len(page.columns(f"run1-{name}")["distribution"]) == len(table)
    shown = [row for row in page.texts("tr") if " rate minimax " in row]
    measured = claims["measured"][claims["claim"] == "rate"]
    budgets = ("pure, ε = 0.5", "pure, ε = 1", "zCDP, ρ = 0.5")  # noqa: RUF001
    expected = {
        f"rate minimax pair_k{k}{one} {value:#.4g}"
        for (k, one), value in zip(itertools.product((2, 3), budgets), measured, strict=True)
    }
    found = [re.sub(r"^\w+ (.*) \S+ ± 0.5 (\S+) .*", r"\1 \2", row) for row in shown]
    assert (set(found), len(found)) == (expected, len(measured))
    why = [text.partition("run: ")[2] for text in page.texts("p") if "declared before" in text]
    assert sorted(why) == ["few trials.", "few trials.", "two <members>."]
    worst, exponents = page.texts("figcaption")
    assert worst.startswith("The worst of <two>. Shown: error (0.9 quantile) against n; bands: ")
    assert exponents.startswith("Exponents against k. Shown: fitted exponents against the moment")


def test_what_cannot_be_read_is_told_in_one_line(example: Path) -> None:
    (example / "claims.csv").write_text("claim,odd\na,1\n")
    with pytest.raises(ConfigError, match=f"^report: '{example}': cannot be read") as caught:
        page_of(example)
    assert "\n" not in str(caught.value)
