"""Kernels of dual decomposition: the exact solution of an item's sub-problem, and sweeps over the items.

The dual variables alpha of an item (Blondel, Fujino and Ueda 2014) are kept as b = C - alpha, the point of the simplex
{b >= 0, sum b = c} (equation 7 less the factor ||x||): b_m > 0 where alpha_m < C_m, and b = c e_y at the start. The
sub-problem, equation 6, is then the projection of

    b + g / ||x||^2,   g_m = w_m x + offset_m + [m != y]   (equation 4)

onto that simplex. The weights follow every change of an item: a row of them is a feature, with all states side by side,
so that the scores of an item are a sum of contiguous rows, and an update writes the changed states only. The paper's
approximate sub-solvers, and scores of a kernel, are in `crfqn/papers/blondel2014/sub_solver_kernels.py`.

The squared hinge has a variable beta_r >= 0 for every pair of the label and another state, without a constraint on
their sum: b_r = beta_r, b_y = -sum beta, C = 0; the dual objective has the additional term damping / 2 sum_r beta_r^2.
With the violations of the margins m_r = g_r - g_y the sub-problem is solved by

    beta_r <- max(beta_r + (m_r - damping beta_r) / (||x||^2 + damping) - t, 0),
    sum beta(t) = sum beta + (1 + damping / ||x||^2) t

Shapes: N items, F features, K states, width = K rounded up to LANES; of one item b, g, after float64 (K,), workspace
float64 (K + 1,). method : PIVOT or SORT; random : uint64 (1,), the state of the pivots' generator.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.projection import difference, simplex_level
from crfqn.kernels.rows import add_picked, add_products

VIOLATION_ROUNDING = 1e-13  # violations below this ratio of the largest g are rounding: a numerical guard
VIOLATION, GAP, DECREASE, UPDATES, VIOLATIONS = range(5)  # places in `findings`


class Optimality(NamedTuple):
    """Optimality of the dual variables of an item (equation 5).

    best : the state with the largest g
    violation : v_i
    gap : c max g - b'g, the item's part of the duality gap
    slack : if b is a vertex, g of its state minus the largest g of the others; otherwise minus the violation under the
        hinge, -inf under the squared hinge
    """

    best: int
    violation: float
    gap: float
    slack: float


@inner
def optimality(g, b, c):
    """Return the optimality of an item under the hinge (equation 5): at an optimum b > 0 only where g is largest."""
    best, largest, second, smallest, n_positive, product = 0, g[0], -np.inf, np.inf, 0, 0.0
    for m in range(b.size):
        if m > 0:
            if g[m] > largest:
                best, largest, second = m, g[m], largest
            else:
                second = max(second, g[m])
        if b[m] > 0.0:
            n_positive += 1
            smallest = min(smallest, g[m])
            product += b[m] * g[m]
    violation = largest - smallest
    slack = largest - second if n_positive == 1 and violation == 0.0 else -violation
    return Optimality(best, violation, c * largest - product, slack)


@subkernel(counts=False)
def project(g, b, c, square, method, random, after, workspace):
    """Write the solution of equation 6 to `after` (Lemma 1)."""
    for m in range(b.size):
        after[m] = b[m] + g[m] / square
    largest, level = simplex_level(after, c, 0.0, method, 0.0, workspace, random)
    for m in range(b.size):
        above = difference(difference(after[m], largest), level)
        after[m] = above if above > 0.0 else 0.0


@inner
def optimality_of_pairs(g, b, label, damping):
    """Return the optimality of an item under the squared hinge: derivatives are 0, or <= 0 at beta_r = 0."""
    best, violation, gap, largest, n_positive = 0, 0.0, 0.0, -np.inf, 0
    for m in range(b.size):
        best = m if g[m] > g[best] else best
        if m == label:
            continue
        margin = g[m] - g[label]
        slope = margin - damping * b[m]
        if b[m] > 0.0:
            n_positive += 1
            violation = max(violation, abs(slope))
        else:
            violation = max(violation, slope)
        gap += 0.5 * slope * slope / damping if margin > 0.0 else b[m] * (0.5 * damping * b[m] - margin)
        largest = max(largest, margin)
    return Optimality(best, violation, gap, -largest if n_positive == 0 else -np.inf)


@subkernel(counts=False)
def solve_pairs(g, b, label, square, damping, method, random, after, workspace):
    """Write the exact solution of an item's sub-problem under the squared hinge to `after`."""
    n, mass = 0, 0.0
    for m in range(b.size):
        if m != label:
            after[n] = b[m] + (g[m] - g[label] - damping * b[m]) / (square + damping)
            mass += b[m]
            n += 1
    largest, level = 0.0, 0.0
    if square > VIOLATION_ROUNDING * damping:
        slope = 1.0 + damping / square
        largest, level = simplex_level(after[:n], mass, slope, method, 0.0, workspace, random)
    total = 0.0
    for m in range(b.size - 1, -1, -1):  # from the end: entries after the label move up by one
        if m != label:
            n -= 1
            above = difference(difference(after[n], largest), level)
            after[m] = above if above > 0.0 else 0.0
            total += after[m]
    after[label] = -total


class DualRows(NamedTuple):
    """The features of the items, sparse or dense.

    indptr, indices, values : of sparse rows; empty values are ones
    n_columns : number of columns of dense rows, which `values` has one after another; 0 for sparse rows
    squares : float64 (N,), ||x||^2
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    n_columns: int
    squares: np.ndarray


class DualItemArrays(NamedTuple):
    """Labels, masses and offsets of the items, and their dual variables.

    labels : int32 (N,); masses : float64 (N,), C_i; offsets : float64 (N, K), or (1, K) for all
    b : float64 (N, K), C - alpha; cursors : int32 (N,), the last state of an exchange
    damping : float64 (N,), l2 / (2 c_i), of the squared hinge; (0,) for the hinge
    """

    labels: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    b: np.ndarray
    cursors: np.ndarray
    damping: np.ndarray


@inner
def augment_scores(i, rows, weights, items, g):
    """Write equation 4 of item i to g[:K]: its scores with the offset, plus 1 for every state but its label."""
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


@subkernel(counts=False)
def move_weights(i, rows, n_states, states, changes, weights):
    """Add x_if changes to weights[f, states] for the features f of item i."""
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
    """Write `after` to b; return the number of changed states and the decrease of the dual objective; changes : out, of
    alpha."""
    n_states, decrease = 0, 0.0
    for m in range(b.size):
        change = b[m] - after[m]
        if change != 0.0:
            states[n_states], changes[n_states] = m, change
            n_states += 1
            decrease -= change * (g[m] + 0.5 * square * change)
            b[m] = after[m]
    return n_states, decrease


@inner
def record_optimality(seen, t, g, threshold, slacks, findings):
    """Add the optimality of the item in place t to the findings; return whether the item is to be updated."""
    slacks[t] = seen.slack
    findings[VIOLATION] = max(findings[VIOLATION], seen.violation)
    findings[GAP] += seen.gap
    findings[VIOLATIONS] += seen.violation
    return seen.violation > max(VIOLATION_ROUNDING * (1.0 + abs(g[seen.best])), threshold)


@kernel
def sweep_items(order, rows, items, weights, method, random, threshold, slacks, findings):
    """Visit the items of `order` (Algorithm 1, the inner loop).

    weights : float64 (F, width), in and out
    threshold : items with a violation up to this are not updated
    slacks : float64 (len(order),), out: `Optimality.slack` of each item before its update
    findings : float64 (5,), out: the largest violation, the sum of the gaps, the decrease of the dual objective under
        the hinge, updates, the sum of the violations
    """
    n, is_of_pairs = items.b.shape[1], items.damping.size > 0
    g, after, workspace = np.zeros(weights.shape[1]), np.zeros(n), np.zeros(n + 1)
    states, changes = np.zeros(n, np.int64), np.zeros(n)
    findings[:] = 0.0
    for t in range(order.size):
        i = order[t]
        b, c, square = items.b[i], items.masses[i], rows.squares[i]
        augment_scores(i, rows, weights, items, g)
        if is_of_pairs:
            seen = optimality_of_pairs(g[:n], b, items.labels[i], items.damping[i])
        else:
            seen = optimality(g[:n], b, c)
        if not record_optimality(seen, t, g, threshold, slacks, findings):
            continue
        if is_of_pairs:
            solve_pairs(g[:n], b, items.labels[i], square, items.damping[i], method, random, after, workspace)
        elif square > 0.0:
            project(g[:n], b, c, square, method, random, after, workspace)
        else:  # without curvature a vertex is the solution
            after[:] = 0.0
            after[seen.best] = c
        n_states, decrease = take_step(g, b, after, square, states, changes)
        move_weights(i, rows, n_states, states, changes, weights)
        findings[DECREASE] += decrease
        findings[UPDATES] += 1.0


@kernel
def balance(order, rows, items, surplus, weights):
    """Move dual variables between states until the surplus of every state is zero up to rounding."""
    states, changes = np.zeros(2, np.int64), np.zeros(2)
    for is_second in range(2):
        for q in range(surplus.size):
            for t in range(order.size):
                if not surplus[q] > 0.0:
                    break
                i = order[t]
                b = items.b[i]
                for p in range(surplus.size):
                    is_wanted = surplus[p] < 0.0 and surplus[q] > 0.0
                    if is_wanted and b[q] > 0.0 and (is_second == 1 or b[p] > 0.0):
                        moved = min(b[q], min(surplus[q], -surplus[p]))
                        b[q] -= moved
                        b[p] += moved
                        surplus[q] -= moved
                        surplus[p] += moved
                        states[0], changes[0], states[1], changes[1] = q, moved, p, -moved
                        move_weights(i, rows, 2, states, changes, weights)
