"""Entries in external files: estimators whose calls each run in a separate process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpbench.arrays import Floats
from dpbench.benchmark.entries import Card, check_path
from dpbench.benchmark.problems import Problem
from dpbench.benchmark.process import entry_process
from dpbench.estimators import Estimate, OneDataset
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.samples import DenseSample, Sample
from dpbench.samples.base import AddRemoveView
from dpbench.seeds import digest

__all__ = ["FileEntry", "RemoteMean", "read_entry"]

# Largest `least_records` of an estimator, because checks and audits use that many records.
MAX_NEEDED_RECORDS = 100_000


@validated
class _RemoteMean(OneDataset):
    """Estimator of an external file for one problem; each call runs in a separate process.

    A batch of datasets, as in an audit, is a single call.
    """

    path: str  # file of the entry
    text: str  # digest of the file
    problem: str  # id of the problem
    public: Any  # knowledge from which the entry chooses its parameters, a `PublicKnowledge`
    name: str  # class of the chosen estimator
    least: int  # smallest number of records that the estimator accepts
    supported: tuple[tuple[str, str], ...]  # pairs of a notion and a neighbouring relation
    multivariate: ClassVar[bool] = True

    def supports(self, budget: Budget) -> bool:
        return (budget.notion, budget.neighbours) in self.supported

    def least_records(self, d: int, budget: Budget) -> int:
        return self.least

    def released(
        self,
        records: Floats,
        budget: Budget,
        rng: np.random.Generator,
        noise_factor: float = 1.0,
        place: int | None = None,
    ) -> tuple[Floats, float]:
        """Release private means of datasets in one call of the entry's code.

        The datasets have the shape (trials, n) or (trials, n, d), and the means (trials,) or
        (trials, d). In the local model `place` is the index of a record. Then the shape is (trials,
        2): the mean and the report of this record. `rng` seeds the call. The second result is the
        processor time of the call, including loading the file, in seconds. A ConfigError says that
        the entry's code raises, ends early, takes too long or returns another shape.
        """
        request = {"public": self.public, "problem": self.problem, "records": records}
        options: dict[str, Any] = {
            "budget": budget,
            "seed": int(rng.integers(2**63)),
            "noise_factor": noise_factor,
        }
        options["place"] = place
        content, seconds = entry_process.ask(Path(self.path), "release", **request, **options)
        shape = records.shape[:1] + (records.shape[2:] if place is None else (2,))
        if len(content) != 8 * np.prod(shape):
            raise ConfigError(
                f"{Path(self.path).name}: released {len(content)} bytes; return an array of shape "
                f"{shape}"
            )
        return np.frombuffer(content, dtype=np.float64).reshape(shape), seconds

    def one(self, x: Floats, budget: Budget, rng: np.random.Generator) -> float | Floats:
        value: float | Floats = self.released(x[None], budget, rng)[0][0]
        return value

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        whole = sample.whole if isinstance(sample, AddRemoveView) else sample
        assert isinstance(whole, DenseSample)
        ledger.pay(f"{self.name}, which runs in a process of its own")
        arguments = whole.values, ledger.budget, ledger.rng, ledger.noise_factor
        value, _ = self.released(*arguments)
        return Estimate(value, np.full(value.shape, np.nan))

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        request = {"public": self.public, "problem": self.problem}
        content, _ = entry_process.ask(Path(self.path), "pairs", n=n, budget=budget, **request)
        return [Pair(name, np.array(a), np.array(b)) for name, a, b in json.loads(content)]

    def broken_promise(self, records: Floats) -> str:
        """Check the estimator on a dataset, and return a rule that it breaks, as text.

        The text is empty if no rule is broken.
        The entry's own process checks the rules, so a dishonest entry can hide a broken rule.
        """
        request = {"public": self.public, "problem": self.problem}
        content, _ = entry_process.ask(Path(self.path), "check", records=records, **request)
        return content.decode("utf-8", "replace")


RemoteMean = _RemoteMean  # the private class is not a kind, so no configuration can name it


@dataclass(frozen=True)
class FileEntry:
    """Entry of the benchmark that is defined in an external file.

    Its answers are the estimators, keyed by the id of the problem that they answer.
    """

    card: Card
    answers: Mapping[str, RemoteMean]

    def estimator(self, problem: Problem) -> RemoteMean | None:
        """Return the estimator that answers a problem; None if the entry does not answer."""
        return self.answers.get(problem.id)


def read_entry(path: Path, problems: Iterable[Problem]) -> FileEntry:
    """Read an entry's file: its card, and the estimator that it chooses for each problem.

    A ConfigError says that the file cannot be used, or that a chosen estimator does not suit its
    problem.
    """
    path = check_path(path)
    knowledge = {
        problem.id: (
            problem.public_knowledge(open_division=False),
            problem.public_knowledge(open_division=True),
        )
        for problem in problems
    }
    content, _ = entry_process.ask(path, "describe", problems=knowledge)
    try:
        description = json.loads(content)
        card = from_mapping(Card, dict(description["card"]), f"{path.name}: CARD")
        text = digest(path.read_text("utf-8", "replace"))
        answers = {
            name: _RemoteMean(
                path=str(path),
                text=text,
                problem=name,
                public=knowledge[name][card.division == "open"],
                name=str(answer["name"]),
                least=int(answer["least"]),
                supported=tuple((str(a), str(b)) for a, b in answer["honoured"]),
            )
            for name, answer in description["answers"].items()
        }
    except (ValueError, TypeError, LookupError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path.name}: its process sent an unreadable answer") from error
    for name, estimator in answers.items():
        if estimator.least > MAX_NEEDED_RECORDS:
            raise ConfigError(
                f"{path.name}: entry of {name}: {estimator.name} needs {estimator.least:g} "
                f"records; checks and audits have at most {MAX_NEEDED_RECORDS:g}"
            )
    return FileEntry(card, answers)
