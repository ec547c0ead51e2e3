"""Pairwise steps of block-coordinate Frank-Wolfe on structured hinges (Osokin et al. 2016, Algorithm 4).

The loss is the Hamming loss for chains, by Viterbi's algorithm, and the tree loss for taxonomies. The dual variables of
an item are a distribution over its labellings; those with a positive share are its planes:

    w = (1 / l2) sum_i c_i sum_y share_iy X_i' (observed_i - counts(y))

A step finds the labelling of the largest margin violation, y+ = argmax_y L(y_i, y) + score(y), and moves gamma of the
share of the plane y- of the smallest violation to it:

    gap_i = c_i (violation(y+) - sum_y share_iy violation(y)),
    gamma = min(share of y-, l2 (violation(y+) - violation(y-)) / (c_i |X_i' (counts(y+) - counts(y-))|^2))

A step among planes searches y+ among the labellings that have, at each position, a state of one of the item's planes
(a lattice), and scores only positions at which the planes differ.

Shapes: as in `item_kernels.py`.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, subkernel
from crfqn.solvers.stochastic.item_kernels import (
    add_change,
    best_labelling,
    differing_nodes,
    edges_of,
    labelling_score,
    list_change,
    merge_entries,
    score_position,
)

OPERATIONS, GAIN = 0, 1  # indices in `LearnedWeights.counters`


class Planes(NamedTuple):
    """The planes of all items, with free places for more.

    first : int64 (I + 1,), item i has the places first[i] ... first[i + 1] - 1
    n_used : int64 (I,), the number of these places in use, which come first
    shares, losses : float64 (places,), the share of each plane, and its loss L(y_i, y)
    heads : int64 (I,), the index in `labels` of the first label of an item's first place; the other places follow
    labels : int32, the labels of all places
    """

    first: np.ndarray
    n_used: np.ndarray
    shares: np.ndarray
    losses: np.ndarray
    heads: np.ndarray
    labels: np.ndarray


class PairwiseSteps(NamedTuple):
    """The arguments of pairwise steps besides items, weights and scratch.

    planes : Planes
    gaps : float64 (I,), gap_i / l2 before the step, an output
    among_planes : whether y+ is searched in the lattice of the planes of an item (chains only), or among all labellings
    """

    planes: Planes
    gaps: np.ndarray
    among_planes: bool


@inner
def item_planes(i, length, planes):
    """Return views of an item's places: labels (places, T), shares and losses (places,)."""
    begin, end = planes.first[i], planes.first[i + 1]
    labels = planes.labels[planes.heads[i] : planes.heads[i] + (end - begin) * length]
    return labels.reshape(end - begin, length), planes.shares[begin:end], planes.losses[begin:end]


@subkernel(counts=False)
def drop_idle(n, labels, shares, losses):
    """Remove those of an item's n planes whose share is 0; return the number of the others."""
    n_used = 0
    for p in range(n):
        if shares[p] > 0.0:
            if n_used < p:
                shares[n_used], losses[n_used] = shares[p], losses[p]
                for t in range(labels.shape[1]):
                    labels[n_used, t] = labels[p, t]
            n_used += 1
    shares[n_used:n] = 0.0
    return n_used


@subkernel(counts=False)
def find_plane(states, n, labels, shares):
    """Return the place of a labelling among n planes, or a free place for it, or -1 if there is none."""
    place = n if n < shares.size else -1
    for p in range(n):
        t = 0
        while t < states.size and labels[p, t] == states[t]:
            t += 1
        if t == states.size:
            return p
        if place < 0 and shares[p] == 0.0:
            place = p
    return place


@subkernel(counts=False)
def score_open(a, n_there, data, weights, structure, scores):
    """Score the positions of an item that have several possible states, and return the number of their entries; the
    other positions, where all planes have the same label, score 0. Scores include the loss up to a constant: the
    Hamming loss minus 1 of a chain; of a taxonomy the tree loss minus half the number of nodes on the path to the
    observed label."""
    n_scored, parents = 0, structure.parents
    for t in range(n_there.size):
        if n_there[t] == 1:
            scores[t] = 0.0
            continue
        score_position(a + t, data, weights, scores[t])
        for k in range(0 if structure.is_chain else parents.size):
            scores[t, k] += 0.5
        node = data.targets[a + t]
        while node >= 0:
            scores[t, node] -= 1.0
            node = parents[node]
        n_scored += data.indptr[a + t + 1] - data.indptr[a + t]
    return n_scored


@subkernel(counts=False)
def lattice_of(n, labels, lattice, n_there, is_there):
    """Write the states of n planes at each position to lattice, int32 (T, K), and their number to n_there, int32 (T,).
    is_there : int32 (K,), scratch, which marks the states of a position; a search in `lattice` is slower, since its
    branches are mispredicted."""
    for k in range(is_there.size):
        is_there[k] = 0
    for t in range(labels.shape[1]):
        n_found = 0
        for p in range(n):
            state = labels[p, t]
            if is_there[state] == 0:
                lattice[t, n_found], is_there[state] = state, 1
                n_found += 1
        for j in range(n_found):
            is_there[lattice[t, j]] = 0
        n_there[t] = n_found


@subkernel(counts=False)
def label_in_lattice(lattice, n_there, scores, edges, mask, best, origin, states):
    """Write the best labelling in a lattice to `states`; scores are added at positions of several states only.

    best, origin : float64 (T, width) and int32 (T, K), scratch: the best score up to a state, and the state before it
    """
    length = states.size
    for t in range(length):
        for j in range(n_there[t]):
            state = lattice[t, j]
            best[t, j], origin[t, j] = -np.inf, 0
            if t == 0:
                best[t, j] = mask.start[state]
            for q in range(n_there[t - 1] if t > 0 else 0):
                reached = best[t - 1, q] + edges[lattice[t - 1, q], state]
                if q == 0 or reached > best[t, j]:
                    best[t, j], origin[t, j] = reached, q
            if n_there[t] > 1:
                best[t, j] += scores[t, state]
    chosen = 0
    for j in range(n_there[length - 1]):
        best[length - 1, j] += mask.end[lattice[length - 1, j]]
        if best[length - 1, j] > best[length - 1, chosen]:
            chosen = j
    for t in range(length - 1, -1, -1):
        states[t] = lattice[t, chosen]
        chosen = origin[t, chosen]


@subkernel(counts=False)
def move_share(gamma, place, away, states, targets, parents, i, planes, change):
    """Move gamma of the share of the plane `away` of item i to the labelling `states`, at its place or a free one. The
    loss of a labelling is half the number of nodes in which its labels differ from the observed ones, `targets`: the
    Hamming loss of a chain, half the distance of the labels in a taxonomy."""
    labels, shares, losses = item_planes(i, states.size, planes)
    if place == planes.n_used[i] or shares[place] == 0.0:
        shares[place], losses[place] = 0.0, 0.0
        for t in range(states.size):
            labels[place, t] = states[t]
            losses[place] += 0.5 * differing_nodes(states[t], targets[t], parents, change.nodes, change.signs)
        planes.n_used[i] = max(planes.n_used[i], place + 1)
    shares[place] += gamma
    shares[away] = shares[away] - gamma if gamma < shares[away] else 0.0


@inner
def improve_item(i, data, structure, rows, pairwise_steps, change, space):
    """Take a pairwise step on item i.

    data : ItemData, whose weights are c_i / l2, above 0
    rows : LearnedWeights without a mean; operations and gains are added to its counters
    """
    planes, gaps, among_planes = pairwise_steps
    a, mass, length, width = (
        data.offsets[i], data.weights[i], data.offsets[i + 1] - data.offsets[i], rows.weights.shape[1],
    )  # fmt: skip
    scores, delta, violations = space.scores[:length], space.alpha, space.numbers
    states, n_there, counters = space.states[:length], space.n_there[:length], rows.counters
    labels, shares, losses = item_planes(i, length, planes)
    if not among_planes:
        planes.n_used[i] = drop_idle(planes.n_used[i], labels, shares, losses)
    n = planes.n_used[i]
    if among_planes and n < 2:
        gaps[i] = 0.0
        return
    # y+, the labelling of the largest margin violation.
    n_there[:] = 2
    if among_planes:
        lattice_of(n, labels, space.lattice[0], n_there, space.lattice[1, 0])
    n_scored = score_open(a, n_there, data, rows.weights, structure, scores)
    _, edges = edges_of(structure, rows, space)
    counters[OPERATIONS] += width * n_scored
    if among_planes:
        lattice, origin = space.lattice[0], space.lattice[1]
        label_in_lattice(lattice, n_there, scores, edges, structure.mask, delta, origin, states)
        counters[OPERATIONS] += n * length
    else:
        best_labelling(scores, structure, edges, delta, states)
        counters[OPERATIONS] += edges.shape[0] * width * length
    # The gap of the item, and y-, the plane with a share of the smallest violation.
    violation, expected, away = labelling_score(states, scores, edges), 0.0, -1
    for p in range(n):
        violations[p] = labelling_score(labels[p], scores, edges)
        expected += shares[p] * violations[p]
        if shares[p] > 0.0 and (away < 0 or violations[p] < violations[away]):
            away = p
    gaps[i] = mass * max(violation - expected, 0.0)
    place = find_plane(states, n, labels, shares)
    if place < 0:  # without a free place y+ is the plane of the largest violation
        place = np.argmax(violations[:n])
        violation = violations[place]
        for t in range(length):
            states[t] = labels[place, t]
    lead = violation - violations[away]
    if lead <= 0.0:
        return
    # gamma, w -= gamma c_i / l2 X_i' (counts(y+) - counts(y-)), and the increase of the dual objective.
    n_entries = list_change(a, states, labels[away], data, structure, rows, change)
    square = mass * merge_entries(n_entries, change)
    gamma = lead / square if lead < shares[away] * square else shares[away]
    add_change(n_entries, change, -gamma * mass, rows)
    targets = data.targets[a : a + length]
    move_share(gamma, place, away, states, targets, structure.parents, i, planes, change)
    counters[GAIN] += mass * gamma * (lead - 0.5 * gamma * square)
    counters[OPERATIONS] += width * n_scored
