"""Bigram features of a `ChainCRF`: weights for each pair of neighbouring labels and what is observed at the second.

They are columns like all others, which the vocabulary names (`bigram_columns`); `bigram_coef_` has their weights, a row
for each pair of labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError


def without_columns(matrix: Any, columns: NDArray[np.int64]) -> Any:
    """Return a matrix, CSR (N, F), without the entries of some columns, which stay as empty ones."""
    if not columns.size:
        return matrix
    is_left_out = np.zeros(matrix.shape[1], bool)
    is_left_out[columns] = True
    stays = ~is_left_out[matrix.indices]
    indptr = np.concatenate([[0], np.cumsum(stays)])[matrix.indptr]
    return scipy.sparse.csr_array((matrix.data[stays], matrix.indices[stays], indptr), matrix.shape)


def refuse_bigrams(vocabulary: Vocabulary | None, what: str) -> None:
    """Raise InputError for templates with bigram features where they cannot be trained."""
    if vocabulary is not None and vocabulary.bigram_columns.size:
        raise InputError(
            f"{what}: expected no patterns of label pairs and tokens, like B01:%x[0,0], which are trained on all items "
            "in memory alone: write U01:%x[0,0] and B, or call fit with all items"
        )


def refuse_bigram_weights(model: Any, format_name: str) -> None:
    """Raise InputError for a model with weights of bigram features, which other formats have no place for."""
    n_weights = model.bigram_coef_.nnz if hasattr(model, "bigram_coef_") else 0
    if n_weights:
        raise InputError(
            f"{format_name}: the format has no place for the {n_weights:,} weights of bigram features, and without "
            "them it would be another model: train it with unigram patterns, U01:%x[0,0] for B01:%x[0,0]"
        )
