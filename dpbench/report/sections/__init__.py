"""What a page can show of a run, a module per family of sections."""

# They enter the registry, in the order of a page whose run does not say which it has.
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
