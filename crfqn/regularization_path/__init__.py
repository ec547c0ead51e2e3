"""Models for many strengths of the penalty, on a descending path or around the defaults, and the best of them."""

from crfqn.regularization_path.grid import Grid, LocalGrid, RegularizationPath
from crfqn.regularization_path.path import crf_path

__all__ = ["Grid", "LocalGrid", "RegularizationPath", "crf_path"]
