"""The pages that are read off the package, and those whose examples are run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from docs import archive, generate, modules
from docs.docstring_to_rst import docstring_to_rst, escape
from dpbench.analysis import claims, factors, smallest_n
from dpbench.analysis.trial_statistics import statistics
from dpbench.audit import cases, controls, task
from dpbench.audit.job import AuditJob
from dpbench.audit.pairs import catalogue
from dpbench.cli.main import run
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.estimators.base import NeedsRadius
from dpbench.estimators.catalogue import catalogue as listings
from dpbench.jobs import describe
from dpbench.libraries import library_verdict, replay
from dpbench.report.study import Figure
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.selection import KEY
from dpbench.theory.bounds import class_bound
from dpbench.theory.families import Family
from dpbench.theory.theorems import THEOREMS
from dpbench.tracking import comparison
from tests.support import page_columns

DOCS = Path(generate.__file__).parent
ROOT = DOCS.parent
PACKAGE = ROOT / "dpbench"
# Names of the package and paths of the checkout; the path of a file to be written has capitals.
NAME = re.compile(r"(?<![\w./-])dpbench(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(
    r"(?<![\w./-])(?:conf|docs|dpbench|experiments|tests)/[a-z_\d./-]+\.(?:ipynb|json|md|py|ya?ml)\b"
)
PAIR = re.compile(r"`(dpbench/[\w/]+)\.py`, `([\w.]+)`")


def shipped(*kinds: type) -> set[str]:
    """The kinds of the package; other tests register more."""
    found = describe.kinds(*kinds).items()
    return {name for name, one in found if one.__module__.startswith("dpbench.")}


def test_names_and_files_that_texts_mention_exist() -> None:
    """Pages, configurations, and Python files of the package, of docs/ and of experiments/."""
    texts = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "conf").rglob("*.yaml")]
    texts += [path for one in ("dpbench", "docs", "experiments") for path in sources(ROOT / one)]
    assert len(texts) > 200
    for path in texts:
        text = path.read_text("utf-8")
        for name in set(NAME.findall(text)):
            assert resolve_name(name) is not None, (path, name)
        for name in set(FILE.findall(text)):
            assert (ROOT / name).exists(), (path, name)
        for name in re.findall(r"derivations/(theory\.[\w.]+\w)>", text):
            assert resolve_name(f"dpbench.{name}") is not None, (path, name)
    for name in archive.PROOFS.values():
        assert resolve_name(f"dpbench.theory.bounds.{name}") is not None
    pairs = PAIR.findall((DOCS / "code_map.md").read_text("utf-8"))
    assert len(pairs) > 12
    for file, name in pairs:
        module = file.removesuffix("/__init__").replace("/", ".")
        assert resolve_name(f"{module}:{name}") is not None, (file, name)


def sources(folder: Path) -> list[Path]:
    """The Python files below a folder, but templates of others' files."""
    return [path for path in sorted(folder.rglob("*.py")) if path.parent.name != "templates"]


def test_every_column_of_a_summary_is_explained() -> None:
    """Keys, statistics and bounds; the parameters that a sweep varies have no fixed names."""
    text = (DOCS / "howto" / "summary.md").read_text("utf-8")
    columns = {
        *KEY,
        "lower_bound",
        "bound_name",
        *METRICS,
        *statistics({"error": np.ones((1, 40))}),
    }
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == columns


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("factors.csv", factors.COLUMNS),
        ("sample_complexity.csv", smallest_n.COLUMNS),
        ("audit.csv", task.COLUMNS),
        ("tracking.csv", comparison.COLUMNS),
        ("verdicts.csv", library_verdict.COLUMNS),
        ("replay.csv", replay.COLUMNS),
    ],
)
def test_the_page_of_columns_has_those_of_the_code(file: str, columns: Sequence[str]) -> None:
    """In the order of the table that the run writes."""
    assert page_columns(file) == list(columns)


def test_each_table_that_a_job_writes_has_a_page() -> None:
    """Files that the package names; tests of their jobs compare the columns of the others."""
    text = (DOCS / "howto" / "columns.md").read_text("utf-8")
    described = {*re.findall(r"^## (\w+\.csv)$", text, re.MULTILINE)}
    described |= {*re.findall(r"`(\w+\.csv)` (?:has|of the command)", text)}
    named = {
        one for path in sources(PACKAGE) for one in re.findall(r'"(\w+\.csv)"', path.read_text())
    }
    assert named - described == {"summary.csv", "claims.csv", "my.csv"}  # the last is a reader's


def test_the_page_of_claims_explains_every_column_and_variable() -> None:
    text = (DOCS / "howto" / "claims.md").read_text("utf-8")
    table = text.partition("| `variable` |")[2].partition("\n\n")[0]
    explained = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row[:80])}
    assert {one.variable for one in THEOREMS.values()} | set(VARIABLES) == explained
    assert set(claims.COLUMNS) <= set(re.findall(r"`(\w+)`", text))


def test_the_table_of_choices_names_estimators_of_its_records() -> None:
    text = (DOCS / "howto" / "choose.md").read_text("utf-8")
    numbers, _, rest = text.partition("\n## Vectors\n")
    vectors, _, others = rest.partition("\n## Other settings\n")
    for part, groups in (
        (numbers.partition("\n## One number")[2], {"scalar", "interval"}),
        (vectors, {"vector", "other"}),
        (others, {"local", "other"}),
    ):
        named = set(re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+|adassp)`", part))
        named -= {name for one in listings().values() for name in one.entries} - {*listings()}
        assert len(named) > 3
        assert {listings()[name].group for name in named} <= groups


def test_the_page_of_choices_lists_the_estimators_without_some_notions() -> None:
    text = (DOCS / "howto" / "choose.md").read_text("utf-8")
    kinds = Estimator.kinds()
    named = set(re.findall(r"`(\w+)`", text)) & set(kinds)
    lists = text.partition("Exceptions:")[2].partition("\n## ")[0].split("\n- ")[1:]
    stated = [set(re.findall(r"`(\w+)`", part.partition("without a radius")[0])) for part in lists]
    notions = {name: {one.__name__ for one in kinds[name].notions} for name in named}
    for found, wanted in zip(
        stated, ({"ZCDP", "GDP", "ApproxDP"}, {"ApproxDP"}, {"PureDP"}), strict=True
    ):
        assert found == {name for name in named if notions[name] == wanted}
    without_radius = set(re.findall(r"`(\w+)`", lists[1].partition("without a radius")[2]))
    assert without_radius == {name for name in named if issubclass(kinds[name], NeedsRadius)}


def test_sweeps_that_measured_something_are_shipped() -> None:
    rows = [row for listing in listings().values() for row in listing.rows]
    named = {name for row in rows for name in re.findall(r"\(`(\w+)`\)", row.measured)}
    assert named
    assert named <= {path.stem for path in (DOCS.parent / "conf" / "sweep").glob("*.yaml")}


def test_every_kind_and_every_key_is_in_the_reference() -> None:
    pages = dict(generate._reference())
    for registry, page in (
        (Estimator, "estimators"), (Distribution, "distributions"), (Family, "families"),
        (Figure, "figures"),
    ):  # fmt: skip
        for name in shipped(registry):
            _, _, section = pages[page].partition(f".. _kind-{name}:\n")
            section = section.partition(".. _kind-")[0]
            for key, *_ in describe.parameters(describe.kinds(registry)[name]):
                assert f"- ``{key}``\n" in section, (name, key)
    linked = {name for page in pages.values() for name in re.findall(r"<kind-(\w+)>", page)}
    assert shipped(Estimator) <= linked


def test_the_index_has_the_words_and_the_authors_of_kinds() -> None:
    pages = dict(generate._reference())
    for term, kind in (
        ("Huang", "instance_optimal_mean"), ("sparse vector", "universal_mean"),
        ("Bun", "smooth_sensitivity_trimmed_mean"), ("duchi", "local_mean"),
    ):  # fmt: skip
        _, _, section = pages["estimators"].partition(f".. _kind-{kind}:\n")
        _, _, entries = section.partition(".. index::\n")
        assert f"\n   single: {term}; {kind}\n" in f"\n{entries.partition(chr(10) * 2)[0]}\n"
    assert "\n   single: staircase; pure_dp\n" in pages["budgets"]


def test_bounds_have_their_oracles() -> None:
    pages = dict(modules._theory())
    for name in (
        "bernoulli",
        "class_bound",
        "information",
        "local",
        "multi_hypothesis",
        "numbers",
        "vectors",
    ):
        assert "Checked by" in pages[f"theory.bounds.{name}"]
    at = "tests/theory/bounds/test_multi_hypothesis.py::"
    assert at in pages["theory.bounds.multi_hypothesis"]
    assert at not in pages["theory.bounds.local"]


def test_the_page_of_bounds_has_the_names_of_the_code() -> None:
    """Each name of a proof has a row, whose link the pages of the benchmark share."""
    code = (PACKAGE / "theory/bounds/class_bound.py").read_text("utf-8")
    names = {class_bound.LOCAL_BOUND_NAME, *re.findall(r'[{ \[]"([\w -]+)"(?:: |\] =)', code)}
    page = (DOCS / "bounds.md").read_text("utf-8").partition("## A binary mean")[0]
    rows = dict(re.findall(r"^\| ([\w -]+) \| (.*)", page, re.MULTILINE))
    assert {*rows} == names
    for name, module in archive.PROOFS.items():
        if "{doc}" in rows[name]:
            assert f"<derivations/theory.bounds.{module}>" in rows[name]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("So a is\n\n    b <= c*d\n\nand so on.", "So a is\n\n::\n\n    b <= c*d\n\nand so on."),
        ("By cases:\n    one  a*b", "By cases:\n\n::\n\n    one  a*b"),
        ("- a case\n  goes on:\n\n      x = y_+", "- a case\n  goes on:\n\n  ::\n\n      x = y_+"),
        ("E|x|^k, 2 * n, D_ of [3]_", r"E\|x\|^k, 2 \* n, D\_ of [3]"),
        ("``a*b`` and `name`", "``a*b`` and `name`"),
        ("Returns\n-------\nfloat\n    A | b.", "Returns\n-------\nfloat\n    A \\| b."),
        (">>> 2 * 3\n6", ">>> 2 * 3\n6"),
        (
            "References\n----------\n.. [A1] One,\n   'Title'.",
            "References\n----------\n* [A1] One,\n  'Title'.",
        ),
    ],
)
def test_docstrings_keep_what_they_show(text: str, shown: str) -> None:
    assert "\n".join(docstring_to_rst(text.splitlines())).strip() == shown
    assert escape("plain words, x_1 and (a)") == "plain words, x_1 and (a)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder; names are free again afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for kind in (Estimator, Distribution):
        monkeypatch.setattr(kind, "_registry", dict(kind._registry))
    yield tmp_path
    sys.modules.pop("digits", None)  # each test imports its own file
    plt.close("all")


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def write(text: str) -> None:
    """Write a file whose first line names it."""
    path = Path(text.split("\n", 1)[0].removeprefix("# "))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


PAGES = ["../README.md", *(str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md")))]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
@pytest.mark.filterwarnings("ignore::dpbench.AssumptionWarning")  # a page shows the warning
def test_each_block_of_python_runs_alone(folder: Path, page: str) -> None:
    """Or after the block above, where the page says so; what a comment shows is printed."""
    text = (DOCS / page).read_text("utf-8")
    names: dict[str, object] = {}
    for before, block in re.findall(r"([^\n]*)\n\n```python\n(.*?)```", text, re.DOTALL):
        names = names if before.endswith("block above:") else {"__name__": "__main__"}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page, "exec"), names)  # as a reader pastes it
        shown = re.findall(r"^print\(\w.*\)  # ((?:\d|\w+\().*?)(?:;|$)", block, re.MULTILINE)
        lines = printed.getvalue().splitlines()
        assert all(any(line.startswith(one) for line in lines) for one in shown), (shown, lines)


def test_the_tutorial_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """False alarms: claims of privacy below 1e-4 by the audit's level; errors are compared with
    those of the same random numbers."""
    monkeypatch.setattr(cases, "CONTROLS", (controls.NoClipping(),))
    monkeypatch.setattr(cases, "catalogue", lambda n, d: catalogue(n, d)[:3])
    monkeypatch.setattr(AuditJob, "_draw", lambda *_: None)
    (source,) = blocks("tutorial.md", "python")
    for text in (source, *blocks("tutorial.md", "yaml")):
        write(text)
    lines = "".join(blocks("tutorial.md", "sh")).splitlines()
    measure, audit, update, check = (shlex.split(line)[3:] for line in lines)
    assert run([*measure, "n_jobs=1"]) == 0
    assert (folder / "results/mine/figures/errors.svg").exists()
    (shown,) = (text for text in blocks("tutorial.md", "text") if "Errors on" in text)
    printed = capsys.readouterr().out
    for line in shown.splitlines():  # but the digits, which another processor may round otherwise
        assert re.sub(r"\d\S*$", "", line) in printed
    summary = pd.read_csv("results/mine/summary.csv").set_index(["family", "estimator", "n"])["q90"]
    # a clip at +-5 does no harm to N(0, 1), and to the Student law around 3 what no n makes good
    assert summary["gaussian", "digits", 10000] < summary["gaussian", "clipped", 10000]
    assert summary["student", "digits", 10000] > 1.3 * summary["student", "clipped", 10000]
    assert run([*audit, "n_jobs=1", "trials=1000"]) == 0
    for words in (update, check):
        assert run([*words, "n_jobs=1", "~sweep.parts.all.figures"]) == 0
    # "half the noise that is needed, and the audit says so"
    halved = source.replace("2 * bound / sample.n", "bound / sample.n").replace("Digits", "Halved")
    Path("halved.py").write_text(halved)
    broken = [word.replace("digits", "halved") for word in audit]
    broken += ["sweep.estimators.digits.kind=halved", "out=broken"]
    assert run([*broken, "n_jobs=1", "trials=1000"]) == 1


def test_the_plan_prints_what_its_page_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word by word; of numbers the last digits may be another's, by another processor."""
    monkeypatch.setattr("dpbench.planner.figure.write", lambda *_: [])
    command, shown, _ = blocks("howto/plan.md", "text")
    assert f"bench {command.partition('dpbench ')[2].strip()}`" in (ROOT / "README.md").read_text()
    assert run(shlex.split(command)[3:]) == 0
    printed = capsys.readouterr().out.partition("\nOpenDP")[0].rstrip()
    assert_same(shown, printed)


def test_the_plan_of_a_table_prints_what_its_page_shows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("table.yaml").write_text(blocks("howto/tables.md", "yaml")[0])
    (command,) = blocks("howto/tables.md", "sh")
    assert run(shlex.split(command)[3:]) == 0
    assert_same(
        blocks("howto/tables.md", "text")[2], capsys.readouterr().out.partition("\n\nPython")[0]
    )


def test_the_plan_of_an_estimator_prints_what_its_page_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DPBENCH_COMMAND", raising=False)
    write(blocks("tutorial.md", "python")[0])
    _, _, shown = blocks("howto/plan.md", "text")
    commands = [shlex.split(command)[3:] for command in blocks("howto/plan.md", "sh")]
    variance, shipped, own = commands
    assert run(variance) == 0
    assert "sigma=0.7): variance 2,580" in capsys.readouterr().out
    assert run(shipped) == 0
    assert_same(shown, capsys.readouterr().out)
    assert run(own) == 0
    assert "estimator: Digits()\n" in capsys.readouterr().out


def assert_same(shown: str, printed: str) -> None:
    """The words of two texts are equal, and their numbers nearly equal."""
    number = re.compile(r"-?\d[\d,.e-]*\d|\d")
    same = number.sub("#", " ".join(shown.split())) == number.sub("#", " ".join(printed.split()))
    assert same, f"the output in docs/howto/plan.md must be what the command prints:\n{printed}"
    found, wanted = (
        [float(one.replace(",", "").rstrip(".")) for one in number.findall(text)]
        for text in (printed, shown)
    )
    assert found == pytest.approx(wanted, rel=0.05)
