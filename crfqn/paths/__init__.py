"""Regularisation paths: models for a descending grid of l1, and the one that predicts best."""

from crfqn.paths.path import crf_path
from crfqn.paths.record import Path

__all__ = ["Path", "crf_path"]
