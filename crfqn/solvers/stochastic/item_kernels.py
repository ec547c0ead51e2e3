"""Kernels for learning item by item: the best labelling of an item, and the change from one labelling to another.

The loop over the items is `learn_items` of `learning_kernels.py`. The features of a taxonomy's label are those of its
node and of the nodes above it, so that a change leaves common ancestors out. A state of a chain is a node without a
parent.

Shapes: F features, K states or nodes, width = K rounded up to LANES. An item has the positions a ... b - 1 of all, T of
a chain, one of a taxonomy; its labels and states are int32 (T,), its scores float64 (T, width). Edges : (K, width) of a
chain, (0, width) of a taxonomy.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.rows import add_picked
from crfqn.kernels.viterbi import TransitionMask, add_mask, came_from, extend_paths

N_SEEN, N_WRONG = 0, 1  # indices in `LearnedWeights.counters`


class ItemData(NamedTuple):
    """Items.

    offsets : int64 (items + 1,), item i has the positions offsets[i] ... offsets[i + 1] - 1
    indptr, features, values : the features of the positions in CSR form; values (0,) if all are 1
    targets, weights : int32 (positions,), the observed states; float64 (items,)
    """

    offsets: np.ndarray
    indptr: np.ndarray
    features: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class ItemStructure(NamedTuple):
    """The structure of the items, a chain or a taxonomy; items of a taxonomy have one position each.

    parents : int32 (K,), the parent of each node, which has a lower number, or -1; -1 for all states of a chain
    is_label : bool (K,), whether a node is a label
    mask : TransitionMask, of chains
    is_chain : whether it is a chain, whose rows of edges come after those of the features
    """

    parents: np.ndarray
    is_label: np.ndarray
    mask: TransitionMask
    is_chain: bool


class LearnedWeights(NamedTuple):
    """Weights in rows: one for each feature, then one for each state that edges start from.

    weights : float64 (rows, width); of SGD (rows, 2 width): the weights v, then the penalties q that they have
        received, both padded with zeros to `width`
    corrections : float64 (rows, width), the sum of k tau Delta; (0, width) if there is no mean
    variances : float64 (rows, width), those of the weights; (0, width) without AROW
    shares : float64 (patterns, width), 1 for a penalised weight, 0 for an unpenalised one, infinity for one that stays
        zero
    pattern_of : int32 (rows,), the pattern of each row; pattern 0 has penalised weights only
    counters : float64 (3,), the numbers of visited items and of wrong positions; of SGD the number of steps, the
        accrued penalty u and the scale s; of Frank-Wolfe the number of multiplications and the increase of the dual
        objective divided by l2
    """

    weights: np.ndarray
    corrections: np.ndarray
    variances: np.ndarray
    shares: np.ndarray
    pattern_of: np.ndarray
    counters: np.ndarray


class ItemChange(NamedTuple):
    """The change of an item's features and edges from one labelling to another: scratch for the largest item.

    rows, states, sizes : int64, int64, float64: the row and the column of each changed weight, and its change
    nodes, signs : int64, float64: the nodes in which two labels differ
    place_of, sums : scratch of `merge_entries`, for chains only: int32 (rows of the weights,), -1 between calls;
        float64 (rows of an item, width), 0 between calls
    """

    rows: np.ndarray
    states: np.ndarray
    sizes: np.ndarray
    nodes: np.ndarray
    signs: np.ndarray
    place_of: np.ndarray
    sums: np.ndarray


class ItemSpace(NamedTuple):
    """Scratch for items of up to T positions, allocated in Python with the alignment of cache lines.

    scores, alpha, psi, gradient : float64 (T + 1, width); alpha also has the best scores up to a state
    residuals : float64 (2, T + 1, width), of all labellings, and of those that the labels allow
    masked, edges, m, m_transposed : float64 (width, width), (0, width) of a taxonomy
    counts : float64 (2, width, width), of transitions, as the residuals
    numbers : float64, one for each position or plane
    states, n_there : int32 (T,)
    lattice : int32 (2, T, K) of Frank-Wolfe on chains, else empty
    """

    scores: np.ndarray
    alpha: np.ndarray
    psi: np.ndarray
    gradient: np.ndarray
    residuals: np.ndarray
    masked: np.ndarray
    edges: np.ndarray
    m: np.ndarray
    m_transposed: np.ndarray
    counts: np.ndarray
    numbers: np.ndarray
    states: np.ndarray
    n_there: np.ndarray
    lattice: np.ndarray


@inner
def edges_of(structure, rows, space):
    """Return the weights of the edges, without and with the mask added."""
    n_edge_rows = structure.parents.size if structure.is_chain else 0
    edges = rows.weights[rows.weights.shape[0] - n_edge_rows :]
    return edges, add_mask(edges, structure.mask, space.masked[:n_edge_rows])


@inner
def score_position(t, data, weights, scores):
    """Write scores[k] = sum_f x_tf w_fk."""
    for k in range(scores.size):
        scores[k] = 0.0
    add_picked(scores, weights, data.features, data.indptr[t], data.indptr[t + 1], data.values)


@subkernel(counts=False)
def best_path(scores, edges, mask, delta, states):
    """Write the best labelling of a chain to `states`, by Viterbi's algorithm. edges : with the mask's transitions; the
    mask's start and end are added here; delta : float64 (T + 1 or more, width), scratch."""
    length, n_states = scores.shape[0], edges.shape[0]
    for t in range(length):
        if t > 0:
            extend_paths(delta[t - 1], edges, delta[t])
        for k in range(delta.shape[1]):
            delta[t, k] = scores[t, k] + (delta[t, k] if t > 0 else mask.start[k])
    state, edges_to = 0, delta[length, :n_states]
    for j in range(n_states):
        edges_to[j] = mask.end[j]
    for t in range(length - 1, -1, -1):
        state = came_from(delta[t, :n_states], edges_to)
        states[t] = state
        for j in range(n_states):
            edges_to[j] = edges[j, state]


@inner
def best_labelling(scores, structure, edges, delta, states):
    """Write the best labelling of an item to `states`. The scores of a taxonomy's nodes are replaced by their sums over
    the path from the root; edges, delta : as of `best_path`."""
    if structure.is_chain:
        best_path(scores, edges, structure.mask, delta, states)
        return
    parents, s, best = structure.parents, scores[0], -1
    for k in range(parents.size):
        s[k] += s[parents[k]] if parents[k] >= 0 else 0.0
        if structure.is_label[k] and (best < 0 or s[k] > s[best]):
            best = k
    states[0] = best


@subkernel(counts=False)
def labelling_score(states, scores, edges):
    """Return the score of a labelling; scores : of labels."""
    total = 0.0
    for t in range(states.size):
        total += scores[t, states[t]]
        if t > 0:
            total += edges[states[t - 1], states[t]]
    return total


@inner
def differing_nodes(right, wrong, parents, nodes, signs):
    """Write the nodes that are on the path from the root to only one of two labels, with the sign 1 for those of
    `right` and -1 for those of `wrong`; return their number."""
    n = 0
    while right != wrong:
        if right > wrong:  # it is not an ancestor of the other, since parents have lower numbers
            nodes[n], signs[n], right = right, 1.0, parents[right]
        else:
            nodes[n], signs[n], wrong = wrong, -1.0, parents[wrong]
        n += 1
    return n


@inner
def add_entry(n, row, state, size, rows, change):
    """Append an entry to a change of `n` entries unless its weight stays zero; return the number of entries."""
    if rows.shares.shape[0] > 1 and rows.shares[rows.pattern_of[row], state] == np.inf:
        return n
    change.rows[n], change.states[n], change.sizes[n] = row, state, size
    return n + 1


@inner
def list_change(a, right, wrong, data, structure, rows, change):
    """Write Delta = Phi(x, right) - Phi(x, wrong) of the item whose first position is `a` to `change`; return the
    number of entries. A weight of a chain may have several entries."""
    n, first_edge, parents = 0, rows.weights.shape[0] - structure.parents.size, structure.parents
    for t in range(right.size):
        n_nodes = differing_nodes(right[t], wrong[t], parents, change.nodes, change.signs)
        for e in range(data.indptr[a + t], data.indptr[a + t + 1] if n_nodes > 0 else data.indptr[a + t]):
            x = data.values[e] if data.values.size > 0 else 1.0
            for j in range(n_nodes):
                n = add_entry(n, data.features[e], change.nodes[j], change.signs[j] * x, rows, change)
        if t > 0 and (right[t] != wrong[t] or right[t - 1] != wrong[t - 1]):
            n = add_entry(n, first_edge + right[t - 1], right[t], 1.0, rows, change)
            n = add_entry(n, first_edge + wrong[t - 1], wrong[t], -1.0, rows, change)
    return n


@inner
def merge_entries(n, change):
    """Sum the entries of each weight into its first one, and set the others to 0; return |Delta|^2."""
    n_rows, square = 0, 0.0
    for e in range(n if change.place_of.size > 0 else 0):
        row = change.rows[e]
        if change.place_of[row] < 0:
            change.place_of[row] = n_rows
            n_rows += 1
        change.sums[change.place_of[row], change.states[e]] += change.sizes[e]
    for e in range(n):
        if n_rows > 0:
            sums = change.sums[change.place_of[change.rows[e]]]
            change.sizes[e], sums[change.states[e]] = sums[change.states[e]], 0.0
        square += change.sizes[e] * change.sizes[e]
    for e in range(n if n_rows > 0 else 0):
        change.place_of[change.rows[e]] = -1
    return square


@inner
def add_change(n, change, tau, rows):
    """Add tau Delta to the weights, and k tau Delta to the corrections of the mean."""
    has_mean = rows.corrections.shape[0] > 0
    for e in range(n):
        row, state, step = change.rows[e], change.states[e], tau * change.sizes[e]
        rows.weights[row, state] += step
        if has_mean:
            rows.corrections[row, state] += rows.counters[N_SEEN] * step


@kernel
def count_means(n_features, weights, corrections, share, counts):
    """Add to counts[k] the number of features f with weights[f, k] - share corrections[f, k] != 0; int64 (K,)."""
    for f in range(n_features):
        for k in range(counts.size):
            counts[k] += weights[f, k] - share * corrections[f, k] != 0.0


@kernel
def write_means(n_features, weights, corrections, share, heads, coords, means):
    """Write the differences that are not 0, and their coordinates k F + f, in ascending order of the coordinates;
    heads : int64 (K,), the index of each state's first one, changed."""
    for f in range(n_features):
        for k in range(heads.size):
            mean = weights[f, k] - share * corrections[f, k]
            if mean != 0.0:
                coords[heads[k]], means[heads[k]] = k * n_features + f, mean
                heads[k] += 1
