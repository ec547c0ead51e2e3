"""The taxonomy: exact inference, from scores, for items whose labels are nodes of a forest.

The score of a label is the sum of the scores on its path from the top (Zhong et al. 2014, section 6.2 and appendix
D.2): labels under an inner node share its score. The virtual root, whose score would be in every sum, is not a node.
Shapes: K nodes, N items with one position each; node scores are label-major, (K, N).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.kernels.taxonomy import best_nodes, path_sums, tree_marginals
from crfqn.structures.structure import NO_EDGES, NO_TARGETS, Ancestors, Decoded, Inference, Structure
from crfqn.threads import N_PARTS, Pool

OPERATIONS_PER_SCORE = 10  # of an inference pass: an exponential and some sums and products


@dataclass(frozen=True, eq=False)
class Taxonomy(Structure):
    """Items over one forest of K nodes, numbered parents first. Edges have no weights: the child's node weights have
    the same effect.

    Parameters
    ----------
    parents : ndarray of int32, shape (K,): the number of each node's parent, -1 at the top
    is_label : ndarray of bool, shape (K,): whether an item can be labelled by the node
    n_items : int
    n_parts : int
        Maximum number of chunks of items for the threads, which does not affect results.
    """

    parents: Labels
    is_label: NDArray[np.bool_]
    n_items: int
    n_parts: int = N_PARTS

    def __post_init__(self) -> None:
        if self.parents.ndim != 1 or self.parents.size == 0 or self.parents.shape != self.is_label.shape:
            raise InputError(
                f"a taxonomy needs one parent and one flag a node, at least one node, "
                f"got shapes {self.parents.shape} and {self.is_label.shape}"
            )
        wrong = np.flatnonzero((self.parents >= np.arange(self.parents.size)) | (self.parents < -1))
        if wrong.size:
            raise InputError(
                f"expected every parent before its children, but node {wrong[0]} has parent {self.parents[wrong[0]]}"
            )
        if not self.is_label.any():
            raise InputError("a taxonomy needs at least one node that is a label, got none")

    @property
    def offsets(self) -> NDArray[np.int64]:
        return np.arange(self.n_items + 1)

    @property
    def n_states(self) -> int:
        """The number of nodes, K."""
        return self.parents.size

    @cached_property
    def ancestors(self) -> Ancestors:
        """Each node with its ancestors, the node first; O(size of the result) time and memory."""
        lengths = np.zeros(self.n_states, np.int64)
        for nodes, _ in self._levels_above():
            lengths[nodes] += 1
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        states = np.empty(indptr[-1], np.int64)
        for n_below, (nodes, above) in enumerate(self._levels_above()):
            states[indptr[nodes] + n_below] = above
        return Ancestors(indptr, states)

    @property
    def labels(self) -> NDArray[np.integer]:
        return np.flatnonzero(self.is_label)

    def _levels_above(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.integer]]]:
        """Yield (all nodes, all nodes), (nodes with a parent, their parents), (nodes with a grandparent, these), ..."""
        nodes: NDArray[np.int64] = np.arange(self.n_states)
        above: NDArray[np.integer] = nodes
        while nodes.size:
            yield nodes, above
            has_parent = self.parents[above] >= 0
            nodes, above = nodes[has_parent], self.parents[above[has_parent]]

    def over(self, offsets: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> Taxonomy:
        return Taxonomy(self.parents, self.is_label, offsets.size - 1, self.n_parts)

    def check_targets(self, targets: Labels) -> None:
        wrong = np.flatnonzero(~self.is_label[targets])
        if wrong.size:
            raise InputError(f"expected labels as targets, but item {wrong[0]} has node {targets[wrong[0]]}")

    def infer(
        self,
        scores: Vector,
        edges: Vector = NO_EDGES,
        targets: Labels = NO_TARGETS,
        weights: Vector | None = None,
        pool: Pool | None = None,
    ) -> Inference:
        """Return log partitions, residuals of all nodes, expected and target scores.

        Without `targets` the residuals are the node marginals: P(the label is node k or below it).

        Notes
        -----
        O(N K), threaded over items, bit-identical for any number of threads. Scores of any finite size are safe.
        """
        scores = np.ascontiguousarray(scores)
        if weights is None:
            weights = np.ones(self.n_items)
        residual = np.empty_like(scores)
        sums = np.zeros((self.n_items, 3))
        arrays = (self.parents, self.is_label, scores, targets, weights, residual, sums)
        self._each(lambda first, last: tree_marginals(first, last, *arrays), pool)
        return Inference(
            log_partition=sums[:, 0],
            target_score=sums[:, 2],
            expected_score=float(weights @ sums[:, 1]),
            residual=residual,
            edge_residual=NO_EDGES,
        )

    def path_scores(self, scores: Vector, pool: Pool | None = None) -> Vector:
        """Return the sum of the scores from the top to each node, (K, N)."""
        scores = np.ascontiguousarray(scores)
        out = np.empty_like(scores)
        self._each(lambda first, last: path_sums(first, last, self.parents, scores, out), pool)
        return out

    def label_scores(self, labels: Labels, scores: Vector, edges: Vector = NO_EDGES) -> Vector:
        """Return the path score of a label of each item, (I,)."""
        return self.path_scores(scores)[labels, np.arange(self.n_items)]

    def decode(self, scores: Vector, edges: Vector = NO_EDGES, pool: Pool | None = None) -> Decoded:
        """Return the best label of each item, as a node, and its path score; ties go to the lower node."""
        sums = self.path_scores(scores, pool)
        best, states = np.empty(self.n_items), np.empty(self.n_items, np.int32)
        self._each(lambda first, last: best_nodes(first, last, self.is_label, sums, best, states), pool)
        return Decoded(states, best)

    def _each(self, run: Callable[[int, int], object], pool: Pool | None) -> None:
        """Call run(first, last) for chunks of items; items are independent, so that the cuts do not affect results."""
        threads = pool or Pool(1)
        n_parts = 1 if threads.n_threads == 1 else min(self.n_parts, self.n_items)
        cuts = self.n_items * np.arange(n_parts + 1) // max(1, n_parts)
        n_operations = OPERATIONS_PER_SCORE * self.n_items * self.n_states
        threads.each(n_parts, lambda part: run(cuts[part], cuts[part + 1]), n_operations)


def flat(n_classes: int, n_items: int) -> Taxonomy:
    """Return the structure of items with one of `n_classes` labels each: a taxonomy whose nodes are all at the top.

    Inference is a softmax, as over chains of length one.
    """
    if n_classes < 1:
        raise InputError(f"a flat structure needs at least one class, got n_classes = {n_classes}")
    return Taxonomy(np.full(n_classes, -1, np.int32), np.ones(n_classes, bool), n_items)
