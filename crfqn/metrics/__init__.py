"""Metrics of labels in taxonomies, of spans in sequences and of probabilities, and scorers for scikit-learn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "calibration": ["expected_calibration_error"],
        "hierarchy": [
            "hierarchical_f1_score", "hierarchical_precision_recall_f1", "hierarchical_precision_score",
            "hierarchical_recall_score", "lca_f1_score", "lca_precision_recall_f1", "lca_precision_score",
            "lca_recall_score", "level_accuracy", "tree_induced_error",
        ],
        "scorers": ["chunk_scorer", "find_scorer", "hierarchical_scorer", "make_span_scorer", "scorer_names"],
        "spans": [
            "Confusion", "PrecisionRecallF1", "SpanCounts", "chunk_counts", "chunk_f1_score",
            "chunk_precision_recall_f1", "sequence_accuracy", "span_confusion", "span_counts", "span_f1_score",
            "span_precision_recall_f1", "span_report", "span_report_dict", "token_accuracy", "token_confusion",
        ],
    },
)  # fmt: skip
