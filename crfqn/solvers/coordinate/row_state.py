"""State of row descent: rows of the weights, and the margins, which follow every change of a row.

As in Blondel, Seki, Uehara (2013), sections 4.2 and 4.3. The state holds everything that changes in a run, so runs on
one objective are independent. Shapes: N positions, K states, F features, width = K rounded up to LANES.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import UnsupportedObjectiveError
from crfqn.kernels.margins import LOGISTIC, RANKING, MarginState, fill_losses
from crfqn.kernels.row_norm import sum_penalties
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.sparse import found_in, union
from crfqn.kernels.thread_group import work_together
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import Point
from crfqn.penalties.penalty import Penalty
from crfqn.solvers.coordinate.row_kernels import (
    N_ROW_PARTS,
    Shared,
    StepRule,
    StoredRows,
    add_step_products,
    combine,
    cut_rows,
    list_weights,
    sweep_rows,
)
from crfqn.threads import CHUNK_SIZE, cut_into_parts, in_time

Indices = NDArray[np.int64]


SWEEP_CALL_SHARE = 10.0  # operations of a kernel's call per margin: each call computes all losses again
MIN_ENTRIES_FOR_THREADS = (
    20_000  # entries of a sweep, some 200 microseconds: fewer take longer on several threads
)
GRAM_REGULARISATION = (
    1e-10  # added to the diagonal of the Gram matrix of steps, times its trace: a numerical guard
)
MAX_SAMPLED_ENTRIES = 200_000  # entries that are counted to cut the positions into parts of about equal sizes


class LineSearch(NamedTuple):
    """Settings of the search along a row's step (equation 7), by default the paper's.

    sigma, omega : the required share of the predicted decrease, and the backtracking factor
    min_curvature_ratio : lower bound on the second derivative of a state, relative to the largest of its row
    """

    sigma: float = 0.01
    omega: float = 0.5
    min_curvature_ratio: float = 1.0


PAPER_SEARCH = LineSearch()


@dataclass(eq=False)
class RowBlocks(MethodState):
    """Stored rows of the weights, all others being zero, and the margins.

    part, n_rows : the items, which are one part; F
    cuts : int64 (N_ROW_PARTS + 1,), the first position of each part of a row that threads share
    stored_rows, row_weights : sorted int64, the features whose rows are stored; their weights (stored rows, K)
    has_papers_constants : whether constant steps are the paper's, not the longest that are known
    """

    objective: Objective
    part: Part
    n_rows: int
    cuts: Indices
    stored_rows: Indices
    row_weights: Vector
    state: MarginState
    _ends: Indices = field(repr=False)
    has_papers_constants: bool = False

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError for losses that cannot be followed by their margins."""
        loss = objective.first.loss
        if not loss.has_margins:
            raise UnsupportedObjectiveError(
                f"row descent needs a loss of margins; {type(loss).__name__} has none"
            )

    @classmethod
    def make(cls, objective: Objective, point: Point) -> RowBlocks:  # type: ignore[override]
        """Take the rows of a point."""
        assert point.whole is not None
        owner, part, loss = point.objective, point.whole.part, point.whole.part.loss
        split, n_states = owner.split(point.coords), owner.n_states
        stored, row = np.unique(split.features, return_inverse=True)
        weights = np.zeros((stored.size, n_states))
        weights[row, split.states] = point.weights
        margins = aligned_rows(owner.n_positions, -(-n_states // LANES) * LANES)
        margins[:, :n_states] = loss.margins(point.whole.scores)
        margins[:, n_states:] = -np.inf
        probabilities, relevance = (
            aligned_rows(len(margins) if loss.code == code else 0, margins.shape[1])
            for code in (LOGISTIC, RANKING)
        )
        relevance[:, :n_states] = loss.relevance
        losses = np.zeros(owner.n_positions)
        _, indices, values = part.map.store.by_feature
        state = MarginState(
            loss.code, indices, values, loss.labels, part.weights, margins, probabilities,
            relevance, losses,
        )  # fmt: skip
        # Cut the positions into parts with about equal numbers of entries, estimated from a sample of them.
        sample = indices[:: max(1, indices.size // MAX_SAMPLED_ENTRIES)]
        counts = np.bincount(sample, minlength=owner.n_positions)
        cuts = cut_into_parts(np.concatenate([[0], np.cumsum(counts)]), N_ROW_PARTS)
        blocks = cls(
            owner, part, part.map.n_features, cuts, stored, weights, state, np.empty((0, 0), np.int64)
        )
        blocks.fill_losses()
        blocks.store(stored)
        return blocks

    def fill_losses(self) -> None:
        """Compute the losses of the positions from the margins, and for the logistic loss the probabilities."""
        self.objective.pool.map_chunks(
            self.objective.n_positions, lambda first, last: fill_losses(self.state, first, last)
        )

    def store(self, features: Indices) -> None:
        """Store the rows of some features, and of the other features the rows that are not zero."""
        is_nonzero = self.row_weights.any(axis=1)
        nonzero = self.stored_rows[is_nonzero]
        indptr, indices, _ = self.part.map.store.by_feature
        stored = union(nonzero, np.sort(features))
        weights = np.zeros((stored.size, self.row_weights.shape[1]))
        weights[found_in(stored, nonzero)[0]] = self.row_weights[is_nonzero]
        ends = np.empty((stored.size, N_ROW_PARTS + 1), np.int64)
        cut_rows(stored, indptr, indices, self.cuts, ends)
        self.stored_rows, self.row_weights, self._ends = stored, weights, ends

    def shuffled(self, features: Indices, random: np.random.Generator) -> Indices:
        """Return features in a random order, those that occur at more than sqrt(N) positions first: small rows often
        stay zero after the large ones have moved."""
        indptr, order = self.part.map.store.by_feature[0], random.permutation(features)
        is_small = indptr[order + 1] - indptr[order] <= np.sqrt(self.objective.n_positions)
        return np.concatenate([order[~is_small], order[is_small]])

    def interleaved(self, order: Indices, penalty: Penalty, share: float) -> Indices:
        """Return features with the unpenalised ones repeated at equal distances, so often that their entries are up to
        this share of the entries of all others."""
        is_free = penalty.rows(self.n_rows, self.row_weights.shape[1]).is_unpenalised(order)
        if not share or not is_free.any():
            return order
        free, others = order[is_free], order[~is_free]
        lengths = np.diff(self.part.map.store.by_feature[0])
        n_visits = min(int(share * lengths[others].sum() / max(lengths[free].sum(), 1)), others.size)
        if n_visits <= 1:
            return order
        return np.concatenate([piece for part in np.array_split(others, n_visits) for piece in (part, free)])

    def sweep(
        self,
        order: Indices,
        penalty: Penalty,
        search: LineSearch | None = PAPER_SEARCH,
        margins_out: Vector | None = None,
    ) -> tuple[Vector, Vector]:
        """Update the rows of the features `order`, one after another (Algorithm 1, the inner loop).

        search : None for constant steps; margins_out : float64 (N, width), out: a copy of the margins after the sweep

        Returns the violations (equation 9), and for zero rows the dual norm of the gradient minus its upper bound at
        zero rows (inf for other rows), (steps,) each.
        """
        places, are_stored = found_in(self.stored_rows, order)
        if not are_stored.all():
            self.store(order)
            places, _ = found_in(self.stored_rows, order)
        owner, rows = self.objective, penalty.rows(self.n_rows, self.row_weights.shape[1])
        constants = self.constants[self.stored_rows] if search is None else np.empty(0)
        sizes = self._ends[places, -1] - self._ends[places, 0]
        n_members = min(owner.pool.n_threads, N_ROW_PARTS) if sizes.sum() >= MIN_ENTRIES_FOR_THREADS else 1
        width, findings = self.state.margins.shape[1], np.empty((order.size, 2))
        arguments = (
            self.state,
            StoredRows(self.row_weights, self._ends, rows.is_unpenalised(self.stored_rows)),
            rows.strengths,
            StepRule(*(search or PAPER_SEARCH), constants),
            Shared(
                aligned_rows(4 * N_ROW_PARTS, width).reshape(2, N_ROW_PARTS, 2, width),
                aligned_rows(2 * N_ROW_PARTS, LANES).reshape(2, N_ROW_PARTS, LANES),
            ),
            self.cuts,
        )

        def sweep_piece(group: NDArray[np.int64], rank: int) -> None:
            has_margins = margins_out is not None and piece.stop == order.size
            out = margins_out if has_margins else self.state.margins[:0]
            sweep_rows(group, n_members, rank, places[piece], *arguments, out, findings[piece])

        for piece in in_time(width * sizes, SWEEP_CALL_SHARE * self.state.margins.size):  # noqa: B007
            work_together(owner.pool, n_members, sweep_piece)
        return findings[:, 0], findings[:, 1]

    @cached_property
    def constants(self) -> Vector:
        """A Lipschitz constant of the gradient of each row, (F,) (appendix A)."""
        return self.part.loss.constants(self.part.map, self.part.weights, self.has_papers_constants)

    def value(self, penalty: Penalty) -> float:
        """Return the objective with the penalty, computed from the losses of the margins; counts as a pass."""
        owner, rows = self.objective, penalty.rows(self.n_rows, self.row_weights.shape[1])
        owner.n_passes += 1
        is_free = rows.is_unpenalised(self.stored_rows)
        return float(self.part.weights @ self.state.losses) + sum_penalties(
            self.row_weights, is_free, rows.strengths
        )

    def point(self) -> Point:
        """Return the point of the weights."""
        return self.objective.at(*list_weights(self.stored_rows, self.n_rows, self.row_weights))

    def scored_point(self) -> Point:
        """Return the point of the weights with its scores, up to a constant at each position that changes no loss."""
        owner = self.objective
        coords, weights = list_weights(self.stored_rows, self.n_rows, self.row_weights)
        scores = self.part.loss.scores_of(self.state.margins[:, : owner.n_states])
        return Point(owner, coords, weights, scores, np.empty(0))


class AndersonHistory:
    """Up to `n_points` points of sweeps with the same stored rows: Anderson acceleration (Bertrand and Massias 2021).

    Margins, (n_points, N, width), are affine in the weights, (n_points, stored rows, K): a combination of weights whose
    shares add up to 1 has the same combination of margins.
    """

    def __init__(self, first: RowBlocks, n_points: int) -> None:
        n_positions, width = first.state.margins.shape
        # Memory that is not cleared: `restart` and sweeps write it before it is read.
        margins = aligned_rows(n_points * n_positions, width)
        self.margins = margins.reshape(n_points, n_positions, width)
        self.row_weights: list[Vector] = []
        self.restart(first)

    def restart(self, first: RowBlocks) -> None:
        """Keep this point only."""
        self.row_weights.clear()
        self.next_margins[:] = first.state.margins
        self.add(first)

    @property
    def next_margins(self) -> Vector:
        """The memory for the margins of the next point, (N, width)."""
        return self.margins[len(self.row_weights)]

    def add(self, blocks: RowBlocks) -> None:
        """Add the point whose margins are in `next_margins`."""
        self.row_weights.append(blocks.row_weights.copy())

    def extrapolated(self, blocks: RowBlocks) -> RowBlocks | None:
        """Return the combination of the points after the first whose combined step is smallest; None if no step moved.

        The steps U are those of the margins, on which the loss depends; the shares are (U U')^-1 1, scaled to a sum of
        1. O(N K) for each point.
        """
        owner, n_points = blocks.objective, len(self.row_weights)
        n, map_chunks = owner.n_positions, owner.pool.map_chunks
        # The kernel computes the lower half of U U', sum_i weight_i <u_a(i), u_b(i)>.
        parts = np.zeros((-(-n // CHUNK_SIZE), n_points - 1, n_points - 1))
        map_chunks(
            n,
            lambda first, last: add_step_products(
                first, last, self.margins[:n_points], blocks.part.weights, parts[first // CHUNK_SIZE]
            ),
        )
        lower = parts.sum(axis=0)
        products = lower + np.tril(lower, -1).T
        trace = float(np.trace(products))
        if trace == 0.0:
            return None
        products[np.diag_indices_from(products)] += GRAM_REGULARISATION * trace
        shares = np.linalg.solve(products, np.ones(len(products)))
        shares /= shares.sum()
        margins = aligned_rows(*blocks.state.margins.shape)
        map_chunks(n, lambda first, last: combine(first, last, self.margins[1:n_points], shares, margins))
        weights = sum(share * table for share, table in zip(shares, self.row_weights[1:], strict=True))
        margin_state = blocks.state._replace(
            margins=margins,
            probabilities=aligned_rows(*blocks.state.probabilities.shape),
            losses=np.empty_like(blocks.state.losses),
        )
        combined = replace(blocks, row_weights=np.asarray(weights), state=margin_state)
        combined.fill_losses()
        return combined
