"""Whatever a configuration or a run's folder holds: it works, or one line says why it does not.

DPBENCH_EXAMPLES=2000 tries so many changes of each kind instead of a few.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbench.cli import main as cli
from dpbench.jobs.composition import compose
from dpbench.jobs.prepare import make_job
from dpbench.package import conf_folder
from dpbench.registry import ConfigError
from tests.bench import FIGURE, REQUEST, TINY

EXAMPLES = int(os.environ.get("DPBENCH_EXAMPLES", "0"))
SWEEPS = sorted(path.stem for path in (conf_folder() / "sweep").glob("*.yaml"))
QUICK = ["binary_mean", "covariance", "heights", "quick", "shrinking_intervals"]  # to plan


def tried(few: int) -> settings:
    """The same changes in every run of the tests."""
    return settings(max_examples=EXAMPLES or few)


# What a key may be given; and what it may be called.
NUMBERS = [0, 1, -1, 2, 0.5, 100, 1e-320, 1e15, 2e15, 1e18, 1e301, -1e308, 10**400, 2**63]
NUMBERS += [float("nan"), float("inf"), 10**7, 10**9]
TEXTS = [
    "",
    "nope",
    "[/x]",
    ":smile:",
    r"$\frac$",
    "_a",
    "\x1b[31m",
    "=cmd",
    "a\nb",
    "é",
    "*",
    "!*",
]
TEXTS += ["\ud800", "${name}", "${oc.env:HOME}", "???", "a" * 300, "os.system", "n", "none", "1e3"]
VALUES: list[Any] = [
    *NUMBERS,
    *TEXTS,
    None,
    True,
    [],
    [[]],
    [None],
    {},
    {"kind": "nope"},
    {"": {}},
    b"\xff",
]
VALUES += [dt.date(2000, 1, 1), [0, 0], [1e300, 1e301], {"low": 1, "high": 1e15, "points": 2}]
NAMES = ["n", "k", "kind", "_target_", "defaults", "families", "epsilon", "trials", 1, None, *TEXTS]

Way = tuple[Any, ...]


def ways(spec: Any, at: Way = ()) -> Iterator[Way]:
    """The ways to all entries of nested mappings and lists."""
    entries = spec.items() if isinstance(spec, dict) else enumerate(spec)
    for key, value in entries:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from ways(value, (*at, key))


def holder(spec: Any, way: Way) -> Any:
    """What holds the entry at the end of a way."""
    for key in way[:-1]:
        spec = spec[key]
    return spec


def changed(spec: Any, draw: Any) -> Any:
    """The specification with an entry that is gone, or has another value or name."""
    spec = copy.deepcopy(spec)
    known = list(ways(spec))
    if not known:
        return spec
    way = draw(st.sampled_from(known))
    at, key = holder(spec, way), way[-1]
    how = draw(st.sampled_from(["value", "value", "value", "other", "listed", "gone", "name"]))
    if how == "gone":
        del at[key]
    elif how == "name" and isinstance(at, dict):
        at[draw(st.sampled_from(NAMES))] = at.pop(key)
    elif how == "other":
        other = draw(st.sampled_from(known))
        at[key] = copy.deepcopy(holder(spec, other)[other[-1]])
    elif how == "listed":
        at[key] = [at[key], draw(st.sampled_from(VALUES))]
    else:
        at[key] = draw(st.sampled_from(VALUES))
    return spec


def read(name: str) -> dict[str, Any]:
    if name == "tiny":
        parts = TINY["parts"] | {"tails": TINY["parts"]["tails"] | {"n": [10, 1000]}}
        asked = {"figures": {"a": FIGURE}, "sample_complexity": {"a": REQUEST}}
        return TINY | asked | {"parts": parts}
    found: dict[str, Any] = yaml.safe_load((conf_folder() / "sweep" / f"{name}.yaml").read_text())
    return found


@given(st.data())
@tried(20)
def test_a_changed_configuration(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.getbasetemp() / "configurations"
    (folder / "sweep").mkdir(parents=True, exist_ok=True)
    spec = read(data.draw(st.sampled_from(["tiny", *(SWEEPS if EXAMPLES else QUICK)])))
    for _ in range(data.draw(st.integers(1, 3))):
        spec = changed(spec, data.draw)
    (folder / "sweep" / "changed.yaml").write_text(yaml.safe_dump(spec))
    with contextlib.suppress(ConfigError):  # whose text is one line, always
        make_job(compose(["sweep=changed", "out=out"], folder), folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """The folder of a finished run in ``out``, to be read only, and its tables."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "conf" / "sweep").mkdir(parents=True)
    (folder / "conf" / "sweep" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    assert cli.run(words(folder, folder / "out")) == 0
    names = ("summary.csv", "claims.csv")
    return folder, {name: (folder / "out" / name).read_bytes() for name in names}


def words(folder: Path, out: Path) -> list[str]:
    return ["--config-dir", f"{folder}/conf", "sweep=tiny", "n_jobs=1", f"out={out}"]


def damage(out: Path, draw: Any) -> None:
    """Change a file of a finished run."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    path = draw(st.sampled_from(files))
    content = path.read_bytes()
    at = draw(st.integers(0, max(0, len(content) - 1)))
    how = draw(st.sampled_from(["flip", "flip", "cut", "gone", "swap", "other", "folder"]))
    if how == "flip":
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
    elif how == "cut":
        path.write_bytes(content[:at])
    elif how == "swap":
        other = draw(st.sampled_from(files))
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif how == "other":
        path.write_bytes(draw(st.sampled_from([b"", b"[]", b"null", b"{}", b"\xff", b"[" * 99999])))
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()


@given(st.data())
@tried(6)
def test_a_changed_file_of_a_finished_run(tiny: tuple[Path, dict[str, bytes]], data: Any) -> None:
    """It is made again; or one line says what stands in the way, a folder for one."""
    folder, tables = tiny
    with tempfile.TemporaryDirectory() as other:
        out = Path(shutil.copytree(folder / "out", f"{other}/out"))  # with its times
        damage(out, data.draw)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            code = cli.run(words(folder, out))
        if code == 0:
            for name, content in tables.items():
                assert (out / name).read_bytes() == content
        else:
            assert told.getvalue().count("\n") == 1
            assert any(path.is_dir() for path in out.rglob("*.*"))


@pytest.mark.parametrize("content", ["[]", "null", "3", "{}", "[" * 99999])
def test_a_manifest_that_is_none(tiny: tuple[Path, dict[str, bytes]], content: str) -> None:
    folder, tables = tiny
    (folder / "out" / "manifest.json").write_text(content)
    (folder / "out" / "summary.csv").write_text("numbers\n")
    assert cli.run(words(folder, folder / "out")) == 0
    assert (folder / "out" / "summary.csv").read_bytes() == tables["summary.csv"]
