"""Exact inference over a taxonomy: downward path sums, upward marginals (paper, section 6.2 and appendix D.2).

For an item x with node scores s and nodes numbered parents first,

    down   alpha(k) = s(k) + alpha(parent of k),    log Z = log sum over labels y of exp(alpha(y))
    up     p(k) = [k is a label] exp(alpha(k) - log Z) + sum over children j of p(j)

(in print the exp of an upward message's leaf is missing). Every node is visited a fixed number of times: O(K) an item.
A flat model is the taxonomy without parents.

Numerics: exponents are taken less the item's largest label score, so that the largest term of Z is 1. A node that is no
label gets the smallest exponential in the place of 0, 3e-308, which no sum beside a 1 can see: one branch-free
exponential over the whole tile is faster than a test at each node.

Memory: scores and residual are label-major float64 (K, N), K nodes, N items; a tile of items is worked on in a
contiguous (K, width) buffer that stays in the L2 cache. Main memory then only sees a score in and a residual out, 24
bytes a node and item (a line is read before it is written). parents: int32 (K,), -1 at the top.
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.rows import LANES, UNDERFLOW, exp_in_place

TILE_NUMBERS = 3 << 15  # of a tile: 768 KB
GROUP = 1024  # numbers whose exponentials are taken together: 8 KB
WIDEST = 256


@subkernel
def tile_width(n_nodes):
    """Return the number of items in a tile: whole vector registers, one at least."""
    width = TILE_NUMBERS // n_nodes // LANES * LANES
    if width > WIDEST:
        return WIDEST
    return width if width > LANES else LANES


@kernel
def path_sums(first, last, parents, scores, out):
    """out[k, t] = the scores of node k and all its ancestors, for the items t = first ... last - 1."""
    for k in range(parents.size):
        if parents[k] < 0:
            for t in range(first, last):
                out[k, t] = scores[k, t]
        else:
            for t in range(first, last):
                out[k, t] = scores[k, t] + out[parents[k], t]


@kernel
def best_labels(first, last, is_label, sums, best, states):
    """Find the label node with the largest path sum of the items first ... last - 1, ties to the lower number; best :
    float64 (N,), the path sum, states : int32 (N,), the node, out."""
    for t in range(first, last):
        best[t], states[t] = -np.inf, -1
    for k in range(is_label.size):
        if is_label[k]:
            for t in range(first, last):
                if sums[k, t] > best[t] or states[t] < 0:
                    best[t], states[t] = sums[k, t], k


@subkernel
def tile_down(start, width, parents, is_label, scores, tile, largest):
    """Write alpha of the items start ... start + width - 1 into the tile, and each item's largest label score."""
    for t in range(width):
        largest[t] = -np.inf
    for k in range(parents.size):
        row, above = k * width, parents[k] * width
        if above < 0:
            for t in range(width):
                tile[row + t] = scores[k, start + t]
        else:
            for t in range(width):
                tile[row + t] = scores[k, start + t] + tile[above + t]
        if is_label[k]:
            for t in range(width):
                largest[t] = tile[row + t] if tile[row + t] > largest[t] else largest[t]


@subkernel
def tile_exponentials(width, is_label, tile, largest, expected, shifted):
    """Replace the labels' alpha by e = exp(alpha - largest); expected[t] = the sum of e (alpha - largest). By groups of
    rows that fit the L1 cache; shifted : scratch, a group at least."""
    n_nodes, n_rows = is_label.size, max(shifted.size // width, 1)
    for t in range(width):
        expected[t] = 0.0
    for first in range(0, n_nodes, n_rows):
        last = min(first + n_rows, n_nodes)
        group = tile[first * width : last * width]
        for k in range(first, last):
            row = (k - first) * width
            if is_label[k]:
                for t in range(width):
                    group[row + t] -= largest[t]
                    shifted[row + t] = group[row + t]
            else:
                for t in range(width):
                    group[row + t] = UNDERFLOW
        exp_in_place(group)
        for k in range(first, last):
            row = (k - first) * width
            if is_label[k]:
                for t in range(width):
                    expected[t] += group[row + t] * shifted[row + t]


@subkernel
def tile_up(width, parents, tile, total):
    """Add to each node's exponential those of all nodes under it; total[t] = Z of the item over its largest term."""
    for t in range(width):
        total[t] = 0.0
    for k in range(parents.size - 1, -1, -1):
        row, above = k * width, parents[k] * width
        if above < 0:
            for t in range(width):
                total[t] += tile[row + t]
        else:
            for t in range(width):
                tile[above + t] += tile[row + t]


@kernel
def tree_marginals(first, last, parents, is_label, scores, targets, weights, residual, sums):
    """Run inference: residual[k, t] = weight * (p_t(k) - [k is the target or above it]), without `targets` weight * p;
    sums : float64 (N, 3), in nats: an item's log Z, expected score and target's score, without its weight."""
    n_nodes = parents.size
    widest = tile_width(n_nodes)
    tile = np.empty(n_nodes * widest)
    shifted, largest = np.empty(max(GROUP, widest)), np.empty(widest)
    total, expected = np.empty(widest), np.empty(widest)
    for start in range(first, last, widest):
        width = widest if last - start > widest else last - start
        tile_down(start, width, parents, is_label, scores, tile, largest)
        tile_exponentials(width, is_label, tile, largest, expected, shifted)
        tile_up(width, parents, tile, total)
        for t in range(width):
            sums[start + t, 0] = largest[t] + np.log(total[t])
            total[t] = 1.0 / total[t]
            sums[start + t, 1] = largest[t] + expected[t] * total[t]
        for k in range(n_nodes):
            for t in range(width):
                p = tile[k * width + t] * total[t]
                residual[k, start + t] = p * weights[start + t]
        if targets.size:
            subtract_tree_targets(start, start + width, parents, scores, targets, weights, residual, sums)


@subkernel
def subtract_tree_targets(first, last, parents, scores, targets, weights, residual, sums):
    """Subtract the observed nodes, each target with its ancestors, from the residual, and add up their scores."""
    for t in range(first, last):
        score, k = 0.0, targets[t]
        while k >= 0:
            residual[k, t] -= weights[t]
            score += scores[k, t]
            k = parents[k]
        sums[t, 2] = score


@kernel
def add_marginal_variance(first, last, states, residual, inverse_weights, out):
    """out[t] += sum over the states of p_t(k) (1 - p_t(k)) for t = first ... last - 1; p is read off the residual r =
    weight (p - observed): with a = |r| / weight it is a or 1 - a."""
    for k in states:
        for t in range(first, last):
            a = abs(residual[k, t]) * inverse_weights[t]
            out[t] += a * (1.0 - a)
