"""Laws that data are drawn from."""

from dpbench.distributions.base import Distribution
from dpbench.distributions.continuous import ContaminatedGaussian, Gaussian, Pareto, StudentT
from dpbench.distributions.discrete import Bernoulli, TwoPoint
from dpbench.distributions.empirical import Empirical

__all__ = [
    "Bernoulli",
    "ContaminatedGaussian",
    "Distribution",
    "Empirical",
    "Gaussian",
    "Pareto",
    "StudentT",
    "TwoPoint",
]
