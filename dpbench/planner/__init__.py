"""Planning of private means before any data are collected."""

from dpbench.planner.answer import ReleasePlan
from dpbench.planner.contributions import CapChoice, best_cap
from dpbench.planner.question import plan

__all__ = ["CapChoice", "ReleasePlan", "best_cap", "plan"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
