"""`partial_fit`: one pass over a batch of items, or a fit to a sample of all items so far.

Solvers that correct mistakes, and dual decomposition, make one pass over a batch, which need not be kept. A pass over
all items in one batch equals an epoch of `fit` to the bit; the penalty has no effect. Stochastic gradients cannot do
this, because their learning rate and penalty depend on the number of all items. Other solvers fit a uniform sample of
all items so far in each call, from the weights of the last call.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from crfqn.arrays import NO_COORDS, NO_VALUES, NO_WEIGHTS, SparseWeights, Vector
from crfqn.data.encoding import Sequences
from crfqn.data.inputs import ItemsLike, SampleWeight
from crfqn.data.items import check_item_weights
from crfqn.data.label_arrays import encode_labels
from crfqn.errors import InputError
from crfqn.estimators.automatic import MISTAKE_SOLVERS, learns_from_mistakes
from crfqn.estimators.estimator import Estimator, StartLike
from crfqn.estimators.problem import with_fit_task
from crfqn.model.space import Space
from crfqn.model.trained import Trained
from crfqn.objectives.linear.feature_map import centered_weights, uncentered_weights
from crfqn.objectives.objective import Objective
from crfqn.penalties import ElasticNet
from crfqn.result import Result, Status, Trace
from crfqn.solvers.dual.decomposition_state import DualItems
from crfqn.solvers.stochastic.item_kernels import LearnedWeights
from crfqn.solvers.stochastic.state import PerceptronState

EstimatorType = TypeVar("EstimatorType", bound=Estimator)


@dataclass
class Memory:
    """The state after a batch: the weights of all passes, the number of features, the generator of the order of items,
    and the centre that is subtracted from features, (F,), or None."""

    rows: LearnedWeights
    n_features: int
    random: np.random.Generator
    centre: Vector | None = None


def is_dual(model: Estimator) -> bool:
    """Return whether `partial_fit` makes a pass of dual decomposition: the flat hinge loss under an L2 penalty."""
    return "dual" in model.loss_variant.solvers.get(getattr(model, "penalty", "l2"), ())


def learns_online(model: Estimator) -> bool:
    """Return whether `partial_fit` makes one pass over a batch; otherwise it fits a sample of all batches."""
    return learns_from_mistakes(model.solver) or is_dual(model)


def learns_in_batches(model: Estimator) -> bool:
    """Return True for models that `partial_fit` can continue; AttributeError, as scikit-learn expects, for others."""
    if model.is_fitted and not hasattr(model, "_reservoir") and not learns_online(model):
        names = " or ".join(f"solver={name!r}" for name in MISTAKE_SOLVERS)
        raise AttributeError(
            "the items of `fit`, and of a model that is loaded, are not kept, and without them partial_fit with "
            f"solver={model.solver!r} would forget them; expected a model that was trained by partial_fit only, "
            f"{names}, or fit(X, y, start=model) on all items"
        )
    return True


def all_batch_classes(model: Estimator, classes: ArrayLike | None) -> NDArray:
    """Return the sorted labels of all batches: `classes` in the first call, then those of the model."""
    is_first = not hasattr(model, "classes_")
    if classes is None:
        if is_first:
            raise InputError("classes: expected all labels in the first call of partial_fit, got None")
        return model.classes_
    try:
        names = model.label_names(classes)[0]
        labels = column_or_1d(names)
        distinct, _ = encode_labels(labels, np.arange(labels.size + 1))
    except InputError as error:
        raise InputError(f"classes: {error}") from None
    if not distinct.size:
        raise InputError("classes: expected one or more labels, got none")
    if not is_first and not np.array_equal(distinct, model.classes_):
        raise InputError("classes: expected those of the first call of partial_fit, got others")
    return distinct


def one_pass(
    model: Estimator, objective: Objective, start: SparseWeights | None
) -> tuple[SparseWeights, Memory]:
    """Make one pass over the items of an objective; return the mean of all weights, and the state for the next pass.
    The pass begins with the model's state, or with the weights `start` if it has none."""
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
    """Make one pass of dual decomposition over the items of an objective, without changing earlier dual variables;
    return the change of the weights, and the largest violation. Its accuracy is in Table II of Blondel, Fujino and Ueda
    (2014).
    """
    items = objective.state(DualItems, ElasticNet(0.0, l2), "pivot", 0.0)
    largest = items.sweep(items.items).violation
    return items.point().sparse_weights, largest


def take_pass(
    estimator: EstimatorType,
    space: Space,
    weights: SparseWeights,
    l2: float = 0.0,
    violation: float = np.nan,
    **memory: Memory,
) -> EstimatorType:
    """Return the estimator with the weights after one more pass under l2, the only strength that a pass may have. Its
    result has no objective; memory : the state for the next pass, if any."""
    nan, n = float("nan"), 1 + getattr(estimator, "n_iter_", 0)
    result = Result(NO_COORDS, NO_VALUES, nan, nan, violation, Status.LEARNED, n, n, 0.0, Trace())
    trained = Trained(result, {"l1": 0.0, "l2": l2, "group_l1": 0.0}, estimator.stored_parameters())
    estimator.take_model(space.model(weights, trained), **memory)
    return estimator


@dataclass(frozen=True, eq=False)
class Reservoir:
    """A uniform sample of the `n_seen` items so far, with their labels and weights (Vitter 1985, algorithm R).

    X : Sequences or matrix; y : array, an entry an item; weights : float64 (n,), those of the user
    """

    X: Any
    y: NDArray
    weights: Vector
    n_seen: int
    random: np.random.Generator

    @property
    def item_weights(self) -> Vector | None:
        """Weights with about the same sum as those of all items so far; None if all are 1."""
        weights = self.weights * (self.n_seen / max(self.weights.size, 1))
        return None if (weights == 1.0).all() else weights

    def followed_by(self, batch: Reservoir, size: int) -> Reservoir:
        """Return the sample of up to `size` items after a further batch."""
        n_kept, n_seen, random = self.weights.size, self.n_seen + batch.n_seen, deepcopy(self.random)
        places = np.arange(self.n_seen, n_seen)
        chosen = np.arange(min(size, n_seen))  # places of items in the sample followed by the batch
        for new, slot in enumerate(np.where(places < size, places, random.integers(places + 1)).tolist()):
            if slot < size:
                chosen[slot] = n_kept + new
        y, weights = (
            np.concatenate(pair)[chosen] for pair in ((self.y, batch.y), (self.weights, batch.weights))
        )
        return Reservoir(stacked(self.X, batch.X)[chosen], y, weights, n_seen, random)


def refit(model: EstimatorType, X: Any, y: NDArray, sample_weight: SampleWeight) -> EstimatorType:
    """Fit a model to the sample of all batches and of this one, which is checked; return the model."""
    is_first = not model.is_fitted
    before = (
        Reservoir(X[:0], y[:0], np.empty(0), 0, np.random.default_rng(0)) if is_first else model._reservoir
    )
    weights = check_item_weights(sample_weight, len(y))
    batch = Reservoir(X, y, np.ones(len(y)) if weights is None else weights, len(y), before.random)
    sample = before.followed_by(batch, model.RESERVOIR)
    try:
        _train(model, sample.X, sample.y, sample.item_weights, None if is_first else model)
    finally:  # also after an interrupt, if the training had begun
        if model.is_fitted and not hasattr(model, "_reservoir"):
            model._reservoir = sample
    return model


@with_fit_task
def _train(
    model: EstimatorType, X: ItemsLike, y: NDArray, sample_weight: Vector | None, start: StartLike
) -> EstimatorType:
    """Train as `fit` of the base class does; `fit` of a subclass may have other parameters."""
    return model.train(model.prepare(X, y, sample_weight, start))


def stacked(first: Any, second: Any) -> Any:
    """Return the items of both; columns that only the second has are after the others."""
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
