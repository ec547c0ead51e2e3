"""The marginal log-likelihood of every position of a chain, and its gradient, from the messages of forward-backward.

For weights a_t >= 0 the loss of an item is -sum_t a_t log P(y_t | x). The gradient by a score is sum_t a_t times what
is expected less what is expected given y_t (Kakade, Teh and Roweis 2002, "An alternate objective function for Markovian
fields"). As the labels of a chain are Markov in both directions, given y_t too, two recursions over mixtures give all
of the latter at once, in O(K^2) a position:

    F_t(k) = sum_j F_{t-1}(j) P(y_t = k | y_{t-1} = j, x) + a_t [k = y_t]
    B_t(j) = sum_k P(y_t = j | y_{t+1} = k, x) B_{t+1}(k) + a_t [j = y_t]

Messages are those of `forward_backward.py`; items whose scores span too many orders of magnitude for that have messages
in logarithms, with K^2 exponentials a position.

Shapes: K states, N positions, I items; edges and table_of as in `logarithms.py`; rows of K rounded up to LANES.
"""

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import LARGEST_RANGE, load_scores, longest_item, pass_messages
from crfqn.kernels.logarithms import log_backward, log_forward, log_sum_exp, table_at
from crfqn.kernels.rows import new_rows

NEGLIGIBLE = 1e-200  # probabilities: what is less adds nothing to sums of larger ones
TINY = 1e-250  # numbers that may have lost digits


@inner
def pass_onwards(factors, ahead, mixture, following, counts):
    """Add the next position's share of a mixture over the labels to `following`, and the transitions to `counts`;
    ahead : psi times beta of the next position, (K,)."""
    n_states = counts.shape[0]
    for j in range(n_states):
        if mixture[j] > NEGLIGIBLE:
            total = 0.0
            for k in range(n_states):
                total += factors[j, k] * ahead[k]
            ratio = mixture[j] / total
            for k in range(n_states):
                amount = ratio * factors[j, k] * ahead[k]
                following[k] += amount
                counts[j, k] += amount


@inner
def pass_back(factors, alpha, mixture, preceding, counts, work):
    """Do the same towards the position before; alpha : its forward message; work : scratch, (K,)."""
    n_states = counts.shape[0]
    for k in range(n_states):
        work[k] = 0.0
    for j in range(n_states):
        for k in range(n_states):
            work[k] += alpha[j] * factors[j, k]
    for k in range(n_states):
        work[k] = mixture[k] / work[k] if mixture[k] > NEGLIGIBLE else 0.0
    for j in range(n_states):
        total = 0.0
        for k in range(n_states):
            amount = alpha[j] * factors[j, k] * work[k]
            counts[j, k] += amount
            total += amount
        preceding[j] += total


@subkernel
def exponentiate_steps(table, message, is_back, steps):
    """Write exp(table[j, k] + message[k] - the largest of row j) into steps[j, k]; with `is_back` message[j] and the
    largest of column k. `pass_onwards` and `pass_back` make probabilities of them."""
    n_states = table.shape[0]
    for given in range(n_states):
        largest = -np.inf
        for other in range(n_states):
            edge = table[other, given] if is_back else table[given, other]
            largest = max(largest, edge + message[other])
        for other in range(n_states):
            edge = table[other, given] if is_back else table[given, other]
            step = np.exp(edge + message[other] - largest) if largest > -np.inf else 0.0
            if is_back:
                steps[other, given] = step
            else:
                steps[given, other] = step


@subkernel
def has_digits(start, targets, alpha, scale, p):
    """Return whether scaled messages give the probabilities of an item's labels to all digits."""
    for t in range(alpha.shape[0]):
        label = targets[start + t]
        if not (alpha[t, label] > TINY and p[t, label] > TINY and scale[t] * TINY < 1.0):
            return False
    return True


@kernel
def position_log_losses(
    items, offsets, scores, edges, factors, transposed, range_of_edges, table_of, targets, position_weights, weights,
    losses, expected, counts,
):  # fmt: skip
    """Compare some items, int64 (n,), with the labels of their positions, one at a time.

    factors : float64 (K, width), M, or of contexts (C, K, width); transposed : of the former, (K, width)
    range_of_edges : the largest difference of two edge scores above -inf
    position_weights : float64 (N,), a_t; weights : float64 (I,), of the items
    losses : float64 (I,), out: -sum_t a_t log P(y_t | x), unweighted
    expected : float64 (K, N), out: sum_s a_s P(y_t = k | y_s, x), times the item's weight
    counts : float64 of the shape of `edges`, in and out: the transitions expected likewise are added
    """
    n_states, width, rows = scores.shape[0], factors.shape[-1], longest_item(items, offsets)
    u, alpha, p, beta = (
        new_rows(rows, width),
        new_rows(rows, width),
        new_rows(rows, width),
        new_rows(rows, width),
    )
    mixture, steps = new_rows(rows, width), new_rows(n_states, width)
    shift, spread, scale = np.empty(rows), np.empty(rows), np.empty(rows)
    work, ones = np.empty(width), np.ones(width)
    for i in items:
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        losses[i], widest = 0.0, 0.0
        if length == 0:
            continue
        load_scores(scores, start, length, beta, u, shift, spread)
        for t in range(length):
            widest = max(widest, spread[t])
        is_log = not widest + 2.0 * range_of_edges < LARGEST_RANGE
        if not is_log:
            contexts = table_of[start : start + length]
            log_scale = pass_messages(
                u[:length], factors, transposed, contexts, n_states, alpha[:length], scale, p[:length], 1.0
            )
            is_log = np.isnan(log_scale) or not has_digits(start, targets, alpha[:length], scale, p)
        if is_log:
            log_forward(scores, edges, table_of, start, alpha[:length], scale)
            log_backward(scores, edges, table_of, start, beta[:length])
        for t in range(length):
            label, weight = targets[start + t], position_weights[start + t]
            if is_log and weight > 0.0:
                for k in range(n_states):
                    work[k] = alpha[t, k] + beta[t, k]
                losses[i] += weight * (log_sum_exp(work, n_states) - work[label])
            elif weight > 0.0:
                losses[i] -= weight * np.log(p[t, label])
            for k in range(n_states):
                mixture[t, k] = 0.0
            mixture[t, label] = weights[i] * weight
        for t in range(start + 1, start + length):
            here, sums = t - start, table_at(counts, table_of, t)
            if is_log:
                for k in range(n_states):
                    work[k] = scores[k, t] + beta[here, k]
                exponentiate_steps(table_at(edges, table_of, t), work, False, steps)
                pass_onwards(steps, ones, mixture[here - 1], mixture[here], sums)
            else:
                table = table_at(factors, table_of, t)
                pass_onwards(table, u[here], mixture[here - 1], mixture[here], sums)
        for t in range(length):
            label = targets[start + t]
            for k in range(n_states):
                expected[k, start + t] = mixture[t, k]
                mixture[t, k] = 0.0
            mixture[t, label] = weights[i] * position_weights[start + t]
        for t in range(start + length - 1, start, -1):
            here, sums = t - start, table_at(counts, table_of, t)
            if is_log:
                exponentiate_steps(table_at(edges, table_of, t), alpha[here - 1], True, steps)
                pass_back(steps, ones, mixture[here], mixture[here - 1], sums, work)
            else:
                table = table_at(factors, table_of, t)
                pass_back(table, alpha[here - 1], mixture[here], mixture[here - 1], sums, work)
        for t in range(length):
            for k in range(n_states):
                expected[k, start + t] += mixture[t, k]
            # Each position's own label counts once.
            expected[targets[start + t], start + t] -= weights[i] * position_weights[start + t]
