"""Define a study: a sweep with claims, requests for sample complexities, and figures.

The whole study is checked before anything runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claim_kinds import KINDS, build_claim
from dpbench.analysis.claims import Claim
from dpbench.analysis.smallest_n import SampleComplexity
from dpbench.arrays import Bools
from dpbench.errors import ErrorCollector, choose_from
from dpbench.output.names import check_math
from dpbench.registry import (
    ConfigError,
    Label,
    Registered,
    as_config_error,
    from_mapping,
    labelled_entries,
    validated,
)
from dpbench.sweep.metrics import METRICS
from dpbench.sweep.plan import Cell, Part, Sweep, key_table, make_cells
from dpbench.sweep.selection import Selection
from dpbench.theory.theorems import THEOREMS

__all__ = [
    "Compared", "Figure", "Names", "Study", "StudyPart", "SweepPlan", "Table", "gather_entries",
]  # fmt: skip

SELECTION_KEYS = ("families", "estimators", "budgets")
# Printed names of entries, by name.
Names = Mapping[str, str] | None


class Compared(NamedTuple):
    """Values that a figure compares, to be printed as a table with a column for each value of x.

    `rows` has the columns ``estimator``, ``distribution`` and ``n``, those of the budget, ``x``
    (values of the parameter) and ``value`` (of the metric). They have a row for each distribution.
    `over` names the number by which values are divided; it is empty if they are not.
    """

    parameter: str
    metric: str
    rows: pd.DataFrame
    over: str = ""


class Figure(Registered, ABC):
    """Base class of the figures of a study; the subclasses are in `dpbench.report`."""

    caption: str

    @abstractmethod
    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        """Check that the planned results suffice to draw the figure.

        `keys` has a row for each planned result, with its distribution, estimator, budget, n and
        parameters; see `dpbench.sweep.plan.key_table`. `where` is the place of the figure in the
        configuration, for error messages. Raise ConfigError if the figure selects nothing, or
        selects results that it cannot show.
        """

    @abstractmethod
    def figure(
        self, result: Any, names: Names = None, ax: Any = None, panel: int | None = None
    ) -> Any:
        """Draw the figure, on a new canvas or on the caller's axes; return the canvas or figure.

        `result` is a `dpbench.report.run_result.Result`. `names` are names to print in the figure,
        by the name of an estimator, family or budget in the configuration. By default the names in
        the configuration are printed, with spaces for underscores. Axes `ax` keep the caller's
        style. A new canvas needs `dpbench.report.drawing.style.style` around the call. `panel`
        selects one panel, from 0; if there is no such panel, raise ConfigError. By default draw all
        panels.
        """

    def compared(self, result: Any) -> Compared | None:
        """Return the values that a run prints beside its answer; None for most figures.

        `result` is a `dpbench.report.run_result.Result`.
        """
        return None


class Table(Registered, ABC):
    """Base class of tables for papers; the subclasses are in `dpbench.report`."""

    @abstractmethod
    def frame(self, result: Any) -> pd.DataFrame:
        """Return the numbers of the table; `result` is a `dpbench.report.run_result.Result`.

        Raise ConfigError if the table selects nothing that was run.
        """

    @abstractmethod
    def text(self, result: Any, syntax: str) -> str:
        """Return the table with its caption in the syntax ``latex`` or ``markdown``.

        `result` is a `dpbench.report.run_result.Result`. Raise ConfigError if the table selects
        nothing that was run.
        """


# Names of the theorems that each kind of claim can test.
STATEMENTS = {
    kind: [name for name, theorem in THEOREMS.items() if theorem.kind == kind] for kind in KINDS
}
CLAIM_TITLE = "a claim whose theorem is of the kind {}"
Claims = Annotated[
    dict[str, Claim],
    labelled_entries(KINDS, build_claim, title=CLAIM_TITLE, choice=("theorem", STATEMENTS)),
]
Requests = Annotated[
    dict[str, SampleComplexity], labelled_entries(SampleComplexity, title="a sample complexity")
]
Figures = Annotated[dict[str, Figure], labelled_entries(Figure, Figure.build)]


@validated
class StudyPart(Part):
    """Part of a study: estimators that run on some families at some n, with claims and figures.

    Parameters
    ----------
    claims, figures : mapping
        Claims and figures about this part, by label. A claim or figure without a selection of
        families, estimators or budgets takes the selection of the part.
    """

    claims: Claims = Field(default_factory=dict)
    figures: Figures = Field(default_factory=dict)


def _build_part(spec: Any, where: str) -> StudyPart:
    """Build a part of a study from its configuration.

    Claims and figures of the part without a selection of families, estimators or budgets take the
    selection of the part.
    """
    part = from_mapping(StudyPart, spec, where)

    def add_selection(entry: Any) -> Any:
        if not isinstance(entry, Selection):
            return entry
        missing = {key: getattr(part, key) for key in SELECTION_KEYS if getattr(entry, key) is None}
        return replace(entry, **missing)

    claims: Any = {label: add_selection(entry) for label, entry in part.claims.items()}
    figures: Any = {label: add_selection(entry) for label, entry in part.figures.items()}
    return replace(part, claims=claims, figures=figures)


def gather_entries(sweep: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Collect all configured claims, or all configured figures, of a sweep, by label.

    `section` is the key of their configurations: ``claims`` or ``figures``. Claims and figures that
    are configured under a part of the sweep come first. A claim or figure under a part may have no
    selection of families, estimators or budgets. Then it takes the selection of the part.
    """
    entries: dict[str, Any] = {}
    for part in sweep.get("parts", {}).values():
        shared = {key: part[key] for key in SELECTION_KEYS if key in part}
        entries |= {label: {**shared, **spec} for label, spec in (part.get(section) or {}).items()}
    return entries | (sweep.get(section) or {})


@validated
class Study(Sweep):
    """Sweep with claims, requests for sample complexities, and figures.

    Parameters
    ----------
    parts : mapping of str to StudyPart
        Parts by label, each with its own n and trials.
    claims : mapping
        Claims by label, see `dpbench.analysis.claims.Claim`.
    sample_complexity : mapping
        Requests by label, see `dpbench.analysis.smallest_n.SampleComplexity`.
    figures : mapping
        Figures by label, see `dpbench.report.study.Figure`.
    fail_on_inconsistent : bool
        Whether an inconsistent claim makes the run fail.
    see_next : str, optional
        Name of a further sweep that the run recommends at its end.
    names : mapping of str to str
        Names that figures print for estimators, families and budgets, by the names of these entries
        in the configuration. Other entries are printed under their own names, with spaces for
        underscores. Random streams depend on the entries' own names only.
    """

    parts: Annotated[
        Mapping[str, StudyPart], labelled_entries(StudyPart, _build_part, least=1, title="a part")
    ]
    claims: Claims = Field(default_factory=dict)
    sample_complexity: Requests = Field(default_factory=dict)
    figures: Figures = Field(default_factory=dict)
    fail_on_inconsistent: bool = True
    see_next: Label | None = None
    names: dict[str, str] = Field(default_factory=dict)

    @cached_property
    def all_claims(self) -> dict[str, Claim]:
        """Return all claims by label, beginning with the claims of the parts of the study."""
        return {label: claim for label, (_, claim) in self._collect_entries("claims").items()}

    @cached_property
    def all_figures(self) -> dict[str, Figure]:
        """Return all figures by label, beginning with the figures of the parts of the study."""
        return {label: figure for label, (_, figure) in self._collect_entries("figures").items()}

    def _collect_entries(self, section: str) -> dict[str, tuple[str, Any]]:
        """Return all claims, or all figures, by label, each with its place in the configuration.

        Raise ConfigError if a label occurs twice.
        """
        places = [(f"sweep.parts.{label}.{section}", part) for label, part in self.parts.items()]
        entries: dict[str, tuple[str, Any]] = {}
        for where, holder in (*places, (f"sweep.{section}", self)):
            for label, entry in getattr(holder, section).items():
                if label in entries:
                    raise ConfigError(
                        f"{where}.{label}: {entries[label][0]} has this label, too; rename one"
                    )
                entries[label] = (f"{where}.{label}", entry)
        return entries

    def plan(self, trials: int | None = None) -> SweepPlan:
        """Plan all runs, and check that they suffice for all claims, requests and figures.

        The plan is a list of cells. A cell is a family at one n, with all estimators and budgets
        that run on its data. By default each part has its own number of trials; `trials` replaces
        them all. Raise ConfigError if a claim, request or figure cannot be evaluated. The messages
        name their places in the configuration.
        """
        self._check_names()
        cells = make_cells(self, trials=trials)
        keys = key_table(self, cells, bounds=False)
        requests = self.sample_complexity.items()
        searched = [(f"sweep.sample_complexity.{label}", request) for label, request in requests]
        claims, figures = (
            self._collect_entries(section).values() for section in ("claims", "figures")
        )
        errors = ErrorCollector()
        for where, entry in (*claims, *searched, *figures):
            with errors.step(), as_config_error(where):
                entry.check(self, keys, where)
        errors.raise_all()
        return SweepPlan(self, cells, self._kept_masks(keys))

    def _check_names(self) -> None:
        """Raise ConfigError if `names` has a key that is no entry, or text that cannot be drawn."""
        entries = [*self.families.values(), *self.estimators.values(), *self.budgets.values()]
        known = list(dict.fromkeys(variant.name for variant in entries))
        for name, text in self.names.items():
            if name not in known:
                raise ConfigError(f"sweep.names.{name}: no such entry; {choose_from(name, known)}")
            check_math(text, f"sweep.names.{name}")

    def _kept_masks(self, keys: pd.DataFrame) -> dict[str, Bools]:
        """Choose the per-trial values that the run keeps for the bootstrap of claims and requests.

        `keys` has a row for each planned result. Return a mapping from the name of a per-trial
        value, for example ``error``, to a mask. The mask is True for the rows whose values are
        kept.
        """
        names = {claim.measures for claim in self.all_claims.values()} - {None}
        names |= {"error"} if self.sample_complexity else set()
        masks = {name: np.zeros(len(keys), bool) for name in names if name}
        for claim in self.all_claims.values():
            # A mean is resampled, too, if another claim keeps its values.
            metric = METRICS.get(claim.statement.metric)
            if metric is not None and metric.of in masks:
                masks[metric.of] |= claim.rows(keys, self).to_numpy()
        for request in self.sample_complexity.values():
            masks["error"] |= self.select_rows(request, keys).to_numpy()
        return masks


@dataclass(frozen=True)
class SweepPlan:
    """Study with the list of all its cells, the units of work to run.

    Cells are sorted by family and n. A cell is a family at one n, with all estimators and budgets
    that run on its data. `measures` selects per-trial values to keep, because claims and requests
    resample them. A key is the name of a value, for example ``error``. Its mask is True for the
    rows of `dpbench.sweep.plan.key_table` whose values are kept.
    """

    study: Study
    cells: list[Cell]
    measures: Mapping[str, Bools]
