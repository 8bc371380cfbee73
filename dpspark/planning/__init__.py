"""Accuracy and budget, before any data: `dpspark plan`."""

from dpspark.planning.planner import Plan, plan

__all__ = ["Plan", "plan"]
