"""What the paper figures of all sources have in common: sweeps run, figures drawn, files written.

A source is a list of figures, each of one sweep. `draw_all` runs the sweeps as the command
line does, which recognises a finished run, and draws from the tables that the run has written.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

import dpbench.study  # noqa: F401 (its figures enter the registry)
from dpbench.analysis.claims import Claim, evaluate
from dpbench.cli import run
from dpbench.complexity import SampleComplexity
from dpbench.drawing import number_text, save, style
from dpbench.files import atomic
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.figures import Asked, Figure, Results
from dpbench.runner.plan import Sweep
from dpbench.selection import rows_about, shares_data, with_parameters
from experiments.captions import Run, caption
from experiments.tables import scoreboard

__all__ = ["RESULTS", "Drawn", "PaperFigure", "Source", "draw_all", "main", "prepared", "write"]

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
RESULTS = Path("results")
FIXED = ("-", "sweep=", "out=", "report=", "replay=", "track=")
# What figures write for the parameters in labels, and for the notions of privacy.
WORDS = {
    "radius": "$R = {}$",
    "d": "$d = {}$",
    "k": "$k = {}$",
    "eta": r"$\eta = {}$",
    "rounds": "$t = {}$",
}
NAMES = {"pure": "pure DP", "zcdp": "zCDP", "approx": "approx. DP"}


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a source.

    Attributes
    ----------
    name : str
        Of its files.
    sweep : str
    spec : mapping
        As under ``figures`` of a sweep.
    says : str
        The first sentence of its caption.
    ylabel : str
        What its vertical axes show, with the unit, where the metric's name does not say it.
    """

    name: str
    sweep: str
    spec: Mapping[str, Any]
    says: str
    ylabel: str = ""


@dataclass(frozen=True)
class Source:
    """A paper, a lecture or a post.

    Attributes
    ----------
    name : str
        Of its folder.
    title : str
    claims : mapping
        By sweep, the labels or patterns of the claims in its scoreboard.
    figures : sequence of PaperFigure
    names : mapping
        What figures write for labels of the sweeps, without parameters.
    """

    name: str
    title: str
    claims: Mapping[str, Sequence[str]]
    figures: Sequence[PaperFigure]
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def sweeps(self) -> list[str]:
        """The sweeps of its figures and claims, once each."""
        return list(dict.fromkeys([*self.claims, *(figure.sweep for figure in self.figures)]))

    def words(self, label: str) -> str:
        """A label in print: ``naive_radius1e+06`` as 'naive, $R = 10^{6}$'."""
        known = {**NAMES, **self.names}
        starts = [name for name in known if label == name or label.startswith(f"{name}_")]
        start = max(starts, key=len, default="")
        rest = label.removeprefix(start)
        pattern = rf"_({'|'.join(WORDS)})(-?\d[\d.]*(?:e[+-]?\d+)?)(?=_|$)"
        numbers = [
            WORDS[name].format(number_text(float(value)))
            for name, value in re.findall(pattern, rest)
        ]
        name = known.get(start, "") + re.sub(pattern, "", rest).replace("_", " ")
        return ", ".join([name, *numbers])

    def draw(self, codes: Mapping[str, int]) -> int:
        """Draw what the sweeps that ran have to show, and write the scoreboard."""
        return _draw(self, codes)


class Drawn(Protocol):
    """What has sweeps to run and draws from them."""

    @property
    def name(self) -> str:
        """Of its folder."""

    @property
    def title(self) -> str:
        """Where its claims come from."""

    @property
    def sweeps(self) -> Sequence[str]:
        """What to run."""

    def draw(self, codes: Mapping[str, int]) -> int:
        """Draw, given the sweeps' exit codes; return an exit code."""


def main(source: Drawn, argv: Sequence[str] | None = None) -> int:
    """Draw one source; the exit code is that of `draw_all`."""
    return draw_all([source], sys.argv[1:] if argv is None else argv)


def draw_all(sources: Sequence[Drawn], argv: Sequence[str]) -> int:
    """Run the sweeps of sources and draw their figures.

    Parameters
    ----------
    sources : sequence of Source or the like
    argv : sequence of str
        Overrides for every sweep.

    Returns
    -------
    int
        0 if all is drawn, 1 if a sweep failed, 2 if an override cannot be used, 130 if
        interrupted. What does not depend on a sweep that failed is drawn all the same.
    """
    if {"--help", "-h"} & set(argv):
        print(_help(sources))
        return DONE
    fixed = [word for word in argv if word.startswith(FIXED)]
    if fixed:
        print(f"experiments: {fixed[0]}: each source has its own sweeps, in results/<sweep>",
              file=sys.stderr)  # fmt: skip
        return UNUSABLE
    codes: dict[str, int] = {}
    for i, source in enumerate(sources, 1):
        for j, sweep in enumerate(source.sweeps, 1):
            where = f"{source.name} ({i} of {len(sources)}), sweep {j} of {len(source.sweeps)}"
            print(f"\n== {where}: {sweep}", flush=True)
            if sweep not in codes:
                codes[sweep] = run([f"sweep={sweep}", *argv])
            if codes[sweep] == INTERRUPTED:
                return INTERRUPTED
            if codes[sweep] != DONE:
                print(f"experiments: {sweep} ended with {codes[sweep]}: nothing of it is drawn",
                      file=sys.stderr)  # fmt: skip
        codes[f"{source.name}: figures"] = source.draw(codes)
    return max(codes.values())


def _help(sources: Sequence[Drawn]) -> str:
    lines = [f"  {source.name:15} {source.title}: {', '.join(source.sweeps)}" for source in sources]
    return "\n".join(
        [
            "Runs the sweeps of a source, or what is missing of them, and draws its figures.",
            "\nusage: python -m experiments[.SOURCE] [key=value ...]\n",
            *lines,
            "\nOverrides such as trials=50, seed=1 or n_jobs=1 go to every sweep. Results are in",
            "results/<sweep> below the working folder, figures in results/paper/<source>.",
        ]
    )


@style("column")
def _draw(source: Source, codes: Mapping[str, int]) -> int:
    runs = {sweep: _read(sweep) for sweep in source.sweeps if codes[sweep] == DONE}
    folder, code = RESULTS / "paper" / source.name, DONE
    for one in source.figures:
        if one.sweep not in runs:
            continue
        known = runs[one.sweep]
        try:
            figure = prepared(one, known.config, known.sweep)
        except ConfigError as error:
            print(f"experiments: {error}", file=sys.stderr)
            code = UNUSABLE
            continue
        tables = (known.summary, known.claims, known.samples)
        canvas = figure.draw(Results(known.sweep, *tables, words=source.words))
        for ax in canvas.axes if one.ylabel else ():
            ax.set_ylabel(one.ylabel)
        text = caption(one.says, one.spec, figure, known, canvas, source.names)
        save(canvas, folder, one.name, ("pdf", "png"))
        write(folder / f"{one.name}.txt", text)
    wanted = [(runs[name], labels) for name, labels in source.claims.items() if name in runs]
    if wanted:
        write(folder / "scoreboard.tex", scoreboard(wanted))
    print(f"figures: {folder}/", flush=True)
    return code


def write(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text)


def prepared(one: PaperFigure, config: Mapping[str, Any], sweep: Sweep) -> Figure:
    """Make a figure and check it against a sweep.

    Parameters
    ----------
    one : PaperFigure
    config : mapping
        The sweep's configuration.
    sweep : Sweep
        Made from it.

    Raises
    ------
    ConfigError
        If the sweep has nothing of that name.
    """
    where = f"figure {one.name}"
    requests = {
        label: from_mapping(SampleComplexity, request, where)
        for label, request in config.get("sample_complexity", {}).items()
    }
    figure = Figure.build(one.spec, where)
    figure.check(sweep, Asked(list(config.get("claims", {})), requests), where)
    return figure


def _read(name: str) -> Run:
    """Read a finished run back."""
    folder = RESULTS / name
    manifest = json.loads((folder / "manifest.json").read_text())
    config = manifest["configuration"]["sweep"]
    sweep, summary = Sweep.build(config), _table(folder / "summary.csv")
    claims = {
        label: from_mapping(Claim, claim, f"sweep.claims.{label}")
        for label, claim in config.get("claims", {}).items()
    }
    samples = folder / "sample_complexity.csv"
    return Run(
        config=config,
        sweep=sweep,
        seed=manifest["seed"],
        summary=summary,
        claims=_verdicts(sweep, summary, claims, _table(folder / "claims.csv")),
        samples=_table(samples) if samples.exists() else pd.DataFrame(),
    )


def _table(path: Path) -> pd.DataFrame:
    """A table of a run; only empty cells are missing values, 'none' is a label."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def _verdicts(
    sweep: Sweep, summary: pd.DataFrame, claims: Mapping[str, Claim], written: pd.DataFrame
) -> pd.DataFrame:
    """The claims with all that `evaluate` says, of which the file keeps what is measured.

    Budgets and regimes are found again from the summary, without resampling. Claims about the
    smallest n are resampled even for that; no figure draws their slopes, so that they stay as
    the file has them.
    """
    written = written.assign(full=written["claim"], claim=written["claim"].str.split(" ").str[0])
    tables = []
    for label, claim in claims.items():
        rows = written[written["claim"] == label].reset_index(drop=True)
        rows = rows.assign(at_most=claim.statement.at_most, of=claim.statement.of)
        if claim.statement.of != "samples":
            regime = summary["n"].between(claim.n_min, claim.n_max or np.inf)
            about = summary[rows_about(summary, claim, sweep) & regime].reset_index(drop=True)
            about = with_parameters(about, sweep)
            found = evaluate(label, claim, about, None, shared=shares_data(sweep, claim))
            more = found.columns.difference(rows.columns)
            rows = rows.join(found[more])
        tables.append(rows)
    return pd.concat(tables, ignore_index=True) if tables else written
