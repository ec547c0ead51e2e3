"""`partial_fit` of flat classifiers: one pass over a batch of items, which may be forgotten afterwards.

The multiclass hinge learns by dual decomposition: the weights are those of all items seen, and the dual variables of
earlier batches stay what they were. Table II of Blondel, Fujino and Ueda (2014) has the accuracy after one pass over
everything. The logistic loss learns online (`item_batches.py`).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from crfqn.arrays import SparseWeights
from crfqn.data.csc_builder import check_sparse
from crfqn.data.items import item_weights
from crfqn.data.label_codes import encode_known_labels
from crfqn.errors import InputError
from crfqn.estimators.checks import check_size
from crfqn.estimators.features import item_features
from crfqn.estimators.item_batches import OnlineItems
from crfqn.estimators.linear import LinearModel
from crfqn.estimators.online import is_online, known_classes, note_pass
from crfqn.estimators.probabilistic import LIKELIHOOD
from crfqn.objectives.linear.coordinates import merge_weights
from crfqn.objectives.losses.hinges import MulticlassHinge
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.threads import Pool

HINGE = "hinge"


def is_dual(model: Any) -> bool:
    """Return whether a batch is learned by dual decomposition: the hinge loss under an L2 penalty."""
    return model.loss == HINGE and model.penalty == "l2"


def learns_in_one_pass(model: Any) -> bool:
    """Return True for models that learn batches, else raise AttributeError, as scikit-learn asks."""
    if is_dual(model):
        return True
    if model.loss == LIKELIHOOD:
        return is_online(model)
    raise AttributeError(
        f"partial_fit is that of loss={HINGE!r} with penalty='l2', and of loss={LIKELIHOOD!r} with an online solver; "
        f"they are {model.loss!r} and {model.penalty!r}"
    )


class OnePass(OnlineItems, LinearModel):
    """Mixin with `partial_fit`, for classifiers that can learn a batch in one pass, by dual decomposition or online."""

    loss: str

    @available_if(learns_in_one_pass)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of items in one pass.

        The hinge loss under penalty "l2" learns by dual decomposition, in the order of the items; the logistic loss
        with solver "averaged-perceptron" or "passive-aggressive" from its mistakes, as in `TaxonomyCRF.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As of `fit`; `class_weight` may be None or a dict.
        classes : array-like
            All labels that will ever come; needed by the first call.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
            Also for labels that are not among `classes`, and for other classes than those of the first call.

        Notes
        -----
        The intercept learns as the weight of a feature that is 1, penalised like others. There is no certificate: the
        optimum is that of all batches, and nobody keeps them.
        """
        if not is_dual(self):
            return super().partial_fit(X, y, classes, sample_weight)
        self._check_parameters()
        names = column_or_1d(y)
        is_first = not hasattr(self, "coef_")
        labels = known_classes(self, classes)
        check_sparse(X)
        X, names = validate_data(
            self, X, names, reset=is_first, accept_sparse=("csr", "csc"), dtype="numeric"
        )
        codes = encode_known_labels(names, np.arange(names.size + 1), labels)
        if self.class_weight == "balanced":
            raise InputError(
                "class_weight: 'balanced' needs all items at once; partial_fit expects None or a dict"
            )
        weights = item_weights(sample_weight, self.class_weight, labels, codes)
        with Pool(self.n_threads) as pool:
            features = item_features(X, self.fit_intercept, pool)
            check_size(features)
            offset = None if is_first else np.concatenate(list(self._class_scores(X)), axis=1)
            objective = Objective(features, MulticlassHinge(codes, labels.size), weights, offset=offset)
            learnt, violation = self._learn_once(objective)
        self.classes_ = labels
        if not is_first:
            learnt = merge_weights(*self._weights(), learnt.coords, learnt.weights)
        self._set_weights(learnt)
        note_pass(self, violation)
        return self

    def _learn_once(self, objective: Objective) -> tuple[SparseWeights, float]:
        """Return what a pass adds to the weights, and the largest violation that it met."""
        penalty = ElasticNet(0.0, self._strengths["l2"])
        blocks = objective.state(DualItems, penalty, "pivot", 0.0)
        seen = blocks.sweep(blocks.items)
        found = blocks.point().sparse_weights
        return SparseWeights(found.coords, found.weights), seen.violation
