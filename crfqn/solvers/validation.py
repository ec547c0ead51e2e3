"""Early stopping by a score of held-out items: the weights that score best are kept, and in time the run ends.

A look costs inference over the held-out items. Looks are due by the run's passes over the data, so that they cost no
more than a share of it: not by seconds, as the same run has to look at the same weights again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crfqn.arrays import SparseWeights
from crfqn.result import HeldOutScores

SHARE = 0.1  # of the run's passes, that looks may cost


@dataclass(frozen=True)
class ValidationSet:
    """Held-out items whose score is followed during a run.

    score, metric : called with sparse weights, the larger, the better; its name
    cost, patience : of a look, in passes over the training data; looks in a row without a better score that end the run
    items : and their labels, by which a checkpoint knows them
    """

    score: Callable[[SparseWeights], float]
    cost: float
    patience: int
    metric: str
    items: tuple[Any, ...] = ()


@dataclass
class ValidationHistory:
    """The scores of held-out items along a run, and the weights with the best one.

    best : the weights with the best score, None before the first look
    value, violation : the objective and the KKT violation at `best`, nan where nobody has computed them
    iterations, scores : of each look; best_look : the place of the best in these lists
    due : the passes from which on the next look is due
    """

    held_out: ValidationSet
    best: SparseWeights | None = None
    value: float = np.nan
    violation: float = np.nan
    iterations: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_look: int = -1
    due: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether patience has run out."""
        return len(self.scores) - 1 - self.best_look >= self.held_out.patience

    def after_step(
        self, weights: SparseWeights, iteration: int, passes: float, value: float, violation: float
    ) -> None:
        """Score the weights of a step if a look is due."""
        if passes >= self.due:
            self.due = passes + self.held_out.cost / SHARE
            self.look(weights, iteration, value, violation)

    def look(
        self, weights: SparseWeights, iteration: int, value: float, violation: float, is_last: bool = False
    ) -> None:
        """Score weights; those that a run ends with (`is_last`) are preferred to earlier ones of the same score."""
        score = self.held_out.score(weights)
        best_score = self.scores[self.best_look] if self.scores else -np.inf
        self.iterations.append(iteration)
        self.scores.append(score)
        if score > best_score or (is_last and score == best_score) or self.best is None:
            self.best, self.value, self.violation = weights, value, violation
            self.best_look = len(self.scores) - 1

    def result(self) -> HeldOutScores:
        """Return the looks as a part of the run's result."""
        return HeldOutScores(
            self.held_out.metric,
            self.scores[self.best_look],
            self.iterations[self.best_look],
            np.array(self.iterations, np.int64),
            np.array(self.scores),
            self.is_over,
        )
