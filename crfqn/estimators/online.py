"""`partial_fit`: one pass over a batch of items, by a method that learns from its mistakes or by dual decomposition.

The mean of the weights goes on over all batches, which may be forgotten: a pass over all items in one batch is an epoch
of `fit` with the same solver, bit for bit. The penalty takes no part. Stochastic gradients are not among these methods:
their rate and their share of the penalty depend on how many items there will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from crfqn.arrays import NO_WEIGHTS, SparseWeights, Vector
from crfqn.data.labels import encode_labels, item_labels
from crfqn.errors import InputError
from crfqn.estimators.automatic import FROM_MISTAKES, learns_from_mistakes
from crfqn.estimators.base import SparseLinearModel
from crfqn.objectives.linear.feature_map import FeatureMap, centred_weights, given_weights, merge_weights
from crfqn.objectives.objective import Objective
from crfqn.parameters import keep_parameters
from crfqn.penalties import ElasticNet
from crfqn.result import Result, Status, Trace
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.stochastic.item_kernels import AveragedRows
from crfqn.solvers.stochastic.state import PerceptronState


@dataclass
class Memory:
    """The state after a batch: the weights of all passes (of the features less `centre`, (F,), None for none), the
    number of features, and the generator of the order of items."""

    rows: AveragedRows
    n_features: int
    random: np.random.Generator
    centre: Vector | None = None


def is_dual(model: SparseLinearModel) -> bool:
    """Return whether a batch is learned by dual decomposition: the flat hinge loss under an L2 penalty."""
    return "dual" in model._loss_form.solvers.get(getattr(model, "penalty", "l2"), ())


def learns_online(model: SparseLinearModel) -> bool:
    """Return whether a batch is learned in one pass and may be forgotten; others fit what is kept of all batches
    (`reservoir.py`)."""
    return learns_from_mistakes(model.solver) or is_dual(model)


def learns_in_batches(model: SparseLinearModel) -> bool:
    """Return True for models that can go on; AttributeError, as scikit-learn asks, for those that would forget."""
    if hasattr(model, "coef_") and not hasattr(model, "_reservoir") and not learns_online(model):
        names = " or ".join(f"solver={name!r}" for name in FROM_MISTAKES)
        raise AttributeError(
            "the items of `fit`, and of a model that is loaded, are not kept, and without them partial_fit with "
            f"solver={model.solver!r} would forget them; expected a model that has learned by partial_fit alone, "
            f"{names}, or fit(X, y, start=model) on all items"
        )
    return True


def known_classes(model: SparseLinearModel, classes: Any) -> Any:
    """Return the labels of all batches, sorted: `classes` in the first call, and from then on the model's own."""
    if not hasattr(model, "classes_"):
        if classes is None:
            raise InputError("classes: expected all labels in the first call of partial_fit, got None")
        return _distinct(model, classes)
    if classes is not None and not np.array_equal(_distinct(model, classes), model.classes_):
        raise InputError("classes: expected those of the first call of partial_fit, got others")
    return model.classes_


def _distinct(model: SparseLinearModel, classes: Any) -> Any:
    """Return the labels of the parameter `classes`, sorted; InputError where they are none, or no labels."""
    try:
        names = item_labels(classes) if model.LABELS_SEQUENCES else model._label_names(classes)[0]
        labels = column_or_1d(names)
        distinct, _ = encode_labels(labels, np.arange(labels.size + 1))
    except InputError as error:
        raise InputError(f"classes: {error}") from None
    if not distinct.size:
        raise InputError("classes: expected at least one label, got none")
    return distinct


def learn_online(
    model: SparseLinearModel,
    checked: SparseLinearModel,
    objective: Any,
    features: FeatureMap,
    start: SparseWeights | None,
) -> Any:
    """Learn the items of an objective in one pass; return the model (`checked`, with the batch's labels and columns)
    with the mean of all weights. `start` are those to begin with, where the model has no memory of a pass."""
    solver, memory = model._make_solver(), getattr(model, "_memory", None)
    begins = NO_WEIGHTS if start is None or memory is not None else centred_weights(features, start)
    online = objective.state(PerceptronState, begins, solver.variance)
    if memory is None:
        random = np.random.default_rng(solver.random_state)
    else:
        random = memory.random
        online.resume(memory.rows, memory.n_features)
    online.correct(random.permutation(online.n_items), solver.aggressiveness)
    model._adopt(checked)
    model._memory = Memory(online.rows, online.n_features, random, features.centre)
    return with_pass(model, given_weights(features, online.point().sparse_weights), 0.0)


def learn_in_dual(model: SparseLinearModel, checked: SparseLinearModel, objective: Objective) -> Any:
    """Learn the items of an objective, whose offset are their scores so far, and keep earlier dual variables; return
    the model of all seen. Table II of Blondel, Fujino and Ueda (2014) has the accuracy after one pass."""
    l2 = model._strengths["l2"]
    items = objective.state(DualItems, ElasticNet(0.0, l2), "pivot", 0.0)
    largest = items.sweep(items.items).violation
    learnt = items.point().sparse_weights
    if hasattr(model, "coef_"):
        before = model._weights()
        learnt = merge_weights(before.coords, before.weights, learnt.coords, learnt.weights)
    model._adopt(checked)
    return with_pass(model, learnt, l2, largest)


def with_pass(model: SparseLinearModel, weights: SparseWeights, l2: float, violation: float = np.nan) -> Any:
    """Return the model with the weights after one more pass under l2, the only penalty that takes part in any; nothing
    is known of its objective."""
    model.__dict__.pop("_reservoir", None)  # of other solvers' calls
    model._set_weights(weights)
    model._adopt_strengths({"l1": 0.0, "l2": l2, "group_l1": 0.0})
    keep_parameters(model)
    model.n_iter_ = n = getattr(model, "n_iter_", 0) + 1
    coords, values = model._weights()
    unknown = float("nan")
    model.result_ = Result(coords, values, unknown, unknown, violation, Status.LEARNED, n, n, 0.0, Trace())
    return model
