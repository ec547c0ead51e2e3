"""A lower bound on the optimum by mixtures with a share for each item: many times tighter than with one share for all.

With one share s for all items (`certificate.py`) the largest violation alone determines s. Here each item has a share
s_i, which only has to satisfy the constraints of the coordinates of its features: maximise

    sum_i c_i h_i(s_i)    subject to    |sum_i s_i g_ij| <= l1 for all j,

h_i the entropy of s_i p_i + (1 - s_i) delta(y_i) and g_ij the item's part of gradient j. An l2 lowers the bound by
max(|.| - l1, 0)^2 / (2 l2). The multiplier of a constraint is the negative of its weight, w at the start; there all s_i
are 1, and the value is that of the point's objective.

Hildreth's method (1957) then satisfies the constraints one by one: a coordinate outside its bound moves its multiplier
until it is inside. A bound does not need optimal shares: the shares that still violate a constraint are lowered. A scan
of the full gradient finds coordinates that were left out, and these are added. Finally one factor for all shares makes
the bound rigorous. Shapes: I items, N positions, K states.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crfqn.arrays import Coords, Vector
from crfqn.kernels.item_mixtures import (
    ItemParts,
    Mixtures,
    gather_edges,
    gather_parts,
    lower_shares,
    project_shares,
)
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.part import PartPoint
from crfqn.objectives.point import Point
from crfqn.penalties.penalty import Penalty

START_SHARE = 0.8  # of l1: coordinates with larger gradients are constraints from the start
MAX_SWEEPS = (12, 30, 60)  # sweeps between the scans of all coordinates, by round
# `beyond` of `project_shares`: how far inside its bound a gradient goes, as a share of the excess
BOUND_OVERSHOOT = 0.8
# Shares of l1 by which gradients may exceed it while multipliers move, and while shares are lowered; the final factor
# costs as much of the bound.
SWEEP_TOLERANCE, LOWERING_TOLERANCE = 5e-3, 1e-3
MAX_ENTRY_RATIO = 4  # entries of the items' parts for each entry of the data: a limit of memory
MIN_ALLOWED_ENTRIES = 100_000  # of parts, for any data: a MB
CERTAIN_PROBABILITY_GAP = 1e-12  # guard: a smaller 1 - pi has no correct digits, and the item's share stays 1


class ItemBound(NamedTuple):
    """A lower bound on the optimum, and the shares of the items that prove it, (I,)."""

    dual_value: float
    shares: Vector


class ItemMixtures:
    """Mixtures of the distributions at one point of a likelihood with the observed labels; owner : its part."""

    def __init__(self, point: PartPoint) -> None:
        self.point, self.owner = point, point.part

    def entries(self, coords: Coords) -> float:
        """Return an upper bound on the entries of the parts of some coordinates, as a ratio of the allowed number."""
        owner = self.owner
        nodes = owner.split(coords)
        n_entries = self._max_node_entries(nodes) + nodes.edges.size * owner.n_items
        return n_entries / max(MAX_ENTRY_RATIO * owner.map.store.nnz, MIN_ALLOWED_ENTRIES)

    def _max_node_entries(self, nodes: CoordinateParts) -> int:
        """Return an upper bound on the entries of the nodes' parts: one an item, and no more than the feature has."""
        return int(np.minimum(self.owner.map.store.sizes, self.owner.n_items)[nodes.features].sum())

    def parts(self, coords: Coords) -> ItemParts:
        """Return each item's part of the gradient by sorted coordinates, in float32: they only choose the shares, and
        the bound is then computed in float64."""
        owner = self.owner
        nodes, store = owner.split(coords), owner.map.store
        size = self._max_node_entries(nodes)
        item_of = np.repeat(np.arange(owner.n_items, dtype=np.int32), np.diff(owner.map.offsets))
        node_parts = ItemParts(
            np.empty(nodes.n_nodes + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32)
        )
        arrays = store.indptr, store.indices, store.values
        residual = self.point.evaluation.residual
        n = gather_parts(nodes.states, nodes.features, *arrays, item_of, residual, node_parts)
        if not nodes.edges.size:
            return ItemParts(node_parts.starts, node_parts.items[:n], node_parts.values[:n])
        edges = self._edges(nodes.edges)[0]
        row, items = np.nonzero(edges)
        starts = n + np.searchsorted(row, np.arange(1, nodes.edges.size + 1))
        return ItemParts(
            np.concatenate([node_parts.starts, starts]),
            np.concatenate([node_parts.items[:n], items.astype(np.int32)]),
            np.concatenate([node_parts.values[:n], edges[row, items].astype(np.float32)]),
        )

    def _edges(self, chosen: Coords) -> tuple[Vector, Vector]:
        """Return each item's residual of some edges, (n, I), and its edge scores times residuals, (I,)."""
        owner = self.owner
        parts, products = np.empty((chosen.size, owner.n_items)), np.empty(owner.n_items)
        loss = owner.loss
        scores, edges = loss.structure.masked_scores(self.point.scores, self.point.edges)
        items = owner.map.offsets, scores, edges, loss.targets, owner.weights
        gather_edges(*items, chosen, parts, products)
        return parts, products

    @cached_property
    def slopes(self) -> Vector:
        """The weighted slope of each item's dual loss at its share 1: - sum of scores times residuals, (I,)."""
        owner, point = self.owner, self.point
        scores = point.scores if owner.offset is None else point.scores - owner.offset
        by_position = np.einsum("kn,kn->n", scores, point.evaluation.residual)
        sums = np.add.reduceat(by_position, owner.map.offsets[:-1])
        return -(sums + self._edges(np.empty(0, np.int64))[1] if owner.loss.n_edges else sums)

    def start(self) -> Mixtures:
        """Return the point itself as mixtures: all shares are 1."""
        weights, losses = self.owner.weights, np.maximum(self.point.evaluation.item_losses, 0.0)
        others = -np.expm1(-losses)
        others[(others < CERTAIN_PROBABILITY_GAP) | (weights == 0)] = 0.0
        moves = others > 0
        # H + pi log pi = (H - loss) + (1 - pi) loss, and H - loss is the slope of an unweighted item.
        a = np.zeros(losses.size)
        a[moves] = self.slopes[moves] / (weights[moves] * others[moves]) + losses[moves]
        return Mixtures(weights, others, a, self.slopes.copy(), np.ones(losses.size))

    def dual_value(self, shares: Vector) -> float:
        """Return the dual loss of the mixtures: the sum of their entropies, and the term of an offset."""
        losses = np.maximum(self.point.evaluation.item_losses, 0.0)
        pi, others = np.exp(-losses), -np.expm1(-losses)
        left = np.maximum(1.0 - shares * others, 0.0)
        tiny = np.finfo(float).tiny
        entropies = (
            shares * losses - shares * pi * losses - shares * others * np.log(np.maximum(shares, tiny))
        )
        entropies -= left * np.log(np.maximum(left, tiny))
        return float(self.slopes @ shares + self.owner.weights @ entropies)

    def at_shares(self, shares: Vector) -> PartPoint:
        """Return the point with the gradient of the mixtures: one inference pass if there are edges."""
        owner, point, evaluation = self.owner, self.point, self.point.evaluation
        residual = evaluation.residual * np.repeat(shares, np.diff(owner.map.offsets))
        edges = evaluation.edge_residual
        if owner.loss.n_edges:
            owner.n_passes += 1
            edges = owner.loss.evaluate(
                point.scores, point.edges, owner.weights * shares, owner.map.pool
            ).edge_residual
        out = PartPoint(owner, point.coords, point.weights, point.scores, point.edges)
        out.evaluation = replace(evaluation, residual=residual, edge_residual=edges)
        return out


def item_bound(point: Point, penalty: Penalty) -> ItemBound | None:
    """Bound the optimum of a likelihood under one l1 for all weights; None if shares of items are of no use.

    These are: no l1; unpenalised coordinates, whose gradients must stay 0; other losses and bigram features; dense
    features, for which each item has parts of all coordinates; parts in too many coordinates; and sums over parts.
    """
    has_one_bound = penalty.is_separable and penalty.is_uniform and penalty.l1 > 0
    if point.whole is None:
        return None
    owner = point.objective.whole
    is_suited = (
        owner.loss.has_marginals
        and owner.loss.edge_layout.n_contexts <= 1
        and isinstance(owner.map, SparseMap)
    )
    if not (has_one_bound and is_suited) or penalty.unpenalised.size:
        return None
    mixed = ItemMixtures(point.whole)
    coords, mixtures = point.screen(START_SHARE * penalty.l1).coords, mixed.start()
    if mixed.entries(coords) > 1:
        return None
    parts, bounds = mixed.parts(coords), bounds_of(point, penalty, coords)
    for n_sweeps in MAX_SWEEPS:
        project_shares(bounds, penalty.l2, parts, mixtures, SWEEP_TOLERANCE, BOUND_OVERSHOOT, n_sweeps)
        screening = mixed.at_shares(mixtures.shares).screen((1.0 + SWEEP_TOLERANCE) * penalty.l1)
        added = screening.coords[~found_in(coords, screening.coords)[1]]
        wider = union(coords, added)
        if added.size == 0 or mixed.entries(wider) > 1:
            break
        coords = wider
        del parts  # as large as the data, several times
        parts, bounds = mixed.parts(coords), bounds_of(point, penalty, coords)
    shares = mixtures.shares.copy()
    if penalty.l2 == 0:
        lower_shares(bounds, parts, shares, LOWERING_TOLERANCE, MAX_SWEEPS[-1])
    # One factor for all shares makes the bound rigorous.
    screening = mixed.at_shares(shares).screen(penalty.l1)
    best = None
    for factor in penalty.dual_scales(screening.coords, screening.gradient):
        conjugate = penalty.conjugate(screening.coords, factor * screening.gradient)
        bound = ItemBound(mixed.dual_value(factor * shares) - conjugate, factor * shares)
        if best is None or bound.dual_value > best.dual_value:
            best = bound
    return best


def bounds_of(point: Point, penalty: Penalty, coords: Coords) -> Vector:
    """Return the bounds on gradients: l1, plus l2 |w_j| at weights that are not zero."""
    place, is_there = found_in(point.coords, coords)
    bounds = np.full(coords.size, penalty.l1)
    bounds[is_there] += penalty.l2 * np.abs(point.weights[place[is_there]])
    return bounds
