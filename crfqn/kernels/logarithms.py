"""Forward-backward of one chain in logarithms: K^2 exponentials a position, for scores of any size.

    alpha_t(k) = s_t(k) + log sum_j exp(alpha_{t-1}(j) + edge(j, k)) - log c_t
    beta_t(j) = log sum_k exp(edge(j, k) + s_{t+1}(k) + beta_{t+1}(k)), up to a number for each t

`forward_backward.py` leaves to it the rare items whose scaled messages would underflow. The probabilities of
neighbouring labels and of whole spans are also computed here.

Edges are one table, float64 (K, K), or the tables of contexts, (C, K, K). In the latter case table_of, int (N,), is the
context of each position; its table leads from the previous position to this one. The case is decided at compilation.
Shapes: K states, N positions, I items, S spans.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel

NO_TABLES = np.empty(0, np.int32)  # `table_of` of chains whose edges are one table


@subkernel
def table_at(edges, table_of, position):
    """Return the edge scores from the previous position to `position`, (K, K)."""
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
    """Subtract log sum exp of the first n values from them; return it."""
    total = log_sum_exp(values, n)
    for k in range(n):
        values[k] -= total
    return total


@subkernel
def log_forward_step(t, first, row, table, alpha, work):
    """Write the forward message of position t into alpha[t, k], from alpha[t - 1] unless t is the first one; return
    log c_t.

    row : the scores of the position, (K,); table : edges to it; work : workspace, (K,)
    """
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
    """Write the normalised backward message of position t into beta[t, k], from beta[t + 1].

    row : the scores of position t + 1, (K,); table : edges to it; work : workspace, (K,)
    """
    n_states = table.shape[0]
    for j in range(n_states):
        for k in range(n_states):
            work[k] = table[j, k] + row[k] + beta[t + 1, k]
        beta[t, j] = log_sum_exp(work, n_states)
    normalise(beta[t], n_states)


@subkernel
def log_forward(scores, edges, table_of, start, alpha, norms):
    """Write the forward messages of one item into alpha[t, k], sum_k exp(alpha[t, k]) = 1, and log c_t into norms;
    return log Z, the sum of the norms.

    Messages are normalised at every position: log Z of a long item is so large that its rounding error would otherwise
    be in the exponents, and the marginals would not sum to 1.
    """
    work, log_partition = np.empty(scores.shape[0]), 0.0
    for t in range(alpha.shape[0]):
        table = table_at(edges, table_of, start + t)
        norms[t] = log_forward_step(t, 0, scores[:, start + t], table, alpha, work)
        log_partition += norms[t]
    return log_partition


@subkernel
def log_backward(scores, edges, table_of, start, beta):
    """Write the normalised backward messages of one item into beta[t, k]."""
    n_states, length = scores.shape[0], beta.shape[0]
    work = np.empty(n_states)
    for k in range(n_states):
        beta[length - 1, k] = 0.0
    for t in range(length - 2, -1, -1):
        at = start + t + 1
        log_backward_step(t, scores[:, at], table_at(edges, table_of, at), beta, work)


@subkernel
def log_pairs(scores, edges, position, alpha, beta, pairs):
    """Write P(y_t = j, y_{t+1} = k) into pairs[j, k]; alpha, beta : messages of t and of t + 1; position : t + 1."""
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
    """Write the node marginals of one item into beta[t, k], and add its weighted pair marginals to `edge_counts`;
    return log Z and weight * <edges, pair marginals>.

    alpha, psi : workspaces, (length, >= K), zeros on return: the item adds nothing to the outer product of its chunk
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
        # Two loops: in a loop that also stores, the order of the sum depends on the arrays' distance in memory.
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
        beta[t, n_states:] = 0.0  # scaled recursions that failed may have written NaN
        alpha[t] = 0.0
        psi[t] = 0.0
    return log_partition, expected


# The event of a span of some type on the positions s ... e - 1 is: y_s begins the span, every label up to y_{e-1}
# continues it, and y_e, if there is one, does not. The forward recursion restricted to this event, from a_{s-1} on, is
#
#     g_s(k) = psi_s(k) sum_{j: k does not continue j} a_{s-1}(j) M(j, k) / c_s
#     g_t(k) = psi_t(k) sum_{j: k continues j} g_{t-1}(j) M(j, k) / c_t           k of the type
#
# The probability of the span is the sum of g_{e-1} over the labels y_e that end it, weighted by the backward message,
# divided by the same sum of the unrestricted a_{e-1} over all labels y_e.


@kernel
def pair_marginals(first, last, offsets, firsts, scores, edges, table_of, pairs):
    """Write P(y_t = j, y_{t+1} = k) of the items first ... last - 1 into pairs, float64 (M, K, K); firsts : int64 (I,),
    the first pair of each item."""
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
    """Write log g of position `at` into span, float64 (K,), for spans of type `kind`.

    messages : of the previous position: the forward message if the span begins at `at`, log g if it continues
    goes_on : whether it continues; norm : log c_t
    """
    n_states = edges.shape[0]
    for k in range(n_states):
        span[k] = -np.inf
        if type_of[k] == kind:
            for j in range(n_states):
                work[j] = messages[j] + edges[j, k] if continues[j, k] == goes_on else -np.inf
            span[k] = log_sum_exp(work, n_states) + scores[k, at] - norm


@subkernel
def end_span(at, scores, edges, continues, message, span, beta, work, others):
    """Return the log of the sum of g over the labels that may follow the span at `at`, minus the log of the sum of the
    unrestricted forward message over all labels."""
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
    """Write the log-probability of each span of the items first ... last - 1 into out, float64 (S,).

    heads : int64 (I + 1,), the first span of each item, and S
    starts, stops : int64 (S,), numbered over the positions of all items
    kinds : int64 (S,), types of the spans; type_of : int64 (K,), types of the states, -1 for none
    continues : bool (K, K), whether the second label belongs to the span of the first
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
                    starts[n], kind, False, alpha[s - 1], scores, table, type_of, continues, norms[s], span,
                    work,
                )  # fmt: skip
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
                message, backward, table = alpha[e - 1], beta[e], table_at(edges, table_of, stops[n])
                out[n] = end_span(stops[n], scores, table, continues, message, span, backward, work, others)
