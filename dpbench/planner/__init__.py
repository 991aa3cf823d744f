"""Planning of private means before any data are collected."""

from typing import TYPE_CHECKING

from dpbench.package import lazy_names

if TYPE_CHECKING:
    from dpbench.planner.contributions import CapChoice, best_cap
    from dpbench.planner.page import ReleasePlan
    from dpbench.planner.question import plan

__all__ = ["CapChoice", "ReleasePlan", "best_cap", "plan"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
__getattr__ = lazy_names(
    __name__,
    {
        "dpbench.planner.page": ["ReleasePlan"],
        "dpbench.planner.contributions": ["CapChoice", "best_cap"],
        "dpbench.planner.question": ["plan"],
    },
)
