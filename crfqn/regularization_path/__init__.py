"""Models for many strengths of the penalty, a descending path of l1 or a neighbourhood, and the one that predicts best."""

from crfqn.regularization_path.grid import Around, Grid
from crfqn.regularization_path.path import crf_path
from crfqn.regularization_path.record import RegularizationPath

__all__ = ["Around", "Grid", "RegularizationPath", "crf_path"]
