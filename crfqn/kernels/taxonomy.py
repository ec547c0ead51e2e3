"""Exact inference over a taxonomy: downward path sums, upward marginals (paper, section 6.2 and appendix D.2).

For an item x with node scores s and nodes numbered parents first,

    down   alpha(k) = s(k) + alpha(parent of k),    log Z = log sum over labels y of exp(alpha(y))
    up     p(k) = [k is a label] exp(alpha(k) - log Z) + sum over children j of p(j)

(the paper omits the exp of a leaf's upward message). Every node is visited a fixed number of times: O(K) an item. A
flat model is the taxonomy without parents.

Numerics: the largest label score of the item is subtracted from the exponents, so that the largest term of Z is 1. A
node that is not a label has the smallest exponential, 3e-308, instead of 0: it does not change a sum that contains a
1, and one exponential over the whole tile without branches is faster than a test at each node.

Memory: a tile of items is computed in a contiguous (K, width) buffer that stays in the L2 cache. Main memory then reads
a score and writes a residual, 24 bytes a node and item (a cache line is read before it is written).

    scores, residual   float64 (K, N), label-major; K nodes, N items
    parents            int32 (K,), -1 at the top
"""

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.rows import LANES, MIN_EXPONENT, exp_in_place

MAX_TILE_NUMBERS = 3 << 15  # numbers of a tile, fixed by the L2 cache: 768 KB
EXP_GROUP_NUMBERS = 1024  # numbers whose exponentials are computed together, fixed by the L1 cache: 8 KB
MAX_TILE_ITEMS = 256  # items of a tile of a small forest


@subkernel
def tile_width(n_nodes):
    """Return the number of items in a tile: one or more whole vector registers."""
    width = MAX_TILE_NUMBERS // n_nodes // LANES * LANES
    if width > MAX_TILE_ITEMS:
        return MAX_TILE_ITEMS
    return width if width > LANES else LANES


@kernel
def path_sums(first, last, parents, scores, out):
    """out[k, t] = the sum of the scores of node k and its ancestors, for the items t = first ... last - 1."""
    for k in range(parents.size):
        if parents[k] < 0:
            for t in range(first, last):
                out[k, t] = scores[k, t]
        else:
            for t in range(first, last):
                out[k, t] = scores[k, t] + out[parents[k], t]


@kernel
def best_nodes(first, last, is_label, sums, best, states):
    """Find the label node with the largest path sum of the items first ... last - 1; ties go to the lower number.

    sums : float64 (K, N), path sums
    best, states : float64 (N,) and int32 (N,), out: the largest path sum and its node
    """
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
    """Replace the labels' alpha by e = exp(alpha - largest); expected[t] = the sum of e (alpha - largest).

    shifted : workspace of a group of rows, which fits the L1 cache
    """
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
                    group[row + t] = MIN_EXPONENT
        exp_in_place(group)
        for k in range(first, last):
            row = (k - first) * width
            if is_label[k]:
                for t in range(width):
                    expected[t] += group[row + t] * shifted[row + t]


@subkernel
def tile_up(width, parents, tile, total):
    """Add to each node's exponential those of all nodes under it; total[t] = Z of the item / its largest term."""
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
    sums : float64 (N, 3), out, in nats: log Z, expected score and score of the target of each item, unweighted."""
    n_nodes = parents.size
    widest = tile_width(n_nodes)
    tile = np.empty(n_nodes * widest)
    shifted, largest = np.empty(max(EXP_GROUP_NUMBERS, widest)), np.empty(widest)
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
    """out[t] += sum over the states of p_t(k) (1 - p_t(k)) for t = first ... last - 1. With the residual r = weight (p
    - observed) and a = |r| / weight, p is a or 1 - a."""
    for k in states:
        for t in range(first, last):
            a = abs(residual[k, t]) * inverse_weights[t]
            out[t] += a * (1.0 - a)
