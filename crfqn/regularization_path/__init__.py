"""Regularisation paths: models for a descending grid of l1, and the one that predicts best."""

from crfqn.regularization_path.grid import Grid
from crfqn.regularization_path.path import crf_path
from crfqn.regularization_path.record import RegularizationPath

__all__ = ["Grid", "RegularizationPath", "crf_path"]
