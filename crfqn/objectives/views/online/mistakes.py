"""Dense weights that learn from labelling mistakes item by item, and their mean, for perceptrons.

Rows, items and their order are those of `learned_rows.py`, the corrections those of `kernels/online/mistakes.py`.
Penalties take no part; weights outside of the objective's support stay zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Vector
from crfqn.kernels.chain.learning.mistakes import correct_chains
from crfqn.kernels.online.mistakes import N_SEEN, N_WRONG
from crfqn.kernels.rows import aligned_rows
from crfqn.kernels.taxonomy.mistakes import correct_tree
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective
from crfqn.objectives.point import LazyPoint
from crfqn.objectives.protocols import Learned, MistakeView
from crfqn.objectives.registry import offers
from crfqn.objectives.views.online.learned_rows import FORBIDDEN, LearnedRows, check_likelihood
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy


class AveragedState(LearnedRows):
    """The weights of an objective, changed by `correct` an item at a time, and the mean of all that they have been.

    Parameters
    ----------
    owner, parts : as of `LearnedRows`
    start : sorted coordinates and their weights
    """

    def __init__(
        self,
        owner: Objective | BlockedObjective,
        parts: list[Objective],
        start: tuple[Coords, Vector],
    ) -> None:
        super().__init__(owner, parts)
        kinds, self.pattern_of = self.patterns(NO_COORDS)
        self.is_fixed = np.zeros((len(kinds), self.width), bool)
        self.is_fixed[:, : self.n_states] = kinds == FORBIDDEN
        # In Python, the same lines leave memory untouched until a feature occurs.
        self.weights = aligned_rows.py_func(self.n_rows, self.width)
        self.corrections = aligned_rows.py_func(self.n_rows, self.width)
        self.counters = np.zeros(2)
        self.weights[self.places(start[0])] = start[1]

    def correct(self, order: NDArray[np.integer], aggressiveness: float) -> int:
        """Label the items `order`, numbers below `n_items`, and learn from each mistake at once.

        Sequential, whatever the number of threads: the result depends on the order alone.

        Parameters
        ----------
        aggressiveness : the largest step C of passive-aggressive learning; 0 for the perceptron, whose steps are 1

        Returns
        -------
        The number of positions that were labelled wrongly.
        """
        before = self.counters[N_WRONG]
        for which, items in self.runs(order):
            part, loss = self.parts[which], self.parts[which].loss
            assert isinstance(loss, Likelihood)
            data = (items, part.map.offsets, *part.map.store.by_position(), loss.targets, part.weights)
            state = (self.weights, self.corrections, self.is_fixed, self.pattern_of, self.counters)
            if isinstance(loss.structure, Taxonomy):
                forest = (loss.structure.parents, loss.structure.is_label)
                correct_tree(*data, *forest, aggressiveness, *state)
            else:
                correct_chains(*data, self.n_states, aggressiveness, *state, cast(Chain, loss.structure).mask)
        self.owner.n_passes += order.size / self.n_items
        return int(self.counters[N_WRONG] - before)

    def learned(self) -> Learned:
        """Return all that has been learned; it is not copied."""
        return Learned(self.weights, self.corrections, self.counters, self.n_features)

    def resume(self, learned: Learned) -> None:
        """Go on from what was learned before, in the same arrays unless there are more features."""
        self.counters = learned.counters
        if learned.n_features == self.n_features:
            self.weights, self.corrections = learned.weights, learned.corrections
            return
        n_known = learned.n_features
        for mine, theirs in ((self.weights, learned.weights), (self.corrections, learned.corrections)):
            mine[:n_known] = theirs[:n_known]
            mine[self.n_features :] = theirs[n_known:]

    def point(self) -> LazyPoint:
        """Return the point of the mean of the weights after each item so far."""
        share = 1.0 / max(self.counters[N_SEEN], 1.0)
        return LazyPoint(self.owner, *self.sparse(self.weights, self.corrections, share))


@dataclass(frozen=True)
class LikelihoodMistakes:
    """Learning from the mistakes of a likelihood's structure, in one piece or block after block."""

    owner: Objective | BlockedObjective
    parts: list[Objective]

    def start(self, start: tuple[Coords, Vector]) -> AveragedState:
        """Return dense weights that learn from mistakes."""
        return AveragedState(self.owner, self.parts, start)


@offers(MistakeView, Objective)
def mistakes_of(objective: Objective) -> LikelihoodMistakes:
    """Return what learns from mistakes; ViewError for losses other than likelihoods and for offsets."""
    check_likelihood(objective)
    return LikelihoodMistakes(objective, [objective])


@offers(MistakeView, BlockedObjective)
def mistakes_of_blocks(objective: BlockedObjective) -> LikelihoodMistakes:
    """Return what learns from mistakes in data that come in blocks."""
    check_likelihood(objective.parts[0])
    return LikelihoodMistakes(objective, objective.parts)
