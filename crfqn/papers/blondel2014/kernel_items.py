"""Dual variables of the items with a kernel (Blondel, Fujino and Ueda 2014), on working sets of bounded memory.

Shapes: N items, K states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.projection import PIVOT, SEED, simplex_rows
from crfqn.objectives.objective import Objective
from crfqn.papers.blondel2014.sub_solver_kernels import METHODS, SubSolver, sweep_items_by
from crfqn.solvers.dual.decomposition_kernels import DualItemArrays
from crfqn.solvers.dual.decomposition_state import (
    Certified,
    DualItems,
    ItemSweep,
    dual_variables,
    fixed_offsets,
    starting_items,
)


class WorkingSet(NamedTuple):
    """Items that are worked on, the matrix between them, and copies of their variables and scores.

    items, places : int64 (n,); (N,), where each item is among them
    square : float64 (at least n, at least n), of which the rest is not theirs
    """

    items: NDArray[np.int64]
    places: NDArray[np.int64]
    square: Vector
    diagonal: Vector
    state: DualItemArrays
    scores: Vector


class DualKernelItems(DualItems):
    """Dual variables of the items, zero at the start, with a kernel.

    The scores (K, N) of the items of a working set follow every change of a variable, as the weights of `DualItems` do;
    those of all, with which the next set is chosen by how much each item is violated, are made at the certificate.
    """

    has_faces = is_free = False  # type: ignore[assignment]

    def __init__(self, objective: Objective, penalty: Any, method: str, tol: float) -> None:
        self.objective, self.l2, self.method = objective, penalty.l2, method
        self.gram: Any = objective.map
        self.state = starting_items(objective, self.l2, fixed_offsets(objective))
        self.items = np.flatnonzero(self.state.masses > 0)
        self.scores = np.zeros((objective.n_states, objective.n_items))
        self.solver = SubSolver(METHODS[method], tol, np.full(1, SEED, np.uint64))
        self.working: WorkingSet | None = None

    @property
    def alpha(self) -> Vector:
        self._write_back()
        return dual_variables(self.state)

    def admit(self, items: NDArray[np.int64], slacks: Vector) -> NDArray[np.int64]:
        """Work on those items that are violated most, or nearest to it, as many as the memory allows; return them."""
        items = items[np.sort(np.argsort(slacks, kind="stable")[: self.gram.capacity])]
        self._write_back()
        square = self.gram.hold(items)
        held = self.gram.held
        state = self.state._replace(
            labels=self.state.labels[held],
            masses=self.state.masses[held],
            offsets=self.state.offsets if len(self.state.offsets) == 1 else self.state.offsets[held],
            b=self.state.b[held],
            cursors=self.state.cursors[held],
        )
        places = np.full(self.objective.n_items, -1)
        places[held] = np.arange(held.size)
        self.working = WorkingSet(held, places, square, self.gram.diagonal[held], state, self.scores[:, held])
        return items

    def _write_back(self) -> None:
        """Take over the variables of the working set."""
        if self.working is not None:
            self.state.b[self.working.items] = self.working.state.b
            self.state.cursors[self.working.items] = self.working.state.cursors

    def sweep(self, order: NDArray[np.int64], least: float = 0.0) -> ItemSweep:
        """Solve the sub-problem of one item of the working set after another, where its violation is above `least`."""
        assert self.working is not None
        _, places, square, diagonal, state, scores = self.working
        seen = self._visit_with(places[order], square, diagonal, state, scores, least)
        self.objective.n_passes += order.size / max(self.items.size, 1)
        return seen

    def _visit_with(
        self,
        order: NDArray[np.int64],
        rows: Vector,
        diagonal: Vector,
        state: DualItemArrays,
        scores: Vector,
        least: float,
    ) -> ItemSweep:
        slacks, findings = np.empty(order.size), np.empty(5)
        sweep_items_by(order, None, rows, diagonal, state, scores, self.solver, least, slacks, findings)
        return ItemSweep.of(findings, slacks)

    def _objective_value(self) -> float:
        """Minus l2 times equation 3."""
        alpha, state = self.alpha, self.state
        at_labels = np.arange(len(alpha)), state.labels
        linear = float(alpha.sum() - alpha[at_labels].sum() + np.sum(alpha * state.offsets))
        return -self.l2 * (0.5 * float(np.vdot(alpha.T, self.scores)) + linear)

    def certify(self, order: NDArray[np.int64]) -> Certified:
        self._write_back()
        state, self.working = self.state, None
        if self.method == "bisection":
            simplex_rows(state.b, state.masses, PIVOT, 0.0, state.b)
        self.scores[:] = 0.0
        by_state = self.alpha.T.ravel()
        coords = np.flatnonzero(by_state)
        self.gram.image(self.objective.split(coords), by_state[coords], self.scores)
        seen = self._visit_with(order, self.scores, self.gram.diagonal, state, self.scores, np.inf)
        dual_value = self._objective_value()
        bound = dual_value if self.gram.is_definite else -np.inf
        return Certified(dual_value + self.l2 * seen.gap, bound, seen)

    def table(self) -> Vector:
        """Return the weights of the expansion, (N, K)."""
        return self.alpha
