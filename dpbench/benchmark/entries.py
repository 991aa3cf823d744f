"""Entries of the benchmark: a description, and a function that chooses an estimator per problem."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import Field

from dpbench.benchmark.local_entries import LOCAL_ENTRIES
from dpbench.benchmark.problems import Problem, PublicKnowledge
from dpbench.estimators import Estimator, OneRecord
from dpbench.estimators.catalogue import Use, uses
from dpbench.estimators.estimands import MEAN
from dpbench.privacy.budgets import Relation
from dpbench.registry import ConfigError, Label, from_mapping, validated
from dpbench.runner.settings import import_plugins

__all__ = ["Card", "Entry", "catalogue_entries", "check_path", "load_entry"]

Text = Annotated[str, Field(min_length=1)]
Notion = Literal["pure", "zcdp", "gdp", "approx"]


@validated
class Card:
    """Description of an entry of the benchmark, given as the dict ``CARD`` in the entry's file.

    Parameters
    ----------
    name : str
        Label of the entry.
    paper : str
        Source of the method.
    notions : list of {'pure', 'zcdp', 'gdp', 'approx'}
        Notions of privacy that the entry supports.
    relations : list of {'replace', 'add_remove'}
        Neighbouring relations that the entry supports. Problems with other notions or relations
        are skipped.
    assumptions : str
        Assumptions on which accuracy relies; privacy must not rely on them.
    proof : str
        Reference to the proof of privacy.
    division : {'declared', 'open'}
        Knowledge from which the entry chooses parameters. ``declared``: public knowledge about the
        records. ``open``: also the shape of the distribution, which is unknown in practice. See
        `dpbench.benchmark.problems.PublicKnowledge`.
    """

    name: Label
    paper: Text
    notions: Annotated[tuple[Notion, ...], Field(min_length=1)]
    relations: Annotated[tuple[Relation, ...], Field(min_length=1)]
    assumptions: Text
    proof: Text
    division: Literal["declared", "open"]


@dataclass(frozen=True)
class Entry:
    """Entry of the benchmark: a card, and a function that chooses an estimator for a problem.

    The function takes the public knowledge about a problem. It returns None if the entry does not
    answer the problem.
    """

    card: Card
    choose: Callable[[PublicKnowledge], Estimator | None]

    def estimator(self, problem: Problem) -> Estimator | None:
        """Return the estimator that answers a problem; None if the entry does not answer.

        A ConfigError says that the entry's function `choose` raises, or that it returns anything
        but an estimator of the mean that suits the problem.
        """
        return self.answer(
            problem.public_knowledge(open_division=self.card.division == "open"), problem.id
        )

    def answer(self, public: PublicKnowledge, problem: str) -> Estimator | None:
        """Return the estimator that the entry chooses for a problem; None if it does not answer.

        `problem` is the id of the problem, for error messages. A ConfigError says that the entry's
        function `choose` raises, or that it returns an estimator that does not suit the problem.
        """
        if public.notion not in self.card.notions or public.relation not in self.card.relations:
            return None
        where = f"{self.card.name}: entry of {problem}"
        try:
            chosen = self.choose(public)
        except Exception as error:  # the user's file may raise anything
            hint = "; is @validated missing above the class?" * ("takes no arg" in str(error))
            raise ConfigError(f"{where}: {type(error).__name__}: {error}{hint}") from error
        if chosen is None:
            return None
        if not isinstance(chosen, Estimator):
            hint = f", such as {chosen.__name__}(...)" if isinstance(chosen, type) else ""
            raise ConfigError(f"{where}: {chosen!r}: return an Estimator{hint}, or None")
        Estimator.build(chosen, where)
        name = type(chosen).__name__
        if chosen.estimand is not MEAN:
            raise ConfigError(f"{where}: {name} does not estimate a mean; choose one that does")
        if not chosen.supports(public.budget):
            raise ConfigError(
                f"{where}: {name} does not support {public.budget}, but {chosen.promises}; "
                "return None, or list fewer notions and relations on the card"
            )
        if public.d > 1 and not chosen.multivariate:
            raise ConfigError(f"{where}: {name} takes no vectors; return None where d > 1")
        if public.local and not _is_local(type(chosen)):
            raise ConfigError(
                f"{where}: {name} is not of the local model; derive it from OneRecord, or return "
                "None where local"
            )
        return chosen


def catalogue_entries() -> Iterator[Entry]:
    """Yield one entry of the benchmark for each estimator in the package's catalogue.

    The entries of the local model are those of `dpbench.benchmark.local_entries`, which release
    each record alone.
    """
    for name, kind, use in uses():
        if kind.bounded_in == "local":
            continue
        card = Card(
            name=name,
            paper=use.paper,
            notions=tuple(notion.notion for notion in kind.notions),
            relations=kind.relations,
            assumptions=f"docstring of {kind.__name__}",
            proof=f"{kind.__module__}; sources: dpbench/data/bibliography.yaml",
            division="declared",
        )
        yield Entry(card, _make_chooser(kind, use))
    for name, (paper, choose) in LOCAL_ENTRIES.items():
        notions: Any = ("pure", "zcdp", "gdp", "approx")
        proof = "dpbench/benchmark/local_entries.py"
        card = Card(
            name=name, paper=paper, notions=notions, relations=("replace",),
            assumptions=proof, proof=proof, division="declared",
        )  # fmt: skip
        yield Entry(card, choose)


def _is_local(kind: type[Estimator]) -> bool:
    """Return True if a class handles records as `OneRecord` does."""
    return issubclass(kind, OneRecord) and all(
        getattr(kind, name) is getattr(OneRecord, name)
        for name in ("run", "one", "estimate", "transcript")
    )


def _make_chooser(kind: type[Estimator], use: Use) -> Callable[[PublicKnowledge], Estimator | None]:
    return lambda public: use.estimator(kind, public)


def check_path(path: Path) -> Path:
    """Return the absolute path of an entry's file; raise ConfigError if Python cannot import it.

    The file must exist, and its name must be a Python identifier with the suffix ``.py``.
    """
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError(f"'{path}': no such file; give a Python file with CARD and entry")
    if not path.stem.isidentifier():
        raise ConfigError(f"'{path}': not the name of a module; use only letters, digits and _")
    return path.resolve()


def load_entry(path: Path) -> Entry:
    """Import an entry's file and return the entry that it defines.

    Call the function only in a process of `dpbench.benchmark.worker`, because the file may run any
    code. A ConfigError says that the file cannot be imported, or lacks a usable ``CARD`` or
    ``entry``.
    """
    try:
        import_plugins([path.stem], path.parent)
    except ConfigError as error:
        reason = str(error).removeprefix(f"plugins: {path.stem!r}: ")
        raise ConfigError(f"{path.name}: cannot be imported: {reason}") from error
    module = sys.modules[path.stem]
    if Path(module.__file__ or "").resolve() != path:
        raise ConfigError(f"'{path}': another module is called {path.stem!r}; rename the file")
    return _build_entry(module, path.name)


def _build_entry(module: ModuleType, where: str) -> Entry:
    """Return the entry that an imported file defines by ``CARD`` and ``entry``."""
    if not isinstance(getattr(module, "CARD", None), dict):
        keys = ", ".join(field.name for field in fields(Card))
        raise ConfigError(f"{where}: CARD: this is required: a dict with {keys}")
    choose: Any = getattr(module, "entry", None)
    if not callable(choose):
        raise ConfigError(
            f"{where}: entry: this is required: a function of one argument, a PublicKnowledge"
        )
    return Entry(from_mapping(Card, module.CARD, f"{where}: CARD"), choose)
