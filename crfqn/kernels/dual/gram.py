"""Dual decomposition with kernels: the scores of all items are kept, and follow every change of one.

A change of the variables of item i moves the scores of all items by multiples of its row of the Gram matrix: only rows
of items that are violated are ever needed.

Shapes: N items, K states; scores float64 (K, N); rows float32 or float64 (rows, N).
"""

import numpy as np

from crfqn.kernels import inner, kernel
from crfqn.kernels.dual.linear import DECREASE, GAP, ROUNDING, UPDATES, VIOLATION, take_step
from crfqn.kernels.dual.subproblem import optimality, solve_block


@inner
def gradient_of(i, scores, items, g):
    """g <- equation 4 of item i."""
    offset = items.offsets[i if items.offsets.shape[0] > 1 else 0]
    for m in range(g.size):
        g[m] = scores[m, i] + offset[m] + 1.0
    g[items.labels[i]] -= 1.0


@inner
def is_violated(seen, g):
    """Whether a violation is more than rounding."""
    return seen.violation > ROUNDING * (1.0 + abs(g[seen.best]))


@kernel
def look_at_items(order, items, scores, slacks, violated, found):
    """Measure the items as they are: slacks and violated, (len(order),), and found, as in `linear.sweep_items`."""
    g = np.zeros(items.b.shape[1])
    found[:] = 0.0
    for t in range(order.size):
        i = order[t]
        gradient_of(i, scores, items, g)
        seen = optimality(g, items.b[i], items.masses[i])
        slacks[t], violated[t] = seen.slack, is_violated(seen, g)
        found[VIOLATION] = max(found[VIOLATION], seen.violation)
        found[GAP] += seen.gap


@kernel
def update_items(order, places, rows, diagonal, items, scores, solver, found):
    """Solve the sub-problems of the items `order` one after another; their rows of the Gram matrix are rows[places].

    found : as in `linear.sweep_items`, its decrease and updates are added to
    """
    n = items.b.shape[1]
    g, after, workspace = np.zeros(n), np.zeros(n), np.zeros(n + 1)
    states, changes = np.zeros(n, np.int64), np.zeros(n)
    for t in range(order.size):
        i = order[t]
        b, c, square = items.b[i], items.masses[i], diagonal[i]
        gradient_of(i, scores, items, g)
        seen = optimality(g, b, c)
        if not is_violated(seen, g):
            continue
        items.cursors[i] = solve_block(g, b, c, square, seen.best, items.cursors[i], solver, after, workspace)
        n_states, decrease = take_step(g, b, after, square, states, changes)
        row = rows[places[t]]
        for s in range(n_states):
            target, change = scores[states[s]], changes[s]
            for j in range(row.size):
                target[j] += change * row[j]
        found[DECREASE] += decrease
        found[UPDATES] += 1.0
