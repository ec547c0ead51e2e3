"""Pairwise steps of block-coordinate Frank-Wolfe on structured hinges, an item at a time: chains by Viterbi with the
Hamming loss added, taxonomies by the best label with the tree loss added.

An item's dual variables are a distribution over its labellings, of which those with a share are kept, its planes:

    w = (1 / l2) sum_i c_i sum_y share_iy X_i' (observed_i - counts(y))

A step finds the labelling that violates the item's margin most, y+ = argmax_y L(y_i, y) + score(y), and moves some of
the share of the plane y- that violates it least:

    gap_i = c_i (violation(y+) - sum_y share_iy violation(y)),
    gamma = min(share of y-, l2 (violation(y+) - violation(y-)) / (c_i |X_i' (counts(y+) - counts(y-))|^2))

(Osokin et al. 2016, Algorithm 4.) A step among planes asks for y+ no more than the lattice of the states that the
item's planes have at each position: what several of them have in different places can be in one, and only positions
where planes differ are scored.

Shapes: as in `solvers/stochastic/perceptron_kernels.py`.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.rows import add_picked, aligned_rows
from crfqn.kernels.viterbi import add_mask
from crfqn.solvers.stochastic.item_kernels import largest_item
from crfqn.solvers.stochastic.perceptron_kernels import (
    AveragedRows,
    best_node,
    correct_item,
    differing_nodes,
    label_item,
    node_square,
)

OPERATIONS, GAIN = 0, 1  # places in `totals`: multiplications, about, and how much the dual has risen, / l2


class Planes(NamedTuple):
    """Labellings that the items' distributions are over, with room for more.

    first : int64 (I + 1,), item i has the places first[i] ... first[i + 1] - 1
    n_used : int64 (I,), how many of these are in use, the first ones
    shares, losses : float64 (places,), of the distribution; L(y_i, y)
    heads : int64 (I,), where the labels of an item's first place begin; those of the others follow
    labels : int32
    """

    first: np.ndarray
    n_used: np.ndarray
    shares: np.ndarray
    losses: np.ndarray
    heads: np.ndarray
    labels: np.ndarray


@subkernel
def item_planes(i, length, planes):
    """Return the views of an item's places: labels (places, T), shares, losses (places,)."""
    begin, end = planes.first[i], planes.first[i + 1]
    labels = planes.labels[planes.heads[i] : planes.heads[i] + (end - begin) * length]
    return labels.reshape(end - begin, length), planes.shares[begin:end], planes.losses[begin:end]


@subkernel
def drop_idle(n, labels, shares, losses):
    """Give up an item's planes without a share, and return how many are left of its n."""
    kept = 0
    for p in range(n):
        if shares[p] > 0.0:
            if kept < p:
                shares[kept], losses[kept] = shares[p], losses[p]
                for t in range(labels.shape[1]):
                    labels[kept, t] = labels[p, t]
            kept += 1
    shares[kept:n] = 0.0
    return kept


@subkernel
def plane_of(states, n, labels, shares):
    """Return the place of a labelling among n planes, or one to write it to; -1 where there is none."""
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


@subkernel
def best_plane(n, violations):
    """Return the plane of n that violates the margin most."""
    best = 0
    for p in range(1, n):
        best = p if violations[p] > violations[best] else best
    return best


@subkernel
def move_share(place, away, gamma, states, loss, i, labels, shares, losses, planes):
    """Move gamma of the share of the plane `away` of item i to a labelling, `place` being its own or free."""
    if place == planes.n_used[i] or shares[place] == 0.0:
        shares[place], losses[place] = 0.0, loss
        for t in range(states.size):
            labels[place, t] = states[t]
        planes.n_used[i] = max(planes.n_used[i], place + 1)
    shares[place] += gamma
    shares[away] = shares[away] - gamma if gamma < shares[away] else 0.0


@subkernel
def score_open(a, is_open, data, weights, structure, scores):
    """Score the open positions of an item, with the loss less a constant, and return their entries: of a chain the
    Hamming loss less 1 for all states; of a taxonomy the tree loss less half the nodes on the way to the observed
    label, half a node for each that a label has alone."""
    n_scored = 0
    for t in range(is_open.size):
        if is_open[t]:
            scores[t] = 0.0
            begin, end = data.indptr[a + t], data.indptr[a + t + 1]
            add_picked(scores[t], weights, data.features, begin, end, data.values)
            for k in range(0 if structure.is_chain else structure.parents.size):
                scores[t, k] += 0.5
            node = data.targets[a + t]
            while node >= 0:
                scores[t, node] -= 1.0
                node = structure.parents[node]
            n_scored += end - begin
    return n_scored


@subkernel
def labelling_loss(states, targets, parents, nodes, signs):
    """Return the loss of a labelling: half of the nodes in which its labels differ from the observed ones, which is the
    Hamming loss of a chain and half the way from label to label in a taxonomy."""
    total = 0.0
    for t in range(states.size):
        total += 0.5 * differing_nodes(states[t], targets[t], parents, nodes, signs)
    return total


@subkernel
def least_and_mean(n, shares, violations):
    """Return the plane with a share that violates the margin least, and what the distribution expects."""
    least, expected = -1, 0.0
    for p in range(n):
        expected += shares[p] * violations[p]
        if shares[p] > 0.0 and (least < 0 or violations[p] < violations[least]):
            least = p
    return least, expected


@subkernel
def lattice_of(n, labels, lattice, n_there, is_open):
    """Write the states that n planes have at each position: lattice, int32 (T, K), of which n_there, int64 (T,), count;
    is_open : whether there are several."""
    is_there = np.zeros(lattice.shape[1], np.bool_)
    for t in range(labels.shape[1]):
        n_there[t] = 0
        for p in range(n):
            if not is_there[labels[p, t]]:
                lattice[t, n_there[t]] = labels[p, t]
                is_there[labels[p, t]] = True
                n_there[t] += 1
        for j in range(n_there[t]):
            is_there[lattice[t, j]] = False
        is_open[t] = n_there[t] > 1


@subkernel
def violation(states, scores, edges, is_open):
    """Return the sum of a labelling's scores at open positions and of the edges there, which all planes share
    elsewhere."""
    total = 0.0
    for t in range(states.size):
        if is_open[t]:
            total += scores[t, states[t]]
        if t > 0 and (is_open[t] or is_open[t - 1]):
            total += edges[states[t - 1], states[t]]
    return total


@subkernel
def label_in_lattice(lattice, n_there, scores, edges, mask, best, origin, states):
    """Find the best labelling in a lattice of states; scores count where there are several.

    best, origin : float64 and int64 (T, K), scratch: of the labellings up to a state, and whence they come
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


@subkernel
def squares_of(a, to, source, data, first, changes):
    """Return |X_i' (counts(to) - counts(source))|^2 of what `correct_item` has added to `changes`, zeros before and
    after."""
    total = 0.0
    for t in range(to.size):
        if to[t] != source[t]:
            for e in range(data.indptr[a + t], data.indptr[a + t + 1]):
                row = changes[data.features[e]]
                total += row[to[t]] * row[to[t]] + row[source[t]] * row[source[t]]
                row[to[t]] = row[source[t]] = 0.0
        if t > 0 and (to[t] != source[t] or to[t - 1] != source[t - 1]):
            for states in (to, source):
                row = changes[first + states[t - 1]]
                total += row[states[t]] * row[states[t]]
                row[states[t]] = 0.0
    return total


@subkernel
def size_of_step(lead, square, share, mass):
    """Return gamma, and what it adds to the dual / l2; lead : violation(y+) - violation(y-); square : of the change
    of the features."""
    gamma = lead / (mass * square) if lead < share * mass * square else share
    return gamma, mass * gamma * (lead - 0.5 * gamma * mass * square)


@kernel
def improve(order, data, structure, planes, among_planes, moves, gaps, rows, changes, totals):
    """Take a pairwise step on each item of `order`.

    data : ItemData, whose weights are c_i / l2, above 0 for the items of `order`
    among_planes : whether y+ is looked for in the lattice of the planes of an item, a chain, not among all labellings
    moves : whether to take the steps, or only to measure
    gaps : float64 (I,), gap_i / l2, out; the part of it that y+ accounts for
    rows, changes : AveragedRows without a mean, and float64 like its weights, zeros, scratch
    totals : float64 (2,), to which operations and gains are added
    """
    weights, masses, targets, mask = rows.weights, data.weights, data.targets, structure.mask
    parents, is_chain = structure.parents, structure.is_chain
    n_states, width = parents.size, weights.shape[1]
    n_edge_rows = n_states if is_chain else 0
    n_features = weights.shape[0] - n_edge_rows
    edges = weights[n_features:]
    change_rows = AveragedRows(
        changes, rows.corrections, rows.variances, rows.is_fixed, rows.pattern_of, rows.counters
    )
    longest, _ = largest_item(order, data)
    most = 1
    for i in order:
        most = max(most, planes.first[i + 1] - planes.first[i])
    scores, delta = aligned_rows(longest, width), aligned_rows(longest, width)
    lattice, n_there = np.empty((longest, n_states), np.int32), np.empty(longest, np.int64)
    best, origin = np.empty((longest, n_states)), np.empty((longest, n_states), np.int64)
    worst, masked = np.empty(longest, np.int32), aligned_rows(n_edge_rows, width)
    violations, opened = np.empty(most + 1), np.empty(longest, np.bool_)
    nodes, signs = np.empty(2 * n_states, np.int64), np.empty(2 * n_states)
    for i in order:
        a, b = data.offsets[i], data.offsets[i + 1]
        length, states, is_open = b - a, worst[: b - a], opened[: b - a]
        labels, shares, losses = item_planes(i, length, planes)
        n = planes.n_used[i]
        if among_planes:
            if n < 2:
                gaps[i] = 0.0
                continue
            lattice_of(n, labels, lattice, n_there, is_open)
        else:
            if moves:
                n = planes.n_used[i] = drop_idle(n, labels, shares, losses)
            is_open[:] = True
        n_scored = score_open(a, is_open, data, weights, structure, scores)
        open_edges = add_mask(edges, mask, masked)
        if among_planes:
            label_in_lattice(lattice, n_there, scores, open_edges, mask, best, origin, states)
            totals[OPERATIONS] += width * n_scored + n * length
        elif is_chain:
            label_item(scores[:length], open_edges, mask, delta[:length], states)
            totals[OPERATIONS] += width * n_scored + n_states * width * length
        else:
            states[0] = best_node(scores[0], parents, structure.is_label, delta[0])
            scores[0] = delta[0]
            totals[OPERATIONS] += width * n_scored
        for p in range(n):
            violations[p] = violation(labels[p], scores, edges, is_open)
        most_violated = violation(states, scores, edges, is_open)
        away, expected = least_and_mean(n, shares, violations)
        gaps[i] = masses[i] * max(most_violated - expected, 0.0)
        lead = most_violated - violations[away]
        if not moves or lead <= 0.0:
            continue
        place = plane_of(states, n, labels, shares)
        if place < 0:  # no room before the next pass: the best of the planes instead
            place = best_plane(n, violations)
            lead = violations[place] - violations[away]
            if lead <= 0.0:
                continue
            states[:] = labels[place]
        if is_chain:
            correct_item(a, states, labels[away], 1.0, data, parents, nodes, signs, n_features, change_rows)
            square = squares_of(a, states, labels[away], data, n_features, changes)
        else:
            square = node_square(a, states[0], labels[away, 0], data, parents, nodes, signs, rows)
        gamma, gain = size_of_step(lead, square, shares[away], masses[i])
        tau = -gamma * masses[i]
        correct_item(a, states, labels[away], tau, data, parents, nodes, signs, n_features, rows)
        loss = labelling_loss(states, targets[a:b], parents, nodes, signs)
        move_share(place, away, gamma, states, loss, i, labels, shares, losses, planes)
        totals[GAIN] += gain
        totals[OPERATIONS] += width * n_scored
