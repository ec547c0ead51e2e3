"""Dual variables of the items under the multiclass hinge with a kernel: the expansion is the dual variables themselves.

    f_k = sum_i alpha_ik kernel(x_i, .),   l2/2 sum_k ||f_k||^2

Shapes: N items, K states.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import SparseWeights, Vector
from crfqn.kernels.dual.gram import look_at_items, update_items
from crfqn.kernels.dual.linear import Items
from crfqn.kernels.dual.subproblem import METHODS, SubSolver
from crfqn.kernels.projection.rows import SEED, simplex_rows
from crfqn.objectives.linear.gram_map import GramMap
from crfqn.objectives.losses.multiclass_hinge import MulticlassHinge
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import LazyPoint
from crfqn.objectives.protocols import Certified, ItemSweep


def starting_items(objective: Objective, l2: float, offsets: Vector) -> Items:
    """Return the items with dual variables of zero."""
    labels = cast(MulticlassHinge, objective.loss).labels
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
        """Solve the sub-problem of one item after another, a block of rows at a time."""
        slacks, violation, gap, n_updates = np.empty(order.size), 0.0, 0.0, 0
        for first in range(0, order.size, self.gram.n_together):
            part = order[first : first + self.gram.n_together]
            seen, violated = self._look(part, slacks[first : first + part.size])
            violation, gap = max(violation, float(seen[0])), gap + float(seen[1])
            rest = part[violated]
            if rest.size:
                rows, places = self.gram.rows(rest)
                update_items(
                    rest, places, rows, self.gram.diagonal, self.state, self.scores, self.solver, seen
                )
                n_updates += int(seen[3])
        self.objective.n_passes += order.size / max(self.items.size, 1)
        return ItemSweep(violation, gap, n_updates, slacks)

    def _look(self, order: NDArray[np.int64], slacks: Vector) -> tuple[Vector, NDArray[np.bool_]]:
        found, violated = np.empty(4), np.empty(order.size, bool)
        look_at_items(order, self.state, self.scores, slacks, violated, found)
        return found, violated

    def dual_value(self) -> float:
        """Return the lower bound that the variables prove; -inf where they are not feasible as they are."""
        return self._objective_value() if self.solver.method != METHODS["bisection"] else -np.inf

    def _objective_value(self) -> float:
        """Minus l2 times equation 3."""
        alpha, state = self.alpha, self.state
        own = np.arange(len(alpha)), state.labels
        linear = float(alpha.sum() - alpha[own].sum() + np.sum(alpha * state.offsets))
        return -self.l2 * (0.5 * float(np.vdot(alpha.T, self.scores)) + linear)

    def certify(self, order: NDArray[np.int64]) -> Certified:
        """Evaluate both objectives; variables that are off their simplex are projected back first."""
        if self.solver.method == METHODS["bisection"]:
            state = self.state
            simplex_rows(state.b, state.masses, METHODS["pivot"], 0.0, state.b)
            self.scores[:] = 0.0
            coords, values = self._expansion()
            self.gram.image(self.objective.split(coords), values, self.scores)
        slacks = np.empty(order.size)
        seen, _ = self._look(order, slacks)
        dual_value = self._objective_value()
        sweep = ItemSweep(float(seen[0]), float(seen[1]), 0, slacks)
        return Certified(dual_value + self.l2 * sweep.gap, dual_value, sweep)

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
