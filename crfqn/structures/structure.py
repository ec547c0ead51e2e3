"""The interface of all structures: exact inference over score arrays, for the objectives.

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
    """The states implied by each state k: states[indptr[k] ... indptr[k + 1] - 1], k itself first.

    A label of a chain has only itself; a node of a taxonomy has its ancestors too.
    """

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
    log_partition, target_score : float64 (I,), in nats: log Z, and the score of the targets, without items' weights.
    expected_score : sum over items of weight * expected score under the model.
    residual : float64 (K, N): weight * (node marginals - observed labels).
    edge_residual : float64 (number of edge weights,): weighted expected minus observed transitions.
    """

    log_partition: Vector
    target_score: Vector
    expected_score: float
    residual: Vector
    edge_residual: Vector


@dataclass(frozen=True, eq=False)
class Decoded:
    """Best labels, int32 (N,), and their score, float64 (I,), in nats."""

    states: Labels
    score: Vector


class Structure:
    """Base of the structures: exact inference from scores, without weights and features.

    The methods that are not abstract are for structures without edges, each of whose states is a label.
    """

    rules: TransitionRules | None = None  # on which labels may follow each other

    if TYPE_CHECKING:  # fields of the subclasses: dataclasses would take properties for their defaults

        @property
        def n_states(self) -> int:
            """The number of states, K: labels, or nodes of a taxonomy."""

        @property
        def n_items(self) -> int:
            """The number of items, I."""

        @property
        def offsets(self) -> NDArray[np.int64]:
            """The first position of each item, and the number of positions: (I + 1,)."""

    @property
    def edge_layout(self) -> EdgeLayout:
        """The numbering of the weights of edges."""
        return EdgeLayout(self.n_states, 0)

    @property
    def n_edges(self) -> int:
        """The number of edge weights, E."""
        return self.edge_layout.size

    @property
    def ancestors(self) -> Ancestors:
        """The states that each state implies."""
        return Ancestors(np.arange(self.n_states + 1), np.arange(self.n_states))

    @property
    def labels(self) -> NDArray[np.integer]:
        """The states that are labels of a position, ascending."""
        return np.arange(self.n_states)

    @property
    def mask(self) -> TransitionMask:
        """The rules, for kernels that make the scores themselves."""
        return (self.rules or TransitionRules.everything(self.n_states)).mask

    @property
    def without_bigram_features(self) -> Structure:
        """The structure whose edges have the same weights everywhere."""
        return self

    @property
    def transition_squares(self) -> Vector:
        """The sum over each item's transitions of the squared features of their scores, (I,)."""
        return np.zeros(self.n_items)

    def over(self, offsets: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> Structure:
        """Return the same structure over other items, item i with the positions offsets[i] ... offsets[i + 1] - 1,
        which are some `positions` of these items if the structure distinguishes positions."""
        raise NotImplementedError

    def check_targets(self, targets: Labels) -> None:
        """Raise InputError for targets, (N,), that are states but not labels."""

    def truncation_points(self, targets: Labels) -> NDArray[np.bool_]:
        """Return before which positions a labelling, -1 standing for unknown labels, may be cut in two without breaking
        a rule, (N,)."""
        return np.ones(targets.size, bool)

    def masked_scores(self, scores: Vector, edges: Vector) -> tuple[Vector, Vector]:
        """Return node scores (K, N) and edge scores as kernels take them, -inf if forbidden: (K, K), or
        if edges have contexts, the tables of these, (C, K, K)."""
        return np.ascontiguousarray(scores), edges

    def infer(
        self,
        scores: Vector,
        edges: Vector,
        targets: Labels,
        weights: Vector | None = None,
        pool: Pool | None = None,
    ) -> Inference:
        """Run one inference pass; scores, edges : float64 (K, N) and (E,), in nats; weights : float64 (I,), None: 1.

        targets : int32 (N,), the states to subtract from the marginals; (0,): nothing is subtracted
        """
        raise NotImplementedError

    def label_scores(self, labels: Labels, scores: Vector, edges: Vector) -> Vector:
        """Return the score of the labelling of every item by `labels`, (N,), rules aside: (I,)."""
        raise NotImplementedError

    def counts(self, targets: Labels, weights: Vector | None = None) -> Vector:
        """Return the targets' counts for each edge weight, never across items, each item times its weight, (E,)."""
        return NO_EDGES

    def edge_ranges(self, weights: Vector) -> Vector:
        """Return bounds on sum_i weights[i] r_i^2 by edge, (E,), r_i the range of the edge's count in item i."""
        return NO_EDGES

    def occurrences(self, positions: NDArray[np.integer]) -> Occurrences:
        """Return which of some positions have each feature of the edges' contexts, numbered from 1."""
        return Occurrences(np.empty(0, np.int64), np.empty(0, np.int64))

    def variances(self, marginals: Vector, weights: Vector, pool: Pool) -> Vector:
        """Return the weighted variance of the counts of edge weights with a context, (E - K K,), as if all
        transitions and the labels of neighbours were independent; marginals (K, N), weights (N,)."""
        return NO_EDGES

    def decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        """Return the best labelling of every item and its score; ties go to the lower state."""
        raise NotImplementedError

    def impossible(
        self, allowed: NDArray[np.bool_] | None = None, pool: Pool | None = None
    ) -> NDArray[np.intp]:
        """Return the items that have no allowed labelling; allowed : bool (K, N), states by position, default all."""
        raise NotImplementedError
