"""Node marginals of taxonomies, kept while block coordinate descent moves the scores of single items.

An item's path sums and marginals stay in rows of its own, (N, K); a move of a feature's weights by delta adds x D to
the path sums of the items that have it, D the path sums of delta. All labels of these items are visited: each is a term
of Z.

    try      path sums + step x D -> exponentials in the place of p, log Z      (the downward pass of `marginals.py`)
    accept   exponentials -> their sums under each node, over Z                 (the upward pass)

A move is tried in place and then accepted, or tried again with another step; accepting a step of 0 undoes it.

`s` is a `TreeState` of `solvers/coordinate/feature_bcd_state.py`. A flat model is the taxonomy without parents.
Shapes: K nodes, N items.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.rows import UNDERFLOW, exp_in_place

SUMS, P = range(2)  # of s.rows
WEIGHT, LOG_Z, OBSERVED, TRIAL_LOG_Z, TRIAL_OBSERVED, TOTAL = range(6)  # of s.items


@subkernel
def sum_paths(parents, delta, out):
    """out(k) = the sum of delta over node k and all its ancestors; out may be delta itself."""
    for k in range(parents.size):
        out[k] = delta[k] if parents[k] < 0 else delta[k] + out[parents[k]]


@subkernel
def go_down(s, t, step):
    """Write exp(label score - largest) of item t's labels into its row of p; returns log Z.

    The label scores are the item's path sums plus step * s.paths.
    """
    sums, p, paths = s.rows[SUMS, t], s.rows[P, t], s.paths
    largest = -np.inf
    for k in range(sums.size):
        p[k] = sums[k] + step * paths[k]
        if s.is_label[k]:
            largest = p[k] if p[k] > largest else largest
    for k in range(sums.size):
        p[k] = p[k] - largest if s.is_label[k] else UNDERFLOW
    exp_in_place(p, s.exponents)
    total = 0.0
    for k in range(p.size):
        total += p[k]
    s.n_steps[0] += 1
    s.items[TOTAL, t] = total
    return largest + np.log(total)


@subkernel
def go_up(s, t):
    """Turn the exponentials in item t's row of p into node marginals."""
    p, parents, inverse = s.rows[P, t], s.parents, 1.0 / s.items[TOTAL, t]
    for k in range(p.size):
        p[k] *= inverse
    for k in range(p.size - 1, -1, -1):
        if parents[k] >= 0:
            p[parents[k]] += p[k]
    s.n_steps[1] += 1


@kernel
def load_trees(s):
    """Compute the marginals of all items; the path sums take the place of the scores."""
    for t in range(s.rows.shape[1]):
        sum_paths(s.parents, s.rows[SUMS, t], s.rows[SUMS, t])
        go_down(s, t, 0.0)
        go_up(s, t)


@kernel
def tree_slopes(s, feature, g, h):
    """Write gradient g and curvature h of a feature's weights, float64 (K,) each.

    g(k) = sum_t weight x_tf (p_t(k) - observed),   h(k) = sum_t weight x_tf^2 p_t(k) (1 - p_t(k))
    """
    for k in range(s.parents.size):
        g[k] = h[k] = 0.0
    for c in range(s.indptr[feature], s.indptr[feature + 1]):
        t, x = s.indices[c], s.values[c] if s.values.size > 0 else 1.0
        slope, square, p = s.items[WEIGHT, t] * x, s.items[WEIGHT, t] * x * x, s.rows[P, t]
        for k in range(p.size):
            g[k] += slope * p[k]
            h[k] += square * p[k] * (1.0 - p[k])
        k = s.targets[t]
        while k >= 0:
            g[k] -= slope
            k = s.parents[k]


@kernel
def try_tree(s, feature, delta, step):
    """Return the change of the loss when the scores of a feature's items t move by step x_tf delta, (K,)."""
    change = 0.0
    sum_paths(s.parents, delta, s.paths)
    for c in range(s.indptr[feature], s.indptr[feature + 1]):
        t, x = np.int64(s.indices[c]), s.values[c] if s.values.size > 0 else 1.0
        gain = step * x * s.paths[s.targets[t]]
        s.items[TRIAL_LOG_Z, t] = go_down(s, t, step * x)
        s.items[TRIAL_OBSERVED, t] = s.items[OBSERVED, t] + gain
        change += s.items[WEIGHT, t] * ((s.items[TRIAL_LOG_Z, t] - s.items[LOG_Z, t]) - gain)
    return change


@kernel
def accept_tree(s, feature, step):
    """Accept the move that was tried last."""
    for c in range(s.indptr[feature], s.indptr[feature + 1]):
        t, x = np.int64(s.indices[c]), s.values[c] if s.values.size > 0 else 1.0
        for k in range(s.paths.size):
            s.rows[SUMS, t, k] += step * x * s.paths[k]
        go_up(s, t)
        s.items[LOG_Z, t], s.items[OBSERVED, t] = s.items[TRIAL_LOG_Z, t], s.items[TRIAL_OBSERVED, t]
