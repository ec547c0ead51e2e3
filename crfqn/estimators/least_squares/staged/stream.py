"""Blocks of items (X, y) that are read anew in every pass, and checked as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, validate_data

from crfqn.arrays import Vector
from crfqn.data.csc_builder import check_sparse
from crfqn.errors import InputError
from crfqn.estimators.checks import check_classes
from crfqn.estimators.classification.labels.item_weights import set_weights
from crfqn.estimators.ranking.label_sets import LabelSets, are_sets

FORMS: dict[str, Any] = {"accept_sparse": ("csr", "csc"), "dtype": "numeric"}


class Stream:
    """Blocks of items, pairs (X, y), that can be read over and over.

    Parameters
    ----------
    blocks : iterable of (X, y), the same ones each time

    Raises
    ------
    InputError
        For a generator, or whatever else can be iterated over only once.
    """

    def __init__(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        if not hasattr(blocks, "__iter__") or isinstance(blocks, Iterator):
            raise InputError(
                "blocks: expected an iterable of (X, y) that can be read again and again, such as a list or an object "
                f"with __iter__, got {type(blocks).__name__}"
            )
        self.blocks = blocks
        self.model: Any = None

    def read_labels(self, checked: Any) -> LabelSets:
        """Read all blocks once; return their labels. `checked` takes the columns' names."""
        labels: list[Any] = []
        for number, (X, y) in enumerate(self.blocks):
            check_sparse(X)
            X = validate_data(checked, X, reset=number == 0, **FORMS)
            check_consistent_length(X, y)
            labels.append(y)
        if not labels:
            raise InputError("blocks: expected at least one block (X, y), got none")
        self.model = checked
        sets = LabelSets.of(joined(labels))
        check_classes(sets.classes)
        return sets

    def rows(self) -> Iterator[Any]:
        """Yield the rows of each block, checked."""
        for X, _ in self.blocks:
            check_sparse(X)
            yield validate_data(self.model, X, reset=False, **FORMS)

    def item_weights(self, class_weight: Any, sets: LabelSets) -> Vector:
        """Return the weight of each item, (I,)."""
        weights = set_weights(None, class_weight, sets.classes, sets.table)
        return np.ones(sets.table.shape[0]) if weights is None else weights


def joined(labels: list[Any]) -> Any:
    """Return the labels of all blocks as those of a single one."""
    if all(are_sets(y) for y in labels):
        return list(chain.from_iterable(labels))
    if any(hasattr(y, "tocsr") for y in labels):
        import scipy.sparse

        return scipy.sparse.vstack(labels).tocsr()
    return np.concatenate([np.asarray(y) for y in labels])
