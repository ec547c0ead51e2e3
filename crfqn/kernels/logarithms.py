"""Forward-backward of one chain in logarithms: K^2 exponentials a position, but no score is too large.

For the rare items whose scores span so many orders of magnitude that a scaled message of `forward_backward.py` would
underflow; and probabilities of neighbouring labels and of whole spans. K states, N positions, I items, S spans.

Edges are one table, float64 (K, K), or the tables of contexts, (C, K, K): then table_of, int (N,), is the context of
each position, whose table leads to it from the position before. Which of the two is settled at compilation.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel

NO_TABLES = np.empty(0, np.int32)  # the contexts of positions where edges are one table


@subkernel
def table_at(edges, table_of, position):
    """Return the edge scores from the position before to `position`, (K, K)."""
    if edges.ndim == 2:
        return edges
    return edges[table_of[position]]


@subkernel
def log_sum_exp(values, n):
    """Return log sum_{k < n} exp(values[k])."""
    largest = values[0]
    for k in range(1, n):
        largest = values[k] if values[k] > largest else largest
    if largest == -np.inf:
        return largest
    total = 0.0
    for k in range(n):
        total += np.exp(values[k] - largest)
    return largest + np.log(total)


@subkernel
def normalise(values, n):
    """Subtract log sum exp from the first n values; returns it."""
    total = log_sum_exp(values, n)
    for k in range(n):
        values[k] -= total
    return total


@subkernel
def log_forward_step(t, first, row, table, alpha, work):
    """Write the forward message of a position with the scores `row` into alpha[t, k], from that of the position before
    unless it is the first; returns log c_t. work : scratch, (K,)"""
    n_states = table.shape[0]
    for k in range(n_states):
        alpha[t, k] = row[k]
        if t > first:
            for j in range(n_states):
                work[j] = alpha[t - 1, j] + table[j, k]
            alpha[t, k] += log_sum_exp(work, n_states)
    return normalise(alpha[t], n_states)


@subkernel
def log_backward_step(t, row, table, beta, work):
    """Write the backward message into beta[t, k], normalised, from that of the position behind, with the scores `row`;
    work : scratch, (K,)"""
    n_states = table.shape[0]
    for j in range(n_states):
        for k in range(n_states):
            work[k] = table[j, k] + row[k] + beta[t + 1, k]
        beta[t, j] = log_sum_exp(work, n_states)
    normalise(beta[t], n_states)


@subkernel
def log_forward(scores, edges, table_of, start, alpha, norms):
    """Write the forward messages of one item into alpha[t, k], sum_k exp(alpha[t, k]) = 1, and log c_t into norms.

    Returns log Z, the sum of the norms: that of a long item is so large that its rounding would show in the exponents
    of messages that are not normalised at every position, and the marginals would no longer sum to 1.
    """
    work, log_partition = np.empty(scores.shape[0]), 0.0
    for t in range(alpha.shape[0]):
        table = table_at(edges, table_of, start + t)
        norms[t] = log_forward_step(t, 0, scores[:, start + t], table, alpha, work)
        log_partition += norms[t]
    return log_partition


@subkernel
def log_backward(scores, edges, table_of, start, beta):
    """Write the backward messages of one item into beta[t, k], each normalised."""
    n_states, length = scores.shape[0], beta.shape[0]
    work = np.empty(n_states)
    for k in range(n_states):
        beta[length - 1, k] = 0.0
    for t in range(length - 2, -1, -1):
        at = start + t + 1
        log_backward_step(t, scores[:, at], table_at(edges, table_of, at), beta, work)


@subkernel
def log_pairs(scores, edges, position, alpha, beta, pairs):
    """Write P(y_t = j, y_{t+1} = k) into pairs[j, k]; alpha, beta: messages of t and of t + 1, at `position`."""
    n_states = scores.shape[0]
    work = np.empty(n_states)
    for j in range(n_states):
        for k in range(n_states):
            pairs[j, k] = alpha[j] + (edges[j, k] + scores[k, position] + beta[k])
        work[j] = log_sum_exp(pairs[j], n_states)
    total = log_sum_exp(work, n_states)
    for j in range(n_states):
        for k in range(n_states):
            pairs[j, k] = np.exp(pairs[j, k] - total)


@subkernel
def log_item(scores, edges, table_of, start, weight, psi, alpha, beta, edge_counts):
    """Write the node marginals of one item into beta[t, k], and add its weighted pair marginals to `edge_counts`.

    Returns log Z and weight * <edges, pair marginals>. alpha, beta, psi (length, >= K) are scratch; psi and alpha are
    left zero, so that the caller's outer product over the chunk adds nothing more.
    """
    n_states, length = scores.shape[0], alpha.shape[0]
    pairs = np.empty((n_states, n_states))
    log_partition = log_forward(scores, edges, table_of, start, alpha, np.empty(length))
    log_backward(scores, edges, table_of, start, beta)
    expected = 0.0
    for t in range(length - 1):
        table = table_at(edges, table_of, start + t + 1)
        counts = table_at(edge_counts, table_of, start + t + 1)
        log_pairs(scores, table, start + t + 1, alpha[t], beta[t + 1], pairs)
        # A sum beside a store is taken in another order where arrays happen to lie close together in memory.
        for j in range(n_states):
            for k in range(n_states):
                expected += weight * pairs[j, k] * table[j, k] if pairs[j, k] > 0.0 else 0.0
        for j in range(n_states):
            for k in range(n_states):
                counts[j, k] += weight * pairs[j, k]
    for t in range(length):
        for k in range(n_states):
            beta[t, k] += alpha[t, k]
        normalise(beta[t], n_states)
        for k in range(n_states):
            beta[t, k] = np.exp(beta[t, k])
        beta[t, n_states:] = 0.0  # recursions that have failed may have left NaN
        alpha[t] = 0.0
        psi[t] = 0.0
    return log_partition, expected


# A span of a type on the positions s ... e - 1 is the event that y_s begins it, every label up to y_{e-1} continues it
# and y_e, if there is one, does not. The forward recursion restricted to this event, from a_{s-1} on,
#
#     g_s(k) = psi_s(k) sum_{j: k does not continue j} a_{s-1}(j) M(j, k) / c_s
#     g_t(k) = psi_t(k) sum_{j: k continues j} g_{t-1}(j) M(j, k) / c_t           k of the type
#
# ends with what y_e and the backward message allow, and is compared with the same sum of the unrestricted a_{e-1}.


@kernel
def pair_marginals(first, last, offsets, firsts, scores, edges, table_of, pairs):
    """Write P(y_t = j, y_{t+1} = k) of the items first ... last - 1 into pairs, float64 (M, K, K); firsts : int64 (I,),
    where an item's pairs begin; it has one fewer than positions."""
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        if length < 2:
            continue
        alpha, beta = np.empty((length, scores.shape[0])), np.empty((length, scores.shape[0]))
        log_forward(scores, edges, table_of, start, alpha, np.empty(length))
        log_backward(scores, edges, table_of, start, beta)
        for t in range(length - 1):
            table = table_at(edges, table_of, start + t + 1)
            log_pairs(scores, table, start + t + 1, alpha[t], beta[t + 1], pairs[firsts[i] + t])


@subkernel
def extend_span(at, kind, goes_on, messages, scores, edges, type_of, continues, norm, span, work):
    """Write log g of position `at` into span, float64 (K,), given the messages of the position before: the forward
    message where a span of type `kind` begins, log g where it goes on."""
    n_states = edges.shape[0]
    for k in range(n_states):
        span[k] = -np.inf
        if type_of[k] == kind:
            for j in range(n_states):
                work[j] = messages[j] + edges[j, k] if continues[j, k] == goes_on else -np.inf
            span[k] = log_sum_exp(work, n_states) + scores[k, at] - norm


@subkernel
def end_span(at, scores, edges, continues, message, span, beta, work, others):
    """Return log of the sum over what may follow a span at `at`, less that of the unrestricted forward message."""
    n_states = edges.shape[0]
    within, total = np.empty(n_states), np.empty(n_states)
    for j in range(n_states):
        for k in range(n_states):
            onwards = edges[j, k] + scores[k, at] + beta[k]
            work[k] = -np.inf if continues[j, k] else span[j] + onwards
            others[k] = message[j] + onwards
        within[j], total[j] = log_sum_exp(work, n_states), log_sum_exp(others, n_states)
    return log_sum_exp(within, n_states) - log_sum_exp(total, n_states)


@kernel
def span_log_probabilities(
    first, last, offsets, scores, edges, table_of, heads, starts, stops, kinds, type_of, continues, out
):
    """Find the log-probability of each span of the items first ... last - 1, float64 (S,).

    heads : int64 (I + 1,), where the items' spans begin; starts, stops : int64 (S,), positions of all items
    kinds, type_of : int64 (S,), types of the spans; int64 (K,), of the states, -1 outside of spans
    continues : bool (K, K), whether a label belongs to the span of the one before it
    """
    n_states = scores.shape[0]
    span, before = np.empty(n_states), np.empty(n_states)
    work, others = np.empty(n_states), np.empty(n_states)
    for i in range(first, last):
        begin, length = offsets[i], offsets[i + 1] - offsets[i]
        if heads[i] == heads[i + 1]:
            continue
        alpha, beta, norms = np.empty((length, n_states)), np.empty((length, n_states)), np.empty(length)
        log_forward(scores, edges, table_of, begin, alpha, norms)
        log_backward(scores, edges, table_of, begin, beta)
        for n in range(heads[i], heads[i + 1]):
            s, e, kind = starts[n] - begin, stops[n] - begin, kinds[n]
            if s == 0:
                for k in range(n_states):
                    span[k] = alpha[0, k] if type_of[k] == kind else -np.inf
            else:
                table = table_at(edges, table_of, starts[n])
                extend_span(
                    starts[n],
                    kind,
                    False,
                    alpha[s - 1],
                    scores,
                    table,
                    type_of,
                    continues,
                    norms[s],
                    span,
                    work,
                )
            for t in range(s + 1, e):
                for k in range(n_states):
                    before[k] = span[k]
                table = table_at(edges, table_of, begin + t)
                extend_span(
                    begin + t, kind, True, before, scores, table, type_of, continues, norms[t], span, work
                )
            if e == length:
                out[n] = log_sum_exp(span, n_states)
            else:
                message, behind, table = alpha[e - 1], beta[e], table_at(edges, table_of, stops[n])
                out[n] = end_span(stops[n], scores, table, continues, message, span, behind, work, others)
