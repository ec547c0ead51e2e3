"""Encoding of single items, which are rows of a matrix and have a label or several: in memory, blocks on disk, batches.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, validate_data

from crfqn.arrays import Vector
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features, check_dense, sparse_of
from crfqn.data.items import Handover, check_values, item_weights, set_weights
from crfqn.data.label_arrays import encode_known_labels, encode_labels, item_labels
from crfqn.data.matrices import canonical, is_plain_array
from crfqn.data.token_rows import TokenRows
from crfqn.errors import InputError
from crfqn.estimators.blocks import Blocks
from crfqn.estimators.multilabel_targets import MultilabelTargets, are_sets, check_classification
from crfqn.estimators.problem import Encoded, InMemory, OnDisk
from crfqn.messages import place_of
from crfqn.model.answers import SET_ANSWERS
from crfqn.model.item_space import ItemSpace
from crfqn.model.label_index import LabelIndex
from crfqn.model.tables import Table
from crfqn.model.texts import Words, is_text_list
from crfqn.model.unknown_features import warn_of_empty_rows
from crfqn.objectives.linear.dense_map import DenseMap, HStackMap
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.threads import Pool, single_threaded_blas

# Of an array's entries, those that are not zero: index arrays take 12 bytes for each of these, the array is there.
MOSTLY = 0.5
# Types of columns, of pandas and polars.
CATEGORIES = ("category", "categorical", "enum", "string", "str")
TIMES = ("datetime64", "datetime", "date", "time", "timedelta64", "duration", "period")
READ: Any = {"accept_sparse": ("csr", "csc"), "dtype": "numeric"}  # what scikit-learn checks of a matrix


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a training's matrix: their number, their names, None without any, and those of a dense block."""

    n_features_in_: int = 0
    feature_names: list[str] | None = None
    n_dense_: int = 0


class Targets(NamedTuple):
    """Labels of a training's items: the space to choose from, the labels as the loss takes them (int32 (I,), nodes,
    unless an estimator says otherwise), and how often each item counts, float64 (I,), None for once."""

    space: LabelIndex
    labels: Any
    weights: Vector | None


def encode_rows(X: Any, y: Any, sample_weight: Any, settings: Any) -> Encoded:
    """Return items in memory; parameters and errors as of `ItemEstimator.fit`. A `Handover` is freed on the way."""
    X, targets, columns = read_rows(Handover.release_argument(X), y, sample_weight, settings)
    return encode_targets(X, targets, columns, settings)


def encode_targets(
    X: Any, targets: Targets, columns: Columns, settings: Any, centre: Vector | None = None
) -> Encoded:
    """Return checked items with their labels; centre : of the features, (F,), by default their means."""
    space = space_of(settings, targets.space, columns)
    with single_threaded_blas(), Pool(settings.n_threads) as pool:  # sums do not depend on threads
        features = item_features(X, settings.fit_intercept, pool)
        del X
        if space.unpenalised.size:
            features = features.centered_at(features.means(targets.weights) if centre is None else centre)
    loss = settings.make_loss(targets.space, features.n_items, targets.labels)
    source = settings.adapted_source(InMemory(features, loss, targets.weights), targets.labels)
    keeps_source = (
        settings.ANSWERS is SET_ANSWERS and not targets.space.has_one_label
    )  # thresholds are learnt from items
    return Encoded(space, source, features.n_items, keeps_source=keeps_source)


def encode_row_blocks(blocks: Blocks, settings: Any) -> Encoded:
    """Return items in blocks on disk, whose features are taken as they are, without centring."""
    blocks.check_kind(is_of_sequences=False)
    if settings.TAKES_SETS or settings.class_weight is not None:
        raise InputError(
            "blocks: expected a model of one label an item and class_weight=None, as no block has all items"
        )
    labels, nodes = settings.learn_labels(blocks.classes, None)
    codes = np.asarray(nodes, np.int32)

    def loss_of(store: FeatureStore, targets: NDArray[np.int32]) -> Any:
        return settings.make_loss(labels, store.n_items, codes[targets])

    space = space_of(settings, labels, Columns(blocks.n_features))
    return Encoded(space, OnDisk(blocks, loss_of, space.has_constant), int(blocks.n_items.sum()))


def space_of(settings: Any, labels: LabelIndex, columns: Columns) -> ItemSpace:
    """Return the space of a training's weights."""
    return ItemSpace(
        columns.n_features_in_,
        labels,
        settings.KIND,
        columns.feature_names,
        not settings.penalize_intercept,
        settings.is_centered(labels),
        getattr(settings, "taxonomy", None) is not None,
        has_constant=bool(settings.fit_intercept),
        n_dense=columns.n_dense_,
        loss=getattr(settings, "loss", "logistic"),
    )


def read_rows(X: Any, y: Any, sample_weight: Any, settings: Any) -> tuple[Any, Targets, Columns]:
    """Return the items of positive weight, their labels and their columns, checked."""
    if settings.TAKES_SETS:
        return _read_sets(X, y, sample_weight, settings)
    names, rows = settings.label_names(y)
    X, names, columns = new_rows(settings, X, names)
    classes, codes = encode_labels(names, np.arange(names.size + 1))
    check_classification(names, classes)
    weights = item_weights(sample_weight, settings.class_weight, classes, codes)
    if weights is not None and not weights.all():
        stays = weights > 0
        X, weights = X[np.flatnonzero(stays)], weights[stays]
        classes, codes = encode_labels(classes[codes[stays]], np.arange(weights.size + 1))
    space, nodes = settings.learn_labels(classes, rows)
    return X, Targets(space, nodes[codes], weights), columns


def _read_sets(X: Any, y: Any, sample_weight: Any, settings: Any) -> tuple[Any, Targets, Columns]:
    if are_sets(y):
        X, columns = new_rows(settings, X)
        check_consistent_length(X, y)
    else:
        X, y, columns = new_rows(settings, X, item_labels(y), multi_output=True)
    sets = MultilabelTargets.from_y(y)
    weights = set_weights(sample_weight, settings.class_weight, sets.classes, sets.table)
    if weights is not None and not weights.all():
        stays = np.flatnonzero(weights > 0)
        X, sets, weights = X[stays], sets.take(stays), weights[stays]
    check_classes(sets.classes)
    return (
        X,
        Targets(LabelIndex.flat(sets.classes, sets.form), settings.targets_of_sets(sets), weights),
        columns,
    )


def read_batch(
    X: Any, y: Any, sample_weight: Any, classes: NDArray, known: LabelIndex | None, settings: Any
) -> tuple[Any, Targets, Columns]:
    """Return the items of a batch, labels among the classes of all batches; known : those of the calls before."""
    if settings.class_weight == "balanced":
        raise InputError(
            "class_weight: 'balanced' needs all items at once; partial_fit expects None or a dict"
        )
    names, rows = settings.label_names(y)
    space = settings.learn_labels(classes, rows)[0] if known is None else known
    if known is None:
        X, names, columns = new_rows(settings, X, names)
    else:
        (X, names), model = known_rows(settings, X, names), settings.model_
        columns = Columns(model.n_features_in_, model.feature_names)
    codes = encode_known_labels(names, np.arange(len(names) + 1), space.classes)
    weights = item_weights(sample_weight, settings.class_weight, space.classes, codes)
    return X, Targets(space, space.nodes[codes], weights), columns


def new_rows(settings: Any, X: Any, *y: Any, **options: Any) -> tuple[Any, ...]:
    """Return items, labels if given, and columns of a training, as scikit-learn checks them."""
    dense = X if isinstance(X, Features) and settings.TAKES_DENSE else None
    reading = settings.with_model(
        Columns(n_dense_=0 if dense is None else dense.n_dense)
    )  # takes the columns
    rows = validated(reading, canonical(X if dense is None else dense.sparse), *y, **READ, **options)
    X, *labels = rows if y else (rows,)
    return (X if dense is None else dense.beside(X), *labels, reading.model_)


def known_rows(estimator: Any, X: Any, *y: Any) -> Any:
    """Return items, and labels if given, for a fitted estimator, checked. Items may have the forms that `Model.predict`
    takes."""
    items = check_dense(X, estimator.n_dense_) if estimator.TAKES_DENSE else X
    X = canonical(sparse_of(items) if estimator.TAKES_DENSE else items)
    features = X if hasattr(X, "tocsr") else featurized(estimator, X)
    is_checked = features is not X and not y
    rows = features if is_checked else validated(estimator, features, *y, reset=False, **READ)
    if not estimator.n_dense_:
        return rows
    return (items.beside(rows[0]), *rows[1:]) if y else items.beside(rows)


def featurized(estimator: Any, X: Any) -> Any:
    """Return new items as a matrix where they have none of numbers: a table's rows, texts, or dicts of features."""
    featurizer, is_list = estimator.featurizer_, isinstance(X, (list, tuple))
    if isinstance(featurizer, Table):
        rows = featurizer.read(X)
    elif isinstance(featurizer, Words) and (isinstance(X, str) or is_text_list(X)):
        rows = featurizer.rows(X)
    elif is_list and any(isinstance(item, Mapping) for item in X):
        rows = estimator.current_model.rows(X, warns=False)
    else:
        return X
    n_items = rows.row_ends.size - 1
    matrix = TokenRows(rows, np.arange(n_items + 1), estimator.n_features_in_).matrix()
    if not isinstance(featurizer, Table) and not estimator.n_dense_:
        warn_of_empty_rows(matrix)
    return matrix


def item_features(X: Any, has_constant: bool, pool: Pool, is_sparse: bool = False) -> Any:
    """Return the map of checked items, a row each, with a last feature that is always 1 if asked for. An array that is
    mostly not zero is kept without a copy (small integers become float32), unless it is taken as `is_sparse`."""
    if isinstance(X, Features):
        sparse = item_features(X.sparse, has_constant, pool, is_sparse=True)
        return HStackMap([DenseMap.from_matrix(X.dense, X.offsets, pool=pool), sparse])
    offsets = np.arange(X.shape[0] + 1)
    if not is_sparse and is_plain_array(X) and np.count_nonzero(X) >= MOSTLY * max(X.size, 1):
        return DenseMap.from_matrix(X, offsets, has_constant, pool)
    store = FeatureStore.from_matrix(X, offsets)
    return SparseMap(store.with_constant() if has_constant else store, pool)


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return rows, and labels if given, as scikit-learn's `validate_data` does; InputError for values that are too
    large, by item and feature, for columns of a data frame that are no numbers, and for dicts."""
    check_columns(X)
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping):
        raise InputError(
            "expected rows of numbers, got dicts; sklearn.feature_extraction.DictVectorizer makes a row of each"
        )
    checked = validate_data(estimator, X, *y, **options)
    rows = checked[0] if y else checked
    check_values(rows, place_of, getattr(estimator, "feature_names_in_", None))
    return checked


def check_columns(X: Any) -> None:
    """Raise InputError, naming the first one, for columns of a data frame whose type is one of texts or categories."""
    for name, dtype in zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False):
        kind = re.split(r"[(\[]", str(dtype))[0].lower()
        if kind in TIMES:
            raise InputError(
                f"column {name!r}: expected numbers, got the type {dtype}; make numbers of moments first, such as days "
                "since a date"
            )
        if kind in CATEGORIES:
            raise InputError(
                f"column {name!r}: expected numbers, got the type {dtype}; sklearn.preprocessing.OneHotEncoder makes a "
                "column of each text, as `crfqn train --features table` does of the columns of a file"
            )


def check_classes(classes: NDArray) -> None:
    """Raise InputError unless there is a class; one is enough, for a model that predicts it always."""
    if not classes.size:
        raise InputError("expected at least one label, got none")
