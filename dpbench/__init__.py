"""dpbench: reproducible benchmarks of differentially private mean estimation."""

from typing import TYPE_CHECKING

from dpbench.package import __version__ as __version__
from dpbench.package import lazy_names

if TYPE_CHECKING:
    from dpbench.api import load, run
    from dpbench.errors import AssumptionWarning
    from dpbench.estimators import (
        Estimate,
        Estimator,
        OneDataset,
        OneRecord,
        release,
        release_table,
    )
    from dpbench.planner import plan
    from dpbench.privacy import GDP, ZCDP, ApproxDP, Ledger, NonPrivate, PureDP
    from dpbench.registry import ConfigError, validated
    from dpbench.tracking.command_compare import compare

__all__ = [
    "GDP", "ZCDP", "ApproxDP", "AssumptionWarning", "ConfigError", "Estimate", "Estimator",
    "Ledger", "NonPrivate", "OneDataset", "OneRecord", "PureDP", "compare", "load", "plan",
    "release", "release_table", "run", "validated",
]  # fmt: skip
__dir__ = [*__all__, "__version__"].copy  # what completion shows

__getattr__ = lazy_names(
    __name__,
    {
        "dpbench.estimators": [
            "Estimate",
            "Estimator",
            "OneDataset",
            "OneRecord",
            "release",
            "release_table",
        ],
        "dpbench.api": ["load", "run"],
        "dpbench.errors": ["AssumptionWarning"],
        "dpbench.planner": ["plan"],
        "dpbench.privacy": ["GDP", "ZCDP", "ApproxDP", "Ledger", "NonPrivate", "PureDP"],
        "dpbench.registry": ["ConfigError", "validated"],
        "dpbench.tracking.command_compare": ["compare"],
    },
)
