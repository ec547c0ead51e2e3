"""The linear chain: exact inference over sequences of labels, from scores, without weights and features.

Scores of the nodes are label-major, (K, N), over the positions of all items; one (K, K) matrix of edge scores, from x
to, serves every item (paper, section 6.1 and appendix D.1), or if positions have contexts x_t, features of the second
of two neighbours, one matrix for each context:

    score(y) = sum_t s_t(y_t) + sum_{t > 1} (V + sum_b x_tb U_b)(y_{t-1}, y_t)

The latter is the CRF of Lafferty, McCallum and Pereira (ICML 2001), whose edge features may depend on the input, such
as patterns `B01:%x[0,0]` of CRF++. Shapes: K states, N positions, I items, C contexts, E edge weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from threading import get_ident
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.kernels.forward_backward import (
    CHUNK,
    add_outer_products,
    forward_backward,
    forward_backward_tables,
    infer_in_logarithms,
    subtract_all_observed,
)
from crfqn.kernels.item_lanes import forward_backward_lanes, lanes_workspace
from crfqn.kernels.logarithms import NO_TABLES
from crfqn.kernels.position_losses import position_log_losses
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.viterbi import viterbi
from crfqn.structures.contexts import Contexts, Occurrences, exponentials, padded_width
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.segments import Segments
from crfqn.structures.structure import NO_EDGES, NO_TARGETS, Decoded, Inference, Structure
from crfqn.structures.transition_rules import TransitionRules, ends_of
from crfqn.threads import N_PARTS, Pool, cut_into_parts

MOST_STATES = 64  # with more, the pair sums of eight lanes, K x K x 64 bytes, exceed the second-level cache
LARGEST = 16 * CHUNK  # positions x states of the longest item: three arrays of eight such items are 786 KB
FEWEST_LANES = 3  # of eight: a row of lanes costs up to two and a half positions one by one
GROUPS = 16  # of eight items per part: in smaller parts, neighbours in the order of length differ too much
TOGETHER = 2 * LANES  # segments of a part
PASS = 4  # operations of an inference pass for each product of Viterbi's


@dataclass(frozen=True, eq=False)
class Chain(Structure):
    """Items laid out by `offsets`, (I + 1,), each a chain over the same K states, within `rules` if given; `contexts` :
    of the positions, None if all have the same.

    n_parts : runs of items that threads share, by default chosen by their cost; edge counts are summed run by run,
        so that their last digits depend on it
    """

    offsets: NDArray[np.int64]
    n_states: int
    n_parts: int | None = None
    rules: TransitionRules | None = None
    contexts: Contexts | None = None

    def __post_init__(self) -> None:
        if self.n_states < 1:
            raise InputError(f"a chain needs at least one state, got n_states = {self.n_states}")
        if self.rules is not None and self.rules.start.size != self.n_states:
            raise InputError(f"expected rules of {self.n_states} states, got {self.rules.start.size}")

    @property
    def n_items(self) -> int:
        return self.offsets.size - 1

    @property
    def edge_layout(self) -> EdgeLayout:
        return EdgeLayout(self.n_states, 1 if self.contexts is None else self.contexts.rows.shape[1])

    @property
    def table_of(self) -> NDArray[np.int32]:
        """The table of the edges to each position, (N,); empty if all have the same."""
        return NO_TABLES if self.contexts is None else self.contexts.table_of

    @property
    def without_bigram_features(self) -> Chain:
        return self if self.contexts is None else replace(self, contexts=None)

    def over(self, offsets: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> Chain:
        if self.contexts is None:
            return replace(self, offsets=offsets)
        assert positions is not None
        return replace(self, offsets=offsets, contexts=self.contexts.take(positions))

    def check_targets(self, targets: Labels) -> None:
        """Raise InputError for targets that break a rule; without rules every state is valid at any position."""
        broken = [] if self.rules is None else self.rules.violations(targets, self.offsets)
        if broken:
            raise InputError(
                f"expected targets that keep the rules, but position {broken[0].position} breaks one"
            )

    def truncation_points(self, targets: Labels) -> NDArray[np.bool_]:
        if self.rules is None:
            return np.ones(targets.size, bool)
        start, end = (np.append(rule, rule.all()) for rule in (self.rules.start, self.rules.end))
        return start[targets] & end[np.roll(targets, 1)]

    def _tables(self, edges: Vector) -> Vector:
        """Return the edge scores of weights (E,): (K, K), or of the contexts, (C, K, K)."""
        if self.contexts is None:
            return edges.reshape(self.n_states, self.n_states)
        return self.contexts.tables(edges, self.n_states)

    def masked_scores(self, scores: Vector, edges: Vector) -> tuple[Vector, Vector]:
        scores, tables = np.ascontiguousarray(scores), self._tables(edges)
        if self.rules is None:
            return scores, tables
        return self.rules.on_scores(scores, self.offsets), self.rules.on_edges(tables)

    @cached_property
    def _cuts(self) -> NDArray[np.int64]:
        """The first item of each part, and the number of items: long ones that fill no lanes are parts of their own."""
        lengths = np.diff(self.offsets)
        alone = lengths[(lengths > CHUNK) & (lengths * self.n_states > LARGEST)].sum() // CHUNK
        n_parts = max(count_parts(self.n_items, self.n_states, LANES), min(int(alone), N_PARTS))
        return cut_into_parts(self.offsets, self.n_parts or n_parts)

    @cached_property
    def _segments(self) -> Segments | None:
        """The segments of long items that would leave other threads idle as one part each; their number fills the
        lanes of whole parts."""
        lengths = np.diff(self.offsets)
        is_long = lengths > max(CHUNK, self.offsets[-1] // N_PARTS)
        if not is_long.any():
            return None
        size = CHUNK if self.n_states > MOST_STATES else min(CHUNK, LARGEST // self.n_states)
        n_groups = -(-lengths // (size * TOGETHER))
        return Segments.from_counts(self.offsets, np.where(is_long, n_groups * TOGETHER, 1))

    @cached_property
    def _chain_of_segments(self) -> Chain:
        """The segments as items of their own."""
        assert self._segments is not None
        n_parts = max(1, min(self._segments.item_of.size // TOGETHER, N_PARTS))
        return Chain(self._segments.offsets, self.n_states, n_parts)

    @cached_property
    def _item_parts(self) -> list[ItemPart]:
        """The items of each part, in the order in which they are inferred."""
        lengths = np.diff(self.offsets)
        return [
            split_part(first, last, lengths, self.n_states, LANES) for first, last in pairwise(self._cuts)
        ]

    def infer(
        self,
        scores: Vector,
        edges: Vector,
        targets: Labels = NO_TARGETS,
        weights: Vector | None = None,
        pool: Pool | None = None,
    ) -> Inference:
        """Run one inference pass: log partitions, node and edge residuals, expected and target scores.

        Without `targets` nothing is subtracted: the residuals are the marginals and the expected counts. O(N K^2),
        threaded over items, bit-identical for any number of threads. Scores of any finite size are safe, up to
        their own rounding. A score of -inf forbids a state at a position. Results of an item without an allowed
        labelling are undefined (`impossible` returns these items).
        """
        scores, edges = self.masked_scores(scores, edges)
        if weights is None:
            weights = np.ones(self.n_items)
        if self.contexts is not None:
            return self._infer_contexts(self.contexts, scores, edges, targets, weights, pool or Pool(1))
        if self._segments is not None:
            inference = self._infer_segments(self._segments, scores, edges, targets, weights, pool or Pool(1))
            if inference is not None:
                return inference
        return self._infer_items(scores, edges, targets, weights, pool)

    def _infer_segments(
        self, segments: Segments, scores: Vector, edges: Vector, targets: Labels, weights: Vector, pool: Pool
    ) -> Inference | None:
        """Return what `infer` does, by segments of long items; None if their messages underflow."""
        messages, by_segment = segments.messages(scores, edges, pool), weights[segments.item_of]
        closed = segments.closed(scores, messages)
        inference = self._chain_of_segments._infer_items(closed, edges, NO_TARGETS, by_segment, pool)
        residual = inference.residual
        if not segments.agree(messages, residual, by_segment):
            return None
        crossings = segments.crossings(messages, edges, by_segment)
        counts = inference.edge_residual.reshape(edges.shape) + crossings
        expected = inference.expected_score - segments.added_score(messages, residual)
        expected += float((crossings * np.where(crossings > 0, edges, 0.0)).sum())
        target_score = np.empty(self.n_items)
        subtract_all_observed(self.offsets, targets, scores, edges, weights, residual, counts, target_score)
        log_partition = segments.by_item(inference.log_partition, messages, float(edges.max()))
        return Inference(log_partition, target_score, expected, residual, counts.reshape(-1))

    def _infer_items(
        self, scores: Vector, edges: Vector, targets: Labels, weights: Vector, pool: Pool | None
    ) -> Inference:
        """Return what `infer` does, item by item; scores and edges include the rules."""
        parts = self._item_parts
        residual = np.empty_like(scores)
        sums = np.zeros((self.n_items, 3))
        edge_counts = np.zeros((len(parts), *edges.shape))
        expected_edges = np.zeros(len(parts))
        longest = max((part.longest for part in parts), default=0)
        workspaces: dict[int, tuple[Vector, ...]] = {}  # of each thread

        def run(part: int) -> None:
            in_lanes, _, one_by_one = parts[part]
            out = targets, weights, residual, edge_counts[part], sums
            arrays = self.offsets, scores, edges, *out
            if in_lanes.size:
                workspace = workspaces.get(get_ident())
                if workspace is None:
                    workspace = workspaces[get_ident()] = lanes_workspace(longest, self.n_states)
                expected_edges[part] = forward_backward_lanes(in_lanes, *arrays, *workspace)
                refused = refused_of(in_lanes, sums)
                if refused.size:
                    one_by_one = np.sort(np.concatenate([one_by_one, refused]))
            if one_by_one.size:
                expected_edges[part] += forward_backward(one_by_one, *arrays)
                refused = refused_of(one_by_one, sums)
                if refused.size:
                    expected_edges[part] += infer_in_logarithms(refused, *arrays[:3], NO_TABLES, *out)

        (pool or Pool(1)).each(len(parts), run, PASS * residual.size * self.n_states)
        return Inference(
            log_partition=sums[:, 0],
            target_score=sums[:, 2],
            expected_score=float(weights @ sums[:, 1] + expected_edges.sum()),
            residual=residual,
            edge_residual=edge_counts.sum(axis=0).reshape(-1),
        )

    def _infer_contexts(
        self, contexts: Contexts, scores: Vector, tables: Vector, targets: Labels, weights: Vector, pool: Pool
    ) -> Inference:
        """Return what `infer` does, by the tables of the contexts; scores and tables include the rules."""
        factors, largest, ranges = exponentials(tables, pool)
        n_positions, width = scores.shape[1], factors.shape[2]
        alpha, u = aligned_rows(n_positions, width), aligned_rows(n_positions, width)
        residual, sums = np.empty_like(scores), np.zeros((self.n_items, 3))
        arrays = self.offsets, scores, factors, largest, ranges, contexts.table_of, weights, alpha, u

        def run(part: int) -> None:
            items = np.arange(self._cuts[part], self._cuts[part + 1])
            forward_backward_tables(items, *arrays, residual, sums)

        pool.each(self._cuts.size - 1, run, PASS * residual.size * self.n_states)
        counts = self._outer_products(alpha, u, pool)
        counts *= factors[:, :, : self.n_states]
        refused = refused_of(np.arange(self.n_items), sums)
        if refused.size:
            out = NO_TARGETS, weights, residual, counts, sums
            infer_in_logarithms(refused, self.offsets, scores, tables, contexts.table_of, *out)
        expected = float(weights @ sums[:, 1] + np.vdot(np.where(counts > 0, tables, 0.0), counts))
        target_score = np.zeros(self.n_items)
        if targets.size:
            residual[targets, np.arange(n_positions)] -= np.repeat(weights, np.diff(self.offsets))
            counts -= self._transitions(targets, weights).reshape(counts.shape)
            target_score = self._label_scores(targets, scores, tables)
        return Inference(sums[:, 0], target_score, expected, residual, contexts.weighted(counts))

    def infer_given_labels(
        self,
        scores: Vector,
        edges: Vector,
        targets: Labels,
        position_weights: Vector,
        weights: Vector,
        pool: Pool,
    ) -> PositionInference:
        """Compare with the labels of the positions one at a time, in O(N K^2); position_weights : float64 (N,), others
        as of `infer`."""
        scores, tables = self.masked_scores(scores, edges)
        losses, expected = np.zeros(self.n_items), np.empty_like(scores)
        # Every part has counts of all tables, of which contexts may make thousands.
        cuts = self._cuts if self.contexts is None else np.array([0, self.n_items])
        counts = np.zeros((cuts.size - 1, *tables.shape))
        factors, _, ranges = exponentials(tables.reshape(-1, *tables.shape[-2:]), pool)
        transposed = aligned_rows(*factors.shape[1:])
        if self.contexts is None:
            factors = factors[0]
            transposed[:, : self.n_states] = factors[:, : self.n_states].T
        labels = self.table_of, targets, position_weights, weights
        arrays = self.offsets, scores, tables, factors, transposed, ranges.max(initial=0.0), *labels

        def run(part: int) -> None:
            items = np.arange(cuts[part], cuts[part + 1])
            position_log_losses(items, *arrays, losses, expected, counts[part])

        pool.each(cuts.size - 1, run, PASS * expected.size * self.n_states)
        sums = counts.sum(axis=0)
        transitions = sums.reshape(-1) if self.contexts is None else self.contexts.weighted(sums)
        return PositionInference(losses, expected, transitions)

    @cached_property
    def _by_context(self) -> Occurrences:
        """The positions of each context, without the first positions of items."""
        assert self.contexts is not None
        return self.contexts.by_context(self._inner)

    def _outer_products(self, before: Vector, here: Vector, pool: Pool) -> Vector:
        """Return the sums of outer products of neighbouring rows, (N, width) each, by context, (C, K, K)."""
        starts, places = self._by_context
        sums = np.zeros((starts.size - 1, self.n_states, self.n_states))
        cuts = cut_into_parts(starts)

        def run(part: int) -> None:
            add_outer_products(cuts[part], cuts[part + 1], starts, places, before, here, sums)

        pool.each(cuts.size - 1, run, places.size * self.n_states**2)
        return sums

    @cached_property
    def _inner(self) -> NDArray[np.int64]:
        """The positions that are not the first of their item."""
        return ends_of(self.offsets)[2]

    def _places(self, labels: Labels) -> NDArray[np.int64]:
        """Return the indices of a labelling's transitions, those at `_inner`, in the tables of edge scores."""
        to = self._inner
        context = 0 if self.contexts is None else self.contexts.table_of[to]
        return self.edge_layout.numbers(labels[to - 1], labels[to], context)

    def _transitions(self, labels: Labels, weights: Vector | None) -> Vector:
        """Return the counts of a labelling's transitions by index in the tables, each item times its weight."""
        n_tables = 1 if self.contexts is None else self.contexts.rows.shape[0]
        by_inner = None if weights is None else np.repeat(weights, np.diff(self.offsets))[self._inner]
        size = n_tables * self.edge_layout.n_pairs
        return np.bincount(self._places(labels), by_inner, size).astype(np.float64, copy=False)

    def counts(self, targets: Labels, weights: Vector | None = None) -> Vector:
        n_transitions = self._transitions(targets, weights)
        if self.contexts is None:
            return n_transitions
        return self.contexts.weighted(n_transitions.reshape(-1, self.n_states, self.n_states))

    def label_scores(self, labels: Labels, scores: Vector, edges: Vector) -> Vector:
        return self._label_scores(labels, scores, self._tables(edges))

    def _label_scores(self, labels: Labels, scores: Vector, tables: Vector) -> Vector:
        terms = scores[labels, np.arange(labels.size)]
        terms[self._inner] += tables.reshape(-1)[self._places(labels)]
        item_of = np.repeat(np.arange(self.n_items), np.diff(self.offsets))
        return np.bincount(item_of, terms, self.n_items).astype(np.float64, copy=False)

    @cached_property
    def _of_items(self) -> scipy.sparse.csr_array:
        """The number of each item's transitions by context, (I, C)."""
        item_of = np.repeat(np.arange(self.n_items), np.diff(self.offsets))[self._inner]
        assert self.contexts is not None
        shape = self.n_items, self.contexts.rows.shape[0]
        places = item_of, self.contexts.table_of[self._inner]
        return scipy.sparse.csr_array((np.ones(item_of.size), places), shape=shape)

    @property
    def transition_squares(self) -> Vector:
        if self.contexts is None:
            return np.maximum(np.diff(self.offsets) - 1, 0).astype(np.float64)
        return self._of_items @ self.contexts.rows.power(2).sum(axis=1)

    def edge_ranges(self, weights: Vector) -> Vector:
        """Return bounds on sum_i weight_i r_i^2 for every edge, (E,): r_i is 0 to T - 1 from a label to itself, to T //
        2 to another, 0 with one label; with a context at most the sum of the sizes of its values in item i."""
        lengths = np.diff(self.offsets)
        to_itself = weights @ np.maximum(lengths - 1, 0).astype(np.float64) ** 2
        plain = np.full((self.n_states, self.n_states), weights @ (lengths // 2).astype(np.float64) ** 2)
        np.fill_diagonal(plain, to_itself if self.n_states > 1 else 0.0)
        if self.contexts is None:
            return plain.reshape(-1)
        most = (self._of_items @ abs(self.contexts.rows[:, 1:])).power(2)
        by_feature = np.asarray(weights @ most, np.float64) * (self.n_states > 1)
        return np.concatenate([plain.reshape(-1), np.repeat(by_feature, self.edge_layout.n_pairs)])

    def occurrences(self, positions: NDArray[np.integer]) -> Occurrences:
        if self.contexts is None:
            return super().occurrences(positions)
        return self.contexts.occurrences(positions)

    def variances(self, marginals: Vector, weights: Vector, pool: Pool) -> Vector:
        """Return sum_t weight_t x_tb^2 q (1 - q), q = P(y_{t-1} = j) P(y_t = k), (E - K K,)."""
        if self.contexts is None:
            return NO_EDGES
        p = aligned_rows(marginals.shape[1], padded_width(self.n_states))
        p[:, : self.n_states] = marginals.T
        weighted = p * weights[:, None]
        variances = self._outer_products(p, weighted, pool) - self._outer_products(p * p, p * weighted, pool)
        return self.contexts.weighted(variances, power=2)[self.edge_layout.n_pairs :]

    def decode(self, scores: Vector, edges: Vector, pool: Pool | None = None) -> Decoded:
        """Return the best labelling of every item and its score (Viterbi), -inf if none is allowed; ties go to the
        lower state."""
        scores, edges = self.masked_scores(scores, edges)
        padded = np.zeros((*edges.shape[:-1], padded_width(self.n_states)))
        padded[..., : self.n_states] = edges
        states, best, parts = np.empty(scores.shape[1], np.int32), np.empty(self.n_items), self._cuts
        edges_to = np.ascontiguousarray(edges.swapaxes(-2, -1))
        arrays = self.offsets, scores, padded, edges_to, self.table_of, states, best

        def run(part: int) -> None:
            if parts[part] < parts[part + 1]:
                viterbi(parts[part], parts[part + 1], *arrays)

        (pool or Pool(1)).each(parts.size - 1, run, scores.size * self.n_states)
        return Decoded(states, best)

    def impossible(
        self, allowed: NDArray[np.bool_] | None = None, pool: Pool | None = None
    ) -> NDArray[np.intp]:
        if allowed is None:
            if self.rules is None:
                return np.empty(0, np.intp)
            lengths = np.diff(self.offsets)
            return np.flatnonzero(~self.rules.possible_lengths(int(lengths.max(initial=0)))[lengths])
        best = self.decode(np.where(allowed, 0.0, -np.inf), np.zeros(self.n_edges), pool)
        return np.flatnonzero(best.score == -np.inf)


def refused_of(items: NDArray[np.int64], sums: Vector) -> NDArray[np.int64]:
    """Return those of some items whose log partitions, the first column of sums, (I, 3), are NaN after a kernel."""
    return items[np.isnan(sums[items, 0])]


class PositionInference(NamedTuple):
    """Losses and expectations of a chain given the label of one position at a time, weighted sums over the positions.

    losses : float64 (I,): - sum_t position_weights_t log P(y_t | x), unweighted
    expected : float64 (K, N), states; counts : float64 (E,), of edge weights; both times the items' weights
    """

    losses: Vector
    expected: Vector
    counts: Vector


def count_parts(n_items: int, n_states: int, n_lanes: int) -> int:
    """Return the number of parts of the items: it depends on the structure, never on the number of threads."""
    if n_states > MOST_STATES:
        return N_PARTS
    return min(max(1, n_items // (GROUPS * n_lanes)), N_PARTS)


class ItemPart(NamedTuple):
    """Items of a part, none empty: those `one_by_one`, ascending, and those `in_lanes`, from the `longest` to the
    shortest, so that neighbours are of similar length."""

    in_lanes: NDArray[np.int64]
    longest: int
    one_by_one: NDArray[np.int64]


def split_part(first: int, last: int, lengths: NDArray[np.int64], n_states: int, n_lanes: int) -> ItemPart:
    """Divide the items first ... last - 1 of the given lengths, (I,): items so long that eight do not fit into the
    cache go one by one, and so do all if on average fewer than FEWEST_LANES lanes would be filled."""
    items = first + np.flatnonzero(lengths[first:last])
    nothing = items[:0]
    if n_states > MOST_STATES:
        return ItemPart(nothing, 0, items)
    is_short = lengths[items] * n_states <= LARGEST
    short = items[is_short]
    in_lanes = short[np.argsort(-lengths[short], kind="stable")]
    longest_of_groups = lengths[in_lanes[::n_lanes]]
    if lengths[in_lanes].sum() < FEWEST_LANES * longest_of_groups.sum() or not in_lanes.size:
        return ItemPart(nothing, 0, items)
    return ItemPart(in_lanes, int(longest_of_groups[0]), items[~is_short])
