"""Base class of the estimators of single items: an item is a row of a matrix, and has a label or several.

Reading the data, the intercept, weights of items and classes, prediction by blocks and the model file are here. A
subclass says which labels there are and how they are related (`LabelSpace`), and what it minimises.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from crfqn.arrays import NO_COORDS, SparseWeights
from crfqn.data.csc_builder import check_sparse
from crfqn.data.items import item_weights
from crfqn.data.label_codes import encode_labels
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.base import SparseCRF, pass_on_interrupt
from crfqn.estimators.callbacks import with_tasks
from crfqn.estimators.content import (
    FEATURE,
    STATE,
    Content,
    add_matrix,
    finite,
    read_matrix,
    read_size,
)
from crfqn.estimators.features import centred, item_features, warn_of_empty_rows
from crfqn.estimators.label_space import LabelSpace, TreeSpace
from crfqn.estimators.node_scores import score_blocks
from crfqn.estimators.start import Axes, match, sorted_weights, start_model, tell
from crfqn.estimators.validation import check_pair, held_out
from crfqn.estimators.weights import csr, entries, merged
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.result import Result
from crfqn.solvers.validation import ValidationSet
from crfqn.structures.taxonomy import Taxonomy
from crfqn.threads import Pool

Vector = NDArray[np.float64]

STARTS = "MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF"


class Targets(NamedTuple):
    """Labels of the items of a training, and their weights.

    Attributes
    ----------
    space : LabelSpace, the labels to choose from
    labels : what the loss takes: int32 (I,), the node of each item, unless an estimator says otherwise
    weights : float64 (I,), how often each item counts, or None for once
    """

    space: LabelSpace
    labels: Any
    weights: Vector | None


@dataclass(eq=False, repr=False, kw_only=True)
class ItemModel(ClassifierMixin, SparseCRF):
    """Base class of the estimators of single items, which are the rows of a matrix X (items x features)."""

    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: Mapping | str | None = None

    NOT_SAVED: ClassVar[tuple[str, ...]] = (*SparseCRF.NOT_SAVED, "class_weight")
    BLOCK_NUMBERS: ClassVar[int] = 1 << 23
    """Scores of a block of items in prediction: 64 MB, and a few arrays like it."""

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sparse input is accepted, and without intercept a poor score is possible."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Items around the origin fall on both sides of every such boundary, whatever the classes weigh.
        tags.classifier_tags.poor_score = not self.fit_intercept
        return tags

    @abstractmethod
    def _learn_labels(self, classes: NDArray, n_levels: int) -> tuple[LabelSpace, NDArray[np.int32]]:
        """Return the labels to choose from, and the node of each of the `classes` that occur, sorted."""

    @abstractmethod
    def _adopt_labels(self, space: LabelSpace) -> None:
        """Set the fitted attributes that hold the labels."""

    @property
    @abstractmethod
    def _space(self) -> LabelSpace:
        """Labels that the fitted attributes hold."""

    def _label_names(self, y: Any) -> tuple[Any, int]:
        """Return one label an item, and the number of columns of labels that are rows of parts, else 0."""
        return y, 0

    def _read(self, checked: ItemModel, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Targets]:
        """Return the items of positive weight and their labels, checked; `checked` takes the columns' names."""
        names, n_levels = self._label_names(y)
        check_sparse(X)
        X, names = validate_data(checked, X, names, accept_sparse=("csr", "csc"), dtype="numeric")
        classes, codes = encode_labels(names, np.arange(names.size + 1))
        check_names(names, classes)
        weights = item_weights(sample_weight, self.class_weight, classes, codes)
        if weights is not None and not weights.all():
            stays = weights > 0
            X, weights = X[np.flatnonzero(stays)], weights[stays]
            classes, codes = encode_labels(classes[codes[stays]], np.arange(weights.size + 1))
        space, nodes = self._learn_labels(classes, n_levels)
        return X, Targets(space, nodes[codes], weights)

    @with_tasks
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Self:
        """Train on items and their labels.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
            Booleans or real numbers; CSR, CSC and dense arrays are read as they are, without a copy. A dense array at
            least half of whose entries are not zero is trained on by matrix products, as it lies in memory.
        y : array-like of labels, shape (n_items,)
            Strings, whole numbers or booleans; of `TaxonomyCRF` also rows of the parts of a path, of
            `MultilabelRanker` also tables of 0 and 1, and label sets.
        sample_weight : array-like, shape (n_items,), optional
            How often each item counts; 0 is the same as leaving it out.
        start : fitted MulticlassClassifier, MultilabelRanker or MulticlassCRF, of `TaxonomyCRF` also one, optional
            Start from its weights, of the labels (nodes) and features (by name where both have names) in common, others
            from zero; its loss and penalty may be others. It goes before `warm_start`. `verbose` says what was kept.
        validation : (X, y), optional
            Items that the weights are scored on during the training, by `scoring`: the model has those of the best
            score, and the training ends after `patience` looks without a better one.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
            Says what was expected and what came.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback; the model has the best weights so far, and is usable.
        """
        self._check_parameters()
        checked = copy(self)  # takes the columns' names: a fit that fails leaves the last model as it was
        X, targets = self._read(checked, X, y, sample_weight)
        weights = self._start(checked, targets, start)
        held = None if validation is None else self._held_out(checked, targets, validation, X.shape[0])
        with Pool(self.n_threads) as pool:
            features = item_features(X, self.fit_intercept, pool)
            if self._has_free_intercept:
                features = centred(features, targets.weights)
        del X  # so that a caller who does not keep it gets its memory back
        self._keep(self._learn(checked, features, targets, weights, held))
        self._finish(features, targets.labels, targets.weights)
        pass_on_interrupt(self.result_)
        return self

    def _held_out(self, checked: ItemModel, targets: Targets, validation: Any, n_items: int) -> ValidationSet:
        """Return validation items, checked; `n_items`: those of the training, which a pass goes over."""
        X, y = check_pair(validation)
        model = copy(checked)
        model._adopt_labels(targets.space)
        check_consistent_length(X, y)
        check_sparse(X)
        X = validate_data(model, X, reset=False, accept_sparse=("csr", "csc"), dtype="numeric")
        return held_out(model, X, y, X.shape[0] / n_items)

    def _learn(
        self,
        checked: ItemModel,
        features: FeatureMap,
        targets: Targets,
        start: SparseWeights | None,
        held: ValidationSet | None = None,
    ) -> Result:
        """Train, and set all fitted attributes but the weights."""
        space = targets.space
        unpenalised = self._unpenalised(space.n_nodes, features.n_features)
        over = space.over(features.n_items)
        result = self._train(
            features, over, targets.labels, targets.weights, start, unpenalised, held_out=held
        )
        self._adopt_labels(space)
        adopt_columns(self, checked)
        return result

    def predict(self, X: Any) -> NDArray:
        """Return the label with the largest score of each item; ties go to the class that comes first.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)

        Returns
        -------
        ndarray, shape (n_items,)

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError, or another ValueError of scikit-learn's checks
            Another number of columns, entries that are not finite.
        """
        codes = self._best(X)
        return self._as_given(self.classes_[codes])

    def decision_function(self, X: Any) -> Vector:
        """Return the score of each class, float64 (n_items, n_classes); X and errors as in `predict`.

        Of two classes it is the second's score less the first's, (n_items,), as scikit-learn has it.
        """
        scores = np.concatenate([scores.T for scores in self._class_scores(X)])
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _best(self, X: Any) -> NDArray[np.intp]:
        """Return the number of the class with the largest score of each item."""
        best = np.concatenate([scores.argmax(axis=0) for scores in self._class_scores(X)])
        warn_of_empty_rows(X)
        return best

    def _class_scores(self, X: Any) -> Iterator[Vector]:
        """Yield by blocks of items the score of each class, (n_classes, items): its node's and its ancestors'."""
        check_is_fitted(self)
        space = self._space
        for structure, scores, pool in self._node_scores(X):
            yield space.class_scores(structure, scores, pool)

    def _node_scores(self, X: Any) -> Iterator[tuple[Taxonomy, Vector, Pool]]:
        """Yield by blocks of items the structure over them, node scores (K, items of the block), and threads.

        No other columns are read than those of features that have a weight.
        """
        check_is_fitted(self)
        check_sparse(X)
        X = validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype="numeric")
        space = self._space
        n_block = max(1, self.BLOCK_NUMBERS // space.n_nodes)
        with Pool(self.n_threads) as pool:
            for scores in score_blocks(X, self.coef_, self.intercept_, n_block, pool):
                yield space.over(scores.shape[1]), scores, pool

    def _as_given(self, labels: NDArray) -> NDArray:
        """Return labels in the form that the labels of the training had."""
        return labels

    @property
    def _has_free_intercept(self) -> bool:
        """Whether there are intercepts that may make up for a shift of the features."""
        return self.fit_intercept and not self.penalize_intercept

    def _unpenalised(self, n_nodes: int, n_columns: int) -> NDArray[np.int64]:
        """Return the coordinates without penalty: the weights of the constant column, the last, or none."""
        return intercept_coords(n_nodes, n_columns) if self._has_free_intercept else NO_COORDS

    def _axes(self, space: LabelSpace) -> Axes:
        """Return the names of rows and columns of weights over the space."""
        names = self.feature_names_in_.tolist() if hasattr(self, "feature_names_in_") else None
        return Axes(space.node_names, self.n_features_in_, names)

    def _start(self, checked: ItemModel, targets: Targets, start: Any) -> SparseWeights | None:
        """Return the weights to start from: those of `start` or of the last fit, for labels and features in common.

        From labels without a taxonomy to a taxonomy's nodes scores stay as they are, but not the other way.
        """
        model = start_model(start, self, ItemModel, STARTS)
        if model is None:
            return None
        space: LabelSpace = model._space
        if isinstance(space, TreeSpace) and not isinstance(targets.space, TreeSpace):
            raise InputError(
                "start: expected a model with weights of its classes, got one of a taxonomy's nodes"
            )
        old, new = model._axes(space), checked._axes(targets.space)
        common, weights = match(old, new, start is not None), None
        if common is not None:
            n_columns = new.n_features + bool(self.fit_intercept)
            rows, columns, values = common.entries(model.coef_)
            coords = rows * n_columns + columns
            if self.fit_intercept:
                stays = common.rows >= 0
                coords = np.append(coords, (common.rows[stays] + 1) * n_columns - 1)
                values = np.append(values, model.intercept_[stays])
            weights = sorted_weights(coords, values)
        if self.verbose:
            tell(common, new, weights, model.coef_.nnz + int(np.count_nonzero(model.intercept_)))
        return weights

    def _set_weights(self, weights: SparseWeights) -> None:
        space, n_features = self._space, self.n_features_in_
        n_columns = n_features + bool(self.fit_intercept)
        rows, columns = np.divmod(weights.coords, n_columns)
        is_intercept = columns == n_features
        self.intercept_ = np.zeros(space.n_nodes)
        self.intercept_[rows[is_intercept]] = weights.weights[is_intercept]
        if not self.penalize_intercept:
            self.intercept_ = self._centred(space, self.intercept_)
        node = ~is_intercept
        self.coef_ = csr(weights.weights[node], rows[node], columns[node], (space.n_nodes, n_features))

    def _centred(self, space: LabelSpace, intercepts: Vector) -> Vector:
        """Return one of the unpenalised intercepts with the same loss, always the same one whatever the start."""
        return space.centred(intercepts)

    def _weights(self) -> SparseWeights:
        n_nodes, n_features = self.coef_.shape
        if not self.fit_intercept:
            return entries(self.coef_, n_features)
        coords, found = intercept_coords(n_nodes, n_features + 1), np.flatnonzero(self.intercept_)
        return merged(
            entries(self.coef_, n_features + 1), SparseWeights(coords[found], self.intercept_[found])
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()

    def _settings(self) -> dict[str, Any]:
        """Return the parameters as JSON values; `class_weight` as pairs, as JSON's keys are strings, labels any."""
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
        self._add_weights(content)
        if hasattr(self, "feature_names_in_"):
            content.strings["feature_names"] = [str(name) for name in self.feature_names_in_]
        return content

    def _add_weights(self, content: Content) -> None:
        """Add the weights to what a model file holds."""
        add_matrix(content, "node", self.coef_, STATE, FEATURE)
        content.arrays["intercept"] = self.intercept_

    def _read_weights(self, file: ModelFile, n_nodes: int, n_features: int) -> None:
        """Take the weights from a model file."""
        self.coef_ = read_matrix(file, "node", STATE, FEATURE, (n_nodes, n_features))
        self.intercept_ = finite(file, "intercept", (n_nodes,))

    def _restore(self, file: ModelFile) -> None:
        n_nodes = self._space.n_nodes
        n_features = read_size(file, n_nodes)
        self._read_weights(file, n_nodes, n_features)
        self.n_features_in_ = n_features
        if "feature_names" in file.strings:
            self.feature_names_in_ = np.array(file.string_list("feature_names"), dtype=object)
            if self.feature_names_in_.size != n_features:
                raise ModelFileError(
                    f"{file.path}: {self.feature_names_in_.size} names for {n_features} features"
                )


def check_names(names: NDArray, classes: NDArray) -> None:
    """Raise ValueError for labels that scikit-learn takes for targets of a regression; `classes`: the distinct ones.

    Its warning of too many classes does not concern strings. `classes` is passed on because counting them takes time.
    """
    with warnings.catch_warnings():
        if names.dtype.kind in "OUS":
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(classes if names.dtype.kind in "US" else names)


def intercept_coords(n_nodes: int, n_columns: int) -> NDArray[np.int64]:
    """Return the coordinates of the last column's weights, (K,)."""
    return np.arange(1, n_nodes + 1, dtype=np.int64) * n_columns - 1


def adopt_columns(model: ItemModel, checked: ItemModel) -> None:
    """Set the number of columns and their names from `checked`; no names where it has none."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(checked, name):
            setattr(model, name, getattr(checked, name))
        elif hasattr(model, name):
            delattr(model, name)
