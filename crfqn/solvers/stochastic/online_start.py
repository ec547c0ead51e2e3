"""A start item by item, for problems of text: where most features are rare, a sample knows nothing of most weights.

On CoNLL-2000 (l1 = 1) six epochs and 13 passes come as near to the optimum as 90 passes after samples. Long items are
learned segment by segment: 1,300 sentences of it in one item took 204 passes with a step an epoch, 35 with segments.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from crfqn.objectives.objective import has_state
from crfqn.objectives.operations import FETCHED
from crfqn.solvers.protocols import Objective, Penalty, Point, State
from crfqn.solvers.stochastic.sgd import SGDL1
from crfqn.solvers.stochastic.state import SGDState

# Below it a fit without the epochs takes a fifth longer, mostly 10 to 35 ms, and the first one of an installation 10 s
# less: steps on items, and the sparse curvature of the many weights that they set, are half of all compilation.
FEWEST_POSITIONS = 2500
FEW_WEIGHTS = 1000  # metrics know how all of them depend on each other: nothing to win by a better start
MOST_WEIGHTS = 10_000_000  # two dense numbers each, 160 MB
ONLINE = SGDL1(calibration_items=300)


@dataclass(frozen=True)
class OnlineStart:
    """A few epochs of stochastic gradients, item by item; 4 cost more passes than they save time. dearest : passes that
    an epoch may cost: six epochs save some 25, or else samples are the cheaper start."""

    epochs: int = 6
    dearest: float = 4.0

    def suits(self, objective: Objective, penalty: Penalty) -> bool:
        """Return whether to learn item by item, as `SGDL1` does: one l1 and l2 for all weights, and text
        that is long enough."""
        operations = objective.operations
        # Scores, inference, penalty and step, item by item: all weights of each entry.
        of_epoch = operations.inference + FETCHED * operations.entries * operations.n_states
        return (
            self.epochs > 0
            and penalty.is_separable
            and penalty.is_uniform
            and operations.has_sequences
            and operations.has_rare_features
            and objective.n_positions >= FEWEST_POSITIONS
            and objective.n_coords > FEW_WEIGHTS
            and objective.n_node_coords <= MOST_WEIGHTS
            and of_epoch <= self.dearest * operations.of_pass
            and has_state(objective.without_bigram_features(), SGDState)
        )

    def states(self, objective: Objective, penalty: Penalty, start: Point) -> Generator[State, None, Point]:
        """Run the epochs; yields the states of the sample that finds their rate, and returns where they lead, without
        weights of bigram features."""
        plain = objective.without_bigram_features().with_truncated_items()
        origin = start.sparse_weights
        eta0 = yield from ONLINE.calibrate(plain, penalty, origin)
        random, online = np.random.default_rng(ONLINE.random_state), plain.state(SGDState, origin, penalty)
        for _ in range(self.epochs):
            online.learn(random.permutation(online.n_items), eta0)
        if plain is not objective:
            objective.n_passes += plain.n_passes
        weights = online.weights()
        online.release()
        del online  # its dense weights are larger than the data
        return objective.at(*weights)
