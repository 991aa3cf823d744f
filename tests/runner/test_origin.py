"""What a block reaches is part of its identity: it does not survive an edit of that."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpbench
from dpbench.audit import noise_times
from dpbench.audit.cases import AuditCase, AuditSettings, control_tasks
from dpbench.audit.job import AuditJob
from dpbench.benchmark.checks import AUDIT_ROOMS
from dpbench.benchmark.measure import SCORING_ROOMS
from dpbench.jobs.study import StudyJob
from dpbench.libraries import LibraryMean
from dpbench.runner import imports, origin
from dpbench.runner.origin import Origin
from tests.bench import MINE, Bench

HERE = Path(dpbench.__file__).parent
# A block of a mean and of a library's mean, in a process that then says what it has
# loaded: an independent route to the files that a block reaches.
LOADED = """
import json, sys
import numpy as np
from dpbench.sweep.block import BlockTask, Setting, run_block
from dpbench.distributions import TwoPoint
from dpbench.estimators import ClippedMean
from dpbench.libraries import LibraryMean
from dpbench.privacy import PureDP
means = [ClippedMean(lower=-1, upper=1), LibraryMean(library="numpy", lower=-1, upper=1)]
settings = tuple(Setting(str(i), one, PureDP(1.0)) for i, one in enumerate(means))
block = run_block(BlockTask((("law", TwoPoint(p=0.1, k=2)),), 10, settings, 0, 0, "cell"))
assert not block.failures and np.isfinite(block.values["error"]).all(), block.failures
files = {getattr(module, "__file__", None) for module in sys.modules.values()}
print(json.dumps(sorted(str(file) for file in files if file)))
"""


@pytest.fixture(scope="module")
def reached() -> list[str]:
    """The files of the package that a block loads or runs, by their place in the package."""
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = (Path(file) for file in json.loads(done.stdout.splitlines()[-1]))
    found = {file.relative_to(HERE).as_posix() for file in loaded if HERE in file.parents}
    # the package's face loads by name, and its version names no number
    found -= {"__init__.py", "package.py"}
    return sorted({*found, *(f"libraries/means/{name}" for name in LibraryMean.files)})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package, in the place of which origins are made."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE, tmp_path / "dpbench", ignore=ignored)
    monkeypatch.setattr(imports, "PACKAGE", tmp_path / "dpbench")
    yield tmp_path / "dpbench"
    origin._package.cache_clear()


def _source(rooms: tuple[str, ...] = ()) -> str:
    """The digest as a new process would make it."""
    origin._package.cache_clear()
    return Origin.of(rooms=rooms).source


def test_a_block_does_not_survive_an_edit_of_what_it_reaches(
    reached: list[str], package: Path
) -> None:
    assert len(reached) > 60
    before = _source()
    for name in reached:
        text = (package / name).read_text("utf-8")
        (package / name).write_text(text + "\n", "utf-8")
        assert _source() != before, name
        (package / name).write_text(text, "utf-8")
    assert _source() == before


@pytest.mark.parametrize("name", ["analysis/claims.py", "report/page.py", "audit/releases.py"])
def test_a_block_survives_an_edit_of_what_it_does_not_reach(name: str, package: Path) -> None:
    before, audits = _source(), _source(AuditJob.rooms)
    with (package / name).open("a") as file:
        file.write("\n")
    assert _source() == before
    assert (_source(AuditJob.rooms) == audits) == (not name.startswith("audit/"))


def test_an_estimator_that_nobody_imports_by_name_is_reached(package: Path) -> None:
    """A module in the folder of estimators is imported with the others."""
    before = _source()
    (package / "estimators" / "mine.py").write_text("AMOUNT = 1\n")
    once = _source()
    (package / "estimators" / "mine.py").write_text("AMOUNT = 2\n")
    assert len({before, once, _source()}) == 3


ROOMS = {
    "audit.cases": AuditJob.rooms, "audit.task": AUDIT_ROOMS,
    "benchmark.scoring": SCORING_ROOMS, "benchmark.checks": SCORING_ROOMS,
}  # fmt: skip
# Each module is loaded by a process of its own, which begins with the libraries of all.
LOADED_ALONE = """
import importlib, json, os, sys
import pandas, pydantic, pyarrow, scipy.optimize, scipy.stats
for module in sys.argv[1:]:
    if not os.fork():
        importlib.import_module(f"dpbench.{module}")
        print(json.dumps([module, [name for name in sys.modules if "dpbench." in name]]))
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, module
"""


def test_the_rooms_of_an_application_hold_all_that_it_loads() -> None:
    command = [sys.executable, "-c", LOADED_ALONE, *ROOMS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = dict(json.loads(line) for line in done.stdout.splitlines())
    for module, rooms in ROOMS.items():
        named = {line.partition(" ")[0] for line in Origin.of(rooms=rooms).modules}
        assert f"dpbench.{module}" in loaded[module]
        assert set(loaded[module]) <= named, module


def test_an_audit_does_not_survive_an_edit_of_what_it_attacks(package: Path) -> None:
    """Its controls are estimators, too."""
    settings = AuditSettings(cases={"all": AuditCase(n=60)})
    attacked = {type(task.estimator).__module__ for task in control_tasks(settings, 0)}
    assert attacked == {"dpbench.audit.controls"}
    before = _source(AuditJob.rooms)
    for name in ("audit/controls.py", "audit/attack.py", "audit/releases.py", "audit/bounds.py"):
        with (package / name).open("a") as file:
            file.write("\n")
        after = _source(AuditJob.rooms)
        assert after != before, name
        before = after


def test_an_installed_package_is_known_by_its_text(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel lies in site-packages, where distributions are known by their versions."""
    installed = tmp_path / "site-packages" / "dpbench"
    installed.parent.mkdir()
    package.rename(installed)
    monkeypatch.setattr(imports, "PACKAGE", installed)
    before = _source()
    with (installed / "privacy" / "ledger.py").open("a") as file:
        file.write("\n")
    assert _source() != before


def test_numbers_with_a_wrong_noise_are_no_numbers_of_this_source() -> None:
    right = Origin.of()
    with noise_times(0.5):
        half = Origin.of()
    assert len({right.bits, half.bits, Origin.of().bits}) == 2
    half.here().check(half, "a worker", "")


def test_a_changed_helper_makes_blocks_stale(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(dpbench.__file__).parent == origin.PACKAGE
    package = bench.folder / "copy"
    shutil.copytree(origin.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (imports, origin):
        monkeypatch.setattr(module, "PACKAGE", package)
    for name, done in [("", 5), ("analysis/claims.py", 0), ("privacy/budgets.py", 5)]:
        if name:
            (package / name).write_text((package / name).read_text() + "\n# changed\n")
        bench.forget()
        bench.done("trials=4")
        assert bench.counts() == (done, 5 - done)


def test_a_changed_plugin_makes_blocks_stale(bench: Bench) -> None:
    """Or a changed module beside it, that it imports."""
    found = set()
    for shift, body in (("0.0", "pass"), ("100.0", "pass"), ("100.0", "value = value + 1")):
        (bench.conf / "helper.py").write_text(f"SHIFT = {shift}\n")
        bench.odd(f"import helper; {body}; value = value + helper.SHIFT")
        path = bench.conf / "mine.py"
        path.write_text(f"import helper\n{path.read_text()}")
        bench.done(MINE, "trials=4")
        assert bench.counts() == (5, 0)
        found.add(bench.read("summary.csv"))
    assert len(found) == 3


def test_what_is_edited_while_a_run_goes_on_is_seen_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, records = bench.folder / "data.csv", "x\n1\n2\n4\n"
    data.write_text(records)
    law = {"kind": "empirical", "path": "../../data.csv", "column": "x"}
    part = {"families": "tails", "estimators": "mean", "n": [1000], "trials": 40}
    bench.write(lambda spec: (spec["families"].update(tails=law), spec["parts"].update(tails=part)))

    def drawn(job: StudyJob, *arguments: Any) -> None:
        data.write_text(records.replace("4", "80"))
        draw(job, *arguments)

    draw = StudyJob._draw
    with monkeypatch.context() as patched:
        patched.setattr(StudyJob, "_draw", drawn)
        bench.done("trials=4")
    bench.done("trials=4")
    assert bench.counts() == (1, 4)


def test_data_named_as_what_is_shipped_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"sweep": {"families": {"heights": {"path": "galton_heights.csv"}}}}
    found = [origin.fingerprint(tmp_path, config)]
    for text in ("height_cm\n1\n2\n", "height_cm\n1\n20\n"):
        (tmp_path / "galton_heights.csv").write_text(text)
        found.append(origin.fingerprint(tmp_path, config))
    assert len(set(found)) == 3


def test_another_processor_computes_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.done("trials=4")
    monkeypatch.setattr("dpbench.runner.origin.machine", lambda: "another")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "another")  # which tells so, before it is asked
    bench.done("trials=4")
    assert bench.counts() == (5, 0)
    assert dpbench.load("out", config_dir="conf").errors(n=1000).shape[0] == 3 * 4


@pytest.mark.parametrize(
    ("key", "value"),
    [("sweep", {"name": "b"}), ("seed", 1), ("trials", 7), ("paper", True), ("font", "serif")],
)
def test_a_run_of_another_configuration_is_another(key: str, value: Any) -> None:
    """By each key that changes files; where they are written, and by how many, changes none."""
    config = {"sweep": {"name": "a"}, "seed": 0, "trials": None, "paper": False, "font": "sans"}
    before = origin.environment_digest(config)
    assert origin.environment_digest(config | {"out": "elsewhere", "n_jobs": 3}) == before
    assert origin.environment_digest(config | {key: value}) != before


def test_a_finished_run_rests_on_the_files_that_it_reads(tmp_path: Path) -> None:
    """There or not, as a baseline that is written meanwhile."""
    path, config = tmp_path / "base.parquet", {"sweep": {"name": "a"}}
    found = []
    for text in (None, "a", "ab"):
        if text is not None:
            path.write_text(text)
        found.append(origin.fingerprint(tmp_path, config, reads=[str(path)]))
    assert len(set(found)) == 3
    assert origin.fingerprint(tmp_path, config, reads=[str(path)]) == found[-1]


def test_a_class_whose_source_nobody_reads_is_never_the_same() -> None:
    made = type("Made", (), {"__module__": "nowhere_at_all"})
    assert len({Origin.of(kinds=[made]).source for _ in range(3)}) == 3
