"""Block coordinate descent on the quadratic model with norms of blocks: `descent.py` by whole rows.

    min_d  g'd + 1/2 d'(B + damping) d + sum_b h_b(w_b + d_b) + l2_b/2 ||w_b + d_b||^2,   B = B0 - Q Q^

with h_b of `group_prox.py`. A block takes the step of a model whose curvature is L_b times the identity:

    v = prox_{h / L} (c - slope / L),   c = w_b + d_b,   z = v - c,

which lowers the model where z' B_bb z <= L ||z||^2. The largest entry of B_bb's diagonal is the first L_b, a lower
bound of what is needed; a step along which B_bb curves more says how much L_b has to grow. Gershgorin's bound of B_bb
would need no second look but is larger, and the steps that much shorter.
"""

import numpy as np

from crfqn.kernels import inner, kernel
from crfqn.kernels.descent import add_entries, add_scaled, inner_product, own_curvature
from crfqn.kernels.group_prox import shrink_block
from crfqn.kernels.team import join, meet

GROWTH = 1.1  # of L beyond the curvature that refused it
ROUNDING = 1e-5  # of a curvature with a float32 B0
# Times the first sweep's largest move: rounding has made B indefinite, and its model has no minimum.
LOST = 1e6
WHOLE = 256  # columns: no member's share ends within the vectors of a loop, whose rest may round otherwise


@kernel
def gather_blocks(dense, order, starts):
    """The blocks of a dense B0 on its diagonal, one after the other, and where each begins: every sweep reads them."""
    corners = np.zeros(starts.size, np.int64)
    for b in range(starts.size - 1):
        corners[b + 1] = corners[b] + (starts[b + 1] - starts[b]) ** 2
    inside, e = np.empty(corners[-1] if dense.shape[0] > 0 else 0, np.float32), 0
    for b in range(starts.size - 1 if dense.shape[0] > 0 else 0):
        for i in range(starts[b], starts[b + 1]):
            for k in range(starts[b], starts[b + 1]):
                inside[e] = dense[order[i], order[k]]
                e += 1
    return inside, corners


@inner
def base_curvature(inside, corner, indptr, indices, data, diagonal, members, z, whole):
    """z' B0 z of a block; `whole`: zeros (n,), which they are again afterwards."""
    total, size = 0.0, members.size
    if inside.size > 0:
        for i in range(size):
            part = 0.0
            for k in range(size):
                part += inside[corner + i * size + k] * z[k]
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
def add_base_rows(base_d, dense, indptr, indices, data, members, z, first, last):
    """base_d += the rows of B0 that a block has moved along, times its moves; nothing where B0 is a diagonal.

    A dense B0 is larger than any cache: four rows at a time come from memory a third faster than one by one. Of it
    only the columns first ... last - 1 are added.
    """
    done, target = 0, base_d[first:last]
    if dense.shape[0] > 0:
        while done + 4 <= members.size:
            x, y = dense[members[done], first:last], dense[members[done + 1], first:last]
            u, v = dense[members[done + 2], first:last], dense[members[done + 3], first:last]
            z1, z2 = np.float32(z[done]), np.float32(z[done + 1])
            z3, z4 = np.float32(z[done + 2]), np.float32(z[done + 3])
            for k in range(target.size):
                target[k] += (z1 * x[k] + z2 * y[k]) + (z3 * u[k] + z4 * v[k])
            done += 4
        for i in range(done, members.size):
            add_scaled(target, dense[members[i], first:last], np.float32(z[i]))
    elif indptr.size > 0:
        for i in range(members.size):
            j = members[i]
            if z[i] != 0.0:
                add_entries(base_d, indices, data, indptr[j], indptr[j + 1], np.float32(z[i]))


@kernel
def descend_groups(
    team, n_members, rank, dense, indptr, indices, data, diagonal, q, q_hat, damping, g, w, order, starts,
    l1, group, l2, is_linf, max_sweeps, tolerance, d, base_d,
):  # fmt: skip
    """Sweep cyclically over the blocks until the model is solved well enough; for several threads at once.

    Each member of a team takes all steps, and keeps up to date some columns of B0 d, B0 being dense: they meet when all
    have read what a block needs, and when all have added its rows. The steps do not depend on the number of members.

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
    member, size = join(team, n_members, rank)
    if size == 0:
        return -1
    n, n_blocks, n_meetings = g.size, starts.size - 1, 1
    first = n * member // size // WHOLE * WHOLE
    last = n * (member + 1) // size // WHOLE * WHOLE if member < size - 1 else n
    if member > 0:
        d = d.copy()
    meet(team, member, size, 1)  # before anyone moves
    is_matrix = dense.shape[0] > 0 or indptr.size > 0
    bounds, whole = np.zeros(n_blocks), np.zeros(n)
    inside, corners = gather_blocks(dense, order, starts)
    slope, center, moved, z, room = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    d_hat, z_hat, z_q = np.zeros(q.shape[1]), np.empty(q.shape[1]), np.empty(q.shape[1])
    for b in range(n_blocks):
        for i in range(starts[b], starts[b + 1]):
            j = order[i]
            bounds[b] = max(bounds[b], own_curvature(diagonal[j], q[j], q_hat[j]) + damping[j])
            if d[j] != 0:
                add_scaled(d_hat, q_hat[j], d[j])
    first_move = 0.0
    for sweep in range(max_sweeps):
        largest_move = 0.0
        for b in range(n_blocks):
            begin, end = starts[b], starts[b + 1]
            members = order[begin:end]
            for i in range(begin, end):
                j = order[i]
                base_part = base_d[j] if is_matrix else diagonal[j] * d[j]
                center[i] = w[j] + d[j]
                slope[i] = g[j] + base_part - inner_product(q[j], d_hat) + damping[j] * d[j]
            while True:
                bound, square, damped = bounds[b], 0.0, 0.0
                for i in range(begin, end):
                    moved[i] = center[i] - slope[i] / bound
                shrink_block(moved[begin:end], l1[b] / bound, group[b] / bound, is_linf, room[begin:end])
                z_hat[:], z_q[:] = 0.0, 0.0
                for i in range(begin, end):
                    j = order[i]
                    moved[i] *= bound / (bound + l2[b])
                    z[i] = moved[i] - center[i]
                    if z[i] != 0.0:
                        square += z[i] * z[i]
                        damped += damping[j] * z[i] * z[i]
                        add_scaled(z_hat, q_hat[j], z[i])
                        add_scaled(z_q, q[j], z[i])
                if end - begin == 1 or square == 0.0:
                    break
                curved = base_curvature(
                    inside, corners[b], indptr, indices, data, diagonal, members, z[begin:end], whole
                )
                curved += damped - inner_product(z_q, z_hat)
                if not curved > (1.0 + ROUNDING) * bound * square:  # nor where there are no numbers left
                    break
                bounds[b] = GROWTH * curved / square
            if square > 0.0:
                add_scaled(d_hat, z_hat, 1.0)
                for i in range(begin, end):
                    if z[i] != 0.0:  # else d would be rounded anew, and B0 d not follow
                        d[order[i]] = moved[i] - w[order[i]]
                meet(team, member, size, n_meetings + 1)
                add_base_rows(base_d, dense, indptr, indices, data, members, z[begin:end], first, last)
                meet(team, member, size, n_meetings + 2)
                n_meetings += 2
                move = bounds[b] * np.sqrt(square)
                if sweep > 0 and not move <= LOST * first_move:
                    d[:] = 0.0
                    base_d[first:last] = 0.0
                    return sweep + 1
                largest_move = max(largest_move, move)
        if sweep == 0:
            first_move = largest_move
        if largest_move <= tolerance * first_move:
            return sweep + 1
    return max_sweeps
