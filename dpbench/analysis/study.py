"""A study: a sweep with what is to be said of it, checked as a whole before anything runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.claims import Claim
from dpbench.analysis.kinds import KINDS, build_claim
from dpbench.analysis.smallest_n import SampleComplexity
from dpbench.arrays import Bools
from dpbench.registry import (
    ConfigError,
    Label,
    Registered,
    computable,
    from_mapping,
    named,
    validated,
)
from dpbench.sweep.metrics import METRICS
from dpbench.sweep.plan import Cell, Part, Sweep, key_table, make_cells
from dpbench.sweep.selection import Selection
from dpbench.theory.theorems import THEOREMS

__all__ = ["Figure", "Names", "Plan", "Study", "StudyPart", "gathered"]

SELECTED = ("families", "estimators", "budgets")
# What to print for the names of entries.
Names = Mapping[str, str] | None


class Figure(Registered, ABC):
    """A figure that is asked of a study; `dpbench.report` has the kinds."""

    caption: str

    @abstractmethod
    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        """Raise ConfigError if a plan with these keys has nothing of what this is about.

        `where` is the figure's key, for the message; for keys see `dpbench.sweep.plan.key_table`.
        """

    @abstractmethod
    def figure(
        self, result: Any, names: Names = None, ax: Any = None, panel: int | None = None
    ) -> Any:
        """Draw on a canvas of its own, inside `dpbench.output.style.style`, and return it.

        `names` says what to print for the name of an entry, by default the name with spaces;
        `ax` are axes to draw in instead, in the caller's style, and `panel` the only one to draw,
        from 0: ConfigError if there is none.
        """


# The theorems by kind of claim.
STATEMENTS = {kind: [name for name, one in THEOREMS.items() if one.kind == kind] for kind in KINDS}
ABOUT_CLAIMS = "a claim whose theorem is of the kind {}"
Claims = Annotated[
    dict[str, Claim], named(KINDS, build_claim, title=ABOUT_CLAIMS, choice=("theorem", STATEMENTS))
]
Requests = Annotated[
    dict[str, SampleComplexity], named(SampleComplexity, title="a sample complexity")
]
Figures = Annotated[dict[str, Figure], named(Figure, Figure.build)]


@validated
class StudyPart(Part):
    """A part with the claims and figures that are about it.

    Parameters
    ----------
    claims, figures : mapping
        As in a `Study`; what they do not select is selected as the part does.
    """

    claims: Claims = Field(default_factory=dict)
    figures: Figures = Field(default_factory=dict)


def _part(spec: Any, where: str) -> StudyPart:
    """A part, whose claims and figures select what it selects where they say nothing."""
    part = from_mapping(StudyPart, spec, where)

    def selected(one: Any) -> Any:
        if not isinstance(one, Selection):
            return one
        missing = {key: getattr(part, key) for key in SELECTED if getattr(one, key) is None}
        return replace(one, **missing)

    claims: Any = {label: selected(one) for label, one in part.claims.items()}
    figures: Any = {label: selected(one) for label, one in part.figures.items()}
    return replace(part, claims=claims, figures=figures)


def gathered(sweep: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The claims or figures of a sweep as configured: those under its parts, then the others."""
    found: dict[str, Any] = {}
    for part in sweep.get("parts", {}).values():
        shared = {key: part[key] for key in SELECTED if key in part}
        found |= {label: {**shared, **one} for label, one in (part.get(section) or {}).items()}
    return found | (sweep.get(section) or {})


@validated
class Study(Sweep):
    """A sweep, and the claims, sample complexities and figures that are asked of it.

    Parameters
    ----------
    parts : mapping of str to StudyPart
    claims : mapping
        See `dpbench.analysis.claims.Claim`.
    sample_complexity : mapping
        See `dpbench.analysis.smallest_n.SampleComplexity`.
    figures : mapping
        See `dpbench.report.figures.Figure`.
    gate : bool
        Whether an inconsistent claim makes the run fail: by default it does.
    next : str, optional
        The sweep to try next, which the run names at its end.
    """

    parts: Annotated[Mapping[str, StudyPart], named(StudyPart, _part, least=1, title="a part")]
    claims: Claims = Field(default_factory=dict)
    sample_complexity: Requests = Field(default_factory=dict)
    figures: Figures = Field(default_factory=dict)
    gate: bool = True
    next: Label | None = None

    @cached_property
    def all_claims(self) -> dict[str, Claim]:
        """By label, those under parts first."""
        return {label: claim for label, (_, claim) in self._everywhere("claims").items()}

    @cached_property
    def all_figures(self) -> dict[str, Figure]:
        """By label, those under parts first."""
        return {label: figure for label, (_, figure) in self._everywhere("figures").items()}

    def _everywhere(self, section: str) -> dict[str, tuple[str, Any]]:
        """The entries of a section by label, which must be their own, and where they stand."""
        places = [(f"sweep.parts.{label}.{section}", part) for label, part in self.parts.items()]
        found: dict[str, tuple[str, Any]] = {}
        for where, holder in (*places, (f"sweep.{section}", self)):
            for label, one in getattr(holder, section).items():
                if label in found:
                    raise ConfigError(f"{where}.{label}: {found[label][0]} has this label, too")
                found[label] = (f"{where}.{label}", one)
        return found

    def plan(self, trials: int | None = None) -> Plan:
        """Make the cells, and check that all claims, requests and figures can be answered.

        With `trials` instead of every part's own; ConfigError at the first key that cannot be used.
        """
        cells = make_cells(self, trials=trials)
        keys = key_table(self, cells, bounds=False)
        requests = self.sample_complexity.items()
        searched = [(f"sweep.sample_complexity.{label}", request) for label, request in requests]
        claims, figures = (self._everywhere(section).values() for section in ("claims", "figures"))
        for where, one in (*claims, *searched, *figures):
            with computable(where):
                one.check(self, keys, where)
        return Plan(self, cells, self._kept(keys))

    def _kept(self, keys: pd.DataFrame) -> dict[str, Bools]:
        """See `Plan.measures`."""
        names = {claim.measures for claim in self.all_claims.values()} - {None}
        names |= {"error"} if self.sample_complexity else set()
        kept = {name: np.zeros(len(keys), bool) for name in names if name}
        for claim in self.all_claims.values():
            metric = METRICS.get(claim.statement.metric)  # a mean's too, where it can be had
            if metric is not None and metric.of in kept:
                kept[metric.of] |= claim.rows(keys, self).to_numpy()
        for request in self.sample_complexity.values():
            kept["error"] |= self.about(request, keys).to_numpy()
        return kept


@dataclass(frozen=True)
class Plan:
    """A study with the cells that are to be run.

    `measures` is what of every trial the claims and requests resample, and of which rows of
    `key_table`.
    """

    study: Study
    cells: list[Cell]
    measures: Mapping[str, Bools]
