"""Mean estimators, one module per source.

References
----------
.. [ACG16] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, "Deep learning with
   differential privacy", CCS 2016.
.. [AD20] Asi, Duchi, "Instance-optimality in differential privacy via approximate inverse
   sensitivity mechanisms", NeurIPS 2020.
.. [BHS23] Brown, Hopkins, Smith, "Fast, sample-efficient, affine-invariant private mean and
   covariance estimation for subgaussian distributions", COLT 2023.
.. [BS19] Bun, Steinke, "Average-case averages: private algorithms for smooth sensitivity and mean
   estimation", NeurIPS 2019.
.. [L15], [L17] G. Kamath, G. Brown, CS 860, lectures 15 and 17.
.. [AFT22] Asi, Feldman, Talwar, "Optimal algorithms for mean estimation under local differential
   privacy", ICML 2022.
.. [AKMMSU24] Agarwal, Kamath, Majid, Mouzakis, Silver, Ullman, "Private mean estimation with
   person-level differential privacy", 2024.
.. [BDFKR18] Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its
   applications in private federated learning", 2018.
.. [BDKU20] Biswas, Dong, Kamath, Ullman, "CoinPress: practical private mean and covariance
   estimation", NeurIPS 2020.
.. [DY23] Dong, Yi, "Universal private estimators", PODS 2023.
.. [DJW13] Duchi, Jordan, Wainwright, "Local privacy and statistical minimax rates", FOCS 2013.
.. [DFMBG20] Du, Foot, Moniot, Bray, Groce, "Differentially private confidence intervals", 2020.
.. [FWS22] Ferrando, Wang, Sheldon, "Parametric bootstrap for differentially private confidence
   intervals", AISTATS 2022.
.. [G20] Google's differential privacy library, `BoundedMean`; PipelineDP has the same mean.
.. [GRS09] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms",
   STOC 2009.
.. [GS10] Gupte, Sundararajan, "Universally optimal privacy mechanisms for minimax agents",
   PODS 2010.
.. [HLY21] Huang, Liang, Yi, "Instance-optimal mean estimation under differential privacy",
   NeurIPS 2021.
.. [HT10] Hardt, Talwar, "On the geometry of differential privacy", STOC 2010.
.. [KS25] Kalinin, Steinberger, "Efficient estimation of a Gaussian mean with local differential
   privacy", AISTATS 2025.
.. [KMRSSU23] Kamath, Mouzakis, Regehr, Singhal, Steinke, Ullman, "A bias-accuracy-privacy trilemma
   for statistical estimation", 2023.
.. [KDH23] Kuditipudi, Duchi, Haque, "A pretty fast algorithm for adaptive private mean
   estimation", COLT 2023.
.. [KSU20] Kamath, Singhal, Ullman, "Private mean estimation of heavy-tailed distributions",
   COLT 2020.
.. [KSW23] Kulesza, Suresh, Wang, "Mean estimation in the add-remove model of differential
   privacy", 2023.
.. [KV18] Karwa, Vadhan, "Finite sample differentially private confidence intervals", ITCS 2018.
.. [LM00] Laurent, Massart, "Adaptive estimation of a quadratic functional by model selection",
   Annals of Statistics 2000.
.. [LSB12] Lacoste-Julien, Schmidt, Bach, "A simpler approach to obtaining an O(1/t) convergence
   rate for the projected stochastic subgradient method", 2012.
.. [NRS07] Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data
   analysis", STOC 2007.
.. [PLAN] Aumueller, Lebeda, Nelson, Pagh, "PLAN: variance-aware private mean estimation",
   PoPETs 2024.
.. [TCKMS22] Tsfadia, Cohen, Kaplan, Mansour, Stemmer, "FriendlyCore: practical differentially
   private aggregation", ICML 2022.
.. [WZLDSG20] Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson, "Differentially private
   SQL with bounded user contribution", PETS 2020; bounds as in Google's library.
.. [W18] Wang, "Revisiting differentially private linear regression: optimal and adaptive
   prediction & estimation in unbounded domain", UAI 2018.
.. [Z24] Zhou, "Private mean estimation: pure vs approximate DP (I)", 2024.
"""

from importlib import import_module
from pkgutil import iter_modules

from dpbench.estimators.add_remove import NormalizedSumMean, TransformedNoiseMean
from dpbench.estimators.affine_invariant import AffineInvariantMean
from dpbench.estimators.base import Estimate, Estimator, release
from dpbench.estimators.binary_minimax import BinaryMinimax
from dpbench.estimators.clipped import BinaryMean, ClippedMean, CoordinateWise, L2ClippedMean
from dpbench.estimators.coinpress import CoinPressCovariance, CoinPressMean, WhitenedCoinPressMean
from dpbench.estimators.external import OneDataset
from dpbench.estimators.friendly_core import FriendlyCoreMean
from dpbench.estimators.gaussian import MedianThenClippedMean, NaiveGaussianMean, ShrinkingIntervals
from dpbench.estimators.gaussian_score import GaussianScoreMean
from dpbench.estimators.gradient_descent import GradientDescentMean
from dpbench.estimators.heavy_tailed import LocalMean, TunedClippedMean
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
from dpbench.estimators.libraries.mean import LibraryMean
from dpbench.estimators.nonprivate import EmpiricalMean, Median, MedianOfMeans, TrimmedMean
from dpbench.estimators.privunit import PrivUnitMean
from dpbench.estimators.randomized_response_sign import RandomizedResponseSignMean
from dpbench.estimators.regression import (
    AdaSSP,
    GradientDescentRegression,
    LeastSquares,
    SubsampleLeastSquares,
)
from dpbench.estimators.smooth_sensitivity_trimmed import SmoothSensitivityTrimmedMean
from dpbench.estimators.subsample import SubsampleAggregate, SubsampleTest
from dpbench.estimators.unbiased import UnbiasedMean
from dpbench.estimators.unbounded import ApproximateBoundsMean, UniversalMean
from dpbench.estimators.user_level import UserLevelMean

__all__ = [
    "AdaSSP",
    "AffineInvariantMean",
    "ApproximateBoundsMean",
    "BinaryMean",
    "BinaryMinimax",
    "ClippedMean",
    "CoinPressCovariance",
    "CoinPressMean",
    "CoordinateWise",
    "EmpiricalMean",
    "Estimate",
    "Estimator",
    "FriendlyCoreMean",
    "GaussianScoreMean",
    "GradientDescentMean",
    "GradientDescentRegression",
    "InstanceOptimalMean",
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
    "LibraryMean",
    "LocalMean",
    "Median",
    "MedianOfMeans",
    "MedianThenClippedMean",
    "NaiveGaussianMean",
    "NoisyvarInterval",
    "NormalizedSumMean",
    "OneDataset",
    "ParametricBootstrapInterval",
    "PlanMean",
    "PrivUnitMean",
    "RandomizedResponseSignMean",
    "ShrinkingIntervals",
    "SmoothSensitivityTrimmedMean",
    "SubsampleAggregate",
    "SubsampleLeastSquares",
    "SubsampleTest",
    "TransformedNoiseMean",
    "TrimmedMean",
    "TunedClippedMean",
    "UnbiasedMean",
    "UniversalMean",
    "UserLevelMean",
    "WhitenedCoinPressMean",
    "release",
]  # fmt: skip

for _module in iter_modules(__path__):  # modules not imported above register their kinds here
    import_module(f"{__name__}.{_module.name}")
