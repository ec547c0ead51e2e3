"""The feature map: the linear map from weights to scores, of which nothing else knows the storage.

    scores[k, t] = sum_f w[k, f] x[t, f]

Shapes: I items, N positions, F features, K states; tables by state are float64 (K, N). `nodes` are n sorted coordinates
(k, f) taken apart (`coordinates.Split`); edges are no business of a map.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.coordinates import Split, merge_weights, split_coords
from crfqn.objectives.linear.screening import RowNorm
from crfqn.threads import Pool


class FeatureMap(Protocol):
    """Linear map from the weights of all (state, feature) pairs to scores, and its adjoint; results do not depend on
    the number of threads in `pool`.

    offsets : int64 (I + 1,): item i is made of the positions offsets[i] ... offsets[i + 1]
    store : the entries that are not zero as index arrays; a map without these makes them when they are asked for
    feature_scales : float64 (F,), max_t x_tf^2: the square of the unit that each feature is measured in
    centre : float64 (F,) or None: what has been taken off each feature as it was given, so that all of the above and
        below is of x - centre, 0 where nothing was; scores are the same with other weights of the constant, the last
        feature (`centred_weights`)
    largest_value, mean_occurrence : the largest |x_tf|; the positions that have a feature, on average over the features
    """

    pool: Pool
    centre: Vector | None

    @property
    def is_roundable(self) -> bool:
        """Whether a Gram matrix of float32 products, and the proof that it will do, cost less than an exact one."""

    @property
    def offsets(self) -> NDArray[np.int64]: ...

    @property
    def store(self) -> FeatureStore: ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_positions(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def feature_scales(self) -> Vector: ...

    @property
    def largest_value(self) -> float: ...

    @property
    def mean_occurrence(self) -> float: ...

    def take(self, items: NDArray[np.integer]) -> tuple[FeatureMap, NDArray[np.int64]]:
        """Return the map of some items (ascending), and the positions that it is made of."""

    def cut(self, offsets: NDArray[np.int64]) -> FeatureMap:
        """Return the map of the same positions, cut into other items."""

    def image(self, nodes: Split, weights: Vector, scores: Vector) -> None:
        """Add X w to the scores (K, N), in place; weights (n,)."""

    def adjoint(self, nodes: Split, residual: Vector) -> Vector:
        """Return sum_t x_tf residual[k, t] for each node, (n,)."""

    def squares(self, nodes: Split, table: Vector) -> Vector:
        """Return sum_t x_tf^2 table[k, t] for each node, (n,)."""

    def residual_squares(self, nodes: Split, residual: Vector, inverse_weights: Vector) -> Vector:
        """Return sum_t x_tf^2 |r| (1 - |r| / c_t) and sum_t x_tf^2 |r|, r = residual[k, t], for each node, (2, n)."""

    def screen(self, residual: Vector, threshold: float) -> Screening:
        """Return every node with |gradient| > threshold."""

    def screen_rows(
        self, residual: Vector, also: Coords, bound: float, norm: RowNorm
    ) -> tuple[Coords, Vector]:
        """Return the features whose gradients' norm exceeds the bound, those `also`; and gradients (K, features)."""

    def count_small(self, residual: Vector, limits: Vector) -> int:
        """Count the nodes with |gradient| below their feature's limit, (F,)."""

    def item_ranges(self, weights: Vector) -> Vector:
        """Return sum_i weights_i (sum_t |x_tf|)^2 over the positions t of item i, (F,)."""

    def weighted_squares(self, weights: Vector) -> Vector:
        """Return sum_t weights_t x_tf^2, (F,)."""

    def gram(self, weights: Vector, is_rounded: bool = False) -> Vector:
        """Return sum_t weights_t x_t x_t', weights >= 0 (N,), float64 (F, F), or refuse with an InputError; of float32
        products where it may be rounded and `is_roundable`."""

    def eigenvalue_bound(self, c: Vector) -> float:
        """Return a bound on the largest eigenvalue of X' diag(c) X, c >= 0 (N,)."""

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the values of some features at some positions, float32 (features, positions)."""

    def count_entries(self, nodes: Split) -> float:
        """Return how many entries the columns of the nodes have in total."""

    def count_active(self, nodes: Split) -> NDArray[np.int64]:
        """Return how many of the nodes have their feature at each position, (N,)."""


def centred_weights(features: FeatureMap, weights: Any) -> Any:
    """Return weights of the features as they were given as weights of the map's, x - m.

    Implicit centring, w . x + b = w . (x - m) + b', b' = b + w . m: values are the same whatever m is; what changes is
    how far the constant and the others are from orthogonal, and so how many iterations a training takes.
    """
    return _with_constant_moved(features, weights, 1.0)


def given_weights(features: FeatureMap, weights: Any) -> Any:
    """Return weights of the map's features, x - m, as weights of the features as they were given."""
    return _with_constant_moved(features, weights, -1.0)


def _with_constant_moved(features: FeatureMap, weights: Any, sign: float) -> Any:
    """Add sign * w . m to the weight of the last feature of every state."""
    if features.centre is None or weights.coords.size == 0:
        return weights
    states, columns = np.divmod(weights.coords, features.n_features)
    moves = np.bincount(states, sign * weights.weights * features.centre[columns]).astype(
        np.float64, copy=False
    )
    constants = np.arange(1, moves.size + 1) * features.n_features - 1
    return merge_weights(weights.coords, weights.weights, constants, moves)


def all_nodes(n_states: int, n_features: int) -> Split:
    """Return the coordinates of a whole table of weights, (K, F)."""
    return split_coords(np.arange(n_states * n_features), n_states, n_features)


def scores_of(features: FeatureMap, table: Vector) -> Vector:
    """Return the scores of all positions, (K, N), under weights (K, F)."""
    scores = np.zeros((table.shape[0], features.n_positions))
    features.image(all_nodes(*table.shape), table.ravel(), scores)
    return scores


def sums_of(features: FeatureMap, table: Vector) -> Vector:
    """Return sum_t table[k, t] x_tf, (K, F), of a table (K, N)."""
    shape = table.shape[0], features.n_features
    return features.adjoint(all_nodes(*shape), table).reshape(shape)


def gram_product(features: FeatureMap, weights: Vector, table: Vector) -> Vector:
    """Return a table (K, F) times `gram(weights)`, in float64 and without this matrix."""
    return sums_of(features, scores_of(features, table) * weights)
