"""Ranges of the features, and counts of gradients that stay away from a bound in spite of them.

For proofs that zeros of a model are zeros of the optimum: a distribution over the labellings of item i that moves by
some L1 distance moves the expectation of f_j by no more than half of it times the range r_ij = max_y f_j(x_i, y) -
min_y f_j(x_i, y). A label (node) k with feature f can collect all positive or all negative x_tf of the item: r_ij =
sum_t |x_tf|, one number for all k. Shapes: F features, E edges; no array of F x K numbers exists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crfqn.arrays import Coords, Vector
from crfqn.objectives.linear.feature_map import Split, joined
from crfqn.objectives.point import BasePoint, Point


class Ranges(NamedTuple):
    """sqrt(sum_i weight_i r_ij^2) of each feature, the same for all states, (F,); and of each edge, (E,)."""

    features: Vector
    edges: Vector

    @classmethod
    def of(cls, objective: Any) -> Ranges:
        """Return the ranges over all items of a likelihood."""
        squares = objective.of_parts(squared_ranges)
        return cls(*(np.sqrt(np.sum(both, axis=0)) for both in zip(*squares, strict=True)))

    def at(self, nodes: Split) -> Vector:
        """Return those of sorted coordinates."""
        return joined(self.features[nodes.features], self.edges[nodes.edges])


def squared_ranges(part: Any) -> tuple[Vector, Vector]:
    """Return the squares of a part's ranges, which add up."""
    return part.map.item_ranges(part.weights), part.loss.edge_ranges(part.weights)


def count_within(
    point: Point, ranges: Ranges, bound: float, scale: float, radius: float, besides: Coords
) -> int:
    """Count the coordinates j of the support, not `besides`, with scale |g_j| + radius range_j < bound; scale > 0. A
    feature whose range leaves no room is not looked at; nor is one whose gradients cannot be that large."""
    owner, support, found = point.objective, point.objective.support, point.evaluation
    room = (bound - radius * ranges.features) / scale
    edges = slice(None) if support.edges is None else support.edges
    edge_room = (bound - radius * ranges.edges[edges]) / scale
    count = int(np.count_nonzero(np.abs(found.edge_residual[edges]) < edge_room))
    count -= count_of(point, ranges, bound, scale, radius, besides)
    if support.nodes is None:
        return count + owner.map.count_small(found.residual, room) - support.n_empty * (bound > 0)
    gradient = owner.map.adjoint(owner.split(support.nodes), found.residual)
    return count + int(np.count_nonzero(np.abs(gradient) < room[support.nodes % room.size]))


def count_of(
    point: BasePoint, ranges: Ranges, bound: float, scale: float, radius: float, coords: Coords
) -> int:
    """Count those of some coordinates."""
    reach = scale * np.abs(point.gradient(coords)) + radius * ranges.at(point.objective.split(coords))
    return int(np.count_nonzero(reach < bound))


def count_screened(
    point: BasePoint, ranges: Ranges, bound: float, scale: float, radius: float, besides: Coords
) -> int:
    """Count them by a screening, as a sum over parts has it: all that are not within, and have room for half of the
    bound, stand out in it; a few with radius range_j > bound / 2 are missed."""
    half, owner = 0.5 * bound, point.objective
    found = point.screen(half / scale)
    own = radius * ranges.at(owner.split(found.coords))
    exceeds = (own <= half) & (scale * np.abs(found.gradient) + own >= bound)
    features, edges, support = radius * ranges.features <= half, radius * ranges.edges <= half, owner.support
    n_edges = (edges if support.edges is None else edges[support.edges]).sum()
    is_whole = support.nodes is None
    if is_whole:
        n_nodes = owner.n_states * features.sum() - support.n_empty * (bound > 0)
    else:
        n_nodes = features[support.nodes % features.size].sum()
    n_besides = count_of(point, ranges, bound, scale, radius, besides)
    return int(n_nodes + n_edges - exceeds.sum()) - n_besides
