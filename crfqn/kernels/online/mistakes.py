"""Corrections of labelling mistakes, an item at a time: the parts that all structures share.

An item is labelled by the weights so far. Where the labelling y' differs from the observed y,

    w += tau Delta,    Delta = Phi(x, y) - Phi(x, y')

with tau = 1 for the perceptron (Collins 2002, Figure 2), and for passive-aggressive learning (Crammer et al. 2006,
PA-I) tau = min(C, l / |Delta|^2), l = score(y') - score(y) + sqrt(number of wrong positions). What is kept of all the
weights is their mean: with k = 0, 1, ... the items before a correction, sum_k w_k / n = w - (sum of k tau Delta) / n.

Shapes: F features, K states, width = K rounded up to LANES. An item has the positions a ... b - 1 of all.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, subkernel
from crfqn.kernels.rows import add_picked

N_SEEN, N_WRONG = 0, 1  # places in `counters`


class AveragedRows(NamedTuple):
    """The weights, and what their mean lacks.

    weights : float64 (rows, width), a row a feature, then a row for each state that an edge comes from
    corrections : float64 (rows, width), the sum of k tau Delta
    is_fixed : bool (patterns, width), weights that stay zero
    pattern_of : int32 (rows,), each row's pattern
    counters : float64 (2,), items seen, positions that were wrong
    """

    weights: np.ndarray
    corrections: np.ndarray
    is_fixed: np.ndarray
    pattern_of: np.ndarray
    counters: np.ndarray


@inner
def change_weight(row, state, tau, rows):
    """Add tau to one weight, and k tau to what the mean lacks."""
    if not rows.is_fixed[rows.pattern_of[row], state]:
        rows.weights[row, state] += tau
        rows.corrections[row, state] += rows.counters[N_SEEN] * tau


@subkernel
def feature_changes(n, columns, change, sums):
    """Write the part that each of an item's n features has in Phi's change: sums[j] = sum_t x_tj change[t].

    columns : `ItemColumns`; change : float64 (positions, width), by position; sums : float64 (n or more, width), out. A
    feature that is at several positions counts as one.
    """
    first_of = columns.first_of
    for j in range(n):
        for k in range(sums.shape[1]):
            sums[j, k] = 0.0
        add_picked(sums[j], change, columns.positions, first_of[j], first_of[j + 1], columns.x)


@subkernel
def free_square(chosen, sums, rows):
    """Set to 0 what belongs to weights that stay zero, and return the sum of the squares of the rest.

    chosen : int64 (n,), rows; sums : float64 (n or more, width), a change of each
    """
    total = 0.0
    for j in range(chosen.size):
        is_fixed = rows.is_fixed[rows.pattern_of[chosen[j]]]
        for k in range(sums.shape[1]):
            if is_fixed[k]:
                sums[j, k] = 0.0
            total += sums[j, k] * sums[j, k]
    return total


@inner
def step_size(aggressiveness, loss, square):
    """Return min(C, l / |Delta|^2); 0 where no weight may change."""
    if square <= 0.0:
        return 0.0
    return loss / square if loss < aggressiveness * square else aggressiveness
