"""Weights that learn item by item, for stochastic gradients: dense, a row a feature, beside the penalty received.

Rows, items and their order are those of `learned_rows.py`, the steps those of `kernels/online/lazy_penalty.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.kernels.chain.learning.steps import learn_chains
from crfqn.kernels.online.lazy_penalty import ETA0, apply_lazy_penalty
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.taxonomy.online import learn_tree
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import OnlineView
from crfqn.objectives.registry import offers
from crfqn.objectives.views.online.learned_rows import LearnedRows, check_likelihood
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

SHARES = np.array([0.0, 1.0, np.inf])  # of the penalty, for each of these kinds


class SGDState(LearnedRows):
    """The weights of an objective under l1 ||w||_1 + l2/2 ||w||^2, changed by `learn` an item at a time.

    Parameters
    ----------
    owner, parts : as of `LearnedRows`
    start : sorted coordinates and their weights
    l1, l2 : float >= 0
    unpenalised : sorted int64: coordinates without penalty
    share : float
        Of the items that the penalty and the learning rate are meant for, N = n_items / share: a sample's steps are
        those of the whole.
    """

    def __init__(
        self,
        owner: Objective | BlockedObjective,
        parts: list[Objective],
        start: tuple[Coords, Vector],
        l1: float,
        l2: float,
        unpenalised: Coords,
        share: float = 1.0,
    ) -> None:
        super().__init__(owner, parts)
        kinds, self.pattern_of = self.patterns(unpenalised)
        self.shares = np.ones((len(kinds), self.width))
        self.shares[:, : self.n_states] = SHARES[kinds]
        self.rates = np.array([0.0, self.n_items / share, l1, l2])
        self.restart(start)

    def restart(self, start: tuple[Coords, Vector]) -> None:
        """Forget what was learned, and begin at these weights."""
        # In Python, the same lines leave memory untouched until a feature occurs.
        self.table = aligned_rows.py_func(self.pattern_of.size, 2 * self.shares.shape[1])
        self.counters = np.array([0.0, 0.0, 1.0])
        rows, states = self.places(start[0])
        self.table[rows, states] = start[1]

    @property
    def item_square(self) -> float:
        """The mean over the items of weight * sum_t |x_t|^2: the curvature that a step may meet is in proportion."""
        total = 0.0
        for part in self.parts:
            total += float(part.map.weighted_squares(part.position_weights).sum())
        return total / self.n_items

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a gradient step on each of the items `order`, numbers below `n_items`, with eta_k = eta0 / (1 + k / N).

        k counts the steps since the start. Sequential, whatever the number of threads: the result depends on the
        order alone. Afterwards no penalty is outstanding.
        """
        self.rates[ETA0] = eta0
        for which, rest in self.runs(order):
            while rest.size:
                rest = rest[self._learn_part(which, rest) :]
                apply_lazy_penalty(self.table, self.shares, self.pattern_of, self.counters)
        self.owner.n_passes += order.size / self.n_items

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        return self.sparse(self.table)

    def _learn_part(self, which: int, order: NDArray[np.int64]) -> int:
        """Take steps on items of a part while numbers stay in range; returns how many."""
        part, loss = self.parts[which], self.parts[which].loss
        assert isinstance(loss, Likelihood)
        data = (order, part.map.offsets, *part.map.store.by_position(), loss.targets, part.weights)
        state = (self.table, self.shares, self.pattern_of, self.counters, self.rates)
        if isinstance(loss.structure, Taxonomy):
            return int(learn_tree(*data, loss.structure.parents, loss.structure.is_label, *state))
        return int(learn_chains(*data, self.n_states, *state, cast(Chain, loss.structure).mask))


@dataclass(frozen=True)
class LikelihoodLearning:
    """Learning item by item for a likelihood, in one piece or block after block."""

    owner: Objective | BlockedObjective
    parts: list[Objective]

    def start(
        self, start: tuple[Coords, Vector], l1: float, l2: float, unpenalised: Coords, share: float = 1.0
    ) -> SGDState:
        """Return dense weights that learn item by item; parameters as of `SGDState`."""
        return SGDState(self.owner, self.parts, start, l1, l2, unpenalised, share)


@offers(OnlineView, Objective)
@offers(OnlineView, BlockedObjective)
def learning_of(owner: Objective | BlockedObjective) -> LikelihoodLearning:
    """Return what learns a likelihood, in one piece or block after block; ViewError for what has no such updates."""
    parts = owner.parts if isinstance(owner, BlockedObjective) else [owner]
    check_likelihood(parts[0])
    return LikelihoodLearning(owner, parts)
