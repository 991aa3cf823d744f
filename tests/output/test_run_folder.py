"""Who may write in a run's folder, and which files are left there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpbench
from dpbench.output.run_folder import write_manifest
from tests.bench import FIGURE, Bench


def test_two_runs_at_once(bench: Bench) -> None:
    """The second is refused, and changes nothing; a run that was killed keeps nobody out."""
    script = (
        "import dpbench.output.run_folder as f, pathlib, sys; "
        "x = f.only_writer(pathlib.Path('out'))"
    )
    hold = f"{script}; x.__enter__(); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=bench.folder, **pipes) as first:  # type: ignore[call-overload]
        assert first.stdout.readline() == "held\n"
        bench.refuses(named=["out: 'out': another run writes there", f"process {first.pid} on "])
        with pytest.raises(dpbench.ConfigError, match="another run"):
            dpbench.run("tiny", config_dir=bench.conf, out=bench.folder / "out", n_jobs=1)
        first.kill()
    bench.done("trials=4")
    assert not (bench.folder / "out" / ".lock").exists()


def test_no_file_of_the_run_before_is_left(bench: Bench) -> None:
    bench.done("trials=4", "paper=true")
    assert (bench.folder / "out" / "claims.tex").exists()
    bench.done("trials=4")
    assert not (bench.folder / "out" / "claims.tex").exists()


def test_what_is_no_longer_asked_for_goes(bench: Bench) -> None:
    """From the page and the folder, but not what somebody has changed, nor when it was computed."""
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE, mine=FIGURE))
    bench.done("trials=4")
    manifest = bench.manifest()
    manifest["computed"]["at"] = "2026-01-02 03:04 UTC"
    write_manifest(bench.folder / "out", manifest)
    figures = bench.folder / "out" / "figures"
    (figures / "mine.svg").write_text("<svg>my own</svg>")
    assert "<img" in bench.read("report.html")
    bench.write()
    bench.done("trials=4")
    assert [path.name for path in figures.iterdir()] == ["mine.svg"]
    assert "<img" not in bench.read("report.html")
    assert "2026-01-02 03:04 UTC, in " in bench.read("report.html")
    assert bench.manifest()["computed"] == manifest["computed"]
    bench.done("trials=4", "resume=false")
    assert bench.manifest()["computed"]["at"] > manifest["computed"]["at"]


@pytest.mark.parametrize("out", ["a b/x=1,[2] a%20b é", "~/tilde"])
def test_an_out_of_any_name(bench: Bench, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """Python, pyarrow and matplotlib must agree on where it is."""
    monkeypatch.setenv("HOME", str(bench.folder / "home"))
    bench.done(f"out='{out}'", "trials=4")
    assert len(bench.stored(out.replace("~", "home"))) == 5


def test_a_system_without_locks_releases_checks_and_plans(bench: Bench) -> None:
    """Without fcntl and resource, only what writes a run's folder is refused, in one line."""
    script = (
        "import sys; sys.modules['fcntl'] = sys.modules['resource'] = None\n"
        "import dpbench.api, dpbench.benchmark.worker, dpbench.runner.cost\n"
        "import numpy as np\n"
        "from dpbench import PureDP, release\n"
        "from dpbench.estimators.clipped import ClippedMean\n"
        "from dpbench.testing import check_estimator\n"
        "from dpbench.cli.main import run\n"
        "mean = ClippedMean(lower=0.0, upper=1.0)\n"
        "check_estimator(mean)\n"
        "print(release(mean, np.full(9, 0.5), PureDP(1.0), rng=np.random.default_rng(1)))\n"
        "print('plan', run(['plan', 'n=1000', 'epsilon=1', 'lower=0', 'upper=1']))\n"
        "print('sweep', run(['sweep=tiny', '--config-dir', 'conf']))\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, check=False)
    assert "plan 0\n" in done.stdout, done.stderr
    assert done.stdout.endswith("sweep 2\n"), done.stdout
    assert "out: 'results/tiny': runs lock their folder with fcntl" in done.stderr
    assert "Traceback" not in done.stderr
