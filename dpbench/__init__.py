"""dpbench: reproducible benchmarks of differentially private mean estimation."""

from dpbench.estimators import Estimate, Estimator, release
from dpbench.registry import ConfigError, validated
from dpbench.privacy import ZCDP, ApproxDP, Ledger, NonPrivate, PureDP

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "ApproxDP",
    "ConfigError",
    "Estimate",
    "Estimator",
    "Ledger",
    "NonPrivate",
    "PureDP",
    "release",
    "validated",
]
