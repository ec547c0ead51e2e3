"""Learning from labelling mistakes: the updates of the perceptron, of passive-aggressive learning and of AROW.

An item is labelled by the weights so far. Where the labelling y' differs from the observed y,

    w += tau Delta,    Delta = Phi(x, y) - Phi(x, y')

with tau = 1 for the perceptron (Collins 2002, Figure 2), and for passive-aggressive learning (Crammer et al. 2006,
PA-I) tau = min(C, l / |Delta|^2), l = score(y') - score(y) + sqrt(number of wrong positions). What is kept of all the
weights is their mean: with k = 0, 1, ... the items before a correction, sum_k w_k / n = w - (sum of k tau Delta) / n.

AROW (Crammer, Kulesza and Dredze 2009, with a diagonal covariance V) corrects uncertain weights most and keeps no mean;
its l has the number of wrong positions itself, as CRFsuite's:

    w += l / (gamma + Delta' V Delta) V Delta,    1 / v_j += Delta_j^2 / gamma

Shapes: as in `item_kernels.py`.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.rows import new_rows
from crfqn.kernels.viterbi import add_mask
from crfqn.solvers.stochastic.item_kernels import (
    N_SEEN,
    N_WRONG,
    add_change,
    best_labelling,
    labelling_score,
    largest_item,
    list_change,
    merge_entries,
    new_item_change,
    score_position,
)


@subkernel(counts=False)
def adapt_weights(n, change, loss, gamma, item_weight, rows):
    """Take AROW's step on an item, of whose change each weight has one entry that is not 0."""
    weights, variances, square = rows.weights, rows.variances, gamma
    for e in range(n):
        square += change.sizes[e] * change.sizes[e] * variances[change.rows[e], change.states[e]]
    tau = item_weight * loss / square
    for e in range(n):
        row, state, size = change.rows[e], change.states[e], change.sizes[e]
        variance = variances[row, state]
        weights[row, state] += tau * variance * size
        variances[row, state] = variance * gamma / (gamma + variance * size * size)


@kernel
def correct(order, data, structure, aggressiveness, rows):
    """Label each item of `order` and learn from its mistakes, by steps times its weight; `rows` change in place;
    aggressiveness : the largest step C of passive-aggressive learning, or AROW's gamma; 0 for the perceptron."""
    weights, counters, mask = rows.weights, rows.counters, structure.mask
    n_edge_rows, width = structure.parents.size if structure.is_chain else 0, weights.shape[1]
    edges, masked = weights[weights.shape[0] - n_edge_rows :], new_rows(n_edge_rows, width)
    longest, most = largest_item(order, data)
    scores, delta = new_rows(longest, width), new_rows(longest + 1, width)
    best, change = np.empty(longest, np.int32), new_item_change(longest, most, structure, rows)
    for i in order:
        a, b = data.offsets[i], data.offsets[i + 1]
        labels, states = data.targets[a:b], best[: b - a]
        for t in range(b - a):
            score_position(a + t, data, weights, scores[t])
        item_edges = add_mask(edges, mask, masked) if structure.is_chain else edges
        best_labelling(scores[: b - a], structure, item_edges, delta, states)
        n_wrong = 0
        for t in range(b - a):
            n_wrong += labels[t] != states[t]
        if n_wrong > 0:
            tau, n = data.weights[i], list_change(a, labels, states, data, structure, rows, change)
            if aggressiveness > 0.0:
                square = merge_entries(n, change)
                lead = labelling_score(states, scores, edges) - labelling_score(labels, scores, edges)
                if rows.variances.shape[0] > 0:
                    adapt_weights(n, change, lead + n_wrong, aggressiveness, tau, rows)
                    n = 0
                loss = lead + np.sqrt(n_wrong)
                tau *= loss / square if loss < aggressiveness * square else aggressiveness
            add_change(n, change, tau, rows)
        counters[N_SEEN] += 1.0
        counters[N_WRONG] += n_wrong
