"""Figures of papers: run the sweeps of a source and draw their figures at the width of a column.

A source is a paper, a lecture or a post, described by a YAML file in this folder. Its sweeps run as
on the command line, so that finished runs are not repeated. Figures are drawn from the files of the
runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

import dpbench
from dpbench.cli.main import DONE, UNUSABLE, run
from dpbench.errors import choose_from
from dpbench.jobs.composition import compose
from dpbench.jobs.prepare import find_app
from dpbench.output.files import atomic
from dpbench.output.run_folder import read_manifest
from dpbench.registry import ConfigError, from_mapping, labelled_entries, validated
from dpbench.report.drawing.style import save, style
from dpbench.report.figures import chosen_labels
from dpbench.report.latex import claim_rows, claims_table, write_snippet
from dpbench.report.result import Result
from dpbench.runner.settings import Settings
from dpbench.signals import INTERRUPTED
from dpbench.sweep.selection import Choice

__all__ = ["Source", "SweepSelection", "main", "sources"]

HERE = Path(__file__).parent
RESULTS = Path("results")
FIXED_OVERRIDES = ("-", "sweep=", "out=", "report=", "replay=", "track=")


@validated
class SweepSelection:
    """Selection of a sweep's figures and claims for a source.

    Parameters
    ----------
    figures : names or patterns, optional
        Figures to draw; all by default.
    claims : names or patterns, optional
        Claims that become rows of the source's scoreboard; all by default.
    """

    figures: Choice | None = None
    claims: Choice | None = None


@validated
class Source:
    """Paper, lecture or post for which figures are drawn.

    Parameters
    ----------
    title : str
        Title of the source.
    sweeps : mapping of str to Wanted
        Sweeps to run, with the selected figures and claims of each sweep.
    names : mapping of str to str
        Printed names of labels in the sweeps.
    """

    title: str
    sweeps: Annotated[
        dict[str, SweepSelection],
        labelled_entries(
            SweepSelection, lambda spec, at: from_mapping(SweepSelection, spec or {}, at)
        ),
    ]
    names: dict[str, str] = Field(default_factory=dict)


def sources() -> dict[str, Source]:
    """Read the sources of this folder, by name."""
    return {
        path.stem: from_mapping(Source, yaml.safe_load(path.read_text()), path.stem)
        for path in sorted(HERE.glob("*.yaml"))
    }


def main(words: Sequence[str]) -> int:
    """Run the sweeps of the named sources, or of all sources, and draw their figures.

    Parameters
    ----------
    words : sequence of str
        Names of sources, and overrides ``key=value`` for every sweep.

    Returns
    -------
    int
        0 if everything is drawn, 1 if a sweep failed, 2 if an override cannot be used. After a
        signal it is 128 + the signal's number. Figures of the other sweeps are drawn even if a
        sweep failed.
    """
    known_sources = sources()
    if {"--help", "-h"} & set(words):
        print(_help(known_sources))
        return DONE
    argv = [word for word in words if "=" in word or word.startswith(("-", "~"))]
    names = [word for word in words if word not in argv]
    for name in names:
        if name not in known_sources:
            return _refuse(f"{name}: no such source; {choose_from(name, known_sources)}")
    selected = {name: known_sources[name] for name in known_sources if name in names or not names}
    fixed = [word for word in argv if word.startswith(FIXED_OVERRIDES)]
    if fixed:
        return _refuse(f"{fixed[0]}: each source has its own sweeps, in results/<sweep>")
    try:
        compose_sweeps(selected.values(), argv)
    except ConfigError as error:
        return _refuse(str(error))
    codes: dict[str, int] = {}
    for i, (label, source) in enumerate(selected.items(), 1):
        for j, sweep in enumerate(source.sweeps, 1):
            where = f"{label} ({i} of {len(selected)}), sweep {j} of {len(source.sweeps)}"
            print(f"\n== {where}: {sweep}", flush=True)
            if sweep not in codes:
                codes[sweep] = run([f"sweep={sweep}", *argv])
            if codes[sweep] in INTERRUPTED:
                return codes[sweep]
            if codes[sweep] != DONE:
                _refuse(f"{sweep}: ended with exit code {codes[sweep]}; its figures are not drawn")
        codes[f"{label}: figures"] = _draw(label, source, codes)
    return max(codes.values())


def compose_sweeps(
    selected: Iterable[Source], overrides: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Compose the configuration of every sweep of some sources, and run nothing.

    Parameters
    ----------
    selected : iterable of Source
        Sources whose sweeps are composed.
    overrides : sequence of str
        Overrides for every sweep.

    Returns
    -------
    dict of str to dict
        Configurations, keyed by sweep.

    Raises
    ------
    ConfigError
        At the first sweep that cannot be composed with the overrides, or has an invalid option.
    """
    sweeps = {sweep: None for source in selected for sweep in source.sweeps}
    configs = {sweep: compose([f"sweep={sweep}", *overrides]) for sweep in sweeps}
    for config in configs.values():
        from_mapping(Settings, config, "")
    return configs


def _refuse(text: str) -> int:
    """Print an error message; return the exit code for an unusable configuration."""
    print(f"experiments: {text}", file=sys.stderr)
    return UNUSABLE


def _help(listed: Mapping[str, Source]) -> str:
    """Return the text of ``--help``."""
    lines = [
        f"  {name:15} {source.title}: {', '.join(source.sweeps)}" for name, source in listed.items()
    ]
    return "\n".join(
        [
            "Runs the unfinished sweeps of each source (default: all) and draws its figures.",
            "\nusage: python -m experiments [SOURCE ...] [key=value ...]\n",
            *lines,
            "\nOverrides such as trials=50, seed=1 or n_jobs=1 go to every sweep. Results are in",
            "results/<sweep> below the working folder, figures in results/paper/<source>.",
        ]
    )


def _draw(name: str, source: Source, codes: Mapping[str, int]) -> int:
    """Draw the figures of the sweeps that ran, write the scoreboard, and return the exit code."""
    target, rows = RESULTS / "paper" / name, []
    for sweep, selection in source.sweeps.items():
        folder = RESULTS / sweep
        if codes[sweep] != DONE:
            continue
        config = read_manifest(folder)["configuration"]
        font = config.get("font", "sans")
        with style("column", font):
            texts = find_app(config).draw_paper(folder, target)
        _write(target, texts)
        if texts:
            continue
        result = dpbench.load(folder)
        study, where = result.study, f"{name}.sweeps.{sweep}"
        try:
            figures = chosen_labels(selection.figures, study.all_figures, f"{where}.figures")
            claims = chosen_labels(selection.claims, study.all_claims, f"{where}.claims")
        except ConfigError as error:
            return _refuse(str(error))
        rows += claim_rows(result, claims, source.names)
        with style("column", font):
            for label in figures:
                _draw_one(result, label, target, f"{sweep}_{label}", source.names)
    if rows:
        _write(target, {"scoreboard.tex": claims_table(rows)})
    print(f"figures: {target}/", flush=True)
    return DONE


def _draw_one(
    result: Result, label: str, target: Path, file: str, names: Mapping[str, str]
) -> None:
    figure = result.study.all_figures[label]
    canvas = figure.figure(result, names)
    save(canvas, target, file, ("pdf", "png"))
    write_snippet(figure, result, canvas, target, file, names=names)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write each text to its file atomically."""
    for name, text in texts.items():
        with atomic(folder / name) as path:
            path.write_text(text)
