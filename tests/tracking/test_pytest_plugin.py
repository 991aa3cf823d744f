"""Accuracy tests of another library: files of ``init-ci``, and a failed test for a loss of 5%."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

# Load these here, because pytester unloads modules that tests load.
import joblib  # noqa: F401
import matplotlib.pyplot as plt  # noqa: F401
import numpy as np
import pytest
import scipy.stats  # noqa: F401
import yaml

import dpbench.tracking.pytest_check  # noqa: F401
from dpbench.cli.main import run
from dpbench.estimators import Estimator
from dpbench.tracking.command_compare import read_errors
from dpbench.tracking.command_init_ci import UNKNOWN_ADDRESS
from dpbench.tracking.comparison import compare

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "dpbench.tracking.pytest_plugin")
FOLDER = "tests/accuracy"
BASELINE = f"{FOLDER}/baseline.parquet"
MINE = Path(f"{FOLDER}/my_mean.py")
SWEEP = Path(f"{FOLDER}/sweep/accuracy.yaml")
ROWS = [f"my_mean on {law}, pure eps=1 n=200" for law in ("at_a_bound", "inside", "outside")]


@pytest.fixture
def repository(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> pytest.Pytester:
    """Write the files of init-ci, with few trials."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "260")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    assert run(["init-ci"]) == 0
    few_trials(200)
    return pytester


def few_trials(count: int) -> None:
    SWEEP.write_text(re.sub(r"(?m)trials: \d+$", f"trials: {count}", SWEEP.read_text()))


def change(old: str, new: str) -> None:
    """Change the plug-in."""
    text = MINE.read_text()
    assert text.count(old) == 1
    MINE.write_text(text.replace(old, new))


def inline(repository: pytest.Pytester, *words: str, update: bool = False) -> pytest.RunResult:
    """Run plain pytest in this process, or what init-ci says to type first."""
    Estimator._registry.pop("my_mean", None)
    sys.modules.pop("my_mean", None)
    more = [FOLDER, "--dpbench-update", *words] if update else words
    return repository.runpytest_inprocess(*PLUGIN, *more)


def test_a_loss_of_five_per_cent_is_a_red_test(repository: pytest.Pytester) -> None:
    """Check each row: a line with factor and interval, then the new baseline."""
    stored = inline(repository, update=True)
    stored.assert_outcomes(passed=3)
    stored.stdout.fnmatch_lines([f"baseline of 3 rows: {BASELINE}"])
    green = inline(repository)
    green.assert_outcomes(passed=3)
    green.stdout.fnmatch_lines(["3 rows: rows were compared for identical bits only."])
    change("scale=1 /", "scale=1.05 /")
    red = inline(repository)
    red.assert_outcomes(failed=2, passed=1)  # far records hide a loss of noise
    update = f"python -m pytest {FOLDER} --dpbench-update"
    meant = f"above the baseline; if that is meant, run {update}"
    told = [line for line in red.outlines if line.startswith("FAILED")]
    assert len(told) == 2
    for line, row in zip(told, ROWS[:2], strict=True):
        grown = r"error \d\.\d% \(\d\.\d \.\. \d\.\d%\) "
        begin = re.escape(f"FAILED {BASELINE}::{row} - Failed: ")
        assert re.fullmatch(begin + grown + re.escape(meant), line)
        assert f"{line.partition('Failed: ')[2]}" in red.outlines  # alone, and so not cut
    summary = red.outlines[red.outlines.index(next(x for x in red.outlines if " dpbench " in x)) :]
    assert summary[1].startswith("2 of 3 rows fail. Worst change: my_mean on ")
    at = summary.index("If these changes are meant, run:")
    assert summary[at + 1] == f"  {update}"
    assert max(map(len, summary[1:at])) <= 80
    # They are tests as others are: chosen by name, by place, and by whether they failed.
    inline(repository, "-k", "inside").assert_outcomes(failed=1, deselected=2)
    inline(repository, f"{BASELINE}::{ROWS[0]}").assert_outcomes(failed=1)
    inline(repository, "--lf").assert_outcomes(failed=2)
    accepted = inline(repository, update=True)
    accepted.assert_outcomes(passed=3)
    accepted.stdout.fnmatch_lines(["2 rows have drifted since their first baseline:"])


# A working folder, words and files: the root of pytest is elsewhere than the settings.
PLACES: list[tuple[str, list[str], dict[str, str]]] = [
    (".", ["tests"], {"tests/pytest.ini": "[pytest]"}),  # a root below the project
    (".", [], {"../pytest.ini": "[pytest]"}),  # and above it
    (".", ["tests/accuracy"], {"../tox.ini": "[pytest]"}),
    ("tests", [], {"setup.cfg": "[tool:pytest]"}),
    (".", ["--rootdir", "tests"], {}),
    (".", ["-c", "other.ini", "tests"], {"other.ini": "[pytest]"}),
    ("..", ["PROJECT"], {}),
    ("..", [], {"../pytest.ini": "[pytest]"}),  # of several projects
    ("tests/accuracy", [], {}),
]


def test_the_settings_are_found_from_every_folder_and_root(
    repository: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that all rows are collected, and that the header names their settings."""
    inline(repository, update=True).assert_outcomes(passed=3)
    project = Path.cwd()
    for folder, words, files in PLACES:
        for name, text in files.items():
            Path(name).write_text(f"{text}\n")
        monkeypatch.chdir(folder)
        named = [project.name if word == "PROJECT" else word for word in words]
        found = inline(repository, "--collect-only", "-q", "-v", *named)
        monkeypatch.chdir(project)
        for name in files:
            Path(name).unlink()
        rows = sum(row in line for line in found.outlines for row in ROWS)
        assert rows == 3, (folder, words, files)
        own = project if folder != ".." or words else "*"  # other tests' projects are neighbours
        settings = f"([[]tool.dpbench[]] of {own}/pyproject.toml)"
        with_those = f"dpbench: compares errors of private means with those in *.parquet {settings}"
        found.stdout.fnmatch_lines([with_those])


def test_the_header_says_that_no_settings_were_read(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    found = pytester.runpytest_inprocess(*PLUGIN, "--collect-only")
    found.stdout.fnmatch_lines(
        ["dpbench: compares no errors: no pyproject.toml with [[]tool.dpbench[]], upwards *"]
    )


CALLS = "        with open('calls', 'a') as f:\n            f.write('.')\n        clipped ="


def count_calls() -> int:
    """Return the number of calls since the last count; each call writes a byte."""
    calls = Path("calls")
    count = calls.stat().st_size if calls.exists() else 0
    calls.unlink(missing_ok=True)
    return count


def test_it_runs_once_for_all_workers(repository: pytest.Pytester) -> None:
    change("        clipped =", CALLS)
    inline(repository, "-p", "xdist", "-n", "2", update=True).assert_outcomes(passed=3)
    assert count_calls() == 3 * 200
    inline(repository, "-p", "xdist", "-n", "2").assert_outcomes(passed=3)
    assert count_calls() == 3 * 200


def test_it_runs_only_if_it_is_asked_for(repository: pytest.Pytester) -> None:
    """Not for other tests of the repository, nor to list tests; and once for all rows."""
    change("        clipped =", CALLS)
    Path("tests/test_other.py").write_text("def test_other():\n    pass\n")
    missing = inline(repository)
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines([f"*no such file; make one by python -m pytest {FOLDER} *update"])
    inline(repository, "tests/test_other.py").assert_outcomes(passed=1)
    inline(repository, update=True)
    assert count_calls() == 3 * 200
    inline(repository, "tests/test_other.py").assert_outcomes(passed=1)
    inline(repository, "-k", "other").assert_outcomes(passed=1, deselected=3)
    listed = inline(repository, "--collect-only", "-q")
    assert {f"{BASELINE}::{row}" for row in ROWS} < set(listed.outlines)
    assert count_calls() == 0
    inline(repository).assert_outcomes(passed=4)
    assert count_calls() == 3 * 200


def test_options_replace_the_settings(repository: pytest.Pytester) -> None:
    """A baseline elsewhere is tested though no argument names its folder."""
    inline(repository, update=True)
    Path(BASELINE).rename("other.parquet")
    options = ["--dpbench-baseline", "other.parquet", "--dpbench-config-dir", FOLDER]
    found = inline(repository, "tests/accuracy", *options)
    found.assert_outcomes(passed=3)
    Path("pyproject.toml").unlink()
    change("scale=1 /", "scale=1.5 /")
    options += ["--dpbench-plugins", "my_mean"]
    red = inline(repository, *options)
    red.assert_outcomes(failed=2, passed=1)  # far records hide a loss of noise
    told = "python -m pytest . " + " ".join(
        ("--dpbench-baseline other.parquet", f"--dpbench-config-dir {FOLDER}",
         "--dpbench-plugins my_mean", "--dpbench-update")
    )  # fmt: skip
    assert f"  {told}" in red.outlines
    inline(repository, *told.split()[3:]).assert_outcomes(passed=3)
    inline(repository, *options).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--dpbench-baseline", "none.parquet"), "'none.parquet': no such file; make one by"),
        (("--dpbench-config-dir", "no", "--dpbench-update"), "config_dir: 'no': no"),
        (("--dpbench-baseline", "x/a", "--dpbench-update"), "/x': no such folder"),
        (("--dpbench-plugins", "no_mean", "--dpbench-update"), "'no_mean'"),
        (("--dpbench-baseline", MINE, "--dpbench-update"), "not a baseline"),
        (("--dpbench-baseline", MINE, "--dpbench-update", "--dpbench-sweep", "audit"), "an audit"),
        (("--dpbench-update", "--dpbench-sweep", "none"), "'none': no such configuration"),
    ],
)
def test_what_cannot_be_used(
    repository: pytest.Pytester, words: tuple[str, ...], told: str
) -> None:
    found = repository.runpytest_inprocess(*PLUGIN, *words)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in found.errlines if line.startswith("ERROR: ")]
    assert told in line
    assert not Path(BASELINE).exists()


def test_a_damaged_baseline_is_an_error(repository: pytest.Pytester) -> None:
    Path(BASELINE).write_text("")
    found = inline(repository)
    found.assert_outcomes(errors=1)
    assert f"dpbench: baseline: '{Path(BASELINE).absolute()}': not a baseline" in found.stdout.str()


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("basline = 'a'", "pyproject.toml: [tool.dpbench]: basline: no such key; did you mean 'b"),
        ("baseline = 1", "baseline: 1: not a text; write a text"),
        ("plugins = 'a'", "plugins: 'a': not a list of texts; write a list of texts"),
        ("sweep = 'a'", "--dpbench-update: --dpbench-baseline FILE, or baseline in [tool.dpbench]"),
    ],
)
def test_settings_that_cannot_be_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, table: str, told: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    Path("pyproject.toml").write_text(f"[tool.dpbench]\n{table}\n")
    found = pytester.runpytest_subprocess(*PLUGIN, "--dpbench-update")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    assert told in found.stderr.str()


def test_a_mean_that_raises_is_told_and_not_stored(repository: pytest.Pytester) -> None:
    inline(repository, update=True).assert_outcomes(passed=3)
    stored = Path(BASELINE).read_bytes()
    change("        clipped =", "        raise ArithmeticError('no luck')\n        clipped =")
    found = inline(repository, update=True)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(
        ["ERROR: dpbench: baseline: *not stored, because an estimator*no luck*"]
    )
    assert Path(BASELINE).read_bytes() == stored
    red = inline(repository)
    red.assert_outcomes(failed=3)
    told = " ".join(red.outlines)
    assert "An estimator raised an exception: " in told
    assert "ArithmeticError: no luck" in told
    assert "If these changes are meant" not in told


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


CLIP, NOISE = "np.clip(x, 0, 1)", "rng.laplace(scale=1 / (len(x) * budget.epsilon))"
FAULTS = {  # table of docs/howto/accuracy.md
    "no clip": (CLIP, "x"),
    "no clip above 1": (CLIP, "np.clip(x, 0, None)"),
    "no clip below 0": (CLIP, "np.clip(x, None, 1)"),
    "clip at [0.02, 1.02]": (CLIP, "np.clip(x, 0.02, 1.02)"),
    "clip after the noise": (
        f"clipped.mean() + {NOISE}",
        f"np.clip(clipped.mean() + {NOISE}, 0, 1)",
    ),
    "no noise": (NOISE, "0.0"),
    **{
        f"noise times {times}": (NOISE, f"{times} * {NOISE}")
        for times in ("1.1", "0.9", "0.5", "1.41")
    },
    "noise for n + 1 records": ("len(x)", "(len(x) + 1)"),
}


@pytest.mark.slow
def test_the_page_says_which_faults_each_row_sees(repository: pytest.Pytester) -> None:
    page = (ROOT / "docs/howto/accuracy.md").read_text("utf-8").partition("| fault |")[2]
    header, _, *table = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.partition("\n\n")[0].splitlines()
    )
    stated = {
        fault: {row for row, cell in zip(header, cells, strict=True) if cell}
        for fault, *cells in table
    }
    few_trials(1000)
    inline(repository, update=True).assert_outcomes(passed=3)
    text, found = MINE.read_text(), {}
    for fault, (old, new) in FAULTS.items():
        change(old, new)
        told = [line for line in inline(repository).outlines if line.startswith("FAILED")]
        found[fault] = {row for row in header if any(f" on {row}, " in line for line in told)}
        MINE.write_text(text)
    assert found == stated


def test_trials_show_a_loss_of_five_per_cent_without_a_seed(repository: pytest.Pytester) -> None:
    """Check the trials that the sweep and the command recommend, 70000.

    Spreads are proportional to one over the root of trials. The bootstrap of 2000 trials knows the
    spread to about 3%.
    """
    few_trials(2000)
    inline(repository, update=True).assert_outcomes(passed=3)
    rows = read_errors(Path(BASELINE)).rows
    visible = compare(rows, rows.assign(stream=""))["smallest_detectable"].to_numpy(float)
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
    told = capsys.readouterr().err
    assert "tests/accuracy/sweep/accuracy.yaml': exists, and is not replaced" in told
    Path("other").mkdir()
    assert run(["init-ci", "other"]) == 0
    told = capsys.readouterr().out
    assert "wrote other/tests/accuracy/my_mean.py" in told
    assert max(map(len, told.partition("1. ")[2].splitlines())) <= 80
    for path in (*Path("tests/accuracy").rglob("*.*"), Path(".github/workflows/accuracy.yml")):
        assert not re.search("@[A-Z]", path.read_text())
    assert (UNKNOWN_ADDRESS in install) == (UNKNOWN_ADDRESS in told)
    assert run(["init-ci", "nowhere"]) == 2
    assert run(["init-ci", "other", "another"]) == 2


@pytest.mark.parametrize(
    ("before", "folders", "folder"),
    [
        ("", [], "tests/accuracy"),
        ("", ["test"], "test/accuracy"),
        ("", ["test", "tests"], "tests/accuracy"),
        ("[tool.pytest.ini_options]\ntestpaths = ['checks/']\n", ["checks"], "checks/accuracy"),
        ("[tool.pytest.ini_options]\ntestpaths = 'a checks'\n", ["checks"], "checks/accuracy"),
        ("[tool.pytest.ini_options]\ntestpaths = ['.']\n", [], "tests/accuracy"),
    ],
)
def test_init_ci_writes_below_the_folder_of_tests(
    tmp_path: Path, before: str, folders: list[str], folder: str
) -> None:
    """Its settings come last in the user's pyproject.toml, which keeps what it has."""
    project = tmp_path / "pyproject.toml"
    if before:
        project.write_text(before)
    for name in folders:
        (tmp_path / name).mkdir()
    assert run(["init-ci", str(tmp_path)]) == 0
    assert (tmp_path / folder / "sweep" / "accuracy.yaml").exists()
    assert project.read_text().startswith(before)
    settings = tomllib.loads(project.read_text())["tool"]["dpbench"]
    assert settings == {"baseline": f"{folder}/baseline.parquet", "plugins": ["my_mean"]}


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("[tool.dpbench]\n", "has a table [tool.dpbench] already; remove it"),
        ("tool = {black = {}}\n", "no table can be added at its end; write [tool] as tables"),
        ("[tool\n", "not valid TOML"),
    ],
)
def test_init_ci_leaves_a_file_that_cannot_take_its_settings(
    tmp_path: Path, before: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(before)
    assert run(["init-ci", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"pyproject.toml"}


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """A flat project of setuptools, whose packages it finds by itself, after init-ci."""
    (tmp_path / "meanlib").mkdir()
    (tmp_path / "meanlib" / "__init__.py").write_text("def mean(x):\n    return sum(x) / len(x)\n")
    (tmp_path / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['setuptools>=61']\nbuild-backend = 'setuptools.build_meta'\n\n"
        "[project]\nname = 'meanlib'\nversion = '1'\n"
    )
    assert run(["init-ci", str(tmp_path)]) == 0
    return tmp_path


def test_init_ci_adds_no_package_to_a_flat_project(flat: Path) -> None:
    """A folder `accuracy` at the top would be a second one, which setuptools refuses."""
    discovery = pytest.importorskip("setuptools.discovery")
    assert discovery.FlatLayoutPackageFinder.find(str(flat)) == ["meanlib"]
    (flat / "accuracy").mkdir()
    assert "accuracy" in discovery.FlatLayoutPackageFinder.find(str(flat))


@pytest.mark.slow
def test_a_flat_project_installs_after_init_ci(flat: Path, tmp_path: Path) -> None:
    """Built by the real setuptools, which pip fetches."""
    target = tmp_path / "target"
    command = ["install", "--quiet", "--no-deps", "--target", target, flat]
    subprocess.run([sys.executable, "-m", "pip", *map(str, command)], check=True)
    assert {path.name for path in target.iterdir() if path.is_dir()} >= {"meanlib"}
    assert not (target / "tests").exists()


def test_the_commands_of_the_accuracy_page(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the commands of the page, one after the other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    text = (ROOT / "docs" / "howto" / "accuracy.md").read_text()
    (block,) = re.findall(r"```sh\n(python -m dpbench init-ci.*?)```", text, flags=re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line)
        if words[:3] == ["python", "-m", "dpbench"]:
            assert run(words[3:]) == 0
        else:
            few_trials(100)
            Estimator._registry.pop("my_mean", None)
            more = words[words.index("pytest") + 1 :]
            pytester.runpytest_inprocess(*PLUGIN, *more).assert_outcomes(passed=3)
    assert "my_mean on inside, pure eps=1 n=200: 0.0" in capsys.readouterr().out
    assert Path("build/history/history.svg").exists()
