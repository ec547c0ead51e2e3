"""Base class of the estimators whose items may have several labels, without a taxonomy: reading and storing labels.

Where `y` has one label an item, `predict` returns labels; otherwise tables of 0 and 1, and `predict_sets` tuples.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from crfqn.data.csc_builder import check_sparse
from crfqn.data.items import set_weights
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.checks import check_classes
from crfqn.estimators.content import Content
from crfqn.estimators.features import warn_of_empty_rows
from crfqn.estimators.flat_labels import FlatLabels
from crfqn.estimators.items import ItemModel, Targets, Vector
from crfqn.estimators.label_sets import FORMS, LabelSets, SetSpace, are_sets
from crfqn.estimators.label_space import LabelSpace
from crfqn.solvers.validation import ValidationSet


class SetLabels(FlatLabels):
    """Base class of estimators of one or several labels an item; a subclass says which labels scores choose."""

    @abstractmethod
    def _targets_of(self, sets: LabelSets) -> Any:
        """Return the label sets in the form that the loss takes."""

    @abstractmethod
    def _chosen(self, scores: Vector) -> NDArray[np.bool_]:
        """Return which labels belong to items of these scores, bool (items, K), where an item may have several."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict(self, X: Any) -> Any:
        """Return the labels of each item: a table of 0 and 1, or the best label where the training had one an item.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)

        Returns
        -------
        ndarray, shape (n_items, n_labels), a CSR array if the table of the training was sparse; (n_items,) for labels

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError, or another ValueError of scikit-learn's checks
            Another number of columns, entries that are not finite.
        """
        check_is_fitted(self)
        if self._form == "labels":
            return super().predict(X)
        table = np.concatenate([self._chosen(scores.T) for scores in self._class_scores(X)])
        warn_of_empty_rows(X)
        return self._as_table(table)

    def _as_table(self, table: NDArray[np.bool_]) -> Any:
        """Return a table of 0 and 1 in the form of the training's."""
        if "sparse" in self._form:
            return scipy.sparse.csr_array(table, dtype=np.int64)
        return table.astype(np.int64)

    def predict_sets(self, X: Any) -> list[tuple]:
        """Return a tuple of the names of each item's labels, a list of n_items; X and errors as in `predict`."""
        check_is_fitted(self)
        if self._form == "labels":
            return [(label,) for label in self.predict(X).tolist()]
        table = scipy.sparse.csr_array(self.predict(X))
        names = self.classes_[table.indices].tolist()
        return [
            tuple(names[first:last]) for first, last in zip(table.indptr[:-1], table.indptr[1:], strict=True)
        ]

    def decision_function(self, X: Any) -> Vector:
        """Return the score of each label, float64 (n_items, n_labels), without thresholds; X, errors as in `predict`.

        Where items have one of two labels it is the second's score less the first's, (n_items,).
        """
        check_is_fitted(self)
        if self._form == "labels":
            return super().decision_function(X)
        return np.concatenate([scores.T for scores in self._class_scores(X)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of items whose labels are all right, weighted by `sample_weight`; errors as in `predict`."""
        check_is_fitted(self)
        if self._form == "labels":
            return super().score(X, y, sample_weight)
        truth, found = LabelSets.among(y, self.classes_).table, scipy.sparse.csr_array(self.predict(X))
        check_consistent_length(truth, found)
        return float(accuracy_score(truth, found, sample_weight=sample_weight))

    def _held_out(self, checked: ItemModel, targets: Targets, validation: Any, n_items: int) -> ValidationSet:
        assert isinstance(targets.space, SetSpace)
        if targets.space.form != "labels":
            raise InputError(
                "validation: expected items with one label each; what sets take is learnt at the end"
            )
        return super()._held_out(checked, targets, validation, n_items)

    def _read(self, checked: ItemModel, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Targets]:
        check_sparse(X)
        forms: Any = {"accept_sparse": ("csr", "csc"), "dtype": "numeric"}
        if are_sets(y):
            X = validate_data(checked, X, **forms)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(checked, X, y, multi_output=True, **forms)
        sets = LabelSets.of(y)
        weights = set_weights(sample_weight, self.class_weight, sets.classes, sets.table)
        if weights is not None and not weights.all():
            stays = np.flatnonzero(weights > 0)
            X, sets, weights = X[stays], sets.take(stays), weights[stays]
        check_classes(sets.classes)
        return X, Targets(SetSpace.of(sets.classes, sets.form), self._targets_of(sets), weights)

    def _adopt_labels(self, space: LabelSpace) -> None:
        assert isinstance(space, SetSpace)
        super()._adopt_labels(space)
        self._form = space.form

    @property
    def _space(self) -> SetSpace:
        return SetSpace.of(self.classes_, self._form)

    def _content(self) -> Content:
        content = super()._content()
        content.metadata["form"] = self._form
        return content

    def _restore(self, file: ModelFile) -> None:
        self._form = file.metadata["form"]
        if self._form not in FORMS:
            raise ModelFileError(
                f"{file.path}: expected a form of labels among {FORMS}, found {self._form!r}"
            )
        super()._restore(file)
