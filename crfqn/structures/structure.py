"""The interface of all structures: exact inference over score arrays, for the objectives.

Shapes: K states, N positions, I items; scores are label-major, (K, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.threads import Pool

NO_TARGETS = np.empty(0, np.int32)
NO_EDGES = np.empty(0)


class Ancestors(NamedTuple):
    """The states that hold wherever state k does: states[indptr[k] ... indptr[k + 1] - 1], k itself first.

    A label of a chain has only itself; a node of a taxonomy has its ancestors too.
    """

    indptr: NDArray[np.int64]
    states: NDArray[np.integer]

    def of(self, k: int) -> NDArray[np.integer]:
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
    edge_residual : float64 (number of edge weights,): weighted expected less observed transitions.
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


class Structure(Protocol):
    """Exact inference that knows no weights and no features."""

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
    def n_edges(self) -> int:
        """The number of edge weights, 0 for structures without edges."""

    @property
    def ancestors(self) -> Ancestors:
        """The states that hold wherever a state does."""

    @property
    def labels(self) -> NDArray[np.integer]:
        """The states that a position can be labelled by, ascending."""

    def over(self, offsets: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> Structure:
        """Return the same structure over other items, item i with the positions offsets[i] ... offsets[i + 1] - 1,
        which are some `positions` of these items where the structure knows them apart."""

    def check_targets(self, targets: Labels) -> None:
        """Raise InputError for targets, (N,), that are states but no labels."""

    def infer(
        self,
        scores: Vector,
        edges: Vector,
        targets: Labels,
        weights: Vector | None = None,
        pool: Pool | None = None,
    ) -> Inference:
        """Run one inference pass; scores, edges : float64 (K, N) and (K, K) or (0,), in nats; weights : float64 (I,),
        None: 1.

        targets : int32 (N,), the states to subtract from the marginals; (0,): nothing is subtracted
        """

    def label_scores(self, labels: Labels, scores: Vector, edges: Vector) -> Vector:
        """Return the score of the labelling of every item by `labels`, (N,): (I,)."""

    def counts(self, targets: Labels, weights: Vector | None = None) -> Vector:
        """Return the observed number of each edge in the targets, each item times its weight."""

    def edge_ranges(self, weights: Vector) -> Vector:
        """Return sum_i weights[i] r_i^2 by edge, r_i the range of the edge's count in item i."""

    def decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        """Return the best labelling of every item and its score."""
