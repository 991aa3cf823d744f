"""What tests of several folders or files share."""

from __future__ import annotations

import copy
import functools
import gc
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import matplotlib as mpl
import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import HealthCheck, configuration, settings
from joblib.externals.loky import get_reusable_executor
from matplotlib.mathtext import MathTextParser
from numpy.typing import NDArray

import dpbench
from dpbench.cli.main import run
from dpbench.estimators import Estimator, TunedClippedMean
from dpbench.jobs import conf_files
from dpbench.libraries.means.process import close_libraries, python
from dpbench.privacy import Budget, Ledger, PureDP
from dpbench.report.drawing.style import save
from dpbench.report.run_result import Result
from dpbench.runner import imports, opened_files, origin
from dpbench.theory.families import TwoPointFamily
from tests.bench import FIGURE, TINY, Bench

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[1]
FAKE = ROOT / "tests" / "fake_library.py"
GUIDE = ROOT / "docs" / "howto" / "benchmark.md"

# Tests run side by side: those about processes say how many, all others start none.
os.environ["LOKY_MAX_CPU_COUNT"] = "1"
# The same examples in every run, on a busy machine too, and no file in the checkout.
settings.register_profile(
    "tests", derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck]
)
settings.load_profile("tests")
configuration.set_hypothesis_home_dir(tempfile.gettempdir())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked as slow, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What another test sees sooner, at less size, is left out unless it is asked for."""
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: to look for garbage in it takes a seventh of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@dataclass
class Step:
    """One noisy release: what was paid, stated and released."""

    budget: Budget
    values: Floats
    sensitivity: Any
    released: Floats


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The noisy releases of a test, one by one."""
    found: list[Step] = []

    def spy_on(name: str) -> None:
        real = getattr(Ledger, name)

        def spy(self: Ledger, values: Floats, sensitivity: Any, **options: Any) -> Floats:
            released = real(self, values, sensitivity, **options)
            found.append(Step(self.budget, values.copy(), sensitivity, released.copy()))
            return np.asarray(released)

        monkeypatch.setattr(Ledger, name, spy)

    spy_on("add_noise")
    spy_on("add_l2_noise")
    spy_on("add_joint_noise")
    return found


@pytest.fixture(scope="session", autouse=True)
def svg_alone() -> Iterator[None]:
    """Figures without their numbers: most tests that draw are about something else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save, "__defaults__", (("svg",), None))
        yield


@pytest.fixture(scope="session", autouse=True)
def overrides_parsed_once() -> Iterator[None]:
    """Runs have the same few words in common, which Hydra takes a third of its time to parse."""
    parse, known = OverridesParser.parse_rule, dict[tuple[str, str], Any]()

    def parse_rule(self: OverridesParser, text: str, rule: str) -> Any:
        if (text, rule) not in known:
            known[text, rule] = parse(self, text, rule)
        return copy.copy(known[text, rule])  # the caller writes to it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OverridesParser, "parse_rule", parse_rule)
        yield


@pytest.fixture(scope="session", autouse=True)
def files_parsed_once() -> Iterator[None]:
    """Runs have the same few files in common, which are parsed by Python."""
    known = dict[str, Any]()

    class Loader(conf_files._Loader):
        def __init__(self, stream: TextIO) -> None:
            self.text = stream.read()
            stream.seek(0)
            super().__init__(stream)

        def get_single_data(self) -> Any:
            if self.text not in known:
                known[self.text] = super().get_single_data()
            return known[self.text]  # the caller copies it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conf_files, "_Loader", Loader)
        yield


@pytest.fixture(scope="session", autouse=True)
def formulas_parsed_once() -> Iterator[None]:
    """Figures have the same formulas, which matplotlib parses again for each file."""
    parse: Any = vars(MathTextParser)["_parse_cached"].__wrapped__
    known = dict[Any, Any]()

    def parse_once(self: Any, *given: Any) -> Any:
        chosen = [value for name, value in mpl.rcParams.items() if "mathtext" in name]
        key = (self._output_type, *given, *map(str, chosen))
        if key not in known:
            known[key] = parse(self, *given)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MathTextParser, "_parse_cached", parse_once)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser that tells what is logged, if there is one."""
    driver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if program is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not both installed")
    options = driver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SE_OFFLINE", "true")
        patch.setenv("SE_AVOID_STATS", "true")
        patch.setenv("NO_PROXY", ",".join(filter(None, ["localhost", os.environ.get("NO_PROXY")])))
        service = driver.ChromeService(executable_path=chromedriver)
        opened = driver.Chrome(options=options, service=service)
        yield opened
        opened.quit()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of the tiny sweep with a figure, in `out`; to be read only."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "conf" / "sweep").mkdir(parents=True)
    spec = {**TINY, "figures": {"errors": FIGURE}}
    (folder / "conf" / "sweep" / "tiny.yaml").write_text(json.dumps(spec))
    words = ["--config-dir", f"{folder}/conf", "sweep=tiny", "n_jobs=1", "seed=3"]
    assert run([*words, f"out={folder}/out"]) == 0
    return folder


@pytest.fixture(scope="session", autouse=True)
def source_read_once() -> Iterator[None]:
    """The package, which no test changes: a run reads all of it three times."""
    read, package = origin.package_source, origin.PACKAGE
    once = functools.cache(read)

    def package_source() -> list[tuple[str, str]]:
        return once() if package == origin.PACKAGE else read()  # of a copy, which changes

    lines, lines_once = origin._package, functools.cache(origin._package.__wrapped__)

    def _package(rooms: tuple[str, ...]) -> tuple[str, ...]:
        return lines_once(rooms) if package == imports.PACKAGE else lines(rooms)

    _package.cache_clear = lines.cache_clear  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(origin, "package_source", package_source)
        patch.setattr(origin, "_package", _package)
        yield


@pytest.fixture(autouse=True)
def no_plug_ins_of_other_tests() -> Iterator[None]:
    """A run of the same process would count them, and the files that they opened, as its own."""
    yield
    opened_files.folders.clear()
    opened_files._opened.clear()


@pytest.fixture
def own_workers() -> Iterator[None]:
    """Processes of this test alone: joblib keeps them, with the plug-ins that they have loaded."""
    get_reusable_executor().shutdown(wait=True)
    yield
    get_reusable_executor().shutdown(wait=True)


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Bench]:
    """The tiny sweep; plug-ins and figures of this process are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = Bench(tmp_path, capsys)
    yield found
    found.forget()
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of libraries with a fake OpenDP and nothing else."""
    monkeypatch.setenv("DPBENCH_LIBRARIES", str(tmp_path))
    close_libraries()
    python("opendp").parent.mkdir(parents=True)
    python("opendp").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {FAKE} "$@"\n')
    python("opendp").chmod(0o755)
    yield tmp_path
    close_libraries()


@pytest.fixture
def entry_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder, whose modules and estimators are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    before = set(sys.modules)
    yield tmp_path
    for name in {"wide_clip", "mine"} & set(sys.modules) - before:
        del sys.modules[name]


def entry_text() -> str:
    """The entry that the guide shows."""
    (text,) = re.findall(r"```python\n(# wide_clip.py:.*?)```", GUIDE.read_text(), re.DOTALL)
    return str(text)


@pytest.fixture(scope="session")
def regimes() -> Result:
    """With all errors possible at n = 100, and sampling overtaking privacy in between."""
    family = TwoPointFamily(k=6, c=[1], with_fair_coin=True)
    spec = {
        "families": {"rare": TwoPointFamily(k=6, c=[1]), "coin": family},
        "estimators": {"minimax": TunedClippedMean(k=6, scale=1)},
        "budgets": {"pure": PureDP(0.01)},
        "parts": {"all": {"n": [100, 10**5, 10**7], "trials": 40}},
        "claims": {
            "near_optimal": {"theorem": "near_optimal", "tolerance": 1, "reason": "no number"}
        },
    }
    return dpbench.run(spec)
