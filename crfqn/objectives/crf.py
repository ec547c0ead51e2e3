"""The negative log-likelihood of a CRF: features x structure x targets.

    loss(w) = sum_i weight_i (log Z_i(w) - score_i(y_i; w)),   gradient = expected - observed feature counts

(paper, equations 7 and 19). An evaluation is an object, a `Point` (`point.py`): nothing has to be called in the right
order.

Shapes: I items, N positions, F features, K states, E edge weights; coordinates as in `coordinates.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.features import FeatureStore
from crfqn.kernels.columns import coordinate_gradients
from crfqn.objectives.by_feature import Rows
from crfqn.objectives.coordinates import Split, joined, split_coords
from crfqn.objectives.curvature_bound import lipschitz_bound
from crfqn.objectives.online import Online
from crfqn.objectives.point import Coords, Point, Vector
from crfqn.objectives.scores import add_image
from crfqn.objectives.spreads import Spreads, measure_spreads
from crfqn.objectives.support import Support
from crfqn.structures.structure import Structure
from crfqn.threads import N_PARTS, Pool, cut_into_parts

SMALLEST_WEIGHT = float(np.finfo(np.float64).tiny)  # of an item that counts


class CRFObjective:
    """The loss of a structured model over a feature store; `at(coords, weights)` evaluates it.

    Parameters
    ----------
    store : FeatureStore of N positions and F features
    structure : Structure over the same positions
    targets : ndarray of int32, shape (N,), the observed labels
    weights : ndarray of float64, shape (I,), optional: how often each item counts
    n_threads : int, optional: all cores by default; the result does not depend on it
    pool : Pool, optional: threads to share instead
    support : Support, optional: the only coordinates that may have a weight; all by default
    """

    def __init__(
        self,
        store: FeatureStore,
        structure: Structure,
        targets: NDArray[np.int32],
        weights: Vector | None = None,
        n_threads: int | None = None,
        pool: Pool | None = None,
        support: Support | None = None,
    ) -> None:
        if targets.shape != (store.n_positions,):
            raise InputError(
                f"expected {store.n_positions} targets, one a position, got shape {targets.shape}"
            )
        if targets.size and not 0 <= targets.min() <= targets.max() < structure.n_states:
            raise InputError(
                f"expected targets within 0 ... {structure.n_states - 1}, got {targets.min()} ... {targets.max()}"
            )
        structure.check_targets(targets)
        if structure.n_items != store.n_items:
            raise InputError(
                f"expected a structure over the store's {store.n_items} items, got {structure.n_items} items"
            )
        self.store = store
        self.structure = structure
        self.targets = np.ascontiguousarray(targets, np.int32)
        self.weights = np.ones(structure.n_items) if weights is None else np.asarray(weights, np.float64)
        check_weights(self.weights, structure.n_items)
        self.position_weights = np.repeat(self.weights, np.diff(store.offsets))
        self.inverse_weights = np.zeros(store.n_positions)
        np.divide(1.0, self.position_weights, out=self.inverse_weights, where=self.position_weights > 0)
        self.pool = pool or Pool(n_threads)
        n_node_coords = structure.n_states * store.n_features
        self.support = support or Support(n_node_coords, structure.n_edges)
        self.n_passes = 0.0

    @property
    def n_coords(self) -> int:
        """d, the number of weights: K F + E, or fewer on a support."""
        return self.support.n_coords

    @property
    def n_items(self) -> int:
        return self.structure.n_items

    @property
    def n_positions(self) -> int:
        return self.store.n_positions

    @property
    def n_node_coords(self) -> int:
        """K F, on whatever support."""
        return self.support.n_node_coords

    @property
    def mean_occurrence(self) -> float:
        """Positions that have a feature, on average over the features."""
        return self.store.nnz / max(self.store.n_features, 1)

    @property
    def total_weight(self) -> float:
        return float(self.weights.sum())

    def sample(self, stride: int) -> CRFObjective:
        """The loss over every stride-th item: the same coordinates, about 1 / stride of the value."""
        return self.take(np.arange(stride // 2, self.n_items, stride))

    def take(self, items: NDArray[np.integer]) -> CRFObjective:
        """The loss over some items (ascending), with the same coordinates."""
        store, positions = self.store.take(items, self.pool)
        structure = self.structure.over(store.offsets)
        targets, weights = self.targets[positions], self.weights[items]
        return CRFObjective(store, structure, targets, weights, pool=self.pool, support=self.support)

    def online(
        self, start: tuple[Coords, Vector], l1: float, l2: float, free: Coords, share: float = 1.0
    ) -> Online:
        """Dense weights that learn item by item."""
        return Online(self, [self], start, l1, l2, free, share)

    def split(self, coords: Coords) -> Split:
        return split_coords(coords, self.structure.n_states, self.store.n_features)

    def rows(self, features: NDArray[np.int64], edges: NDArray[np.int64]) -> Coords:
        """All coordinates of some features and edges (both sorted), as far as they may have a weight."""
        coords = self.all_rows(features, edges)
        return coords if self.support.is_everything else coords[self.support.contains(coords)]

    def all_rows(self, features: NDArray[np.int64], edges: NDArray[np.int64]) -> Coords:
        """All coordinates of some features and edges (both sorted), state by state."""
        first = self.store.n_features * np.arange(self.structure.n_states)
        nodes = (first[:, None] + features).reshape(-1)
        return joined(nodes, edges + self.store.n_features * self.structure.n_states)

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Evaluate at the sparse weights (sorted coordinates, values)."""
        scores = np.zeros((self.structure.n_states, self.store.n_positions))
        edges = np.zeros(self.structure.n_edges)
        add_image(self.store, coords, weights, scores, edges, self.pool)
        return Point(self, coords, weights, scores, edges)

    def lipschitz_bound(self) -> float:
        """A bound on the largest eigenvalue of the Hessian that holds everywhere."""
        return lipschitz_bound(self)

    @cached_property
    def observed_edges(self) -> Vector:
        """Weighted observed transitions, (E,)."""
        return self.structure.counts(self.targets, self.weights).reshape(-1)

    @cached_property
    def spreads(self) -> Spreads:
        """How far the expected count of each coordinate can move."""
        return measure_spreads(self)

    def spread_of(self, coords: Coords) -> Vector:
        """sqrt(sum_i weight_i r_ij^2), r_ij = max_y f_j - min_y f_j over the labellings y of item i."""
        return self.spreads.at(coords, self.structure.n_states)

    def column_sums(self, coords: Coords, rows: Vector, edge_values: Vector) -> Vector:
        """sum_t x_tf rows[k, t] for every coordinate (k, f), and edge_values[e] for every edge."""
        store, split = self.store, self.split(coords)
        whole = Rows.of(store, split, rows.shape[0])
        if whole is not None:
            return np.concatenate([whole.sums(rows, self.pool), edge_values[split.edges]])
        out = np.empty(coords.size)

        def sweep(first: int, last: int) -> None:
            coordinate_gradients(
                first,
                last,
                split.states,
                split.features,
                store.indptr,
                store.indices,
                store.values,
                rows,
                out,
            )

        self.each_column(split, sweep)
        out[split.n_nodes :] = edge_values[split.edges]
        return out

    def each_column(self, split: Split, sweep: Callable[[int, int], None]) -> None:
        """`sweep` the coordinates of nodes in parts of equal work."""
        work = np.zeros(split.n_nodes + 1, np.int64)
        np.cumsum(self.store.indptr[split.features + 1] - self.store.indptr[split.features], out=work[1:])
        parts = cut_into_parts(work)
        self.pool.each(N_PARTS, lambda part: sweep(parts[part], parts[part + 1]))


def check_weights(weights: Vector, n_items: int) -> None:
    """Refuse weights of items that are negative, not finite, or so small that their inverse overflows."""
    if weights.shape != (n_items,):
        raise InputError(f"expected {n_items} weights, one an item, got shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & ((weights == 0) | (weights >= SMALLEST_WEIGHT))))
    if wrong.size:
        raise InputError(
            f"expected weights of items that are 0, or finite and at least {SMALLEST_WEIGHT:.3g}, got "
            f"{weights[wrong[0]]} for item {wrong[0]}"
        )
