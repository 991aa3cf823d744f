"""The contract of applications: what each adds to the command line, to runs and to pages.

An application is a folder of the package with a module ``app``, whose object ``APP`` is of a
subclass of `App`. The core finds it by its name in `BUILT_IN` and imports no other part of it until
a method of the object asks for that part. Therefore modules ``app`` import nothing slow.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["BUILT_IN", "App", "Command", "applications", "commands", "load_kinds", "value_at"]

# Names of the applications. The first one that accepts a configuration runs it.
BUILT_IN = ("site", "audit", "libraries", "tracking", "planner", "benchmark", "paper", "starter")


@dataclass(frozen=True)
class Command:
    """A command of the command line.

    Parameters
    ----------
    words : str
        Name of the command, and the words after it as ``--help`` shows them, such as
        ``init-ci [DIR]``.
    summary : str
        Summary of the command in one line, without a full stop.
    usage : str
        Text that ``--help`` shows after the command.
    main : callable
        Function that runs the command with the words after its name, and returns the exit code.
    values : mapping of str to iterable of str
        Values of keys, by key, with which a shell completes words. The key "" has the words that
        may stand without a key.
    """

    words: str
    summary: str
    usage: str
    main: Callable[[Sequence[str]], int]
    values: Mapping[str, Iterable[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """First word on the command line."""
        return self.words.partition(" ")[0]


class App:
    """Base class of applications. An application overrides what it has; by default it has nothing.

    Attributes
    ----------
    key : str
        Key of a configuration that chooses this application, such as ``track`` or ``sweep.audit``.
        Empty if no key does.
    noun : str
        Noun for a run of this application, in messages about keys of others.
    always_runs : bool
        True if a finished run in the folder does not take the place of a new run.
    """

    key: ClassVar[str] = ""
    noun: ClassVar[str] = ""
    always_runs: ClassVar[bool] = False

    def accepts(self, config: Mapping[str, Any]) -> bool:
        """Return whether this application runs a composed configuration."""
        return bool(self.key) and value_at(config, self.key) is not None

    def job(self) -> type[Any]:
        """Return the subclass of `dpbench.jobs.base.Job` that runs accepted configurations."""
        raise NotImplementedError

    def commands(self) -> Sequence[Command]:
        """Return the commands of the command line."""
        return ()

    def sections(self) -> Sequence[Any]:
        """Return builders of sections of the page, of `dpbench.report.sections.base.Builder`."""
        return ()

    def verdicts(self) -> Sequence[Mapping[str, Any]]:
        """Return tables of `dpbench.output.verdicts` that are coloured on a terminal."""
        return ()

    def draw_paper(self, folder: Path, target: Path) -> Mapping[str, str]:
        """Draw a run's figures for a paper to `target`; return captions and tables by file name.

        Without texts, the figures of a study are drawn.
        """
        return {}

    def kinds(self) -> Sequence[type[Any]]:
        """Return the classes that enter a registry, such as estimators, when they are imported."""
        return ()


def value_at(config: Any, path: str) -> Any:
    """Return the value of a key such as ``sweep.audit``; None if the configuration has none."""
    for key in path.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    return config


def applications() -> list[App]:
    """Return the applications in the order of `BUILT_IN`."""
    return [importlib.import_module(f"{__package__}.{name}.app").APP for name in BUILT_IN]


def commands() -> dict[str, Command]:
    """Return the commands of all applications, keyed and sorted by name."""
    found = (command for app in applications() for command in app.commands())
    return {command.name: command for command in sorted(found, key=lambda command: command.name)}


@cache
def load_kinds() -> tuple[type[Any], ...]:
    """Import and return the classes that applications add to registries."""
    return tuple(kind for app in applications() for kind in app.kinds())
