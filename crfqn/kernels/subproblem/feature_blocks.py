"""Block coordinate descent over the features of a CRF: a sweep over many blocks is one call.

A block is all states' weights of one feature; a chain has one block more, its edges. For each block in turn, with its
gradient g and curvature h (Sokolovska, Lavergne, Cappe and Yvon 2010, section 3.3: the covariance between positions is
left out, and h is at least `floor`),

    d(k) = argmin_d g(k) d + h(k)/2 d^2 + l1 |w(k) + d| + l2/2 (w(k) + d)^2

and a step along d, at first of length 1, that decreases the objective by `armijo` times what its slope promises. The
loss is asked for on the items of the feature only.

Either `chain` or `tree` is given, a state of `objectives/incremental_state.py`, and the other is None: the compiler
then leaves out what belongs to it. The weights are kept by block: block b has counts[b] of them, from starts[b] on.

Shapes: B blocks; n coordinates of all the blocks in a sweep.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.chain.incremental_edges import accept_edges, look_at_edges, try_edges
from crfqn.kernels.chain.incremental_nodes import accept_nodes, look_at_nodes, try_nodes
from crfqn.kernels.taxonomy.incremental import accept_tree, look_at_tree, try_tree

MOST_TRIALS = 80  # halvings: where the curvature is at its floor, the first step is 1e10 times the gradient


@kernel
def mask_impossible(block, possible_indptr, possible_states, g):
    """A gradient of 0 where no weight is possible."""
    e, end = possible_indptr[block], possible_indptr[block + 1]
    for k in range(g.size):
        if e < end and possible_states[e] == k:
            e += 1
        else:
            g[k] = 0.0


@kernel
def read_block(block, starts, counts, states, values, w):
    """The block's weights into w, zeros elsewhere."""
    for k in range(w.size):
        w[k] = 0.0
    for e in range(starts[block], starts[block] + counts[block]):
        w[states[e]] = values[e]


@kernel
def write_block(block, w, starts, counts, states, values, used):
    """The non-zeros of w become the block's weights, behind all others unless they fit into its old place."""
    n = 0
    for k in range(w.size):
        n += w[k] != 0
    if n > counts[block]:
        starts[block] = used[0]
        used[0] += n
    counts[block], e = n, starts[block]
    for k in range(w.size):
        if w[k] != 0:
            states[e], values[e] = k, w[k]
            e += 1


@kernel
def block_violation(w, g, l1, l2, shrink_share, shrink_slack):
    """The largest KKT violation of a block, and whether it may move soon.

    It may not if all its weights are 0 and |g| <= (1 - shrink_share) l1 - shrink_slack for each.
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


@kernel
def newton_direction(w, g, h, l1, l2, floor, d):
    """d as above; returns its slope g'd + penalty(w + d) - penalty(w)."""
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


@kernel
def penalty_change(w, d, step, l1, l2):
    """penalty(w + step d) - penalty(w)."""
    change = 0.0
    for k in range(w.size):
        if d[k] != 0:
            v = w[k] + step * d[k]
            change += l1[k] * (abs(v) - abs(w[k])) + 0.5 * l2[k] * (v - w[k]) * (v + w[k])
    return change


@kernel
def search(chain, tree, block, w, d, slope, l1, l2, armijo, backtrack, noise):
    """Armijo line search along d; moves w and the loss; returns the change of the objective, 0 for a failure.

    It gives up where rounding would hide what the slope promises; the last trial, of step 0, restores what was before.
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
    chain, tree, possible_indptr, possible_states, blocks, firsts, l1, l2, starts, counts, states, values, used,
    armijo, backtrack, floor, shrink_share, shrink_slack, noise, violations, is_kept, changes,
):  # fmt: skip
    """Update the blocks one after the other; returns how many have moved, and how many searches failed.

    Parameters
    ----------
    blocks : int64 (B,); firsts : int64 (B + 1,), where the coordinates of each begin in l1 and l2, float64 (n,)
    starts, counts : int64 (blocks of the model,); states : int32, values : float64, used : int64 (1,)
        The weights by block, in and out; states and values have room for n more.
    noise : a slope above -noise cannot be told from rounding: the block rests.
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
        read_block(block, starts, counts, states, values, w)
        if tree is not None:
            look_at_tree(tree, block, g, h)
        if chain is not None:
            if block + 1 < chain.indptr.size:
                look_at_nodes(chain, block, g, h)
            else:
                look_at_edges(chain, g, h)
        if possible_indptr.size > 0:
            mask_impossible(block, possible_indptr, possible_states, g)
        violations[i], is_kept[i] = block_violation(w, g, a, b, shrink_share, shrink_slack)
        changes[i] = 0.0
        if not is_kept[i]:
            continue
        slope = newton_direction(w, g, h, a, b, floor, d)
        if -slope <= noise:
            continue
        changes[i] = search(chain, tree, block, w, d, slope, a, b, armijo, backtrack, noise)
        if changes[i] < 0:
            write_block(block, w, starts, counts, states, values, used)
            n_moved += 1
        else:
            n_failed += 1
    return n_moved, n_failed
