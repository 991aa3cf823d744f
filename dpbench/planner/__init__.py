"""Planning of private means before any data are collected."""

from dpbench.planner.answer import ReleasePlan
from dpbench.planner.question import plan

__all__ = ["ReleasePlan", "plan"]
