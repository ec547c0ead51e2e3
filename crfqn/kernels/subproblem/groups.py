"""Block coordinate descent on the quadratic model with norms of blocks: `descent.py` by whole rows.

    min_d  g'd + 1/2 d'(B + damping) d + sum_b h_b(w_b + d_b) + l2_b/2 ||w_b + d_b||^2,   B = B0 - Q Q^

with h_b of `group_prox.py`. A block takes the step of a model whose curvature is L_b times the identity:

    v = prox_{h / L} (c - slope / L),   c = w_b + d_b,   z = v - c,

which lowers the model where z' B_bb z <= L ||z||^2. The largest entry of B_bb's diagonal is the first L_b, a lower
bound of what is needed; a step along which B_bb curves more says how much L_b has to grow. Gershgorin's bound of B_bb
would need no second look but is larger, and the steps that much shorter.

Blocks of a dense B0 are taken in clusters (`clusters.py`).
"""

import numpy as np

from crfqn.kernels import bare_kernel, inner, kernel
from crfqn.kernels.proximal import shrink_block
from crfqn.kernels.subproblem.clusters import WHOLE, add_dense_rows, cut_clusters, gather_clusters
from crfqn.kernels.subproblem.coordinates import add_entries, add_scaled, inner_product, own_curvature
from crfqn.kernels.thread_group import barrier, join

GROWTH = 1.1  # of L beyond the curvature that refused it
ROUNDING = 1e-5  # of a curvature with a float32 B0
# Times the first sweep's largest move: rounding has made B indefinite, and its model has no minimum.
LOST = 1e6


@inner
def base_curvature(inside, corner, stride, indptr, indices, data, diagonal, members, z, whole):
    """z' B0 z of a block that begins at `corner` of `inside`; `whole`: zeros (n,), which they are again afterwards."""
    total = 0.0
    if inside.size > 0:
        for i in range(members.size):
            part = 0.0
            for k in range(members.size):
                part += inside[corner + i * stride + k] * z[k]
            total += part * z[i]
        return total
    if indptr.size == 0:
        for i in range(members.size):
            total += diagonal[members[i]] * z[i] * z[i]
        return total
    for i in range(members.size):
        whole[members[i]] = z[i]
    for i in range(members.size):
        if z[i] != 0.0:
            j = members[i]
            for e in range(indptr[j], indptr[j + 1]):
                total += z[i] * data[e] * whole[np.uint64(indices[e])]
    for i in range(members.size):
        whole[members[i]] = 0.0
    return total


@inner
def add_sparse_rows(base_d, indptr, indices, data, members, z):
    """base_d += the rows of a sparse B0 times a block's moves."""
    for i in range(members.size):
        j = members[i]
        if z[i] != 0.0:
            add_entries(base_d, indices, data, indptr[j], indptr[j + 1], np.float32(z[i]))


@inner
def first_bounds(order, starts, diagonal, q, q_hat, damping, bounds):
    """bounds[b] = the largest entry of B_bb's diagonal."""
    bounds[:] = 0.0
    for b in range(bounds.size):
        for i in range(starts[b], starts[b + 1]):
            j = order[i]
            bounds[b] = max(bounds[b], own_curvature(diagonal[j], q[j], q_hat[j]) + damping[j])


@inner
def propose_block(
    members, bound, strengths, damping, q, q_hat, center, slope, workspace, moved, z, z_hat, z_q
):
    """The step of a model whose curvature is `bound` times the identity; ||z||^2, and what damping adds to z' B z.

    strengths : l1, group, l2 of the block, and the norm
    center, slope, room : float64 (members,); moved, z, the same, z_hat, z_q : float64 (2m,): out, z_hat = Q^ z
    """
    l1, group, l2, is_linf = strengths
    square, damped = 0.0, 0.0
    for i in range(members.size):
        moved[i] = center[i] - slope[i] / bound
    shrink_block(moved, l1 / bound, group / bound, is_linf, workspace)
    z_hat[:], z_q[:] = 0.0, 0.0
    for i in range(members.size):
        j = members[i]
        moved[i] *= bound / (bound + l2)
        z[i] = moved[i] - center[i]
        if z[i] != 0.0:
            square += z[i] * z[i]
            damped += damping[j] * z[i] * z[i]
            add_scaled(z_hat, q_hat[j], z[i])
            add_scaled(z_q, q[j], z[i])
    return square, damped


@bare_kernel
def step_block(
    members,
    base,
    bounds,
    b,
    strengths,
    metric,
    secant,
    damping,
    g,
    w,
    own_part,
    d,
    d_hat,
    workspace,
    hats,
    whole,
):
    """A block's step, L_b growing until B curves less along it; d and d_hat follow. Returns ||z||^2.

    base : float64 (members,), B0 d at the block; metric : B0's arrays, secant : Q and Q^
    own_part : inside, corner and stride of `base_curvature`
    room : float64 (5, members or more): z is room[0]; hats : float64 (2, 2m), Q^ z and Q' z
    """
    n, (q, q_hat), (inside, corner, stride) = members.size, secant, own_part
    indptr, indices, data, diagonal = metric
    z, moved, center, slope = workspace[0, :n], workspace[1, :n], workspace[2, :n], workspace[3, :n]
    for i in range(n):
        j = members[i]
        center[i] = w[j] + d[j]
        slope[i] = g[j] + base[i] - inner_product(q[j], d_hat) + damping[j] * d[j]
    while True:
        square, damped = propose_block(
            members, bounds[b], strengths, damping, q, q_hat, center, slope, workspace[4, :n], moved, z, hats[0],
            hats[1],
        )  # fmt: skip
        if n == 1 or square == 0.0:
            break
        curved = base_curvature(inside, corner, stride, indptr, indices, data, diagonal, members, z, whole)
        curved += damped - inner_product(hats[1], hats[0])
        if not curved > (1.0 + ROUNDING) * bounds[b] * square:  # nor where there are no numbers left
            break
        bounds[b] = GROWTH * curved / square
    if not square > 0.0:
        return 0.0
    add_scaled(d_hat, hats[0], 1.0)
    for i in range(n):
        if z[i] != 0.0:  # else d would be rounded anew, and B0 d not follow
            d[members[i]] = moved[i] - w[members[i]]
    return square


@bare_kernel
def descend_cluster(
    first_block, last_block, order, starts, bounds, penalty, corner, inside, metric, secant, damping, g, w, d, d_hat,
    base_d, base, total, workspace, hats, whole,
):  # fmt: skip
    """A step along each block of a cluster; returns the largest move.

    base, total : float64 (cluster,), out: B0 d there, following the cluster's moves, and these moves
    """
    (l1, group, l2, is_linf), (indptr, _, _, diagonal) = penalty, metric
    begin, stride, largest_move = starts[first_block], starts[last_block] - starts[first_block], 0.0
    for i in range(stride):
        j = order[begin + i]
        base[i] = base_d[j] if inside.size > 0 or indptr.size > 0 else diagonal[j] * d[j]
    total[:stride] = 0.0
    for b in range(first_block, last_block):
        place, members = starts[b] - begin, order[starts[b] : starts[b + 1]]
        strengths = l1[b], group[b], l2[b], is_linf
        square = step_block(
            members, base[place : place + members.size], bounds, b, strengths, metric, secant, damping, g, w,
            (inside, corner + place * (stride + 1), stride), d, d_hat, workspace, hats, whole,
        )  # fmt: skip
        largest_move = max(largest_move, bounds[b] * np.sqrt(square))
        for i in range(members.size if square > 0.0 else 0):
            total[place + i], row = workspace[0, i], corner + (place + i) * stride
            if inside.size > 0:
                add_scaled(base[:stride], inside[row : row + stride], np.float32(workspace[0, i]))
    return largest_move


@bare_kernel
def sweep_clusters(
    threads, member, size, n_meetings, dense, first, last, clusters, corners, order, starts, bounds, penalty, inside,
    metric, secant, damping, g, w, d, d_hat, base_d, base, total, workspace, hats, whole,
):  # fmt: skip
    """One sweep; returns the largest move, and the meetings until now."""
    (indptr, indices, data, _), largest_move = metric, 0.0
    for c in range(clusters.size - 1):
        members = order[starts[clusters[c]] : starts[clusters[c + 1]]]
        move = descend_cluster(
            clusters[c], clusters[c + 1], order, starts, bounds, penalty, corners[c], inside, metric, secant, damping,
            g, w, d, d_hat, base_d, base, total, workspace, hats, whole,
        )  # fmt: skip
        largest_move = max(largest_move, move)
        if move > 0.0 and dense.shape[0] > 0:
            n_meetings += 2
            barrier(threads, member, size, n_meetings - 1)  # all have read what the cluster needed
            add_dense_rows(base_d, dense, members, total, first, last)
            barrier(threads, member, size, n_meetings)
        elif move > 0.0 and indptr.size > 0:
            add_sparse_rows(base_d, indptr, indices, data, members, total)
    return largest_move, n_meetings


@kernel
def descend_groups(
    threads, n_members, rank, dense, indptr, indices, data, diagonal, q, q_hat, damping, g, w, order, starts,
    l1, group, l2, is_linf, max_sweeps, tolerance, d, base_d,
):  # fmt: skip
    """Sweep cyclically over the blocks until the model is solved well enough; for several threads at once.

    Each member of a team takes all steps, and keeps up to date some columns of B0 d, B0 being dense: they meet when all
    have read what a cluster needs, and when all have added its rows. The steps do not depend on the number of members.

    Parameters
    ----------
    team, n_members, rank : as in `team.py`
    order, starts : int64 (n,) and (n_blocks + 1,), see `penalties.blocks`
    l1, group, l2 : float64 (n_blocks,); is_linf : the norm of the blocks
    others : as in `descent.descend`; a block's move is its length

    Returns
    -------
    The number of sweeps made; d = 0 where there is no minimum. -1 to members who came too late.
    """
    member, size = join(threads, n_members, rank)
    if size == 0:
        return -1
    n, m, n_meetings, is_dense = g.size, q.shape[1], 1, dense.shape[0] > 0
    first = n * member // size // WHOLE * WHOLE
    last = n * (member + 1) // size // WHOLE * WHOLE if member < size - 1 else n
    if member > 0:
        d = d.copy()
    barrier(threads, member, size, 1)  # before anyone moves
    clusters = np.empty(starts.size, np.int64)
    clusters = clusters[: cut_clusters(starts, is_dense, clusters) + 1]
    inside, corners = gather_clusters(dense, order, starts, clusters)
    widest = max(1, np.diff(starts[clusters]).max()) if clusters.size > 1 else 1
    base, total, workspace, hats = np.empty(widest), np.empty(widest), np.empty((5, widest)), np.empty((2, m))
    bounds, whole, d_hat = np.empty(starts.size - 1), np.zeros(n), np.zeros(m)
    first_bounds(order, starts, diagonal, q, q_hat, damping, bounds)
    for j in range(n):
        if d[j] != 0:
            add_scaled(d_hat, q_hat[j], d[j])
    metric, penalty, first_move = (indptr, indices, data, diagonal), (l1, group, l2, is_linf), 0.0
    for sweep in range(max_sweeps):
        move, n_meetings = sweep_clusters(
            threads, member, size, n_meetings, dense, first, last, clusters, corners, order, starts, bounds, penalty,
            inside, metric, (q, q_hat), damping, g, w, d, d_hat, base_d, base, total, workspace, hats, whole,
        )  # fmt: skip
        if sweep == 0:
            first_move = move
        elif not move <= LOST * first_move:
            d[:] = 0.0
            base_d[first:last] = 0.0
            return sweep + 1
        if move <= tolerance * first_move:
            return sweep + 1
    return max_sweeps
