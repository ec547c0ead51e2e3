"""Early stopping by a score of held-out items: the run keeps the weights that score best, and ends when no better come.

A score costs inference over the held-out items. It is computed when the run has made enough passes over the data that
all scores together cost at most a tenth of them. The rule counts passes, not seconds, so that the same run scores the
same weights again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crfqn.arrays import SparseWeights
from crfqn.result import HeldOutScores, Progress, Status
from crfqn.solvers.protocols import State

MAX_COST_OF_SCORES = 0.1  # of the run's passes


@dataclass(frozen=True)
class ValidationSet:
    """Held-out items that are scored along a run.

    score, metric : called with sparse weights, the larger, the better; its name
    cost : of a score, in passes over the training data
    patience : the number of successive scores without a better one that ends the run
    items : the items and their labels, by which a checkpoint knows them
    """

    score: Callable[[SparseWeights], float]
    cost: float
    patience: int
    metric: str
    items: tuple[Any, ...] = ()


@dataclass
class ValidationHistory:
    """The scores of held-out items along a run, if there are any, and the rule that ends the run when none is better.

    best : the weights with the best score, None before the first
    value, violation : the objective and the KKT violation at `best`, nan if not computed
    iterations, scores : of each evaluation; best_index : the place of the best in these lists
    due : the number of passes at which the next score is computed
    """

    held_out: ValidationSet | None
    best: SparseWeights | None = None
    value: float = np.nan
    violation: float = np.nan
    iterations: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_index: int = -1
    due: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether patience has run out."""
        n_worse = len(self.scores) - 1 - self.best_index
        return self.held_out is not None and n_worse >= self.held_out.patience

    @property
    def latest(self) -> float:
        """The latest score, nan before the first."""
        return self.scores[-1] if self.scores else np.nan

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return `HELD_OUT` if patience has run out."""
        return Status.HELD_OUT if self.is_over else None

    def after_step(self, state: State, iteration: int, passes: float) -> None:
        """Score the weights of a step if a score is due."""
        if self.held_out is not None and passes >= self.due:
            self.due = passes + self.held_out.cost / MAX_COST_OF_SCORES
            violation = state.violation if state.is_screening else np.nan
            self.evaluate(state.point.sparse_weights, iteration, state.value, violation)

    def evaluate(
        self, weights: SparseWeights, iteration: int, value: float, violation: float, is_last: bool = False
    ) -> None:
        """Score weights; those that a run ends with (`is_last`) are preferred to earlier ones of the same score."""
        assert self.held_out is not None
        score = self.held_out.score(weights)
        best_score = self.scores[self.best_index] if self.scores else -np.inf
        self.iterations.append(iteration)
        self.scores.append(score)
        if score > best_score or (is_last and score == best_score) or self.best is None:
            self.best, self.value, self.violation = weights, value, violation
            self.best_index = len(self.scores) - 1

    def result(self) -> HeldOutScores | None:
        """Return the scores as a part of the run's result, None if there are none."""
        if self.held_out is None or self.best is None:
            return None
        return HeldOutScores(
            self.held_out.metric,
            self.scores[self.best_index],
            self.iterations[self.best_index],
            np.array(self.iterations, np.int64),
            np.array(self.scores),
            self.is_over,
        )
