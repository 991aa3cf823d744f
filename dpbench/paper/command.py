"""Figures of papers: run the sweeps of a source and draw their figures at the width of a column.

A source is a paper, a lecture or a post, described by a YAML file in this folder. Its sweeps run as
on the command line, so that finished runs are not repeated. Figures are drawn from the files of the
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from dpbench.errors import ErrorCollector, choose_from
from dpbench.jobs.base import Job
from dpbench.jobs.composition import compose
from dpbench.jobs.finished_run import FinishedRun
from dpbench.jobs.prepare import find_app, make_job
from dpbench.output.files import atomic
from dpbench.output.run_folder import read_manifest
from dpbench.output.terminal import say
from dpbench.package import conf_folder
from dpbench.registry import ConfigError, from_mapping, labelled_entries, validated
from dpbench.report.drawing.style import save, style
from dpbench.report.figures import chosen_labels
from dpbench.report.latex import claim_rows, claims_table, write_snippet
from dpbench.report.run_result import Result, load_result
from dpbench.signals import install_interrupt_handlers
from dpbench.sweep.selection import Choice

__all__ = ["PaperSource", "SweepSelection", "main", "make_jobs", "sources"]

FIXED_OVERRIDES = ("-", "sweep=", "out=", "report=", "rerun=", "track=")


@validated
class SweepSelection:
    """Selection of a sweep's figures and claims for a source.

    Parameters
    ----------
    figures : names or patterns, optional
        Figures to draw; all by default.
    claims : names or patterns, optional
        Claims that become rows of the source's scoreboard; all by default.
    names : mapping of str to str
        Printed names of labels in this sweep; they replace those of the source.
    """

    figures: Choice | None = None
    claims: Choice | None = None
    names: dict[str, str] = Field(default_factory=dict)


@validated
class PaperSource:
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


def sources() -> dict[str, PaperSource]:
    """Read the sources, by name, from the folder ``papers`` of the configurations."""
    return {
        path.stem: from_mapping(PaperSource, yaml.safe_load(path.read_text()), path.stem)
        for path in sorted((conf_folder() / "papers").glob("*.yaml"))
    }


def main(words: Sequence[str]) -> int:
    """Run the sweeps of the named sources, or of all sources, and draw their figures.

    `words` are names of sources, and overrides ``key=value`` for every sweep. The exit code is 0 if
    everything is drawn, 1 if a sweep failed. Figures of the other sweeps are drawn even if a sweep
    failed. A ConfigError says which word cannot be used; nothing has run then.
    """
    known = sources()
    argv = [word for word in words if "=" in word or word.startswith(("-", "~"))]
    names = [word for word in words if word not in argv]
    for name in names:
        if name not in known:
            raise ConfigError(f"{name}: no such source; {choose_from(name, known)}")
    selected = {name: known[name] for name in known if name in names or not names}
    for word in argv:
        if word.startswith(FIXED_OVERRIDES):
            raise ConfigError(f"{word}: each source has its own sweeps, in results/<sweep>")
    jobs = make_jobs(selected.values(), argv)
    install_interrupt_handlers()
    _say_costs(jobs)
    codes: dict[str, int] = {}
    for i, (label, source) in enumerate(selected.items(), 1):
        target, rows = Path("results", "paper", label), []
        for j, sweep in enumerate(source.sweeps, 1):
            where = f"{label} ({i} of {len(selected)}), sweep {j} of {len(source.sweeps)}"
            say(f"\n== {where}: {sweep}")
            if sweep not in codes:
                codes[sweep] = jobs[sweep].run([f"sweep={sweep}", *argv])
            if codes[sweep]:
                say(f"{sweep}: ended with exit code {codes[sweep]}; its figures are not drawn")
            else:
                rows += _draw(f"{label}.sweeps.{sweep}", source, sweep, jobs[sweep].folder, target)
        if rows:
            _write(target, {"scoreboard.tex": claims_table(rows)})
        say(f"figures: {target}/")
    return max(codes.values())


def _say_costs(jobs: Mapping[str, Job | FinishedRun]) -> None:
    """Print what the sweeps cost that are not finished, at their own numbers of trials."""
    costs = {
        sweep: job.config["sweep"].get("cost", "unknown")
        for sweep, job in jobs.items()
        if isinstance(job, Job)
    }
    if costs:
        say(f"{len(costs)} of {len(jobs)} sweeps to run; on two idle cores their own trials cost:")
        say("\n".join(f"  {sweep}: {cost}" for sweep, cost in costs.items()))


def make_jobs(
    selected: Iterable[PaperSource], overrides: Sequence[str]
) -> dict[str, Job | FinishedRun]:
    """Check the configuration of every sweep of some sources, and return their jobs, by sweep.

    Nothing runs. A ConfigError has a line for each wrong override or option that was found.
    """
    errors, jobs = ErrorCollector(), dict[str, Job | FinishedRun]()
    for sweep in {sweep: None for source in selected for sweep in source.sweeps}:
        with errors.step():
            jobs[sweep] = make_job(compose([f"sweep={sweep}", *overrides], None, errors), None)
    errors.raise_all()
    return jobs


def _draw(
    where: str, source: PaperSource, sweep: str, folder: Path, target: Path
) -> list[list[str]]:
    """Draw the selected figures of a sweep that ran, and return the rows of its claims."""
    selection, config = source.sweeps[sweep], read_manifest(folder)["configuration"]
    names = source.names | selection.names
    with style("column", config.get("font", "sans")):
        texts = find_app(config).draw_paper(folder, target)
        _write(target, texts)
        if texts:
            return []
        result = load_result(folder, None)
        study = result.study
        for label in chosen_labels(selection.figures, study.all_figures, f"{where}.figures"):
            _draw_one(result, label, target, f"{sweep}_{label}", names)
        claims = chosen_labels(selection.claims, study.all_claims, f"{where}.claims")
        return claim_rows(result, claims, names)


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
