"""Ranges of the features, and counts of gradients that stay away from a bound in spite of them.

For proofs that zeros of a model are zeros of the optimum: a distribution over the labellings of item i that moves by
some L1 distance moves the expectation of f_j by no more than half of it times the range
r_ij = max_y f_j(x_i, y) - min_y f_j(x_i, y). A label (node) k with feature f can collect all positive or all negative
x_tf of the item: r_ij = sum_t |x_tf|, one number for all k.

Shapes: I items, N positions, F features, K states, E edges; no array of F x K numbers exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from crfqn.arrays import Coords, Vector
from crfqn.errors import ViewError
from crfqn.objectives.blocks import BlockedObjective, BlockedPoint
from crfqn.objectives.linear.coordinates import joined
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.objectives.protocols import ZeroProofView
from crfqn.objectives.registry import offers


@dataclass(eq=False)
class FeatureRanges:
    """sqrt(sum_i weight_i r_ij^2) of the coordinates, and counts of gradients that stay away from a bound.

    Attributes
    ----------
    objective : whose coordinates they are
    parts : its parts, likelihoods all
    """

    objective: Objective | BlockedObjective
    parts: list[Objective]

    @cached_property
    def features(self) -> Vector:
        """The spread of each feature, the same for all its states, (F,)."""
        return np.sqrt(np.sum([part.map.item_ranges(part.weights) for part in self.parts], axis=0))

    @cached_property
    def edges(self) -> Vector:
        """The spread of each edge, (E,)."""
        squares = [part.loss.edge_ranges(part.weights) for part in self.parts]  # type: ignore[attr-defined]
        return np.sqrt(np.sum(squares, axis=0))

    def range_of(self, coords: Coords) -> Vector:
        """Return the spread of each of the sorted coordinates."""
        nodes = self.objective.split(coords)
        return joined(self.features[nodes.features], self.edges[nodes.edges])

    def largest_range(self) -> float:
        """Return the largest spread of a coordinate: no gradient exceeds it times the root of the total weight."""
        return float(max(self.features.max(initial=0.0), self.edges.max(initial=0.0)))

    def count_within(self, point: Any, bound: float, scale: float, radius: float) -> int:
        """Count the coordinates j of the support with scale |g_j| + radius spread_j < bound; scale > 0.

        In blocks a few may be missed: those with radius spread_j > bound / 2.
        """
        if isinstance(point, BlockedPoint):
            return self._count_screened(point, bound, scale, radius)
        return self._count_in_one_piece(point, bound, scale, radius)

    def _count_in_one_piece(self, point: Point, bound: float, scale: float, radius: float) -> int:
        """A feature whose spread leaves no room is not looked at; nor is one whose gradients cannot be that large."""
        owner, support, found = point.objective, point.objective.support, point.evaluation
        room = (bound - radius * self.features) / scale
        edges = slice(None) if support.edges is None else support.edges
        edge_room = (bound - radius * self.edges[edges]) / scale
        count = int(np.count_nonzero(np.abs(found.edge_residual[edges]) < edge_room))
        if support.nodes is None:
            return count + owner.map.count_small(found.residual, room)
        gradient = owner.map.adjoint(owner.split(support.nodes), found.residual)
        return count + int(np.count_nonzero(np.abs(gradient) < room[support.nodes % room.size]))

    def _count_screened(self, point: BlockedPoint, bound: float, scale: float, radius: float) -> int:
        """All that are not within, and have room for half of the bound, stand out in a screening."""
        half = 0.5 * bound
        found = point.screen(half / scale)
        feature_ranges = radius * self.range_of(found.coords)
        exceeds = (feature_ranges <= half) & (scale * np.abs(found.gradient) + feature_ranges >= bound)
        return self._count_spreads(half, radius) - int(exceeds.sum())

    def _count_spreads(self, limit: float, radius: float) -> int:
        """Count the coordinates with radius spread_j <= limit."""
        features, edges, support = (
            radius * self.features <= limit,
            radius * self.edges <= limit,
            self.objective.support,
        )
        if support.nodes is None:
            n_nodes = self.objective.n_states * features.sum()
        else:
            n_nodes = features[support.nodes % features.size].sum()
        return int(n_nodes + (edges if support.edges is None else edges[support.edges]).sum())


@offers(ZeroProofView, Objective)
def feature_ranges_of(objective: Objective) -> FeatureRanges:
    """Return the spreads of a likelihood."""
    if not objective.loss.has_marginals:
        raise ViewError(f"proofs of zeros need a likelihood; the loss is {type(objective.loss).__name__}")
    return FeatureRanges(objective, [objective])


@offers(ZeroProofView, BlockedObjective)
def feature_ranges_of_blocks(objective: BlockedObjective) -> FeatureRanges:
    """Return the spreads of a likelihood in blocks."""
    feature_ranges_of(objective.parts[0])
    return FeatureRanges(objective, objective.parts)
