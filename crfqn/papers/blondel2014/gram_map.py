"""A kernel machine's features and dual variables (Blondel, Fujino and Ueda 2014, section III), in a bounded memory.

    scores[k, t] = sum_i w[k, i] kernel(x_i, x_t)

A "feature" is an item: N of both, K states. The matrix between the items of a working set is stored, up to a maximum
size; other values are computed in blocks, used and dropped, which takes about twice the time of their use. All are in
double precision, since a score is a sum of terms of the size of C; a matrix that is given as an array is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError
from crfqn.kernels.projection import PIVOT, PIVOT_SEED, simplex_rows
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap
from crfqn.objectives.objective import MethodState, Objective
from crfqn.papers.blondel2014.sub_solver_kernels import SUB_SOLVER_CODES, SubSolver, sweep_items_by
from crfqn.penalties import ElasticNet
from crfqn.penalties.penalty import Penalty
from crfqn.solvers.dual.decomposition_kernels import DualItemArrays
from crfqn.solvers.dual.decomposition_state import (
    Certified,
    DualItems,
    ItemSweep,
    fixed_offsets,
    starting_items,
)
from crfqn.threads import Pool

ROWS_PER_BLOCK = 256  # rows of kernel values that are computed by one matrix product


def make_sub_solver(method: str, tol: float, random: NDArray[np.uint64]) -> SubSolver:
    """Return the solver of the sub-problems by its name; tol : of the bisection; random : (1,), of the pivots."""
    return SubSolver(SUB_SOLVER_CODES[method], tol, random)


class WorkingSet(NamedTuple):
    """Items that are worked on, the matrix between them, and copies of their variables and scores.

    items, places : int64 (n,); (N,), where each item is among them
    square : float64 (at least n, at least n), whose first rows and columns are theirs
    diagonal, state, scores : float64 (n,); their variables; float64 (K, n)
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

    has_faces = is_free = takes_pairs = False  # type: ignore[assignment]

    def __init__(self, objective: Objective, penalty: Penalty, method: str, tol: float) -> None:
        self.objective, self.l2, self.method = objective, penalty.l2, method
        part = objective.whole
        assert part is not None
        assert isinstance(part.map, GramMap)
        self.gram = part.map
        self.state = starting_items(part, self.l2, fixed_offsets(part))
        self.items = np.flatnonzero(self.state.masses > 0)
        self.scores = np.zeros((objective.n_states, objective.n_items))
        self.solver = make_sub_solver(method, tol, np.full(1, PIVOT_SEED, np.uint64))
        self.working: WorkingSet | None = None

    @property
    def alpha(self) -> Vector:
        self._write_back()
        return super().alpha

    def admit(self, items: NDArray[np.int64], slacks: Vector) -> NDArray[np.int64]:
        """Choose the working set, the items with the largest violations, as many as the memory allows; return them."""
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

    def sweep(self, order: NDArray[np.int64], threshold: float = 0.0) -> ItemSweep:
        """Solve the sub-problems of items of the working set with a violation above the threshold, one by one."""
        assert self.working is not None
        findings = self._visit_in(self.working, order, threshold)
        self.objective.n_passes += order.size / max(self.items.size, 1)
        return findings

    def _visit_in(self, working: WorkingSet, order: NDArray[np.int64], threshold: float) -> ItemSweep:
        _, places, square, diagonal, state, scores = working

        def visit(items: NDArray[np.int64], slacks: Vector, findings: Vector) -> None:
            sweep_items_by(
                items, None, square, diagonal, state, scores, self.solver, threshold, slacks, findings
            )

        return ItemSweep.from_visits(places[order], np.full(order.size, scores.size), visit)

    def certify(self, order: NDArray[np.int64]) -> Certified:
        self._write_back()
        state, self.working = self.state, None
        if self.method == "bisection":
            simplex_rows(state.b, state.masses, PIVOT, 0.0, state.b)
        self.scores[:] = 0.0
        by_state = self.alpha.T.ravel()
        coords = np.flatnonzero(by_state)
        self.gram.image(self.objective.split(coords), by_state[coords], self.scores)
        # A sweep that updates nothing reads no value of the matrix.
        every, unread = np.arange(len(state.labels)), self.scores
        whole = WorkingSet(every, every, unread, self.gram.diagonal, state, self.scores)
        seen = self._visit_in(whole, order, np.inf)
        alpha, at_labels = self.alpha, (every, state.labels)
        linear = float(alpha.sum() - alpha[at_labels].sum() + np.sum(alpha * state.offsets))
        dual_value = -self.l2 * (0.5 * float(np.vdot(alpha.T, self.scores)) + linear)  # -l2 times equation 3
        bound = dual_value if self.gram.is_definite else -np.inf
        return Certified(dual_value + self.l2 * seen.gap, bound, seen)

    def table(self) -> Vector:
        """Return the weights of the expansion, (N, K)."""
        return self.alpha


class KernelObjective(Objective):
    """The loss over a `GramMap`, whose dual variables are those of an expansion."""

    def check_state(self, kind: type[MethodState]) -> None:
        super().check_state(DualKernelItems if kind is DualItems else kind)

    def state(self, kind: Any, *arguments: Any) -> Any:
        """Return the state of a method, or raise UnsupportedObjectiveError; arguments as of its class."""
        return super().state(DualKernelItems if kind is DualItems else kind, *arguments)


@dataclass(frozen=True, eq=False)
class KernelNorm(ElasticNet):
    """Norm of functions that a kernel expands: l2/2 sum_k a_k' K a_k over the states k, K the Gram matrix (product :
    sorted coordinates and values (n,) -> K a there); l2/2 ||w||^2 of the weights in its unseen feature space."""

    is_separable: ClassVar[bool] = False

    product: Callable[[NDArray[np.int64], Vector], Vector] = field(kw_only=True)

    def value(self, coords: Coords, w: Vector) -> float:
        return 0.5 * self.l2 * float(w @ self.product(coords, w)) if w.size else 0.0


@dataclass(eq=False)
class GramMap(FeatureMap):
    """A Gram matrix with a bounded memory; InputError for a diagonal below 0, and for numbers that are not finite.

    values_to : function of items, int64 (m,), that returns a function of others, int64 (n,), that returns the kernel's
        values between them, (n, m); of at most ROWS_PER_BLOCK others at a time
    diagonal, n_bytes : float64 (N,), kernel(x_i, x_i); of the values that are kept, a block of rows beside them
    whole : (N, N), optional: the matrix itself; nothing is made or kept then
    is_definite : whether the matrix is positive semidefinite; without it there is no certificate
    """

    values_to: Callable[[NDArray[np.int64]], Callable[[NDArray[np.int64]], NDArray]]
    diagonal: Vector
    n_bytes: float = 200e6
    whole: NDArray | None = None
    is_definite: bool = True
    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        wrong = ~(np.isfinite(self.diagonal) & (self.diagonal >= 0))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InputError(
                f"kernel: expected finite values >= 0 of k(x, x), got {self.diagonal[i]} for item {i}"
            )
        n = self.n_features = self.diagonal.size
        self.offsets = np.arange(n + 1)
        n_kept = max(int((self.n_bytes / 8) ** 0.5), ROWS_PER_BLOCK)
        self.capacity = n if self.whole is not None else min(n_kept, n)
        self._square = np.empty((self.capacity, self.capacity)) if self.whole is None else self.whole
        self.held = np.arange(0 if self.whole is None else n)
        self.n_made = 0  # values

    def hold(self, items: NDArray[np.int64]) -> NDArray:
        """Keep the values between some items, at most `capacity`, and drop others; return them, (capacity, capacity),
        in the order of `held`, which is that of the items' numbers if all fit."""
        if self.held.size == self.n_items:
            return self._square
        items = np.arange(self.n_items) if self.capacity == self.n_items else items
        table, stays = self._square, np.flatnonzero(np.isin(self.held, items))
        for place, before in enumerate(stays.tolist()):  # which is never left of its place
            table[place, : stays.size] = table[before, stays]
        self.held = np.append(self.held[stays], np.setdiff1d(items, self.held))
        for first in range(stays.size, self.held.size, ROWS_PER_BLOCK):
            end = min(first + ROWS_PER_BLOCK, self.held.size)
            for _, values in self._blocks(self.held[first:end], self.held[:end]):
                table[first:end, :end] = values
            table[:first, first:end] = table[first:end, :first].T
        return table

    def _blocks(
        self, items: NDArray[np.int64], others: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray]]:
        """Yield some of the items after others, and the kernel's values between these and `others`, made now."""
        values_of = self.values_to(others)
        for first in range(0, items.size, ROWS_PER_BLOCK):
            part = items[first : first + ROWS_PER_BLOCK]
            values = np.asarray(values_of(part))
            if values.shape != (part.size, others.size):
                raise InputError(
                    f"kernel: expected values of shape {(part.size, others.size)}, got {values.shape}"
                )
            if not np.isfinite(values).all():
                raise InputError("kernel: expected finite values, got nan or infinity")
            self.n_made += values.size
            yield part, values

    def image(self, nodes: CoordinateParts, weights: Vector, scores: Vector) -> None:
        """Add the scores of an expansion, in place."""
        expansion = np.zeros((len(scores), self.n_items))
        expansion[nodes.states, nodes.features] = weights
        held, n = self.held, self.held.size
        scores[:, held] += expansion[:, held] @ self._square[:n, :n]
        is_held = np.zeros(self.n_items, bool)
        is_held[held] = True
        is_used = expansion.any(axis=0)
        pairs = ((~is_held, is_used), (is_held, is_used & ~is_held))
        for others, used in ((np.flatnonzero(a), np.flatnonzero(b)) for a, b in pairs):
            for part, values in self._blocks(others, used) if used.size else ():
                scores[:, part] += expansion[:, used] @ values.T

    def adjoint(self, nodes: CoordinateParts, residual: Vector) -> Vector:
        """Return sum_t kernel(x_f, x_t) residual[k, t] for each node, (n,)."""
        sums = np.zeros((len(residual), self.n_items))
        states, items = np.divmod(np.flatnonzero(residual), self.n_items)
        self.image(CoordinateParts(states, items, items[:0]), residual[states, items], sums)
        return sums[nodes.states, nodes.features]
