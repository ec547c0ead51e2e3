"""Forward-backward over items whose transitions depend on what is observed: a table of edge scores for each context.

The recursions are those of `forward_backward.py`, with M_c = exp(edges of context c - their largest) in the place of M.
Positions with the same context share its table, so that exponentials are taken by context, and so are the counts:

    expected transitions of context c = M_c * sum over its positions t of a_{t-1} u_t'

Shapes: C contexts, K states, width = K rounded up to LANES, N positions, I items; tables float64 (C, K, K), from x to;
table_of int32 (N,), the context of each position, whose table leads to it from the position before.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.forward_backward import (
    LARGEST_RANGE,
    chunk_end,
    expected_scores,
    load_scores,
    longest_item,
    pass_messages,
    store_marginals,
)
from crfqn.kernels.logarithms import log_item
from crfqn.kernels.rows import exp_in_place, new_rows


@kernel
def exponentiate_tables(first, last, tables, factors, largest, ranges):
    """Write M of the contexts first ... last - 1 into factors, float64 (C, K, width), zeros in the padding and where a
    score is -inf; largest, ranges : float64 (C,), out: the largest score, and its distance to the smallest above
    -inf."""
    n_states, width = factors.shape[1:]
    for c in range(first, last):
        most, least = -np.inf, np.inf
        for j in range(n_states):
            for k in range(n_states):
                score = tables[c, j, k]
                most = max(most, score)
                least = min(least, score) if score > -np.inf else least
        largest[c], ranges[c] = most if most > -np.inf else 0.0, most - least if most > -np.inf else 0.0
        for j in range(n_states):
            for k in range(width):
                factors[c, j, k] = tables[c, j, k] - largest[c] if k < n_states else -np.inf
            exp_in_place(factors[c, j])
            for k in range(width):
                if k >= n_states or tables[c, j, k] == -np.inf:
                    factors[c, j, k] = 0.0


@kernel
def forward_backward_tables(
    items, offsets, scores, factors, largest, ranges, table_of, weights, alpha, u, marginals, sums, refused
):
    """Run both recursions over some items, int64 (n,), ascending.

    alpha, u : float64 (N, width), zeros, in and out: a_t, and weight * u_t, zero at an item's first position
    marginals : float64 (K, N), out: weight * P(y_t = k)
    sums : float64 (I, 2), out, in nats: log partition, expected node score, unweighted
    refused : bool (I,), out: whether a message could have underflowed; alpha and u of such an item are zero
    """
    n_states, width = scores.shape[0], factors.shape[2]
    rows = longest_item(items, offsets)
    p, centred = new_rows(rows, width), new_rows(rows, width)
    shift, spread, scale = np.empty(rows), np.empty(rows), np.empty(rows)
    place = 0
    while place < items.size:
        behind = chunk_end(place, items, offsets)
        start, stop = offsets[items[place]], offsets[items[behind - 1] + 1]
        length = stop - start
        load_scores(scores, start, length, centred, u[start:stop], shift, spread)
        for i in range(items[place], items[behind - 1] + 1):
            first, last = offsets[i], offsets[i + 1]
            a, b, widest, steepest, base = first - start, last - start, 0.0, 0.0, 0.0
            for t in range(a, b):
                widest, base = max(widest, spread[t]), base + shift[t]
                if t > a:
                    steepest = max(steepest, ranges[table_of[start + t]])
                    base += largest[table_of[start + t]]
            sums[i, 0] = base
            if a == b:
                continue
            refused[i] = not widest + 2 * steepest < LARGEST_RANGE
            if not refused[i]:
                log_scale = pass_messages(
                    u[first:last], factors, factors[0], table_of[first:last], n_states, alpha[first:last],
                    scale[a:b], p[a:b], weights[i],
                )  # fmt: skip
                sums[i, 0] += log_scale
                refused[i] = np.isnan(log_scale)
            if refused[i]:
                u[first:last] = 0.0
                alpha[first:last] = 0.0
        store_marginals(p, start, length, marginals)
        expected_scores(p, centred, shift, length, scale)
        for i in range(items[place], items[behind - 1] + 1):
            sums[i, 1] = 0.0
            for t in range(offsets[i], offsets[i + 1]):
                sums[i, 1] += scale[t - start]
                for k in range(n_states):
                    marginals[k, t] *= weights[i]
        place = behind


@kernel
def infer_in_logarithms(items, offsets, scores, tables, table_of, weights, marginals, counts, sums):
    """Do for some items in logarithms what `forward_backward_tables` has refused, and add their weighted expected
    transitions to counts, float64 (C, K, K)."""
    n_states = scores.shape[0]
    for i in items:
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        psi, alpha, p = np.empty((3, length, n_states))
        sums[i, 0], _ = log_item(scores, tables, table_of, start, weights[i], psi, alpha, p, counts)
        sums[i, 1] = 0.0
        for t in range(length):
            for k in range(n_states):
                sums[i, 1] += p[t, k] * scores[k, start + t] if p[t, k] > 0.0 else 0.0
                marginals[k, start + t] = weights[i] * p[t, k]


@kernel
def add_outer_products(first, last, starts, places, before, here, sums):
    """sums[c, j, k] += sum_t before[t - 1, j] here[t, k] over the positions t of the contexts first ... last - 1.

    starts, places : int64 (C + 1,) and (n,): places[starts[c]] ... are the positions of context c
    before, here : float64 (N, width); sums : float64 (C, K, K), in and out
    """
    n_states, width = sums.shape[1], here.shape[1]
    raw = new_rows(n_states, width)
    for c in range(first, last):
        for j in range(n_states):
            for k in range(width):
                raw[j, k] = 0.0
        for e in range(starts[c], starts[c + 1]):
            t = places[e]
            for j in range(n_states):
                factor = before[t - 1, j]
                if factor != 0.0:
                    for k in range(width):
                        raw[j, k] += factor * here[t, k]
        for j in range(n_states):
            for k in range(n_states):
                sums[c, j, k] += raw[j, k]
