"""Dual points with a share for each item: mixtures s_i p_i + (1 - s_i) delta(y_i) of a point's distributions.

What a proof needs of them: items' parts of the gradient, the dual loss at any shares, and the point whose gradient is
that of the mixtures.

Shapes: I items, N positions, K states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from crfqn.arrays import Coords, Vector
from crfqn.errors import ViewError
from crfqn.kernels.item_mixtures import Mixtures, Parts, gather_edges, gather_parts
from crfqn.objectives.linear.coordinates import Split
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import Point
from crfqn.objectives.protocols import ItemMixturesView
from crfqn.objectives.registry import offers
from crfqn.structures.chain import Chain

MOST_ENTRIES = 4  # of parts, for each entry of the data
FEW_ENTRIES = 100_000  # which are allowed of any data: a MB
DECIDED = 1e-12  # 1 - pi of an item whose share stays 1: the digits of its entropy do not tell more


@dataclass(eq=False)
class ItemMixtures:
    """Mixtures of one point's distributions with the observed labels.

    Attributes
    ----------
    point : a point of a likelihood
    """

    point: Point

    @property
    def owner(self) -> Objective:
        """The objective of the point."""
        return self.point.objective

    def entries(self, coords: Coords) -> float:
        """Return how many entries the parts of some coordinates have at most, as a share of what is allowed."""
        owner = self.owner
        nodes = owner.split(coords)
        n_entries = self._most_node_entries(nodes) + nodes.edges.size * owner.n_items
        return n_entries / max(MOST_ENTRIES * owner.map.store.nnz, FEW_ENTRIES)

    def _most_node_entries(self, nodes: Split) -> int:
        """A bound on the entries of the nodes' parts: an item has one, and no node more than its feature."""
        return int(np.minimum(self.owner.map.store.sizes, self.owner.n_items)[nodes.features].sum())

    def parts(self, coords: Coords) -> Parts:
        """Return each item's part of the gradient by sorted coordinates.

        In float32: they only steer the shares, which are checked in float64 before anything is called proved.
        """
        owner = self.owner
        nodes, store = owner.split(coords), owner.map.store
        size = self._most_node_entries(nodes)
        item_of = np.repeat(np.arange(owner.n_items, dtype=np.int32), np.diff(owner.map.offsets))
        found = Parts(
            np.empty(nodes.n_nodes + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32)
        )
        arrays = store.indptr, store.indices, store.values
        residual = self.point.evaluation.residual
        n = gather_parts(nodes.states, nodes.features, *arrays, item_of, residual, found)
        if not nodes.edges.size:
            return Parts(found.starts, found.items[:n], found.values[:n])
        edges = self._edges(nodes.edges)[0]
        row, items = np.nonzero(edges)
        starts = n + np.searchsorted(row, np.arange(1, nodes.edges.size + 1))
        return Parts(
            np.concatenate([found.starts, starts]),
            np.concatenate([found.items[:n], items.astype(np.int32)]),
            np.concatenate([found.values[:n], edges[row, items].astype(np.float32)]),
        )

    def _edges(self, chosen: Coords) -> tuple[Vector, Vector]:
        """Each item's residual of some edges, (n, I), and its edge scores times residuals, (I,)."""
        owner = self.owner
        parts, products = np.empty((chosen.size, owner.n_items)), np.empty(owner.n_items)
        loss = owner.loss
        scores, edges = cast(Chain, loss.structure).ruled(self.point.scores, self.point.edges)
        items = owner.map.offsets, scores, edges, loss.targets, owner.weights
        gather_edges(*items, chosen, parts, products)
        return parts, products

    @cached_property
    def slopes(self) -> Vector:
        """The slope of each item's dual loss at its share 1, weighed: - sum of scores times residuals, (I,)."""
        owner, point = self.owner, self.point
        scores = point.scores if owner.offset is None else point.scores - owner.offset
        by_position = np.einsum("kn,kn->n", scores, point.evaluation.residual)
        sums = np.add.reduceat(by_position, owner.map.offsets[:-1])
        return -(sums + self._edges(np.empty(0, np.int64))[1] if owner.loss.n_edges else sums)

    def start(self) -> Mixtures:
        """Return the point itself as mixtures: all shares are 1."""
        weights, losses = self.owner.weights, np.maximum(self.point.item_losses, 0.0)
        others = -np.expm1(-losses)
        others[(others < DECIDED) | (weights == 0)] = 0.0
        moves = others > 0
        # H + pi log pi = (H - loss) + (1 - pi) loss, and H - loss is the slope of an unweighted item.
        a = np.zeros(losses.size)
        a[moves] = self.slopes[moves] / (weights[moves] * others[moves]) + losses[moves]
        return Mixtures(weights, others, a, self.slopes.copy(), np.ones(losses.size))

    def dual_value(self, shares: Vector) -> float:
        """Return the dual loss of the mixtures: the sum of their entropies, and what an offset adds."""
        losses = np.maximum(self.point.item_losses, 0.0)
        pi, others = np.exp(-losses), -np.expm1(-losses)
        left = np.maximum(1.0 - shares * others, 0.0)
        tiny = np.finfo(float).tiny
        entropies = (
            shares * losses - shares * pi * losses - shares * others * np.log(np.maximum(shares, tiny))
        )
        entropies -= left * np.log(np.maximum(left, tiny))
        return float(self.slopes @ shares + self.owner.weights @ entropies)

    def at_shares(self, shares: Vector) -> Point:
        """Return the point with the gradient of the mixtures: one inference pass where there are edges."""
        owner, point, found = self.owner, self.point, self.point.evaluation
        residual = found.residual * np.repeat(shares, np.diff(owner.map.offsets))
        edges = found.edge_residual
        if owner.loss.n_edges:
            owner.n_passes += 1
            edges = owner.loss.evaluate(
                point.scores, point.edges, owner.weights * shares, owner.pool
            ).edge_residual
        out = Point(owner, point.coords, point.weights, point.scores, point.edges)
        out.__dict__["evaluation"] = replace(found, residual=residual, edge_residual=edges)
        return out


@dataclass(eq=False)
class ItemMixturesMaker:
    """The mixtures of any point of an objective."""

    owner: Objective

    def at(self, point: Point) -> ItemMixtures:
        """Return the mixtures of a point."""
        return ItemMixtures(point)


@offers(ItemMixturesView, Objective)
def item_mixtures_of(objective: Objective) -> ItemMixturesMaker:
    """Return the view of a likelihood over sparse features; items of dense ones would have parts of all coordinates."""
    if not (objective.loss.has_marginals and isinstance(objective.map, SparseMap)):
        raise ViewError("a share for each item needs a likelihood over sparse features")
    return ItemMixturesMaker(objective)
