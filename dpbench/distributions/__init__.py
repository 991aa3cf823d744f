"""Distributions of records, with exact means and moments."""

from dpbench.distributions.autoregressive import AutoregressiveGaussian
from dpbench.distributions.base import Distribution, LocationScale
from dpbench.distributions.beta import Beta
from dpbench.distributions.continuous import (
    ContaminatedGaussian,
    Gaussian,
    LogNormal,
    Pareto,
    StudentT,
)
from dpbench.distributions.counts import BoundedZipf, ZeroTruncatedPoisson
from dpbench.distributions.discrete import Bernoulli, TwoPoint
from dpbench.distributions.empirical import Empirical
from dpbench.distributions.fixed_dataset import FixedDataset
from dpbench.distributions.hyperexponential import Hyperexponential
from dpbench.distributions.multivariate import (
    Hypercube,
    MultivariateContaminatedGaussian,
    MultivariateGaussian,
    MultivariateStudentT,
    PowerLawGaussian,
    Product,
)
from dpbench.distributions.real_column import RealColumn
from dpbench.distributions.regression import LinearModel
from dpbench.distributions.rescaled import Rescaled
from dpbench.distributions.signed_permutation import SignedPermutation
from dpbench.distributions.sparse import ProductTwoPoint, SignedTwoPoint
from dpbench.distributions.user_level_data import UserLevelData

__all__ = [
    "AutoregressiveGaussian",
    "Bernoulli",
    "Beta",
    "BoundedZipf",
    "ContaminatedGaussian",
    "Distribution",
    "Empirical",
    "FixedDataset",
    "Gaussian",
    "Hypercube",
    "Hyperexponential",
    "LinearModel",
    "LocationScale",
    "LogNormal",
    "MultivariateContaminatedGaussian",
    "MultivariateGaussian",
    "MultivariateStudentT",
    "Pareto",
    "PowerLawGaussian",
    "Product",
    "ProductTwoPoint",
    "RealColumn",
    "Rescaled",
    "SignedPermutation",
    "SignedTwoPoint",
    "StudentT",
    "TwoPoint",
    "UserLevelData",
    "ZeroTruncatedPoisson",
]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
