"""Rows of the weights that learn item by item, for stochastic forward-backward splitting on flat objectives.

Dense, a row a feature: beside `online.py` the only arrays of F x K numbers in the library; a problem for which they are
too large is refused.

Shapes: N items, F features, K states, width = K rounded up to whole vector registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError, ViewError
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.rowwise.learning import ETA0, GROUP, L1, L2, apply_lazy_penalty_to_rows, learn_rows
from crfqn.objectives.coordinates import split_coords
from crfqn.objectives.losses.ranking import MultilabelRanking
from crfqn.objectives.losses.score_loss import MarginLoss
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import RowLearningView
from crfqn.objectives.registry import offers
from crfqn.objectives.views.online.learned_rows import check_memory
from crfqn.objectives.views.rowwise.row_penalty import RowPenalty
from crfqn.penalties import ElasticNet, GroupLasso

NO_SETS = np.zeros(1, np.int64), np.empty(0, np.int32)


class FobosState:
    """The weights of a flat objective under a penalty, changed by `learn` an item at a time.

    Items of weight 0 are left out: `n_items` counts the others.

    Parameters
    ----------
    objective : Objective of a loss of margins
    start : sorted coordinates and their weights
    penalty : ElasticNet or GroupLasso, of which L1 or the groups' norm is zero; what is unpenalised must be whole rows
    share : float
        Of the items that the penalty is meant for: a step takes 1 / N of it, N = n_items / share.

    Raises
    ------
    InputError
        For other penalties, and where the array would be larger than `learned_rows.LARGEST_BYTES`.
    """

    def __init__(
        self,
        objective: Objective,
        start: tuple[Coords, Vector],
        penalty: ElasticNet | GroupLasso,
        share: float = 1.0,
    ) -> None:
        self.objective = objective
        self.n_features, self.n_states = objective.map.n_features, objective.n_states
        local = RowPenalty.of(penalty, self.n_features, self.n_states)
        if local.l1 > 0 and local.group_l1 > 0:
            raise InputError(
                "learning item by item shrinks a row by one norm, whose skipped steps add up: expected l1 = 0 or "
                f"group_l1 = 0, got {local.l1:g} and {local.group_l1:g}"
            )
        width = -(-self.n_states // LANES) * LANES
        check_memory(self.n_features, width, self.n_features, self.n_states)
        self.items = np.flatnonzero(objective.weights > 0)
        # In Python, the same lines leave memory untouched until a feature occurs.
        self.table = aligned_rows.py_func(self.n_features, width)
        self.seen = np.tile([0.0, 1.0], (self.n_features, 1))
        self.is_unpenalised = np.zeros(self.n_features, bool)
        self.is_unpenalised[local.unpenalised] = True
        self.is_linf = local.is_linf
        self.counters, self.rates = np.array([0.0, 0.0, 1.0]), np.zeros(4)
        for place, strength in ((L1, local.l1), (L2, local.l2), (GROUP, local.group_l1)):
            self.rates[place] = strength * share / max(self.n_items, 1)
        split = split_coords(start[0], self.n_states, self.n_features)
        self.table[split.features, split.states] = start[1]

    @property
    def n_items(self) -> int:
        """The items whose weight is not 0."""
        return self.items.size

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a step on each of the items `order`, numbers below `n_items`, with eta_t = eta0 / sqrt(t).

        t counts the steps since the start, from 1. Sequential, whatever the number of threads. Afterwards no penalty is
        outstanding.
        """
        self.rates[ETA0] = eta0
        owner, rest = self.objective, self.items[order]
        loss = cast(MarginLoss, owner.loss)
        sets = (loss.starts, loss.sets) if isinstance(loss, MultilabelRanking) else NO_SETS
        while rest.size:
            n_done = learn_rows(
                loss.code, rest, *owner.map.store.by_position(), loss.labels, *sets, owner.weights, self.n_states,
                self.table, self.seen, self.is_unpenalised, self.is_linf, self.counters, self.rates,
            )  # fmt: skip
            rest = rest[n_done:]
            apply_lazy_penalty_to_rows(
                self.table, self.seen, self.is_unpenalised, self.is_linf, self.counters, self.rates
            )
        owner.n_passes += order.size / self.n_items

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        dense = self.table[:, : self.n_states]
        states, features = np.nonzero(dense.T)
        return states * self.n_features + features, dense[features, states]


@dataclass(frozen=True)
class RowLearning:
    """Learning item by item for losses of margins."""

    objective: Objective

    def start(
        self, start: tuple[Coords, Vector], penalty: ElasticNet | GroupLasso, share: float = 1.0
    ) -> FobosState:
        """Return rows that learn item by item; parameters as of `FobosState`."""
        return FobosState(self.objective, start, penalty, share)


@offers(RowLearningView, Objective)
def row_learning_of(objective: Objective) -> RowLearning:
    """Return what learns a loss of margins."""
    if not hasattr(objective.loss, "margins"):
        raise ViewError(f"learning rows needs a loss of margins; {type(objective.loss).__name__} has none")
    if objective.offset is not None:
        raise ViewError("learning rows knows scores of the weights alone; this objective has an offset")
    return RowLearning(objective)
