"""Models for many strengths of the penalty, on a descending path or around a default, and the best of them."""

from crfqn.regularization_path.grid import Around, Grid
from crfqn.regularization_path.path import crf_path
from crfqn.regularization_path.record import RegularizationPath

__all__ = ["Around", "Grid", "RegularizationPath", "crf_path"]
