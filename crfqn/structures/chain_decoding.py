"""The n best labellings of chains, and the probabilities of pairs of neighbours and of whole spans.

Scores (K, N) and edges in nats as in `Chain.infer`; -inf forbids a state or a transition. Items without an allowed
labelling have no best ones, and undefined probabilities. Shapes: K states, N positions, I items, S spans.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.kernels.logarithms import pair_marginals, span_log_probabilities
from crfqn.kernels.viterbi import best_paths
from crfqn.structures.chain import Chain
from crfqn.structures.item_chain import check_n_best
from crfqn.structures.span_rules import SpanRules, Spans
from crfqn.threads import Pool, cut_into_parts


class BestLabellings(NamedTuple):
    """The n best labellings of each item, the best first.

    states, score : (n, N) and (n, I), in nats
    counts : (I,), the number of labellings: n, or all if an item has fewer
    """

    states: NDArray[np.int32]
    score: Vector
    counts: NDArray[np.int64]


def each_run(chain: Chain, run: Callable[[int, int], object], pool: Pool, n_operations: float) -> None:
    """Call run(first, last) for runs of items, in threads."""
    runs = [(first, last) for first, last in pairwise(cut_into_parts(chain.offsets)) if first < last]
    pool.each(len(runs), lambda part: run(*runs[part]), n_operations)


def n_best(chain: Chain, scores: Vector, edges: Vector, n: int, pool: Pool) -> BestLabellings:
    """Return the n best labellings of each item; ties go to the lower last state, then to the lower previous one.

    Typically O(N K (K + n)) time; 8 T K n bytes in each thread for the longest item, of T positions.
    """
    scores, edges = chain.masked_scores(scores, edges)
    longest = int(np.diff(chain.offsets).max(initial=0))
    check_n_best(n, longest, chain.n_states, scores.shape[1])
    states = np.empty((n, scores.shape[1]), np.int32)
    best, counts = np.full((n, chain.n_items), -np.inf), np.zeros(chain.n_items, np.int64)
    edges_to = np.ascontiguousarray(edges.swapaxes(-2, -1))
    arrays = chain.offsets, scores, edges_to, chain.table_of, n, states, best, counts
    each_run(chain, lambda *items: best_paths(*items, *arrays), pool, scores.size * (chain.n_states + n))
    return BestLabellings(states, best, counts)


def pairs_of(chain: Chain, scores: Vector, edges: Vector, pool: Pool) -> list[Vector]:
    """Return P(y_t = j, y_{t+1} = k) of each item, float64 (T - 1, K, K), or (0, K, K) for an empty item."""
    scores, edges = chain.masked_scores(scores, edges)
    sizes = np.maximum(np.diff(chain.offsets) - 1, 0)
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = np.empty((int(firsts[-1]), chain.n_states, chain.n_states))
    arrays = chain.offsets, firsts, scores, edges, chain.table_of, pairs
    each_run(chain, lambda *items: pair_marginals(*items, *arrays), pool, 8 * scores.size * chain.n_states)
    return np.split(pairs, firsts[1:-1]) if chain.n_items else []


def span_probabilities(
    chain: Chain, scores: Vector, edges: Vector, spans: Spans, rules: SpanRules, pool: Pool
) -> Vector:
    """Return for each span the probability that a labelling has exactly this span, (S,).

    O(T K^2) for an item with spans. All is computed in logarithms, with K^2 exponentials a position.
    """
    scores, edges = chain.masked_scores(scores, edges)
    heads = np.searchsorted(spans.starts, chain.offsets)
    out = np.empty(spans.starts.size)
    arrays = chain.offsets, scores, edges, chain.table_of, heads, *spans, rules.type_of, rules.continues, out
    n_operations = 16 * scores.size * chain.n_states
    each_run(chain, lambda *items: span_log_probabilities(*items, *arrays), pool, n_operations)
    return np.exp(np.minimum(out, 0.0))
