"""Measure the time of a study with many small cells.

``python -m experiments.many_cells [cells] [trials] [n_jobs]`` runs a study (by default 10,000 cells
with 200 trials each, in one process) three times: without stored blocks, from its stored blocks,
and as a finished run. It prints a line for each time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dpbench.output.terminal import say

FAMILIES = 100


def study(cells: int, trials: int) -> dict[str, object]:
    """Return a study of Bernoulli distributions at many n, with two estimators and one claim.

    Parameters
    ----------
    cells : int
        Number of cells, approximately.
    trials : int
        Trials of each cell.

    Returns
    -------
    dict
        Configuration of the sweep.
    """
    coins = min(FAMILIES, cells)
    sizes = [100 + 10 * i for i in range(-(-cells // coins))]
    selection = {"estimators": "clip", "families": {"coin": {"p": 1 / (coins + 1)}}}
    return {
        "name": "many",
        "families": {
            "coin": {"kind": "bernoulli", "p": [(i + 1) / (coins + 1) for i in range(coins)]}
        },
        "estimators": {
            "clip": {"kind": "clipped_mean", "lower": 0, "upper": 1},
            "mean": {"kind": "empirical_mean"},
        },
        "budgets": {"pure": {"kind": "pure_dp", "epsilon": 1.0}},
        "parts": {"all": {"n": sizes, "trials": trials}},
        "claims": {
            "noise": {
                "theorem": "exact_noise",
                "tolerance": 0.5,
                "reason": "a few trials",
                **selection,
            }
        },
    }


def main(cells: int = 10_000, trials: int = 200, n_jobs: int = 1) -> None:
    """Run the study three times and print a line for each run.

    Parameters
    ----------
    cells : int
        Number of cells; 10,000 by default.
    trials : int
        Trials of each cell; 200 by default.
    n_jobs : int
        Number of processes; 1 by default.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "conf" / "sweep").mkdir(parents=True)
        # Every JSON document is also YAML.
        (Path(folder) / "conf" / "sweep" / "many.yaml").write_text(json.dumps(study(cells, trials)))
        out = Path(folder) / "out"
        words = ["--config-dir", f"{folder}/conf", "sweep=many", f"out={out}", f"n_jobs={n_jobs}"]
        for phase in ("cold", "summarised again", "finished"):
            if phase == "summarised again":
                (out / "manifest.json").unlink()
            start, cpu = time.monotonic(), _cpu()
            command = [sys.executable, "-m", "dpbench", *words]
            completed = subprocess.run(command, check=True, stderr=-1, stdout=-1, text=True)  # noqa: S603
            seconds = time.monotonic() - start
            manifest = json.loads((out / "manifest.json").read_text())
            files = list((out / "blocks").iterdir())
            say(
                f"{phase}: {seconds:.1f} s, {1000 * seconds / cells:.2f} ms a cell, "
                f"{_cpu() - cpu:.1f} s of CPU, {manifest['parent_peak_bytes'] / 1e6:.0f} MB, "
                f"{manifest['blocks_done']} blocks done, "
                f"{len(files)} files of {sum(f.stat().st_size for f in files) / 1e6:.1f} MB, "
                f"{len(completed.stderr.splitlines())} lines of progress"
            )


def _cpu() -> float:
    """Return the processor seconds of all child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
