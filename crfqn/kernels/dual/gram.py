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
def find_violated(order, items, scores, violated):
    """violated[t] <- whether the item order[t] violates optimality at the present scores."""
    g = np.zeros(items.b.shape[1])
    for t in range(order.size):
        gradient_of(order[t], scores, items, g)
        violated[t] = is_violated(optimality(g, items.b[order[t]], items.masses[order[t]]), g)


@kernel
def visit_items(first, order, places, rows, diagonal, items, scores, solver, moves, slacks, found):
    """Visit the items order[first], ... (Algorithm 1, the inner loop); returns the first whose row is not there.

    Parameters
    ----------
    places : int64 (len(order),), where each item's row of the Gram matrix is in `rows`, -1: not there
    moves, slacks, found : as in `linear.sweep_items`; what `found` has is added to
    """
    n = items.b.shape[1]
    g, after, workspace = np.zeros(n), np.zeros(n), np.zeros(n + 1)
    states, changes = np.zeros(n, np.int64), np.zeros(n)
    for t in range(first, order.size):
        i = order[t]
        b, c, square = items.b[i], items.masses[i], diagonal[i]
        gradient_of(i, scores, items, g)
        seen = optimality(g, b, c)
        is_due = moves and is_violated(seen, g)
        if is_due and places[t] < 0:
            return t
        slacks[t] = seen.slack
        found[VIOLATION] = max(found[VIOLATION], seen.violation)
        found[GAP] += seen.gap
        if not is_due:
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
    return order.size
