"""Sweeps of dual decomposition with linear scores: the weights are kept, and follow every change of an item.

A row of the weights is a feature, all states side by side, so that the scores of an item are a sum of contiguous rows;
of an update only the states in its support are touched.

Shapes: N items, F features, K states, width = K rounded up to LANES.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import bare_subkernel, inner, kernel
from crfqn.kernels.dual.subproblem import optimality, solve_block
from crfqn.kernels.rows import add_picked, add_products

ROUNDING = 1e-13  # of the largest g: a violation below is none
VIOLATION, GAP, DECREASE, UPDATES = range(4)


class Rows(NamedTuple):
    """The features of the items, sparse or dense.

    indptr, indices, values : of sparse rows; without values all are 1
    n_columns : of dense rows, which are `values` one after another; 0 for sparse ones
    squares : float64 (N,), ||x||^2
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    n_columns: int
    squares: np.ndarray


class Items(NamedTuple):
    """Labels, masses and offsets of the items, and their dual variables.

    labels : int32 (N,); masses : float64 (N,), C_i; offsets : float64 (N, K), or (1, K) for all
    b : float64 (N, K), see `subproblem.py`; cursors : int32 (N,)
    """

    labels: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    b: np.ndarray
    cursors: np.ndarray


@inner
def scores_of(i, rows, weights, items, g):
    """g[:K] <- equation 4 of item i: its scores with the offset, and 1 for every state but its label."""
    n = items.b.shape[1]
    g[:] = 0.0
    if rows.n_columns > 0:
        add_products(g, weights, 0, rows.n_columns, rows.values, i * rows.n_columns, 1)
    else:
        add_picked(g, weights, rows.indices, rows.indptr[i], rows.indptr[i + 1], rows.values)
    offset = items.offsets[i if items.offsets.shape[0] > 1 else 0]
    for m in range(n):
        g[m] += offset[m] + 1.0
    g[items.labels[i]] -= 1.0


@bare_subkernel
def move_weights(i, rows, n_states, states, changes, weights):
    """weights[f, states] += x_if changes, for the features f that the item has."""
    for s in range(n_states):
        m, change = states[s], changes[s]
        if rows.n_columns > 0:
            for f in range(rows.n_columns):
                weights[f, m] += rows.values[i * rows.n_columns + f] * change
        elif rows.values.size == 0:
            for e in range(rows.indptr[i], rows.indptr[i + 1]):
                weights[np.uint64(rows.indices[e]), m] += change
        else:
            for e in range(rows.indptr[i], rows.indptr[i + 1]):
                weights[np.uint64(rows.indices[e]), m] += rows.values[e] * change


@inner
def take_step(g, b, after, square, states, changes):
    """b <- after; returns how many states changed, and the decrease of the dual objective; changes : of alpha."""
    n_states, decrease = 0, 0.0
    for m in range(b.size):
        change = b[m] - after[m]
        if change != 0.0:
            states[n_states], changes[n_states] = m, change
            n_states += 1
            decrease -= change * (g[m] + 0.5 * square * change)
            b[m] = after[m]
    return n_states, decrease


@kernel
def sweep_items(order, rows, items, weights, solver, moves, slacks, found):
    """Visit the items of `order` (Algorithm 1, the inner loop).

    Parameters
    ----------
    weights : float64 (F, width), in and out; moves : whether violated items are updated, or only looked at
    slacks : float64 (len(order),), out: `Optimality.slack` of each, before its update
    found : float64 (4,), out: the largest violation, the sum of the gaps, the decrease of the dual objective, updates
    """
    n, width = items.b.shape[1], weights.shape[1]
    g, after, workspace = np.zeros(width), np.zeros(n), np.zeros(n + 1)
    states, changes = np.zeros(n, np.int64), np.zeros(n)
    found[:] = 0.0
    for t in range(order.size):
        i = order[t]
        b, c, square = items.b[i], items.masses[i], rows.squares[i]
        scores_of(i, rows, weights, items, g)
        seen = optimality(g[:n], b, c)
        slacks[t] = seen.slack
        found[VIOLATION] = max(found[VIOLATION], seen.violation)
        found[GAP] += seen.gap
        if not moves or seen.violation <= ROUNDING * (1.0 + abs(g[seen.best])):
            continue
        items.cursors[i] = solve_block(
            g[:n], b, c, square, seen.best, items.cursors[i], solver, after, workspace
        )
        n_states, decrease = take_step(g, b, after, square, states, changes)
        move_weights(i, rows, n_states, states, changes, weights)
        found[DECREASE] += decrease
        found[UPDATES] += 1.0
