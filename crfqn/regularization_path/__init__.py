"""Regularisation paths: models for a descending grid of l1, and the one that predicts best."""

from crfqn.regularization_path.path import crf_path
from crfqn.regularization_path.record import Path

__all__ = ["Path", "crf_path"]
