"""Dual variables of the items under the multiclass hinge with a kernel: the expansion is the dual variables themselves.

    f_k = sum_i alpha_ik kernel(x_i, .),   l2/2 sum_k ||f_k||^2

Shapes: N items, K states.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights, Vector
from crfqn.kernels.projection import SEED, simplex_rows
from crfqn.objectives.linear.gram_map import GramMap
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import LazyPoint
from crfqn.solvers.dual.decomposition_kernels import METHODS, Items, SubSolver, find_violated, visit_items


class ItemSweep(NamedTuple):
    """Findings of a sweep over items with dual variables.

    violation : the largest v_i met (equation 5); gap : the sum of the items' parts of the duality gap, each when it was
    visited; n_updates; slacks : float64 (items,), how far each that is at a vertex is from leaving it, -inf for others
    """

    violation: float
    gap: float
    n_updates: int
    slacks: Vector


class Certified(NamedTuple):
    """The objective at the weights, a lower bound on the optimum, and what a sweep without updates has met."""

    value: float
    dual_value: float
    seen: ItemSweep


def starting_items(objective: Objective, l2: float, offsets: Vector) -> Items:
    """Return the items with dual variables of zero."""
    labels = objective.loss.labels
    masses = objective.weights / l2
    b = np.zeros((objective.n_items, objective.n_states))
    b[np.arange(objective.n_items), labels] = masses
    return Items(labels, masses, offsets, b, labels.copy())


def dual_variables(items: Items) -> Vector:
    """Return C - b, (N, K)."""
    alpha = -items.b
    alpha[np.arange(len(alpha)), items.labels] += items.masses
    return alpha


def fixed_offsets(objective: Objective) -> Vector:
    """Return the objective's offset by item, (N, K), or zeros for all, (1, K)."""
    offset = objective.offset
    return np.zeros((1, objective.n_states)) if offset is None else np.ascontiguousarray(offset.T)


class DualKernelItems:
    """Dual variables of the items, zero at the start, and the scores of all that follow every change of one.

    Parameters and attributes as of `DualItems`, with `scores`, float64 (K, N), in the place of the weights.
    """

    def __init__(self, objective: Objective, penalty: Any, method: str, tol: float) -> None:
        self.objective, self.l2 = objective, penalty.l2
        self.gram = cast(GramMap, objective.map)
        self.state = starting_items(objective, self.l2, fixed_offsets(objective))
        self.items = np.flatnonzero(self.state.masses > 0)
        self.scores = np.zeros((objective.n_states, objective.n_items))
        self.solver = SubSolver(METHODS[method], tol, np.full(1, SEED, np.uint64))

    @property
    def n_variables(self) -> int:
        """The dual variables of the items that count."""
        return self.items.size * self.objective.n_states

    @property
    def alpha(self) -> Vector:
        """The dual variables, C - b, (N, K)."""
        return dual_variables(self.state)

    def sweep(self, order: NDArray[np.int64]) -> ItemSweep:
        """Solve the sub-problem of one item after another."""
        seen = self._visit(order, moves=True)
        self.objective.n_passes += order.size / max(self.items.size, 1)
        return seen

    def _visit(self, order: NDArray[np.int64], moves: bool) -> ItemSweep:
        """Visit the items; where one needs a row, rows of all that need one now are made at once."""
        slacks, found = np.empty(order.size), np.zeros(4)
        for begin in range(0, order.size, self.gram.n_together):
            part = order[begin : begin + self.gram.n_together]
            places, first = np.full(part.size, -1), 0
            rows = self.gram.table
            while True:
                first = visit_items(
                    first, part, places, rows, self.gram.diagonal, self.state, self.scores, self.solver, moves,
                    slacks[begin : begin + part.size], found,
                )  # fmt: skip
                if first == part.size:
                    break
                violated = np.empty(part.size - first, bool)
                find_violated(part[first:], self.state, self.scores, violated)
                rest = first + np.flatnonzero(violated)
                rows, places[rest] = self.gram.rows(part[rest])
        return ItemSweep(float(found[0]), float(found[1]), int(found[3]), slacks)

    def _objective_value(self) -> float:
        """Minus l2 times equation 3."""
        alpha, state = self.alpha, self.state
        own = np.arange(len(alpha)), state.labels
        linear = float(alpha.sum() - alpha[own].sum() + np.sum(alpha * state.offsets))
        return -self.l2 * (0.5 * float(np.vdot(alpha.T, self.scores)) + linear)

    def certify(self, order: NDArray[np.int64]) -> Certified:
        """Evaluate both objectives; variables that are off their simplex are projected back first.

        The scores are made anew: each change of a variable has left its rounding in them, of terms as large as C.
        """
        state = self.state
        if self.solver.method == METHODS["bisection"]:
            simplex_rows(state.b, state.masses, METHODS["pivot"], 0.0, state.b)
        self.scores[:] = 0.0
        coords, values = self._expansion()
        self.gram.image(self.objective.split(coords), values, self.scores)
        seen, dual_value = self._visit(order, moves=False), self._objective_value()
        bound = dual_value if self.gram.is_definite else -np.inf
        return Certified(dual_value + self.l2 * seen.gap, bound, seen)

    def _expansion(self) -> SparseWeights:
        by_state = self.alpha.T.ravel()
        coords = np.flatnonzero(by_state)
        return SparseWeights(coords, by_state[coords])

    def point(self) -> ExpansionPoint:
        """Return the expansion as a point."""
        return ExpansionPoint(self)


class ExpansionPoint(LazyPoint):
    """The expansion at this moment, and its scores, which are there already."""

    def __init__(self, blocks: DualKernelItems) -> None:
        super().__init__(blocks.objective, *blocks._expansion())
        self._scores = blocks.scores.copy()

    @cached_property
    def value(self) -> float:
        """The loss, from the scores."""
        owner = self.objective
        scores = self._scores if owner.offset is None else self._scores + owner.offset
        found = owner.loss.evaluate(scores, np.empty(0), owner.weights, owner.pool)
        return float(owner.weights @ found.item_losses)
