"""Base class of the estimators of single items: an item is a row of a matrix, and has a label or several.

Here are reading, intercept, weights of items and classes, prediction by blocks and the model file; a subclass has its
labels (`LabelSpace`) and objective. Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from crfqn.arrays import NO_COORDS, SparseWeights, Vector
from crfqn.blas import single_threaded_blas
from crfqn.data.features import FeatureStore
from crfqn.data.hybrid import Features
from crfqn.data.items import Handover, check_values, item_weights, set_weights
from crfqn.data.labels import encode_labels, item_labels
from crfqn.data.matrices import canonical, is_plain_array
from crfqn.data.model_file import ModelFile
from crfqn.data.token_rows import TokenRows
from crfqn.errors import InputError
from crfqn.estimators.base import Posed, SparseLinearModel
from crfqn.estimators.blocks import Blocks, check_alone
from crfqn.estimators.estimator import Feature, strongest_features
from crfqn.estimators.labels import LabelSets, are_sets, check_classification, check_no_rows, share_right
from crfqn.estimators.training import available_if, check_validation, held_out, with_tasks
from crfqn.model.content import Entries, ModelContent
from crfqn.model.items import ItemModel
from crfqn.model.labels import LabelSpace
from crfqn.model.tables import Table
from crfqn.model.texts import Words, are_texts
from crfqn.model.unknown_features import warn_of_empty_rows
from crfqn.model.weights import Axes, AxisMatch, FittedArray, WeightMatrix, sorted_weights
from crfqn.objectives.linear.dense_map import DenseMap, Joined
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.parameters import forget_training
from crfqn.solvers.validation import ValidationSet
from crfqn.taxonomy.labels import RowForm
from crfqn.threads import Pool

# Of an array's entries, those that are not zero: index arrays take 12 bytes for each of these, the array is there.
MOSTLY = 0.5
CATEGORIES = ("category", "categorical", "enum", "string", "str")  # types of columns, of pandas and polars
READ: Any = {"accept_sparse": ("csr", "csc"), "dtype": "numeric"}  # what scikit-learn checks of a matrix


class Targets(NamedTuple):
    """Labels of a training's items: the space to choose from, the labels as the loss takes them (int32 (I,), nodes,
    unless an estimator says otherwise), and how often each item counts, float64 (I,), None for once."""

    space: LabelSpace
    labels: Any
    weights: Vector | None


def takes_sets(model: ItemEstimator) -> bool:
    """Return True for models whose items may have several labels; AttributeError, as scikit-learn asks, for others."""
    if not model.TAKES_SETS:
        raise AttributeError(f"items of a {type(model).__name__} have one label each")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class ItemEstimator(ClassifierMixin, SparseLinearModel):
    """Base class of the estimators of single items, which are the rows of a matrix X (items x features)."""

    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: Mapping | str | None = None

    model_: ItemModel = field(init=False)
    intercept_ = FittedArray("intercept")
    _space: LabelSpace = field(init=False)

    TAKES_SETS: ClassVar[bool] = False
    IS_LINEAR: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sparse input is accepted, and without intercept a poor score is possible."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self.TAKES_SETS
        # Items around the origin fall on both sides of every such boundary, whatever the classes weigh.
        tags.classifier_tags.poor_score = not self.fit_intercept
        return tags

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted: what prediction reads of its data."""
        return np.unique(self.coef_.indices).astype(np.int64)

    @available_if(attrgetter("IS_LINEAR"))
    def sparsify(self) -> Self:
        """Do nothing, as `coef_` is sparse from the start; for code that asks linear models of scikit-learn."""
        return self

    @available_if(attrgetter("IS_LINEAR"))
    def top_features(self, label: Any, n: int | None = 10) -> list[Feature]:
        """Return the features with the largest sizes of weights for a label, the largest first.

        Parameters
        ----------
        label : one of `classes_`, of a taxonomy any node
        n : int >= 1, or None for all that are not 0

        Returns
        -------
        list of Feature (name, weight)
            A feature without a name has its column, the intercept the name "(intercept)".

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Another label, or no such number.
        """
        check_is_fitted(self)
        names = self.feature_names_in_ if hasattr(self, "feature_names_in_") else None
        model = self._fitted if names is None else replace(self._fitted, feature_names=names)
        return strongest_features(model, label, n)

    def _learn_labels(self, classes: NDArray, rows: RowForm | None) -> tuple[LabelSpace, NDArray[np.int32]]:
        """Return the labels to choose from, and the node of each of the `classes` that occur, sorted; `rows`: their
        form as of `_label_names`."""
        space = LabelSpace.flat(classes)
        return space, space.nodes

    def _adopt_labels(self, space: LabelSpace) -> None:
        """Set the fitted attributes that hold the labels."""
        self.classes_, self._space = space.classes, space

    def _label_names(self, y: Any) -> tuple[Any, RowForm | None]:
        """Return one label an item, and the form of labels that are rows of parts, else None."""
        check_no_rows(y)
        return item_labels(y), None

    def _targets_of(self, sets: LabelSets) -> Any:
        """Return label sets in the form that the loss takes, where items may have several labels."""
        raise NotImplementedError

    def _chosen(self, scores: Vector) -> NDArray[np.bool_]:
        """Return which labels belong to items of these scores, bool (items, K), where items may have several."""
        raise NotImplementedError

    def _read(self, checked: ItemEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Targets]:
        """Return the items of positive weight and their labels, checked; `checked` takes the columns' names."""
        if self.TAKES_SETS:
            return self._read_sets(checked, X, y, sample_weight)
        names, rows = self._label_names(y)
        X, names = self._checked(checked, X, names)
        classes, codes = encode_labels(names, np.arange(names.size + 1))
        check_classification(names, classes)
        weights = item_weights(sample_weight, self.class_weight, classes, codes)
        if weights is not None and not weights.all():
            stays = weights > 0
            X, weights = X[np.flatnonzero(stays)], weights[stays]
            classes, codes = encode_labels(classes[codes[stays]], np.arange(weights.size + 1))
        space, nodes = self._learn_labels(classes, rows)
        return X, Targets(space, nodes[codes], weights)

    def _checked(self, checked: ItemEstimator, X: Any, *y: Any, is_new: bool = True) -> Any:
        """Return items, and labels if given, as scikit-learn checks them; `checked` takes the columns' names of a
        training. New items may have the forms that `Model.predict` takes."""
        X = canonical(X)
        if not is_new and not hasattr(X, "tocsr"):
            features = self._featurized(X)
            if features is not X and not y:
                return features  # which has been checked
            X = features
        return validated(checked, X, *y, reset=is_new, **READ)

    def _featurized(self, X: Any) -> Any:
        """Return new items as a matrix where they have none of numbers: a table's rows, texts, or dicts of features."""
        featurizer, is_list = self.featurizer_, isinstance(X, (list, tuple))
        if isinstance(featurizer, Table):
            rows = featurizer.read(X)
        elif isinstance(featurizer, Words) and (isinstance(X, str) or are_texts(X)):
            rows = featurizer.rows(X)
        elif is_list and any(isinstance(item, Mapping) for item in X):
            rows = self._fitted.rows(X, warns=False)
        else:
            return X
        n_items = rows.row_ends.size - 1
        matrix = TokenRows(rows, np.arange(n_items + 1), self.n_features_in_).matrix()
        if not isinstance(featurizer, Table) and not self.n_dense_:
            warn_of_empty_rows(matrix)
        return matrix

    def _read_sets(self, checked: ItemEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Targets]:
        X = canonical(X)
        if are_sets(y):
            X = validated(checked, X, **READ)
            check_consistent_length(X, y)
        else:
            X, y = validated(checked, X, item_labels(y), multi_output=True, **READ)
        sets = LabelSets.of(y)
        weights = set_weights(sample_weight, self.class_weight, sets.classes, sets.table)
        if weights is not None and not weights.all():
            stays = np.flatnonzero(weights > 0)
            X, sets, weights = X[stays], sets.take(stays), weights[stays]
        check_classes(sets.classes)
        return X, Targets(LabelSpace.flat(sets.classes, sets.form), self._targets_of(sets), weights)

    @with_tasks
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Self:
        """Train on items and their labels.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
            Booleans or real numbers; CSR, CSC and dense arrays are read as they are, without a copy. A dense array at
            least half of whose entries are not zero is trained on by matrix products, as it lies in memory. Classifiers
            take `crfqn.Features`, with a dense block beside these, as well.
        y : array-like of labels, shape (n_items,)
            Strings, whole numbers or booleans; of `TaxonomyCRF` also rows of the parts of a path, of
            `MultilabelRanker` also tables of 0 and 1, and label sets.
        sample_weight : array-like, shape (n_items,), optional
            Weight of each item in the loss; 0 leaves it out.
        start : fitted MulticlassClassifier, MultilabelRanker or MulticlassCRF, of `TaxonomyCRF` also one, optional
            Or the name of a model file of one. Start from the weights of this model, for the labels (nodes) and
            features (by name where both have names) that both have; other weights start from zero. Its loss and penalty
            may differ. It is used instead of `warm_start`. With `verbose` the number of weights that were taken over is
            printed.
        validation : (X, y), optional
            Held-out items, which are scored during the training by `scoring`. The model has the weights with the best
            score, and the training stops after `patience` scores without a better one.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
            Invalid data or parameters.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback. The model has the best weights so far and can predict.
        """
        problem = self.prepare(X, y, sample_weight, start, validation=validation)
        del X  # so that a caller who does not keep it gets its memory back
        return self._solve(problem)

    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Posed:
        """Return the training that `fit` would do, without doing it; parameters and errors as in `fit`."""
        self._check_parameters()
        model = copy(self)
        forget_training(model)
        X = Handover.taken(X)
        if isinstance(X, Blocks):
            check_alone(X, y, sample_weight, validation)
            return self._prepare_blocks(model, X, start)
        X, targets = self._read(model, X, y, sample_weight)
        model._adopt_labels(targets.space)
        begin = self._start(model, start)
        held_out = None if validation is None else model._validation_set(validation, X.shape[0])
        with single_threaded_blas(), Pool(self.n_threads) as pool:
            features = item_features(X, self.fit_intercept, pool)
            del X
            if self._has_free_intercept:
                features = centred(features, targets.weights)
            over = targets.space.over(features.n_items)
            free = self._unpenalised(targets.space.n_nodes, features.n_features)
            labels, weights = targets.labels, targets.weights
            objective = model._objective(features, over, labels, weights)
            return model._posed(objective, features, labels, weights, begin, free, held_out)

    def _prepare_blocks(self, model: Self, blocks: Blocks, start: Any) -> Posed:
        """Return the training of a copy on blocks, whose features are taken as they are, without centring."""
        blocks.check_kind(is_of_sequences=False)
        if self.TAKES_SETS or self.class_weight is not None or not self.IS_LINEAR:
            raise InputError(
                "blocks: expected a model of one label an item and class_weight=None, as no block has all items"
            )
        adopt_columns(model, SimpleNamespace(n_features_in_=blocks.n_features))
        model.n_dense_ = 0
        space, nodes = model._learn_labels(blocks.classes, None)
        model._adopt_labels(space)
        begin = self._start(model, start)
        free = self._unpenalised(space.n_nodes, blocks.n_features + bool(self.fit_intercept))
        return model._posed_in_blocks(
            blocks,
            lambda store: space.over(store.n_items),
            np.asarray(nodes, np.int32),
            begin,
            free,
            has_constant=self.fit_intercept,
        )

    def _validation_set(self, validation: Any, n_items: int) -> ValidationSet:
        """Return validation items, checked; `n_items`: those of the training, which a pass goes over."""
        if not self._space.has_one_label:
            raise InputError(
                "validation: expected items with one label each; what sets take is learnt at the end"
            )
        X, y = check_validation(validation)
        check_consistent_length(X, y)
        X = self._checked(self, X, is_new=False)
        scored = copy(self)

        def estimator_of(weights: SparseWeights) -> Any:
            scored._take_weights(weights)
            return scored

        return held_out(estimator_of, self, X, y, X.shape[0] / n_items)

    def predict(self, X: Any) -> Any:
        """Return the label with the largest score of each item; ties go to the class that comes first.

        A model of label sets returns a table of 0 and 1.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)

        Returns
        -------
        ndarray, shape (n_items,)
            Of label sets (n_items, n_labels), a CSR array if the table of the training was sparse.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError, or another ValueError of scikit-learn's checks
            Another number of columns, entries that are not finite.
        """
        check_is_fitted(self)
        if self._space.has_one_label:
            best = [scores.argmax(axis=0) for scores in self._class_scores(X)]
            warn_of_empty_rows(X)
            return self._space.as_given(self.classes_[np.concatenate(best)])
        table = np.concatenate([self._chosen(scores.T) for scores in self._class_scores(X)])
        warn_of_empty_rows(X)
        return self._as_table(table)

    def _as_table(self, table: NDArray[np.bool_]) -> Any:
        """Return a table of 0 and 1 in the form of the training's."""
        if "sparse" in self._space.form:
            return scipy.sparse.csr_array(table, dtype=np.int64)
        return table.astype(np.int64)

    @available_if(takes_sets)
    def predict_sets(self, X: Any) -> list[tuple]:
        """Return a tuple of the names of each item's labels, a list of n_items; X and errors as in `predict`."""
        check_is_fitted(self)
        if self._space.has_one_label:
            return [(label,) for label in self.predict(X).tolist()]
        table = scipy.sparse.csr_array(self.predict(X))
        names = self.classes_[table.indices].tolist()
        return [
            tuple(names[first:last]) for first, last in zip(table.indptr[:-1], table.indptr[1:], strict=True)
        ]

    def decision_function(self, X: Any) -> Vector:
        """Return the score of each class, float64 (n_items, n_classes); X and errors as in `predict`.

        Where items have one of two labels it is the second's score less the first's, (n_items,), as scikit-learn has
        it. Of label sets scores are without thresholds.
        """
        scores = np.concatenate([scores.T for scores in self._class_scores(X)])
        is_binary = self._space.has_one_label and len(self.classes_) == 2
        return scores[:, 1] - scores[:, 0] if is_binary else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of items whose labels are all correct, weighted by `sample_weight`; errors as in
        `predict`."""
        check_is_fitted(self)
        if self._space.has_one_label:
            best = [scores.argmax(axis=0) for scores in self._class_scores(X)]
            warn_of_empty_rows(X)
            return share_right(
                self._label_names(y)[0], self.classes_[np.concatenate(best)], self.classes_, sample_weight
            )
        truth, predicted = LabelSets.among(y, self.classes_).table, scipy.sparse.csr_array(self.predict(X))
        check_consistent_length(truth, predicted)
        from sklearn.metrics import accuracy_score  # takes 25 MB

        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def _new(self, X: Any) -> Any:
        """Return items to label, checked."""
        check_is_fitted(self)
        return self._checked(self, X, is_new=False)

    def _class_scores(self, X: Any) -> Iterator[Vector]:
        """Yield by blocks of items the score of each class, (n_classes, items): its node's and its ancestors'."""
        X = self._new(X)
        return (scores.T for scores in self._engine.class_scores(self._fitted, X))

    @property
    def _n_columns(self) -> int:
        """The features and perhaps a constant."""
        return self.n_features_in_ + bool(self.fit_intercept)

    @property
    def _n_states(self) -> int:
        return self._space.n_nodes

    @property
    def _has_free_intercept(self) -> bool:
        """Whether there are intercepts that may make up for a shift of the features."""
        return self.fit_intercept and not self.penalize_intercept

    def _unpenalised(self, n_nodes: int, n_columns: int) -> NDArray[np.int64]:
        """Return the coordinates without penalty: the weights of the constant column, the last, or none."""
        if not self._has_free_intercept:
            return NO_COORDS
        return np.arange(1, n_nodes + 1, dtype=np.int64) * n_columns - 1

    def _axes(self) -> Axes:
        return Axes(self._space.node_names, self.n_features_in_, self._feature_names)

    def _sparse_weights(self, model: Any, common: AxisMatch) -> SparseWeights:
        """The scores of a flat model stay as they are in a taxonomy; InputError for the other way."""
        if model._space.tree is not None and self._space.tree is None:
            raise InputError(
                "start: expected a model with weights of its classes, got one of a taxonomy's nodes"
            )
        n_columns = self.n_features_in_ + bool(self.fit_intercept)
        rows, columns, values = common.entries(model.coef_)
        coords = rows * n_columns + columns
        if self.fit_intercept:
            stays = common.rows >= 0
            coords = np.append(coords, (common.rows[stays] + 1) * n_columns - 1)
            values = np.append(values, model.intercept_[stays])
        return sorted_weights(coords, values)

    def _set_weights(self, weights: SparseWeights) -> None:
        space, n_features = self._space, self.n_features_in_
        n_columns = n_features + bool(self.fit_intercept)
        rows, columns = np.divmod(weights.coords, n_columns)
        is_intercept = columns == n_features
        intercept = np.zeros(space.n_nodes)
        intercept[rows[is_intercept]] = weights.weights[is_intercept]
        if not self.penalize_intercept:
            intercept = self._centred(space, intercept)
        nodes = Entries(*(part[~is_intercept] for part in (weights.weights, rows, columns)))
        self.model_ = ItemModel(
            kind=self.KIND,
            classes_=space.classes,
            n_features_in_=n_features,
            weights=WeightMatrix.of(nodes, (space.n_nodes, n_features)),
            intercept=intercept,
            dense_coef_=self.dense_coef_ if self.n_dense_ else np.empty((space.n_nodes, 0)),
            loss=getattr(self, "loss", "logistic"),
            labels=space,
            feature_names=self._feature_names,
            has_taxonomy=getattr(self, "taxonomy", None) is not None,
        )

    def _centred(self, space: LabelSpace, intercepts: Vector) -> Vector:
        """Return one of the unpenalised intercepts with the same loss, always the same one whatever the start."""
        return space.centred(intercepts)

    def _content(self) -> ModelContent:
        content = super()._content()
        names = self._feature_names
        model = replace(self._fitted, feature_names=None if names is None else [*map(str, names)])
        model.add_to(content, self.TAKES_SETS)
        return content

    def _restore(self, file: ModelFile) -> None:
        super()._restore(file)
        self.model_ = model = ItemModel.of_file(file, self.TAKES_SETS)
        self._adopt_labels(model.labels)
        self.n_features_in_ = model.n_features_in_
        if model.n_dense_:
            self.dense_coef_, self.n_dense_ = model.dense_coef_, model.n_dense_
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)


def adopt_columns(model: ItemEstimator, checked: Any) -> None:
    """Set the number of columns and their names from `checked`; no names where it has none."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(checked, name):
            setattr(model, name, getattr(checked, name))
        elif hasattr(model, name):
            delattr(model, name)


def item_features(X: Any, has_constant: bool, pool: Pool, is_sparse: bool = False) -> Any:
    """Return the map of checked items, a row each, with a last feature that is always 1 if asked for. An array that is
    mostly not zero is kept without a copy (small integers become float32), unless it is taken as `is_sparse`."""
    if isinstance(X, Features):
        sparse = item_features(X.sparse, has_constant, pool, is_sparse=True)
        return Joined([DenseMap.of(X.dense, X.offsets, pool=pool), sparse])
    offsets = np.arange(X.shape[0] + 1)
    if not is_sparse and is_plain_array(X) and np.count_nonzero(X) >= MOSTLY * max(X.size, 1):
        return DenseMap.of(X, offsets, has_constant, pool)
    store = FeatureStore.from_matrix(X, offsets)
    return SparseMap(store.with_constant() if has_constant else store, pool)


def centred(features: Any, weights: Vector | None) -> Any:
    """Return the map with its features centred by the items' weights, for a training whose intercepts are free."""
    with single_threaded_blas():  # sums do not depend on threads
        return features.centred_at(features.means(weights))


def validated(model: ItemEstimator, X: Any, *y: Any, **options: Any) -> Any:
    """Return rows, and labels if given, as scikit-learn's `validate_data` does; InputError for values that are too
    large, by item and feature, and for columns of a data frame that are no numbers."""
    check_columns(X)
    checked = validate_data(model, X, *y, **options)
    rows = checked[0] if y else checked
    check_values(rows, "item {}".format, getattr(model, "feature_names_in_", None))
    return checked


def check_columns(X: Any) -> None:
    """Raise InputError, naming the first one, for columns of a data frame whose type is one of texts or categories."""
    for name, dtype in zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False):
        if str(dtype).partition("(")[0].lower() in CATEGORIES:
            raise InputError(
                f"column {name!r}: expected numbers, got the type {dtype}; sklearn.preprocessing.OneHotEncoder makes a "
                "column of each text, as `crfqn train --features table` does of the columns of a file"
            )


def check_classes(classes: NDArray) -> None:
    """Raise InputError unless there is a class; one is enough, for a model that predicts it always."""
    if not classes.size:
        raise InputError("expected at least one label, got none")
