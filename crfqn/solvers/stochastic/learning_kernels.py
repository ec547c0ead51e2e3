"""The loop over items, and the updates of the perceptron, of passive-aggressive learning and of AROW.

The updates of SGD are in `sgd_kernels.py`, those of block Frank-Wolfe in `frank_wolfe_kernels.py`.

These methods label an item with the present weights. If the labelling y' differs from the observed y,

    w += tau Delta,    Delta = Phi(x, y) - Phi(x, y')

with tau = 1 for the perceptron (Collins 2002, Figure 2), and for passive-aggressive learning (Crammer et al. 2006,
PA-I) tau = min(C, l / |Delta|^2), l = score(y') - score(y) + sqrt(number of wrong positions). The mean of the weights
after each of n items is w - (sum of k tau Delta) / n, k the number of items before a correction.

AROW (Crammer, Kulesza and Dredze 2009, with a diagonal covariance V) takes larger steps for weights of larger variance,
and has no mean. As in CRFsuite, its l has the number of wrong positions without the square root:

    w += l / (gamma + Delta' V Delta) V Delta,    1 / v_j += Delta_j^2 / gamma

Shapes: as in `item_kernels.py`.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.solvers.stochastic.frank_wolfe_kernels import improve_item
from crfqn.solvers.stochastic.item_kernels import (
    N_SEEN,
    N_WRONG,
    add_change,
    best_labelling,
    edges_of,
    labelling_score,
    list_change,
    merge_entries,
    score_position,
)
from crfqn.solvers.stochastic.sgd_kernels import follow_gradient


@subkernel(counts=False)
def adapt_weights(n, change, loss, gamma, item_weight, rows):
    """Take AROW's step on an item; its change has at most one entry that is not 0 for each weight."""
    weights, variances, square = rows.weights, rows.variances, gamma
    for e in range(n):
        square += change.sizes[e] * change.sizes[e] * variances[change.rows[e], change.states[e]]
    tau = item_weight * loss / square
    for e in range(n):
        row, state, size = change.rows[e], change.states[e], change.sizes[e]
        variance = variances[row, state]
        weights[row, state] += tau * variance * size
        variances[row, state] = variance * gamma / (gamma + variance * size * size)


@subkernel(counts=False)
def correct_item(i, data, structure, rows, C, change, space):
    """Label item i, and correct the weights if it is wrong, by a step times the item's weight; C : the maximum step of
    passive-aggressive learning, or AROW's gamma, or 0 for the perceptron."""
    a, b = data.offsets[i], data.offsets[i + 1]
    scores, labels, states = space.scores[: b - a], data.targets[a:b], space.states[: b - a]
    for t in range(b - a):
        score_position(a + t, data, rows.weights, scores[t])
    edges, masked = edges_of(structure, rows, space)
    best_labelling(scores, structure, masked, space.alpha, states)
    n_wrong = 0
    for t in range(b - a):
        n_wrong += labels[t] != states[t]
    if n_wrong > 0:
        tau, n = data.weights[i], list_change(a, labels, states, data, structure, rows, change)
        if C > 0.0:
            square = merge_entries(n, change)
            lead = labelling_score(states, scores, edges) - labelling_score(labels, scores, edges)
            if rows.variances.shape[0] > 0:
                adapt_weights(n, change, lead + n_wrong, C, tau, rows)
                n = 0
            loss = lead + np.sqrt(n_wrong)
            tau *= loss / square if loss < C * square else C
        add_change(n, change, tau, rows)
    rows.counters[N_SEEN] += 1.0
    rows.counters[N_WRONG] += n_wrong


@kernel
def learn_items(order, data, structure, rows, gradient, pairwise, C, change, space):
    """Take a step on each item of `order`, of SGD until the scale is too small; return the number of steps. The weights
    and counters of `rows` are changed in place.

    rows : LearnedWeights
    gradient, pairwise, C : the `GradientSteps` of SGD, the `PairwiseSteps` of Frank-Wolfe, or C of `correct_item`; the
        other two are None, and not compiled
    change, space : ItemChange, None for SGD; ItemSpace
    """
    is_out = False
    for done in range(order.size):
        if gradient is not None:
            is_out = follow_gradient(order[done], data, structure, rows, gradient, space)
        if pairwise is not None:
            improve_item(order[done], data, structure, rows, pairwise, change, space)
        if C is not None:
            correct_item(order[done], data, structure, rows, C, change, space)
        if is_out:
            return done + 1
    return order.size
