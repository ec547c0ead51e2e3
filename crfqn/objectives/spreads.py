"""How far the counts of a coordinate can move, and how many gradients stay away from a bound in spite of it.

For safe screening: a distribution over the labellings of item i moves the expectation of f_j by no more than its
spread r_ij = max_y f_j(x_i, y) - min_y f_j(x_i, y) times half the L1 distance that it moves. A label (node) k with
feature f can collect all positive or all negative x_tf of the item: r_ij = sum_t |x_tf|, one number for all k.

Shapes: I items, N positions, F features, K states, E edges; no array of F x K numbers exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.spreads import square_spreads
from crfqn.kernels.union import union
from crfqn.objectives.coordinates import split_coords
from crfqn.objectives.screening import WIDEST, by_position, each_share, possible_features
from crfqn.threads import N_PARTS, cut_into_parts

if TYPE_CHECKING:
    from crfqn.objectives.crf import CRFObjective
    from crfqn.objectives.point import Point
    from crfqn.objectives.sum import SumObjective, SumPoint
    from crfqn.structures.structure import Inference

Vector = NDArray[np.float64]


class Spreads(NamedTuple):
    """sqrt(sum_i weight_i r_ij^2): of each feature (F,), the same for all its states, and of each edge (E,)."""

    features: Vector
    edges: Vector

    def at(self, coords: NDArray[np.int64], n_states: int) -> Vector:
        """The spread of each of the sorted coordinates."""
        split = split_coords(coords, n_states, self.features.size)
        return np.concatenate([self.features[split.features], self.edges[split.edges]])


def joint_spreads(parts: list[Spreads]) -> Spreads:
    """The spreads of a sum of objectives over the same coordinates."""
    squares = (np.sum(np.square(spreads), axis=0) for spreads in zip(*parts, strict=True))
    return Spreads(*(np.sqrt(square) for square in squares))


def count_spreads(objective: CRFObjective | SumObjective, limit: float, radius: float) -> int:
    """How many coordinates have radius spread_j <= limit."""
    features, edges = (radius * spreads <= limit for spreads in objective.spreads)
    support = objective.support
    n_states = support.n_node_coords // features.size
    n_nodes = (
        n_states * features.sum() if support.nodes is None else features[support.nodes % features.size].sum()
    )
    return int(n_nodes + (edges if support.edges is None else edges[support.edges]).sum())


def measure_spreads(objective: CRFObjective) -> Spreads:
    """One sweep over the stored entries."""
    store, structure = objective.store, objective.structure
    item_of = np.repeat(np.arange(store.n_items), np.diff(store.offsets))
    squares = np.empty(store.n_features)
    parts = cut_into_parts(store.indptr)

    def run(part: int) -> None:
        square_spreads(
            parts[part], parts[part + 1], store.indptr, store.indices, store.values, item_of,
            objective.weights, squares,
        )  # fmt: skip

    objective.pool.each(N_PARTS, run)
    return Spreads(np.sqrt(squares), np.sqrt(structure.edge_spreads(objective.weights)))


def count_within(
    objective: CRFObjective, inference: Inference, bound: float, scale: float, radius: float
) -> int:
    """How many coordinates j of the support have scale |g_j| + radius spread_j < bound; scale > 0.

    A feature whose spread leaves no room is not looked at; nor is one whose gradients cannot be that large.
    """
    spreads, support = objective.spreads, objective.support
    room = (bound - radius * spreads.features) / scale
    edges = slice(None) if support.edges is None else support.edges
    edge_room = (bound - radius * spreads.edges[edges]) / scale
    count = int(np.count_nonzero(np.abs(inference.edge_residual[edges]) < edge_room))
    if support.nodes is not None:
        gradient = objective.column_sums(support.nodes, inference.residual, inference.edge_residual)
        return count + int(np.count_nonzero(np.abs(gradient) < room[support.nodes % room.size]))
    for first in range(0, objective.structure.n_states, WIDEST):
        count += count_tile(objective, inference.residual[first : first + WIDEST], room)
    return count


def list_beyond(
    point: Point | SumPoint, bound: float, scale: float, radius: float, most: int
) -> NDArray[np.int64] | None:
    """The coordinates that are not within, and all with radius spread_j > bound / 2; None if more than `most`."""
    owner, half = point.objective, 0.5 * bound
    if owner.n_coords - count_spreads(owner, half, radius) > most:
        return None
    closed = owner.rows(*(np.flatnonzero(radius * spreads > half) for spreads in owner.spreads))
    found = point.screen(half / scale)
    is_beyond = scale * np.abs(found.gradient) + radius * owner.spread_of(found.coords) >= bound
    beyond = union(closed, found.coords[is_beyond])
    return beyond if beyond.size <= most else None


def count_tile(objective: CRFObjective, rows: Vector, room: Vector) -> int:
    """How many gradients of the states that `rows` are the residuals of are smaller than their feature's `room`."""
    n_states, is_open = rows.shape[0], room > 0
    if not is_open.any():
        return 0
    residual, largest = by_position(rows, objective)
    possible = possible_features(objective, largest, room)
    features = possible[is_open[possible]]
    counts = np.zeros(features.size, np.int64)

    def count(share: slice, gradient: Vector) -> None:
        counts[share] = (np.abs(gradient[:, :n_states]) < room[features[share], None]).sum(axis=1)

    each_share(objective, features, residual, count)
    n_below = int(np.count_nonzero(is_open)) - features.size
    return n_states * n_below + int(counts.sum())
