"""Comparison of each item's tree paths to its true and its predicted node: the counts behind all tree metrics.

Shapes: I items.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.estimators.classification.labels.item_weights import check_item_weights
from crfqn.taxonomy.labels import PathLabels
from crfqn.taxonomy.reading import find_nodes, open_taxonomy
from crfqn.taxonomy.tree import LabelTree


@dataclass(frozen=True, eq=False)
class ComparedPaths:
    """Tree paths from the top down to the true and to the predicted node of each item, both ends included.

    Attributes
    ----------
    tree : LabelTree
    n_shared, n_predicted, n_true : ndarray of int64, shape (I,)
        Nodes on both paths, on the predicted one, on the true one.
    weights : ndarray of float64, shape (I,)
    has_root : bool
        Whether the first node of every path is the taxonomy's only top. A taxonomy that is made up from the labels
        has none: other labels could have other tops.
    """

    tree: LabelTree
    n_shared: NDArray[np.int64]
    n_predicted: NDArray[np.int64]
    n_true: NDArray[np.int64]
    weights: NDArray[np.float64]
    has_root: bool


def compare_paths(
    y_true: Any, y_pred: Any, taxonomy: Any, sample_weight: Any, separator: str
) -> ComparedPaths:
    """Find the nodes of the labels in the taxonomy and compare their paths; O(I depth) time and memory.

    Raises
    ------
    InputError
        No items, different numbers of items, labels that are no nodes, weights out of range, and whatever
        `open_taxonomy` refuses. What is wrong with a label begins with "y_true:" or "y_pred:".
    """
    with _errors_in("y_true"):
        true = PathLabels.of(y_true, separator)
    with _errors_in("y_pred"):
        predicted = PathLabels.of(y_pred, separator)
    if true.names.size != predicted.names.size:
        raise InputError(
            f"expected as many predictions as true labels, got {predicted.names.size} and {true.names.size}"
        )
    if not true.names.size:
        raise InputError("expected at least one label to score, got none")
    weights = check_item_weights(sample_weight, true.names.size)
    tree = open_taxonomy(taxonomy, _both(true, predicted), separator)
    is_rows = true.is_rows or predicted.is_rows
    with _errors_in("y_true"):
        true_nodes = find_nodes(tree, true.names, taxonomy, is_rows)
    with _errors_in("y_pred"):
        predicted_nodes = find_nodes(tree, predicted.names, taxonomy, is_rows)
    ancestors = tree.ancestors()
    n_shared = ancestors[true_nodes].multiply(ancestors[predicted_nodes]).sum(axis=1)
    lengths = tree.depths.astype(np.int64) + 1
    return ComparedPaths(
        tree=tree,
        n_shared=np.asarray(n_shared, np.int64),
        n_predicted=lengths[predicted_nodes],
        n_true=lengths[true_nodes],
        weights=np.ones(true.names.size) if weights is None else weights,
        has_root=taxonomy is not None and np.count_nonzero(tree.depths == 0) == 1,
    )


def _both(true: PathLabels, predicted: PathLabels) -> PathLabels:
    """Return the labels of both sides, from which a taxonomy is inferred where none is given."""
    # As objects, so that numbers beside strings are seen, and do not become strings.
    names = np.concatenate([true.names.astype(object), predicted.names.astype(object)])
    return PathLabels(names, max(true.depth, predicted.depth), true.is_rows or predicted.is_rows)


@contextmanager
def _errors_in(name: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
