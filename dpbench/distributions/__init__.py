"""Laws that data are drawn from."""

from dpbench.distributions.base import Distribution
from dpbench.distributions.continuous import ContaminatedGaussian, Gaussian, Pareto, StudentT
from dpbench.distributions.discrete import Bernoulli, TwoPoint

__all__ = [
    "Bernoulli",
    "ContaminatedGaussian",
    "Distribution",
    "Gaussian",
    "Pareto",
    "StudentT",
    "TwoPoint",
]
