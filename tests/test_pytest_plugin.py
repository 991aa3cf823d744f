"""Accuracy tests of another library: files of ``init-ci``, and a failed test for a loss of 5%."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import tomllib
from pathlib import Path

# Load these here, because pytester unloads modules that tests load.
import joblib  # noqa: F401
import numpy as np
import pytest
import scipy.stats  # noqa: F401
import yaml

import dpbench.jobs.pytest_check  # noqa: F401
from dpbench.cli import run
from dpbench.commands.compare import read_errors
from dpbench.commands.init_ci import UNKNOWN_ADDRESS
from dpbench.estimators import Estimator
from dpbench.tracking.comparison import compare

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[1]
PLUGIN = ("-p", "dpbench.pytest_plugin")
BASELINE = "accuracy/baseline.parquet"
MINE = Path("accuracy/my_mean.py")
ROWS = [f"my_mean on {law}, pure eps=1 n=200" for law in ("at_a_bound", "inside")]


@pytest.fixture
def repository(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> pytest.Pytester:
    """Write the files of init-ci, with few trials."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    assert run(["init-ci"]) == 0
    sweep = Path("accuracy/sweep/accuracy.yaml")
    sweep.write_text(sweep.read_text().replace("trials: 70000", "trials: 200"))
    return pytester


def change(old: str, new: str) -> None:
    """Change the plug-in."""
    text = MINE.read_text()
    assert text.count(old) == 1
    MINE.write_text(text.replace(old, new))


def inline(repository: pytest.Pytester, *words: str, update: bool = False) -> pytest.RunResult:
    """Run pytest in this process."""
    Estimator._registry.pop("my_mean", None)
    more = ["--dpbench-plugins", "my_mean", *(["--dpbench-update"] if update else []), *words]
    return repository.runpytest_inprocess(*PLUGIN, "--dpbench-baseline", BASELINE, *more)


def test_a_loss_of_five_per_cent_is_a_red_test(repository: pytest.Pytester) -> None:
    """Check each row: a line with factor and interval, then the new baseline."""
    stored = inline(repository, update=True)
    stored.assert_outcomes(passed=2)
    stored.stdout.fnmatch_lines(["baseline of 2 rows: accuracy/baseline.parquet"])
    green = inline(repository)
    green.assert_outcomes(passed=2)
    green.stdout.fnmatch_lines(["2 rows: rows were compared for identical bits only."])
    change("scale=1 /", "scale=1.05 /")
    red = inline(repository)
    red.assert_outcomes(failed=2)
    factor = r"worse; trimmed mean 1\.0(4|5)\d \(1\.0\d\d \.\. 1\.05\d\); median 1\.0.*"
    told = [line for line in red.outlines if line.startswith("FAILED")]
    assert len(told) == 2
    for line, row in zip(told, ROWS, strict=True):
        assert re.fullmatch(re.escape(f"FAILED {BASELINE}::{row} - Failed: ") + factor, line)
    # They are tests as others are: chosen by name, and by whether they failed.
    inline(repository, "-k", "inside").assert_outcomes(failed=1, deselected=1)
    accepted = inline(repository, update=True)
    accepted.assert_outcomes(passed=2)
    accepted.stdout.fnmatch_lines(["2 rows have drifted since their first baseline:"])


def test_it_runs_once_for_all_workers(repository: pytest.Pytester) -> None:
    """Count the calls, each of which writes a byte."""
    change("        clipped =", "        open('calls', 'a').write('.')\n        clipped =")
    inline(repository, "-p", "xdist", "-n", "2", update=True).assert_outcomes(passed=2)
    assert Path("calls").stat().st_size == 2 * 200


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--dpbench-update",), "--dpbench-baseline FILE says where"),
        (("--dpbench-baseline", "none.parquet"), "make one with --dpbench-update"),
        (("--dpbench-baseline", "a", "--dpbench-update", "--dpbench-config-dir", "no"), "'no': no"),
        (("--dpbench-baseline", "x/a", "--dpbench-update"), "--dpbench-config-dir: 'x': no"),
        (("--dpbench-baseline", "accuracy/a", "--dpbench-update"), "'my_mean'"),
        (("--dpbench-baseline", "accuracy/my_mean.py"), "not a baseline"),
        (("--dpbench-baseline", MINE, "--dpbench-update", "--dpbench-sweep", "audit"), "an audit"),
        (("--dpbench-baseline", MINE, "--dpbench-sweep", "none"), "'none': no such configuration"),
    ],
)
def test_what_cannot_be_used(
    repository: pytest.Pytester, words: tuple[str, ...], told: str
) -> None:
    more = ["--dpbench-plugins", "my_mean"] if "not a baseline" in told else []
    found = repository.runpytest_inprocess(*PLUGIN, *words, *more)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in found.errlines if line.startswith("ERROR: ")]
    assert told in line
    assert not Path("accuracy/a").exists()


def test_errors_of_a_mean_that_fails_are_not_stored(repository: pytest.Pytester) -> None:
    change("        clipped =", "        raise ArithmeticError('no luck')\n        clipped =")
    found = inline(repository, update=True)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(
        ["ERROR: dpbench: baseline: *not stored, because an estimator*no luck*"]
    )
    assert not Path(BASELINE).exists()


def test_without_the_option_nothing_is_imported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that numpy is not imported, and that pytest finds the installed plug-in."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("import sys\ndef test():\n    assert 'numpy' not in sys.modules")
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module = importlib.import_module(project["entry-points"]["pytest11"]["dpbench"])
    assert hasattr(module, "pytest_addoption")


def test_trials_show_a_loss_of_five_per_cent_without_a_seed(repository: pytest.Pytester) -> None:
    """Check the trials that the sweep and the command recommend, 70000.

    Spreads are proportional to one over the root of trials. The bootstrap of 2000 trials knows the
    spread to about 3%.
    """
    sweep = Path("accuracy/sweep/accuracy.yaml")
    sweep.write_text(sweep.read_text().replace("trials: 200", "trials: 2000"))
    inline(repository, update=True).assert_outcomes(passed=2)
    rows = read_errors(Path(BASELINE)).rows
    visible = compare(rows, rows.assign(stream=""))["smallest_visible"].to_numpy(float)
    spread = np.log((1 + visible) / 1.02) * np.sqrt(2000 / 70000)
    assert (1.02 * np.exp(spread) - 1 < 0.05).all()


def test_init_ci_replaces_nothing(
    repository: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow = yaml.safe_load(Path(".github/workflows/accuracy.yml").read_text())
    (install,) = [s["run"] for s in workflow["jobs"]["accuracy"]["steps"] if "pip" in str(s)]
    assert "dpbench-mean @ git+https://" in install
    capsys.readouterr()
    assert run(["init-ci"]) == 2
    assert "accuracy/sweep/accuracy.yaml': exists, and is not replaced" in capsys.readouterr().err
    Path("other").mkdir()
    assert run(["init-ci", "other"]) == 0
    told = capsys.readouterr().out
    assert "wrote other/accuracy/my_mean.py" in told
    assert (UNKNOWN_ADDRESS in install) == (UNKNOWN_ADDRESS in told)
    assert run(["init-ci", "nowhere"]) == 2
    assert run(["init-ci", "other", "another"]) == 2


def test_the_commands_of_the_accuracy_page(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the commands of the page, one after the other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    text = (ROOT / "docs" / "howto" / "accuracy.md").read_text()
    (block,) = re.findall(r"```sh\n(python -m dpbench init-ci.*?)```", text, flags=re.DOTALL)
    sweep = Path("accuracy/sweep/accuracy.yaml")
    for line in block.splitlines():
        words = shlex.split(line)[2:]
        if words[0] == "dpbench":
            assert run(words[1:]) == 0
        else:
            Estimator._registry.pop("my_mean", None)
            sweep.write_text(sweep.read_text().replace("trials: 70000", "trials: 100"))
            pytester.runpytest_inprocess(*PLUGIN, *words[1:]).assert_outcomes(passed=2)
    assert "my_mean on inside, pure eps=1 n=200: 0.0" in capsys.readouterr().out
    assert Path("results/history/history.svg").exists()
