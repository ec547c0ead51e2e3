"""Metrics for labels that are nodes of a taxonomy: they measure the distance of a prediction from the true node.

An item has one true and one predicted node, either of which may be an inner node. Every measure follows from three
numbers of an item: the numbers t and p of nodes on the paths from the top to the true and to the predicted node, both
ends included, and the number c of nodes that the two paths share:

    hierarchical precision c / p, recall c / t               (Kiritchenko et al. 2005)
    LCA precision 1 / (1 + p - c), recall 1 / (1 + t - c)    (Kosmopoulos et al. 2015)
    tree-induced error t + p - 2 c                           (Dekel et al. 2004)
    correct at level l: c >= l

The virtual root above the tops of a forest is on no path; it is the lowest common ancestor if c = 0.
Shapes: I items.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.data.inputs import SampleWeight
from crfqn.data.items import check_item_weights
from crfqn.errors import InputError
from crfqn.messages import describe
from crfqn.metrics.spans import PrecisionRecallF1
from crfqn.taxonomy.label_paths import PathTargets, is_row
from crfqn.taxonomy.reading import find_nodes, open_taxonomy
from crfqn.taxonomy.tree import LabelTree

Found = TypeVar("Found")


def hierarchical_precision_recall_f1(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    taxonomy: object = None,
    *,
    average: str = "micro",
    sample_weight: SampleWeight = None,
    separator: str = "/",
) -> PrecisionRecallF1:
    """Return hierarchical precision, recall and F1, those of the nodes together with their ancestors.

    With T_i and S_i the true and the predicted node of item i, each with its ancestors but without the root,

        precision = sum_i w_i |S_i & T_i| / sum_i w_i |S_i|,    recall = sum_i w_i |S_i & T_i| / sum_i w_i |T_i|.

    Parameters
    ----------
    y_true, y_pred : array-like of I labels
        Names of nodes, or paths from the top: strings with `separator` between the names, a list of tuples, or an array
        (I, levels) whose rows are padded with "". A prediction that is None, or a row of "" only, is no label and
        counts as the virtual root.
    taxonomy : LabelTree, or another form that `crfqn.taxonomy.reading.open_taxonomy` accepts, optional
        None: the nodes on the paths in `y_true` and `y_pred`, or a star if the labels are not paths.
    average : {"micro", "macro"}, default "micro"
        "micro" sums over the items, as above and in the papers; "macro" is the mean of the items' own precisions,
        recalls and F1s.
    sample_weight : array-like of I numbers, optional
        How often each item counts.
    separator : str, default "/"

    Raises
    ------
    InputError (a ValueError)
        For no items, different numbers of items, labels that are not nodes (the message names them), weights out of
        range, and the errors of `open_taxonomy`.

    Notes
    -----
    The root is the virtual root of a forest. If a taxonomy is given and has only one top, the root is this top, which
    is on every path and would always be correct. The set of the root itself is empty: precision and recall are 1 if
    both sets are empty, and 0 if only one is.

    In a star the three numbers equal the accuracy. O(I depth) time and memory.

    References
    ----------
    Kiritchenko, Matwin, Famili: Functional annotation of genes using hierarchical text categorization. BioLINK
    SIG 2005. Kiritchenko, Matwin, Nock, Famili: Learning and evaluation in the presence of class hierarchies.
    Canadian AI 2006.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    numbers = paths.n_shared, paths.n_predicted, paths.n_true
    counts = [np.maximum(n - paths.has_root, 0) for n in numbers]  # the path of no label is empty
    return _averaged(counts, paths.weights, average)


def lca_precision_recall_f1(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    taxonomy: object = None,
    *,
    average: str = "macro",
    sample_weight: SampleWeight = None,
    separator: str = "/",
) -> PrecisionRecallF1:
    """Return precision, recall and F1 of the tree paths up to the lowest common ancestor.

    A wrong node has the same cost at any depth.

    T_i and S_i are the nodes on the paths from the true and from the predicted node of item i up to their lowest
    common ancestor, both ends included. With one label per item, T_i and S_i share only this ancestor:

        precision_i = 1 / |S_i| = 1 / (1 + edges from the predicted node up to the ancestor),
        recall_i = 1 / |T_i| = 1 / (1 + edges from the true node up to the ancestor),
        F1_i = 2 / (2 + edges between the true and the predicted node).

    Parameters
    ----------
    average : {"macro", "micro"}, default "macro"
        "macro" is the mean over the items; "micro" divides sums: sum_i w_i / sum_i w_i |S_i|.
    y_true, y_pred, taxonomy, sample_weight, separator
        As in `hierarchical_precision_recall_f1`, as are the return value and the errors.

    Notes
    -----
    The virtual root of a forest counts as a node, like any other root: it is the lowest common ancestor of nodes
    under different tops. In a star, a wrong label has precision 1/2, so that the mean is (1 + accuracy) / 2.

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
    shared, predicted, true = table + (table.sum(axis=0) == 0)  # so that the ratio of two empty sets is 1
    parts = (shared, predicted), (shared, true), (2 * shared, predicted + true)
    ratios = [np.divide(*part, out=np.zeros_like(part[1]), where=part[1] > 0) for part in parts]
    return PrecisionRecallF1(*(float(np.average(ratio, weights=weights)) for ratio in ratios))


def _score(measure: Callable[..., PrecisionRecallF1], part: str) -> Callable[..., float]:
    """Return a function with the measure's parameters that returns the field `part` of its value."""

    @wraps(measure)
    def score(*labels: Any, **options: Any) -> float:
        return getattr(measure(*labels, **options), part)

    score.__name__ = score.__qualname__ = measure.__name__.replace("precision_recall_f1", f"{part}_score")
    score.__doc__ = f"Return the {part} of `{measure.__name__}`, which has the same parameters and errors."
    # scikit-learn reads here whether there is a `sample_weight`.
    score.__signature__ = inspect.signature(measure).replace(return_annotation="float")  # type: ignore[attr-defined]
    return score


hierarchical_precision_score = _score(hierarchical_precision_recall_f1, "precision")
hierarchical_recall_score = _score(hierarchical_precision_recall_f1, "recall")
hierarchical_f1_score = _score(hierarchical_precision_recall_f1, "f1")
lca_precision_score = _score(lca_precision_recall_f1, "precision")
lca_recall_score = _score(lca_precision_recall_f1, "recall")
lca_f1_score = _score(lca_precision_recall_f1, "f1")


def tree_induced_error(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    taxonomy: object = None,
    *,
    sample_weight: SampleWeight = None,
    separator: str = "/",
) -> float:
    """Return the mean number of edges between the true and the predicted node, 0 at best.

    The path from one top of a forest to another has two edges, over the virtual root. Parameters and errors are
    those of `hierarchical_precision_recall_f1`.

    References
    ----------
    Dekel, Keshet, Singer: Large margin hierarchical classification. ICML 2004.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    n_edges = paths.n_predicted + paths.n_true - 2 * paths.n_shared
    return float(np.average(n_edges, weights=paths.weights))


def level_accuracy(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    taxonomy: object = None,
    *,
    sample_weight: SampleWeight = None,
    separator: str = "/",
) -> NDArray[np.float64]:
    """Return the accuracy at each level of the taxonomy, float64 (levels,); level 1, the tops, comes first.

    The accuracy at level l is the fraction of correct nodes at this level, over the items whose true path reaches the
    level. A prediction that stops above the level counts as wrong. It is nan if no true path reaches the level.
    Parameters and errors are those of `hierarchical_precision_recall_f1`.
    """
    paths = compare_paths(y_true, y_pred, taxonomy, sample_weight, separator)
    accuracies = np.full(int(paths.tree.depths.max()) + 1, np.nan)
    for level in range(1, accuracies.size + 1):
        weights = paths.weights * (paths.n_true >= level)
        if weights.any():
            accuracies[level - 1] = np.average(paths.n_shared >= level, weights=weights)
    return accuracies


class ComparedPaths(NamedTuple):
    """Numbers of nodes, (I,), on the paths from the top to the true and to the predicted node, and on both paths.

    has_root : whether all paths begin with the only top of a given taxonomy
    """

    tree: LabelTree
    n_shared: NDArray[np.int64]
    n_predicted: NDArray[np.int64]
    n_true: NDArray[np.int64]
    weights: NDArray[np.float64]
    has_root: bool


def compare_paths(
    y_true: Iterable[object],
    y_pred: Iterable[object],
    taxonomy: object,
    sample_weight: SampleWeight,
    separator: str,
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
    # An object array, so that numbers do not become strings.
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
    # A taxonomy inferred from the labels has no root, as other labels could be under another top.
    has_root = taxonomy is not None and np.count_nonzero(tree.depths == 0) == 1
    return ComparedPaths(tree, n_shared, n_predicted, lengths[nodes[0]], weights, has_root)


def _without_no_label(y_pred: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return the predictions that are labels, and a mask of them, (I,); None if all are."""
    if isinstance(y_pred, (str, bytes, Mapping)) or not isinstance(y_pred, Iterable):
        return y_pred, None  # not a list of labels; the caller raises an error
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


def _of_both(function: Callable[[Any], Found], true: Any, predicted: Any) -> tuple[Found, Found]:
    """Return the function's values for true and predicted labels; an InputError names y_true or y_pred."""
    values = []
    for name, labels in (("y_true", true), ("y_pred", predicted)):
        try:
            values.append(function(labels))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    return values[0], values[1]
