"""The chain with bigram features: weights for each pair of neighbouring labels and what is observed at the second.

    score(y) = sum_t s_t(y_t) + sum_{t > 1} (V + sum_b x_tb U_b)(y_{t-1}, y_t)

The CRF of Lafferty, McCallum and Pereira (ICML 2001), whose edge features may depend on the input, as by patterns like
`B01:%x[0,0]` of CRF++. Edge weights are V and then each U_b, (1 + B) K K of them. A context is a distinct set of
observed features, and positions with the same one share a table of edge scores: of part-of-speech tags there are some
forty for all positions. Shapes: K states, N positions, I items, B bigram features, C contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.kernels.bigrams import (
    add_outer_products,
    exponentiate_tables,
    forward_backward_tables,
    infer_in_logarithms,
)
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.viterbi import viterbi_tables
from crfqn.structures.chain import PASS, Chain, Occurrences
from crfqn.structures.structure import NO_TARGETS, Decoded, Inference
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool, cut_into_parts

LARGEST_BYTES = 16e9
PER_WEIGHT, PER_SCORE = 8 * 8, 3 * 8  # bytes: vectors of a training, tables of an inference pass


@dataclass(frozen=True, eq=False)
class Contexts:
    """The context of each position, int32 (N,), and `rows`, CSR float64 (C, 1 + B): a constant 1, for the transitions
    that are the same everywhere, and the values of the features."""

    table_of: NDArray[np.int32]
    rows: Any

    @classmethod
    def of(cls, features: Any) -> Contexts:
        """Return the contexts of features, CSR (N, B), canonical."""
        n_positions = features.shape[0]
        firsts, lengths = features.indptr[:-1], np.diff(features.indptr)
        values, value_of = np.unique(features.data, return_inverse=True)
        n_distinct = features.shape[1] * values.size
        numbers = features.indices * np.int64(values.size) + value_of
        codes: NDArray[np.int64] = np.zeros(n_positions, np.int64)
        examples = np.zeros(min(n_positions, 1), np.int64)
        for place in range(int(lengths.max(initial=0))):
            has_more = np.flatnonzero(lengths > place)
            codes *= n_distinct + 1
            codes[has_more] += 1 + numbers[firsts[has_more] + place]
            _, examples, codes = np.unique(codes, return_index=True, return_inverse=True)
        rows = features[examples].astype(np.float64)
        ones = scipy.sparse.csr_array(np.ones((examples.size, 1)))
        return cls(codes.astype(np.int32), scipy.sparse.hstack([ones, rows], format="csr"))

    def take(self, positions: NDArray[np.int64]) -> Contexts:
        """Return the contexts of some positions, without those that none of them has."""
        used, table_of = np.unique(self.table_of[positions], return_inverse=True)
        return Contexts(table_of.astype(np.int32), self.rows[used])


@dataclass(frozen=True, eq=False)
class BigramChain(Chain):
    """A chain whose edge scores depend on the `contexts` of positions; others as of `Chain`."""

    contexts: Contexts = field(kw_only=True)

    @property
    def n_edges(self) -> int:
        """The number of edge weights, (1 + B) K K."""
        return self.contexts.rows.shape[1] * self.n_states**2

    @property
    def table_of(self) -> NDArray[np.int32]:
        return self.contexts.table_of

    def over(self, offsets: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> BigramChain:
        assert positions is not None
        return replace(self, offsets=offsets, contexts=self.contexts.take(positions))

    def ruled(self, scores: Vector, edges: Vector) -> tuple[Vector, Vector]:
        """Return node scores (K, N) and the tables of edge scores (C, K, K), -inf where the rules forbid."""
        tables = self.contexts.rows @ edges.reshape(-1, self.n_states**2)
        tables, scores = tables.reshape(-1, self.n_states, self.n_states), np.ascontiguousarray(scores)
        if self.rules is None:
            return scores, tables
        return self.rules.on_scores(scores, self.offsets), self.rules.on_edges(tables)

    @property
    def _width(self) -> int:
        return -(-self.n_states // LANES) * LANES

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each context's positions start among `places`, (C + 1,), those of first positions left out."""
        contexts = self.table_of[self._inner]
        sizes = np.bincount(contexts, minlength=self.contexts.rows.shape[0])
        return np.concatenate([[0], np.cumsum(sizes)]), self._inner[np.argsort(contexts, kind="stable")]

    def _weighted(self, by_table: Vector) -> Vector:
        """Return the sums over the contexts of tables (C, K, K) times the contexts' features, (E,)."""
        return (self.contexts.rows.T @ by_table.reshape(-1, self.n_states**2)).reshape(-1)

    def infer(
        self,
        scores: Vector,
        edges: Vector,
        targets: Labels = NO_TARGETS,
        weights: Vector | None = None,
        pool: Pool | None = None,
    ) -> Inference:
        scores, tables = self.ruled(scores, edges)
        weights, threads = np.ones(self.n_items) if weights is None else weights, pool or Pool(1)
        factors, largest, ranges = self._exponentials(tables, threads)
        n_positions = scores.shape[1]
        alpha, u = aligned_rows(n_positions, self._width), aligned_rows(n_positions, self._width)
        residual, sums = np.empty_like(scores), np.zeros((self.n_items, 2))
        refused = np.zeros(self.n_items, bool)
        arrays = self.offsets, scores, factors, largest, ranges, self.table_of, weights, alpha, u

        def run(part: int) -> None:
            items = np.arange(self._cuts[part], self._cuts[part + 1])
            forward_backward_tables(items, *arrays, residual, sums, refused)

        threads.each(self._cuts.size - 1, run, PASS * residual.size * self.n_states)
        counts = self._outer_products(alpha, u, threads)
        counts *= factors[:, :, : self.n_states]
        if refused.any():
            log_arrays = self.offsets, scores, tables, self.table_of, weights, residual, counts, sums
            infer_in_logarithms(np.flatnonzero(refused), *log_arrays)
        expected = float(weights @ sums[:, 1] + np.vdot(np.where(counts > 0, tables, 0.0), counts))
        target_score = np.zeros(self.n_items)
        if targets.size:
            by_position = np.repeat(weights, np.diff(self.offsets))
            residual[targets, np.arange(n_positions)] -= by_position
            self._add_transitions(targets, -by_position, counts)
            target_score = self._label_scores(targets, scores, tables)
        return Inference(sums[:, 0], target_score, expected, residual, self._weighted(counts))

    def _exponentials(self, tables: Vector, pool: Pool) -> tuple[Vector, Vector, Vector]:
        """Return what `exponentiate_tables` writes."""
        factors = aligned_rows(tables.shape[0] * self.n_states, self._width)
        factors = factors.reshape(-1, self.n_states, self._width)
        largest, ranges = np.empty((2, tables.shape[0]))

        def run(first: int, last: int) -> None:
            exponentiate_tables(first, last, tables, factors, largest, ranges)

        pool.each_stretch(tables.shape[0], run)
        return factors, largest, ranges

    def _outer_products(self, before: Vector, here: Vector, pool: Pool) -> Vector:
        """Return the sums of outer products of neighbouring rows, (N, width) each, by context, (C, K, K)."""
        starts, places = self._places
        sums = np.zeros((starts.size - 1, self.n_states, self.n_states))
        cuts = cut_into_parts(starts)

        def run(part: int) -> None:
            add_outer_products(cuts[part], cuts[part + 1], starts, places, before, here, sums)

        pool.each(cuts.size - 1, run, places.size * self.n_states**2)
        return sums

    def _add_transitions(self, labels: Labels, weights: Vector, counts: Vector) -> None:
        """Add the transitions of labels, each times the weight of its position, (N,), to counts by context."""
        to = self._inner
        np.add.at(counts, (self.table_of[to], labels[to - 1], labels[to]), weights[to])

    def _label_scores(self, labels: Labels, scores: Vector, tables: Vector) -> Vector:
        terms, to = scores[labels, np.arange(labels.size)], self._inner
        terms[to] += tables[self.table_of[to], labels[to - 1], labels[to]]
        item_of = np.repeat(np.arange(self.n_items), np.diff(self.offsets))
        return np.bincount(item_of, terms, self.n_items).astype(np.float64, copy=False)

    def label_scores(self, labels: Labels, scores: Vector, edges: Vector) -> Vector:
        return self._label_scores(labels, scores, replace(self, rules=None).ruled(scores, edges)[1])

    def counts(self, targets: Labels, weights: Vector | None = None) -> Vector:
        """Return the observed number of each edge weight's transitions, times the values of its feature, (E,)."""
        counts = np.zeros((self.contexts.rows.shape[0], self.n_states, self.n_states))
        weights = np.ones(self.n_items) if weights is None else weights
        self._add_transitions(targets, np.repeat(weights, np.diff(self.offsets)), counts)
        return self._weighted(counts)

    @cached_property
    def _of_items(self) -> scipy.sparse.csr_array:
        """The number of each item's transitions by context, (I, C)."""
        to = self._inner
        item_of = np.repeat(np.arange(self.n_items), np.diff(self.offsets))[to]
        shape = self.n_items, self.contexts.rows.shape[0]
        return scipy.sparse.coo_array((np.ones(to.size), (item_of, self.table_of[to])), shape).tocsr()

    @property
    def transition_squares(self) -> Vector:
        return self._of_items @ self.contexts.rows.power(2).sum(axis=1)

    def edge_ranges(self, weights: Vector) -> Vector:
        """Return bounds on sum_i weight_i r_i^2 for every edge weight, (E,): r_i is at most the sum of the sizes of its
        feature's values in item i, and of V as of `Chain`."""
        most = (self._of_items @ abs(self.contexts.rows)).power(2)
        found = np.repeat(np.asarray(weights @ most, np.float64), self.n_states**2)
        if self.n_states == 1:
            found[:] = 0.0
        found[: self.n_states**2] = super().edge_ranges(weights)
        return found

    def occurrences(self, positions: NDArray[np.integer]) -> Occurrences:
        rows = self.contexts.rows[self.table_of[positions]].tocsc()
        return Occurrences(rows.indptr.astype(np.int64), rows.indices.astype(np.int64))

    def variances(self, marginals: Vector, weights: Vector, pool: Pool) -> Vector:
        """Return the weighted variance of every edge weight's transitions, (E,), as if all were independent and so were
        the labels of neighbours: sum_t weight_t x_tb^2 q (1 - q), q = P(y_{t-1} = j) P(y_t = k); `marginals` (K, N)."""
        p = aligned_rows(marginals.shape[1], self._width)
        p[:, : self.n_states] = marginals.T
        weighted = p * weights[:, None]
        found = self._outer_products(p, weighted, pool) - self._outer_products(p * p, p * weighted, pool)
        squares = self.contexts.rows.power(2)
        return (squares.T @ found.reshape(-1, self.n_states**2)).reshape(-1)

    def decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        scores, tables = self.ruled(scores, edges)
        padded = np.zeros((*tables.shape[:2], self._width))
        padded[:, :, : self.n_states] = tables
        states, best, parts = np.empty(scores.shape[1], np.int32), np.empty(self.n_items), self._cuts

        def run(part: int) -> None:
            arrays = self.offsets, scores, padded, self.table_of, states, best
            viterbi_tables(parts[part], parts[part + 1], *arrays)

        (pool or Pool(1)).each(parts.size - 1, run, scores.size * self.n_states)
        return Decoded(states, best)


def chain_over(
    offsets: NDArray[np.int64],
    n_states: int,
    rules: TransitionRules | None,
    matrix: Any,
    columns: NDArray[np.int64],
) -> Chain:
    """Return the chain over items whose bigram features are some columns of a matrix (N, F), a plain one for none;
    InputError where its weights and tables would be too large."""
    if not columns.size:
        return Chain(offsets, n_states, rules=rules)
    contexts = Contexts.of(scipy.sparse.csr_array(matrix)[:, columns])
    n_tables, n_features = contexts.rows.shape
    n_bytes = n_states**2 * (PER_WEIGHT * n_features + PER_SCORE * n_tables)
    if n_bytes > LARGEST_BYTES:
        raise InputError(
            f"bigram features: {n_states**2:,} pairs of labels, {columns.size:,} features and {n_tables:,} different "
            f"sets of them would take {n_bytes / 1e9:.3g} GB, and at most {LARGEST_BYTES / 1e9:g} GB are allowed; "
            "min_count leaves out rare features, and unigram patterns (U01:%x[0,0]) have a weight a label"
        )
    return BigramChain(offsets, n_states, rules=rules, contexts=contexts)
