"""The paper figures: one tiny source end to end, all shipped ones without running."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.image import imread

import dpbench
from dpbench.composition import composed
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.figures import DrawnFigure, chosen_labels
from dpbench.result import Result
from dpbench.study import Study
from experiments import paper
from experiments.captions import caption
from experiments.paper import main, sources
from experiments.tables import MOST_ROWS, claim_rows, escaped, scoreboard

from .test_figures import ACCURACY, CLIP, ERROR, PAID
from .test_parameter_figures import ROUNDS

TINY = """
title: A tiny source
sweeps:
  binary_mean: {figures: [error], claims: [private_*, "!private_rho"]}
names: {binary: Laplace, mean: the mean, pure: pure_ & 5%}
"""
# Few trials and sizes, no direct search, and one figure of the sweep's own.
FAST = [
    "trials=60", "seed=3", "n_jobs=1", "sweep.parts.all.n={low: 10, high: 1e7, points: 7}",
    "~sweep.sample_complexity", "~sweep.figures.sample_complexity",
    "sweep.claims.sampling_regime.n_min=100",
]  # fmt: skip
SHIPPED = sources()
SPECIAL = re.compile(r"[\\&%$#_{}~^]")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of sources, of which the tiny one has been drawn, where results are written."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "HERE", folder)
        patch.chdir(folder)
        assert main("tiny", FAST) == 0
        yield folder


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two sources of the same sweep, of which none has been drawn."""
    for name in ("tiny", "other"):
        (tmp_path / f"{name}.yaml").write_text(TINY)
    monkeypatch.setattr(paper, "HERE", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rerun_computes_nothing_and_writes_the_same_bytes(finished: Path) -> None:
    written = finished / "results/paper/tiny"
    before = {path.name: path.read_bytes() for path in written.iterdir()}
    figures = {f"binary_mean_error.{kind}" for kind in ("pdf", "png", "txt")}
    assert set(before) == figures | {"scoreboard.tex"}
    for path in written.iterdir():
        path.unlink()
    assert main(argv=FAST) == 0
    assert {path.name: path.read_bytes() for path in written.iterdir()} == before
    manifest = json.loads((finished / "results/binary_mean/manifest.json").read_text())
    assert manifest["blocks_done"] == 0 < manifest["blocks_reused"]


def test_figures_are_as_wide_as_a_column_and_captions_name_the_setting(finished: Path) -> None:
    """The override's n, trials and seed, and the budgets that are drawn."""
    path = finished / "results/paper/tiny/binary_mean_error"
    (box,) = re.findall(rb"/MediaBox \[([^]]*)\]", path.with_suffix(".pdf").read_bytes())
    assert float(box.split()[2]) == pytest.approx(3.4 * 72, abs=0.01)
    assert imread(path.with_suffix(".png")).shape[1] == 680
    assert plt.get_fignums() == []
    text = path.with_suffix(".txt").read_text()
    assert text.startswith("Binary data: the error falls as 1/(epsilon n)")
    for part in (
        "Shown: error (0.9 quantile) against n. Data: bernoulli (bernoulli; p = 0.5). ",
        "Estimators: Laplace (binary mean), the mean (empirical mean). ",
        "Budgets: pure DP, epsilon = 0.001, 1. n 10 to 1e+07; trials per point 60; seed 3. ",
        "Bands: 95 per cent intervals of the quantile from order statistics; ",
        "dotted: the slope of theory, through the geometric mean of the points",
    ):
        assert part in text
    assert text.count("\n") == 1


def test_captions_of_every_kind(numbers: Result) -> None:
    """What is drawn, of whom, from how many trials, and no character that LaTeX takes amiss."""
    cases: list[tuple[str | dict[str, Any], list[str]]] = [
        (
            {**ERROR, "budgets": {"approx": {"delta": 1e-6}}},
            ["shrinking (shrinking intervals; radius = 100; rounds = 1, 2, 4)",
             "free (karwa vadhan mean)", "Budgets: approximate DP, epsilon = 1, delta = 1e-06.",
             "Data: gaussian (gaussian; location = 0.3; scale = 1), student (student t; "],
        ),
        (CLIP, ["0.9 quantiles of the error", "No intervals are drawn", "dotted: theory"]),
        (
            "exponents",
            ["Exponents against k. Shown: fitted exponents", "n 1e+06 to 1e+08;",
             "Budgets: pure DP, epsilon = 0.5, 1; zCDP, rho = 0.5",
             "Bars: 95 per cent intervals, bootstrap over trials"],
        ),
        ({**ACCURACY, "budgets": PAID},
         ["diamonds: found by direct search", "dotted: the theorem's terms added"]),
        ({**ROUNDS, "metrics": ["width_q50", "miss_rate"]},
         ["interval width (median) and share of intervals that miss against the number of rounds",
          "Bands: Jeffreys' 95 per cent intervals of the share"]),
    ]  # fmt: skip
    for spec, parts in cases:
        figure = numbers._figure(spec)
        assert isinstance(figure, DrawnFigure)
        text = caption(figure, numbers, numbers.figure(spec), {})
        assert not SPECIAL.search(text)
        assert "trials per point 40; seed 0" in text
        assert [part for part in parts if part not in text] == []


def test_the_scoreboard_has_the_claims_asked_for(finished: Path) -> None:
    """A line each, which no two begin alike: with the budget where a claim has several."""
    lines = (finished / "results/paper/tiny/scoreboard.tex").read_text().splitlines()
    assert lines[0] == "% needs the packages booktabs"
    assert lines[1].startswith(r"\begin{tabular}{")
    rules = [lines.index(rf"\{rule}rule") for rule in ("top", "mid", "bottom")]
    assert rules == [2, 4, len(lines) - 2]
    found = [line.removesuffix(r" \\").split(" & ") for line in lines[5:-2]]
    written = dpbench.load(finished / "results/binary_mean").claims
    asked = ["private_part", "private_epsilon", "private_regime"]
    written = written[written["claim"].isin(asked)]
    for cells, row in zip(found, written.to_dict("records"), strict=True):
        name = row["claim"].replace("_", r"\_")
        assert cells[0].startswith(name)
        assert (cells[0] != name) == (row["claim"] == "private_part")
        assert cells[3:] == [
            rf"${row['predicted']:.3f} \pm {row['tolerance']:g}$", f"${row['measured']:.3f}$",
            f"$[{row['low']:.3f}, {row['high']:.3f}]$", row["verdict"],
        ]  # fmt: skip
    assert len({cells[0] for cells in found}) == len(found) > 5


def test_upper_limits_small_numbers_and_long_tables(numbers: Result) -> None:
    claims = numbers.claims.copy()
    claims.loc[claims["claim"] == "limit", ["measured", "low", "high"]] = [1.5e-5, 0.0, -0.25]
    changed = dataclasses.replace(numbers, claims=claims)
    *unknown, limit = claim_rows(changed, ["limit", "near"])
    assert limit[3:6] == [r"$\leq 2.000 \pm 1$", r"$1.5 \times 10^{-5}$", "$[0.000, -0.250]$"]
    assert [row[4:] for row in unknown] == [["--", "--", "inconclusive"]] * 2
    rows = claim_rows(numbers, ["rate"])
    assert [row[0] for row in rows] == ["rate eps=0.5", "rate eps=1", "rate rho=0.5"] * 2
    text = scoreboard(rows * MOST_ROWS)
    assert text.startswith("% needs the packages booktabs and longtable\n\\begin{longtable}")
    assert text.index(r"\endhead") < text.index(r"\endfoot") < text.index("rate eps=1")


def test_text_is_escaped_but_for_mathematics() -> None:
    assert escaped(r"a_b & 5% {x} # ~ ^ \ < > $a_b \le 1$ c_d") == (
        r"a\_b \& 5\% \{x\} \# \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"\textless{} \textgreater{} $a_b \le 1$ c\_d"
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sources_ask_for_what_their_sweeps_have(name: str) -> None:
    source, shown = SHIPPED[name], 0
    entries: set[str] = set()
    for label, wanted in source.sweeps.items():
        if label == "audit":
            return
        study = from_mapping(Study, composed([f"sweep={label}"])["sweep"], label)
        chosen_labels(wanted.claims, study.all_claims, "claims")
        figures = chosen_labels(wanted.figures, study.all_figures, "figures")
        shown += len(figures)
        for figure in figures:
            text = study.all_figures[figure].caption
            assert text
            assert not SPECIAL.search(text)
            assert not text.endswith(".")
        sections = (study.families, study.estimators, study.budgets)
        entries |= {one.name for section in sections for one in section.values()}
    assert shown >= (1 if name == "near_optimal" else 3)
    assert set(source.names) <= entries


def test_what_fails_is_left_out_and_told(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def fails(argv: list[str]) -> int:
        asked.append(argv)
        return 1

    monkeypatch.setattr(paper, "run", fails)
    assert main(argv=["trials=5"]) == 1
    assert asked == [["sweep=binary_mean", "trials=5"]]  # once for both
    told = capsys.readouterr()
    assert "other (1 of 2), sweep 1 of 1: binary_mean" in told.out
    assert "binary_mean ended with 1: nothing of it is drawn" in told.err
    monkeypatch.setattr(paper, "run", lambda _: 130)
    assert main(argv=[]) == 130
    assert {path.suffix for path in tiny.iterdir()} == {".yaml"}


@pytest.mark.parametrize("word", ["trials=abc", "nope=1", "sweep=quick"])
def test_unusable_overrides(word: str, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("tiny", [word]) == 2
    assert word.partition("=")[0] in capsys.readouterr().err
    assert not list(tiny.rglob("*.p*"))


@pytest.mark.parametrize(
    ("text", "named"),
    [("sweeps: {}", "title"), (TINY.replace("figures", "figure"), "figure"), ("a", "mapping")],
)
def test_a_source_that_is_none(tiny: Path, text: str, named: str) -> None:
    (tiny / "tiny.yaml").write_text(text)
    with pytest.raises(ConfigError, match=f"^tiny.*{named}") as caught:
        sources()
    assert "\n" not in str(caught.value)


def test_an_unknown_figure_of_a_source(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = finished / "wrong.yaml"
    wrong.write_text(TINY.replace("error", "nope"))
    assert main("wrong", FAST) == 2
    wrong.unlink()
    assert "wrong.sweeps.binary_mean.figures: 'nope'" in capsys.readouterr().err


def test_help_lists_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv=["--help"]) == 0
    told = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", told, re.MULTILINE) for name in sources())
    assert list(SHIPPED) == sorted(SHIPPED)
