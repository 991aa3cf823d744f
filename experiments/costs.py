"""Measure the time of a release, divided by the time of drawing its data.

``python -m experiments.costs [sweep]`` runs the first block of every cell of a sweep (by default
``field``) twice in this process and times the second run. It prints a table and writes
``results/costs_SWEEP.csv``. The column ``over_drawing`` is the processor time of a release divided
by the time of drawing a dataset. There is a row for each distribution, n, estimator and notion.
Timings are noisy: factors below 2 between two rows mean little.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import dpbench.report  # noqa: F401, figures of sweeps enter the registry
from dpbench.jobs.composition import compose
from dpbench.output.files import atomic
from dpbench.output.terminal import say
from dpbench.registry import from_mapping
from dpbench.report.study import Study
from dpbench.sweep.block import run_block
from dpbench.sweep.plan import Cell


def costs(cell: Cell) -> Iterator[dict[str, Any]]:
    """Yield one row for every estimator and notion of a cell, for its first distribution."""
    task = next(iter(cell.tasks(0)))
    task = replace(task, members=task.members[:1])
    by_notion = defaultdict(list)
    for setting in task.settings:
        by_notion[setting.budget.label].append(setting)
    for notion, settings in by_notion.items():
        task_of_notion = replace(task, settings=tuple(settings))
        run_block(task_of_notion)
        block = run_block(task_of_notion)
        drawing = block.cpu_seconds - sum(block.seconds.values())
        for label, seconds in block.seconds.items():
            releases = sum(s.label == label for s in settings)
            row = {"law": task.members[0][0], "n": task.n, "estimator": label, "privacy": notion}
            yield row | {"over_drawing": seconds / releases / drawing}


def main(sweep: str = "field") -> None:
    """Measure all cells of a sweep; write the table, and print the largest ratio over notions."""
    study = from_mapping(Study, compose([f"sweep={sweep}"])["sweep"], "sweep")
    rows = [row for cell in study.plan(1).cells for row in costs(cell)]
    table = pd.DataFrame(rows)
    path = Path(f"results/costs_{sweep}.csv")
    with atomic(path) as temporary:
        table.round(3).to_csv(temporary, index=False)
    worst = table.pivot_table("over_drawing", ["law", "estimator"], "n", "max")
    say(worst.to_string(float_format="{:.2f}".format, na_rep=""))
    say(f"written: {path}; the table shows the largest ratio over the notions")


if __name__ == "__main__":
    main(*sys.argv[1:])
