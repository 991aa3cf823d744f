"""Sections that the page of a run can have, one file for each subject."""

# Imported because they register their sections. Pages of older runs have them in this order.
from dpbench.report.sections import failures  # noqa: F401, I001
from dpbench.tracking import section as baseline  # noqa: F401
from dpbench.libraries import section as libraries  # noqa: F401
from dpbench.report.sections import claims  # noqa: F401
from dpbench.audit import section as privacy  # noqa: F401
from dpbench.report.sections import figures, errors, origin  # noqa: F401
