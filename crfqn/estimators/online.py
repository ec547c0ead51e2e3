"""`partial_fit`: one pass over a batch of items, or a fit to a sample of all items so far.

Methods that learn from their mistakes, and dual decomposition, make one pass over a batch and may forget it: the mean
of the weights goes on over all batches, so that a pass over all items in one batch is an epoch of `fit` with the same
solver, bit for bit. The penalty takes no part. Stochastic gradients are not among these methods: their rate and their
share of the penalty depend on how many items there will be.

Methods that minimise fit a uniform sample of all items so far (all of them while they are few) in each call, and start
from the weights of the last call.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from crfqn.arrays import NO_COORDS, NO_VALUES, NO_WEIGHTS, SparseWeights, Vector
from crfqn.data.encoding import Sequences
from crfqn.data.items import check_item_weights
from crfqn.data.label_arrays import encode_labels
from crfqn.errors import InputError
from crfqn.estimators.automatic import FROM_MISTAKES, learns_from_mistakes
from crfqn.estimators.estimator import prepare, train
from crfqn.estimators.problem import with_tasks
from crfqn.model.trained import Trained
from crfqn.objectives.linear.feature_map import centered_weights, uncentered_weights
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.result import Result, Status, Trace
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.stochastic.item_kernels import LearnedWeights
from crfqn.solvers.stochastic.state import PerceptronState


@dataclass
class Memory:
    """The state after a batch: the weights of all passes (of the features less `centre`, (F,), None for none), the
    number of features, and the generator of the order of items."""

    rows: LearnedWeights
    n_features: int
    random: np.random.Generator
    centre: Vector | None = None


def is_dual(model: Any) -> bool:
    """Return whether a batch is learned by dual decomposition: the flat hinge loss under an L2 penalty."""
    return "dual" in model.loss_variant.solvers.get(getattr(model, "penalty", "l2"), ())


def learns_online(model: Any) -> bool:
    """Return whether a batch is learned in one pass and may be forgotten; others fit what is kept of all batches."""
    return learns_from_mistakes(model.solver) or is_dual(model)


def learns_in_batches(model: Any) -> bool:
    """Return True for models that can go on; AttributeError, as scikit-learn asks, for those that would forget."""
    if model.is_fitted and not hasattr(model, "_reservoir") and not learns_online(model):
        names = " or ".join(f"solver={name!r}" for name in FROM_MISTAKES)
        raise AttributeError(
            "the items of `fit`, and of a model that is loaded, are not kept, and without them partial_fit with "
            f"solver={model.solver!r} would forget them; expected a model that has learned by partial_fit alone, "
            f"{names}, or fit(X, y, start=model) on all items"
        )
    return True


def known_classes(model: Any, classes: Any) -> Any:
    """Return the labels of all batches, sorted: `classes` in the first call, and from then on the model's own."""
    if not hasattr(model, "classes_"):
        if classes is None:
            raise InputError("classes: expected all labels in the first call of partial_fit, got None")
        return _distinct(model, classes)
    if classes is not None and not np.array_equal(_distinct(model, classes), model.classes_):
        raise InputError("classes: expected those of the first call of partial_fit, got others")
    return model.classes_


def _distinct(model: Any, classes: Any) -> Any:
    """Return the labels of the parameter `classes`, sorted; InputError where they are none, or no labels."""
    try:
        names = model.label_names(classes)[0]
        labels = column_or_1d(names)
        distinct, _ = encode_labels(labels, np.arange(labels.size + 1))
    except InputError as error:
        raise InputError(f"classes: {error}") from None
    if not distinct.size:
        raise InputError("classes: expected at least one label, got none")
    return distinct


def one_pass(model: Any, objective: Any, start: SparseWeights | None) -> tuple[SparseWeights, Memory]:
    """Learn the items of an objective in one pass; return the mean of all weights, and what the next pass goes on from.
    `start` are the weights to begin with, where the model has no memory of a pass."""
    solver, memory, features = model.make_solver(), getattr(model, "_memory", None), objective.first.map
    begins = NO_WEIGHTS if start is None or memory is not None else centered_weights(features, start)
    online = objective.state(PerceptronState, begins, solver.variance)
    if memory is None:
        random = np.random.default_rng(solver.random_state)
    else:
        random = memory.random
        online.resume(memory.rows, memory.n_features)
    online.correct(random.permutation(online.n_items), solver.aggressiveness)
    weights = uncentered_weights(features, online.point().sparse_weights)
    return weights, Memory(online.rows, online.n_features, random, features.centre)


def dual_pass(objective: Objective, l2: float) -> tuple[SparseWeights, float]:
    """Learn the items of an objective in one pass of dual decomposition, and keep earlier dual variables; return what
    to add to the weights, and the largest violation. Table II of Blondel, Fujino and Ueda (2014) has the accuracy."""
    items = objective.state(DualItems, ElasticNet(0.0, l2), "pivot", 0.0)
    largest = items.sweep(items.items).violation
    return items.point().sparse_weights, largest


def take_pass(
    estimator: Any,
    space: Any,
    weights: SparseWeights,
    l2: float = 0.0,
    violation: float = np.nan,
    **memory: Any,
) -> Any:
    """Return the estimator with the weights after one more pass under l2, the only penalty that takes part in any.
    Nothing is known of an objective; memory : what the next pass goes on from, if anything."""
    nan, n = float("nan"), 1 + getattr(estimator, "n_iter_", 0)
    result = Result(NO_COORDS, NO_VALUES, nan, nan, violation, Status.LEARNED, n, n, 0.0, Trace())
    trained = Trained(result, {"l1": 0.0, "l2": l2, "group_l1": 0.0}, estimator.stored_parameters())
    estimator.take_model(space.model(weights, trained), **memory)
    return estimator


@dataclass(frozen=True, eq=False)
class Reservoir:
    """A uniform sample of the `n_seen` items so far, with their labels and weights (Vitter 1985, algorithm R).

    X : Sequences or matrix; y : array, an entry an item; weights : float64 (n,), as they were given
    """

    X: Any
    y: NDArray
    weights: Vector
    n_seen: int
    random: np.random.Generator

    @property
    def item_weights(self) -> Vector | None:
        """Weights that add up to about those of all items seen; None where each of them counts once."""
        weights = self.weights * (self.n_seen / max(self.weights.size, 1))
        return None if (weights == 1.0).all() else weights

    def followed_by(self, batch: Reservoir, size: int) -> Reservoir:
        """Return the sample of at most `size` items after a further batch."""
        n_kept, n_seen, random = self.weights.size, self.n_seen + batch.n_seen, deepcopy(self.random)
        places = np.arange(self.n_seen, n_seen)
        chosen = np.arange(min(size, n_seen))  # the items' places in what is kept and the batch behind it
        for new, slot in enumerate(np.where(places < size, places, random.integers(places + 1)).tolist()):
            if slot < size:
                chosen[slot] = n_kept + new
        y, weights = (
            np.concatenate(pair)[chosen] for pair in ((self.y, batch.y), (self.weights, batch.weights))
        )
        return Reservoir(stacked(self.X, batch.X)[chosen], y, weights, n_seen, random)


def refit(model: Any, X: Any, y: NDArray, sample_weight: Any) -> Any:
    """Fit a model to a checked batch and the sample of those before; return the model."""
    is_first = not model.is_fitted
    before = (
        Reservoir(X[:0], y[:0], np.empty(0), 0, np.random.default_rng(0)) if is_first else model._reservoir
    )
    weights = check_item_weights(sample_weight, len(y))
    batch = Reservoir(X, y, np.ones(len(y)) if weights is None else weights, len(y), before.random)
    sample = before.followed_by(batch, model.RESERVOIR)
    try:
        _train(model, sample.X, sample.y, sample.item_weights, None if is_first else model)
    finally:  # an interrupt, too, leaves a model of these items where the training had begun
        if model.is_fitted and not hasattr(model, "_reservoir"):
            model._reservoir = sample
    return model


@with_tasks
def _train(model: Any, X: Any, y: NDArray, sample_weight: Vector | None, start: Any) -> Any:
    """Train as `fit` does, whose arguments may be others in a subclass."""
    return train(model, prepare(model, X, y, sample_weight, start))


def stacked(first: Any, second: Any) -> Any:
    """Return the items of both; columns that only the second has come behind the others."""
    if isinstance(second, Sequences):
        matrix = first.matrix
        if matrix.shape[1] < second.n_features:
            rows = scipy.sparse.csr_array(matrix)
            shape = rows.shape[0], second.n_features
            matrix = scipy.sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=shape)
        offsets = np.append(first.offsets, first.offsets[-1] + second.offsets[1:])
        return Sequences.from_checked(
            stacked(matrix, second.matrix), offsets, second.feature_names, second.vocabulary
        )
    if scipy.sparse.issparse(first) or scipy.sparse.issparse(second):
        return scipy.sparse.vstack([scipy.sparse.csr_array(part) for part in (first, second)], format="csr")
    return np.concatenate([first, second])
