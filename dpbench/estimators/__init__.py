"""Mean estimators, one module per source."""

from dpbench.estimators.base import Estimate, Estimator, release
from dpbench.estimators.bounded import BoundedMean, CoordinateWise
from dpbench.estimators.clipped import BinaryMean, ClippedMean
from dpbench.estimators.coinpress import CoinPressMean
from dpbench.estimators.covariance import CoinPressCovariance, WhitenedCoinPressMean
from dpbench.estimators.friendly_core import FriendlyCoreMean
from dpbench.estimators.gaussian import ExponentialCoarseMean, NaiveGaussianMean
from dpbench.estimators.heavy_tailed import HeavyTailedMean, LocalMean
from dpbench.estimators.karwa_vadhan import KarwaVadhanMean, LearnedGaussian
from dpbench.estimators.ksu20 import KSU20Mean, KSU20Range
from dpbench.estimators.ksu20_ball import KSU20BallMean
from dpbench.estimators.ksu20_cover import KSU20CoverMean
from dpbench.estimators.nonprivate import EmpiricalMean, Median, MedianOfMeans, TrimmedMean
from dpbench.estimators.outside import OneDataset
from dpbench.estimators.shrinking import ShrinkingIntervals
from dpbench.estimators.subsample import SubsampleAggregate, SubsampleTest

__all__ = [
    "BinaryMean",
    "BoundedMean",
    "ClippedMean",
    "CoinPressCovariance",
    "CoinPressMean",
    "CoordinateWise",
    "EmpiricalMean",
    "Estimate",
    "Estimator",
    "ExponentialCoarseMean",
    "FriendlyCoreMean",
    "HeavyTailedMean",
    "KSU20BallMean",
    "KSU20CoverMean",
    "KSU20Mean",
    "KSU20Range",
    "KarwaVadhanMean",
    "LearnedGaussian",
    "LocalMean",
    "Median",
    "MedianOfMeans",
    "NaiveGaussianMean",
    "OneDataset",
    "ShrinkingIntervals",
    "SubsampleAggregate",
    "SubsampleTest",
    "TrimmedMean",
    "WhitenedCoinPressMean",
    "release",
]
