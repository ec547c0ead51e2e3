"""Objectives: a feature map x a loss of the scores x weights of the items, at points; and views of them for solvers.

Importing the package registers all views (`registry.py`).
"""

from crfqn.objectives import hessian_bound, item_mixtures, point_curvature, proved_zeros, unpenalised_reach

__all__ = ["hessian_bound", "item_mixtures", "point_curvature", "proved_zeros", "unpenalised_reach"]
