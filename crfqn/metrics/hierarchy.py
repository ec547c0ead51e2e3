"""Metrics for labels that are nodes of a taxonomy: they measure how far a prediction is from the true node.

An item has one true and one predicted node; either may be an inner node, where a document or a prediction stops
early. Every measure follows from three numbers an item: t and p nodes on the paths from the top down to the true
and the predicted node, both ends included, and c nodes that the two paths share:

    hierarchical precision c / p, recall c / t               (Kiritchenko et al. 2005)
    LCA precision 1 / (1 + p - c), recall 1 / (1 + t - c)    (Kosmopoulos et al. 2015)
    tree-induced error t + p - 2 c                           (Dekel et al. 2004)
    right at level l: c >= l

The virtual root above the tops of a forest lies on no path, and is the lowest common ancestor where c = 0.
Shapes: I items.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import check_item_weights
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.metrics.spans import PrecisionRecallF1
from crfqn.taxonomy.label_paths import PathTargets, is_row
from crfqn.taxonomy.reading import find_nodes, open_taxonomy
from crfqn.taxonomy.tree import LabelTree

T = TypeVar("T")


def hierarchical_precision_recall_f1(
    y_true: Any,
    y_pred: Any,
    taxonomy: Any = None,
    *,
    average: str = "micro",
    sample_weight: Any = None,
    separator: str = "/",
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of the nodes with their ancestors: right as far as the tree paths agree.

    With T_i and S_i the true and the predicted node of item i, each with its ancestors but without the root,

        precision = sum_i w_i |S_i & T_i| / sum_i w_i |S_i|,    recall = sum_i w_i |S_i & T_i| / sum_i w_i |T_i|.

    Parameters
    ----------
    y_true, y_pred : array-like of I labels
        Names of nodes; or paths from the top: strings with `separator` between the names, a list of tuples, or
        an array (I, levels) whose rows are filled up with "". A prediction that is None, or a row of "" alone, is no
        label: the virtual root.
    taxonomy : LabelTree, or what else `crfqn.taxonomy.reading.open_taxonomy` takes, optional
        None: the nodes on the paths in `y_true` and `y_pred`, or a star if they are no paths.
    average : {"micro", "macro"}, default "micro"
        "micro" sums over the items, as above and in the papers; "macro" is the mean of the items' own precisions,
        recalls and F1s.
    sample_weight : array-like of I numbers, optional
        How often each item counts.
    separator : str, default "/"

    Raises
    ------
    InputError (a ValueError)
        For no items, different numbers of items, labels that are no nodes (they are named), weights out of range,
        and whatever `open_taxonomy` refuses.

    Notes
    -----
    The root is the virtual one of a forest. If a taxonomy is given and has one top only, the root is this top,
    which is on every path and would always be right. At the root itself the set is empty: two empty sets agree,
    precision and recall are 1; where only one is empty, both are 0.

    In a star the three are the accuracy. O(I depth) time and memory.

    References
    ----------
    Kiritchenko, Matwin, Famili: Functional annotation of genes using hierarchical text categorization. BioLINK
    SIG 2005. Kiritchenko, Matwin, Nock, Famili: Learning and evaluation in the presence of class hierarchies.
    Canadian AI 2006.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    numbers = paths.n_shared, paths.n_predicted, paths.n_true
    counts = [np.maximum(n - paths.has_root, 0) for n in numbers]  # no label is on no path
    return _averaged(counts, paths.weights, average)


def lca_precision_recall_f1(
    y_true: Any,
    y_pred: Any,
    taxonomy: Any = None,
    *,
    average: str = "macro",
    sample_weight: Any = None,
    separator: str = "/",
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of the tree paths up to the lowest common ancestor.

    A miss costs the same at any depth.

    T_i and S_i hold the nodes on the paths from the true and from the predicted node of item i up to their lowest
    common ancestor, both ends included. With one label an item in a tree, the ancestor is all that they share:

        precision_i = 1 / |S_i| = 1 / (1 + edges from the predicted node up to the ancestor),
        recall_i = 1 / |T_i| = 1 / (1 + edges from the true node up to the ancestor),
        F1_i = 2 / (2 + edges between the true and the predicted node).

    Parameters
    ----------
    average : {"macro", "micro"}, default "macro"
        "macro" is the mean over the items; "micro" divides sums: sum_i w_i / sum_i w_i |S_i|.
    y_true, y_pred, taxonomy, sample_weight, separator
        As in `hierarchical_precision_recall_f1`, and so are what is returned and the errors.

    Notes
    -----
    The virtual root of a forest counts as a node, like any other root: it is the lowest common ancestor of nodes
    under different tops. So a star, where a miss has precision 1/2, has (1 + accuracy) / 2.

    References
    ----------
    Kosmopoulos, Partalas, Gaussier, Paliouras, Androutsopoulos: Evaluation measures for hierarchical
    classification: a unified view and novel approaches. Data Mining and Knowledge Discovery 29, 2015.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    n_below = [n - paths.n_shared for n in (paths.n_shared, paths.n_predicted, paths.n_true)]
    return _averaged([n + 1 for n in n_below], paths.weights, average)


def _averaged(
    counts: Sequence[NDArray[np.int64]], weights: NDArray[np.float64], average: str
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of sets by the numbers of shared, predicted and true elements of each item."""
    if average not in ("micro", "macro"):
        raise InputError(f"average: expected 'micro' or 'macro', got {describe(average)}")
    table = np.stack(counts).astype(np.float64)
    if average == "micro":
        table, weights = (table * weights).sum(axis=1, keepdims=True), np.ones(1)
    shared, predicted, true = table + (table.sum(axis=0) == 0)  # so that the ratios of two empty sets are 1
    parts = (shared, predicted), (shared, true), (2 * shared, predicted + true)
    ratios = [np.divide(*part, out=np.zeros_like(part[1]), where=part[1] > 0) for part in parts]
    return PrecisionRecallF1(*(float(np.average(ratio, weights=weights)) for ratio in ratios))


def _score(measure: Callable[..., PrecisionRecallF1], part: str) -> Callable[..., float]:
    """Return a function with the measure's parameters that returns one of its numbers."""

    @wraps(measure)
    def score(*labels: Any, **options: Any) -> float:
        return getattr(measure(*labels, **options), part)

    score.__name__ = score.__qualname__ = measure.__name__.replace("precision_recall_f1", f"{part}_score")
    score.__doc__ = f"Return the {part} of `{measure.__name__}`, which has the same parameters and errors."
    # scikit-learn looks here for `sample_weight`.
    score.__signature__ = inspect.signature(measure).replace(return_annotation="float")  # type: ignore[attr-defined]
    return score


hierarchical_precision_score = _score(hierarchical_precision_recall_f1, "precision")
hierarchical_recall_score = _score(hierarchical_precision_recall_f1, "recall")
hierarchical_f1_score = _score(hierarchical_precision_recall_f1, "f1")
lca_precision_score = _score(lca_precision_recall_f1, "precision")
lca_recall_score = _score(lca_precision_recall_f1, "recall")
lca_f1_score = _score(lca_precision_recall_f1, "f1")


def tree_induced_error(
    y_true: Any, y_pred: Any, taxonomy: Any = None, *, sample_weight: Any = None, separator: str = "/"
) -> float:
    """Return the mean number of edges between the true and the predicted node, 0 at best.

    The way from one top of a forest to another leads over the virtual root: two edges. Parameters and errors are
    those of `hierarchical_precision_recall_f1`.

    References
    ----------
    Dekel, Keshet, Singer: Large margin hierarchical classification. ICML 2004.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    n_edges = paths.n_predicted + paths.n_true - 2 * paths.n_shared
    return float(np.average(n_edges, weights=paths.weights))


def level_accuracy(
    y_true: Any, y_pred: Any, taxonomy: Any = None, *, sample_weight: Any = None, separator: str = "/"
) -> NDArray[np.float64]:
    """Return the accuracy at each level of the taxonomy, float64 (levels,); level 1, the tops, comes first.

    At level l it is the share of the items with the true node's ancestor at this level predicted right, among the
    items whose true node has one or is at this level itself. A prediction that stops above counts as a miss; nan
    where no item's true path comes so far. Parameters and errors are those of `hierarchical_precision_recall_f1`.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    accuracies = np.full(int(paths.tree.depths.max()) + 1, np.nan)
    for level in range(1, accuracies.size + 1):
        weights = paths.weights * (paths.n_true >= level)
        if weights.any():
            accuracies[level - 1] = np.average(paths.n_shared >= level, weights=weights)
    return accuracies


class ComparedPaths(NamedTuple):
    """Numbers of nodes, (I,), on the paths from the top to the true and to the predicted node, both ends included, and
    on both paths. `has_root`: all paths begin with the only top of a taxonomy that was given."""

    tree: LabelTree
    n_shared: NDArray[np.int64]
    n_predicted: NDArray[np.int64]
    n_true: NDArray[np.int64]
    weights: NDArray[np.float64]
    has_root: bool


def compare_paths(
    y_true: Any, y_pred: Any, taxonomy: Any, sample_weight: Any, separator: str
) -> ComparedPaths:
    """Find the nodes of the labels in the taxonomy and compare their paths; O(I depth) time and memory."""
    y_pred, is_label = _without_no_label(y_pred)
    true, predicted = _of_both(lambda y: PathTargets.from_y(y, separator), y_true, y_pred)
    n_items, n_labels = true.names.size, predicted.names.size if is_label is None else is_label.size
    if n_items != n_labels:
        raise InputError(f"expected as many predictions as true labels, got {n_labels} and {n_items}")
    if not n_items:
        raise InputError("expected at least one label to score, got none")
    weights = check_item_weights(sample_weight, n_items)
    # Objects, so that numbers beside strings do not become strings.
    names = np.concatenate([true.names.astype(object), predicted.names.astype(object)])
    tree = open_taxonomy(taxonomy, PathTargets(names, true.form or predicted.form), separator)
    is_rows = true.is_rows or predicted.is_rows
    nodes = _of_both(lambda labels: find_nodes(tree, labels.names, taxonomy, is_rows), true, predicted)
    ancestors, lengths = tree.ancestors(), tree.depths.astype(np.int64) + 1
    places = np.arange(n_items) if is_label is None else np.flatnonzero(is_label)
    n_shared, n_predicted = np.zeros((2, n_items), np.int64)
    n_shared[places] = ancestors[nodes[0][places]].multiply(ancestors[nodes[1]]).sum(axis=1)
    n_predicted[places] = lengths[nodes[1]]
    weights = np.ones(n_items) if weights is None else weights
    # A taxonomy that is made of the labels has no root: other labels could lie under another top.
    has_root = taxonomy is not None and np.count_nonzero(tree.depths == 0) == 1
    return ComparedPaths(tree, n_shared, n_predicted, lengths[nodes[0]], weights, has_root)


def _without_no_label(y_pred: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return predictions without those that are no label, and which are one, (I,); None where all are."""
    if isinstance(y_pred, (str, bytes, Mapping)) or not isinstance(y_pred, Iterable):
        return y_pred, None  # which are no labels
    labels = list(y_pred)
    is_label = np.array(
        [
            any(part not in (None, "") for part in label) if is_row(label) else label is not None
            for label in labels
        ],
        bool,
    )
    if is_label.all():
        return y_pred, None
    return [label for label, is_one in zip(labels, is_label, strict=True) if is_one], is_label


def _of_both(function: Callable[[Any], T], true: Any, predicted: Any) -> tuple[T, T]:
    """Return the function's values of true and predicted labels; an InputError names those that it is about."""
    values = []
    for name, labels in (("y_true", true), ("y_pred", predicted)):
        try:
            values.append(function(labels))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    return values[0], values[1]
