"""Forward-backward of one chain in logarithms: K^2 exponentials a position, but no score is too large.

The same results as the scaled recursions in `forward_backward.py`, for the rare items whose scores span so many orders
of magnitude that a scaled message would underflow. Shapes: K states.
"""

import numpy as np

from crfqn.kernels import subkernel


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
def log_forward(scores, edges, start, alpha, norms):
    """Write the forward messages of one item into alpha[t, k], sum_k exp(alpha[t, k]) = 1, and log c_t into norms.

    Returns log Z, the sum of the norms. Messages are normalised at every position: log Z of a long item is so large
    that its rounding would show in the exponents, and the marginals would no longer sum to 1.
    """
    n_states, length = scores.shape[0], alpha.shape[0]
    work = np.empty(n_states)
    log_partition = 0.0
    for t in range(length):
        for k in range(n_states):
            alpha[t, k] = scores[k, start + t]
            if t > 0:
                for j in range(n_states):
                    work[j] = alpha[t - 1, j] + edges[j, k]
                alpha[t, k] += log_sum_exp(work, n_states)
        norms[t] = normalise(alpha[t], n_states)
        log_partition += norms[t]
    return log_partition


@subkernel
def log_backward(scores, edges, start, beta):
    """Write the backward messages of one item into beta[t, k], each normalised."""
    n_states, length = scores.shape[0], beta.shape[0]
    work = np.empty(n_states)
    for k in range(n_states):
        beta[length - 1, k] = 0.0
    for t in range(length - 2, -1, -1):
        for j in range(n_states):
            for k in range(n_states):
                work[k] = edges[j, k] + scores[k, start + t + 1] + beta[t + 1, k]
            beta[t, j] = log_sum_exp(work, n_states)
        normalise(beta[t], n_states)


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
def log_item(scores, edges, start, weight, psi, alpha, beta, edge_counts):
    """Write the node marginals of one item into beta[t, k], and add its weighted pair marginals to `edge_counts`.

    Returns log Z and the weighted expected edge score, weight * <edges, pair marginals>.
    alpha, beta, psi: float64 (length, >= K), scratch; psi and alpha are left zero, so that the caller's
    outer product over the chunk adds nothing more.
    """
    n_states, length = scores.shape[0], alpha.shape[0]
    pairs = np.empty((n_states, n_states))
    log_partition = log_forward(scores, edges, start, alpha, np.empty(length))
    log_backward(scores, edges, start, beta)
    expected = 0.0
    for t in range(length - 1):
        log_pairs(scores, edges, start + t + 1, alpha[t], beta[t + 1], pairs)
        for j in range(n_states):
            for k in range(n_states):
                if pairs[j, k] > 0.0:
                    edge_counts[j, k] += weight * pairs[j, k]
                    expected += weight * pairs[j, k] * edges[j, k]
    for t in range(length):
        for k in range(n_states):
            beta[t, k] += alpha[t, k]
        normalise(beta[t], n_states)
        for k in range(n_states):
            beta[t, k] = np.exp(beta[t, k])
            alpha[t, k] = 0.0
            psi[t, k] = 0.0
    return log_partition, expected
