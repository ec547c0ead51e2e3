"""Metrics over taxonomies and of chunks in sequences, and scorers made of them for scikit-learn."""

from crfqn.metrics.chunks import (
    ChunkCounts,
    chunk_counts,
    chunk_f1_score,
    chunk_precision_recall_f1,
    chunk_scorer,
)
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
    "ChunkCounts",
    "PrecisionRecallF1",
    "chunk_counts",
    "chunk_f1_score",
    "chunk_precision_recall_f1",
    "chunk_scorer",
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
