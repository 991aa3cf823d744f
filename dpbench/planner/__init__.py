"""Plans for a private mean, before there are data."""

from dpbench.planner.answer import Plan
from dpbench.planner.question import plan

__all__ = ["Plan", "plan"]
