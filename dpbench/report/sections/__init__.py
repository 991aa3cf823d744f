"""Sections that the page of a run can have, one file for each subject."""

from itertools import chain

from dpbench.app import applications
from dpbench.report.sections import claims, errors, failures, figures, origin
from dpbench.report.sections.base import Builder

__all__ = ["CORE", "find_builder"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API

# Builders of the core; applications have more.
CORE = (
    failures.build_failures, claims.build_claims, claims.build_factors, figures.build_figures,
    errors.build_samples, errors.build_errors, origin.build_origin,
)  # fmt: skip


def find_builder(name: str) -> Builder | None:
    """Return the builder of a section; None if neither the core nor an application has it."""
    # Applications are loaded one after another, until one has the section.
    groups = chain([CORE], (app.sections() for app in applications()))
    return next((build for group in groups for build in group if build.name == name), None)
