"""Base classes of the estimators of single items, which are rows of a matrix and have one label or several.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from crfqn.arrays import Labels, Vector
from crfqn.data.inputs import ClassWeight, ItemsLike, LabelsLike, SampleWeight, SparseMatrix
from crfqn.data.label_arrays import item_labels
from crfqn.errors import InputError
from crfqn.estimators.blocks import Blocks
from crfqn.estimators.estimator import Estimator, StartLike, TrainingMixin, available_if
from crfqn.estimators.item_data import Columns, encode_row_blocks, encode_rows, rows_of_model
from crfqn.estimators.multilabel_targets import MultilabelTargets, check_no_rows, label_accuracy
from crfqn.estimators.problem import (
    CallbackSupportMixin,
    Encoded,
    InMemory,
    Source,
    Validation,
    check_validation,
    with_fit_task,
)
from crfqn.model.item_model import ItemModel
from crfqn.model.item_space import ItemSpace
from crfqn.model.label_index import LabelIndex
from crfqn.model.unknown_features import warn_of_empty_rows
from crfqn.model.weights import FittedArray
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.taxonomy.label_paths import PathRowFormat


def takes_sets(model: Any) -> bool:
    """Return True for models with several labels an item; AttributeError, as scikit-learn expects, for others."""
    if not model.TAKES_SETS:
        raise AttributeError(f"items of a {type(model).__name__} have one label each")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class ItemParameters:
    """Parameters of all estimators of single items that `Settings` does not have."""

    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: ClassWeight = None


class ItemPredictions(ClassifierMixin):
    """Methods that predict the labels of single items, the rows of a matrix X (items x features)."""

    TAKES_SETS: ClassVar[bool] = False
    TAKES_DENSE: ClassVar[bool] = False  # `crfqn.Features`

    fit_intercept: bool
    n_threads: int | None
    verbose: int
    model_: Any
    # Of estimators of label sets: the targets of the loss, and the labels of items with these scores, bool (items, K).
    targets_of_sets: Callable[[MultilabelTargets], Any]
    chosen_labels: Callable[[Vector], NDArray[np.bool_]]

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: input may be sparse, and without intercept a poor score is possible."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self.TAKES_SETS
        # Without intercept all boundaries between classes contain the origin.
        tags.classifier_tags.poor_score = not self.fit_intercept
        return tags

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns; AttributeError, as in scikit-learn, if they have none."""
        names = getattr(self.__dict__.get("model_"), "feature_names", None)
        if names is None:
            raise AttributeError(f"{type(self).__name__} has no names of features")
        return np.array(names, dtype=object)

    @feature_names_in_.setter
    def feature_names_in_(self, names: NDArray[np.object_]) -> None:
        self.model_ = replace(self.model_, feature_names=names.tolist())

    def label_names(self, y: LabelsLike | None) -> tuple[Any, PathRowFormat | None]:
        """Return one label an item, and the format of labels that are rows of parts of a path, else None."""
        check_no_rows(y)
        return item_labels(y), None

    def learn_labels(
        self, classes: NDArray, rows: PathRowFormat | None
    ) -> tuple[LabelIndex, NDArray[np.int32]]:
        """Return the possible labels, and the node of each of the sorted `classes` that occur; `rows` is their format,
        as in `label_names`."""
        space = LabelIndex.flat(classes)
        return space, space.nodes

    def class_scores(self, X: ItemsLike) -> Iterator[Vector]:
        """Yield for each block of items the scores of the classes, (n_classes, items)."""
        raise NotImplementedError

    def checked_items(self, X: ItemsLike) -> Any:
        """Return checked items in the columns of the model."""
        check_is_fitted(self)
        return rows_of_model(self, X)

    def predict(self, X: ItemsLike) -> Any:
        """Return the label with the largest score of each item, the first of equal ones.

        A model of label sets returns a table of 0 and 1.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)

        Returns
        -------
        ndarray, shape (n_items,)
            For label sets (n_items, n_labels), a CSR array if the table of the training was sparse.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError, or another ValueError of scikit-learn's checks
            Another number of columns, entries that are not finite.
        """
        check_is_fitted(self)
        if self.current_model.labels.has_one_label:
            return self.current_model.labels.as_given(best_classes(self, X))
        table = np.concatenate([self.chosen_labels(scores.T) for scores in self.class_scores(X)])
        warn_of_empty_rows(X)
        return self.as_table(table)

    def as_table(self, table: NDArray[np.bool_]) -> NDArray[np.int64] | SparseMatrix:
        """Return a table of 0 and 1, sparse if the table of the training was."""
        if "sparse" in self.current_model.labels.form:
            return scipy.sparse.csr_array(table, dtype=np.int64)
        return table.astype(np.int64)

    @available_if(takes_sets)
    def predict_sets(self, X: ItemsLike) -> list[tuple]:
        """Return a tuple with the labels of each item; X and errors as in `predict`."""
        check_is_fitted(self)
        if self.current_model.labels.has_one_label:
            return [(label,) for label in self.predict(X).tolist()]
        table = scipy.sparse.csr_array(self.predict(X))
        names = self.classes_[table.indices].tolist()
        return [
            tuple(names[first:last]) for first, last in zip(table.indptr[:-1], table.indptr[1:], strict=True)
        ]

    def decision_function(self, X: ItemsLike) -> Vector:
        """Return the score of each class, float64 (n_items, n_classes); X and errors as in `predict`.

        If items have one of two labels, it is the difference of the second score and the first, (n_items,), as in
        scikit-learn. The scores of label sets are without thresholds.
        """
        scores = np.concatenate([scores.T for scores in self.class_scores(X)])
        is_binary = self.current_model.labels.has_one_label and len(self.classes_) == 2
        return scores[:, 1] - scores[:, 0] if is_binary else scores

    def score(self, X: ItemsLike, y: LabelsLike, sample_weight: SampleWeight = None) -> float:
        """Return the fraction of items whose labels are all correct, weighted by `sample_weight`; errors as in
        `predict`."""
        check_is_fitted(self)
        if self.current_model.labels.has_one_label:
            return label_accuracy(self.label_names(y)[0], best_classes(self, X), self.classes_, sample_weight)
        truth, predicted = (
            MultilabelTargets.among(y, self.classes_).table,
            scipy.sparse.csr_array(self.predict(X)),
        )
        check_consistent_length(truth, predicted)
        from sklearn.metrics import accuracy_score  # imported here, as its modules take 25 MB

        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))


def best_classes(estimator: ItemPredictions, X: ItemsLike) -> NDArray:
    """Return the class with the largest score of each item, (I,)."""
    best = [scores.argmax(axis=0) for scores in estimator.class_scores(X)]
    warn_of_empty_rows(X)
    return estimator.classes_[np.concatenate(best)]


class ItemEstimator(ItemPredictions, CallbackSupportMixin, TrainingMixin, Estimator):
    """Base class of the estimators of single items with the parameters of `Settings`."""

    intercept_ = FittedArray("intercept")
    MODEL = ItemModel
    SPACE = ItemSpace

    STARTS_FROM = "MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF"

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The sorted features that have a weight, the only ones that prediction reads."""
        return np.unique(self.coef_.indices).astype(np.int64)

    def sparsify(self) -> Self:
        """Return the estimator unchanged, as `coef_` is always sparse; linear models of scikit-learn have this
        method."""
        return self

    @with_fit_task
    def fit(
        self,
        X: ItemsLike,
        y: LabelsLike | None = None,
        sample_weight: SampleWeight = None,
        start: StartLike = None,
        *,
        validation: Validation = None,
    ) -> Self:
        """Train on items and their labels.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
            Booleans or real numbers; CSR, CSC and dense arrays are read without a copy. If half of the entries of a
            dense array or more are not zero, training computes matrix products with it. X of classifiers may also be
            `crfqn.Features`, which have a dense block.
        y : array-like of labels, shape (n_items,)
            Strings, whole numbers or booleans; for `TaxonomyCRF` also rows of the parts of a path, for
            `MultilabelRanker` also tables of 0 and 1, and label sets.
        sample_weight : array-like, shape (n_items,), optional
            Weight of each item in the loss; items of weight 0 are ignored.
        start : fitted MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF, optional
            Or the name of the file of such a model. Start from its weights, for its labels (nodes) and features that
            the data have too (by name if both have names); other weights start from zero. Its loss and penalty may
            differ. It is used instead of `warm_start`. With `verbose` the number of weights that are used is printed.
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
        del X  # its memory can be freed if the caller has no reference
        return self.train(problem)

    def encode(self, X: ItemsLike | Blocks, y: LabelsLike | None, sample_weight: SampleWeight) -> Encoded:
        return encode_row_blocks(X, self) if isinstance(X, Blocks) else encode_rows(X, y, sample_weight, self)

    def encode_held_out(self, validation: Validation, space: ItemSpace) -> tuple[Any, Any, int]:
        if not space.labels.has_one_label:
            raise InputError(
                "validation: expected items with one label each, as the thresholds of label sets are learned at the end"
            )
        X, y = check_validation(validation)
        check_consistent_length(X, y)
        columns = Columns(space.n_features, space.feature_names, space.n_dense)
        X = rows_of_model(self.with_model(columns), X)
        return X, y, X.shape[0]

    def make_loss(self, labels: LabelIndex, n_items: int, targets: Any) -> ScoreLoss:
        """Return the loss of the scores of items with these targets, int32 (I,)."""
        structure = labels.forest.over(np.arange(n_items + 1))
        return self.loss_variant.loss_class.from_structure(structure, targets)

    def adapted_source(self, source: InMemory, targets: Labels) -> Source:
        """Return the source with changes that the loss needs, by default none."""
        return source

    def is_centered(self, labels: LabelIndex) -> bool:
        """Return whether the loss is unchanged if the same constant is added to all intercepts."""
        return True

    def class_scores(self, X: ItemsLike) -> Iterator[Vector]:
        X = self.checked_items(X)
        return (scores.T for scores in self.engine.class_scores(self.current_model, X))
