"""dpbench: reproducible benchmarks of differentially private mean estimation."""

from dpbench.estimators import Estimate, Estimator, OneDataset, release
from dpbench.library import load, run
from dpbench.privacy import ZCDP, ApproxDP, Ledger, NonPrivate, PureDP
from dpbench.registry import ConfigError, validated

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "ApproxDP",
    "ConfigError",
    "Estimate",
    "Estimator",
    "Ledger",
    "NonPrivate",
    "OneDataset",
    "PureDP",
    "load",
    "release",
    "run",
    "validated",
]
