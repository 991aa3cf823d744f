"""The paper figures: one tiny source end to end, all shipped ones without running."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.image import imread
from matplotlib.mathtext import MathTextParser

import dpbench
from dpbench.cli.main import run
from dpbench.jobs.base import FolderJob
from dpbench.jobs.composition import compose
from dpbench.output.verdicts import EARLY
from dpbench.paper import command
from dpbench.paper.command import main, sources
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.drawing.style import PRINT
from dpbench.report.figures import DrawnFigure, chosen_labels
from dpbench.report.latex import (
    COLUMNS,
    MAX_TABULAR_ROWS,
    WIDTH,
    caption,
    claim_rows,
    claims_table,
    escape_latex,
    to_latex,
)  # fmt: skip
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from tests.bench import Bench, shipped
from tests.report.specs import ACCURACY, CLIP, ERROR, PAID
from tests.report.test_error_figures import ROUNDS

TINY = """
title: A tiny source
sweeps:
  binary_mean: {figures: [error], claims: [private_*, "!private_rho"], names: {binary: Laplace}}
names: {binary: replaced by the sweep, mean: the mean, pure: pure_ & 5%}
"""
# Few trials, sizes and budgets, no direct search, and one figure of the sweep's own.
FAST = [
    "trials=60", "seed=3", "n_jobs=1", "sweep.parts.all.n={low: 10, high: 1e7, points: 4}",
    "sweep.budgets.pure.epsilon=[0.001,0.1,1]", "sweep.budgets.zcdp.rho=[5e-5,0.5]",
    *(f"~sweep.budgets.{name}" for name in ("staircase", "approx", "gdp", "approx_few")),
    "~sweep.budgets.approx_thousand", "~sweep.families.rare",
    *(f"~sweep.estimators.{name}" for name in ("minimax", "exact", "noisyvar")),
    *(f"~sweep.parts.{name}" for name in ("few", "thousand", "interval", "simulated")),
    "sweep.parts.all.budgets=*", "~sweep.figures.width",
    *(f"~sweep.names.{name}" for name in ("exact", "noisyvar", "rare", "bernoulli")),
    "~sweep.sample_complexity", "~sweep.figures.sample_complexity",
    "sweep.claims.sampling_regime.n_min=100", "paper=true", "font=serif",
]  # fmt: skip
SHIPPED = sources()
SPECIAL = re.compile(r"[\\&%$#_{}~^]")


def assert_latex(text: str) -> None:
    """What LaTeX would refuse: braces without a partner, bare signs, mathematics it cannot set."""
    assert text.isascii()
    text = re.sub(r"(?m)^%.*\n", "", text)
    assert text.count(r"\begin{") == text.count(r"\end{")
    text = text.replace(COLUMNS, "").replace(WIDTH, "")
    text = re.sub(r"\\(begin|end|label|includegraphics\[width=\])\{[^}]*\}", "", text)
    plain = re.sub(r"\\[\\&%#_{}]", "", text)
    depth = np.cumsum([{"{": 1, "}": -1}.get(character, 0) for character in plain])
    assert depth.min(initial=0) == 0 == depth[-1]
    words, formulas = plain.split("$")[::2], plain.split("$")[1::2]
    assert len(words) == len(formulas) + 1
    for one in words:
        assert not re.search(r"[%#_^~<>@]", one.replace("{@{}l@{}}", ""))
        assert not re.search(r"\b(alpha|delta|epsilon|rho)\b", one)
    # each takes its time, and digits are alike
    for one in sorted({re.sub(r"\d", "1", formula) for formula in formulas}):
        MathTextParser("path").parse(f"${one}$")


def width(text: str) -> float:
    """Points, in Computer Modern as large as a footnote."""
    plain = re.sub(r"\\([%_&#{}])", r"\1", text)
    with mpl.rc_context({"mathtext.fontset": "cm"}):
        font = FontProperties(family="cmr10", size=8)
        return float(MathTextParser("path").parse(plain, prop=font).width)


def assert_fits(table: str) -> None:
    """A page of LaTeX's own holds the columns, and those of words every word."""
    shares = [345 * float(share) for share in re.findall(r"p\{([\d.]+)\\linewidth", table)]
    text, measured, verdict = shares  # the first for three columns
    lines = [line.removesuffix(r" \\").split(" & ") for line in table.splitlines() if " & " in line]
    columns = [list(column) for column in zip(*lines, strict=True)]
    words = [(text, r"\$.*?\$|[\s-]", one) for one in columns[:3]]
    words += [(measured, r"(?<=\$) ", columns[5]), (verdict, r"[\s-]", columns[6])]
    for room, breaks, column in words:
        parts = {part for cell in column for part in re.split(breaks, cell)}
        assert max(map(width, parts)) <= room
    wide = sum(max(map(width, set(column))) for column in columns[3:5])
    assert 3 * text + measured + verdict + wide + 6 * 2 * 2 <= 345


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of sources, of which the tiny one has been drawn, where results are written."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "papers").mkdir()
    (folder / "papers/tiny.yaml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "conf_folder", lambda: folder)
        patch.chdir(folder)
        assert main(["tiny", *FAST]) == 0
        yield folder


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two sources of the same sweep, of which none has been drawn."""
    (tmp_path / "papers").mkdir()
    for name in ("tiny", "other"):
        (tmp_path / f"papers/{name}.yaml").write_text(TINY)
    monkeypatch.setattr(command, "conf_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rerun_computes_nothing_and_writes_the_same_bytes(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = finished / "results/paper/tiny"
    figures_of_run = finished / "results/binary_mean/figures"
    of_run = {path: path.read_bytes() for path in figures_of_run.iterdir()}
    tables = {path: path.read_bytes() for path in figures_of_run.parent.glob("*.[tm][ed]*")}
    assert {path.name for path in tables} == {"claims.tex", "errors.md", "errors.tex"}
    before = {path.name: path.read_bytes() for path in written.iterdir()}
    figures = {f"binary_mean_error.{kind}" for kind in ("pdf", "png", "tex")}
    assert set(before) == figures | {"scoreboard.tex"}
    for path in written.iterdir():
        path.unlink()
    assert main(FAST) == 0
    out = capsys.readouterr().out
    assert out.endswith("\nfigures: results/paper/tiny/\n")
    hint = r"^(next|to decide|more trials|an independent replication)\b.*: "
    assert not re.search(hint, out, re.MULTILINE)  # to run one of the sweeps alone
    assert {path.name: path.read_bytes() for path in written.iterdir()} == before
    assert {path: path.read_bytes() for path in figures_of_run.iterdir()} == of_run
    assert {path: path.read_bytes() for path in tables} == tables
    manifest = json.loads((finished / "results/binary_mean/manifest.json").read_text())
    assert manifest["blocks_done"] == 0 < manifest["blocks_reused"]


def test_figures_are_as_wide_as_a_column_and_captions_name_the_setting(finished: Path) -> None:
    """The override's n, trials and seed, and the budgets that are drawn."""
    path = finished / "results/paper/tiny/binary_mean_error"
    (box,) = re.findall(rb"/MediaBox \[([^]]*)\]", path.with_suffix(".pdf").read_bytes())
    assert float(box.split()[2]) == pytest.approx(3.4 * 72, abs=0.01)
    assert imread(path.with_suffix(".png")).shape[1] == 680
    assert plt.get_fignums() == []
    text = path.with_suffix(".tex").read_text()
    assert_latex(text)
    assert rf"\includegraphics[width={WIDTH}]{{binary_mean_error.pdf}}" in text
    assert r"It falls as $1/(\varepsilon n)$ where privacy dominates" in text
    for part in (
        "% Shown: error (0.9 quantile) against $n$.\n% Data: Bernoulli (Bernoulli; $p = 0.5$).\n",
        "% Estimators: Laplace (binary mean), the mean (empirical mean).\n",
        "% Budgets: pure\\_ \\& 5\\%, $\\varepsilon = 0.001$, $1$.\n",
        "$n$ from $10$ to $10^{7}$; trials per point: $60$; seed 3. "
        "Bands: 95 per cent intervals of the quantile from order statistics.}",
        "dotted: the slope of theory, through the geometric mean of the points",
    ):
        assert part in text


def test_captions_of_every_kind(numbers: Result) -> None:
    """What is drawn, of whom, from how many trials, and nothing that LaTeX takes amiss."""
    cases: list[tuple[str | dict[str, Any], list[str]]] = [
        (
            {**ERROR, "budgets": {"approx": {"delta": 1e-6}}},
            [r"shrinking (shrinking intervals; $R = 100$; $\sigma$ = $1$; $t = 1$, $2$, $4$)",
             r"free (Karwa-Vadhan mean; $\sigma$ = $1$)",
             r"Budgets: approximate DP, $\varepsilon = 1$, $\delta = 10^{-6}$.",
             "Data: Gaussian (Gaussian; location = $0.3$; scale = $1$), student (Student's t; "],
        ),
        (CLIP, ["0.9 quantiles of the error", "No intervals are drawn", "dotted: the exact noise"]),
        (
            "exponents",
            ["Exponents against $k$. $n$ from $10^{6}$ to $10^{8}$;", "Shown: fitted exponents",
             r"Budgets: pure DP, $\varepsilon = 0.5$, $1$; zCDP, $\rho = 0.5$",
             "Bars: 95 per cent intervals, bootstrap over trials"],
        ),
        ({**ACCURACY, "budgets": PAID},
         ["diamonds: found by direct search", "dotted: the sum of the theorem's terms"]),
        ({**ROUNDS, "metrics": ["width_q50", "miss_rate"]},
         ["interval width (median) and share of intervals that miss against the number of rounds",
          "Bands: Jeffreys' 95 per cent intervals of the share"]),
    ]  # fmt: skip
    for spec, parts in cases:
        figure = numbers._figure(spec)
        assert isinstance(figure, DrawnFigure)
        short, details = caption(figure, numbers, numbers.figure(spec), {})
        assert len(short.split()) <= len(figure.caption.split()) + 36
        text = " ".join([short, *details])
        assert_latex(text)
        assert "trials per point: $40$; seed 0" in text
        assert [part for part in parts if part not in text] == []


def test_the_scoreboard_has_the_claims_asked_for(finished: Path) -> None:
    """A line each, which no two begin alike: with the budget where a claim has several."""
    text = (finished / "results/paper/tiny/scoreboard.tex").read_text()
    assert_fits(text)
    lines = text.splitlines()
    assert lines[0] == "% needs the packages array and booktabs"
    assert lines[2] == rf"\begin{{tabular}}{{{COLUMNS}}}"
    rules = [lines.index(rf"\{rule}rule") for rule in ("top", "mid", "bottom")]
    assert rules == [3, 5, len(lines) - 2]
    written = dpbench.load(finished / "results/binary_mean").claims
    heading, found = "", list[tuple[str, ...]]()
    for line in lines[6:-2]:
        if line.startswith(r"\addlinespace"):
            heading = line.removeprefix(r"\addlinespace\multicolumn{7}{@{}l@{}}{")
        else:
            found.append((heading, *line.removesuffix(r" \\").split(" & ")))
    asked = ["private_part", "private_epsilon", "private_regime"]
    written = written[written["claim"].isin(asked)]
    for cells, row in zip(found, written.to_dict("records"), strict=True):
        assert cells[0].startswith(row["claim"].replace("_", r"\_") + ": exponent of $(1/\\")
        code = "" if row["checks"] == "theorem" else ", a check of the code"
        assert cells[0].endswith(rf")$, $\pm {row['tolerance']:g}${code}}} \\*")
        assert cells[1:3] == ("Laplace", "Bernoulli")
        assert cells[4:] == (
            f"${row['theorem']:.3f}$", "",
            rf"${row['measured']:.3f}$ $[{row['low']:.3f}, {row['high']:.3f}]$", row["verdict"],
        )  # fmt: skip
    assert len({(cells[0], cells[3]) for cells in found}) == len(found) > 5
    assert {r"\alpha", r"\varepsilon"} <= {
        cells[0].split("(1/")[1].split(" ")[0] for cells in found
    }


def test_upper_limits_small_numbers_and_long_tables(numbers: Result) -> None:
    claims = numbers.claims.copy()
    claims.loc[claims["claim"] == "limit", ["measured", "low", "high"]] = [1.5e-5, 0.0, -0.25]
    near = claims["claim"] == "near"
    claims.loc[near, ["measured", "low", "high"]] = float("nan")
    claims.loc[near, ["verdict", "theorem_verdict"]] = "inconclusive"
    changed = dataclasses.replace(numbers, claims=claims)
    *unknown, limit = claim_rows(changed, ["limit", "near"])
    assert limit[0].endswith(r"$, $\pm 1$")
    assert limit[4:7] == [r"$\leq 2.000$", "", r"$1.5 \times 10^{-5}$ $[0.000, -0.250]$"]
    assert [row[6:] for row in unknown] == [["--", "inconclusive"]] * 2
    early = {"theorem_verdict": EARLY, "exact_at_run_n": 1.8, "verdict": "consistent"}
    for name, value in early.items():
        claims[name] = claims[name].where(claims["claim"] != "limit", value)
    (row,) = claim_rows(dataclasses.replace(numbers, claims=claims), ["limit"])
    assert [row[4:6], row[7]] == [[r"$\leq 2.000$", r"$\leq 1.800$"], EARLY]
    assert_fits(claims_table([*unknown, row]))
    rows = claim_rows(numbers, ["rate"])
    budgets = [
        r"pure DP, $\varepsilon = 0.5$",
        r"pure DP, $\varepsilon = 1$",
        r"zCDP, $\rho = 0.5$",
    ]
    assert [row[3] for row in rows] == budgets * 2
    kinds = {MAX_TABULAR_ROWS: "tabular", MAX_TABULAR_ROWS + 1: "longtable"}
    for count, kind in kinds.items():
        assert rf"\begin{{{kind}}}" in claims_table(rows[:1] * count)
    text = claims_table(rows * MAX_TABULAR_ROWS)
    assert_latex(text)
    assert_fits(claims_table([*unknown, limit]))
    assert text.startswith(
        "% needs the packages array, booktabs and longtable, and one column to a"
    )
    assert text.index(r"\endhead") < text.index(r"\endfoot") < text.index("rate: exponent")


def test_text_is_escaped_but_for_mathematics() -> None:
    assert escape_latex(r"a_b & 5% {x} # ~ ^ \ < > $a_b \le 1$ c_d") == (
        r"a\_b \& 5\% \{x\} \# \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"\textless{} \textgreater{} $a_b \le 1$ c\_d"
    )
    assert to_latex("coordinates k2, k 2, k = 2") == "coordinates k2, $k$ 2, $k = 2$"


def test_a_run_for_a_paper_has_all_that_it_takes(finished: Path) -> None:
    """``paper=true font=serif`` of any sweep; without them the same folder is for a page again."""
    folder = finished / "results/binary_mean"
    svg = folder / "figures/error.svg"
    printed = {f".{kind}" for kind in PRINT}
    assert {path.suffix for path in svg.parent.iterdir()} == printed | {".tex"}
    assert 'width="244.8pt"' in svg.read_text()
    assert "STIX" in svg.read_text()
    for name in ("figures/error.tex", "claims.tex"):
        assert_latex((folder / name).read_text())
    rows = (folder / "claims.tex").read_text().count("\\\\\n")
    assert rows == 1 + len(dpbench.load(folder).claims)
    job = ["sweep=binary_mean", f"out={folder}", *FAST[:-2]]
    assert run(job) == 0
    assert not list(folder.rglob("*.tex"))
    assert not {path.suffix for path in svg.parent.iterdir()} & {".pdf", ".png"}
    assert not (folder / "errors.md").exists()
    assert 'width="504pt"' in svg.read_text()
    assert "STIX" not in svg.read_text()
    assert run([*job, "paper=yess"]) == 2 == run(["sweep=audit", "paper=true"])


def test_a_sweep_without_claims_has_no_table_of_claims(bench: Bench) -> None:
    """A tabular without rows is none that LaTeX takes."""
    bench.write(lambda spec: spec.pop("claims"))
    bench.done("paper=true")
    assert {path.name for path in (bench.folder / "out").glob("*.tex")} == {"errors.tex"}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sources_ask_for_what_their_sweeps_have(name: str) -> None:
    source, shown = SHIPPED[name], 0
    entries: set[str] = set()
    for label, wanted in source.sweeps.items():
        if label in ("audit", "libraries"):
            return
        study = from_mapping(Study, shipped(label)["sweep"], label)
        chosen_labels(wanted.claims, study.all_claims, "claims")
        figures = chosen_labels(wanted.figures, study.all_figures, "figures")
        shown += len(figures)
        for figure in figures:
            text = study.all_figures[figure].caption
            assert text
            assert not SPECIAL.search(text)
            assert text.endswith(".")
            assert_latex(to_latex(text))
        sections = (study.families, study.estimators, study.budgets)
        entries |= {one.name for section in sections for one in section.values()}
    assert shown >= (1 if name == "near_optimal" else 3)
    assert set(source.names) <= entries


def test_what_fails_is_left_out_and_told(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def fails(_: object, argv: list[str]) -> int:
        asked.append(argv)
        return 1

    monkeypatch.setattr(FolderJob, "run", fails)
    assert main(["trials=5"]) == 1
    assert asked == [["sweep=binary_mean", "trials=5"]]  # once for both
    told = capsys.readouterr().out
    assert told.startswith("1 of 1 sweeps to run; on two idle cores their own trials cost:\n")
    assert "\n  binary_mean: 70 s, " in told
    assert "other (1 of 2), sweep 1 of 1: binary_mean" in told
    assert "binary_mean: ended with exit code 1; its figures are not drawn" in told
    assert [path.name for path in tiny.iterdir()] == ["papers"]


@pytest.mark.parametrize("word", ["trials=abc", "nope=1", "sweep=quick"])
def test_unusable_overrides(word: str, tiny: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{word.partition('=')[0]}[:=]"):
        main(["tiny", word])
    assert not list(tiny.rglob("*.p*"))


@pytest.mark.parametrize(
    ("text", "named"),
    [("sweeps: {}", "title"), (TINY.replace("figures", "figure"), "figure"), ("a", "mapping")],
)
def test_a_source_that_is_none(tiny: Path, text: str, named: str) -> None:
    (tiny / "papers/tiny.yaml").write_text(text)
    with pytest.raises(ConfigError, match=f"^tiny.*{named}") as caught:
        sources()
    assert "\n" not in str(caught.value)


def test_an_unknown_figure_of_a_source(finished: Path) -> None:
    wrong = finished / "papers/wrong.yaml"
    wrong.write_text(TINY.replace("error", "nope"))
    with pytest.raises(ConfigError, match=r"^wrong.sweeps.binary_mean.figures: 'nope'"):
        main(["wrong", *FAST])
    wrong.unlink()


def test_help_lists_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["paper", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"SOURCE: {', '.join(SHIPPED)}; without one, all." in told
    assert list(SHIPPED) == sorted(SHIPPED)


def test_a_sweep_of_each_kind_composes_with_the_overrides_that_help_shows() -> None:
    """No override is about a key of a sweep, and each sweep is composed by other tests."""
    words = ["trials=50", "seed=1", "n_jobs=1", "font=serif", "runner=dask"]
    for sweep in ("quick", "audit", "libraries"):
        assert compose([f"sweep={sweep}", *words])["trials"] == 50
    job, *_ = command.make_jobs([SHIPPED["coinpress"]], words).values()
    assert isinstance(job, FolderJob)
    with pytest.raises(ConfigError, match=r"^paper: True: not for an audit; .* paper audit'"):
        command.make_jobs([SHIPPED["audit"]], [*words, "paper=true"])


@pytest.mark.parametrize("word", ["tinny", "ti-ny", "Tiny", "tiny.yaml", "tin y"])
def test_a_misspelt_source_is_refused_and_nothing_runs(word: str, tiny: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{word}: no such source; did you mean 'tiny'?"):
        main([word])
    assert [path.name for path in tiny.iterdir()] == ["papers"]
