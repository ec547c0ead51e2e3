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

from crfqn.kernels import inner, kernel

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


@kernel
def change_square(n, columns, change, sums, rows):
    """Return the squares of the first n features' part of Delta; change : float64 (positions, width), by position.

    columns : `ItemColumns`; sums : float64 (width,), scratch. A feature that is at several positions counts as one.
    """
    total, x, first_of = 0.0, columns.x, columns.first_of
    for j in range(n):
        for k in range(sums.size):
            sums[k] = 0.0
        for e in range(first_of[j], first_of[j + 1]):
            value, t = x[e] if x.size > 0 else 1.0, columns.positions[e]
            for k in range(sums.size):
                sums[k] += value * change[t, k]
        is_fixed = rows.is_fixed[rows.pattern_of[columns.present[j]]]
        for k in range(sums.size):
            total += 0.0 if is_fixed[k] else sums[k] * sums[k]
    return total


@inner
def step_size(aggressiveness, loss, square):
    """Return min(C, l / |Delta|^2); 0 where no weight may change."""
    if square <= 0.0:
        return 0.0
    return loss / square if loss < aggressiveness * square else aggressiveness
