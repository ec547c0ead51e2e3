"""State of dual decomposition: the dual variables of the items under an L2 penalty, and the weights.

    W = sum_i alpha_i x_i,   C_i = c_i / l2   (Blondel, Fujino and Ueda 2014, equation 3; objectives here times l2)

W is dense, with a row for each feature. An unpenalised intercept is the multiplier of the constraint sum_i alpha_i = 0,
which the method of multipliers finds (Hestenes 1969): a constant feature is the quadratic term, and after a sweep its
weights are added to the multiplier. Shapes: N items, F features, K states, width = K rounded up to LANES.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.kernels.projection import PIVOT, PIVOT_SEED, SORT, simplex_rows
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.objectives.linear.dense_map import DenseMap
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import Point
from crfqn.penalties.penalty import Penalty
from crfqn.registry import find
from crfqn.solvers.dual.decomposition_kernels import DualItemArrays, DualRows, balance, sweep_items
from crfqn.solvers.stochastic.state import check_memory
from crfqn.threads import in_time
from crfqn.time_limit import check_time

# Sub-solvers that project exactly; others do not support squared hinges.
EXACT_METHODS = {"pivot": PIVOT, "sort": SORT}
CG_REDUCTION = 0.1  # conjugate gradients end when the residual has fallen to this ratio
MAX_LEAVING_SHARE = 0.02  # they end when a larger share of the free variables has left its bounds


class ItemSweep(NamedTuple):
    """Findings of a sweep over items.

    violation, mean : the largest v_i (equation 5), and their mean
    gap : the sum of the items' parts of the duality gap at their visits; decrease : of equation 3
    slacks : (items,), `Optimality.slack`
    """

    violation: float
    gap: float
    decrease: float
    n_updates: int
    slacks: Vector
    mean: float

    @classmethod
    def from_visits(
        cls,
        order: NDArray[np.int64],
        operations: Vector,
        visit: Callable[[NDArray[np.int64], Vector, Vector], None],
    ) -> ItemSweep:
        """Return the findings of the items of `order`; visit(items, slacks, findings) writes those of a piece of them,
        operations : of each item's visit."""
        slacks, parts = np.empty(order.size), []
        for piece in in_time(operations):
            parts.append(np.empty(5))
            visit(order[piece], slacks[piece], parts[-1])
        violation = max(part[0] for part in parts)
        gap, decrease, n_updates, violations = np.sum(parts, axis=0)[1:].tolist()
        return cls(float(violation), gap, decrease, int(n_updates), slacks, violations / max(order.size, 1))


class FaceDescent(NamedTuple):
    """Conjugate gradients on a face: the numbers of steps and of items, and the decrease of equation 3."""

    n_steps: int
    n_items: int
    decrease: float


class Certified(NamedTuple):
    """The objective at the weights, a lower bound on the optimum, and the findings of a sweep without updates."""

    value: float
    dual_value: float
    seen: ItemSweep


def starting_items(part: Part, l2: float, offsets: Vector) -> DualItemArrays:
    """Return the items with dual variables of zero."""
    labels = part.loss.labels
    masses, damping = part.weights / l2, np.empty(0)
    if part.loss.has_pair_duals:
        damping = np.divide(0.5, masses, out=np.zeros(masses.size), where=masses > 0)
        masses = np.zeros(masses.size)
    b = np.zeros((part.n_items, part.n_states))
    b[np.arange(part.n_items), labels] = masses
    return DualItemArrays(labels, masses, offsets, b, labels.copy(), damping)


def fixed_offsets(part: Part) -> Vector:
    """Return the offset by item, (N, K), or zeros for all, (1, K)."""
    offset = part.offset
    return np.zeros((1, part.n_states)) if offset is None else np.ascontiguousarray(offset.T)


def linear_rows(map: FeatureMap, constant: float) -> DualRows:
    """Return the features of the items; a last feature that is 1 becomes `constant`, if that is not 0."""
    if isinstance(map, DenseMap):
        x = np.empty((map.n_positions, map.n_features))
        x[:, : map.n_stored] = map.tile(slice(None), slice(None))
        x[:, map.n_stored :] = 1.0
        if constant:
            x[:, -1] = constant
        no_bounds, no_indices = np.empty(0, np.int64), np.empty(0, np.int32)  # the types of sparse ones
        return DualRows(no_bounds, no_indices, x.reshape(-1), map.n_features, np.einsum("if,if->i", x, x))
    indptr, indices, values = map.store.by_position
    if constant:
        values = np.ones(indices.size) if values.size == 0 else values.copy()
        values[indptr[1:] - 1] = constant
    squares = np.diff(indptr).astype(np.float64)
    if values.size:
        table = scipy.sparse.csr_array((values**2, indices, indptr), (map.n_positions, map.n_features))
        squares = np.asarray(table.sum(axis=1)).reshape(-1)
    return DualRows(indptr, indices, values, 0, squares)


def constant_feature(map: FeatureMap, unpenalised: Coords, n_states: int) -> bool:
    """Return whether the last feature is a constant without penalty; raise UnsupportedObjectiveError if other weights
    have none."""
    if unpenalised.size == 0:
        return False
    last = np.arange(1, n_states + 1) * map.n_features - 1
    if np.array_equal(unpenalised, last):
        if isinstance(map, DenseMap):
            is_constant = map.has_constant
        else:
            values = map.store.values[map.store.indptr[-2] :]
            is_constant = int(map.store.sizes[-1]) == map.n_positions and bool((values == 1.0).all())
        if is_constant:
            return True
    raise UnsupportedObjectiveError(
        "dual variables: expected no weights without penalty but those of a last feature that is 1"
    )


class DualItems(MethodState):
    """Dual variables of the items, zero at the start, and the weights, which follow every change.

    objective, penalty : of a loss with `has_label_duals` or `has_pair_duals`; ElasticNet with l2 > 0 and without L1,
        in which only the weights of a last feature that is 1 may be unpenalised
    method, tol : {"sort", "pivot", "bisection", "smo", "frank-wolfe"}, tol of the bisection
    items, weights, multiplier : int64, those with a weight; float64 (F, width); float64 (K,), of the intercepts
    has_faces : whether the variables of an item lie in a simplex, as those of the hinge
    takes_pairs : whether losses with `has_pair_duals` are supported
    """

    takes_pairs: ClassVar[bool] = True

    def __init__(self, objective: Objective, penalty: Penalty, method: str, tol: float) -> None:
        if not penalty.l2 > 0:
            raise InputError("dual decomposition needs a penalty l2/2 ||w||^2 with l2 > 0, got l2 = 0")
        part = objective.whole
        assert part is not None  # states are made of objectives in one part
        if part.loss.has_pair_duals and method not in EXACT_METHODS:
            raise InputError(
                f"sub_solver: expected one of {(*EXACT_METHODS,)} under a squared hinge, got {method!r}"
            )
        self.objective, self.l2, self.method, self.tol = objective, penalty.l2, method, tol
        self.part, map, self.n_states = part, part.map, part.n_states
        self.is_free = constant_feature(map, penalty.unpenalised, self.n_states)
        width = -(-self.n_states // LANES) * LANES
        check_memory(map.n_features, width, map.n_features, self.n_states)
        rows = linear_rows(map, 0.0)
        self.constant = float(np.sqrt(rows.squares.mean())) if self.is_free else 0.0
        self.rows = linear_rows(map, self.constant) if self.is_free else rows
        self.weights = aligned_rows(map.n_features, width)
        self.fixed, self.multiplier = fixed_offsets(part), np.zeros(self.n_states)
        self.state = starting_items(part, self.l2, self.fixed.copy())
        self.has_faces = self.state.damping.size == 0
        self.items = np.flatnonzero(part.weights > 0)
        self.random = np.full(1, PIVOT_SEED, np.uint64)

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError unless the loss is a multiclass hinge or its squares, without a support."""
        loss = objective.first.loss
        if not (loss.has_label_duals or (cls.takes_pairs and loss.has_pair_duals)):
            raise UnsupportedObjectiveError(
                "dual variables need the multiclass hinge, squared without a kernel only; the loss is "
                f"{type(loss).__name__}"
            )
        if not objective.support.is_everything:
            raise UnsupportedObjectiveError("dual variables need all weights; this objective has a support")

    @property
    def alpha(self) -> Vector:
        """The dual variables, C - b, (N, K)."""
        alpha = -self.state.b
        alpha[np.arange(len(alpha)), self.state.labels] += self.state.masses
        return alpha

    def admit(self, items: NDArray[np.int64], slacks: Vector) -> NDArray[np.int64]:
        """Return the items that the next passes may visit: all of them, since the weights need no memory by item."""
        return items

    def sweep(self, order: NDArray[np.int64], threshold: float = 0.0) -> ItemSweep:
        """Solve the sub-problems of items with a violation above the threshold, one after another (Algorithm 1, the
        inner loop); then add the weights of the constant feature to the multiplier."""
        seen = self._visit(order, threshold)
        if self.is_free:
            self.multiplier += self.constant * self.weights[-1, : self.n_states]
            self.state.offsets[:] = self.fixed + self.multiplier
        return seen

    def _visit(self, order: NDArray[np.int64], threshold: float) -> ItemSweep:
        rows, state, weights = self.rows, self.state, self.weights
        if self.method in EXACT_METHODS:
            method = EXACT_METHODS[self.method]

            def visit(items: NDArray[np.int64], slacks: Vector, findings: Vector) -> None:
                sweep_items(items, rows, state, weights, method, self.random, threshold, slacks, findings)
        else:
            sweep_items_by = find("sweep_items_by")
            solver = find("make_sub_solver")(self.method, self.tol, self.random)

            def visit(items: NDArray[np.int64], slacks: Vector, findings: Vector) -> None:
                sweep_items_by(
                    items, rows, None, rows.squares, state, weights, solver, threshold, slacks, findings
                )

        self.objective.n_passes += order.size / max(self.items.size, 1)
        n_entries = np.full(order.size, rows.n_columns)
        if not rows.n_columns:
            n_entries = rows.indptr[order + 1] - rows.indptr[order]
        return ItemSweep.from_visits(order, weights.shape[1] * (n_entries + 1), visit)

    def descend_face(self, max_steps: int) -> FaceDescent:
        """Minimise equation 3 over the variables within their bounds by up to `max_steps` conjugate gradients; then
        move towards the result, projected onto the simplices, with an exact line search."""
        state, n_states = self.state, self.n_states
        is_free = state.b > 0
        free = np.flatnonzero((is_free.sum(axis=1) > 1) & (self.rows.squares > 0))
        if not free.size:
            return FaceDescent(0, 0, 0.0)
        is_free, b, x = is_free[free], state.b[free], table_of(self.rows, len(self.weights))[free]
        offsets = state.offsets if len(state.offsets) == 1 else state.offsets[free]
        g = x @ self.weights[:, :n_states] + offsets + 1.0  # equation 4
        g[np.arange(free.size), state.labels[free]] -= 1.0
        move, n_steps = solve_on_face(x, g, is_free, b, self.rows.squares[free, None], max_steps)
        target = b + move
        masses = state.masses[free]
        below = np.where(is_free, target, -np.inf).max(axis=1) - 2.0 * masses  # stays zero
        target = np.where(is_free, target, below[:, None])
        simplex_rows(target, masses, PIVOT, 0.0, target)
        move = target - b
        change = x.T @ move
        slope, square = float(np.vdot(g, move)), float(np.vdot(change, change))
        if not (slope > 0.0 and square > 0.0):
            return FaceDescent(n_steps, free.size, 0.0)
        share = min(1.0, slope / square)
        state.b[free] = target if share == 1.0 else b + share * move
        self.weights[:, :n_states] -= share * change
        return FaceDescent(n_steps, free.size, share * (slope - 0.5 * share * square))

    def _objective_value(self) -> float:
        """Return minus l2 times equation 3, without the unpenalised weights."""
        penalised = self.weights[: -1 if self.is_free else None]
        square = float(np.einsum("fk,fk->", penalised, penalised))
        b, labels = self.state.b, self.state.labels
        at_labels = np.arange(len(b)), labels
        linear = float(b[at_labels].sum() - b.sum())  # sum Delta alpha: alpha = C - b
        if self.state.damping.size:
            squares = np.einsum("ik,ik->i", b, b) - b[at_labels] ** 2
            square += float(self.state.damping @ squares)
        if self.part.offset is not None:
            linear += float(self.state.masses @ self.fixed[at_labels] - np.vdot(b, self.fixed))
        return -self.l2 * (0.5 * square + linear)

    def certify(self, order: NDArray[np.int64]) -> Certified:
        """Evaluate both objectives, after a projection of variables that are not in their simplex. The weights are
        computed again, since each update adds rounding errors in proportion to C."""
        state = self.state
        if self.method == "bisection":
            simplex_rows(state.b, state.masses, PIVOT, 0.0, state.b)
        self._remake_weights()
        if not self.is_free:
            seen, dual_value = self._visit(order, np.inf), self._objective_value()
            return Certified(dual_value + self.l2 * seen.gap, dual_value, seen)
        self.weights[-1] = 0.0  # the multiplier alone is the intercept
        seen = self._visit(order, np.inf)
        surplus = state.b.sum(axis=0) - np.bincount(state.labels, state.masses, self.n_states)
        value = self._objective_value() + self.l2 * (seen.gap + float(surplus @ self.multiplier))
        # The bound is that of feasible variables: a copy, moved until those of each state add up to zero.
        moved, is_feasible = self.copied(), True
        if state.damping.size:
            is_feasible = moved._share_out(surplus)
        else:
            balance(self.items, self.rows, moved.state, surplus.copy(), moved.weights)
        dual_value = moved._objective_value() if is_feasible else -np.inf
        self.weights[-1, : self.n_states] = -self.constant * surplus
        return Certified(value, dual_value, seen)

    def _remake_weights(self) -> None:
        """Compute the weights sum_i alpha_i x_i of the present variables."""
        table, alpha = table_of(self.rows, len(self.weights)), self.alpha
        check_time()
        self.weights[:, : self.n_states] = table.T @ alpha

    def _share_out(self, surplus: Vector) -> bool:
        """Make the surplus zero by the pairs, which have no upper bound, of the items of labels with a surplus; return
        whether there are such items."""
        labels = self.state.labels[self.items]
        excess, lack = np.maximum(surplus, 0.0), np.maximum(-surplus, 0.0)
        n_items = np.bincount(labels, minlength=self.n_states)
        if not excess.any():
            return True
        changes = np.outer(excess / np.maximum(n_items, 1), lack / lack.sum())
        np.fill_diagonal(changes, -changes.sum(axis=1))
        self.state.b[self.items] += changes[labels]
        self._remake_weights()
        return not excess[n_items == 0].any()

    def copied(self) -> DualItems:
        """Return a copy whose variables and weights can be changed independently."""
        other = copy(self)
        other.weights = self.weights.copy()
        other.state = self.state._replace(b=self.state.b.copy(), cursors=self.state.cursors.copy())
        return other

    def point(self) -> Point:
        """Return the point of the weights, which copies them at their first use."""
        return TablePoint(self)

    def table(self) -> Vector:
        """Return a copy of the present weights, (F, K), with the intercepts."""
        table = self.weights[:, : self.n_states].copy()
        if self.is_free:
            table[-1] = self.multiplier
        return table


def table_of(rows: DualRows, n_features: int) -> Vector | scipy.sparse.csr_array:
    """Return the features of the items as a matrix (N, F), dense or CSR."""
    if rows.n_columns:
        return rows.values.reshape(-1, rows.n_columns)
    values = rows.values if rows.values.size else np.ones(rows.indices.size)
    return scipy.sparse.csr_array((values, rows.indices, rows.indptr), (rows.squares.size, n_features))


def solve_on_face(
    x: Vector | scipy.sparse.csr_array,
    g: Vector,
    is_free: NDArray[np.bool_],
    b: Vector,
    squares: Vector,
    max_steps: int,
) -> tuple[Vector, int]:
    """Return the move of b, (n, K), and the number of steps of conjugate gradients, preconditioned by ||x||^2.

    Moves change free variables only and keep each item's sum. The steps end early if a share of more than
    MAX_LEAVING_SHARE of the free variables has left its bounds.
    """
    counts = is_free.sum(axis=1, keepdims=True)

    def projected(v: Vector) -> Vector:
        v = np.where(is_free, v, 0.0)
        return np.where(is_free, v - v.sum(axis=1, keepdims=True) / counts, 0.0)

    residual, move, n_steps = projected(g), np.zeros_like(b), 0
    direction = residual / squares
    first = product = float(np.vdot(residual, direction))
    while n_steps < max_steps and product > CG_REDUCTION**2 * first:
        check_time()
        change = x.T @ direction
        square = float(np.vdot(change, change))
        if not square > 0.0:
            break
        length = product / square
        move += length * direction
        residual -= length * projected(x @ change)
        n_steps += 1
        if np.count_nonzero(b + move < 0.0) > MAX_LEAVING_SHARE * counts.sum():
            break
        before, product = product, float(np.vdot(residual, residual / squares))
        direction = residual / squares + product / before * direction
    return move, n_steps


class TableWeights:
    """Weights in a table (F, K); sorted coordinates are computed at their first use."""

    def __init__(self, table: Vector) -> None:
        self.table = table

    @cached_property
    def n_nonzero(self) -> int:
        """The number of weights that are not 0."""
        return int(np.count_nonzero(self.table))

    @cached_property
    def _sparse(self) -> SparseWeights:
        by_state = self.table.T.ravel()
        coords = np.flatnonzero(by_state)
        return SparseWeights(coords, by_state[coords])

    @property
    def coords(self) -> Coords:
        return self._sparse.coords

    @property
    def weights(self) -> Vector:
        return self._sparse.weights


class TablePoint(Point):
    """A point whose weights are a table (F, K), copied at its first use."""

    def __init__(self, blocks: DualItems) -> None:
        self._blocks, self.objective = blocks, blocks.objective  # no weights yet
        self.forget()

    @cached_property
    def sparse_weights(self) -> TableWeights:  # type: ignore[override]
        """The weights at the first use of this property; they may be kept longer than the point."""
        return TableWeights(self._blocks.table())

    @property
    def coords(self) -> Coords:  # type: ignore[override]
        return self.sparse_weights.coords

    @property
    def weights(self) -> Vector:  # type: ignore[override]
        return self.sparse_weights.weights
