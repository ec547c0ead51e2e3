"""What the classifiers of single items share: an item is a row of a matrix, and has one label.

A subclass says which labels there are and how they hang together (`LabelSpace`); the intercept, weights of items and
classes, prediction by blocks, and the model file are here.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.base import Decoding, SparseCRF, check_flags, pass_on_interrupt
from crfqn.estimators.fingerprint import fingerprint
from crfqn.estimators.item_weights import item_weights
from crfqn.estimators.label_space import LabelSpace
from crfqn.estimators.storage import FEATURE, STATE, Content, add_matrix, finite, read_matrix
from crfqn.estimators.weights import Weights, csr, entries, merged
from crfqn.features import FeatureStore
from crfqn.labels import encode_known_labels, encode_labels
from crfqn.model_file import ModelFile
from crfqn.objectives.scores import add_image
from crfqn.penalties import NO_COORDS
from crfqn.structures.structure import NO_EDGES
from crfqn.structures.taxonomy import Taxonomy
from crfqn.threads import Pool

Vector = NDArray[np.float64]
BLOCK_NUMBERS = 1 << 23  # scores of a block of items in prediction: 64 MB, and a few arrays like it


class ItemClassifier(ClassifierMixin, SparseCRF):
    """Base of the classifiers; X is a matrix (items x features), y has one label an item."""

    SETTINGS = (*SparseCRF.SETTINGS, "fit_intercept", "penalize_intercept")

    def __init__(
        self,
        l1: float = 1.0,
        l2: float = 0.0,
        *,
        group_l1: float = 0.0,
        group_norm: str = "l2",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Mapping | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 500,
        max_seconds: float | None = None,
        solver: Any = "prox-qn",
        n_threads: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Callable[..., object] | None = None,
    ) -> None:
        super().__init__(
            l1, l2, tol, max_iter, max_seconds, solver, n_threads, random_state, verbose, warm_start, callback,
            group_l1=group_l1, group_norm=group_norm,
        )  # fmt: skip
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Tags:
        """Sparse matrices are welcome; and what a model may fail at whose boundaries all go through the origin."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Items around the origin fall on both sides of every such boundary, whatever the classes weigh.
        tags.classifier_tags.poor_score = not self.fit_intercept
        return tags

    @abstractmethod
    def _learn_labels(self, classes: NDArray, n_levels: int) -> tuple[LabelSpace, NDArray[np.int32]]:
        """The labels to choose from, and the node of each of the `classes` that occur, sorted."""

    @abstractmethod
    def _adopt_labels(self, space: LabelSpace) -> None:
        """The fitted attributes that hold the labels."""

    @property
    @abstractmethod
    def _space(self) -> LabelSpace:
        """The labels that the fitted attributes hold."""

    def _label_names(self, y: Any) -> tuple[Any, int]:
        """Labels as scikit-learn knows them, one an item; and the columns that they had as rows of parts, else 0."""
        return y, 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
            Booleans or real numbers; CSR, CSC and dense arrays are read as they are, without a copy.
        y : array-like of labels, shape (n_items,)
            Strings, whole numbers or booleans; for `TaxonomyCRF` also rows of the parts of a path.
        sample_weight : array-like, shape (n_items,), optional
            How often each item counts; 0 is the same as leaving it out.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
            Says what was expected and what came.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback; the model has the best weights so far, and is usable.
        """
        self._check_parameters()
        checked = copy(self)  # takes the columns' names: a fit that fails leaves the last model as it was
        names, n_levels = self._label_names(y)
        X, names = validate_data(checked, X, names, accept_sparse=("csr", "csc"), dtype="numeric")
        classes, codes = encode_labels(names, np.arange(names.size + 1))
        check_names(names)
        weights = item_weights(sample_weight, self.class_weight, classes, codes)
        if weights is not None and not weights.all():
            stays = weights > 0
            X, weights = X[np.flatnonzero(stays)], weights[stays]
            classes, codes = encode_labels(classes[codes[stays]], np.arange(weights.size + 1))
        space, nodes = self._learn_labels(classes, n_levels)
        start = self._warm_weights(space, checked.n_features_in_)
        with Pool(self.n_threads) as pool:
            store = FeatureStore.from_matrix(X, np.arange(codes.size + 1), pool=pool)
        del X  # so that a caller who does not keep it gets its memory back
        targets = nodes[codes]
        if self.fit_intercept:
            store = store.with_constant()
        free = self._free(space.n_nodes, store.n_features)
        result = self._train(store, space.over(codes.size), targets, weights, start, free)
        self._adopt_labels(space)
        adopt_columns(self, checked)
        features = store.without_last() if self.fit_intercept else store
        self.data_fingerprint_ = fingerprint(features, targets, self.n_threads)
        self._keep(result)
        pass_on_interrupt(result)
        return self

    def predict(self, X: Any) -> NDArray:
        """The most probable label of each item, (I,); ties go to the class that comes first."""
        codes = self._best(X)
        return self._as_given(self.classes_[codes])

    def decision_function(self, X: Any) -> Vector:
        """The score of each class, (I, n_classes); of two classes the second's less the first's, (I,)."""
        scores = np.concatenate([scores.T for scores in self._class_scores(X)])
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_log_proba(self, X: Any) -> Vector:
        """log P(label | x) of each class, (I, n_classes), in nats."""
        return np.concatenate([log_softmax(scores, axis=0).T for scores in self._class_scores(X)])

    def predict_proba(self, X: Any) -> Vector:
        """P(label | x) of each class, (I, n_classes), rows that sum to 1."""
        return np.concatenate([softmax(scores, axis=0).T for scores in self._class_scores(X)])

    def predict_top(self, X: Any, k: int) -> Ranking:
        """The k most probable labels of each item, the most probable first; ties in the order of `classes_`."""
        check_is_fitted(self)
        if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= k <= len(self.classes_):
            raise InputError(f"k: expected an integer from 1 to {len(self.classes_)}, got {k!r}")
        found = []
        for scores in self._class_scores(X):
            codes = np.argsort(-scores.T, axis=1, kind="stable")[:, :k]
            found.append((codes, np.take_along_axis(softmax(scores, axis=0).T, codes, axis=1)))
        codes, probabilities = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Ranking(self.classes_[codes], probabilities)

    def decode(self, X: Any) -> Decoding:
        """The most probable label of each item, and the logarithm of its probability."""
        found = [
            (scores.argmax(axis=0), log_softmax(scores, axis=0).max(axis=0))
            for scores in self._class_scores(X)
        ]
        codes, log_probability = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Decoding(self._as_given(self.classes_[codes]), log_probability)

    def log_likelihood(self, X: Any, y: Any) -> Vector:
        """log P(y_i | x_i) of each item, (I,), in nats; the labels must be among the classes."""
        check_is_fitted(self)
        names = column_or_1d(self._label_names(y)[0])
        check_consistent_length(X, names)
        codes = encode_known_labels(names, np.arange(names.size + 1), self.classes_)
        found = []
        for scores in self._class_scores(X):
            n = scores.shape[1]
            found.append(log_softmax(scores, axis=0)[codes[:n], np.arange(n)])
            codes = codes[n:]
        return np.concatenate(found)

    def _best(self, X: Any) -> NDArray[np.intp]:
        """The number of the most probable class of each item."""
        return np.concatenate([scores.argmax(axis=0) for scores in self._class_scores(X)])

    def _class_scores(self, X: Any) -> Iterator[Vector]:
        """Blocks of items: the score of each class, the sum over its path, (n_classes, items of the block)."""
        check_is_fitted(self)
        nodes = self._space.nodes
        for structure, scores, pool in self._node_scores(X):
            yield structure.path_scores(scores, pool)[nodes]

    def _node_scores(self, X: Any) -> Iterator[tuple[Taxonomy, Vector, Pool]]:
        """Blocks of items: the structure over them, node scores (K, items of the block), and threads."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype="numeric")
        space = self._space
        n_items, n_block = X.shape[0], max(1, BLOCK_NUMBERS // space.n_nodes)
        if n_items > n_block and hasattr(X, "tocsr"):
            X = X.tocsr()
        weights = entries(self.coef_, self.n_features_in_)
        with Pool(self.n_threads) as pool:
            for first in range(0, n_items, n_block):
                part = X[first : first + n_block] if n_items > n_block else X
                store = FeatureStore.from_matrix(part, np.arange(part.shape[0] + 1), allow_empty=True)
                scores = np.repeat(self.intercept_[:, None], store.n_positions, axis=1)
                add_image(store, *weights, scores, NO_EDGES, pool)
                yield space.over(store.n_items), scores, pool

    def _as_given(self, labels: NDArray) -> NDArray:
        """Labels in the form that the labels of the training had."""
        return labels

    def _free(self, n_nodes: int, n_columns: int) -> NDArray[np.int64]:
        """The coordinates without penalty: of the constant column, the last."""
        if not self.fit_intercept or self.penalize_intercept:
            return NO_COORDS
        return intercept_coords(n_nodes, n_columns)

    def _warm_weights(self, space: LabelSpace, n_features: int) -> Weights | None:
        """The weights of the last fit, if `warm_start` asks for them and they fit."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        is_same = self.n_features_in_ == n_features and self._space.is_same(space)
        return self._weights() if is_same else None

    def _set_weights(self, weights: Weights) -> None:
        space, n_features = self._space, self.n_features_in_
        n_columns = n_features + bool(self.fit_intercept)
        rows, columns = np.divmod(weights.coords, n_columns)
        is_intercept = columns == n_features
        self.intercept_ = np.zeros(space.n_nodes)
        self.intercept_[rows[is_intercept]] = weights.values[is_intercept]
        if not self.penalize_intercept:
            self.intercept_ = space.centred(self.intercept_)
        node = ~is_intercept
        self.coef_ = csr(weights.values[node], rows[node], columns[node], (space.n_nodes, n_features))

    def _weights(self) -> Weights:
        n_nodes, n_features = self.coef_.shape
        if not self.fit_intercept:
            return entries(self.coef_, n_features)
        coords, found = intercept_coords(n_nodes, n_features + 1), np.flatnonzero(self.intercept_)
        return merged(entries(self.coef_, n_features + 1), Weights(coords[found], self.intercept_[found]))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flags(self, "fit_intercept", "penalize_intercept")
        is_known = self.class_weight is None or isinstance(self.class_weight, Mapping)
        if not is_known and not (isinstance(self.class_weight, str) and self.class_weight == "balanced"):
            raise InputError(
                f"class_weight: expected None, 'balanced' or a dict label -> weight, got {self.class_weight!r}"
            )

    def _settings(self) -> dict[str, Any]:
        """Labels in class_weight keep their types: JSON's keys are strings."""
        given = self.class_weight
        return super()._settings() | {
            "class_weight": [list(pair) for pair in given.items()] if isinstance(given, Mapping) else given
        }

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> Self:
        model, saved = super()._from_settings(settings), settings["class_weight"]
        model.class_weight = dict(saved) if isinstance(saved, list) else saved
        return model

    def _content(self) -> Content:
        content = Content(metadata={"n_features": self.n_features_in_, "n_classes": len(self.classes_)})
        add_matrix(content, "node", self.coef_, STATE, FEATURE)
        content.arrays["intercept"] = self.intercept_
        if hasattr(self, "feature_names_in_"):
            content.strings["feature_names"] = [str(name) for name in self.feature_names_in_]
        return content

    def _restore(self, file: ModelFile) -> None:
        n_nodes, n_features = self._space.n_nodes, int(file.metadata["n_features"])
        self.coef_ = read_matrix(file, "node", STATE, FEATURE, (n_nodes, n_features))
        self.intercept_ = finite(file, "intercept", (n_nodes,))
        self.n_features_in_ = n_features
        if "feature_names" in file.strings:
            self.feature_names_in_ = np.array(file.string_list("feature_names"), dtype=object)
            if self.feature_names_in_.size != n_features:
                raise ModelFileError(
                    f"{file.path}: {self.feature_names_in_.size} names for {n_features} features"
                )


class Ranking(NamedTuple):
    """labels, (I, k), and their probabilities, float64 (I, k), the most probable first."""

    labels: NDArray
    probabilities: NDArray[np.float64]


def check_names(names: NDArray) -> None:
    """Refuse what scikit-learn takes for numbers to regress on; names in great number are no ground for its warning."""
    with warnings.catch_warnings():
        if names.dtype.kind in "OUS":
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(names)


def intercept_coords(n_nodes: int, n_columns: int) -> NDArray[np.int64]:
    """The coordinates of the last column, (K,)."""
    return np.arange(1, n_nodes + 1, dtype=np.int64) * n_columns - 1


def adopt_columns(model: ItemClassifier, checked: ItemClassifier) -> None:
    """Take over the number of columns and their names, or that they have none."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(checked, name):
            setattr(model, name, getattr(checked, name))
        elif hasattr(model, name):
            delattr(model, name)
