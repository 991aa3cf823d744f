"""Applications: each lies in a folder, and the core finds it through one object."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

import dpbench
from dpbench import app
from dpbench.cli.completion import complete
from dpbench.cli.main import run
from dpbench.jobs.prepare import find_app
from dpbench.planner.app import LAWS
from dpbench.planner.question import LAW_NAMES
from tests.bench import Bench

PACKAGE = Path(dpbench.__file__).parent
DOCS = PACKAGE.parent / "docs"
PAGE = DOCS / "howto" / "add_an_application.md"


@functools.cache
def imports() -> dict[str, set[str]]:
    """The modules of dpbench that each module imports anywhere, by dotted name."""
    paths = [path for path in PACKAGE.rglob("*.py") if "templates" not in path.parts]
    dotted = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths}
    files = {f"dpbench.{name}".removesuffix(".__init__"): path for path, name in dotted.items()}
    found = defaultdict[str, set[str]](set)
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{one.name}" for one in node.names]
                names = [one if one in files else node.module for one in whole]
            found[name] |= {one for one in names if one in files} - {name}
    return found


def test_the_core_imports_no_application() -> None:
    """Not even in a function; only the face of the package has two of their names for users."""
    applied = tuple(f"dpbench.{name}" for name in app.BUILT_IN)

    def owner(name: str) -> str:
        return next((one for one in applied if f"{name}.".startswith(f"{one}.")), "")

    for name, used in imports().items():
        if not owner(name) and name != "dpbench":
            assert not [one for one in used if owner(one)], name
    assert {one for one in imports()["dpbench"] if owner(one)} == {
        "dpbench.planner", "dpbench.tracking.command_compare",
    }  # fmt: skip


def test_rooms_import_what_their_table_says() -> None:
    """In the map of the package: the ground, and rooms by name or all above."""
    table = (DOCS / "code_map.md").read_text("utf-8").partition("| question |")[0]
    rows = re.findall(r"^\| (`.*) \| .* \| (.*) \|$", table, re.MULTILINE)
    ground, may = set(re.findall(r"\w+", rows[0][0])), dict[str, set[str]]()
    for rooms, allowed in rows:
        for room in re.findall(r"\w+", rooms):
            above = set(may) if allowed == "all above" else set(re.findall(r"`(\w+)/`", allowed))
            may[room] = above | ground | {room}
    assert set(may) == {room_of(name) for name in imports()}
    for name, used in imports().items():
        assert {room_of(one) for one in used} <= may[room_of(name)], name


def room_of(name: str) -> str:
    """The room of a module of the package."""
    return name.split(".")[1] if "." in name else "__init__"


def test_no_modules_import_each_other() -> None:
    """Take away modules whose imports are all taken away; those of a circle would be left."""
    left = imports()
    # a package finds its public names in its modules, each of which imports the package
    left = {name: {one for one in used if not one.startswith(f"{name}.")}
            for name, used in left.items()}  # fmt: skip
    while free := [name for name, used in left.items() if not used & set(left)]:
        for name in free:
            del left[name]
    assert not left


def test_a_start_imports_nothing_slow() -> None:
    """The objects of all applications, with their commands, cost no library."""
    script = "import json, sys; from dpbench.app import applications, commands; commands(); "
    script += "print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"numpy", "pandas", "pydantic", "yaml", "omegaconf", "matplotlib", "rich"}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"sweep": {"audit": {}}, "track": "check"}, "audit"),
        ({"sweep": {"libraries": {}}, "rerun": "f0n1"}, "libraries"),
        ({"sweep": {"audit": {}}, "report": "all", "track": "check"}, "site"),
        ({"sweep": {}, "track": "check", "rerun": "f0n1"}, "tracking"),
        ({"sweep": {}, "rerun": "f0n1"}, "jobs"),
        ({"sweep": {}, "track": None, "rerun": None, "report": None}, "jobs"),
        ({"sweep": "odd"}, "jobs"),
    ],
)
def test_the_first_application_that_accepts_a_configuration_runs_it(
    config: dict[str, object], name: str
) -> None:
    assert type(find_app(config)).__module__ == f"dpbench.{name}.app"


def test_laws_that_a_shell_completes_are_those_of_the_planner() -> None:
    assert LAWS == LAW_NAMES


def test_the_application_of_the_page(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder and a word: it is listed, completed and run, and its errors are of the table."""
    (text,) = re.findall(
        r"```python\n(# protocol/app.py\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert len(text.splitlines()) <= 60
    folder = bench.folder / "more" / "protocol"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(text)
    monkeypatch.setattr(dpbench, "__path__", [*dpbench.__path__, str(folder.parent)])
    monkeypatch.setattr(app, "BUILT_IN", (*app.BUILT_IN, "protocol"))
    assert run(["--help"]) == 0
    assert "  protocol DIR      print a run as the ADEMP paragraph" in capsys.readouterr().out
    assert "protocol" in complete(["pro"])
    bench.done("trials=40")
    assert run(["protocol", str(bench.folder / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = pd.read_csv(bench.folder / "out" / "summary.csv")
    names = [line.partition(":")[0] for line in lines]
    assert names == ["Aims", "Data", "Estimands", "Methods", "Performance measures"]
    for estimator in table["estimator"]:
        assert estimator in lines[3]
    told = dict(re.findall(r"(\w+) \(Monte Carlo standard error at most ([^)]*)\)", lines[4]))
    assert told["bias"] == f"{table['bias_se'].max():.2g}"
    half = (table["q90_high"] - table["q90_low"]).max() / 2
    assert float(told["q90"]) == pytest.approx(half / 1.96, rel=0.06)
    assert run(["protocol"]) == 2
