"""Labels of one sentence of dicts or strings by one function: calls on the usual way take as long as the arithmetic.

Labels are those of `NumpyEngine`, bit by bit, since the same functions add up the scores and find the best labelling.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from crfqn.data.token_rows import Rows, plain_columns
from crfqn.model.sequences import SequenceModel

NO_VALUES = np.empty(0)


def sentence_labeler(model: Any) -> Callable[[Any], list[Any] | None]:
    """Return a function of a sentence that returns its labels, or None for one in a form that it does not know; it
    always returns None for models with rules, dense features, bigram features or templates, and for other models."""
    vocabulary = model.vocabulary if isinstance(model, SequenceModel) else None
    if (
        vocabulary is None
        or vocabulary.encodes_items
        or model.chain.rules is not None
        or model.n_dense_
        or model.bigrams is not None
        or model.single_runs(None) is not None
    ):
        return lambda item: None
    pairs, watch, labels = model.known_pairs(vocabulary), model.key_watches.look, model.classes_.tolist()
    find_scores, find_best, label_of = model.weights.scores, model.chain.best_alone, labels.__getitem__

    def label(item: Any) -> list[Any] | None:
        plain = plain_columns([item], pairs)
        if plain is None or not plain[0] or max(plain[0]) < 0:  # unknown features are worth a warning
            return None
        columns, positions = plain
        watch((item,))
        row_ends = np.array([0, *accumulate(map(len, positions))])
        scores = find_scores(Rows(row_ends, np.array(columns, np.int32), NO_VALUES))
        return [*map(label_of, find_best(scores).states)]

    return label
