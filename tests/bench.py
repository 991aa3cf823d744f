"""A tiny sweep in a folder of its own, run in this process or by the real command."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dpbench.cli.main import run
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.jobs.composition import compose
from dpbench.runner import imports, origin
from dpbench.signals import SIGNALS

TINY: dict[str, Any] = {
    "name": "tiny",
    "families": {
        "two_point": {"kind": "two_point_family", "k": [2, 3], "c": [1, 3]},
        "tails": {"kind": "student_t", "tail_index": 2.5, "standardised_moment": 2},
    },
    "estimators": {
        "minimax": {"kind": "tuned_clipped_mean", "scale": 1, "policy": "minimax"},
        "rate": {"kind": "tuned_clipped_mean", "scale": 1, "policy": "ksu20_order"},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {"pure": {"kind": "pure_dp", "epsilon": 0.1}},
    "parts": {
        "worst": {"families": "two_point", "n": [1e5, 1e8], "trials": 40},
        "tails": {"families": "tails", "n": [1e3], "trials": 40},
    },
    "claims": {
        "alpha": {
            "theorem": "heavy_tail_alpha", "families": "two_point", "estimators": "minimax",
            "budgets": "pure", "tolerance": 0.3, "reason": "few trials",
        }
    },
    "figures": {},
}  # fmt: skip
FIGURE = {"kind": "error_against_n", "families": "two_point", "budgets": "pure"}
REQUEST: dict[str, Any] = {
    "families": "tails", "estimators": "minimax", "budgets": "pure", "low": 0.3, "high": 0.6,
    "points": 3, "search": 0.4, "trials": 40,
}  # fmt: skip

MINE = "plugins=[mine]"
PLUGIN = """
from typing import ClassVar
import numpy as np
from dpbench import Estimate, Estimator, PureDP, validated


@validated
class Odd(Estimator):
    factor: float = 1.0

    def estimate(self, sample, ledger):
        bound = np.sqrt(10 * sample.n)
        clipped = sample.clipped_mean(-bound, bound)
        value = ledger.add_noise(clipped, 2 * bound / sample.n)
        {body}
        return Estimate(value, clipped)
"""

Spec = dict[str, Any]


@functools.cache
def _composed(name: str) -> dict[str, Any]:
    return compose([f"sweep={name}"])


def shipped(name: str) -> dict[str, Any]:
    """The configuration of a shipped sweep, for which many tests ask and Hydra takes long."""
    return copy.deepcopy(_composed(name))


def changed(key: str, value: Any) -> dict[str, Any]:
    """The tiny sweep with another value at a key; a claim is changed, not replaced."""
    spec = copy.deepcopy(TINY)
    *way, last = key.split(".")
    at = spec
    for name in way:
        at = at.setdefault(name, {})
    if key == "claims.alpha":
        value = {**at[last], **value}
    at[last] = value
    return spec


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Bench:
    """A working folder with configurations in ``conf`` and a run in ``out``."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str] | None = None) -> None:
        self.folder, self._capture = folder, capture
        self.conf = folder / "conf"
        self._known = {kind: dict(kind._registry) for kind in (Estimator, Distribution)}
        if capture is not None:  # else it is there, to be read
            (self.conf / "sweep").mkdir(parents=True)
            self.write()

    def write(self, change: Callable[[Spec], object] = lambda _: None) -> None:
        """Write the tiny sweep, changed; JSON is YAML."""
        spec = copy.deepcopy(TINY)
        change(spec)
        self.text(json.dumps(spec))

    def text(self, text: str, name: str = "tiny") -> None:
        (self.conf / "sweep" / f"{name}.yaml").write_text(text)

    def odd(self, body: str = "pass", change: Callable[[Spec], object] = lambda _: None) -> None:
        """Write a plug-in with an estimator that clips far too late, and add it to the sweep."""
        self.forget()
        (self.conf / "mine.py").write_text(PLUGIN.format(body=body))
        self.write(lambda spec: (spec["estimators"].update(odd={"kind": "odd"}), change(spec)))

    def argv(self, *args: str) -> list[str]:
        return ["--config-dir", "conf", "sweep=tiny", "out=out", "n_jobs=1", *args]

    def raw(self, *argv: str) -> Result:
        """Run in this process, with exactly these arguments."""
        assert self._capture is not None
        self._capture.readouterr()
        code = run(argv)
        return Result(code, *self._capture.readouterr())

    def run(self, *args: str) -> Result:
        """Run the tiny sweep in this process."""
        return self.raw(*self.argv(*args))

    def done(self, *args: str) -> Result:
        """Likewise, with exit code 0."""
        result = self.run(*args)
        assert result.code == 0, result
        return result

    def refuses(self, *args: str, named: tuple[str, ...] | list[str] = ()) -> None:
        """Assert exit code 2, one line with these words, and that nothing is written."""
        before = self.files()
        unusable(self.run(*args), *named)
        assert self.files() == before

    def forget(self) -> None:
        """Forget plug-ins and the digest of the source, as a new process would."""
        origin._package.cache_clear()
        imports._own_digest.cache_clear()
        for kind, known in self._known.items():
            kind._registry = dict(known)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(self.folder)):
                del sys.modules[name]
        sys.modules.pop("mine", None)  # a dask scheduler in this process has loaded its own copy

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start the real command, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "dpbench", *args],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # a shell in the background ignores Ctrl-C, and `nohup` ignores the end of a session
            preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in SIGNALS],  # noqa: PLW1509
        )

    def command(self, *args: str) -> Result:
        """Run the real command on the tiny sweep."""
        return finish(self.start(*self.argv(*args)))

    def manifest(self, out: str = "out") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read("manifest.json", out))
        return found

    def counts(self) -> tuple[int, int]:
        """Blocks done and reused."""
        manifest = self.manifest()
        return manifest["blocks_done"], manifest["blocks_reused"]

    def read(self, name: str, out: str = "out") -> str:
        return (self.folder / out / name).read_text()

    def table(self, name: str = "summary.csv", out: str = "out") -> pd.DataFrame:
        return pd.read_csv(self.folder / out / name, keep_default_na=False, na_values=[""])

    def blocks(self, out: str = "out") -> list[Path]:
        return sorted((self.folder / out / "blocks").glob("*.parquet"))

    def rows(self) -> pd.DataFrame:
        """A row per trial, estimator and budget, from the blocks."""
        return pd.read_parquet(self.folder / "out" / "blocks")

    def stored(self, out: str = "out") -> dict[str, str]:
        """The rows of every block, whatever file it is in."""
        found = {}
        for path in self.blocks(out):
            table, start = pq.read_table(path), 0
            for key, (rows, _) in json.loads(table.schema.metadata[b"dpbench"]).items():
                block = table.slice(start, rows).to_pandas()
                found[key] = block.dropna(axis=1, how="all").to_csv()  # all digits
                start += rows
        return found

    def results(self, out: str = "out") -> dict[str, bytes]:
        """The bytes of all that must not depend on how the run was made."""
        names = ("summary.csv", "claims.csv", "figures/*")
        root = self.folder / out
        return {p.relative_to(root).as_posix(): p.read_bytes() for n in names for p in root.glob(n)}

    def files(self) -> dict[str, bytes | None]:
        """Everything below the working folder."""
        found = sorted(self.folder.rglob("*"))
        return {str(p): p.read_bytes() if p.is_file() else None for p in found}


def finish(process: subprocess.Popen[str]) -> Result:
    """Wait for a command; end its process group if it hangs."""
    try:
        out, err = process.communicate(timeout=90)
    except BaseException:
        kill(process)
        raise
    return Result(process.returncode, out, err)


def kill(process: subprocess.Popen[str], how: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to the process group that `Bench.start` opened."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until it holds or the process ends."""
    limit = time.monotonic() + 60
    while not condition() and (process is None or process.poll() is None):
        assert time.monotonic() < limit
        time.sleep(0.03)


def group_runs(group: int) -> bool:
    """Whether a process of the group runs: not one that waits for its exit code to be read."""
    command = ["ps", "-A", "-o", "pgid=,stat="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return any(
        int(found) == group and not state.startswith("Z")
        for found, state in zip(listed[::2], listed[1::2], strict=True)
    )


def unusable(result: Result, *words: str) -> None:
    """Assert exit code 2, and a line for each error on standard error; they have the words."""
    assert result.code == 2, result
    assert result.err.endswith("\n")
    lines = result.err.splitlines()
    assert all(line.startswith("dpbench: ") for line in lines), result.err
    assert len(set(lines)) == len(lines), result.err
    assert not [word for word in words if word not in result.err], result.err
    assert result.out == ""
