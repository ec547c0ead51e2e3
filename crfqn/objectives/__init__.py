"""Objectives: a feature map x a loss of the scores x weights of the items, at points; and views of them for solvers."""

from crfqn.objectives import views

__all__ = ["views"]
