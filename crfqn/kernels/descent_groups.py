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
from crfqn.kernels.descent import add_base_row, add_scaled, inner_product, own_curvature
from crfqn.kernels.group_prox import shrink_block

GROWTH = 1.1  # of L beyond the curvature that refused it
ROUNDING = 1e-5  # of a curvature with a float32 B0
# Times the first sweep's largest move: rounding has made B indefinite, and its model has no minimum.
LOST = 1e6


@inner
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
def add_base_rows(base_d, dense, indptr, indices, data, members, z):
    """base_d += the rows of B0 that a block has moved along, times its moves; nothing where B0 is a diagonal.

    A dense B0 is larger than any cache: four rows at a time come from memory a third faster than one by one.
    """
    first = 0
    if dense.shape[0] > 0:
        while first + 4 <= members.size:
            row, next_row = dense[members[first]], dense[members[first + 1]]
            third, fourth = dense[members[first + 2]], dense[members[first + 3]]
            z1, z2 = np.float32(z[first]), np.float32(z[first + 1])
            z3, z4 = np.float32(z[first + 2]), np.float32(z[first + 3])
            for k in range(base_d.size):
                base_d[k] += (z1 * row[k] + z2 * next_row[k]) + (z3 * third[k] + z4 * fourth[k])
            first += 4
    for i in range(first, members.size):
        if z[i] != 0.0:
            add_base_row(base_d, dense, indptr, indices, data, members[i], np.float32(z[i]))


@kernel
def descend_groups(
    dense, indptr, indices, data, diagonal, q, q_hat, damping, g, w, order, starts, l1, group, l2, is_linf,
    max_sweeps, tolerance, d, base_d,
):  # fmt: skip
    """Sweep cyclically over the blocks until the model is solved well enough.

    Parameters
    ----------
    order, starts : int64 (n,) and (n_blocks + 1,), see `penalties.blocks`
    l1, group, l2 : float64 (n_blocks,); is_linf : the norm of the blocks
    others : as in `descent.descend`; a block's move is its length

    Returns
    -------
    The number of sweeps made; d = 0 where there is no minimum.
    """
    n, n_blocks = g.size, starts.size - 1
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
                    d[order[i]] = moved[i] - w[order[i]]
                add_base_rows(base_d, dense, indptr, indices, data, members, z[begin:end])
                move = bounds[b] * np.sqrt(square)
                if sweep > 0 and not move <= LOST * first_move:
                    d[:] = 0.0
                    base_d[:] = 0.0
                    return sweep + 1
                largest_move = max(largest_move, move)
        if sweep == 0:
            first_move = largest_move
        if largest_move <= tolerance * first_move:
            return sweep + 1
    return max_sweeps
