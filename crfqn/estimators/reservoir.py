"""`partial_fit` by methods that minimise: each call fits a uniform sample of all items so far (all of them while
they are few), and starts from the weights of the last call.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.items import check_item_weights
from crfqn.data.sequences import Sequences
from crfqn.estimators.training import with_tasks

if TYPE_CHECKING:
    from crfqn.estimators.base import SparseLinearModel


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


def refit(model: SparseLinearModel, X: Any, y: NDArray, sample_weight: Any) -> Any:
    """Fit a model to a checked batch and the sample of those before; return the model."""
    is_first = not hasattr(model, "coef_")
    before = (
        Reservoir(X[:0], y[:0], np.empty(0), 0, np.random.default_rng(0)) if is_first else model._reservoir
    )
    weights = check_item_weights(sample_weight, len(y))
    batch = Reservoir(X, y, np.ones(len(y)) if weights is None else weights, len(y), before.random)
    sample = before.followed_by(batch, model.RESERVOIR)
    try:
        _train(model, sample.X, sample.y, sample.item_weights, None if is_first else model)
    finally:  # an interrupt, too, leaves a model of these items where the training had begun
        if hasattr(model, "coef_") and not hasattr(model, "_reservoir"):
            model._reservoir = sample
    return model


@with_tasks
def _train(model: SparseLinearModel, X: Any, y: NDArray, sample_weight: Vector | None, start: Any) -> Any:
    """Train as `fit` does, whose arguments may be others in a subclass."""
    return model._solve(model.prepare(X, y, sample_weight, start))


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
