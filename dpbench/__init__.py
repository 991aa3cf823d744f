"""dpbench: reproducible benchmarks of differentially private mean estimation."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from dpbench.package import __version__ as __version__

if TYPE_CHECKING:
    from dpbench.api import load, run
    from dpbench.errors import AssumptionWarning
    from dpbench.estimators import Estimate, Estimator, OneDataset, release, release_table
    from dpbench.planner import plan
    from dpbench.privacy import GDP, ZCDP, ApproxDP, Ledger, NonPrivate, PureDP
    from dpbench.registry import ConfigError, validated
    from dpbench.tracking.command_compare import compare

__all__ = [
    "GDP", "ZCDP", "ApproxDP", "AssumptionWarning", "ConfigError", "Estimate", "Estimator",
    "Ledger", "NonPrivate", "OneDataset", "PureDP", "compare", "load", "plan", "release",
    "release_table", "run",
    "validated",
]  # fmt: skip
__dir__ = [*__all__, "__version__"].copy  # what completion shows

_HOMES = {
    "estimators": ["Estimate", "Estimator", "OneDataset", "release", "release_table"],
    "api": ["load", "run"],
    "errors": ["AssumptionWarning"],
    "planner": ["plan"],
    "privacy": ["GDP", "ZCDP", "ApproxDP", "Ledger", "NonPrivate", "PureDP"],
    "registry": ["ConfigError", "validated"],
    "commands.compare": ["compare"],
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``--help`` does not wait for scipy."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is not None:
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    if importlib.util.find_spec(f"{__name__}.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
