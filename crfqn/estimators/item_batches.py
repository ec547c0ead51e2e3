"""`partial_fit` of classifiers of single items, flat or into a taxonomy; see `estimators/online.py`."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from crfqn.data.csc_builder import check_sparse
from crfqn.data.items import item_weights
from crfqn.data.label_codes import encode_known_labels
from crfqn.errors import InputError
from crfqn.estimators.checks import check_size
from crfqn.estimators.features import centred, item_features
from crfqn.estimators.items import ItemModel, Targets, adopt_columns
from crfqn.estimators.online import Memory, is_online, known_classes, learn_batch, note_pass
from crfqn.threads import Pool


class OnlineItems(ItemModel):
    """Mixin with `partial_fit` for classifiers that maximise a likelihood."""

    @available_if(is_online)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of items in one pass, from where the last call or fit has ended.

        Parameters
        ----------
        X, y, sample_weight
            As of `fit`; `class_weight` may be None or a dict.
        classes : array-like of labels
            All labels that will ever come; needed by the first call of a model that has not been fitted.

        Returns
        -------
        self
            With the mean of the weights after each item of all calls. `result_` says nothing of an objective.

        Raises
        ------
        AttributeError
            The solver is not "averaged-perceptron" or "passive-aggressive".
        InputError, or another ValueError of scikit-learn's checks
            Also for labels that are not among `classes`, and for other classes than those of the first call.

        Notes
        -----
        The intercept learns as the weight of a feature that is 1. Pickles keep all that the next call goes on from.
        Model files keep the mean of the weights, which is then what the next call begins with.
        """
        self._check_parameters()
        checked = copy(self)
        X, targets = self._read_batch(checked, X, y, classes, sample_weight)
        start = self._start(checked, targets, self if hasattr(self, "coef_") else None)
        with Pool(self.n_threads) as pool:
            features = item_features(X, self.fit_intercept, pool)
            if self._has_free_intercept:
                memory: Memory | None = getattr(self, "_memory", None)
                features = (
                    centred(features, targets.weights)
                    if memory is None
                    else features.centred_at(memory.centre)
                )
            check_size(features)
            over = targets.space.over(features.n_items)
            objective = self._objective(features, over, targets.labels, targets.weights, None)
            learnt = learn_batch(self, objective, features, start)
        self._adopt_labels(targets.space)
        adopt_columns(self, checked)
        self._set_weights(learnt)
        note_pass(self)
        return self

    def _read_batch(
        self, checked: ItemModel, X: Any, y: Any, classes: Any, sample_weight: Any
    ) -> tuple[Any, Targets]:
        """Return the items of a batch and their labels, checked; `checked` takes the columns' names."""
        if self.class_weight == "balanced":
            raise InputError(
                "class_weight: 'balanced' needs all items at once; partial_fit expects None or a dict"
            )
        names, n_levels = self._label_names(y)
        known = known_classes(self, None if classes is None else self._label_names(classes)[0])
        space = self._space if hasattr(self, "coef_") else self._learn_labels(known, n_levels)[0]
        check_sparse(X)
        is_first = not hasattr(self, "coef_")
        X, names = validate_data(
            checked, X, names, reset=is_first, accept_sparse=("csr", "csc"), dtype="numeric"
        )
        codes = encode_known_labels(names, np.arange(len(names) + 1), space.classes)
        weights = item_weights(sample_weight, self.class_weight, space.classes, codes)
        return X, Targets(space, space.nodes[codes], weights)
