"""Sections that the page of a run can have, one file for each subject."""

# Imported because they register their sections.
from dpbench.report.sections import (  # noqa: F401, I001
    failures,
    tracking,
    libraries,
    claims,
    audit,
    figures,
    errors,
    origin,
)
