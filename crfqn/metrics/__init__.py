"""Metrics over taxonomies and of spans in sequences, and scorers made of them for scikit-learn."""

from crfqn.metrics.chunks import (
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
from crfqn.metrics.scorers import find_scorer, hierarchical_scorer, scorer_names
from crfqn.metrics.spans.confusion import Confusion, span_confusion, token_confusion
from crfqn.metrics.spans.report import span_report, span_report_dict
from crfqn.metrics.spans.scorers import make_span_scorer, sequence_accuracy, token_accuracy
from crfqn.metrics.spans.scores import SpanCounts, span_counts, span_f1_score, span_precision_recall_f1

__all__ = [
    "Confusion",
    "PrecisionRecallF1",
    "SpanCounts",
    "chunk_counts",
    "chunk_f1_score",
    "chunk_precision_recall_f1",
    "chunk_scorer",
    "find_scorer",
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
    "make_span_scorer",
    "scorer_names",
    "sequence_accuracy",
    "span_confusion",
    "span_counts",
    "span_f1_score",
    "span_precision_recall_f1",
    "span_report",
    "span_report_dict",
    "token_accuracy",
    "token_confusion",
    "tree_induced_error",
]
