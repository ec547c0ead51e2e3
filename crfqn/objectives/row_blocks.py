"""The weights by feature, and margins that follow every change of a row: what block coordinate descent works on.

For the row solvers (Blondel, Seki, Uehara 2013, sections 4.2 and 4.3). Only rows that are not zero are held, and those
that the last sweep has visited, a few thousand at a time.

Shapes: N positions, K states, F features, width = K rounded up to LANES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.row_descent import sweep_rows, sweep_together
from crfqn.kernels.row_losses import LOGISTIC, add_probabilities, fill_losses
from crfqn.kernels.row_step import MOST_MEMBERS, PARTS, sum_penalties
from crfqn.kernels.row_visits import ABSENT
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.team import work_together
from crfqn.kernels.union import union
from crfqn.objectives.flat import FlatObjective, FlatPoint
from crfqn.objectives.ranking import MultilabelRanking
from crfqn.objectives.row_look import RowLook, look_at_rows
from crfqn.objectives.row_penalty import RowPenalty
from crfqn.objectives.row_point import LatePoint, LateWeights
from crfqn.penalties import ElasticNet, GroupLasso

if TYPE_CHECKING:
    from crfqn.objectives.row_trail import RowTrail

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
CHUNK_NUMBERS = 1 << 21  # weights of the rows that a kernel visits at a time, and that must be held: 16 MB
MOST_IDLE = 2  # rows held for each that a sweep visits; those of earlier sweeps, zero by now, are then let go
FEWEST_ENTRIES = 20_000  # of a sweep that is worth waking another thread for: 200 microseconds


class Swept(NamedTuple):
    """What a sweep met, of each step: equation 9, and how far a zero row was from being wanted (inf for others)."""

    violations: Vector
    excess: Vector
    n_rejected: int


@dataclass(eq=False)
class RowBlocks:
    """Rows and margins.

    Attributes
    ----------
    held : sorted int64, the features whose rows are in the table, among them all whose rows are not zero
    table : float64 (held, K), the rows
    margins, aid : float64 (N, width); losses : float64 (N,), as in `kernels.row_losses`: those of the hinges are not
        up to date after a sweep with constant steps, until `value` is asked for
    """

    objective: FlatObjective
    held: NDArray[np.int64]
    table: Vector
    margins: Vector
    aid: Vector
    losses: Vector
    _are_losses_current: bool = False
    _copied: tuple[Indices, Vector] | None = None

    @classmethod
    def at(cls, point: FlatPoint) -> RowBlocks:
        """The rows of a point."""
        owner = point.objective
        split = owner.split(point.coords)
        kept, row = np.unique(split.features, return_inverse=True)
        table = np.zeros((kept.size, owner.structure.n_states))
        table[row, split.states] = point.weights
        loss, n_states = owner.loss, owner.structure.n_states
        margins = aligned_rows(owner.n_positions, -(-n_states // LANES) * LANES)
        margins[:, :n_states] = loss.margins(point.scores)
        margins[:, n_states:] = -np.inf
        blocks = cls.of(owner, kept, table, margins)
        blocks.fill_losses()
        return blocks

    @classmethod
    def of(cls, owner: FlatObjective, held: Indices, table: Vector, margins: Vector) -> RowBlocks:
        """Rows, the others being zero, and their margins; losses and probabilities are still to be filled in."""
        loss, width = owner.loss, margins.shape[1]
        aid, losses = np.empty((0, width)), np.zeros(owner.n_positions)
        if loss.code == LOGISTIC:
            aid = aligned_rows(owner.n_positions, width)
        elif isinstance(loss, MultilabelRanking):
            aid = aligned_rows(owner.n_positions, width)
            aid[:, : loss.n_states] = loss.relevance
        return cls(owner, held, table, margins, aid, losses)

    def fill_losses(self, prepare: Callable[[int, int], object] = lambda first, last: None) -> None:
        """The losses of the positions, and with the logistic loss their probabilities.

        `prepare` is called with each stretch of positions before, while they are on their way into the cache.
        """
        owner = self.objective

        def fill(first: int, last: int) -> None:
            prepare(first, last)
            if owner.loss.code == LOGISTIC:
                rows = np.arange(first, last, dtype=owner.store.indices.dtype)
                size = rows.size * self.margins.shape[1]
                room = np.empty(size), np.empty(size, np.int64)
                add_probabilities(rows, self.margins, self.aid, self.losses, *room)
            else:
                fill_losses(owner.loss.code, first, last, self.margins, self.aid, self.losses)

        owner.pool.each_stretch(owner.n_positions, fill)
        self._are_losses_current = True

    @property
    def n_rows(self) -> int:
        """F."""
        return self.objective.store.n_features

    def shuffle(self, random: np.random.Generator | None) -> None:
        """Let sweeps visit large rows in a new order; None: in that of the features."""
        self.objective.row_plan.shuffle(random)

    def sweep(
        self,
        order: Indices,
        penalty: ElasticNet | GroupLasso,
        sigma: float = 0.01,
        omega: float = 0.5,
        record: Vector | None = None,
    ) -> Swept:
        """Update the rows of the features `order`, all different, one after another.

        Steps from the generalised Hessian, with a line search. Features ascend, unless they are shuffled, but the rows
        with few entries come last, colour by colour: threads update those of one colour at once, which is why a
        feature must not come twice. `record`: float64 (N, width), out, the margins of the end.
        """
        room = aligned_rows(4 * PARTS, self.margins.shape[1]), aligned_rows(2 * PARTS, LANES)
        turn, colours, bounds = self.objective.row_plan.of(order, self.objective.pool)
        was_current, self._are_losses_current = self._are_losses_current, False  # a sweep may be interrupted
        kept = self.margins[:0] if record is None else record
        if order.size == 0 and record is not None:
            record[:] = self.margins
        balance, looks = self.objective.row_balance, np.zeros(MOST_MEMBERS, np.int64)
        found = self._in_chunks(
            order[turn], self.chunk, penalty, sweep_rows,
            lambda part: (colours[part], bounds[part], sigma, omega, *room, kept, balance.tilt, looks),
        )  # fmt: skip
        if self.objective.pool.n_threads == 2:
            balance.note(looks)
        self._are_losses_current = order.size > 0 or was_current
        swept = Swept(np.empty(order.size), np.empty(order.size), found.n_rejected)
        swept.violations[turn], swept.excess[turn] = found.violations, found.excess
        return swept

    def sweep_constant(
        self,
        order: Indices,
        penalty: ElasticNet | GroupLasso,
        n_together: int = 1,
        among: Indices | None = None,
    ) -> Swept:
        """Update rows by steps from their Lipschitz constants, without search, `n_together` at once.

        With several, each stretch of as many features in `order` holds different ones, drawn from those `among` at
        random.
        """
        owner = self.objective
        constants = owner.constants if among is None else owner.joint_constants(n_together, among)
        shares, size = self._shares(n_together), max(self.chunk // n_together, 1) * n_together
        self._are_losses_current = False
        return self._in_chunks(
            order, size, penalty, sweep_together,
            lambda _: (self.held, owner.store.indptr, constants[self.held], n_together, shares),
        )  # fmt: skip

    @property
    def chunk(self) -> int:
        """How many rows a kernel visits at a time."""
        return max(CHUNK_NUMBERS // self.table.shape[1], 1)

    def _shares(self, n_together: int) -> Vector:
        return aligned_rows(4 * n_together * PARTS, self.margins.shape[1])

    def _in_chunks(
        self,
        order: Indices,
        size: int,
        penalty: ElasticNet | GroupLasso,
        kernel: Callable[..., int],
        settings: Callable[[slice], tuple[Any, ...]],
    ) -> Swept:
        """Run a kernel on stretches of `order`; `settings` are its last arguments, for a stretch."""
        local = RowPenalty.of(penalty, self.n_rows, self.table.shape[1])
        violations, excess, n_rejected = np.empty(order.size), np.empty(order.size), 0
        self._copied = None
        for first in range(0, order.size, size):
            part = slice(first, first + size)
            place = self._hold(order[part])
            last = violations[part], excess[part], *settings(part)
            n_rejected += self._run_team(kernel, order[part], place, local, last)
        return Swept(violations, excess, n_rejected)

    def _hold(self, features: Indices) -> Indices:
        """Have the rows of some features in the table, and not many more; returns their places."""
        place = self.places(features)
        if place.min(initial=0) >= 0 and self.held.size <= MOST_IDLE * features.size:
            return place
        stays = np.flatnonzero(self.table.any(axis=1))
        held = union(self.held[stays], features)
        places, table = self._number(held), np.zeros((held.size, self.table.shape[1]))
        table[places[self.held[stays]]] = self.table[stays]
        self.held, self.table, self._place = held, table, places
        return places[features]

    def _number(self, held: Indices) -> Indices:
        """The number of each feature among those held, ABSENT for others, (F,)."""
        place = np.full(self.n_rows, ABSENT)
        place[held] = np.arange(held.size)
        return place

    @cached_property
    def _place(self) -> Indices:
        return self._number(self.held)

    def places(self, features: Indices) -> Indices:
        """Where the rows of some features are in the table; ABSENT for those that are not, which are zero."""
        return self._place.take(features)

    def _run_team(
        self,
        kernel: Callable[..., int],
        features: Indices,
        place: Indices,
        penalty: RowPenalty,
        last: tuple[Any, ...],
    ) -> int:
        """Run a kernel on features, given with their places, by as many threads as its work is worth."""
        owner = self.objective
        store, pool = owner.store, owner.pool
        n_entries = owner.row_sizes.take(features).sum()
        n_members = min(pool.n_threads, MOST_MEMBERS) if n_entries >= FEWEST_ENTRIES else 1
        arguments = (
            owner.row_cuts, owner.loss.code, place, store.indices, store.values, owner.targets, owner.weights,
            self.margins, self.aid, self.losses, *penalty.strengths, penalty.is_free(self.held), self.table,
        )  # fmt: skip
        found = work_together(
            pool, n_members, lambda team, rank: kernel(team, n_members, rank, *arguments, *last)
        )
        return sum(max(n_rejected, 0) for n_rejected in found)

    def value(self, penalty: ElasticNet | GroupLasso) -> float:
        """The objective, penalty included, from the margins: a pass over the data."""
        owner = self.objective
        owner.n_passes += 1
        if self.aid.size == 0 and not self._are_losses_current:  # others are kept up to date
            self.fill_losses()
        return float(owner.weights @ self.losses) + self.penalty_value(penalty)

    def penalty_value(self, penalty: ElasticNet | GroupLasso) -> float:
        """The penalty of the rows."""
        local = RowPenalty.of(penalty, self.n_rows, self.table.shape[1])
        return sum_penalties(self.table, local.is_free(self.held), *local.strengths)

    def look(self, penalty: ElasticNet | GroupLasso) -> RowLook:
        """A look at all rows: a pass over the data, and the gradients of rows that may move."""
        value = self.value(penalty)
        return look_at_rows(self, RowPenalty.of(penalty, self.n_rows, self.table.shape[1]), value)

    def copy_rows(self) -> tuple[Indices, Vector]:
        """The features held and a copy of their rows, one for all who ask before a row changes."""
        if self._copied is None:
            self._copied = self.held, self.table.copy()
        return self._copied

    def point(self) -> FlatPoint:
        """The rows as a point."""
        return LatePoint(self.objective, LateWeights(*self.copy_rows(), self.n_rows))

    def trail(self, n_points: int) -> RowTrail:
        """A trail of up to so many points that begins here."""
        from crfqn.objectives.row_trail import RowTrail

        return RowTrail(self, n_points)
