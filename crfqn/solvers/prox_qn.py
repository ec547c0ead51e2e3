"""Prox-QN: the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014), Algorithm 2.

An epoch starts with a look at all coordinates (`screen`), works on an active set that only shrinks, and ends when
the active set is solved well enough; the next one takes every coordinate back. A step solves the quadratic
model by coordinate descent, searches along the direction in score space, and adds a secant pair.

`ProxQN.paper()` is the method as printed. The defaults add what made it 10 times faster still; each is a setting
with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from crfqn.errors import InputError
from crfqn.kernels.descent import descend
from crfqn.solvers.active_set import ActiveSet, open_epoch
from crfqn.solvers.compact_bfgs import NO_MATRIX, CompactBFGS
from crfqn.solvers.protocols import Objective, Penalty, Point, State, Vector

METRICS = ("token-wise", "diagonal", "identity")
CURVATURE_FLOOR = (
    0.1  # of a diagonal: lower floors send weights of decided features (p near 0 or 1) off to 1e9
)
FIRST_DAMPING = 0.1
MOST_TRIALS = 40


@dataclass(frozen=True)
class ProxQN:
    metric: str = "token-wise"
    memory: int = 10
    max_sweeps: int = 30
    sweep_tolerance: float = 0.01
    max_entry: int | None = 1000
    max_dense: int = 6000
    metric_positions: int = 3000
    refresh: int = 20
    armijo: float = 0.01
    backtrack: float | None = None
    cooling: float = 0.1
    outside: float = 0.5
    shrink_margin: float | None = 0.1
    sample_strides: tuple[int, ...] = (16, 4)
    sample_tolerance: float = 0.5
    sample_positions: int = 2000

    @classmethod
    def paper(cls) -> ProxQN:
        """The method as printed: identity metric, every coordinate, backtracking, the paper's shrinking."""
        return cls(
            metric="identity",
            max_sweeps=10,
            sweep_tolerance=0.0,
            max_entry=None,
            backtrack=0.5,
            outside=0.0,
            shrink_margin=None,
            sample_strides=(),
        )

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        point = start
        if start.coords.size == 0:
            point = self.sampled_start(objective, penalty, start)
        yield from self.epochs(objective, penalty, point)

    def sampled_start(self, objective, penalty, start):
        coords, weights = start.coords, start.weights
        for stride in self.sample_strides:
            if objective.n_positions // stride < self.sample_positions:
                continue
            sample = objective.sample(stride)
            share = sample.n_items / objective.n_items
            scaled = penalty.scaled(share)
            goal = self.sample_tolerance * scaled.l1
            for state in self.epochs(sample, scaled, sample.at(coords, weights)):
                if state.is_screening and state.violation <= goal:
                    break
            objective.n_passes += share * sample.n_passes
            coords, weights = state.point.coords, state.point.weights
        return objective.at(coords, weights)

    def epochs(self, objective: Objective, penalty: Penalty, point: Point) -> Iterator[State]:
        """Lines 4-42 of Algorithm 2, for ever."""
        while True:
            active, dual_value = open_epoch(objective, penalty, point, self.max_entry)
            first = active.state(dual_value, is_screening=True)
            yield first
            goal = max(self.cooling * first.violation, self.outside * active.outside)
            yield from self.epoch(objective, active, goal)
            point = active.point

    def epoch(self, objective: Objective, active: ActiveSet, goal: float) -> Iterator[State]:
        """Work on the active set until its violation is below `goal` or it cannot be improved."""
        metric = CompactBFGS(*self.base_metric(objective, active), self.memory)
        damping = 0.0
        for step in count(1):
            damping, has_moved = self.step(active, metric, damping)
            if has_moved:
                yield active.state()
            if not has_moved or active.violation <= goal:
                return
            keep = active.shrink(self.shrink_margin, objective.n_items)
            if keep is not None:
                metric.restrict(keep)
            if step % self.refresh == 0:
                metric.rebase(*self.base_metric(objective, active))

    def base_metric(self, objective: Objective, active: ActiveSet):
        """B0, as a diagonal and (token-wise) a dense matrix."""
        if self.metric == "identity":
            return np.ones(active.coords.size), NO_MATRIX
        if self.metric == "diagonal" or active.coords.size > self.max_dense:
            return active.point.curvature(active.coords) + CURVATURE_FLOOR, NO_MATRIX
        stride = max(1, objective.n_positions // self.metric_positions)
        base = active.point.token_model(active.coords, stride)
        base[np.diag_indices_from(base)] += CURVATURE_FLOOR
        return np.diagonal(base).astype(np.float64), base

    def step(self, active: ActiveSet, metric: CompactBFGS, damping: float) -> tuple[float, bool]:
        """Lines 21-41: solve the model, search, update. Returns the next damping and whether w has moved."""
        d, base_d = np.zeros(active.w.size), np.zeros(active.w.size)
        for _ in range(MOST_TRIALS):
            self.solve_model(active, metric, damping, d, base_d)
            if not d.any():
                return damping, False
            trial, decrease, slope = active.try_step(d)
            if decrease >= -self.armijo * slope:
                break
            damping = max(FIRST_DAMPING, 4.0 * damping)
        else:
            return damping, False
        predicted = -slope - 0.5 * (d @ metric.times(d, base_d))
        y = active.accept(d, trial, decrease)
        metric.update(d, y, base_d)
        return next_damping(damping, decrease / predicted if predicted > 0 else 0.0), True

    def solve_model(
        self, active: ActiveSet, metric: CompactBFGS, damping: float, d: Vector, base_d: Vector
    ) -> None:
        descend(
            metric.base, metric.diagonal, metric.q, metric.q_hat, damping * metric.diagonal,
            active.g, active.w, active.l1, active.l2, self.max_sweeps, self.sweep_tolerance, d, base_d,
        )  # fmt: skip


def next_damping(damping: float, ratio: float) -> float:
    """Less damping after a step that went as predicted, more after one that did not (trust-region rule)."""
    if ratio > 0.75:
        return 0.25 * damping if damping > 1e-3 else 0.0
    return max(FIRST_DAMPING, 2.0 * damping) if ratio < 0.25 else damping
