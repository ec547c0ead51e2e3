"""Classifiers of single items with one label each: probabilities of the classes, and learning batch by batch.

Shapes: I items, F features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from crfqn.arrays import Vector
from crfqn.data.inputs import ItemsLike, LabelsLike, SampleWeight
from crfqn.errors import InputError
from crfqn.estimators.automatic import by_feature_parameters
from crfqn.estimators.estimator import (
    CalibrationMixin,
    available_if,
    check_no_dense,
    has_probabilities,
    of_model,
)
from crfqn.estimators.item_data import (
    Columns,
    Rows,
    Targets,
    encode_targets,
    item_features,
    item_space,
    new_rows,
    read_batch,
    rows_of_model,
)
from crfqn.estimators.item_estimator import ItemPredictions
from crfqn.estimators.online import (
    all_batch_classes,
    dual_pass,
    is_dual,
    learns_in_batches,
    learns_online,
    one_pass,
    refit,
    take_pass,
)
from crfqn.model.item_model import ItemModel
from crfqn.model.model import Decoding
from crfqn.model.unknown_features import warn_of_empty_rows
from crfqn.objectives.linear.feature_map import merge_weights
from crfqn.objectives.objective import build_objective
from crfqn.threads import Pool


class ClassProbabilities(ItemPredictions, CalibrationMixin):
    """Methods of the classifiers with probabilities, P(k | x) ~ exp(score of class k), under the logistic loss."""

    TAKES_DENSE: ClassVar[bool] = True

    predict_log_proba = of_model(ItemModel.predict_log_proba)
    predict_proba = of_model(ItemModel.predict_proba)
    predict_top = of_model(ItemModel.predict_top)
    uncertainty = of_model(ItemModel.uncertainty)
    explain = of_model(ItemModel.explain, None)

    def predict(self, X: ItemsLike, threshold: float | None = None) -> NDArray:
        """Return the most probable label of each item, or None if its probability is below a threshold.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
        threshold : float between 0 and 1, optional
            An item has the label None if no label has this probability. In a taxonomy the label is a node, perhaps an
            inner one: the path from the most probable top node to its most probable child, and so on, ends before the
            first node whose probability is below the threshold.

        Returns
        -------
        ndarray, shape (n_items,), of objects with a threshold
            Or (n_items, n_levels) if the labels of the training were rows of the parts of a path; without a label, the
            row has parts "".

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError, or another ValueError of scikit-learn's checks
            Another number of columns, entries that are not finite, a threshold that is not a number from 0 to 1.
        AttributeError
            A threshold for a model without probabilities.
        """
        return super().predict(X) if threshold is None else self.decode(X, threshold).labels

    @available_if(has_probabilities)
    def decode(self, X: ItemsLike, threshold: float | None = None) -> Decoding:
        """Return the most probable label of each item and its log-probability; parameters and errors as in `predict`.
        Without a label it is that of the most probable label, in a taxonomy that of the most probable top node."""
        decoding = self.current_model.decode(self.checked_items(X), self.engine, threshold=threshold)
        warn_of_empty_rows(X)
        return decoding

    @available_if(has_probabilities)
    def log_likelihood(self, X: ItemsLike, y: LabelsLike) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), in nats.

        X and errors as in `predict`; InputError also for labels that are not among the classes.
        """
        check_is_fitted(self)
        names = self.checked_labels(y)
        check_consistent_length(X, names)
        return self.current_model.log_likelihood(self.checked_items(X), names, self.engine)

    def checked_labels(self, y: LabelsLike) -> NDArray:
        """Return checked labels, one an item."""
        return column_or_1d(self.label_names(y)[0])

    @available_if(learns_in_batches)
    def partial_fit(
        self,
        X: ItemsLike,
        y: LabelsLike,
        classes: ArrayLike | None = None,
        sample_weight: SampleWeight = None,
    ) -> Self:
        """Continue the training with a batch of items.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; with solvers that make one pass, `class_weight` has to be None or a dict.
        classes : array-like of labels
            All labels of all batches. Required by "averaged-perceptron", "passive-aggressive" and the hinge loss in the
            first call for a model that has not been fitted; others learn a label when it first occurs.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            With other solvers, for a model that was trained by `fit` or loaded, whose items are not available.
        InputError, or another ValueError of scikit-learn's checks
            As in `fit`. With solvers that make one pass also for labels that are not among `classes`, and for classes
            other than those of the first call.

        Notes
        -----
        "averaged-perceptron" and "passive-aggressive" make one pass over the batch, from the weights of the last call
        or fit, and do not keep it. The model is the mean of the weights after each item of all calls, and `result_` has
        no objective. The intercept is the weight of a feature that is 1, and penalised like others. Model files have
        the mean of the weights, and the next call continues from it. The hinge loss of `MulticlassClassifier` under the
        penalty "l2" makes one pass of dual decomposition, in the order of the items; its weights are those of all items
        so far.

        All other solvers fit a sample of all batches, from the weights of the last call. While there are up to 10,000
        items (the class attribute `RESERVOIR`), the sample has all of them, and the model is that of `fit` to its
        tolerance. Then it has 10,000 items, each with the same probability (Vitter 1985), with weights whose sum is
        that of all.

        Pickles have the state with which the next call continues.
        """
        check_no_dense(self, X, "partial_fit")
        before = self.current_model if self.is_fitted else None
        if not learns_online(self):
            return self._refit(X, y, sample_weight)
        self.check_parameters()
        for name in by_feature_parameters(self):
            raise InputError(f"{name}: with the hinge loss, partial_fit expects None")
        labels, memory = None if before is None else before.labels, getattr(self, "_memory", None)
        X, targets, columns = read_batch(X, y, sample_weight, all_batch_classes(self, classes), labels, self)
        if is_dual(self):
            return self._learn_in_dual(X, targets, columns)
        encoded = encode_targets(X, targets, columns, self, None if memory is None else memory.centre)
        begin = None if before is None else encoded.space.start(before, True, bool(self.verbose))
        with Pool(self.n_threads) as pool:
            objective = encoded.source.objective(encoded.support, pool)
            weights, memory = one_pass(self, objective, begin)
        return take_pass(self, encoded.space, weights, _memory=memory)

    def _refit(self, X: ItemsLike, y: LabelsLike, sample_weight: SampleWeight) -> Self:
        """Fit the sample of all batches."""
        if self.is_fitted:
            X, names = rows_of_model(self, X), self.model_.feature_names
        else:
            X, columns = new_rows(self, X)
            names = columns.feature_names
        labels, rows = self.label_names(y)
        check_consistent_length(X, labels)
        refit(self, X, np.asarray(labels if rows is None else y), sample_weight)
        self.model_ = replace(self.model_, feature_names=names)  # the items of the sample have no names
        return self

    def _learn_in_dual(self, X: Rows, targets: Targets, columns: Columns) -> Self:
        """Make a pass of dual decomposition over a batch, whose offset is the scores of the weights so far."""
        offset = np.concatenate(list(self.class_scores(X)), axis=1) if self.is_fitted else None
        space, l2 = item_space(self, targets.space, columns), self.strengths_asked["l2"]
        with Pool(self.n_threads) as pool:
            features = item_features(X, self.fit_intercept, pool)
            loss = self.make_loss(targets.space, features.n_items, targets.labels)
            objective = build_objective(
                features, loss, targets.weights, offset=offset, max_part_scores=np.inf
            )
            weights, violation = dual_pass(objective, l2)
        if self.is_fitted:
            weights = merge_weights(*space.weights(self.current_model), weights.coords, weights.weights)
        return take_pass(self, space, weights, l2, violation)
