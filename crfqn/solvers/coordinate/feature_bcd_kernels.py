"""Block coordinate descent over the features of a CRF: a sweep over many blocks is one call.

A block is all states' weights of one feature; a chain has one block more, its edges. For each block in turn, with its
gradient g and curvature h (Sokolovska, Lavergne, Cappe and Yvon 2010, section 3.3: the covariance between positions is
left out, and h is at least `floor`),

    d(k) = argmin_d g(k) d + h(k)/2 d^2 + l1 |w(k) + d| + l2/2 (w(k) + d)^2

and a step along d, at first of length 1, that satisfies Armijo's rule: the objective decreases by `armijo` times the
predicted decrease. The change of the loss is computed on the feature's items only.

Either `chain` or `tree` is given, a state of `solvers/coordinate/feature_bcd_state.py`, and the other is None: the
compiler then leaves out what belongs to it.

Shapes: B blocks of a sweep with n coordinates in all. w, g, h, d and l1, l2 of a block: float64 (its coordinates,).
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.solvers.coordinate.chain_block_kernels import (
    accept_edges,
    accept_nodes,
    edge_slopes,
    node_slopes,
    try_edges,
    try_nodes,
)
from crfqn.solvers.coordinate.tree_block_kernels import accept_tree, tree_slopes, try_tree

MOST_TRIALS = 80  # halvings: where the curvature is at its floor, the first step is 1e10 times the gradient


class BlockArrays(NamedTuple):
    """The weights that are not 0, by block: block b has counts[b] of them, from starts[b] on.

    starts, counts : int64 (blocks of the model,)
    states, values : int32 and float64, equally long: the weights' states (of edges: their numbers) and values
    used : int64 (1,), how many places of these two are in use or abandoned; the others are free
    """

    starts: np.ndarray
    counts: np.ndarray
    states: np.ndarray
    values: np.ndarray
    used: np.ndarray


class SweepRule(NamedTuple):
    """Constants of the line search and of shrinking.

    armijo, backtrack : the required decrease, relative to the predicted one, and the factor of the next trial step
    floor : least curvature
    shrink_share, shrink_slack : see `block_violation`
    noise : in nats; a predicted decrease below it cannot be told from rounding
    """

    armijo: float
    backtrack: float
    floor: float
    shrink_share: float
    shrink_slack: float
    noise: float


@kernel
def mask_impossible(block, possible_indptr, possible_states, g):
    """g(k) = 0 for the states k of a block that can have no weight.

    possible_indptr, possible_states : compressed lists of the states that can, ascending in a block
    """
    e, end = possible_indptr[block], possible_indptr[block + 1]
    for k in range(g.size):
        if e < end and possible_states[e] == k:
            e += 1
        else:
            g[k] = 0.0


@kernel
def read_block(block, weights, w):
    """Write all weights of a block into w, zeros included; weights : BlockArrays."""
    for k in range(w.size):
        w[k] = 0.0
    for e in range(weights.starts[block], weights.starts[block] + weights.counts[block]):
        w[weights.states[e]] = weights.values[e]


@kernel
def write_block(block, w, weights):
    """Store the non-zeros of w as the block's weights, behind all others unless they fit into its old place."""
    n = 0
    for k in range(w.size):
        n += w[k] != 0
    if n > weights.counts[block]:
        weights.starts[block] = weights.used[0]
        weights.used[0] += n
    weights.counts[block], e = n, weights.starts[block]
    for k in range(w.size):
        if w[k] != 0:
            weights.states[e], weights.values[e] = k, w[k]
            e += 1


@subkernel
def block_violation(w, g, l1, l2, shrink_share, shrink_slack):
    """Return the largest KKT violation of a block, and whether the block stays in the working set.

    It does not if all its weights are 0 and |g| <= (1 - shrink_share) l1 - shrink_slack for each.
    """
    largest, is_kept = 0.0, False
    for k in range(w.size):
        if w[k] != 0:
            violation = abs(g[k] + l2[k] * w[k] + (l1[k] if w[k] > 0 else -l1[k]))
            is_kept = True
        else:
            violation = abs(g[k]) - l1[k]
            # Without a gradient a weight has nowhere to go, whatever it costs.
            is_kept |= g[k] != 0 and abs(g[k]) > (1.0 - shrink_share) * l1[k] - shrink_slack
        largest = violation if violation > largest else largest
    return largest, is_kept


@subkernel
def newton_direction(w, g, h, l1, l2, floor, d):
    """Fill d as above; returns the predicted decrease, negative: g'd + penalty(w + d) - penalty(w)."""
    slope = 0.0
    for k in range(w.size):
        curvature = h[k] if h[k] > floor else floor
        aim = curvature * w[k] - g[k]
        size = abs(aim) - l1[k]
        v = 0.0
        if size > 0:
            v = (size if aim > 0 else -size) / (curvature + l2[k])
        d[k] = v - w[k]
        slope += g[k] * d[k]
    return slope + penalty_change(w, d, 1.0, l1, l2)


@subkernel
def penalty_change(w, d, step, l1, l2):
    """Return penalty(w + step d) - penalty(w)."""
    change = 0.0
    for k in range(w.size):
        if d[k] != 0:
            v = w[k] + step * d[k]
            change += l1[k] * (abs(v) - abs(w[k])) + 0.5 * l2[k] * (v - w[k]) * (v + w[k])
    return change


@subkernel
def search(chain, tree, block, w, d, slope, l1, l2, armijo, backtrack, noise):
    """Search along d by Armijo's rule; moves w and the loss; returns the change of the objective, 0 for a failure.

    It gives up where rounding would hide the predicted decrease; the last trial, of step 0, restores what was before.
    slope : the predicted decrease for a step of 1
    """
    step, change, has_failed, is_edges = 1.0, 0.0, False, False
    if chain is not None:
        is_edges = block + 1 == chain.indptr.size
    for trial in range(MOST_TRIALS):
        if tree is not None:
            change = try_tree(tree, block, d, step)
        if chain is not None:
            change = try_edges(chain, d, step) if is_edges else try_nodes(chain, block, d, step)
        change += penalty_change(w, d, step, l1, l2)
        has_failed = step == 0.0
        if has_failed or change <= armijo * step * slope:  # false for NaN
            break
        step *= backtrack
        if -step * slope <= noise or trial == MOST_TRIALS - 2:
            step = 0.0
    if tree is not None:
        accept_tree(tree, block, step)
    if chain is not None:
        if is_edges:
            accept_edges(chain)
        else:
            accept_nodes(chain, block, d, step)
    for k in range(w.size):
        w[k] += step * d[k]
    return 0.0 if has_failed else change


@kernel
def sweep(
    chain, tree, possible_indptr, possible_states, blocks, firsts, l1, l2, weights, rule, violations, is_kept, changes
):  # fmt: skip
    """Update the blocks one after the other; returns how many have moved, and how many searches failed.

    Parameters
    ----------
    possible_indptr, possible_states : as in `mask_impossible`, both empty where all states can have weights
    blocks : int64 (B,); firsts : int64 (B + 1,), where the coordinates of each begin in l1 and l2, float64 (n,)
    weights : BlockArrays, in and out, with n free places; rule : SweepRule
    violations, changes : float64 (B,), is_kept : bool (B,), out: violation before the update, whether the block stays
        after shrinking, and the change of the objective
    """
    n_moved = n_failed = 0
    largest = 0
    for i in range(blocks.size):
        largest = max(largest, firsts[i + 1] - firsts[i])
    workspace = np.empty((4, largest))
    for i in range(blocks.size):
        block, n = blocks[i], firsts[i + 1] - firsts[i]
        w, g, h, d = workspace[0, :n], workspace[1, :n], workspace[2, :n], workspace[3, :n]
        a, b = l1[firsts[i] : firsts[i + 1]], l2[firsts[i] : firsts[i + 1]]
        read_block(block, weights, w)
        if tree is not None:
            tree_slopes(tree, block, g, h)
        if chain is not None:
            if block + 1 < chain.indptr.size:
                node_slopes(chain, block, g, h)
            else:
                edge_slopes(chain, g, h)
        if possible_indptr.size > 0:
            mask_impossible(block, possible_indptr, possible_states, g)
        violations[i], is_kept[i] = block_violation(w, g, a, b, rule.shrink_share, rule.shrink_slack)
        changes[i] = 0.0
        if not is_kept[i]:
            continue
        slope = newton_direction(w, g, h, a, b, rule.floor, d)
        if -slope <= rule.noise:
            continue
        changes[i] = search(chain, tree, block, w, d, slope, a, b, rule.armijo, rule.backtrack, rule.noise)
        if changes[i] < 0:
            write_block(block, w, weights)
            n_moved += 1
        else:
            n_failed += 1
    return n_moved, n_failed
