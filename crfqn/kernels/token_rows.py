"""Rows of the token-wise model where positions have few active coordinates: sums over the pairs that meet.

A word is in few documents, and a document has few of the active words: most pairs of coordinates never meet, and the
model is sparse. Work: the sum over positions of (active coordinates there)^2, whatever the size of the model.

Shapes: n active coordinates of nodes, S sampled positions; `place` int32 (N,) is a position's number among the sampled,
or -1. What each sampled position has is a compressed list: `starts` int64 (S + 1,), and by entry `members` int32, the
coordinate, `x` float64, its value times the root of the position's weight, and `x_p`, that times its state's marginal.
"""

import numpy as np

from crfqn.kernels import inner, kernel, strict_kernel

ABOVE, BELOW = (
    1,
    2,
)  # what a state is to another: itself or an ancestor, a descendant; 0: they exclude each other

FAINT = 1e-4  # a state of a smaller marginal is left out; where positions are decided, that is nine of ten

SCAN = 4  # a row is scanned as a whole where more than a quarter of it may have been met


@kernel
def count_members(features, n_active, indptr, indices, counts):
    """counts[t] += n_active[i], the active coordinates of features[i], at each of its positions t."""
    for i in range(features.size):
        for e in range(indptr[features[i]], indptr[features[i] + 1]):
            counts[indices[e]] += n_active[i]


@strict_kernel
def count_present(features, rows, indptr, indices, place, marginals, counts):
    """counts[s] += the coordinates whose feature is at s and whose state is not faint there.

    rows: int64 (n,), each coordinate's row of `marginals` (states, S).
    """
    for a in range(features.size):
        p = marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= FAINT:
                counts[s] += 1


@strict_kernel
def list_members(features, rows, indptr, indices, values, place, roots, marginals, ends, members, x, x_p):
    """Fill the lists, coordinate by coordinate; `ends` (S,) come as the starts and move along."""
    for a in range(features.size):
        p = marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= FAINT:
                members[ends[s]] = a
                x[ends[s]] = roots[s] * (values[e] if values.size > 0 else 1.0)
                x_p[ends[s]] = x[ends[s]] * p[s]
                ends[s] += 1


@strict_kernel
def measure_rows(features, rows, indptr, indices, values, place, roots, starts, marginals, pairs, diagonal):
    """pairs[a] = members met in a's sampled positions, and diagonal[a] = sum_s x_a^2 (p_a - p_a^2)."""
    for a in range(features.size):
        n, total, p = 0, 0.0, marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= FAINT:
                x_a = roots[s] * (values[e] if values.size > 0 else 1.0)
                n += starts[s + 1] - starts[s]
                total += x_a * x_a * p[s] * (1.0 - p[s])
        pairs[a], diagonal[a] = n, total


@inner
def first_at_least(members, begin, end, least):
    """The first place in begin ... end whose member is not below `least`; members ascend."""
    while begin < end:
        middle = (begin + end) // 2
        if members[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def move_entry(b, row, limit, end, out_indices, out_data):
    """Write row[b] at `end` unless it is small, and clear it; returns the new end."""
    if row[b] != 0.0:
        if abs(row[b]) > limit:
            out_indices[end], out_data[end] = b, row[b]
            end += 1
        row[b] = 0.0
    return end


@strict_kernel
def write_rows(
    first, last, features, indptr, indices, values, place, roots, starts, members, x, x_p, p, relation, own, limits,
    pairs, ends, out_indices, out_data,
):  # fmt: skip
    """Rows a = first ... last - 1, the coordinates of one state, compressed: sum_s x_a x_b (P(a and b) - p_a p_b).

    P is p_a where b's state is a's or above it, p_b where it is below, and 0 where the two exclude each other. An entry
    within limits[a] limits[b] is left out; a row's first entry is its diagonal, always.
    p: float64 (S,), the marginal of a's state; relation: uint8 (n,), what each coordinate's state is to a's, or (0,)
    where all others exclude it; own: the first coordinate of a's state, and the first of the next; pairs: as
    `measure_rows` has them; ends: int64 (last - first,), where each row ends.
    """
    n = limits.size
    row = np.zeros(n)
    end = 0
    for a in range(first, last):
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= FAINT:
                x_a = roots[s] * (values[e] if values.size > 0 else 1.0)
                scale, begin, stop = x_a * p[s], starts[s], starts[s + 1]
                for m in range(begin, stop):
                    row[np.uint64(members[m])] -= scale * x_p[m]
                if relation.size == 0:
                    begin = first_at_least(members, begin, stop, own[0])
                    stop = first_at_least(members, begin, stop, own[1])
                    for m in range(begin, stop):
                        row[np.uint64(members[m])] += scale * x[m]
                else:
                    for m in range(begin, stop):
                        if relation[members[m]] == ABOVE:
                            row[members[m]] += scale * x[m]
                        elif relation[members[m]] == BELOW:
                            row[members[m]] += x_a * x_p[m]
        out_indices[end], out_data[end] = a, row[a]
        end += 1
        row[a] = 0.0
        if SCAN * pairs[a] > n:
            for b in range(n):
                end = move_entry(b, row, limits[a] * limits[b], end, out_indices, out_data)
        else:
            for e in range(indptr[features[a]], indptr[features[a] + 1]):
                s = place[indices[e]]
                if s >= 0 and p[s] >= FAINT:
                    for m in range(starts[s], starts[s + 1]):
                        b = members[m]
                        end = move_entry(b, row, limits[a] * limits[b], end, out_indices, out_data)
        ends[a - first] = end
