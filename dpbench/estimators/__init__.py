"""Mean estimators, one Python file for each published source.

Docstrings cite sources by keys such as KSU20. The file ``dpbench/data/bibliography.yaml`` lists the
source of each key, and `dpbench.bibliography` reads the file.
"""

from importlib import import_module
from pkgutil import iter_modules

from dpbench.estimators.add_remove import (
    HourglassMean,
    NormalizedSumMean,
    TransformedNoiseMean,
)
from dpbench.estimators.affine_invariant import AffineInvariantMean
from dpbench.estimators.balloon import BalloonMean
from dpbench.estimators.base import Estimate, Estimator
from dpbench.estimators.berger_boos import BergerBoosInterval
from dpbench.estimators.binary_interval import BinaryInterval
from dpbench.estimators.binary_minimax import BinaryMinimax
from dpbench.estimators.binary_tests import binary_p_value
from dpbench.estimators.clipped import BinaryMean, ClippedMean, CoordinateWise, L2ClippedMean
from dpbench.estimators.coinpress import CoinPressCovariance, CoinPressMean, WhitenedCoinPressMean
from dpbench.estimators.columns import ColumnsClippedMean
from dpbench.estimators.contributions import BoundedContributionMean
from dpbench.estimators.external import OneDataset, OneRecord
from dpbench.estimators.friendly_core import FriendlyCoreMean
from dpbench.estimators.gaussian import MedianThenClippedMean, NaiveGaussianMean, ShrinkingIntervals
from dpbench.estimators.gaussian_score import GaussianScoreMean
from dpbench.estimators.gradient_descent import GradientDescentMean
from dpbench.estimators.heavy_tailed import LocalMean, TunedClippedMean
from dpbench.estimators.huber_interval import HuberInterval
from dpbench.estimators.instance_optimal import InstanceOptimalMean, PlanMean
from dpbench.estimators.intervals import NoisyvarInterval, ParametricBootstrapInterval
from dpbench.estimators.inverse_sensitivity import InverseSensitivity
from dpbench.estimators.karwa_vadhan import (
    KarwaVadhanGaussian,
    KarwaVadhanInterval,
    KarwaVadhanMean,
)
from dpbench.estimators.ksu20 import KSU20Mean, KSU20RangeEstimate
from dpbench.estimators.ksu20_ball import KSU20BallMean
from dpbench.estimators.ksu20_tournament import KSU20TournamentMean
from dpbench.estimators.nonprivate import EmpiricalMean, Median, MedianOfMeans, TrimmedMean
from dpbench.estimators.private_bootstrap import PrivateBootstrapInterval
from dpbench.estimators.privunit import PrivUnitMean
from dpbench.estimators.public_record import PublicRecordMean
from dpbench.estimators.quantile_clipped import QuantileClippedMean
from dpbench.estimators.randomized_response_sign import RandomizedResponseSignMean
from dpbench.estimators.regression import (
    AdaSSP,
    GradientDescentRegression,
    LeastSquares,
    SubsampleLeastSquares,
)
from dpbench.estimators.releases import Interval, Intervals, release
from dpbench.estimators.smooth_sensitivity_trimmed import SmoothSensitivityTrimmedMean
from dpbench.estimators.subsample import SubsampleAggregate, SubsampleTest
from dpbench.estimators.subsample_interval import SubsampleInterval
from dpbench.estimators.table_release import TableRelease, release_table
from dpbench.estimators.tables import TableMean
from dpbench.estimators.tukey_median import TukeyMedian
from dpbench.estimators.unbiased import UnbiasedMean
from dpbench.estimators.unbounded import ApproximateBoundsMean, UniversalMean
from dpbench.estimators.user_level import UserLevelMean
from dpbench.estimators.variance import (
    BezierVariance,
    ClippedVariance,
    PairVariance,
    ThreeSumsVariance,
)

__all__ = [
    "AdaSSP",
    "AffineInvariantMean",
    "ApproximateBoundsMean",
    "BalloonMean",
    "BergerBoosInterval",
    "BezierVariance",
    "BinaryInterval",
    "BinaryMean",
    "BinaryMinimax",
    "BoundedContributionMean",
    "ClippedMean",
    "ClippedVariance",
    "CoinPressCovariance",
    "CoinPressMean",
    "ColumnsClippedMean",
    "CoordinateWise",
    "EmpiricalMean",
    "Estimate",
    "Estimator",
    "FriendlyCoreMean",
    "GaussianScoreMean",
    "GradientDescentMean",
    "GradientDescentRegression",
    "HourglassMean",
    "HuberInterval",
    "InstanceOptimalMean",
    "Interval",
    "Intervals",
    "InverseSensitivity",
    "KSU20BallMean",
    "KSU20Mean",
    "KSU20RangeEstimate",
    "KSU20TournamentMean",
    "KarwaVadhanGaussian",
    "KarwaVadhanInterval",
    "KarwaVadhanMean",
    "L2ClippedMean",
    "LeastSquares",
    "LocalMean",
    "Median",
    "MedianOfMeans",
    "MedianThenClippedMean",
    "NaiveGaussianMean",
    "NoisyvarInterval",
    "NormalizedSumMean",
    "OneDataset",
    "OneRecord",
    "PairVariance",
    "ParametricBootstrapInterval",
    "PlanMean",
    "PrivUnitMean",
    "PrivateBootstrapInterval",
    "PublicRecordMean",
    "QuantileClippedMean",
    "RandomizedResponseSignMean",
    "ShrinkingIntervals",
    "SmoothSensitivityTrimmedMean",
    "SubsampleAggregate",
    "SubsampleInterval",
    "SubsampleLeastSquares",
    "SubsampleTest",
    "TableMean",
    "TableRelease",
    "ThreeSumsVariance",
    "TransformedNoiseMean",
    "TrimmedMean",
    "TukeyMedian",
    "TunedClippedMean",
    "UnbiasedMean",
    "UniversalMean",
    "UserLevelMean",
    "WhitenedCoinPressMean",
    "binary_p_value",
    "release",
    "release_table",
]  # fmt: skip
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API

for _module in iter_modules(__path__):  # modules not imported above register their kinds here
    import_module(f"{__name__}.{_module.name}")
