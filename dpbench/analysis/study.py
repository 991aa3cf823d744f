"""Define a study: a sweep with claims, requests and figures, checked before anything runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

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
    as_config_error,
    from_mapping,
    named,
    validated,
)
from dpbench.sweep.metrics import METRICS
from dpbench.sweep.plan import Cell, Part, Sweep, key_table, make_cells
from dpbench.sweep.selection import Selection
from dpbench.theory.theorems import THEOREMS

__all__ = ["Figure", "Names", "Study", "StudyPart", "SweepPlan", "gathered"]

SELECTED = ("families", "estimators", "budgets")
# Printed names of entries, by name.
Names = Mapping[str, str] | None


class Figure(Registered, ABC):
    """Base class of the figures of a study; `dpbench.report` has the kinds."""

    caption: str

    @abstractmethod
    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        """Check that a plan runs enough to draw the figure.

        Parameters
        ----------
        study : Study
        keys : DataFrame
            Keys of the planned results, see `dpbench.sweep.plan.key_table`.
        where : str
            The figure's key, for messages.

        Raises
        ------
        ConfigError
            If the figure selects nothing, or rows that it cannot show.
        """

    @abstractmethod
    def figure(
        self, result: Any, names: Names = None, ax: Any = None, panel: int | None = None
    ) -> Any:
        """Draw the figure, on a new canvas or on the caller's axes.

        Parameters
        ----------
        result : Result
            Results of the study.
        names : mapping of str to str, optional
            Printed names of entries, by default each name with spaces for underscores.
        ax : Axes, optional
            Axes to draw on, in the caller's style. By default draw on a new canvas, which needs
            `dpbench.output.style.style` around the call.
        panel : int, optional
            The only panel to draw, from 0. By default draw all.

        Returns
        -------
        Canvas

        Raises
        ------
        ConfigError
            If there is no such panel.
        """


# Names of the theorems that each kind of claim can test.
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
    """Part of a sweep, with claims and figures about it.

    Parameters
    ----------
    claims, figures : mapping
        As in a `Study`. Those without ``families``, ``estimators`` or ``budgets`` take the part's.
    """

    claims: Claims = Field(default_factory=dict)
    figures: Figures = Field(default_factory=dict)


def _part(spec: Any, where: str) -> StudyPart:
    """Build a part, and hand its selection to claims and figures that have none."""
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
    """Collect the configured claims or figures of a sweep, those under parts first.

    Parameters
    ----------
    sweep : mapping
        Configuration of the sweep.
    section : {'claims', 'figures'}
        Key of the section.

    Returns
    -------
    dict of str to mapping
        Configurations by label, with the selection of their part.
    """
    found: dict[str, Any] = {}
    for part in sweep.get("parts", {}).values():
        shared = {key: part[key] for key in SELECTED if key in part}
        found |= {label: {**shared, **one} for label, one in (part.get(section) or {}).items()}
    return found | (sweep.get(section) or {})


@validated
class Study(Sweep):
    """Sweep with claims, sample complexities and figures.

    Parameters
    ----------
    parts : mapping of str to StudyPart
        Parts by label, each with its own n and trials.
    claims : mapping
        Claims by label, see `dpbench.analysis.claims.Claim`.
    sample_complexity : mapping
        Requests by label, see `dpbench.analysis.smallest_n.SampleComplexity`.
    figures : mapping
        Figures by label, see `dpbench.analysis.study.Figure`.
    fail_on_inconsistent : bool
        Whether an inconsistent claim makes the run fail.
    next : str, optional
        Sweep that the run recommends at its end.
    """

    first_names: ClassVar[dict[str, str]] = {"fail_on_inconsistent": "gate"}

    parts: Annotated[Mapping[str, StudyPart], named(StudyPart, _part, least=1, title="a part")]
    claims: Claims = Field(default_factory=dict)
    sample_complexity: Requests = Field(default_factory=dict)
    figures: Figures = Field(default_factory=dict)
    fail_on_inconsistent: bool = True
    next: Label | None = None

    @cached_property
    def all_claims(self) -> dict[str, Claim]:
        """Return all claims by label, those under parts first."""
        return {label: claim for label, (_, claim) in self._everywhere("claims").items()}

    @cached_property
    def all_figures(self) -> dict[str, Figure]:
        """Return all figures by label, those under parts first."""
        return {label: figure for label, (_, figure) in self._everywhere("figures").items()}

    def _everywhere(self, section: str) -> dict[str, tuple[str, Any]]:
        """Return the entries of a section by label, each with its key in the configuration.

        Raise ConfigError if a label occurs twice.
        """
        places = [(f"sweep.parts.{label}.{section}", part) for label, part in self.parts.items()]
        found: dict[str, tuple[str, Any]] = {}
        for where, holder in (*places, (f"sweep.{section}", self)):
            for label, one in getattr(holder, section).items():
                if label in found:
                    raise ConfigError(
                        f"{where}.{label}: {found[label][0]} has this label, too; rename one"
                    )
                found[label] = (f"{where}.{label}", one)
        return found

    def plan(self, trials: int | None = None) -> SweepPlan:
        """Make the cells to run, and check that all claims, requests and figures can be answered.

        With `trials`, every part runs this number of trials instead of its own. Raise ConfigError
        at the first key that cannot be used.
        """
        cells = make_cells(self, trials=trials)
        keys = key_table(self, cells, bounds=False)
        requests = self.sample_complexity.items()
        searched = [(f"sweep.sample_complexity.{label}", request) for label, request in requests]
        claims, figures = (self._everywhere(section).values() for section in ("claims", "figures"))
        for where, one in (*claims, *searched, *figures):
            with as_config_error(where):
                one.check(self, keys, where)
        return SweepPlan(self, cells, self._kept(keys))

    def _kept(self, keys: pd.DataFrame) -> dict[str, Bools]:
        """Return `SweepPlan.measures`."""
        names = {claim.measures for claim in self.all_claims.values()} - {None}
        names |= {"error"} if self.sample_complexity else set()
        kept = {name: np.zeros(len(keys), bool) for name in names if name}
        for claim in self.all_claims.values():
            metric = METRICS.get(claim.statement.metric)  # also of a mean, if its values are kept
            if metric is not None and metric.of in kept:
                kept[metric.of] |= claim.rows(keys, self).to_numpy()
        for request in self.sample_complexity.values():
            kept["error"] |= self.about(request, keys).to_numpy()
        return kept


@dataclass(frozen=True)
class SweepPlan:
    """Study with the cells to run.

    Parameters
    ----------
    study : Study
    cells : list of Cell
    measures : mapping of str to ndarray of bool
        Per-trial values to keep, because claims and requests resample them. Each has a mask of
        the rows of `key_table`.
    """

    study: Study
    cells: list[Cell]
    measures: Mapping[str, Bools]
