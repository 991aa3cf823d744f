"""Planning of private means before any data are collected."""

from dpbench.planner.answer import Plan
from dpbench.planner.question import plan

__all__ = ["Plan", "plan"]
