"""The marginal log-likelihood of every position of a chain, and its gradient, from the messages of forward-backward.

For weights a_t >= 0 the loss of an item is -sum_t a_t log P(y_t | x). Its gradient is sum_t a_t times the difference
of the expected features and the expected features given y_t (Kakade, Teh and Roweis 2002, "An alternate objective
function for Markovian fields"). The labels of a chain are Markov in both directions, also given y_t. Two recursions
over mixtures therefore compute the sum of all conditional expectations in O(K^2) a position:

    F_t(k) = sum_j F_{t-1}(j) P(y_t = k | y_{t-1} = j, x) + a_t [k = y_t]
    B_t(j) = sum_k P(y_t = j | y_{t+1} = k, x) B_{t+1}(k) + a_t [j = y_t]

The messages are those of `forward_backward.py`. Items whose scaled messages could underflow have messages in
logarithms, with K^2 exponentials a position.

Shapes: K states, N positions, I items; edges and table_of as in `logarithms.py`; rows of K rounded up to LANES.
"""

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.forward_backward import MAX_SCORE_RANGE, load_scores, longest_item, pass_messages
from crfqn.kernels.logarithms import log_backward, log_forward, log_sum_exp, table_at
from crfqn.kernels.rows import new_rows

MIN_PROBABILITY = 1e-200  # numerical guard: smaller probabilities of a mixture are treated as 0
MIN_ACCURATE_NUMBER = 1e-250  # numerical guard: smaller products of scaled messages may have lost digits


@inner
def pass_onwards(factors, ahead, mixture, following, counts):
    """Propagate a mixture over the labels to the next position: add it to `following` and its transitions to `counts`.

    ahead : psi times beta of the next position, (K,)
    """
    n_states = counts.shape[0]
    for j in range(n_states):
        if mixture[j] > MIN_PROBABILITY:
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
    """Propagate a mixture to the previous position, with the forward message alpha; work : workspace, (K,)."""
    n_states = counts.shape[0]
    for k in range(n_states):
        work[k] = 0.0
    for j in range(n_states):
        for k in range(n_states):
            work[k] += alpha[j] * factors[j, k]
    for k in range(n_states):
        work[k] = mixture[k] / work[k] if mixture[k] > MIN_PROBABILITY else 0.0
    for j in range(n_states):
        total = 0.0
        for k in range(n_states):
            amount = alpha[j] * factors[j, k] * work[k]
            counts[j, k] += amount
            total += amount
        preceding[j] += total


@subkernel
def exponentiate_steps(table, message, is_back, steps):
    """Write exp(table[j, k] + message[k] - m_j) into steps[j, k], m_j the largest exponent of row j; with `is_back`
    exp(table[j, k] + message[j] - m_k), m_k the largest of column k. `pass_onwards` and `pass_back` normalise them."""
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
    """Return whether scaled messages give the probabilities of an item's labels without a loss of digits."""
    for t in range(alpha.shape[0]):
        label = targets[start + t]
        if not (
            alpha[t, label] > MIN_ACCURATE_NUMBER
            and p[t, label] > MIN_ACCURATE_NUMBER
            and scale[t] * MIN_ACCURATE_NUMBER < 1.0
        ):
            return False
    return True


@kernel
def position_log_losses(
    items, offsets, scores, edges, factors, transposed, range_of_edges, table_of, targets, position_weights, weights,
    losses, expected, counts,
):  # fmt: skip
    """Compute the losses of some items, int64 (n,), and the expectations given the label of one position at a time.

    factors : float64 (K, width), M, or M_c of contexts, (C, K, width)
    transposed : float64 (K, width), M transposed, if edges are one table
    range_of_edges : the largest difference of two edge scores above -inf
    position_weights : float64 (N,), a_t; weights : float64 (I,), of the items
    losses : float64 (I,), out: -sum_t a_t log P(y_t | x), without the item's weight
    expected : float64 (K, N), out: sum_s a_s P(y_t = k | y_s, x), times the item's weight
    counts : float64 of the shape of `edges`, in and out: += the expected transitions, weighted in the same way
    """
    n_states, width, rows = scores.shape[0], factors.shape[-1], longest_item(items, offsets)
    u, alpha = new_rows(rows, width), new_rows(rows, width)
    p, beta = new_rows(rows, width), new_rows(rows, width)
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
        is_log = not widest + 2.0 * range_of_edges < MAX_SCORE_RANGE
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
            # The label of a position is in both recursions; it counts once.
            expected[targets[start + t], start + t] -= weights[i] * position_weights[start + t]
