"""Starting points: the optimum of a sample, under a penalty that weakens to the asked one.

A pass over every 16th item costs 1/16, and the sample's optimum is as near the whole's as the sampling error. The
stronger penalties come first because their active sets are small and each is nearly solved when the next opens. Text is
learned item by item instead. Of long items both take segments, so that one text in a single item begins as its
sentences do; the optimum is that of whole items.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from crfqn.solvers.protocols import Memory, Objective, Penalty, Point, State
from crfqn.solvers.prox_qn.constants import Constants
from crfqn.solvers.stochastic.online_start import OnlineStart


class Stage(NamedTuple):
    """Minimise over every stride-th item with a penalty `stronger` times the asked one."""

    stride: int
    stronger: float


@dataclass(frozen=True)
class WarmStart:
    """Samples of the items under stronger penalties, or a few epochs item by item: 9 passes to 1e-2 on OCR, 46 without.

    fewest_positions : a smaller sample tells too little, and a smaller problem needs no warm start
    fewest_by_weight : a sample of fewer positions than this share of the weights is fitted by heart, its optimum far
        from the whole's: on 20 newsgroups (2.6 million weights) a start with every 4th text took 1.4 s to 1e-3, one
        from zero 0.6 s
    """

    stages: tuple[Stage, ...] = (Stage(16, 10.0), Stage(16, 3.0), Stage(4, 1.0))
    fewest_positions: int = 2000
    fewest_by_weight: float = 0.01

    def states(
        self,
        solver: Any,
        objective: Objective,
        penalty: Penalty,
        start: Point,
        constants: Constants,
        memory: Memory | None = None,
    ) -> Generator[State, None, Point]:
        """Run the stages, by a solver that resumes, from a memory on if there is one; yields their states, marked with
        the sample's share, and returns where to start. Counts a sample's passes as its share of a pass over all
        items."""
        online = OnlineStart(constants.online_epochs, constants.dearest_epoch)
        if memory is None and online.suits(objective, penalty):
            return (yield from online.states(objective, penalty, start))
        fewest = max(self.fewest_positions, self.fewest_by_weight * objective.n_coords)
        useful = [stage for stage in self.stages if objective.n_positions // stage.stride >= fewest]
        whole = objective.in_segments
        samples = draw_samples(whole, sorted({stage.stride for stage in useful}))
        weights = start.sparse_weights
        first, n_before = (0, 0) if memory is None else (memory["stage"], memory["n_steps"])
        for number, stage in enumerate(useful[first:], first):
            sample = samples[stage.stride]
            share = sample.total_weight / whole.total_weight
            if share == 0:
                continue
            scaled, before = penalty.scaled(share * stage.stronger), sample.n_passes
            inner = memory and memory["sample"]
            for n_steps, state in enumerate(
                solver.steps(sample, scaled, sample.at(*weights), inner), n_before
            ):
                if memory is not None:
                    before = sample.n_passes = memory["n_passes"]
                    sample.asked = memory["asked"]
                    memory, n_before = None, 0
                objective.n_passes += share * (sample.n_passes - before)
                before = sample.n_passes
                weights = state.point.sparse_weights
                kept = {"stage": number, "n_steps": n_steps, "n_passes": before, "asked": sample.asked}
                yield replace(state, sample_fraction=share, memory=in_sample(kept, state.memory))
                least = constants.stage_tolerance * scaled.dual_radius
                if n_steps >= constants.stage_steps or (state.is_screening and state.violation <= least):
                    break
        return start if weights.coords is start.coords else objective.at(*weights)


def in_sample(kept: Memory, inner: Callable[[], Memory] | None) -> Callable[[], Memory] | None:
    """Return the memory of a state within a stage, if the solver's own has one."""
    return inner and (lambda: {"warm_start": kept | {"sample": inner()}})


def draw_samples(objective: Objective, strides: list[int]) -> dict[int, Objective]:
    """Return samples by stride (ascending), each drawn from the smallest that contains it: the least to read."""
    samples = {1: objective}
    for stride in strides:
        if stride not in samples:
            finer = max(s for s in samples if stride % s == 0)
            samples[stride] = samples[finer].sample(stride // finer)
    return samples
