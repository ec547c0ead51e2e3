"""The solutions of section 5.3: every objective over the grid of lambdas, by the paper's stopping rule.

One run gives a point of figure 5 and an entry of table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from benchmarks.alone import say
from benchmarks.items import read_stored

from bcd_study.curves import WARM_UP_SECONDS
from bcd_study.methods import OBJECTIVES, SWEEPS, TAU, Task, paper_bcd
from crfqn.solvers.minimize import minimize

WARM_UP_ITEMS, WARM_UP_STRENGTH = 300, 3e-3


class Solution(NamedTuple):
    """Where a run has ended.

    objective_name : of `OBJECTIVES`; strength : lambda; sweeps : K of the paper, the outer iterations
    is_finished : by the stopping rule or after K sweeps, not because the seconds were over
    share : non-zero rows in per cent
    """

    objective_name: str
    strength: float
    split: int
    seconds: float
    sweeps: int
    is_finished: bool
    value: float
    gap: float
    accuracy: float
    share: float


@dataclass(frozen=True)
class Order:
    """What to solve on a stored problem: objectives by name, at all lambdas."""

    names: Sequence[str]
    strengths: Sequence[float]
    split: int
    seconds: float
    n_threads: int | None


def solve_all(path: str, order: Order) -> list[Solution]:
    """Every objective at every lambda, each from zero, after a warm-up."""
    problem, found = read_stored(path), []
    for name in order.names:
        kind = OBJECTIVES[name]
        small = problem.part(WARM_UP_ITEMS)
        solve(Task.of(small, WARM_UP_STRENGTH, kind.loss, kind.is_grouped), name, 0.0, 0, WARM_UP_SECONDS)
        for strength in order.strengths:
            task = Task.of(problem, strength, kind.loss, kind.is_grouped, order.n_threads)
            found.append(solve(task, name, strength, order.split, order.seconds))
            say(f"  {name}, lambda = {strength:.2e}: {found[-1].seconds:.1f} s, {found[-1].sweeps} sweeps")
    return found


def solve(task: Task, name: str, strength: float, split: int, seconds: float) -> Solution:
    """Algorithm 1 to its stopping rule."""
    kind = OBJECTIVES[name]
    result = minimize(
        task.objective,
        task.penalty,
        paper_bcd(kind.step, TAU),
        tol=0.0,
        max_iter=SWEEPS,
        max_seconds=seconds,
        proves_zeros=False,
    )
    if result.status.name == "INTERRUPTED":
        raise KeyboardInterrupt
    verdict = task.judge.verdict((result.coords, result.weights), kind.loss, strength, kind.is_grouped)
    return Solution(
        objective_name=name,
        strength=strength,
        split=split,
        seconds=result.seconds,
        sweeps=result.n_iter,
        is_finished=result.status.name != "MAX_SECONDS",
        value=verdict.objective,
        gap=result.gap,
        accuracy=verdict.accuracy,
        share=100.0 * verdict.n_rows / task.judge.n_features,
    )


def averages(solutions: Sequence[Solution], name: str) -> dict[str, np.ndarray]:
    """Of an objective, by lambda from the largest: means over the splits."""
    of_name = [each for each in solutions if each.objective_name == name]
    strengths = sorted({each.strength for each in of_name}, reverse=True)
    by_strength = [[each for each in of_name if each.strength == strength] for strength in strengths]
    columns = ("seconds", "sweeps", "accuracy", "share")
    means = {
        column: np.array([np.mean([getattr(each, column) for each in group]) for group in by_strength])
        for column in columns
    }
    return {"strength": np.array(strengths), **means}
