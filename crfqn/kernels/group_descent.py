"""Block coordinate descent on Prox-QN's quadratic model under norms of blocks: `coordinate_descent.py` by whole rows.

    min_d  g'd + 1/2 d'(B + damping) d + sum_b h_b(w_b + d_b) + l2_b/2 ||w_b + d_b||^2,   B = B0 - Q Q^

with h_b = l1_b ||.||_1 + group_b ||.|| of `row_norm.py`. A block takes the proximal gradient step of a model whose
curvature is L_b times the identity (Tseng and Yun 2009):

    v = prox_{h / L} (c - slope / L),   c = w_b + d_b,   z = v - c,

which lowers the model where z' B_bb z <= L ||z||^2. The largest entry of B_bb's diagonal is the first L_b, a lower
bound of what is needed; a step along which B_bb curves more says how much L_b has to grow. Gershgorin's bound of B_bb
would need no check but is larger, and the steps that much shorter. Blocks of a dense B0 are taken in clusters.

Shapes: n coordinates of the model, 2m columns of Q. A block's coordinates are `members`, int64.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.coordinate_descent import (
    COORDINATE,
    QuadraticModelArrays,
    add_entries,
    add_scaled,
    inner_product,
    own_curvature,
    row_operations,
)
from crfqn.kernels.row_norm import shrink_block
from crfqn.kernels.thread_group import barrier, join

GROWTH = 1.1  # of L beyond the curvature that refused it
ROUNDING = 1e-5  # of a curvature with a float32 B0
# Times the first sweep's largest move: rounding has made B indefinite, and its model has no minimum.
DIVERGED = 1e6


# Clusters of neighbouring blocks of a dense symmetric B0: the rest of B0 d follows once a cluster. B0 is larger than
# any cache, and what a sweep costs is to read it. Within a cluster B0 d follows by the cluster's own square of B0,
# which stays in the cache; the rows of B0 are then read in one go, and threads pass two barriers a cluster.

# No thread's columns end within the vectors of a loop, whose remainder may round otherwise.
COLUMN_MULTIPLE = 256
MOST_CLUSTERED = 40  # coordinates of several blocks: to gather more of B0 takes what longer readings save


class Clusters(NamedTuple):
    """Clusters of blocks and their squares of B0.

    blocks, corners : int64 (n_clusters + 1,), the first block of each, and the end; where each square begins in
        `inside`
    inside : float32, the clusters' own squares of a dense B0, one after the other, by rows; empty for other B0
    """

    blocks: np.ndarray
    inside: np.ndarray
    corners: np.ndarray


@inner
def cut_clusters(starts, is_dense, clusters):
    """Write the first block of each cluster, and the end of the last, to `clusters`, int64 (n_blocks + 1,); returns
    their number. Blocks are only clustered where B0 is dense."""
    n_clusters, begin = 0, 0
    for b in range(starts.size - 1):
        if b == begin or not is_dense or starts[b + 1] - starts[begin] > MOST_CLUSTERED:
            clusters[n_clusters], begin = b, b
            n_clusters += 1
    clusters[n_clusters] = starts.size - 1
    return n_clusters


@subkernel
def gather_clusters(dense, order, starts, clusters):
    """Return the clusters' squares of a dense B0, which every sweep reads, and where each begins: see `Clusters`."""
    corners = np.zeros(clusters.size, np.int64)
    for c in range(clusters.size - 1):
        corners[c + 1] = corners[c] + (starts[clusters[c + 1]] - starts[clusters[c]]) ** 2
    inside, e = np.empty(corners[-1] if dense.shape[0] > 0 else 0, np.float32), 0
    for c in range(clusters.size - 1 if dense.shape[0] > 0 else 0):
        for i in range(starts[clusters[c]], starts[clusters[c + 1]]):
            for k in range(starts[clusters[c]], starts[clusters[c + 1]]):
                inside[e] = dense[order[i], order[k]]
                e += 1
    return inside, corners


@inner
def add_dense_rows(base_d, dense, members, z, first, last):
    """base_d += the rows of a dense B0 times a cluster's moves, in the columns first ... last - 1; four rows at a time
    come from memory a third faster than one by one."""
    done, target = 0, base_d[first:last]
    while done + 4 <= members.size:
        x, y = dense[members[done], first:last], dense[members[done + 1], first:last]
        u, v = dense[members[done + 2], first:last], dense[members[done + 3], first:last]
        z1, z2 = np.float32(z[done]), np.float32(z[done + 1])
        z3, z4 = np.float32(z[done + 2]), np.float32(z[done + 3])
        if z1 != 0.0 or z2 != 0.0 or z3 != 0.0 or z4 != 0.0:
            for k in range(target.size):
                target[k] += (z1 * x[k] + z2 * y[k]) + (z3 * u[k] + z4 * v[k])
        done += 4
    for i in range(done, members.size):
        add_scaled(target, dense[members[i], first:last], np.float32(z[i]))


class BlockPenalty(NamedTuple):
    """Blocks (order (n,), starts (n_blocks + 1,), see `penalties.blocks`) and their strengths l1, group, l2
    (n_blocks,); is_linf : whether the norm is the largest size, not the Euclidean length."""

    order: np.ndarray
    starts: np.ndarray
    l1: np.ndarray
    group: np.ndarray
    l2: np.ndarray
    is_linf: bool


class GroupProblem(NamedTuple):
    """The objective over d; damping, g, w : float64 (n,)."""

    model: QuadraticModelArrays
    penalty: BlockPenalty
    damping: np.ndarray
    g: np.ndarray
    w: np.ndarray


class Direction(NamedTuple):
    """Direction d, float64 (n,), with d_hat = Q^ d, float64 (2m,), and base_d = B0 d, float32 (n,), kept up to date
    where B0 is a matrix."""

    d: np.ndarray
    d_hat: np.ndarray
    base_d: np.ndarray


class Workspace(NamedTuple):
    """Arrays of one thread that are used again in every step.

    bounds, zeros : float64 (n_blocks,), L_b; float64 (n,), zero between calls
    cluster_base_d, moves : float64 (largest cluster,), B0 d at its coordinates, following its moves, and these moves
    block : float64 (5, largest cluster): z, the new weights, the old ones, the slope, scratch
    secant, sweep : float64 (2, 2m), Q^ z and Q' z; (2,), what the sweep has won, at least, and its operations
    """

    bounds: np.ndarray
    cluster_base_d: np.ndarray
    moves: np.ndarray
    block: np.ndarray
    secant: np.ndarray
    zeros: np.ndarray
    sweep: np.ndarray


@inner
def base_curvature(model, inside, corner, stride, members, z, zeros):
    """Return z' B0 z of a block, which begins at `corner` of `inside` (see `Clusters`) if B0 is dense."""
    total = 0.0
    if inside.size > 0:
        for i in range(members.size):
            part = 0.0
            for k in range(members.size):
                part += inside[corner + i * stride + k] * z[k]
            total += part * z[i]
        return total
    if model.indptr.size == 0:
        for i in range(members.size):
            total += model.diagonal[members[i]] * z[i] * z[i]
        return total
    for i in range(members.size):
        zeros[members[i]] = z[i]
    for i in range(members.size):
        if z[i] != 0.0:
            j = members[i]
            for e in range(model.indptr[j], model.indptr[j + 1]):
                total += z[i] * model.data[e] * zeros[np.uint64(model.indices[e])]
    for i in range(members.size):
        zeros[members[i]] = 0.0
    return total


@inner
def propose_block(b, members, bound, problem, work):
    """Fill z, the new weights and the secant products with the step of curvature `bound`, from the old weights and the
    slope in work.block. Returns ||z||^2, and what damping adds to z' B z."""
    model, penalty, n = problem.model, problem.penalty, members.size
    z, moved, center, slope = work.block[0, :n], work.block[1, :n], work.block[2, :n], work.block[3, :n]
    q_hat_z, q_z = work.secant[0], work.secant[1]
    square, damped = 0.0, 0.0
    for i in range(n):
        moved[i] = center[i] - slope[i] / bound
    shrink_block(moved, penalty.l1[b] / bound, penalty.group[b] / bound, penalty.is_linf, work.block[4, :n])
    q_hat_z[:], q_z[:] = 0.0, 0.0
    for i in range(n):
        j = members[i]
        moved[i] *= bound / (bound + penalty.l2[b])
        z[i] = moved[i] - center[i]
        if z[i] != 0.0:
            square += z[i] * z[i]
            damped += problem.damping[j] * z[i] * z[i]
            add_scaled(q_hat_z, model.q_hat[j], z[i])
            add_scaled(q_z, model.q[j], z[i])
    return square, damped


@subkernel(counts=False)
def step_block(b, members, base_d, inside, corner, stride, problem, direction, work):
    """Take a block's step, L_b growing until B curves less along it; d and d_hat follow. Returns ||z||^2. base_d :
    float64 (members,), B0 d at the block; inside, corner, stride : as in `base_curvature`."""
    n, model, damping, d = members.size, problem.model, problem.damping, direction.d
    z, moved, center, slope = work.block[0, :n], work.block[1, :n], work.block[2, :n], work.block[3, :n]
    for i in range(n):
        j = members[i]
        center[i] = problem.w[j] + d[j]
        slope[i] = problem.g[j] + base_d[i] - inner_product(model.q[j], direction.d_hat) + damping[j] * d[j]
    while True:
        square, damped = propose_block(b, members, work.bounds[b], problem, work)
        if n == 1 or square == 0.0:
            break
        curved = base_curvature(model, inside, corner, stride, members, z, work.zeros)
        curved += damped - inner_product(work.secant[1], work.secant[0])
        if not curved > (1.0 + ROUNDING) * work.bounds[b] * square:  # also where there are no numbers left
            break
        work.bounds[b] = GROWTH * curved / square
    if not square > 0.0:
        return 0.0
    add_scaled(direction.d_hat, work.secant[0], 1.0)
    for i in range(n):
        if z[i] != 0.0:  # else d would be rounded anew, and B0 d not follow
            d[members[i]] = moved[i] - problem.w[members[i]]
    return square


@subkernel(counts=False)
def descend_cluster(c, problem, clusters, direction, work):
    """Take a step along each block of cluster c; work.moves has them. Returns the largest move, ||L_b z||."""
    model, inside = problem.model, clusters.inside
    starts, order = problem.penalty.starts, problem.penalty.order
    first_block, last_block, corner = clusters.blocks[c], clusters.blocks[c + 1], clusters.corners[c]
    begin, stride, largest_move = starts[first_block], starts[last_block] - starts[first_block], 0.0
    for i in range(stride):
        j = order[begin + i]
        is_matrix = inside.size > 0 or model.indptr.size > 0
        work.cluster_base_d[i] = direction.base_d[j] if is_matrix else model.diagonal[j] * direction.d[j]
    work.moves[:stride] = 0.0
    for b in range(first_block, last_block):
        place, members = starts[b] - begin, order[starts[b] : starts[b + 1]]
        base_d = work.cluster_base_d[place : place + members.size]
        own_corner = corner + place * (stride + 1)
        square = step_block(b, members, base_d, inside, own_corner, stride, problem, direction, work)
        largest_move = max(largest_move, work.bounds[b] * np.sqrt(square))
        work.sweep[0] += 0.5 * work.bounds[b] * square
        for i in range(members.size if square > 0.0 else 0):
            z, row = work.block[0, i], corner + (place + i) * stride
            work.moves[place + i] = z
            work.sweep[1] += row_operations(model, members[i])
            if inside.size > 0:
                add_scaled(work.cluster_base_d[:stride], inside[row : row + stride], np.float32(z))
    return largest_move


@subkernel(counts=False)
def sweep_clusters(threads, slot, size, n_barriers, first, last, problem, clusters, direction, work):
    """Take one sweep; returns the largest move, and the number of barriers passed until now; first, last : the columns
    of a dense B0 d that this thread keeps up to date."""
    model, starts, order, largest_move = problem.model, problem.penalty.starts, problem.penalty.order, 0.0
    work.sweep[0], work.sweep[1] = 0.0, (COORDINATE + 3.0 * model.q.shape[1]) * problem.g.size
    for c in range(clusters.blocks.size - 1):
        members = order[starts[clusters.blocks[c]] : starts[clusters.blocks[c + 1]]]
        move = descend_cluster(c, problem, clusters, direction, work)
        largest_move = max(largest_move, move)
        if move > 0.0 and model.dense.shape[0] > 0:
            n_barriers += 2
            barrier(threads, slot, size, n_barriers - 1)  # all have read what the cluster needed
            add_dense_rows(direction.base_d, model.dense, members, work.moves, first, last)
            barrier(threads, slot, size, n_barriers)
        elif move > 0.0 and model.indptr.size > 0:
            for i in range(members.size):
                if work.moves[i] != 0.0:
                    begin, end = model.indptr[members[i]], model.indptr[members[i] + 1]
                    z = np.float32(work.moves[i])
                    add_entries(direction.base_d, model.indices, model.data, begin, end, z)
    return largest_move, n_barriers


@subkernel
def new_workspace(problem, clusters):
    """Return a `Workspace`; a block's first bound is the largest entry of the diagonal of B_bb + damping."""
    penalty, model, n, m = problem.penalty, problem.model, problem.g.size, problem.model.q.shape[1]
    widest = 1
    for c in range(clusters.blocks.size - 1):
        widest = max(widest, penalty.starts[clusters.blocks[c + 1]] - penalty.starts[clusters.blocks[c]])
    work = Workspace(
        np.empty(penalty.starts.size - 1), np.empty(widest), np.empty(widest), np.empty((5, widest)),
        np.empty((2, m)), np.zeros(n), np.empty(2),
    )  # fmt: skip
    for b in range(work.bounds.size):
        work.bounds[b] = 0.0
        for i in range(penalty.starts[b], penalty.starts[b + 1]):
            j = penalty.order[i]
            curvature = own_curvature(model.diagonal[j], model.q[j], model.q_hat[j]) + problem.damping[j]
            work.bounds[b] = max(work.bounds[b], curvature)
    return work


@kernel
def descend_groups(threads, n_members, rank, subproblem, penalty, d, base_d):
    """Sweep cyclically over the blocks until the model is solved well enough; for several threads at once.

    Each thread of a group takes all steps, and keeps up to date some columns of B0 d where B0 is dense: they wait for
    each other when all have read what a cluster needs, and when all have added its rows. The steps do not depend on the
    number of threads. Returns the number of sweeps, with d = 0 where there is no minimum; -1 to threads that came too
    late.
    threads, n_members, rank : as in `thread_group.join`; d, base_d : as in `coordinate_descent.descend`
    """
    slot, size = join(threads, n_members, rank)
    if size == 0:
        return -1
    model, damping, g, w, limits = subproblem
    n, is_dense = g.size, model.dense.shape[0] > 0
    n_barriers = np.int64(1)  # not a literal, for which `sweep_clusters` would be compiled a second time
    first = n * slot // size // COLUMN_MULTIPLE * COLUMN_MULTIPLE
    last = n * (slot + 1) // size // COLUMN_MULTIPLE * COLUMN_MULTIPLE if slot < size - 1 else n
    if slot > 0:
        d = d.copy()
    barrier(threads, slot, size, 1)  # before anyone moves
    problem = GroupProblem(model, penalty, damping, g, w)
    blocks = np.empty(penalty.starts.size, np.int64)
    blocks = blocks[: cut_clusters(penalty.starts, is_dense, blocks) + 1]
    inside, corners = gather_clusters(model.dense, penalty.order, penalty.starts, blocks)
    clusters = Clusters(blocks, inside, corners)
    work, first_move = new_workspace(problem, clusters), 0.0
    direction = Direction(d, np.zeros(model.q.shape[1]), base_d)
    for j in range(n):
        if d[j] != 0:
            add_scaled(direction.d_hat, model.q_hat[j], d[j])
    won, spent = 0.0, limits.step_operations
    for sweep in range(limits.most):
        move, n_barriers = sweep_clusters(
            threads, slot, size, n_barriers, first, last, problem, clusters, direction, work
        )
        if sweep == 0:
            first_move = move
        elif not move <= DIVERGED * first_move:
            d[:] = 0.0
            base_d[first:last] = 0.0
            return sweep + 1
        won, spent = won + work.sweep[0], spent + work.sweep[1]
        if move == 0.0 or work.sweep[0] * spent < won * work.sweep[1]:
            return sweep + 1
    return limits.most
