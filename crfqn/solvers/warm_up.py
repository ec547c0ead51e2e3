"""Where a solver starts: from the optimum of a sample, under a penalty that weakens to the asked one.

A pass over every 16th item costs 1/16. The sample's optimum is near the whole's: what is left above it is the
sampling error, and the steps on all items begin close to the end. The stronger penalties come first because
their active sets are small and each is nearly solved when the next opens.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import NamedTuple

from crfqn.solvers.protocols import Objective, Penalty, Point, Solver, State


class Stage(NamedTuple):
    """Minimise over every stride-th item with a penalty `stronger` times the asked one."""

    stride: int
    stronger: float


WARM_UP = (Stage(16, 10.0), Stage(16, 3.0), Stage(4, 1.0))
FEWEST_POSITIONS = 2000  # a smaller sample tells too little, and a smaller problem needs no warm-up
# A sample of fewer positions than this share of the weights is fitted by heart, its optimum far from the whole's: on
# 20 newsgroups (2.6 million weights) a warm-up with every 4th text took 1.4 s to 1e-3, the start from zero 0.6 s.
FEWEST_A_WEIGHT = 0.01
MOST_STEPS = 40  # of a stage: a weak penalty has no optimum worth finding in a sample
TOLERANCE = 1.0  # a stage ends when its violation is below this share of its l1


def warm_start(
    solver: Solver, stages: tuple[Stage, ...], objective: Objective, penalty: Penalty, start: Point
) -> Generator[State, None, Point]:
    """Run the stages; yields their states, marked with the sample's share, and returns where to start.

    Counts a sample's passes as its share of a pass over all items.
    """
    coords, weights = start.coords, start.weights
    fewest = max(FEWEST_POSITIONS, FEWEST_A_WEIGHT * objective.n_coords)
    useful = [stage for stage in stages if objective.n_positions // stage.stride >= fewest]
    samples = draw_samples(objective, sorted({stage.stride for stage in useful}))
    for stage in useful:
        sample = samples[stage.stride]
        share = sample.total_weight / objective.total_weight
        if share == 0:
            continue
        scaled = penalty.scaled(share * stage.stronger)
        before = sample.n_passes
        for n_steps, state in enumerate(solver.steps(sample, scaled, sample.at(coords, weights))):
            objective.n_passes += share * (sample.n_passes - before)
            before = sample.n_passes
            coords, weights = state.point.coords, state.point.weights
            yield replace(state, share=share)
            if n_steps >= MOST_STEPS or (state.is_screening and state.violation <= TOLERANCE * scaled.l1):
                break
    return start if coords is start.coords else objective.at(coords, weights)


def draw_samples(objective: Objective, strides: list[int]) -> dict[int, Objective]:
    """Samples by stride (ascending), each drawn from the smallest that contains it: the least to read."""
    samples = {1: objective}
    for stride in strides:
        if stride not in samples:
            finer = max(s for s in samples if stride % s == 0)
            samples[stride] = samples[finer].sample(stride // finer)
    return samples
