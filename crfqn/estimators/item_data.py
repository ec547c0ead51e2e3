"""Encodes labelled single items, which are rows of a matrix: in memory, in blocks on disk, and batches of
`partial_fit`.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, validate_data

from crfqn.arrays import Labels, Vector
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features, check_dense, sparse_of
from crfqn.data.inputs import ItemsLike, LabelsLike, SampleWeight, SparseMatrix
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
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.threads import Pool, single_threaded_blas

Rows: TypeAlias = "NDArray | SparseMatrix | Features"  # checked items
ItemMap: TypeAlias = DenseMap | SparseMap | HStackMap

# Arrays with this fraction of entries other than zero, or more, are stored as they are. A sparse store would take 12
# bytes for each such entry, besides the array of 8 bytes for each entry.
DENSE_FRACTION = 0.5
# Types of columns in pandas and polars that are not numbers.
CATEGORY_TYPES = ("category", "categorical", "enum", "string", "str")
TIME_TYPES = ("datetime64", "datetime", "date", "time", "timedelta64", "duration", "period")
# Arguments of scikit-learn's validate_data.
MATRIX_CHECKS: dict[str, Any] = {"accept_sparse": ("csr", "csc"), "dtype": "numeric"}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of a training: their number, their names or None, and the number of columns of a dense block."""

    n_features_in_: int = 0
    feature_names: list[str] | None = None
    n_dense_: int = 0


class Targets(NamedTuple):
    """Labels of the items of a training.

    space : the possible labels
    labels : nodes, int32 (I,), or the targets of a loss of label sets
    weights : of the items, float64 (I,), None if all are 1
    """

    space: LabelIndex
    labels: Any
    weights: Vector | None


def encode_rows(
    X: ItemsLike | Handover, y: LabelsLike | None, sample_weight: SampleWeight, settings: BaseEstimator
) -> Encoded:
    """Return items in memory; parameters and errors as in `ItemEstimator.fit`. The items of a `Handover` are freed
    early."""
    rows, targets, columns = read_training_rows(Handover.release_argument(X), y, sample_weight, settings)
    return encode_targets(rows, targets, columns, settings)


def encode_targets(
    X: Rows, targets: Targets, columns: Columns, settings: BaseEstimator, centre: Vector | None = None
) -> Encoded:
    """Return checked items with their labels; centre : of the features, (F,), by default their means."""
    space = item_space(settings, targets.space, columns)
    with single_threaded_blas(), Pool(settings.n_threads) as pool:  # sums must not depend on threads
        features = item_features(X, settings.fit_intercept, pool)
        del X
        if space.unpenalised.size:
            features = features.centered_at(features.means(targets.weights) if centre is None else centre)
    loss = settings.make_loss(targets.space, features.n_items, targets.labels)
    source = settings.adapted_source(InMemory(features, loss, targets.weights), targets.labels)
    # Thresholds of label sets need the source.
    keeps_source = settings.ANSWERS is SET_ANSWERS and not targets.space.has_one_label
    return Encoded(space, source, features.n_items, keeps_source=keeps_source)


def encode_row_blocks(blocks: Blocks, settings: BaseEstimator) -> Encoded:
    """Return items in blocks on disk; their features are not centred."""
    blocks.check_kind(is_of_sequences=False)
    if settings.TAKES_SETS or settings.class_weight is not None:
        raise InputError(
            "blocks: expected a model of one label an item and class_weight=None, as no block has all items"
        )
    labels, nodes = settings.learn_labels(blocks.classes, None)
    codes = np.asarray(nodes, np.int32)

    def make_loss(store: FeatureStore, targets: Labels) -> ScoreLoss:
        loss: ScoreLoss = settings.make_loss(labels, store.n_items, codes[targets])
        return loss

    space = item_space(settings, labels, Columns(blocks.n_features))
    return Encoded(space, OnDisk(blocks, make_loss, space.has_constant), int(blocks.n_items.sum()))


def item_space(settings: BaseEstimator, labels: LabelIndex, columns: Columns) -> ItemSpace:
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


def read_training_rows(
    X: ItemsLike, y: LabelsLike | None, sample_weight: SampleWeight, settings: BaseEstimator
) -> tuple[Any, Targets, Columns]:
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


def _read_sets(
    X: ItemsLike, y: LabelsLike | None, sample_weight: SampleWeight, settings: BaseEstimator
) -> tuple[Any, Targets, Columns]:
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
    check_any_class(sets.classes)
    return (
        X,
        Targets(LabelIndex.flat(sets.classes, sets.form), settings.targets_of_sets(sets), weights),
        columns,
    )


def read_batch(
    X: ItemsLike,
    y: LabelsLike,
    sample_weight: SampleWeight,
    classes: NDArray,
    known: LabelIndex | None,
    settings: BaseEstimator,
) -> tuple[Any, Targets, Columns]:
    """Return the items of a batch, with labels among the classes of all batches; known : the labels of earlier
    calls."""
    if settings.class_weight == "balanced":
        raise InputError("class_weight: 'balanced' needs all items; partial_fit expects None or a dict")
    names, rows = settings.label_names(y)
    space = settings.learn_labels(classes, rows)[0] if known is None else known
    if known is None:
        X, names, columns = new_rows(settings, X, names)
    else:
        (X, names), model = rows_of_model(settings, X, names), settings.model_
        columns = Columns(model.n_features_in_, model.feature_names)
    codes = encode_known_labels(names, np.arange(len(names) + 1), space.classes)
    weights = item_weights(sample_weight, settings.class_weight, space.classes, codes)
    return X, Targets(space, space.nodes[codes], weights), columns


def new_rows(
    settings: BaseEstimator, X: ItemsLike, *y: LabelsLike | None, **options: object
) -> tuple[Any, ...]:
    """Return items, labels if given, and columns of a training, checked by scikit-learn."""
    dense = X if isinstance(X, Features) and settings.TAKES_DENSE else None
    # scikit-learn sets n_features_in_ and feature_names_in_ of this estimator.
    reading = settings.with_model(Columns(n_dense_=0 if dense is None else dense.n_dense))
    rows = validated(reading, canonical(X if dense is None else dense.sparse), *y, **MATRIX_CHECKS, **options)
    X, *labels = rows if y else (rows,)
    return (X if dense is None else dense.beside(X), *labels, reading.model_)


def rows_of_model(estimator: BaseEstimator, X: ItemsLike, *y: LabelsLike) -> Any:
    """Return checked items, and labels if given, in the columns of a fitted estimator. Items may have any form of
    `Model.predict`."""
    items: Any = check_dense(X, estimator.n_dense_) if estimator.TAKES_DENSE else X
    X = canonical(sparse_of(items) if estimator.TAKES_DENSE else items)
    features = X if hasattr(X, "tocsr") else featurized(estimator, X)
    is_checked = features is not X and not y
    rows = features if is_checked else validated(estimator, features, *y, reset=False, **MATRIX_CHECKS)
    if not estimator.n_dense_:
        return rows
    return (items.beside(rows[0]), *rows[1:]) if y else items.beside(rows)


def featurized(estimator: BaseEstimator, X: Any) -> Any:
    """Return new items as a matrix if they are rows of a table, texts, or dicts of features; else unchanged."""
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


def item_features(X: Rows, has_constant: bool, pool: Pool, is_sparse: bool = False) -> ItemMap:
    """Return the feature map of checked items, one in each row, with a last feature of ones if `has_constant`. Dense
    arrays with few zeros are stored without a copy (small integers as float32), unless `is_sparse`."""
    if isinstance(X, Features):
        sparse = item_features(X.sparse, has_constant, pool, is_sparse=True)
        return HStackMap([DenseMap.from_matrix(X.dense, X.offsets, pool=pool), sparse])
    offsets = np.arange(X.shape[0] + 1)
    if not is_sparse and is_plain_array(X) and np.count_nonzero(X) >= DENSE_FRACTION * max(X.size, 1):
        return DenseMap.from_matrix(X, offsets, has_constant, pool)
    store = FeatureStore.from_matrix(X, offsets)
    return SparseMap(store.with_constant() if has_constant else store, pool)


def validated(estimator: BaseEstimator, X: ItemsLike, *y: LabelsLike | None, **options: object) -> Any:
    """Return rows, and labels if given, checked by scikit-learn's `validate_data`; InputError for values that are too
    large, naming item and feature, for columns of a data frame that are not numbers, and for dicts."""
    if hasattr(X, "to_pandas") and hasattr(X, "column_names"):  # a Dataset of Hugging Face
        X = X.to_pandas()
    check_columns(X)
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping):
        raise InputError(
            "expected rows of numbers, got dicts; sklearn.feature_extraction.DictVectorizer makes rows of dicts"
        )
    checked = validate_data(estimator, X, *y, **options)
    rows = checked[0] if y else checked
    check_values(rows, place_of, getattr(estimator, "feature_names_in_", None))
    return checked


def check_columns(X: ItemsLike) -> None:
    """Raise InputError, naming the first column, for a data frame with columns of texts, categories or times."""
    for name, dtype in zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False):
        kind = re.split(r"[(\[]", str(dtype))[0].lower()
        if kind in TIME_TYPES:
            raise InputError(
                f"column {name!r}: expected numbers, got the type {dtype}; convert times to numbers first, such as "
                "days since a date"
            )
        if kind in CATEGORY_TYPES:
            raise InputError(
                f"column {name!r}: expected numbers, got the type {dtype}; sklearn.preprocessing.OneHotEncoder makes a "
                "column of each text, as `crfqn train --features table` does of the columns of a file"
            )


def check_any_class(classes: NDArray) -> None:
    """Raise InputError if there is no class. With one class, the model always predicts it."""
    if not classes.size:
        raise InputError("expected one or more labels, got none")
