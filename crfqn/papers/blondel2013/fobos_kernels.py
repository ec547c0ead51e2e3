"""Stochastic forward-backward splitting (FOBOS) on rows of the weights, an item at a time, the penalty applied lazily.

Duchi and Singer (2009), with h a norm of the rows, L1, Euclidean or largest size, and all strengths those of one item:

    w  <-  prox_{eta h}(w - eta g_i) / (1 + eta l2),    eta = eta0 / sqrt(t)

An item has a gradient at the rows of its features only; the others shrink, and how much is known in closed form when
they are next needed. With a single norm, successive proximal steps add up, prox_a prox_b = prox_{a+b} (their
proposition 11), and in units of the scale s = prod 1 / (1 + eta l2) the quadratic part disappears:

    u = w / s:   u  <-  prox_{(eta / s) h}(u),    and the penalty accrued is the sum of eta / s.

Shapes: F features, K states, width = K rounded up to LANES.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel
from crfqn.kernels.margins import (
    LOGISTIC,
    MULTICLASS,
    MULTITASK,
    RANKING,
    MarginState,
    add_probabilities,
    entry_value,
    slopes,
)
from crfqn.kernels.row_norm import shrink_block
from crfqn.solvers.stochastic.item_kernels import score_position

STEPS, DUE, SCALE = 0, 1, 2  # places in `counters`
ETA0, L1, L2, GROUP = 0, 1, 2, 3  # places in `rates`
MIN_SCALE = 1e-100  # numerical guard: the common factor of the weights at which the kernel returns


class ShrunkRows(NamedTuple):
    """Weights, and the penalty that they have received.

    table, seen : float64 (F, width), rows as they were when last used; (F, 2), the accrued sum then, the scale
    is_unpenalised, is_linf : bool (F,); whether the norm is the largest size
    counters : float64 (3,), steps done, accrued sum, scale
    rates : float64 (4,), eta0, and l1, l2 and group strength for an item, l1 or the group's being 0
    """

    table: np.ndarray
    seen: np.ndarray
    is_unpenalised: np.ndarray
    is_linf: bool
    counters: np.ndarray
    rates: np.ndarray


@inner
def apply_accrued(f, rows, workspace):
    """Apply to row f the penalty that has accrued since it was last used, unless it has none."""
    if rows.is_unpenalised[f]:
        return
    row, then, counters, rates = rows.table[f], rows.seen[f], rows.counters, rows.rates
    accrued = counters[DUE] - then[DUE - 1]
    if accrued > 0.0:
        amount = accrued * counters[SCALE]
        ratio = counters[SCALE] / then[SCALE - 1]
        for r in range(row.size):
            row[r] *= ratio
        shrink_block(row, amount * rates[L1], amount * rates[GROUP], rows.is_linf, workspace)
    then[DUE - 1], then[SCALE - 1] = counters[DUE], counters[SCALE]


@kernel
def apply_accrued_penalty(rows):
    """Apply the accrued penalty to all rows, and reset the sum and the scale; rows : ShrunkRows."""
    workspace = np.empty(rows.table.shape[1])
    for f in range(rows.table.shape[0]):
        apply_accrued(f, rows, workspace)
        rows.seen[f, 0], rows.seen[f, 1] = 0.0, 1.0
    rows.counters[DUE], rows.counters[SCALE] = 0.0, 1.0


@inner
def scores_to_margins(loss, n_states, label, margins, probabilities, losses, rows, scores):
    """Turn the scores in margins[0] into margins as in `margins.MarginState`, with LOGISTIC also probabilities."""
    s, label_score = margins[0], margins[0, label]
    if loss == MULTICLASS:
        for r in range(n_states):
            s[r] += 1.0 - label_score
        s[label] = -np.inf
    elif loss == MULTITASK:
        for r in range(n_states):
            s[r] += 1.0
        s[label] = 1.0 - label_score
    elif loss == LOGISTIC:
        for r in range(n_states):
            s[r] -= label_score
    for r in range(n_states, s.size):
        s[r] = -np.inf
    if loss == LOGISTIC:
        add_probabilities(rows, margins, probabilities, losses, scores)


@kernel
def learn_rows(loss, order, data, starts, sets, n_states, rows):
    """Take a step on each of the items `order`, until the scale is below MIN_SCALE; returns the number of steps.
    NaN passes all comparisons, so that the solver can detect divergence.

    data : ItemData; starts, sets : the labels of items that have several (RANKING), empty otherwise
    """
    _, indptr, features, values, labels, weights = data
    table, counters, rates = rows.table, rows.counters, rows.rates
    width = table.shape[1]
    margins, losses = np.empty((1, width)), np.zeros(1)
    probabilities = relevance = np.zeros((1, width))  # no loss reads both
    place, nothing, one = np.zeros(1, features.dtype), np.empty(0), np.ones(1)
    g, h, workspace = np.empty(width), np.empty(width), np.empty(width)
    label, spare = np.zeros(1, labels.dtype), np.empty((2, width))
    state = MarginState(loss, place, nothing, label, one, margins, probabilities, relevance, losses)
    for k in range(order.size):
        i = order[k]
        begin, end = indptr[i], indptr[i + 1]
        for e in range(begin, end):
            apply_accrued(features[e], rows, workspace)
        score_position(i, data, table, margins[0])
        if loss == RANKING:
            for e in range(starts[i], starts[i + 1]):
                relevance[0, sets[e]] = 1.0
        label[0] = labels[i]
        scores_to_margins(loss, n_states, label[0], margins, probabilities, losses, place, workspace)
        slopes(state, 0, 1, g, h, spare)
        if loss == RANKING:
            relevance[:] = 0.0
        eta = rates[ETA0] / np.sqrt(counters[STEPS] + 1.0)
        for e in range(begin, end):
            size = eta * weights[i] * entry_value(values, e)
            row = table[features[e]]
            for r in range(n_states):
                row[r] -= size * g[r]
        counters[STEPS] += 1.0
        counters[DUE] += eta / counters[SCALE]
        counters[SCALE] /= 1.0 + eta * rates[L2]
        if counters[SCALE] < MIN_SCALE:
            return k + 1
    return order.size
