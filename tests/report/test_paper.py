"""The paper figures: one tiny source end to end, all shipped ones without running."""

from __future__ import annotations

import dataclasses
import json
import re
import zlib
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.image import imread

from dpbench.config import composed
from dpbench.drawing import natural
from dpbench.registry import ConfigError
from dpbench.report.figures import Figure
from dpbench.runner.plan import Sweep, pick
from experiments.__main__ import NAMES, sources
from experiments.captions import Run
from experiments.paper import PaperFigure, Source, draw_all, prepared
from experiments.tables import HEADER, MOST_ROWS, escaped, scoreboard

ERROR = PaperFigure(
    "error",
    "binary_mean",
    {
        "kind": "error_against_n",
        "families": ["bernoulli"],
        "budget": ["pure_epsilon0.001", "pure_epsilon1"],
        "by": "budget",
    },
    "Two regimes",
)
SAMPLES = PaperFigure(
    "samples",
    "binary_mean",
    {
        "kind": "sample_complexity_curves",
        "request": "accuracy",
        "budgets": ["pure_epsilon0.01", "pure_epsilon1"],
    },
    "The smallest n",
    ylabel="records",
)
TINY = Source(
    "tiny", "A tiny source", {"binary_mean": ["private_*"]}, (ERROR, SAMPLES), {"binary": "Laplace"}
)
# Few trials and sizes, no direct search, and no figures of the sweep's own.
FAST = [
    "trials=60",
    "seed=3",
    "n_jobs=1",
    "sweep.parts.all.n={low: 10, high: 1e7, points: 7}",
    "sweep.sample_complexity.accuracy.search=null",
    "sweep.sample_complexity.accuracy.low=0.01",
    "sweep.sample_complexity.accuracy.points=4",
    "~sweep.figures",
    "sweep.claims.sampling_regime.n_min=100",
]
SPECIAL = re.compile(r"[\\&%$#_{}~^]")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the tiny source has been drawn."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert draw_all([TINY], FAST) == 0
    return folder


@pytest.fixture
def paper(run: Path) -> Path:
    return run / "results" / "paper" / "tiny"


def test_every_figure_has_its_files(paper: Path) -> None:
    names = {f"{name}.{kind}" for name in ("error", "samples") for kind in ("pdf", "png", "txt")}
    assert {path.name for path in paper.iterdir()} == names | {"scoreboard.tex"}


def test_a_rerun_computes_nothing_and_writes_the_same_bytes(
    run: Path, paper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in paper.iterdir()}
    for path in paper.iterdir():
        path.unlink()
    monkeypatch.chdir(run)
    assert draw_all([TINY], FAST) == 0
    assert {path.name: path.read_bytes() for path in paper.iterdir()} == before
    manifest = json.loads((run / "results/binary_mean/manifest.json").read_text())
    assert manifest["blocks_done"] == 0
    assert manifest["blocks_reused"] > 0


def test_figures_are_as_wide_as_a_column(paper: Path) -> None:
    for name in ("error", "samples"):
        (box,) = re.findall(rb"/MediaBox \[([^]]*)\]", (paper / f"{name}.pdf").read_bytes())
        assert float(box.split()[2]) == pytest.approx(3.4 * 72, abs=0.01)
        assert imread(paper / f"{name}.png").shape[1] == 680


def test_pdf_embeds_its_fonts_none_of_type_3(paper: Path) -> None:
    for name in ("error", "samples"):
        pdf = (paper / f"{name}.pdf").read_bytes()
        streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
        inflated = b"".join(_inflated(stream) for stream in streams)
        assert b"/FontFile2" in pdf + inflated
        assert b"/Type3" not in pdf + inflated
        assert b"CreationDate" not in pdf + inflated


def _inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_captions_name_the_setting_of_the_run(paper: Path) -> None:
    text = (paper / "error.txt").read_text()
    assert text.startswith("Two regimes. Shown: error (0.9 quantile) against n.")
    assert "bernoulli (bernoulli; p = 0.5)" in text
    assert "Laplace (binary mean), mean (empirical mean)" in text
    assert "Budgets: pure DP, epsilon = 0.001, 1." in text
    assert "n 10 to 1e+07; trials per point 60; seed 3." in text
    assert "95 per cent intervals of the quantile from order statistics" in text
    assert "dotted: the slope of theory" in text
    other = (paper / "samples.txt").read_text()
    assert "Budgets: pure DP, epsilon = 0.01, 1." in other
    assert "Bars: 95 per cent intervals, bootstrap over trials" in other
    for one in (text, other):
        assert one.count("\n") == 1
        assert not SPECIAL.search(one)


def test_scoreboard_has_the_claims_asked_for(run: Path, paper: Path) -> None:
    lines = (paper / "scoreboard.tex").read_text().splitlines()
    assert lines[0] == "% needs the packages booktabs"
    assert lines[1].startswith(r"\begin{tabular}{")
    assert [lines.index(rf"\{rule}rule") for rule in ("top", "mid", "bottom")] == [
        2,
        4,
        len(lines) - 2,
    ]
    body = lines[5:-2]
    written = pd.read_csv(run / "results/binary_mean/claims.csv")
    written = written[written["claim"].str.startswith("private_")].reset_index(drop=True)
    assert len(body) == len(written) > 5
    for line, row in zip(body, written.to_dict("records"), strict=True):
        cells = line.removesuffix(r" \\").split(" & ")
        assert len(cells) == len(HEADER)
        assert cells[0] == row["claim"].replace("_", r"\_")
        assert cells[3] == rf"${row['predicted']:.3f} \pm {row['tolerance']:g}$"
        assert cells[4] == f"${row['measured']:.3f}$"
        assert cells[5] == f"$[{row['low']:.3f}, {row['high']:.3f}]$"
        assert cells[6] == row["verdict"]


def test_text_is_escaped() -> None:
    assert escaped(r"a_b & 5% {x} $ # ~ ^ \ < >") == (
        r"a\_b \& 5\% \{x\} \$ \# \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"\textless{} \textgreater{}"
    )


def test_upper_limits_small_numbers_and_long_tables() -> None:
    row = {
        "claim": "a",
        "full": "a eps=1",
        "estimator": "e",
        "distribution": "d",
        "predicted": 0.1,
        "tolerance": 0.01,
        "measured": 1.5e-5,
        "low": 0.0,
        "high": -0.25,
        "verdict": "consistent",
        "at_most": True,
    }
    unknown = {**row, "measured": float("nan"), "at_most": False}
    text = scoreboard([(_run_of([row, unknown]), ["*"])])
    first, second = text.splitlines()[5:7]
    assert r"$\leq 0.100 \pm 0.01$ & $1.5 \times 10^{-5}$ & $[0.000, -0.250]$" in first
    assert r"$0.100 \pm 0.01$ & -- & -- & consistent" in second
    text = scoreboard([(_run_of([row] * (MOST_ROWS + 1)), ["a"])])
    assert text.startswith("% needs the packages booktabs and longtable\n\\begin{longtable}")
    assert text.index(r"\endhead") < text.index(r"\endfoot") < text.index("a eps=1")


def _run_of(rows: list[dict[str, Any]]) -> Run:
    empty = pd.DataFrame()
    return Run({}, Sweep({}, {}, {}, {}), 0, empty, pd.DataFrame(rows), empty)


@pytest.mark.parametrize("name", NAMES)
def test_shipped_sources_ask_for_what_their_sweeps_have(name: str) -> None:
    (source,) = (one for one in sources() if one.name == name)
    if name == "audit":
        assert list(source.sweeps) == ["audit"]
        return
    assert isinstance(source, Source)
    assert len({figure.name for figure in source.figures}) == len(source.figures) >= 3
    for label in source.sweeps:
        config = composed([f"sweep={label}"])["sweep"]
        sweep = Sweep.build(config)
        pick(source.claims.get(label, ["*"]), list(config["claims"]), "claims")
        for figure in source.figures:
            if figure.sweep == label:
                assert isinstance(prepared(figure, config, sweep), Figure)
                assert not SPECIAL.search(figure.says)
                assert not figure.says.endswith(".")


def test_unknown_labels_are_refused() -> None:
    config = composed(["sweep=binary_mean"])["sweep"]
    wrong = dataclasses.replace(ERROR, spec={**ERROR.spec, "families": ["nope"]})
    with pytest.raises(ConfigError, match=r"figure error\.families: 'nope'"):
        prepared(wrong, config, Sweep.build(config))


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("naive_radius1e+06", "naive, $R = 10^{6}$"),
        ("coinpress_far_radius70.71_rounds10", "CoinPress, $R = 70.7$, $t = 10$"),
        ("coinpress_d500_rounds2", "CoinPress, $t = 2$"),
        ("gaussian_d50", "Gaussian, $d = 50$"),
        ("two_point_k2", "two point, $k = 2$"),
        ("histogram_free", "histogram free"),
        ("zcdp", "zCDP"),
    ],
)
def test_labels_in_print(label: str, text: str) -> None:
    names = {
        "gaussian": "Gaussian",
        "coinpress": "c",
        "coinpress_far": "CoinPress",
        "coinpress_d500": "CoinPress",
    }
    assert dataclasses.replace(TINY, names=names).words(label) == text


def test_legends_count() -> None:
    labels = [r"$R = 7.07 \times 10^{4}$", "$R = 707$", "$R = 10^{2}$", "$R = 70.7$"]
    assert sorted(labels, key=natural) == [labels[3], labels[2], labels[1], labels[0]]


def test_what_fails_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[list[str]] = []

    def run(argv: list[str]) -> int:
        asked.append(argv)
        return 1

    monkeypatch.setattr("experiments.paper.run", run)
    other = dataclasses.replace(TINY, name="other")
    assert draw_all([TINY, other], ["trials=5"]) == 1
    assert asked == [["sweep=binary_mean", "trials=5"]]  # once for both
    told = capsys.readouterr()
    assert "tiny (1 of 2), sweep 1 of 1: binary_mean" in told.out
    assert "binary_mean ended with 1: nothing of it is drawn" in told.err
    assert not list(tmp_path.rglob("*.pdf"))


def test_an_interrupt_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("experiments.paper.run", lambda _: 130)
    assert draw_all([TINY, TINY], []) == 130
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["trials=abc", "nope=1", "sweep=quick", "out=x"])
def test_unusable_overrides(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert draw_all([TINY], [word]) == 2
    assert word.partition("=")[0] in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.parquet"))


def test_help_lists_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert draw_all(sources(), ["--help"]) == 0
    told = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", told, re.MULTILINE) for name in NAMES)


def test_no_figure_stays_open(run: Path) -> None:
    assert run.exists()
    assert plt.get_fignums() == []
