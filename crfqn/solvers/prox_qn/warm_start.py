"""Starting points: the optimum of a sample, under a penalty that weakens to the asked one.

A pass over every 16th item costs 1/16. The sample's optimum is near the whole's: what is left above it is the
sampling error, and the steps on all items begin close to the end. The stronger penalties come first because
their active sets are small and each is nearly solved when the next opens.

Where most features are rare, as in text, a sample knows nothing of most weights. Sequences are then learned item by
item for a few epochs: on CoNLL-2000 (l1 = 1) 6 epochs and 13 passes come as near as 90 passes after samples.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from crfqn.arrays import SparseWeights
from crfqn.objectives.protocols import has_state
from crfqn.solvers.protocols import Objective, Penalty, Point, Solver, State
from crfqn.solvers.stochastic.sgd import SGDL1, start_online
from crfqn.solvers.stochastic.state import SGDState

RARE = 50.0  # positions that have a feature, on average over the features: text, where active features seldom meet


class Stage(NamedTuple):
    """Minimise over every stride-th item with a penalty `stronger` times the asked one."""

    stride: int
    stronger: float


FEW_WEIGHTS = 1000  # metrics know how all of them depend on each other: nothing to win by a better start
DEAREST = 4.0  # passes that an epoch may cost: six epochs save some 25, or else samples are the cheaper start
ONLINE = SGDL1(calibration_items=300)
EPOCHS = 6  # item by item; 4 cost more passes than they save time
MOST_ONLINE = 10_000_000  # weights: two dense numbers each, 160 MB
MOST_STEPS = 40  # of a stage: a weak penalty has no optimum worth finding in a sample
TOLERANCE = 1.0  # a stage ends when its violation is below this share of its strength


@dataclass(frozen=True)
class WarmStart:
    """Samples of the items under stronger penalties, or a few epochs item by item: 9 passes to 1e-2 on OCR, 46 without.

    Parameters
    ----------
    stages : tuple of Stage
    fewest_positions : int
        A smaller sample tells too little, and a smaller problem needs no warm start.
    fewest_by_weight : float
        A sample of fewer positions than this share of the weights is fitted by heart, its optimum far from the whole's:
        on 20 newsgroups (2.6 million weights) a start with every 4th text took 1.4 s to 1e-3, one from zero 0.6 s.
    """

    stages: tuple[Stage, ...] = (Stage(16, 10.0), Stage(16, 3.0), Stage(4, 1.0))
    fewest_positions: int = 2000
    fewest_by_weight: float = 0.01

    def states(
        self, solver: Solver, objective: Objective, penalty: Penalty, start: Point
    ) -> Generator[State, None, Point]:
        """Run the stages; yields their states, marked with the sample's share, and returns where to start.

        Counts a sample's passes as its share of a pass over all items.
        """
        if can_learn_online(objective, penalty):
            return (yield from learn_online(objective, penalty, start))
        fewest = max(self.fewest_positions, self.fewest_by_weight * objective.n_coords)
        useful = [stage for stage in self.stages if objective.n_positions // stage.stride >= fewest]
        samples = draw_samples(objective, sorted({stage.stride for stage in useful}))
        weights = start.sparse_weights
        for stage in useful:
            weights = yield from fit_sample(solver, objective, samples[stage.stride], penalty, stage, weights)
        return start if weights.coords is start.coords else objective.at(*weights)


def fit_sample(
    solver: Solver,
    objective: Objective,
    sample: Objective,
    penalty: Penalty,
    stage: Stage,
    weights: SparseWeights,
) -> Generator[State, None, SparseWeights]:
    """Take the steps of one stage; returns the weights at its end."""
    share = sample.total_weight / objective.total_weight
    if share == 0:
        return weights
    scaled = penalty.scaled(share * stage.stronger)
    before = sample.n_passes
    for n_steps, state in enumerate(solver.steps(sample, scaled, sample.at(*weights))):
        objective.n_passes += share * (sample.n_passes - before)
        before = sample.n_passes
        weights = state.point.sparse_weights
        yield replace(state, sample_fraction=share)
        is_solved = state.is_screening and state.violation <= TOLERANCE * scaled.dual_radius
        if n_steps >= MOST_STEPS or is_solved:
            break
    return weights


def can_learn_online(objective: Objective, penalty: Penalty) -> bool:
    """Return whether to learn item by item, as `SGDL1` does: one l1 and l2 for all weights, and text.

    That is sequences of rare features, if epochs are not much dearer than passes.
    """
    return (
        penalty.is_separable
        and penalty.is_uniform
        and has_state(objective, SGDState)
        and objective.n_positions >= 2 * objective.n_items
        and objective.operations.has_rare_features
        and objective.n_coords > FEW_WEIGHTS
        and objective.n_node_coords <= MOST_ONLINE
        and objective.operations.of_epoch <= DEAREST * objective.operations.of_pass
    )


def learn_online(objective: Objective, penalty: Penalty, start: Point) -> Generator[State, None, Point]:
    """Run a few epochs of stochastic gradients; yields the states of the sample that finds their rate."""
    origin = start.sparse_weights
    eta0 = yield from ONLINE.calibrate(objective, penalty, origin)
    random, online = np.random.default_rng(ONLINE.random_state), start_online(objective, penalty, origin)
    for _ in range(EPOCHS):
        online.learn(random.permutation(online.n_items), eta0)
    return objective.at(*online.weights())


def draw_samples(objective: Objective, strides: list[int]) -> dict[int, Objective]:
    """Return samples by stride (ascending), each drawn from the smallest that contains it: the least to read."""
    samples = {1: objective}
    for stride in strides:
        if stride not in samples:
            finer = max(s for s in samples if stride % s == 0)
            samples[stride] = samples[finer].sample(stride // finer)
    return samples
