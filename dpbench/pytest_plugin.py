"""Pytest plug-in: ``--dpbench-baseline FILE`` tests every row of a sweep against stored errors.

The sweep runs once, in the process that starts the session; workers of pytest-xdist receive its
results. Without this option the plug-in does nothing and imports no other part of dpbench.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

__all__ = ["Row"]

# ROWS: reason of failure by the name of the row, empty if it passes. LINES: lines of the summary.
ROWS = pytest.StashKey[dict[str, str]]()
LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plug-in's options to pytest; all of them begin with ``--dpbench``."""
    group = parser.getgroup("dpbench", "errors of private means against stored ones")
    group.addoption("--dpbench-baseline", metavar="FILE", help="the stored errors")
    group.addoption(
        "--dpbench-config-dir", metavar="DIR", help="folder of the sweep; default: the baseline's"
    )
    group.addoption(
        "--dpbench-sweep", metavar="NAME", default="accuracy", help="what to run (accuracy)"
    )
    group.addoption(
        "--dpbench-plugins", metavar="NAMES", default="", help="modules to import, with commas"
    )
    group.addoption(
        "--dpbench-update", action="store_true", help="store the errors as the new baseline"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Run the sweep and compare its errors with the stored errors of ``--dpbench-baseline``.

    With ``--dpbench-update`` store the errors instead. A worker of pytest-xdist takes the results
    of the main process. Without ``--dpbench-baseline`` nothing is run.
    """
    config = session.config
    baseline = config.getoption("--dpbench-baseline")
    if baseline is None:
        if config.getoption("--dpbench-update"):
            raise pytest.UsageError("--dpbench-update: --dpbench-baseline FILE says where")
        return
    if hasattr(config, "workerinput"):
        config.stash[ROWS] = config.workerinput["dpbench"]
        return
    from dpbench.errors import ConfigError

    path, update = Path(baseline), config.getoption("--dpbench-update")
    if not (update or path.exists()):
        raise pytest.UsageError(
            f"--dpbench-baseline: '{path}': no such file; make one with --dpbench-update"
        )
    folder = Path(config.getoption("--dpbench-config-dir") or path.parent)
    if not folder.is_dir():
        raise pytest.UsageError(f"--dpbench-config-dir: '{folder}': no such folder")
    from dpbench.jobs.pytest_check import check_baseline

    plugins = [name for name in config.getoption("--dpbench-plugins").split(",") if name]
    sweep = config.getoption("--dpbench-sweep")
    try:
        config.stash[ROWS], config.stash[LINES] = check_baseline(
            path, sweep, folder, plugins, update=update
        )
    except ConfigError as error:
        raise pytest.UsageError(f"dpbench: {error}") from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the sweep's results to a worker of pytest-xdist, which does not run the sweep."""
    if ROWS in node.config.stash:
        node.workerinput["dpbench"] = node.config.stash[ROWS]


@pytest.hookimpl(tryfirst=True)  # before other plug-ins select tests
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add a test for every row of the sweep: an estimator, a distribution, a budget and n.

    Parameters
    ----------
    session : pytest.Session
        Session that holds the results of the sweep.
    items : list of pytest.Item
        Collected tests, which are extended.
    """
    for name, failure in session.config.stash.get(ROWS, {}).items():
        node = f"{session.config.getoption('--dpbench-baseline')}::{name}"
        items.append(Row.from_parent(session, name=name, nodeid=node, failure=failure))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print a summary of the sweep after the tests.

    If the sweep was compared with a baseline, the summary states the smallest loss of accuracy that
    the test of any row would find with probability 0.9.

    Parameters
    ----------
    terminalreporter : pytest.TerminalReporter
        Reporter that prints the section.
    config : pytest.Config
        Configuration that holds the lines of the summary.
    """
    if LINES in config.stash:
        terminalreporter.section("dpbench")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)


class Row(pytest.Item):
    """Pytest item for one row of a sweep; it fails if the row has a reason of failure."""

    def __init__(self, *, failure: str, **about: Any) -> None:
        super().__init__(**about)
        self.failure = failure

    def runtest(self) -> None:
        if self.failure:
            pytest.fail(self.failure, pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.nodeid.partition("::")[0], None, self.name
