"""Dual variables of structured hinges: what each item's distribution over labellings expects, and the weights.

Weights and bounds take no more of a distribution than the expected counts of states and edges: N K + I E numbers in the
place of I K^T. The kernels (`frank_wolfe_kernels.py`) have the equations. Shapes: I items, N positions, F features, K
states, E edge weights; width = K rounded up to LANES.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError, ViewError
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.losses.structured import StructuralHinge
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import Point
from crfqn.solvers.dual.frank_wolfe_kernels import improve_chains, improve_trees
from crfqn.solvers.stochastic.item_kernels import ItemData
from crfqn.solvers.stochastic.perceptron_kernels import N_SEEN
from crfqn.solvers.stochastic.state import LARGEST_BYTES, LearnedRows, check_structure, untouched_rows
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy


class ExpectedCounts:
    """What the distributions of a part's items expect, at first what was observed: nodes (N, width), edges
    (I, K, width), or (0, K, width) without; masses : float64 (I,), c_i / l2."""

    def __init__(self, part: Objective, width: int, l2: float) -> None:
        loss = hinge_of(part)
        self.nodes = untouched_rows(part.n_positions, width)
        states, positions = loss.observed_at(np.arange(part.n_positions))
        self.nodes[positions, states] = 1.0
        n_with_edges = part.n_items if loss.n_edges else 0
        self.edges = np.zeros((n_with_edges, part.n_states, width))
        if n_with_edges:
            inner = np.ones(part.n_positions, bool)
            inner[part.map.offsets[:-1][np.diff(part.map.offsets) > 0]] = False
            to = np.flatnonzero(inner)
            item_of = np.repeat(np.arange(part.n_items), np.diff(part.map.offsets))
            np.add.at(self.edges, (item_of[to], loss.targets[to - 1], loss.targets[to]), 1.0)
        self.masses = part.weights / l2


class FrankWolfeState(LearnedRows):
    """Dual variables of the items, and the weights that they make; both expect at first what is observed, w = 0.

    owner, penalty : the objective with structured hinges; l2/2 ||w||^2 with l2 > 0, InputError for others
    rows : AveragedRows, w and what their weighted average lacks
    """

    def __init__(self, owner: Objective | BlockedObjective, penalty: Any) -> None:
        if not penalty.l2 > 0 or penalty.unpenalised.size:
            raise InputError(
                "block-coordinate Frank-Wolfe needs a penalty l2/2 ||w||^2 with l2 > 0 on all weights, got "
                f"l2 = {penalty.l2:g} and {penalty.unpenalised.size} weights without penalty"
            )
        super().__init__(owner)
        self.l2 = penalty.l2
        check_counts(owner, self.width)
        self.rows = self.averaged_rows()
        self.counts = [ExpectedCounts(part, self.width, self.l2) for part in self.parts]
        self._gaps = np.full(owner.n_items, np.inf)

    @classmethod
    def check(cls, objective: Objective | BlockedObjective) -> None:
        """Raise ViewError for other losses than structured hinges, other structures and offsets."""
        part = objective.parts[0]
        if not part.loss.has_violations:
            raise ViewError(
                f"block-coordinate Frank-Wolfe needs a structured hinge; the loss is {type(part.loss).__name__}"
            )
        check_structure("block-coordinate Frank-Wolfe", part.loss.structure)
        if part.offset is not None:
            raise ViewError(
                "block-coordinate Frank-Wolfe knows scores of the weights alone; this one has an offset"
            )

    @property
    def gaps(self) -> Vector:
        """Each item's part of the duality gap when it was last visited, infinite before, (n_items,)."""
        return self.l2 * self._gaps[self.items]

    def visit(self, order: NDArray[np.integer], moves: bool = True) -> None:
        """Measure the gaps of the items `order`, numbers below `n_items`, and take a step on each if it moves;
        sequential, whatever the number of threads."""
        for which, items in self.runs(order):
            part, counts = self.parts[which], self.counts[which]
            gaps = self._gaps[self.bounds[which] : self.bounds[which + 1]]
            loss = hinge_of(part)
            indptr, features, values = part.map.store.by_position()
            data = ItemData(part.map.offsets, indptr, features, values, loss.targets, counts.masses)
            if isinstance(loss.structure, Taxonomy):
                forest = (loss.structure.parents, loss.structure.is_label)
                improve_trees(items, data, counts.nodes, *forest, moves, gaps, self.rows)
            else:
                mask = cast(Chain, loss.structure).mask
                improve_chains(items, data, counts.nodes, counts.edges, moves, gaps, self.rows, mask)
        self.owner.n_passes += order.size / max(self.n_items, 1)

    def dual_value(self) -> float:
        """Return sum_i c_i (expected L) - l2/2 ||w||^2."""
        distances = sum(
            float(part.weights @ hinge_of(part).expected_distances(counts.nodes))
            for part, counts in zip(self.parts, self.counts, strict=True)
        )
        return distances - 0.5 * self.l2 * float(np.einsum("fk,fk->", self.rows.weights, self.rows.weights))

    def point(self, is_averaged: bool) -> Point:
        """Return the point of the weights, or of their weighted average over the steps so far."""
        n = self.rows.counters[N_SEEN]
        share = 2.0 / (n * (n + 1.0)) if is_averaged and n > 0 else 0.0
        return self.owner.later(*self.sparse(self.rows.weights, self.rows.corrections, share))


def hinge_of(part: Objective) -> StructuralHinge:
    """Return the loss of a part."""
    assert isinstance(part.loss, StructuralHinge)
    return part.loss


def check_counts(owner: Objective | BlockedObjective, width: int) -> None:
    """Refuse expected counts beyond `LARGEST_BYTES`."""
    n_edge_rows = owner.n_items * owner.n_states if hinge_of(owner.parts[0]).n_edges else 0
    n_bytes = 8 * width * (owner.n_positions + n_edge_rows)
    if n_bytes > LARGEST_BYTES:
        raise InputError(
            f"block-coordinate Frank-Wolfe keeps what it expects of every item: {n_bytes / 1e9:.3g} GB here, and at "
            f"most {LARGEST_BYTES / 1e9:g} GB are allowed; train on fewer items"
        )
