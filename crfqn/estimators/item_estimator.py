"""What the estimators of single items have in common: an item is a row of a matrix, and has a label or several.

Shapes: I items, F features, K nodes of the structure (flat: the classes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from crfqn.arrays import Vector
from crfqn.choices import STRENGTHS
from crfqn.data.label_arrays import item_labels
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError
from crfqn.estimators.blocks import Blocks
from crfqn.estimators.estimator import Estimator, Feature, available_if, prepare, strongest_features, train
from crfqn.estimators.item_data import Columns, encode_row_blocks, encode_rows, known_rows
from crfqn.estimators.multilabel_targets import MultilabelTargets, check_no_rows, share_right
from crfqn.estimators.problem import (
    CallbackSupportMixin,
    Encoded,
    InMemory,
    Problem,
    Source,
    check_validation,
    with_tasks,
)
from crfqn.model.item_model import ItemModel
from crfqn.model.item_space import ItemSpace
from crfqn.model.label_index import LabelIndex
from crfqn.model.trained import Fitted
from crfqn.model.unknown_features import warn_of_empty_rows
from crfqn.model.weights import FittedArray, FittedDense, FittedMatrix
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.taxonomy.label_paths import PathRowFormat


def takes_sets(model: Any) -> bool:
    """Return True for models whose items may have several labels; AttributeError, as scikit-learn asks, for others."""
    if not model.TAKES_SETS:
        raise AttributeError(f"items of a {type(model).__name__} have one label each")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class ItemParameters:
    """Parameters of all estimators of single items, besides those of `Settings`."""

    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: Mapping | str | None = None


class ItemPredictions(ClassifierMixin):
    """Predictions of the labels of single items, which are the rows of a matrix X (items x features)."""

    TAKES_SETS: ClassVar[bool] = False
    TAKES_DENSE: ClassVar[bool] = False  # `crfqn.Features`

    fit_intercept: bool
    n_threads: int | None
    verbose: int
    check_parameters: Any
    engine: Any
    classes_: Any
    model_: Any
    current_model: Any
    is_fitted: Any

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sparse input is accepted, and without intercept a poor score is possible."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self.TAKES_SETS
        # Items around the origin fall on both sides of every such boundary, whatever the classes weigh.
        tags.classifier_tags.poor_score = not self.fit_intercept
        return tags

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns; AttributeError, as of scikit-learn's models, where they have none."""
        names = getattr(self.__dict__.get("model_"), "feature_names", None)
        if names is None:
            raise AttributeError(f"{type(self).__name__} has no names of features")
        return np.array(names, dtype=object)

    @feature_names_in_.setter
    def feature_names_in_(self, names: NDArray[np.object_]) -> None:
        self.model_ = replace(self.model_, feature_names=names.tolist())

    def label_names(self, y: Any) -> tuple[Any, PathRowFormat | None]:
        """Return one label an item, and the form of labels that are rows of parts, else None."""
        check_no_rows(y)
        return item_labels(y), None

    def learn_labels(
        self, classes: NDArray, rows: PathRowFormat | None
    ) -> tuple[LabelIndex, NDArray[np.int32]]:
        """Return the labels to choose from, and the node of each of the `classes` that occur, sorted; `rows`: their
        form as of `_label_names`."""
        space = LabelIndex.flat(classes)
        return space, space.nodes

    def targets_of_sets(self, sets: MultilabelTargets) -> Any:
        """Return label sets in the form that the loss takes, where items may have several labels."""
        raise NotImplementedError

    def chosen_labels(self, scores: Vector) -> NDArray[np.bool_]:
        """Return which labels belong to items of these scores, bool (items, K), where items may have several."""
        raise NotImplementedError

    def class_scores(self, X: Any) -> Iterator[Vector]:
        """Yield by blocks of items the score of each class, (n_classes, items): its node's and its ancestors'."""
        raise NotImplementedError

    def checked_items(self, X: Any) -> Any:
        """Return items to label, checked."""
        check_is_fitted(self)
        return known_rows(self, X)

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
        if self.current_model.labels.has_one_label:
            return self.current_model.labels.as_given(best_labels(self, X))
        table = np.concatenate([self.chosen_labels(scores.T) for scores in self.class_scores(X)])
        warn_of_empty_rows(X)
        return self.as_table(table)

    def as_table(self, table: NDArray[np.bool_]) -> Any:
        """Return a table of 0 and 1 in the form of the training's."""
        if "sparse" in self.current_model.labels.form:
            return scipy.sparse.csr_array(table, dtype=np.int64)
        return table.astype(np.int64)

    @available_if(takes_sets)
    def predict_sets(self, X: Any) -> list[tuple]:
        """Return a tuple of the names of each item's labels, a list of n_items; X and errors as in `predict`."""
        check_is_fitted(self)
        if self.current_model.labels.has_one_label:
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
        scores = np.concatenate([scores.T for scores in self.class_scores(X)])
        is_binary = self.current_model.labels.has_one_label and len(self.classes_) == 2
        return scores[:, 1] - scores[:, 0] if is_binary else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of items whose labels are all correct, weighted by `sample_weight`; errors as in
        `predict`."""
        check_is_fitted(self)
        if self.current_model.labels.has_one_label:
            return share_right(self.label_names(y)[0], best_labels(self, X), self.classes_, sample_weight)
        truth, predicted = (
            MultilabelTargets.among(y, self.classes_).table,
            scipy.sparse.csr_array(self.predict(X)),
        )
        check_consistent_length(truth, predicted)
        from sklearn.metrics import accuracy_score  # takes 25 MB

        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))


def best_labels(estimator: Any, X: Any) -> NDArray:
    """Return the class with the largest score of each item, (I,)."""
    best = [scores.argmax(axis=0) for scores in estimator.class_scores(X)]
    warn_of_empty_rows(X)
    return estimator.classes_[np.concatenate(best)]


class ItemEstimator(ItemPredictions, CallbackSupportMixin, Estimator):
    """Base class of the estimators of single items that have `Settings` as parameters: scores are linear in the
    weights, which `minimize` trains."""

    coef_, dense_coef_ = FittedMatrix("weights"), FittedDense("dense_coef_")
    intercept_ = FittedArray("intercept")
    SPACE = ItemSpace
    l1_, l2_, group_l1_ = (Fitted(f"trained.strengths.{name}") for name in STRENGTHS)

    STARTS_FROM = "MulticlassClassifier, MultilabelRanker, MulticlassCRF or TaxonomyCRF"

    loss_variant: Any

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted: what prediction reads of its data."""
        return np.unique(self.coef_.indices).astype(np.int64)

    def sparsify(self) -> Self:
        """Do nothing, as `coef_` is sparse from the start; for code that asks linear models of scikit-learn."""
        return self

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
        return strongest_features(self.current_model, label, n)

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
        problem = prepare(self, X, y, sample_weight, start, validation=validation)
        del X  # so that a caller who does not keep it gets its memory back
        return train(self, problem)

    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Problem:
        """Return the training that `fit` would do, without doing it; parameters and errors as in `fit`."""
        return prepare(self, X, y, sample_weight, start, validation=validation)

    def encode(self, X: Any, y: Any, sample_weight: Any) -> Encoded:
        return encode_row_blocks(X, self) if isinstance(X, Blocks) else encode_rows(X, y, sample_weight, self)

    def encode_held_out(self, validation: Any, space: ItemSpace) -> tuple[Any, Any, int]:
        if not space.labels.has_one_label:
            raise InputError(
                "validation: expected items with one label each; what sets take is learnt at the end"
            )
        X, y = check_validation(validation)
        check_consistent_length(X, y)
        columns = Columns(space.n_features, space.feature_names, space.n_dense)
        X = known_rows(self.with_model(columns), X)
        return X, y, X.shape[0]

    def make_loss(self, labels: LabelIndex, n_items: int, targets: Any) -> ScoreLoss:
        """Return the loss of scores to minimise, of `targets`, int32 (I,)."""
        structure = labels.forest.over(np.arange(n_items + 1))
        return self.loss_variant.loss_class.from_structure(structure, targets)

    def adapted_source(self, source: InMemory, targets: Any) -> Source:
        """Return the items with what a loss has besides, by default nothing."""
        return source

    def is_centered(self, labels: LabelIndex) -> bool:
        """Return whether the loss stays as it is where all intercepts are shifted alike."""
        return True

    def class_scores(self, X: Any) -> Iterator[Vector]:
        X = self.checked_items(X)
        return (scores.T for scores in self.engine.class_scores(self.current_model, X))

    def model_of_file(self, file: ModelFile) -> ItemModel:
        return ItemModel.of_file(file)
