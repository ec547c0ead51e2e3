"""Classifiers of single items with one label each: probabilities of the classes, and learning batch by batch.

Shapes: I items, F features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.estimators.automatic import given
from crfqn.estimators.estimator import CALIBRATE, available_if, check_no_dense, has_probabilities, of_model
from crfqn.estimators.item_data import (
    Columns,
    Targets,
    encode_targets,
    item_features,
    known_rows,
    new_rows,
    read_batch,
    space_of,
)
from crfqn.estimators.item_estimator import ItemPredictions
from crfqn.estimators.online import (
    dual_pass,
    is_dual,
    known_classes,
    learns_in_batches,
    learns_online,
    one_pass,
    refit,
    take_pass,
)
from crfqn.model.item_model import ItemModel
from crfqn.model.model import Decoding
from crfqn.model.trained import Fitted
from crfqn.model.unknown_features import warn_of_empty_rows
from crfqn.objectives.linear.feature_map import merge_weights
from crfqn.objectives.objective import build_objective
from crfqn.threads import Pool


class ClassProbabilities(ItemPredictions):
    """Methods of the classifiers that may be trained by maximum likelihood: P(k | x) ~ exp(score of class k)."""

    make_loss: Any
    strengths_asked: Any

    TAKES_DENSE: ClassVar[bool] = True

    predict_log_proba = of_model(ItemModel.predict_log_proba)
    predict_proba = of_model(ItemModel.predict_proba)
    predict_top = of_model(ItemModel.predict_top)
    uncertainty = of_model(ItemModel.uncertainty)
    explain = of_model(ItemModel.explain, None)
    calibrate, temperature_ = CALIBRATE, Fitted("temperature")

    def predict(self, X: Any, threshold: float | None = None) -> NDArray:
        """Return the most probable label of each item, or no label where it is not probable enough.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
        threshold : float between 0 and 1, optional
            The least probability of a label; an item with no label of at least this probability has None. In a taxonomy
            the label is a node, perhaps an inner one: the last on the way down from the most probable top node to the
            most probable child, and so on, whose probability is at least the threshold.

        Returns
        -------
        ndarray, shape (n_items,), of objects with a threshold
            Or (n_items, n_levels) if the labels of the training were rows of the parts of a path; a row of "" is no
            label.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError, or another ValueError of scikit-learn's checks
            Another number of columns, entries that are not finite, a threshold that is no number from 0 to 1.
        AttributeError
            A threshold for a model without probabilities.
        """
        return super().predict(X) if threshold is None else self.decode(X, threshold).labels

    @available_if(has_probabilities)
    def decode(self, X: Any, threshold: float | None = None) -> Decoding:
        """Return the most probable label of each item and its log-probability; parameters and errors as in `predict`.
        Of no label it is that of the most probable one, in a taxonomy of the most probable top node."""
        decoding = self.current_model.decode(self.checked_items(X), self.engine, threshold=threshold)
        warn_of_empty_rows(X)
        return decoding

    @available_if(has_probabilities)
    def log_likelihood(self, X: Any, y: Any) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), in nats.

        X and errors as in `predict`; InputError also for labels that are not among the classes.
        """
        check_is_fitted(self)
        names = self.checked_labels(y)
        check_consistent_length(X, names)
        return self.current_model.log_likelihood(self.checked_items(X), names, self.engine)

    def checked_labels(self, y: Any) -> Any:
        """Return one label an item, checked."""
        return column_or_1d(self.label_names(y)[0])

    @available_if(learns_in_batches)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of items besides those of the calls before.

        Parameters
        ----------
        X, y, sample_weight
            As of `fit`; solvers that make one pass take a `class_weight` that is None or a dict.
        classes : array-like of labels
            All labels of all batches. Required by "averaged-perceptron", "passive-aggressive" and the hinge loss in the
            first call for a model that has not been fitted; others learn a label when it first occurs.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            With a solver that does not make one pass the model was trained by `fit`, or loaded: its items are not kept.
        InputError, or another ValueError of scikit-learn's checks
            As of `fit`. Of solvers that make one pass also for labels that are not among `classes`, and for other
            classes than those of the first call.

        Notes
        -----
        "averaged-perceptron" and "passive-aggressive" learn the batch in one pass, from where the last call or fit has
        ended, and forget it: the model has the mean of the weights after each item of all calls, and `result_` says
        nothing of an objective. The intercept learns as the weight of a feature that is 1, penalised like others. Model
        files keep the weights, which are then what the next call begins with. The hinge loss of `MulticlassClassifier`
        under the penalty "l2" needs no such solver: it learns by dual decomposition, in the order of the items, and the
        weights are those of all items seen.

        All else fits what is kept of all batches, from the weights of the last call: all items while they are at most
        10,000 (the class attribute `RESERVOIR`), so that the model is that of `fit` on all of them, to its tolerance;
        from then on 10,000 of them, each item with the same probability (Vitter 1985) and weights that add up to those
        of all.

        Pickles keep all that the next call goes on from.
        """
        check_no_dense(self, X, "partial_fit")
        before = self.current_model if self.is_fitted else None
        if not learns_online(self):
            return self._refit(X, y, sample_weight)
        self.check_parameters()
        for name in given(self):
            raise InputError(f"{name}: partial_fit of the hinge loss learns without; expected None")
        labels, memory = None if before is None else before.labels, getattr(self, "_memory", None)
        X, targets, columns = read_batch(X, y, sample_weight, known_classes(self, classes), labels, self)
        if is_dual(self):
            return self._learn_in_dual(X, targets, columns)
        encoded = encode_targets(X, targets, columns, self, None if memory is None else memory.centre)
        begin = None if before is None else encoded.space.start(before, True, bool(self.verbose))
        with Pool(self.n_threads) as pool:
            weights, memory = one_pass(self, encoded.objective(pool), begin)
        return take_pass(self, encoded.space, weights, _memory=memory)

    def _refit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit what is kept of all batches."""
        if self.is_fitted:
            X, names = known_rows(self, X), self.model_.feature_names
        else:
            X, columns = new_rows(self, X)
            names = columns.feature_names
        labels, rows = self.label_names(y)
        check_consistent_length(X, labels)
        refit(self, X, np.asarray(labels if rows is None else y), sample_weight)
        self.model_ = replace(self.model_, feature_names=names)  # which the items that are kept do not have
        return self

    def _learn_in_dual(self, X: Any, targets: Targets, columns: Columns) -> Self:
        """Learn a batch by dual decomposition; its offset are the scores of the weights so far."""
        offset = np.concatenate(list(self.class_scores(X)), axis=1) if self.is_fitted else None
        space, l2 = space_of(self, targets.space, columns), self.strengths_asked["l2"]
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
