"""Labelling of single items by a model file, flat or in a taxonomy, with numpy alone.

Items are rows of numbers, as `estimators/items.py` takes them, or dicts of those that are not 0; of a model of a
table rows of its cells. Shapes: I items, F features, K nodes (flat: the classes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.hybrid import check_dense, sparse_of
from crfqn.data.label_codes import encode_known_labels
from crfqn.data.matrices import canonical
from crfqn.data.model_file import ModelFile
from crfqn.data.values import LARGEST_VALUE, check_values, wrong_value
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe, shorten
from crfqn.model.content import (
    FEATURE,
    STATE,
    TAXONOMY,
    finite,
    read_dense,
    read_entries,
    read_labels,
    read_size,
)
from crfqn.model.predictor import Predictor, check_number
from crfqn.model.scores import FeatureWeights, Rows
from crfqn.model.tables import TableColumns
from crfqn.model.texts import WordCounts
from crfqn.model.tree import class_names, descend, name_array, path_sums, read_tree, sum_up
from crfqn.model.unknown_features import warn_of_unknown
from crfqn.taxonomy.labels import PathLabels
from crfqn.taxonomy.tree import NO_PARENT

BLOCK_NUMBERS = 1 << 23  # scores of a block of items: 64 MB, and a few arrays like it


class ItemPredictor(Predictor):
    """The predictions of a `MulticlassCRF`, `MulticlassClassifier` or `TaxonomyCRF`, under their names."""

    LABELS_SEQUENCES = False

    def __init__(self, file: ModelFile) -> None:
        super().__init__(file)
        self._taxonomy = read_tree(file) if file.kind == TAXONOMY else None
        if self._taxonomy is None:
            self.classes_ = read_labels(file, file.count("n_classes", 1))
            n_nodes = self.classes_.size
        else:
            self.tree_ = self._taxonomy.tree
            self.separator = self._taxonomy.separator
            self.taxonomy = self.tree_ if file.metadata["has_taxonomy"] else None
            self.tree_.check_depth()
            self.classes_ = class_names(self.tree_, self._taxonomy.nodes)
            n_nodes = self.tree_.n_nodes
            self._nodes = self.tree_.nodes_of(self.classes_)
        self.n_features_in_ = read_size(file, n_nodes)
        self._names = file.string_list("feature_names") if "feature_names" in file.strings else None
        if self._names is not None and len(self._names) != self.n_features_in_:
            raise ModelFileError(f"{file.path}: {len(self._names)} names for {self.n_features_in_} features")
        shape, intercept = (n_nodes, self.n_features_in_), finite(file, "intercept", (n_nodes,))
        self.weights = FeatureWeights(read_entries(file, "node", STATE, FEATURE, shape), shape, intercept)
        self.dense_coef_ = read_dense(file, n_nodes)
        self._words = self._text_features()
        self.table = self._table_columns()
        self._columns = dict(zip(self._names or (), range(self.n_features_in_), strict=False))

    @property
    def takes_texts(self) -> bool:
        """Whether items are texts, whose words are features."""
        return self._words is not None

    @property
    def names(self) -> Sequence[str] | None:
        """The names of all features, None where they have none."""
        return self._names

    @property
    def node_names(self) -> list:
        """The names of the nodes, without a taxonomy the labels."""
        return super().node_names if self._taxonomy is None else list(self.tree_.names)

    def predict(self, X: Any, threshold: float | None = None) -> NDArray:
        """Return the most probable label of each item; others as of the estimators."""
        if threshold is None:
            best = [scores.argmax(axis=1) for scores in self._class_scores(X)]
            return self._as_given(self.classes_[np.concatenate(best)])
        if self._taxonomy is None:
            raise InputError("threshold: expected None, as the labels are in no taxonomy")
        if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= threshold <= 1:
            raise InputError(f"threshold: expected None or a number from 0 to 1, got {threshold!r}")
        self.check_probabilities()
        nodes = (self._node_probabilities(np.exp(logs)) for logs in self._log_probabilities(X))
        reached = [descend(p.T, self.tree_.parents, float(threshold)) for p in nodes]
        return self._as_given(name_array(self.tree_.names)[np.concatenate(reached)])

    def decode(self, X: Any) -> tuple[NDArray, Vector]:
        """Return the most probable label of each item and its log-probability."""
        found = [(logs.argmax(axis=1), logs.max(axis=1)) for logs in self._log_probabilities(X)]
        best, log_probability = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return self._as_given(self.classes_[best]), log_probability

    def predict_log_proba(self, X: Any) -> Vector:
        """Return log P(k | x) of each class, float64 (n_items, n_classes)."""
        return np.concatenate([*self._log_probabilities(X)])

    def predict_proba(self, X: Any) -> Vector:
        """Return P(k | x) of each class, float64 (n_items, n_classes), summing to 1."""
        return np.exp(self.predict_log_proba(X))

    def predict_nodes(self, X: Any) -> Vector:
        """Return P(the label is node k or lies under it), float64 (n_items, K), in the order of `tree_.names`."""
        return self._node_probabilities(self.predict_proba(X))

    def predict_marginals(self, X: Any) -> Vector:
        """Return the same as `predict_proba`."""
        return self.predict_proba(X)

    def predict_nbest(self, X: Any, n: int = 5) -> list[list[tuple[Any, float]]]:
        """Return the n most probable labels of each item with their probabilities; ties go to the earlier class."""
        n = check_number(n)
        names, found = self.classes_.tolist(), []
        for row in self.predict_proba(X):
            best = np.argsort(-row, kind="stable")[:n].tolist()
            found.append([(names[k], float(row[k])) for k in best])
        return found

    def strongest_features(self, X: Any, n: int = 5) -> list[list[tuple[Any, float]]]:
        """Return for each item the n features that say most for or against its best label, in a taxonomy for the nodes
        down to it: their names (or columns) and weights times values, the largest in size first."""
        n, rows = check_number(n), self._rows(sparse_of(check_dense(X, self.n_dense_)))
        best = np.concatenate([scores.argmax(axis=1) for scores in self._class_scores(X)]).tolist()
        return [self._strongest(rows, i, self._path(k), n) for i, k in enumerate(best)]

    def _path(self, label: int) -> list[int]:
        """Return the nodes whose weights a label's score is the sum of."""
        if self._taxonomy is None:
            return [label]
        path = [int(self._nodes[label])]
        while (above := int(self.tree_.parents[path[-1]])) != NO_PARENT:
            path.append(above)
        return path

    def feature_name(self, column: int) -> Any:
        """Return the name of a feature, of a text's the word."""
        words = self._words
        if words is None:
            return super().feature_name(column)
        return words.words[int(np.searchsorted(words.columns, column))]

    def log_likelihood(self, X: Any, y: Any) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (n_items,)."""
        names = PathLabels.of(y, self._taxonomy.separator).names if self._taxonomy is not None else y
        codes = encode_known_labels(names, np.arange(len(names) + 1), self.classes_)
        found, first = [], 0
        for logs in self._log_probabilities(X):
            found.append(logs[np.arange(len(logs)), codes[first : first + len(logs)]])
            first += len(logs)
        if first != codes.size:
            raise InputError(f"expected a label for each of the {first} items, got {codes.size}")
        return np.concatenate(found)

    def _settings_of(self, kind: str) -> Mapping[str, Any] | None:
        """Return the settings of a recipe's features, None for other models and kinds of features."""
        recipe = self._training.get("recipe")
        settings = recipe.get("features") if isinstance(recipe, dict) else None
        return settings if isinstance(settings, dict) and settings.get("kind") == kind else None

    def _table_columns(self) -> TableColumns | None:
        """Return the columns of a table that a recipe's features are made of, None for other models."""
        found = TableColumns.of_training(self._training)
        if found is not None and found.n_features != self.n_features_in_:
            raise ValueError(f"{found.n_features} columns of a table for {self.n_features_in_} features")
        return found

    def _text_features(self) -> WordCounts | None:
        """Return the features that a recipe makes of texts, None for models of numbers."""
        settings = self._settings_of("text")
        if settings is None:
            return None
        how = (settings[name] for name in ("weighting", "norm", "sublinear_tf"))
        found = WordCounts.from_dict(self._training["features"], *how)
        if found.n_columns != self.n_features_in_:
            raise ValueError(f"{found.n_columns} columns of words for {self.n_features_in_} features")
        return found

    def _as_given(self, labels: NDArray) -> NDArray:
        """Return labels in the form that the labels of the training had."""
        if self._taxonomy is None or self._taxonomy.rows is None:
            return labels
        return self._taxonomy.rows.rows(labels, self._taxonomy.separator)

    def _class_scores(self, X: Any) -> Iterator[Vector]:
        """Yield by blocks of items the score of each class, its node's and its ancestors', (items, n_classes)."""
        X = check_dense(X, self.n_dense_)
        rows = self._rows(sparse_of(X))
        n_items, n_block = rows.row_ends.size - 1, max(1, BLOCK_NUMBERS // self.weights.n_states)
        for first in range(0, max(n_items, 1), n_block):
            last = min(first + n_block, n_items)
            scores = self.weights.scores(rows.cut(first, last))
            if self.n_dense_:
                scores = self._with_dense(scores, X.dense[first:last])
            yield scores if self._taxonomy is None else path_sums(self.tree_, scores)[:, self._nodes]

    def _log_probabilities(self, X: Any) -> Iterator[Vector]:
        """Yield by blocks of items log P(k | x) of each class, (items, n_classes)."""
        self.check_probabilities()
        for scores in self._class_scores(X):
            scores = scores - scores.max(axis=1, keepdims=True)
            yield scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def _node_probabilities(self, probabilities: Vector) -> Vector:
        """Return the probability of each node, (items, K), given those of the classes."""
        whole = np.zeros((len(probabilities), self.tree_.n_nodes))
        whole[:, self._nodes] = probabilities
        return sum_up(self.tree_, whole)

    def _rows(self, X: Any) -> Rows:
        """Return items as rows, checked: a 2-D array, a sparse matrix, or a list of rows, of dicts, of texts; of a
        table its cells, but for a sparse matrix, which has the features."""
        if self._words is not None and isinstance(X, (list, tuple)) and all(isinstance(x, str) for x in X):
            rows = self._words.rows(X)
            self._warn_of_unknown(rows)
            return rows
        if self.table is not None and not hasattr(X, "tocsr"):
            return self.table.read(X)
        if isinstance(X, (list, tuple)) and any(isinstance(row, Mapping) for row in X):
            return self._rows_of_dicts(X)
        X = canonical(X)
        is_sparse = hasattr(X, "tocsr")
        matrix = X if is_sparse else np.asarray(X)
        if matrix.ndim != 2 or matrix.shape[1] != self.n_features_in_:
            raise InputError(
                f"expected items with {self.n_features_in_} features, got an array of shape {matrix.shape}"
            )
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"expected numbers, got an array of {matrix.dtype}")
        check_values(matrix, "item {}".format, self.names)
        rows = Rows.of(matrix)
        if is_sparse:
            self._warn_of_unknown(rows)
        return rows

    def _warn_of_unknown(self, rows: Rows) -> None:
        """Warn of items without known features; a dense block is always known."""
        if not self.n_dense_:
            warn_of_unknown(np.diff(rows.row_ends))

    def _rows_of_dicts(self, X: Sequence[Any]) -> Rows:
        row_ends, columns, values = [0], [], []
        for i, item in enumerate(X):
            if not isinstance(item, Mapping):
                raise InputError(f"item {i}: expected a dict like others, got {describe(item)}")
            for name, value in item.items():
                columns.append(self._column(i, name))
                feature = f"feature {shorten(name)}"
                if not isinstance(value, (Real, np.bool_)):
                    raise InputError(f"item {i}: {feature}: expected a finite number, got {describe(value)}")
                if not -LARGEST_VALUE <= value <= LARGEST_VALUE:  # type: ignore[operator]
                    raise InputError(f"item {i}: {wrong_value(feature, value)}")
                values.append(float(value))
            row_ends.append(len(columns))
        return Rows(np.array(row_ends), np.array(columns, np.int64), np.array(values, np.float64))

    def _column(self, i: int, name: Any) -> int:
        """Return the column of a feature, -1 for a name that is not known."""
        if isinstance(name, str) and self._names is not None:
            return self._columns.get(name, -1)
        if isinstance(name, (int, np.integer)) and 0 <= name < self.n_features_in_:
            return int(name)
        expected = "a name" if self._names is not None else f"a column from 0 to {self.n_features_in_ - 1}"
        raise InputError(f"item {i}: expected {expected} as feature, got {describe(name)}")
