"""The linear chain: exact inference over sequences of labels, from scores, without weights and features.

    score(y) = sum_t s_t(y_t) + sum_{t > 1} (V + sum_b x_tb U_b)(y_{t-1}, y_t)

Without bigram features b all items have the same edge scores V (Zhong et al. 2014, section 6.1 and appendix D.1). With
them, such as patterns `B01:%x[0,0]` of CRF++, edge scores depend on the context x_t, the features of the second of two
neighbours (Lafferty, McCallum and Pereira 2001): each distinct context has a table of edge scores.

Shapes: K states, N positions, I items, C contexts, E edge weights; node scores are label-major, (K, N), over the
positions of all items; tables of edge scores (K, K), from x to, or (C, K, K).
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
    CHUNK_POSITIONS,
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

# Maximum number of states in lanes, fixed by the L2 cache: the pair sums of eight lanes take K x K x 64 bytes.
MAX_LANE_STATES = 64
# Maximum positions x states of an item in lanes, fixed by the L2 cache: three arrays of eight such items are 786 KB.
MAX_LANE_NUMBERS = 16 * CHUNK_POSITIONS
# Minimum mean number of filled lanes: a position of all lanes takes up to 2.5 times as long as one of a single item.
MIN_FILLED_LANES = 3
# Minimum groups of eight items in a part: in smaller parts the lengths of the items of a group differ too much.
LANE_GROUPS_PER_PART = 16
SEGMENTS_PER_PART = 2 * LANES  # number of segments of a part: whole groups of lanes
INFERENCE_OPERATIONS = (
    4  # cost of an inference pass relative to Viterbi's, for each position and pair of states
)


@dataclass(frozen=True, eq=False)
class Chain(Structure):
    """Items that are chains over the same K states.

    Parameters
    ----------
    offsets : int64 (I + 1,), the first position of each item, and N
    n_states : K, 1 or more
    n_parts : number of runs of items that threads share, by default chosen by their cost. Edge counts are summed run by
        run, so that their last digits depend on it.
    rules : rules that all labellings keep, None for none
    contexts : of the positions, None if all have the same
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
        """The number of the table of edges to each position, (N,); empty if edges are one table."""
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
        """Raise InputError for targets that break a rule."""
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
        """Return the edge scores of edge weights (E,): (K, K), or (C, K, K) with contexts."""
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
        """The first item of each part, and I. Items too long for lanes add to the number of parts."""
        lengths = np.diff(self.offsets)
        is_long = (lengths > CHUNK_POSITIONS) & (lengths * self.n_states > MAX_LANE_NUMBERS)
        n_chunks = int(lengths[is_long].sum() // CHUNK_POSITIONS)
        n_parts = max(count_parts(self.n_items, self.n_states, LANES), min(n_chunks, N_PARTS))
        return cut_into_parts(self.offsets, self.n_parts or n_parts)

    @cached_property
    def _segments(self) -> Segments | None:
        """The segments of items so long that other threads would be idle during their inference, None without such
        items. The number of segments of an item is a multiple of SEGMENTS_PER_PART."""
        lengths = np.diff(self.offsets)
        is_long = lengths > max(CHUNK_POSITIONS, self.offsets[-1] // N_PARTS)
        if not is_long.any():
            return None
        uses_lanes = self.n_states <= MAX_LANE_STATES
        size = min(CHUNK_POSITIONS, MAX_LANE_NUMBERS // self.n_states) if uses_lanes else CHUNK_POSITIONS
        n_groups = -(-lengths // (size * SEGMENTS_PER_PART))
        return Segments.from_counts(self.offsets, np.where(is_long, n_groups * SEGMENTS_PER_PART, 1))

    @cached_property
    def _chain_of_segments(self) -> Chain:
        """The segments as the items of a chain."""
        assert self._segments is not None
        n_parts = max(1, min(self._segments.item_of.size // SEGMENTS_PER_PART, N_PARTS))
        return Chain(self._segments.offsets, self.n_states, n_parts)

    @cached_property
    def _item_parts(self) -> list[ItemPart]:
        """The items of each part, in the order of their inference."""
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
        """Return log partitions, node and edge residuals, expected and target scores.

        Without `targets` the residuals are the marginals and the expected counts.

        Notes
        -----
        O(N K^2), threaded over items, bit-identical for any number of threads. Finite scores of any size are safe, up
        to their own rounding. A score of -inf forbids a state at a position. Results of an item without an allowed
        labelling are undefined; `impossible` returns these items.
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
        """Infer with the long items cut into segments; return None if their messages underflow."""
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
        """Infer item by item; scores and edges include the rules."""
        parts = self._item_parts
        residual = np.empty_like(scores)
        sums = np.zeros((self.n_items, 3))
        edge_counts = np.zeros((len(parts), *edges.shape))
        expected_edges = np.zeros(len(parts))
        longest = max((part.longest for part in parts), default=0)
        workspaces: dict[int, tuple[Vector, ...]] = {}  # by thread

        def run(part: int) -> None:
            in_lanes, _, one_by_one = parts[part]
            out = targets, weights, residual, edge_counts[part], sums
            arrays = self.offsets, scores, edges, *out
            if in_lanes.size:
                workspace = workspaces.get(get_ident())
                if workspace is None:
                    workspace = workspaces[get_ident()] = lanes_workspace(longest, self.n_states)
                expected_edges[part] = forward_backward_lanes(in_lanes, *arrays, *workspace)
                refused = in_lanes[np.isnan(sums[in_lanes, 0])]
                if refused.size:
                    one_by_one = np.sort(np.concatenate([one_by_one, refused]))
            if one_by_one.size:
                expected_edges[part] += forward_backward(one_by_one, *arrays)
                refused = one_by_one[np.isnan(sums[one_by_one, 0])]
                if refused.size:
                    expected_edges[part] += infer_in_logarithms(refused, *arrays[:3], NO_TABLES, *out)

        (pool or Pool(1)).each(len(parts), run, INFERENCE_OPERATIONS * residual.size * self.n_states)
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
        """Infer with the tables of the contexts; scores and tables include the rules."""
        factors, largest, ranges = exponentials(tables, pool)
        n_positions, width = scores.shape[1], factors.shape[2]
        alpha, u = aligned_rows(n_positions, width), aligned_rows(n_positions, width)
        residual, sums = np.empty_like(scores), np.zeros((self.n_items, 3))
        arrays = self.offsets, scores, factors, largest, ranges, contexts.table_of, weights, alpha, u

        def run(part: int) -> None:
            items = np.arange(self._cuts[part], self._cuts[part + 1])
            forward_backward_tables(items, *arrays, residual, sums)

        pool.each(self._cuts.size - 1, run, INFERENCE_OPERATIONS * residual.size * self.n_states)
        counts = self._outer_products(alpha, u, pool)
        counts *= factors[:, :, : self.n_states]
        refused = np.flatnonzero(np.isnan(sums[:, 0]))
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
        """Return losses and expectations given the label of one position at a time, in O(N K^2); position_weights :
        float64 (N,), other parameters as in `infer`."""
        scores, tables = self.masked_scores(scores, edges)
        losses, expected = np.zeros(self.n_items), np.empty_like(scores)
        # One part with contexts: each part has counts of all tables, which may be thousands.
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

        pool.each(cuts.size - 1, run, INFERENCE_OPERATIONS * expected.size * self.n_states)
        sums = counts.sum(axis=0)
        transitions = sums.reshape(-1) if self.contexts is None else self.contexts.weighted(sums)
        return PositionInference(losses, expected, transitions)

    @cached_property
    def _by_context(self) -> Occurrences:
        """The positions of each context, without the first positions of items."""
        assert self.contexts is not None
        return self.contexts.by_context(self._inner)

    def _outer_products(self, before: Vector, here: Vector, pool: Pool) -> Vector:
        """Return the sums over the positions t of each context of the outer products of before[t - 1] and here[t],
        (C, K, K); before, here : (N, width)."""
        starts, places = self._by_context
        sums = np.zeros((starts.size - 1, self.n_states, self.n_states))
        cuts = cut_into_parts(starts)

        arrays = starts, places, before, here, sums
        pool.each(
            cuts.size - 1,
            lambda part: add_outer_products(cuts[part], cuts[part + 1], *arrays),
            places.size * self.n_states**2,
        )
        return sums

    @cached_property
    def _inner(self) -> NDArray[np.int64]:
        """The positions that are not the first of their item."""
        return ends_of(self.offsets)[2]

    def _places(self, labels: Labels) -> NDArray[np.int64]:
        """Return the indices of a labelling's transitions, to the positions `_inner`, in the tables of edge scores."""
        to = self._inner
        context = 0 if self.contexts is None else self.contexts.table_of[to]
        return self.edge_layout.numbers(labels[to - 1], labels[to], context)

    def _transitions(self, labels: Labels, weights: Vector | None) -> Vector:
        """Return the weighted counts of a labelling's transitions by index in the tables of edge scores."""
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
        """Return bounds on sum_i weight_i r_i^2 for every edge, (E,).

        An item of T positions has 0 to T - 1 transitions from a label to itself, and 0 to T // 2 to another label; with
        a single label r_i = 0. With a context, r_i is bounded by the sum of |x_tb| over the item.
        """
        lengths = np.diff(self.offsets)
        to_itself = weights @ np.maximum(lengths - 1, 0).astype(np.float64) ** 2
        plain = np.full((self.n_states, self.n_states), weights @ (lengths // 2).astype(np.float64) ** 2)
        np.fill_diagonal(plain, to_itself if self.n_states > 1 else 0.0)
        if self.contexts is None:
            return plain.reshape(-1)
        bounds = (self._of_items @ abs(self.contexts.rows[:, 1:])).power(2)
        by_feature = np.asarray(weights @ bounds, np.float64) * (self.n_states > 1)
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
        """Return the best labelling of each item and its score (Viterbi), -inf if none is allowed; ties go to the
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
        best = self.decode(np.where(allowed, 0.0, -np.inf), np.zeros(self.edge_layout.size), pool)
        return np.flatnonzero(best.score == -np.inf)


class PositionInference(NamedTuple):
    """Losses of a chain, and expectations given the label of one position, as weighted sums over the positions.

    losses : float64 (I,): -sum_t position_weights_t log P(y_t | x), without the weights of the items
    expected, counts : float64 (K, N), of the states, and (E,), of the edges; times the weights of the items
    """

    losses: Vector
    expected: Vector
    counts: Vector


def count_parts(n_items: int, n_states: int, n_lanes: int) -> int:
    """Return the number of parts of the items, which does not depend on the number of threads."""
    if n_states > MAX_LANE_STATES:
        return N_PARTS
    return min(max(1, n_items // (LANE_GROUPS_PER_PART * n_lanes)), N_PARTS)


class ItemPart(NamedTuple):
    """The items of a part that are not empty.

    in_lanes : items inferred in lanes, by descending length, so that neighbours have similar lengths
    longest : length of the first of them, 0 if there is none
    one_by_one : the other items, ascending
    """

    in_lanes: NDArray[np.int64]
    longest: int
    one_by_one: NDArray[np.int64]


def split_part(first: int, last: int, lengths: NDArray[np.int64], n_states: int, n_lanes: int) -> ItemPart:
    """Divide the items first ... last - 1; lengths : (I,).

    Items are inferred one by one if eight of their length do not fit into the cache. All items are if on average less
    than MIN_FILLED_LANES lanes would be filled.
    """
    items = first + np.flatnonzero(lengths[first:last])
    nothing = items[:0]
    if n_states > MAX_LANE_STATES:
        return ItemPart(nothing, 0, items)
    is_short = lengths[items] * n_states <= MAX_LANE_NUMBERS
    short = items[is_short]
    in_lanes = short[np.argsort(-lengths[short], kind="stable")]
    longest_of_groups = lengths[in_lanes[::n_lanes]]
    if lengths[in_lanes].sum() < MIN_FILLED_LANES * longest_of_groups.sum() or not in_lanes.size:
        return ItemPart(nothing, 0, items)
    return ItemPart(in_lanes, int(longest_of_groups[0]), items[~is_short])
