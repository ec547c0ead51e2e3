"""Metrics over taxonomies, and scorers for scikit-learn made of them."""

from crfqn.metrics.measures import (
    PrecisionRecallF1,
    hierarchical_f1_score,
    hierarchical_precision_recall_f1,
    hierarchical_precision_score,
    hierarchical_recall_score,
    lca_f1_score,
    lca_precision_recall_f1,
    lca_precision_score,
    lca_recall_score,
    level_accuracy,
    tree_induced_error,
)
from crfqn.metrics.scorers import hierarchical_scorer

__all__ = [
    "PrecisionRecallF1",
    "hierarchical_f1_score",
    "hierarchical_precision_recall_f1",
    "hierarchical_precision_score",
    "hierarchical_recall_score",
    "hierarchical_scorer",
    "lca_f1_score",
    "lca_precision_recall_f1",
    "lca_precision_score",
    "lca_recall_score",
    "level_accuracy",
    "tree_induced_error",
]
