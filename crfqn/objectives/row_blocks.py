"""The weights by feature, and margins that follow every change of a row: what block coordinate descent works on.

For the row solvers (Blondel, Seki, Uehara 2013, sections 4.2 and 4.3). Only rows that are not zero are kept: a sweep
gathers the rows that it visits, a few thousand at a time.

Shapes: N positions, K states, F features, width = K rounded up to LANES.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.kernels.row_descent import sweep_rows
from crfqn.kernels.row_losses import LOGISTIC, add_probabilities
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.objectives.flat import FlatObjective, FlatPoint
from crfqn.objectives.ranking import MultilabelRanking
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.structures.structure import NO_EDGES

Vector = NDArray[np.float64]
CHUNK = 4096  # rows gathered at a time: 640 KB of 20 states
NO_CONSTANTS = np.empty(0)


class RowPenalty(NamedTuple):
    """l1 ||w||_1 + l2/2 ||w||^2 + group_l1 ||w|| of a row that is not free; `is_linf`: ||w|| is the largest size."""

    group_l1: float
    l1: float
    l2: float
    is_linf: bool
    free: NDArray[np.int64]

    @classmethod
    def of(cls, penalty: ElasticNet | GroupLasso, n_features: int, n_states: int) -> RowPenalty:
        """What a penalty is to the rows; what is free must be whole rows."""
        free, counts = np.unique(penalty.free % n_features, return_counts=True)
        if np.any(counts != n_states):
            raise InputError(
                f"expected all {n_states} weights of a feature to be free or none, "
                f"got {counts.min()} of feature {free[counts.argmin()]}"
            )
        if isinstance(penalty, ElasticNet):
            return cls(0.0, penalty.l1, penalty.l2, False, free)
        if (penalty.n_features, penalty.n_states) != (n_features, n_states):
            raise InputError(
                f"expected a penalty over {n_features} features and {n_states} states, "
                f"got {penalty.n_features} and {penalty.n_states}"
            )
        return cls(penalty.group_l1, penalty.l1, penalty.l2, penalty.norm == "linf", free)


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
    kept : sorted int64, the features whose rows are not zero; table : float64 (kept, K), the rows
    margins, aid : float64 (N, width); losses : float64 (N,), as in `kernels.row_losses`
    """

    objective: FlatObjective
    kept: NDArray[np.int64]
    table: Vector
    margins: Vector
    aid: Vector
    losses: Vector

    @classmethod
    def at(cls, point: FlatPoint) -> RowBlocks:
        """The rows of a point."""
        owner = point.objective
        split = owner.split(point.coords)
        kept, row = np.unique(split.features, return_inverse=True)
        table = np.zeros((kept.size, owner.structure.n_states))
        table[row, split.states] = point.weights
        loss, n_states = owner.loss, owner.structure.n_states
        width = -(-n_states // LANES) * LANES
        margins = aligned_rows(owner.n_positions, width)
        margins[:, :n_states] = loss.margins(point.scores)
        margins[:, n_states:] = -np.inf
        aid, losses = np.empty((0, width)), np.zeros(owner.n_positions)
        if loss.code == LOGISTIC:
            aid = aligned_rows(owner.n_positions, width)
            rows = np.arange(owner.n_positions, dtype=owner.store.indices.dtype)
            room = np.empty(margins.size), np.empty(margins.size, np.int64)
            add_probabilities(rows, margins, aid, losses, *room)
        elif isinstance(loss, MultilabelRanking):
            aid = aligned_rows(owner.n_positions, width)
            aid[:, :n_states] = loss.relevance
            losses[:] = point.evaluation.losses
        return cls(owner, kept, table, margins, aid, losses)

    @property
    def n_rows(self) -> int:
        """F."""
        return self.objective.store.n_features

    def rows_of(self, coords: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that coordinates lie in, sorted."""
        return np.unique(coords % self.n_rows)

    def sweep(
        self,
        order: NDArray[np.int64],
        penalty: ElasticNet | GroupLasso,
        is_constant: bool,
        sigma: float = 0.01,
        omega: float = 0.5,
    ) -> Swept:
        """Update the rows of the features `order`, one after another (a feature may come twice).

        is_constant: steps from the Lipschitz constants; otherwise from the generalised Hessian, with a line search.
        """
        local = RowPenalty.of(penalty, self.n_rows, self.table.shape[1])
        constants = self.objective.constants if is_constant else NO_CONSTANTS
        violations, excess, n_rejected = np.empty(order.size), np.empty(order.size), 0
        for first in range(0, order.size, CHUNK):
            part = slice(first, first + CHUNK)
            n_rejected += self._sweep(
                order[part], local, constants, sigma, omega, violations[part], excess[part]
            )
        return Swept(violations, excess, n_rejected)

    def _sweep(
        self,
        order: NDArray[np.int64],
        penalty: RowPenalty,
        constants: Vector,
        sigma: float,
        omega: float,
        violations: Vector,
        excess: Vector,
    ) -> int:
        owner = self.objective
        store = owner.store
        features, place = np.unique(order, return_inverse=True)
        table = np.zeros((features.size, self.table.shape[1]))
        is_old = np.isin(features, self.kept, assume_unique=True)
        table[is_old] = self.table[np.searchsorted(self.kept, features[is_old])]
        n_rejected = sweep_rows(
            owner.loss.code, place, features, store.indptr, store.indices, store.values, owner.targets,
            owner.weights, self.margins, self.aid, self.losses,
            penalty.l1, penalty.l2, penalty.group_l1, penalty.is_linf, np.isin(features, penalty.free),
            constants[features] if constants.size else NO_CONSTANTS, sigma, omega, table, violations, excess,
        )  # fmt: skip
        self._put(features, table)
        return int(n_rejected)

    def _put(self, features: NDArray[np.int64], table: Vector) -> None:
        """Replace the rows of some features (sorted)."""
        others = ~np.isin(self.kept, features, assume_unique=True)
        stays = table.any(axis=1)
        kept = np.concatenate([self.kept[others], features[stays]])
        order = np.argsort(kept)
        self.kept = kept[order]
        self.table = np.concatenate([self.table[others], table[stays]])[order]

    def point(self) -> FlatPoint:
        """The rows as a point, its scores from the margins: O(N K)."""
        owner = self.objective
        states, row = np.nonzero(self.table.T)
        coords = states * owner.store.n_features + self.kept[row]
        scores = owner.loss.scores(self.margins[:, : self.table.shape[1]])
        return FlatPoint(owner, coords, self.table[row, states], scores, NO_EDGES)
