"""Pytest plug-in: test every row of a sweep against stored errors, the baseline.

The file of the baseline stands in the table ``[tool.dpbench]`` of the user's ``pyproject.toml``, or
in the option ``--dpbench-baseline``. The first ``pyproject.toml`` with this table counts, upwards
from the tested files and folders, then from pytest's root. The header of pytest names it.

Pytest collects this file as it collects modules with tests: if it lies in a tested folder. A row is
an estimator with a budget, on one distribution at one n.

The sweep runs once, after the collection, and only if a row is selected. With pytest-xdist it runs
before the workers start, which receive its results. Without a baseline the plug-in does nothing and
imports no other part of dpbench.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["AccuracyTest", "BaselineFile", "BaselineRow"]

KEYS = ("baseline", "sweep", "config_dir", "plugins")
TABLE = "[tool.dpbench]"


@dataclass(frozen=True)
class AccuracyTest:
    """Settings of the accuracy test, from ``pyproject.toml`` and from options."""

    baseline: Path
    sweep: str
    config_dir: Path  # folder of the sweep and of the plug-ins
    plugins: tuple[str, ...]
    update: str  # command that stores the errors as the new baseline, for messages


# ROWS: reason of failure by the name of the row, empty if it passes. LINES: lines of the summary.
ROWS = pytest.StashKey[dict[str, str]]()
LINES = pytest.StashKey[list[str]]()
SETTINGS = pytest.StashKey[AccuracyTest]()
SOURCE = pytest.StashKey[Path | None]()  # file of the settings
FOUND_LATE = pytest.StashKey[bool]()  # whether the settings were found after the header was printed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plug-in's options to pytest; all of them begin with ``--dpbench``."""
    group = parser.getgroup(
        "dpbench", f"errors of private means against stored ones; defaults: {TABLE} in pyproject"
    )
    group.addoption("--dpbench-baseline", metavar="FILE", help="the stored errors")
    group.addoption(
        "--dpbench-config-dir", metavar="DIR", help="folder of the sweep; default: the baseline's"
    )
    group.addoption("--dpbench-sweep", metavar="NAME", help="what to run (accuracy)")
    group.addoption("--dpbench-plugins", metavar="NAMES", help="modules to import, with commas")
    group.addoption(
        "--dpbench-update", action="store_true", help="store the errors as the new baseline"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings of the accuracy test, and collect a baseline that an option names."""
    settings = _read_settings(config)
    if settings is None:
        if config.getoption("--dpbench-update"):
            raise pytest.UsageError(
                f"--dpbench-update: --dpbench-baseline FILE, or baseline in {TABLE}, says where"
            )
        return
    config.stash[SETTINGS] = settings
    if config.getoption("--dpbench-baseline") and not _is_tested(config, settings.baseline):
        config.args.append(str(settings.baseline))


def _read_settings(config: pytest.Config) -> AccuracyTest | None:
    """Return the settings of the accuracy test; None if there is no baseline.

    Paths in ``pyproject.toml`` are relative to its folder. Options replace its settings.
    """
    source, table = _find_table([*_tested_places(config), config.rootpath])
    config.stash[SOURCE] = source
    return _merge_settings(config, source.parent if source else config.rootpath, table)


def _find_table(places: Iterable[Path]) -> tuple[Path | None, dict[str, Any]]:
    """Return the first ``pyproject.toml`` with settings upwards from some places, and its table."""
    for place in places:
        for folder in (place, *place.parents):
            if table := _read_table(folder / "pyproject.toml"):
                return folder / "pyproject.toml", table
    return None, {}


def _merge_settings(
    config: pytest.Config, root: Path, table: dict[str, Any]
) -> AccuracyTest | None:
    """Return the settings of a table, whose paths begin at `root`, with those of the options."""
    flags = {key: f"--dpbench-{key.replace('_', '-')}" for key in KEYS}
    chosen = {key: config.getoption(flag) for key, flag in flags.items() if config.getoption(flag)}
    paths: dict[str, Any] = {
        key: root / table[key] for key in ("baseline", "config_dir") if key in table
    }
    merged: dict[str, Any] = table | paths | chosen
    if "baseline" not in merged:
        return None
    if "plugins" in chosen:
        merged["plugins"] = [name for name in chosen["plugins"].split(",") if name]
    baseline = Path(merged["baseline"]).absolute()
    folder = os.path.relpath(baseline.parent, config.invocation_params.dir)
    words = [word for key in chosen for word in (flags[key], chosen[key])]
    return AccuracyTest(
        baseline,
        merged.get("sweep", "accuracy"),
        Path(merged.get("config_dir", baseline.parent)),
        tuple(merged.get("plugins", ())),
        shlex.join(["python", "-m", "pytest", folder, *words, "--dpbench-update"]),
    )


def _read_table(path: Path) -> dict[str, Any]:
    """Return the table ``[tool.dpbench]`` of a file; raise UsageError if it cannot be used."""
    if not path.is_file():
        return {}
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("tool", {}).get("dpbench", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}  # pytest and others report a damaged file
    for key, value in table.items():
        where = f"{path}: {TABLE}: {key}"
        if key not in KEYS:
            from dpbench.errors import choose_from

            raise pytest.UsageError(f"{where}: no such key; {choose_from(key, KEYS)}")
        texts = value if key == "plugins" else [value]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            wanted = "a list of texts" if key == "plugins" else "a text"
            raise pytest.UsageError(f"{where}: {value!r}: not {wanted}; write {wanted}")
    return dict(table)


def _is_tested(config: pytest.Config, path: Path) -> bool:
    """Return whether the files and folders that pytest was told to test include a path."""
    return any(path.is_relative_to(place) for place in _tested_places(config))


def _tested_places(config: pytest.Config) -> list[Path]:
    """Return the files and folders that pytest was told to test, as absolute paths."""
    folder = config.invocation_params.dir
    return [Path(os.path.abspath(folder / arg.partition("::")[0])) for arg in config.args]  # noqa: PTH100


def pytest_report_header(config: pytest.Config) -> str:
    """Say in the header which settings of the accuracy test were read, or that none were."""
    settings, source = config.stash.get(SETTINGS, None), config.stash.get(SOURCE, None)
    if settings is None:
        where = f"no baseline in {source}" if source else f"no pyproject.toml with {TABLE}"
        return f"dpbench: compares no errors: {where}, upwards from the tested files"
    return _describe(config, settings)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Name the settings of a baseline that was found below the tested folders, after the header."""
    settings = config.stash.get(SETTINGS, None)
    return [_describe(config, settings)] if settings and config.stash.get(FOUND_LATE, False) else []


def _describe(config: pytest.Config, settings: AccuracyTest) -> str:
    """Say which settings were read, and which baseline they name."""
    source = config.stash.get(SOURCE, None)
    origin = f"{TABLE} of {source}" if source else "options"
    tested = "" if _is_tested(config, settings.baseline) else ", but not in this call"
    stored = os.path.relpath(settings.baseline, config.invocation_params.dir)
    return f"dpbench: compares errors of private means with those in {stored} ({origin}){tested}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Run the sweep now, if ``--dpbench-update`` or pytest-xdist asks for it.

    A worker of pytest-xdist takes the results of the main process.
    """
    config = session.config
    settings = config.stash.get(SETTINGS, None)
    if settings is None:
        return
    if hasattr(config, "workerinput"):
        if "dpbench" in config.workerinput:
            config.stash[ROWS] = config.workerinput["dpbench"]
        return
    update = config.getoption("--dpbench-update")
    if not update and not _is_tested(config, settings.baseline):
        return
    if not update and not settings.baseline.exists():
        path = os.path.relpath(settings.baseline, config.invocation_params.dir)
        raise pytest.UsageError(
            f"dpbench: baseline: '{path}': no such file; make one by {settings.update}"
        )
    if not settings.config_dir.is_dir():
        raise pytest.UsageError(f"dpbench: config_dir: '{settings.config_dir}': no such folder")
    has_workers = config.getoption("numprocesses", None) and not config.option.collectonly
    if update or has_workers:
        _run_sweep(config)


def _run_sweep(config: pytest.Config) -> None:
    """Run the sweep, compare its errors with the baseline or store them, and keep the results."""
    from dpbench.errors import ConfigError
    from dpbench.tracking.pytest_check import check_baseline

    settings = config.stash[SETTINGS]
    try:
        config.stash[ROWS], config.stash[LINES] = check_baseline(
            settings.baseline, settings.sweep, settings.config_dir, settings.plugins,
            settings.update, update=config.getoption("--dpbench-update"),
        )  # fmt: skip
    except ConfigError as error:
        raise pytest.UsageError(f"dpbench: {error}") from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the sweep's results to a worker of pytest-xdist, which does not run the sweep."""
    if ROWS in node.config.stash:
        node.workerinput["dpbench"] = node.config.stash[ROWS]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the baseline of the settings, as pytest collects a module with tests."""
    settings = parent.config.stash.get(SETTINGS, None)
    if settings is None and file_path.suffix == ".parquet":
        source, table = _find_table([file_path.parent])  # the root lies above the project
        settings = _merge_settings(parent.config, source.parent, table) if source else None
        if settings is not None and settings.baseline == file_path:
            stash = parent.config.stash
            stash[SETTINGS], stash[SOURCE], stash[FOUND_LATE] = settings, source, True
    if settings is None or file_path != settings.baseline:
        return None
    return BaselineFile.from_parent(parent, path=file_path)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Run the sweep, if a row is selected and the sweep has not run yet."""
    config = session.config
    is_selected = any(isinstance(item, BaselineRow) for item in session.items)
    if is_selected and ROWS not in config.stash and not config.option.collectonly:
        _run_sweep(config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print a summary of the sweep after the tests.

    If the sweep was compared with a baseline, the summary states the worst change, the command that
    accepts it, and the smallest loss of accuracy that the test of any row would find with
    probability 0.9.
    """
    if LINES in config.stash:
        terminalreporter.section("dpbench")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)


class BaselineFile(pytest.File):
    """Collector of a baseline, with a test for every row."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each row of the baseline, or of the sweep if it has run already."""
        for name in self.config.stash.get(ROWS, None) or self._read_names():
            yield BaselineRow.from_parent(self, name=name)

    def _read_names(self) -> Sequence[str]:
        from dpbench.errors import ConfigError
        from dpbench.tracking.pytest_check import baseline_rows

        try:
            return baseline_rows(self.path)
        except ConfigError as error:
            raise self.CollectError(f"dpbench: {error}") from error


class BaselineRow(pytest.Item):
    """Pytest item for one row of a sweep; it fails if the row has a reason of failure."""

    def runtest(self) -> None:
        failure = self.config.stash[ROWS].get(self.name, "")
        if failure:
            pytest.fail(failure, pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.nodeid.partition("::")[0], None, self.name
