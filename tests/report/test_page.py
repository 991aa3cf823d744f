"""The page of runs: answers first, labels as text, nothing loaded, the same bytes again."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dpbench.registry import ConfigError
from dpbench.report.page import write_page
from dpbench.report.run_result import Result
from tests.report.conftest import Page, page_of
from tests.report.page_folders import CLAIM, HOSTILE, MANIFEST, PAIR, write_run, write_table


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
    assert page.texts("h1") == ["Is the mean private?"]
    assert page.texts("p")[0] == "dpbench: how accurate is a private mean? Sweep example"
    assert page.texts("p")[1:3] == [
        "Result: AGREE. 2 of 2 numbers of theorems agree with the measurement; the best "
        "private estimators' worst errors 1.01 to 1.3 times their lower bounds; 2 of 3 claims of "
        "privacy refuted or failed; 1 of 2 broken controls caught; 1 of 2 errors worse than the "
        "baseline's or gone; 1 setting that raised an error.",
        "Run: 1 estimator on pairs of neighbouring datasets, with 1000 runs on each dataset.",
    ]
    assert tags.index("img") < tags.index("h2")
    (example / "audit.csv").unlink()
    assert page_of(example).texts("p")[2] == (
        "Run: 3 estimators on 4 distributions under pure DP, with n = 1 to 10¹² and 100 trials of "
        "each."
    )
    for name in ("claims", "controls", "factors"):
        (example / f"{name}.csv").unlink()
    (example / "tracking.csv").unlink()
    found = page_of(example).texts("p")[1]
    assert found.startswith("Result: the 0.9 quantile of the error is ")  # 41 letters
    write_table(example / "summary.csv", ERRORS)
    assert (
        page_of(example)
        .texts("p")[1]
        .removeprefix(found[:41])
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
        assert f"; {told}; " in page_of(example).texts("p")[1]
    (tmp_path / "bare").mkdir()
    assert page_of(tmp_path / "bare").texts("h1") == ["bare"]


def test_the_tone_of_the_answer_is_that_of_the_worst_finding(tmp_path: Path) -> None:
    for verdict, tone in (
        ("consistent", "good"),
        ("inconclusive", "unsure"),
        ("inconsistent", "bad"),
    ):
        folder = tmp_path / verdict
        folder.mkdir()
        manifest = {"sweep": "a", "sections": ["claims"], "outputs": {"claims.csv": []}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        write_table(
            folder / "claims.csv", [CLAIM, CLAIM | {"verdict": verdict, "theorem_verdict": verdict}]
        )
        classes = [attrs.get("class") for attrs, _ in page_of(folder).all("div")]
        assert f"answer {tone}" in classes


@pytest.mark.parametrize(("expected", "tone"), [("refuted", "good"), ("not refuted", "bad")])
def test_what_is_known_to_be_refuted_is_no_finding(
    tmp_path: Path, expected: str, tone: str
) -> None:
    """It is told, and red in its row."""
    outputs: dict[str, list[str]] = {"claims.csv": [], "audit.csv": []}
    manifest = {"sweep": "a", "sections": ["claims", "privacy"], "outputs": outputs}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
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


def test_labels_are_text_and_nothing_else(example: Path, tmp_path: Path) -> None:
    figure = {"kind": HOSTILE, "caption": HOSTILE, "metric": HOSTILE}
    sweep = {
        "claims": {f"rate{HOSTILE}": {"theorem": HOSTILE, "reason": HOSTILE}},
        "parts": {HOSTILE: {"families": HOSTILE, "figures": {"curves": figure}}},
    }
    manifest = {
        "sweep": HOSTILE, "command": HOSTILE, "configuration": {"sweep": sweep},
        "outputs": MANIFEST["outputs"], "tracked": MANIFEST["tracked"],
        "sections": MANIFEST["sections"],
        "versions": {HOSTILE: HOSTILE}, "commit": HOSTILE,
        "failures": [{"failure": HOSTILE, "rerun": HOSTILE}],
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
    style, scripts = page.all("style")[0][1], [text for _, text in page.all("script")]
    assert not re.search(r"url\(|@import", style)
    assert "innerHTML" not in scripts[-1]
    policy = next(str(attrs["content"]) for attrs, _ in page.all("meta") if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; img-src data:;")
    for text in (style, *scripts):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_several_runs_are_opened_one_by_one_and_no_id_is_there_twice(
    example: Path, tmp_path: Path
) -> None:
    """Headings step down one at a time, name their sections, and no link leads nowhere."""
    both = page_of(example, write_run(tmp_path / "elsewhere", rows=3))
    runs = [at for at, _ in both.all("details") if at.get("class") == "run"]
    assert [(at["id"], "open" in at) for at in runs] == [("run1", False), ("run2", False)]
    opening = [one for one in both.texts("summary") if one.startswith("example")]
    counts = "AGREE. 2 of 2 numbers of theorems agree with the measurement; the best"
    assert opening[0].startswith(f"example: Is the mean private? {counts}")
    assert opening[1].startswith(f"example: Is the mean private? in elsewhere {counts}")
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
    why = [
        text.partition("sweep: ")[2] for text in page.texts("p") if "declared in the sweep" in text
    ]
    assert sorted(why) == ["few trials."] * 3 + ["two <members>."]
    worst, exponents = page.texts("figcaption")
    assert worst.startswith("The worst of <two>. Shown: error (0.9 quantile) against n; bands: ")
    assert exponents.startswith("Exponents against k. Shown: fitted exponents against the moment")


def test_what_cannot_be_read_is_told_in_one_line(example: Path) -> None:
    (example / "claims.csv").write_text("claim,odd\na,1\n")
    with pytest.raises(ConfigError, match=f"^report: '{example}': cannot be read") as caught:
        page_of(example)
    assert "\n" not in str(caught.value)
