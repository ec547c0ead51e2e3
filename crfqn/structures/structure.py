"""The interface of the structures: exact inference over score arrays, for the objectives.

Shapes: K states, N positions, I items; scores are label-major, (K, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.structures.contexts import Occurrences
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool

if TYPE_CHECKING:
    from crfqn.kernels.viterbi import TransitionMask

NO_TARGETS = np.empty(0, np.int32)
NO_EDGES = np.empty(0)


class Ancestors(NamedTuple):
    """The states that each state k implies, states[indptr[k]] ... states[indptr[k + 1] - 1]: k, and its ancestors if k
    is a node of a taxonomy."""

    indptr: NDArray[np.int64]
    states: NDArray[np.integer]

    def with_state(self, k: int) -> NDArray[np.integer]:
        """Return state k with its ancestors."""
        return self.states[self.indptr[k] : self.indptr[k + 1]]


@dataclass(frozen=True, eq=False)
class Inference:
    """The result of one inference pass.

    Attributes
    ----------
    log_partition, target_score : float64 (I,), in nats: log Z, and the score of the targets, without item weights
    expected_score : sum over the items of weight * expected score under the model
    residual : float64 (K, N): weight * (node marginals - observed labels)
    edge_residual : float64 (E,): weighted expected minus observed transitions
    """

    log_partition: Vector
    target_score: Vector
    expected_score: float
    residual: Vector
    edge_residual: Vector


@dataclass(frozen=True, eq=False)
class Decoded:
    """The best labellings, int32 (N,), and their scores, float64 (I,), in nats."""

    states: Labels
    score: Vector


class Structure:
    """Base class of the structures: exact inference from scores, without weights and features.

    Methods that are not abstract are for structures without edges in which each state is a label.
    """

    rules: TransitionRules | None = None  # which labels may follow each other

    if TYPE_CHECKING:  # fields of the subclasses, for which dataclasses would use a property as the default

        @property
        def n_states(self) -> int:
            """The number of states, K: labels, or nodes of a taxonomy."""

        @property
        def n_items(self) -> int:
            """The number of items, I."""

        @property
        def offsets(self) -> NDArray[np.int64]:
            """The first position of each item, and N: (I + 1,)."""

    @property
    def edge_layout(self) -> EdgeLayout:
        """The numbering of the weights of edges."""
        return EdgeLayout(self.n_states, 0)

    @property
    def ancestors(self) -> Ancestors:
        """The ancestors of each state."""
        return Ancestors(np.arange(self.n_states + 1), np.arange(self.n_states))

    @property
    def labels(self) -> NDArray[np.integer]:
        """The states that are labels, ascending."""
        return np.arange(self.n_states)

    @property
    def mask(self) -> TransitionMask:
        """The rules as additions to scores, for kernels that compute the scores."""
        return (self.rules or TransitionRules.everything(self.n_states)).mask

    @property
    def without_bigram_features(self) -> Structure:
        """The structure without contexts of edges."""
        return self

    @property
    def transition_squares(self) -> Vector:
        """The sum of the squared features of each item's transitions, (I,)."""
        return np.zeros(self.n_items)

    def over(self, offsets: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> Structure:
        """Return the same structure over other items: item i has the positions offsets[i] ... offsets[i + 1] - 1, which
        are the given positions of these items if the structure has contexts."""
        raise NotImplementedError

    def check_targets(self, targets: Labels) -> None:
        """Raise InputError for targets, (N,), that are states but not labels."""

    def truncation_points(self, targets: Labels) -> NDArray[np.bool_]:
        """Return the positions before which a labelling may be cut in two without breaking a rule, bool (N,); targets :
        (N,), -1 for unknown labels."""
        return np.ones(targets.size, bool)

    def masked_scores(self, scores: Vector, edges: Vector) -> tuple[Vector, Vector]:
        """Return node scores, (K, N), and edge scores, (K, K) or (C, K, K) with contexts, both with -inf for what the
        rules forbid."""
        return np.ascontiguousarray(scores), edges

    def infer(
        self,
        scores: Vector,
        edges: Vector,
        targets: Labels,
        weights: Vector | None = None,
        pool: Pool | None = None,
    ) -> Inference:
        """Return the result of one inference pass.

        scores, edges : float64 (K, N) and (E,), in nats
        targets : int32 (N,), the states to subtract from the marginals, or (0,) for none
        weights : float64 (I,), None for 1
        """
        raise NotImplementedError

    def label_scores(self, labels: Labels, scores: Vector, edges: Vector) -> Vector:
        """Return the score of the labelling of each item by `labels`, (N,), without rules: (I,)."""
        raise NotImplementedError

    def counts(self, targets: Labels, weights: Vector | None = None) -> Vector:
        """Return the weighted counts of the targets' transitions within items for each edge weight, (E,)."""
        return NO_EDGES

    def edge_ranges(self, weights: Vector) -> Vector:
        """Return bounds on sum_i weights[i] r_i^2 of each edge, (E,), with r_i the range of its count in item i."""
        return NO_EDGES

    def occurrences(self, positions: NDArray[np.integer]) -> Occurrences:
        """Return the positions of each feature of edge contexts, numbered from 1, as places among the given ones."""
        return Occurrences(np.empty(0, np.int64), np.empty(0, np.int64))

    def variances(self, marginals: Vector, weights: Vector, pool: Pool) -> Vector:
        """Return the weighted variances of the counts of edges with contexts, (E - K K,), as if neighbouring labels and
        different transitions were independent; marginals : (K, N); weights : (N,)."""
        return NO_EDGES

    def decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        """Return the best labelling of each item and its score; ties go to the lower state."""
        raise NotImplementedError

    def impossible(
        self, allowed: NDArray[np.bool_] | None = None, pool: Pool | None = None
    ) -> NDArray[np.intp]:
        """Return the items without an allowed labelling; allowed : bool (K, N), states by position, default all."""
        raise NotImplementedError
