"""The feature map of a dense block beside a sparse one: the columns of an array, and behind them those of a store.

Every message is made by the two parts, each as it lies in memory. Shapes as in `feature_map.py`, D dense features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.objectives.linear.coordinates import Split
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.feature_map import FeatureMap, sums_of
from crfqn.objectives.linear.screening import RowNorm
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.threads import Pool


@dataclass(eq=False)
class HybridMap:
    """Scores from D columns of an array, without a constant, and the features of a store behind them; `centre` and
    threads are those of the parts."""

    is_roundable: ClassVar[bool] = False

    dense: DenseMap
    sparse: SparseMap
    _pool: Pool = field(init=False)

    def __post_init__(self) -> None:
        self.pool = self.sparse.pool

    @property
    def pool(self) -> Pool:
        return self._pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self._pool = self.dense.pool = self.sparse.pool = pool

    @property
    def centre(self) -> Vector | None:
        return self._joined_centre(self.dense.centre, self.sparse.centre)

    def _joined_centre(self, dense: Vector | None, sparse: Vector | None) -> Vector | None:
        if dense is None and sparse is None:
            return None
        parts = (self.dense, dense), (self.sparse, sparse)
        return np.concatenate([np.zeros(m.n_features) if c is None else c for m, c in parts])

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self.sparse.offsets

    @property
    def n_dense(self) -> int:
        """D."""
        return self.dense.n_features

    @property
    def n_items(self) -> int:
        return self.sparse.n_items

    @property
    def n_positions(self) -> int:
        return self.sparse.n_positions

    @property
    def n_features(self) -> int:
        return self.n_dense + self.sparse.n_features

    @cached_property
    def store(self) -> FeatureStore:
        """The entries of both as index arrays, 12 bytes each; made on first use, for metrics of pairs that meet."""
        first, second = self.dense.store, self.sparse.store
        values = [np.ones(part.nnz) if part.is_binary else part.values for part in (first, second)]
        indptr = np.concatenate([first.indptr, first.indptr[-1] + second.indptr[1:]])
        indices = np.concatenate([first.indices, second.indices])
        return FeatureStore(indptr, indices, np.concatenate(values), self.offsets)

    @cached_property
    def feature_scales(self) -> Vector:
        return self._by_feature(lambda part: part.feature_scales)

    @property
    def largest_value(self) -> float:
        return max(self.dense.largest_value, self.sparse.largest_value)

    @property
    def mean_occurrence(self) -> float:
        n_entries = [part.mean_occurrence * part.n_features for part in (self.dense, self.sparse)]
        return sum(n_entries) / max(self.n_features, 1)

    def take(self, items: NDArray[np.integer]) -> tuple[HybridMap, NDArray[np.int64]]:
        sparse, positions = self.sparse.take(items)
        return HybridMap(self.dense.take(items)[0], sparse), positions

    def cut(self, offsets: NDArray[np.int64]) -> HybridMap:
        return HybridMap(self.dense.cut(offsets), self.sparse.cut(offsets))

    def means(self, weights: Vector | None = None) -> Vector | None:
        """Return the means of the features to centre at, as the parts have them, (F,)."""
        return self._joined_centre(self.dense.means(weights), self.sparse.means(weights))

    def centred_at(self, centre: Vector | None) -> HybridMap:
        """Return the map of the features less `centre`, (F,)."""
        if centre is None:
            return self
        own, rest = np.split(centre, [self.n_dense])
        return HybridMap(self.dense.centred_at(own), self.sparse.centred_at(rest if rest.any() else None))

    def _parts(self, nodes: Split) -> list[tuple[FeatureMap, Split, NDArray[np.bool_]]]:
        """Return each part with its own nodes, and their places among all; parts without any left out."""
        is_dense = nodes.features < self.n_dense
        sides: list[Any] = [(self.dense, is_dense, 0), (self.sparse, ~is_dense, self.n_dense)]
        return [
            (part, Split(nodes.states[mask], nodes.features[mask] - first, NO_COORDS), mask)
            for part, mask, first in sides
            if mask.any()
        ]

    def _by_part(
        self, nodes: Split, ask: Callable[[FeatureMap, Split], Vector], shape: tuple[int, ...] = ()
    ) -> Vector:
        """Return what each part is asked about its own nodes, at their places, (*shape, n)."""
        out = np.empty((*shape, nodes.n_nodes))
        for part, own, where in self._parts(nodes):
            out[..., where] = ask(part, own)
        return out

    def _by_feature(self, ask: Callable[[FeatureMap], Vector]) -> Vector:
        """Return what both parts are asked, one behind the other, (F,)."""
        return np.concatenate([ask(self.dense), ask(self.sparse)])

    def image(self, nodes: Split, weights: Vector, scores: Vector) -> None:
        for part, own, where in self._parts(nodes):
            part.image(own, weights[where], scores)

    def adjoint(self, nodes: Split, residual: Vector) -> Vector:
        return self._by_part(nodes, lambda part, own: part.adjoint(own, residual))

    def squares(self, nodes: Split, table: Vector) -> Vector:
        return self._by_part(nodes, lambda part, own: part.squares(own, table))

    def residual_squares(self, nodes: Split, residual: Vector, inverse_weights: Vector) -> Vector:
        arrays = residual, inverse_weights
        return self._by_part(nodes, lambda part, own: part.residual_squares(own, *arrays), (2,))

    def screen(self, residual: Vector, threshold: float) -> Screening:
        coords, gradients = [], []
        for part, first in ((self.dense, 0), (self.sparse, self.n_dense)):
            found = part.screen(residual, threshold)
            states, features = np.divmod(found.coords, part.n_features)
            coords.append(states * self.n_features + first + features)
            gradients.append(found.gradient)
        order = np.argsort(np.concatenate(coords))
        return Screening(np.concatenate(coords)[order], np.concatenate(gradients)[order])

    def screen_rows(
        self, residual: Vector, also: Coords, bound: float, norm: RowNorm
    ) -> tuple[Coords, Vector]:
        is_dense = also < self.n_dense
        own, gradients = self.dense.screen_rows(residual, also[is_dense], bound, norm)
        rest, more = self.sparse.screen_rows(residual, also[~is_dense] - self.n_dense, bound, norm)
        return np.concatenate([own, rest + self.n_dense]), np.concatenate([gradients, more], axis=1)

    def count_small(self, residual: Vector, limits: Vector) -> int:
        own, rest = np.split(limits, [self.n_dense])
        return self.dense.count_small(residual, own) + self.sparse.count_small(residual, rest)

    def item_ranges(self, weights: Vector) -> Vector:
        return self._by_feature(lambda part: part.item_ranges(weights))

    def weighted_squares(self, weights: Vector) -> Vector:
        return self._by_feature(lambda part: part.weighted_squares(weights))

    def gram(self, weights: Vector, is_rounded: bool = False) -> Vector:
        columns = self.dense._tile(slice(None), slice(None)).T
        beside = sums_of(self.sparse, columns * weights)
        return np.block([[self.dense.gram(weights), beside], [beside.T, self.sparse.gram(weights)]])

    def eigenvalue_bound(self, c: Vector) -> float:
        return self.dense.eigenvalue_bound(c) + self.sparse.eigenvalue_bound(c)

    def values_at(self, features: Coords, positions: NDArray[np.intp]) -> NDArray[np.float32]:
        is_dense = features < self.n_dense
        own = self.dense.values_at(features[is_dense], positions)
        return np.concatenate([own, self.sparse.values_at(features[~is_dense] - self.n_dense, positions)])

    def count_entries(self, nodes: Split) -> float:
        return sum(part.count_entries(own) for part, own, _ in self._parts(nodes))

    def count_active(self, nodes: Split) -> NDArray[np.int64]:
        counts = np.zeros(self.n_positions, np.int64)
        for part, own, _ in self._parts(nodes):
            counts += part.count_active(own)
        return counts
