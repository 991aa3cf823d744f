"""dpbench: reproducible benchmarks of differentially private mean estimation."""

from dpbench.estimators import Estimate, Estimator, OneDataset, release
from dpbench.library import load, run
from dpbench.privacy import ZCDP, ApproxDP, Ledger, NonPrivate, PureDP
from dpbench.registry import ConfigError, validated
from dpbench.version import __version__ as __version__

__all__ = [
    "ZCDP", "ApproxDP", "ConfigError", "Estimate", "Estimator", "Ledger", "NonPrivate",
    "OneDataset", "PureDP", "load", "release", "run", "validated",
]  # fmt: skip
