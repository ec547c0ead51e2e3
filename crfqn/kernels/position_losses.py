"""The marginal log-likelihood of every position of a chain, and its gradient, by recursions in logarithms.

For weights a_t >= 0 the loss of an item is -sum_t a_t log P(y_t | x). The gradient by a score is sum_t a_t times what
is expected less what is expected given y_t (Kakade, Teh and Roweis 2002, "An alternate objective function for Markovian
fields"). As the labels of a chain are Markov in both directions, given y_t too, two recursions over mixtures give all
of the latter at once, in O(K^2) a position:

    F_t(k) = sum_j F_{t-1}(j) P(y_t = k | y_{t-1} = j, x) + a_t [k = y_t]
    B_t(j) = sum_k P(y_t = j | y_{t+1} = k, x) B_{t+1}(k) + a_t [j = y_t]

Messages are scaled numbers, of M = exp(edges - their largest); items whose scores span too many orders of magnitude
for that are treated in logarithms, with K^2 exponentials a position.

Shapes: K states, N positions, I items; edges and table_of as in `logarithms.py`.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.forward_backward import LARGEST_RANGE
from crfqn.kernels.logarithms import log_backward, log_forward, log_sum_exp, table_at

NEGLIGIBLE = 1e-200  # probabilities: what is less adds nothing to sums of larger ones
TINY = 1e-250  # sums of scaled messages that have lost digits


@subkernel
def scaled_messages(scores, factors, table_of, start, psi, alpha, beta):
    """Write exp(scores - their largest of the position) into psi, and the messages, each with the sum 1, into alpha and
    beta, float64 (length, K). Returns the smallest sum that they were divided by."""
    n_states, length = scores.shape[0], alpha.shape[0]
    smallest = np.inf
    for t in range(length):
        largest = scores[0, start + t]
        for k in range(1, n_states):
            largest = max(largest, scores[k, start + t])
        for k in range(n_states):
            psi[t, k] = np.exp(scores[k, start + t] - largest)
            alpha[t, k] = 1.0 if t == 0 else 0.0
        if t > 0:
            table = table_at(factors, table_of, start + t)
            for j in range(n_states):
                before = alpha[t - 1, j]
                for k in range(n_states):
                    alpha[t, k] += before * table[j, k]
        total = 0.0
        for k in range(n_states):
            alpha[t, k] *= psi[t, k]
            total += alpha[t, k]
        smallest = min(smallest, total)
        for k in range(n_states):
            alpha[t, k] /= total
    for k in range(n_states):
        beta[length - 1, k] = 1.0 / n_states
    for t in range(length - 2, -1, -1):
        table, total = table_at(factors, table_of, start + t + 1), 0.0
        for j in range(n_states):
            amount = 0.0
            for k in range(n_states):
                amount += table[j, k] * (psi[t + 1, k] * beta[t + 1, k])
            beta[t, j] = amount
            total += amount
        smallest = min(smallest, total)
        for j in range(n_states):
            beta[t, j] /= total
    return smallest


@subkernel
def pass_onwards(factors, ahead, mixture, following, counts):
    """Add the next position's share of a mixture over the labels to `following`, and the transitions to `counts`;
    ahead : psi times beta of the next position, (K,)."""
    n_states = mixture.size
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


@subkernel
def pass_back(factors, alpha, mixture, preceding, counts, work):
    """Do the same towards the position before; alpha : its forward message; work : scratch, (K,)."""
    n_states = mixture.size
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
def expect_onwards(scores, edges, position, beta, mixture, following, counts, work):
    """Add the next position's share of a mixture over the labels to `following`, and the transitions to `counts`.

    beta : the backward message at `position`, the next one; mixture, following : float64 (K,); work : scratch, (K,)
    """
    n_states = scores.shape[0]
    for j in range(n_states):
        if mixture[j] > 0.0:
            for k in range(n_states):
                work[k] = edges[j, k] + scores[k, position] + beta[k]
            total = log_sum_exp(work, n_states)
            for k in range(n_states):
                amount = mixture[j] * np.exp(work[k] - total)
                following[k] += amount
                counts[j, k] += amount


@subkernel
def expect_back(edges, alpha, mixture, preceding, counts, work):
    """Do the same towards the position before; alpha : its forward message."""
    n_states = alpha.size
    for k in range(n_states):
        if mixture[k] > 0.0:
            for j in range(n_states):
                work[j] = alpha[j] + edges[j, k]
            total = log_sum_exp(work, n_states)
            for j in range(n_states):
                amount = mixture[k] * np.exp(work[j] - total)
                preceding[j] += amount
                counts[j, k] += amount


@subkernel
def scaled_item(
    scores,
    factors,
    table_of,
    start,
    targets,
    position_weights,
    weight,
    psi,
    alpha,
    beta,
    mixture,
    expected,
    counts,
    work,
):
    """Do for one item what `position_log_losses` describes; returns the loss, nan where a probability is too small for
    scaled messages: then nothing is added."""
    n_states, length = scores.shape[0], alpha.shape[0]
    if not scaled_messages(scores, factors, table_of, start, psi, alpha, beta) > TINY:
        return np.nan
    loss = 0.0
    for t in range(length):
        total, label = 0.0, targets[start + t]
        for k in range(n_states):
            total += alpha[t, k] * beta[t, k]
        probability = alpha[t, label] * beta[t, label]
        if not (total > TINY and probability > TINY):
            return np.nan
        if position_weights[start + t] > 0.0:
            loss -= position_weights[start + t] * np.log(probability / total)
        for k in range(n_states):
            mixture[t, k] = 0.0
            psi[t, k] *= beta[t, k]
        mixture[t, label] = weight * position_weights[start + t]
    for t in range(length - 1):
        at = start + t + 1
        table, sums = table_at(factors, table_of, at), table_at(counts, table_of, at)
        pass_onwards(table, psi[t + 1], mixture[t], mixture[t + 1], sums)
    move_mixture(start, targets, position_weights, weight, mixture, expected)
    for t in range(length - 1, 0, -1):
        table, sums = table_at(factors, table_of, start + t), table_at(counts, table_of, start + t)
        pass_back(table, alpha[t - 1], mixture[t], mixture[t - 1], sums, work)
    add_mixture(start, targets, position_weights, weight, mixture, expected)
    return loss


@subkernel
def move_mixture(start, targets, position_weights, weight, mixture, expected):
    """Write the mixtures from before into `expected`, and begin those from behind."""
    length, n_states = mixture.shape
    for t in range(length):
        for k in range(n_states):
            expected[k, start + t] = mixture[t, k]
            mixture[t, k] = 0.0
        mixture[t, targets[start + t]] = weight * position_weights[start + t]


@subkernel
def add_mixture(start, targets, position_weights, weight, mixture, expected):
    """Add the mixtures from behind to `expected`, each position's own label counting once."""
    length, n_states = mixture.shape
    for t in range(length):
        for k in range(n_states):
            expected[k, start + t] += mixture[t, k]
        expected[targets[start + t], start + t] -= weight * position_weights[start + t]


@subkernel
def log_position_item(
    scores,
    edges,
    table_of,
    start,
    targets,
    position_weights,
    weight,
    alpha,
    beta,
    mixture,
    expected,
    counts,
    work,
):
    """Do in logarithms what `scaled_item` does; returns the loss."""
    n_states, length = scores.shape[0], alpha.shape[0]
    log_forward(scores, edges, table_of, start, alpha, np.empty(length))
    log_backward(scores, edges, table_of, start, beta)
    loss = 0.0
    for t in range(length):
        label = targets[start + t]
        for k in range(n_states):
            work[k] = alpha[t, k] + beta[t, k]
            mixture[t, k] = 0.0
        if position_weights[start + t] > 0.0:
            loss += position_weights[start + t] * (log_sum_exp(work, n_states) - work[label])
        mixture[t, label] = weight * position_weights[start + t]
    for t in range(length - 1):
        at = start + t + 1
        table, sums = table_at(edges, table_of, at), table_at(counts, table_of, at)
        expect_onwards(scores, table, at, beta[t + 1], mixture[t], mixture[t + 1], sums, work)
    move_mixture(start, targets, position_weights, weight, mixture, expected)
    for t in range(length - 1, 0, -1):
        table, sums = table_at(edges, table_of, start + t), table_at(counts, table_of, start + t)
        expect_back(table, alpha[t - 1], mixture[t], mixture[t - 1], sums, work)
    add_mixture(start, targets, position_weights, weight, mixture, expected)
    return loss


@kernel
def position_log_losses(
    first, last, offsets, scores, edges, factors, range_of_edges, table_of, targets, position_weights, weights,
    losses, expected, counts,
):  # fmt: skip
    """Compare the items first ... last - 1 with the labels of their positions, one at a time.

    factors : float64 of the shape of `edges`, M; range_of_edges : the largest difference of two edge scores above -inf
    position_weights : float64 (N,), a_t; weights : float64 (I,), of the items
    losses : float64 (I,), out: -sum_t a_t log P(y_t | x), unweighted
    expected : float64 (K, N), out: sum_s a_s P(y_t = k | y_s, x), times the item's weight
    counts : float64 of the shape of `edges`, in and out: the transitions expected likewise are added
    """
    n_states = scores.shape[0]
    work = np.empty(n_states)
    for i in range(first, last):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        losses[i] = 0.0
        if length == 0:
            continue
        psi, alpha, beta, mixture = np.empty((4, length, n_states))
        spread, losses[i] = 0.0, np.nan
        for t in range(start, start + length):
            largest, smallest = -np.inf, np.inf
            for k in range(n_states):
                largest = max(largest, scores[k, t])
                smallest = min(smallest, scores[k, t]) if scores[k, t] > -np.inf else smallest
            spread = max(spread, largest - smallest)
        if spread + 2.0 * range_of_edges < LARGEST_RANGE:
            losses[i] = scaled_item(
                scores, factors, table_of, start, targets, position_weights, weights[i],
                psi, alpha, beta, mixture, expected, counts, work,
            )  # fmt: skip
        if np.isnan(losses[i]):
            losses[i] = log_position_item(
                scores, edges, table_of, start, targets, position_weights, weights[i],
                alpha, beta, mixture, expected, counts, work,
            )  # fmt: skip
