"""Dense weights, a row a feature, that FOBOS learns item by item; shapes as of `LearnedRows`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError, ViewError
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.objective import Objective
from crfqn.papers.blondel2013.fobos_kernels import (
    ETA0,
    RowData,
    ShrunkRows,
    apply_lazy_penalty_to_rows,
    learn_rows,
)
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.solvers.coordinate.row_state import RowPenalty
from crfqn.solvers.stochastic.state import LearnedRows, untouched_rows


class FobosState(LearnedRows):
    """Weights of a flat objective of margins under a penalty, changed by `learn` (`fobos_kernels.py`).

    InputError for other penalties.
    penalty : ElasticNet or GroupLasso, of which L1 or the groups' norm is zero; what is unpenalised must be whole rows
    share : of the items that the penalty is meant for: a step takes 1 / N of it, N = n_items / share
    """

    takes_blocks = False

    def __init__(
        self,
        objective: Objective,
        start: tuple[Coords, Vector],
        penalty: ElasticNet | GroupLasso,
        share: float = 1.0,
    ) -> None:
        super().__init__(objective)
        local = RowPenalty.of(penalty, self.n_features, self.n_states)
        if local.l1 > 0 and local.group_l1 > 0:
            raise InputError(
                "learning item by item shrinks a row by one norm, whose skipped steps add up: expected l1 = 0 or "
                f"group_l1 = 0, got {local.l1:g} and {local.group_l1:g}"
            )
        self.rows = ShrunkRows(
            untouched_rows(self.n_rows, self.width),
            np.tile([0.0, 1.0], (self.n_features, 1)),
            local.is_unpenalised(np.arange(self.n_features)),
            local.is_linf,
            np.array([0.0, 0.0, 1.0]),
            np.array([0.0, local.l1, local.l2, local.group_l1]) * (share / max(self.n_items, 1)),
        )
        self.rows.table[self.places(start[0])] = start[1]

    @classmethod
    def check(cls, objective: Objective | BlockedObjective) -> None:
        """Raise ViewError for losses without margins and for offsets."""
        part = objective.parts[0]
        if not part.loss.has_margins:
            raise ViewError(f"learning rows needs a loss of margins; {type(part.loss).__name__} has none")
        if part.offset is not None:
            raise ViewError("learning rows knows scores of the weights alone; this objective has an offset")

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a step on each of the items `order`, with eta_t = eta0 / sqrt(t), t the steps since the start, from 1.
        Sequential, whatever the number of threads. Afterwards no penalty is outstanding."""
        self.rows.rates[ETA0] = eta0
        owner: Objective = self.parts[0]
        rest, loss = self.items[order], owner.loss
        data = RowData(*owner.map.store.by_position(), loss.labels, *loss.label_sets, owner.weights)
        while rest.size:
            rest = rest[learn_rows(loss.code, rest, data, self.n_states, self.rows) :]
            apply_lazy_penalty_to_rows(self.rows)
        owner.n_passes += order.size / self.n_items

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        return self.sparse(self.rows.table)
