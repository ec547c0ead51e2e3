"""The objective: a feature map x a loss of the scores x weights of the items.

    F(w) = sum_i weight_i loss_i(scores(w)),   scores = X w + offset,   gradient = X' residual

It evaluates at sparse weights; an evaluation is an object, a `Point` (`point.py`): nothing has to be called in the
right order. What single families of solvers need besides are views and states (`registry.py`).

Shapes: I items, N positions, F features, K states, E edge weights; coordinates as in `coordinates.py`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError
from crfqn.objectives.linear.coordinates import Split, joined, split_coords
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.operations import Operations
from crfqn.objectives.point import Point
from crfqn.objectives.registry import InMemory
from crfqn.objectives.support import Support
from crfqn.threads import Pool

SMALLEST_WEIGHT = float(np.finfo(np.float64).tiny)  # of an item that counts


class Objective(InMemory):
    """The loss of a model over features; `at(coords, weights)` evaluates it.

    Parameters
    ----------
    map : FeatureMap of N positions and F features, with its threads
    loss : ScoreLoss over the same positions
    weights : ndarray of float64, shape (I,), optional: how often each item counts
    support : Support, optional: the only coordinates that may have a weight; all by default
    offset : ndarray of float64, shape (K, N), optional: scores that are there before any weight, for training the
        rest of a model around a fixed part

    Raises
    ------
    InputError
        For parts that do not fit together, and weights of items that are not allowed.
    """

    def __init__(
        self,
        map: FeatureMap,
        loss: ScoreLoss,
        weights: Vector | None = None,
        support: Support | None = None,
        offset: Vector | None = None,
    ) -> None:
        self.map, self.loss = map, loss
        self.weights = np.ones(loss.n_items) if weights is None else np.asarray(weights, np.float64)
        self.offset = None if offset is None else np.asarray(offset, np.float64)
        self._check()
        self.support = support or Support(self.n_states * map.n_features, loss.n_edges)
        self.n_passes = 0.0

    def _check(self) -> None:
        """Refuse parts that do not fit together."""
        features, loss = self.map, self.loss
        if (loss.n_items, loss.n_positions) != (features.n_items, features.n_positions):
            raise InputError(
                f"expected a loss over {features.n_items} items and {features.n_positions} positions, as the "
                f"features have, got {loss.n_items} items and {loss.n_positions} positions"
            )
        check_weights(self.weights, loss.n_items)
        shape = loss.n_states, loss.n_positions
        if self.offset is not None and (self.offset.shape != shape or not np.all(np.isfinite(self.offset))):
            raise InputError(f"offset: expected finite scores of shape {shape}, got {self.offset.shape}")

    @property
    def pool(self) -> Pool:
        """The threads of the feature map."""
        return self.map.pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self.map.pool = pool

    @property
    def parts(self) -> list[Objective]:  # type: ignore[override]
        """The objectives that it is the sum of: itself."""
        return [self]

    @property
    def n_states(self) -> int:
        """K."""
        return self.loss.n_states

    @property
    def n_coords(self) -> int:
        """d, the number of weights: K F + E, or fewer on a support."""
        return self.support.n_coords

    @property
    def n_items(self) -> int:
        """I."""
        return self.map.n_items

    @property
    def n_positions(self) -> int:
        """N."""
        return self.map.n_positions

    @property
    def n_node_coords(self) -> int:
        """K F, on whatever support."""
        return self.support.n_node_coords

    @property
    def mean_occurrence(self) -> float:
        """Positions that have a feature, on average over the features."""
        return self.map.mean_occurrence

    @property
    def operations(self) -> Operations:
        """What a pass over the items takes."""
        n_features, n_edges = self.map.n_features, self.loss.n_edges
        entries = self.mean_occurrence * n_features
        return Operations.of(self.n_items, self.n_positions, n_edges, entries, n_features, self.n_states)

    @property
    def whole(self) -> Objective:
        """All of it in one piece: itself."""
        return self

    @property
    def is_convex(self) -> bool:
        """Whether the problem is convex, so that a small gradient may say how far the optimum is."""
        return self.loss.is_convex and getattr(self.map, "is_definite", True)

    @property
    def total_weight(self) -> float:
        """The sum of the items' weights."""
        return float(self.weights.sum())

    @cached_property
    def position_weights(self) -> Vector:
        """The weight of each position's item, (N,)."""
        return np.repeat(self.weights, np.diff(self.map.offsets))

    @cached_property
    def inverse_weights(self) -> Vector:
        """1 / `position_weights`, and 0 for 0, (N,)."""
        out = np.zeros(self.n_positions)
        np.divide(1.0, self.position_weights, out=out, where=self.position_weights > 0)
        return out

    def sample(self, stride: int) -> Objective:
        """Return the loss over every stride-th item: the same coordinates, about 1 / stride of the value."""
        return self.take(np.arange(stride // 2, self.n_items, stride))

    def take(self, items: NDArray[np.integer]) -> Objective:
        """Return the loss over some items (ascending), with the same coordinates."""
        features, positions = self.map.take(items)
        loss = self.loss.take(items, positions, features.offsets)
        offset = None if self.offset is None else self.offset[:, positions]
        return Objective(features, loss, self.weights[items], self.support, offset)

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Evaluate at the sparse weights (sorted coordinates, values)."""
        nodes, edges = self.split(coords), np.zeros(self.loss.n_edges)
        scores = np.zeros((self.n_states, self.n_positions)) if self.offset is None else self.offset.copy()
        self.map.image(nodes, weights[: nodes.n_nodes], scores)
        edges[nodes.edges] += weights[nodes.n_nodes :]
        return Point(self, coords, weights, scores, edges)

    def all_coords(self) -> Coords:
        """Return every coordinate that may have a weight, sorted: for methods that keep all of them."""
        return self.support.coords()

    def split(self, coords: Coords) -> Split:
        """Take sorted coordinates apart."""
        if coords.size == self._n_possible:
            return self._everything
        return split_coords(coords, self.n_states, self.map.n_features)

    @property
    def _n_possible(self) -> int:
        return self.n_states * self.map.n_features + self.loss.n_edges

    @cached_property
    def _everything(self) -> Split:
        """All coordinates, which methods that keep all of them ask for in every step."""
        return split_coords(np.arange(self._n_possible), self.n_states, self.map.n_features)

    def rows(self, features: NDArray[np.int64], edges: NDArray[np.int64]) -> Coords:
        """Return all coordinates of some features and edges (both sorted), as far as they may have a weight."""
        first = self.map.n_features * np.arange(self.n_states)
        nodes = (first[:, None] + features).reshape(-1)
        coords = joined(nodes, edges + self.map.n_features * self.n_states)
        return coords if self.support.is_everything else coords[self.support.contains(coords)]


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
