"""The words of every command: the same wrong ones are refused alike, in one line."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from dpbench.app import commands
from dpbench.cli.main import run
from dpbench.output.command_line import NoKeys, read_words
from dpbench.output.help_page import help_page
from dpbench.registry import ConfigError, validated
from dpbench.runner.settings import PathText, Seed


class Case(NamedTuple):
    """A command or task: words that it takes, its keys, one of another, and one word too many."""

    words: str
    keys: str
    others: str = "nope"
    many: str = "word"


# By the command, and the task if it has tasks.
CASES = {
    "compare": Case("a.parquet b.parquet", "out config_dir", "seed"),
    "history add": Case("run", "to commit date config_dir", "out"),
    "history show": Case("h.parquet", "out", "to"),
    "init-ci": Case("", "", "out", "there word"),
    "libraries": Case("", "", "out", ""),
    "plan": Case(
        "",
        "n epsilon delta rho mu neighbours lower upper law data column k scale alpha out law.scale "
        "size trials n_max seed estimator",
        "paper",
    ),
    "new": Case("mine", "", "out", "word"),
    "site": Case("", "archive out", "seed"),
    "benchmark list": Case("", "problems", "seed"),
    "benchmark run": Case("mine.py", "problems quick out seed n_jobs", "archive"),
    "benchmark compare": Case("mine.parquet", "problems out archive", "quick", ""),
    "benchmark archive": Case("", "problems quick out seed n_jobs", "archive"),
}
REFUSALS = [
    *((name, f"{one.words} {flag}", f"{name}: '{flag}': no such flag; ")
      for name, one in CASES.items() for flag in ("--foo", "-x", "--out=x", "--")),
    *((name, f"{one.words} {key}=1", f"{key}: no such key of {name}; ")
      for name, one in CASES.items() for key in (one.others, "nope", "")),
    *((name, f"{one.words} {key}=", f"{key}: '': an empty value; ")
      for name, one in CASES.items() for key in one.keys.split()),
    *((name, f"{one.words} {key}=3 {key}=4", f"{key}: given twice, 3 and 4\n")
      for name, one in CASES.items() for key in one.keys.split()),
    *((name, f"{one.words} {one.many}", f"{name}: 'word': one word too many; expected: {name}")
      for name, one in CASES.items() if one.many),
    *((name, "", f"{name}: {one.split()[0]}: this word is required; expected: {name} {one}")
      for name, one in {"compare": "A B", "history add": "RUN", "history show": "FILE",
                        "benchmark run": "FILE", "benchmark compare": "FILE ..."}.items()),
    ("compare", "a.parquet", "compare: B: this word is required; "),
    ("history", "", "history: no task given; choose from add, show\n"),
    *((name, task, f"{name}: '{task}': no such {what}; ")
      for name in ("history", "benchmark")
      for task, what in (("nope", "task"), ("--foo", "flag"), ("out=x", "task"))),
    ("benchmark", "comprae", "benchmark: 'comprae': no such task; did you mean 'compare'? "),
    ("benchmark run", "mine.py quik=1", "quik: no such key of benchmark run; did you mean 'quick'"),
    ("plan", "lower=0 law.scale=1", "law.scale: give law=NAME, too"),
    ("plan", "law=gaussian law.kind=pareto", "law.kind: no such key of plan; "),
    ("benchmark run", "mine.py seed=-1", "seed: -1: "),
    ("benchmark run", f"mine.py problem={200 * 'ab'}", "problem: no such key of benchmark run"),
    ("benchmark archive", "n_jobs=many", "n_jobs: 'many': "),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    return tmp_path


def test_every_command_is_tried() -> None:
    """And a module that is no command is not listed."""
    own_words = {"paper"}  # it takes the keys of sweeps
    assert {name.partition(" ")[0] for name in CASES} | own_words == set(commands())
    assert not {"words", "measured"} & set(commands())


@pytest.mark.parametrize(("name", "words", "told"), REFUSALS)
def test_a_word_that_cannot_be_used(
    name: str, words: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*name.split(), *words.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"dpbench: {told}")
    assert shown.err.count("\n") == 1
    assert [path.name for path in folder.rglob("*")] == ["there"]


@pytest.mark.parametrize("name", [*CASES, "history", "benchmark"])
def test_help_after_a_command_and_a_task(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage = commands()[name.partition(" ")[0]].usage
    for words in (["--help"], ["-h"], ["word", "-h"], ["--foo", "--help"]):
        assert run([*name.split(), *words]) == 0
        assert capsys.readouterr() == (f"{help_page(usage)}\n", "")


def test_help_lists_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "  init-ci [DIR]     write a sweep, a plug-in and a CI workflow that test" in shown
    for command in commands().values():
        assert f"  {command.words:17} {command.summary}\n" in shown


@validated
class Options:
    seed: Seed = 0
    out: PathText = "here"
    baseline: PathText | None = None
    size: float = 1.0
    law: object = None


def test_what_is_read(folder: Path) -> None:
    """Values are text or numbers by key; a = may be in a value, a file's name or a folder's."""
    (folder / "eps=1").touch()
    words = ["eps=1", "size=1e3", "out=5", "runs/seed=3", "baseline=7", "seed=1e6", "a"]
    found, given = read_words("try", words, "[NAME ...]", Options)
    assert found == ["eps=1", "runs/seed=3", "a"]
    assert given == Options(seed=10**6, out="5", baseline="7", size=1000.0)
    assert read_words("try", ["out=a=b"], "", Options)[1].out == "a=b"
    (folder / "out=there").touch()  # a key is a key
    assert read_words("try", ["out=there"], "[NAME]", Options) == ([], Options(out="there"))
    assert read_words("try", [], "[NAME]", NoKeys) == ([], NoKeys())
    with pytest.raises(ConfigError, match=r"^x: no such key of try; it takes no keys"):
        read_words("try", ["x=1"], "[NAME]", NoKeys)
    with pytest.raises(ConfigError, match=r"^try: '': an empty word; expected: try A \[B\]$"):
        read_words("try", ["a", ""], "A [B]", NoKeys)


def test_a_kind_and_its_parameters() -> None:
    def law(*words: str) -> object:
        return read_words("try", words, "", Options, kind="law")[1].law

    assert law("law=pareto") == "pareto"
    assert law("law.shape=3", "law=pareto") == {"kind": "pareto", "shape": 3}
    with pytest.raises(ConfigError, match=r"^law.shape: no such key of try; choose from seed, out"):
        read_words("try", ["law.shape=3"], "", Options)
