"""Multilabel ranking: relevant labels should score higher than the others by 1, for multilabel data.

The extension of section 4.7 of Blondel, Seki and Uehara (2013), as a sum instead of the paper's mean. If each position
has one label it is the multiclass squared hinge of `hinges.py`; shapes as there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.kernels.margins import RANKING, ranking_hinge
from crfqn.objectives.losses.hinges import HingeEvaluation, SquaredHingeMixin, mixed_of_pairs
from crfqn.objectives.losses.intercept_bound import pair_difference_bounds, pair_range
from crfqn.objectives.losses.score_loss import NO_EDGES, Evaluation, ScoreLoss
from crfqn.threads import Pool


@dataclass(frozen=True, eq=False)
class MultilabelRanking(SquaredHingeMixin, ScoreLoss):
    """sum_i c_i sum over r in Y_i, r' not in Y_i of max(1 - (s_r - s_r'), 0)^2, section 4.7 as a sum.

    starts, sets : int64 (N + 1,) and int32: position i has the labels sets[starts[i] ... starts[i + 1]]; InputError for
        sets that do not fit, labels outside 0 ... K - 1, K < 1, or a label named twice at one position
    labels : zeros, (N,): positions have sets of labels instead
    """

    starts: NDArray[np.int64]
    sets: NDArray[np.int32]
    n_states: int
    n_positions: int = field(init=False)
    labels: Labels = field(init=False)

    is_smooth = has_curvature = has_margins = True
    code = RANKING
    intercept_bound = staticmethod(pair_range)

    def __post_init__(self) -> None:
        starts, sets = self.starts, self.sets
        if self.n_states < 1:
            raise InputError(f"n_states: expected an integer >= 1, got {self.n_states!r}")
        if starts.size == 0 or starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] != sets.size:
            raise InputError(f"expected starts from 0 to {sets.size}, the number of labels, never decreasing")
        if sets.size and not 0 <= sets.min() <= sets.max() < self.n_states:
            raise InputError(
                f"expected labels within 0 ... {self.n_states - 1}, got {sets.min()} ... {sets.max()}"
            )
        position = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        pairs, counts = np.unique(position * self.n_states + sets, return_counts=True)
        if (counts > 1).any():
            at, label = divmod(int(pairs[counts > 1][0]), self.n_states)
            raise InputError(f"expected every label once, but position {at} has label {label} twice")
        object.__setattr__(self, "starts", np.ascontiguousarray(starts, np.int64))
        object.__setattr__(self, "sets", np.ascontiguousarray(sets, np.int32))
        object.__setattr__(self, "n_positions", starts.size - 1)
        object.__setattr__(self, "labels", np.zeros(starts.size - 1, np.int32))
        object.__setattr__(self, "label_sets", (self.starts, self.sets))
        # The pairs are all edges between two sets of K labels in total; the largest eigenvalue of their Laplacian is K.
        sizes = np.diff(starts)
        bounds = np.where((sizes > 0) & (sizes < self.n_states), 2.0 * self.n_states, 0.0)
        object.__setattr__(self, "score_bounds", bounds)

    @cached_property
    def relevance(self) -> Vector:  # type: ignore[override]
        """1 for relevant labels, 0 for others, (N, K)."""
        out = np.zeros((self.n_positions, self.n_states))
        out[np.repeat(np.arange(self.n_positions), np.diff(self.starts)), self.sets] = 1.0
        return out

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> MultilabelRanking:
        lengths = np.diff(self.starts)[positions]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        entries = np.repeat(self.starts[positions] - starts[:-1], lengths) + np.arange(starts[-1])
        return MultilabelRanking(starts, self.sets[entries], self.n_states)

    def _sweep(self, scores: Vector, weights: Vector, pool: Pool) -> tuple[HingeEvaluation, Vector]:
        losses, slacks = np.empty(self.n_positions), np.empty(self.n_positions)
        residual, curvature = np.zeros_like(scores), np.zeros_like(scores)
        arrays = (self.starts, self.sets, weights, losses, slacks, residual, curvature)
        pool.map_chunks(self.n_positions, lambda first, last: ranking_hinge(first, last, scores, *arrays))
        return HingeEvaluation(losses, residual, NO_EDGES, slacks), curvature

    def evaluate(self, scores: Vector, edges: Vector, weights: Vector, pool: Pool) -> HingeEvaluation:
        """Return losses, slacks and residual from one pass, O(N K |Y|)."""
        return self._sweep(scores, weights, pool)[0]

    def curvature(self, scores: Vector, evaluation: Evaluation, weights: Vector) -> Vector:
        """Return 2 c for each violated pair, at both of its labels."""
        return self._sweep(scores, weights, Pool(1))[1]

    def mixed(self, r: int, s: int, scores: Vector) -> Vector:
        return mixed_of_pairs(self._are_relevant[r], self._are_relevant[s], scores[r] - scores[s])

    @cached_property
    def _are_relevant(self) -> NDArray[np.bool_]:
        """Whether each label is relevant, (K, N); a Hessian needs it for every pair of labels."""
        return np.ascontiguousarray(self.relevance.T == 1.0)

    def difference_bounds(self, losses: Vector, change: Vector, x: Vector) -> Vector:
        """Return bounds by pairs of a relevant and an irrelevant label."""
        return pair_difference_bounds(self.relevance == 1.0, np.sqrt(losses) - 1.0 + change, x)
