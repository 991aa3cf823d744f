"""Mean estimators, one module per source."""

from dpbench.estimators.base import Estimate, Estimator, release
from dpbench.estimators.clipped import ClippedMean
from dpbench.estimators.heavy_tailed import HeavyTailedMean, LocalMean
from dpbench.estimators.nonprivate import EmpiricalMean, MedianOfMeans, TrimmedMean

__all__ = [
    "ClippedMean",
    "EmpiricalMean",
    "Estimate",
    "Estimator",
    "HeavyTailedMean",
    "LocalMean",
    "MedianOfMeans",
    "TrimmedMean",
    "release",
]
