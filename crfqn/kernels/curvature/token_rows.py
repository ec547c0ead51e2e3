"""Sparse token-wise model of the Hessian: sums over the pairs of active coordinates that occur at one position.

A word is in few documents, and a document has few of the active words: most pairs of coordinates never occur together,
and the model is sparse. Work: half the sum over positions of (active coordinates there)^2, whatever the size of the
model: the rows are written from the diagonal on, and `whole_matrix.py` mirrors them.

Shapes: n active coordinates of nodes, S sampled positions; `place` int32 (N,) is a position's number among the sampled,
or -1. What each sampled position has is a compressed list of M entries: `starts` int64 (S + 1,), and by entry `members`
int32, the coordinate, `x` float64, its value times the root of the position's weight, and `x_p`, that times its state's
marginal. Where a coordinate is found in these lists is compressed too: `offsets` int64 (n + 1,), and by occurrence
`entries` int64 (M,), the entry itself, and `stops` int64 (M,), the end of the list that it is in.
"""

import numpy as np

from crfqn.kernels import inner, kernel, strict_kernel

FAINT = 1e-4  # a state of a smaller marginal is left out; where positions are decided, that is nine of ten
SCAN = 4  # a row is scanned as a whole where more than a quarter of it may be filled


@kernel
def count_members(features, n_active, indptr, indices, counts):
    """counts[t] += n_active[i], the number of active coordinates of features[i], at each of its positions t."""
    for i in range(features.size):
        for e in range(indptr[features[i]], indptr[features[i] + 1]):
            counts[indices[e]] += n_active[i]


@strict_kernel
def count_present(features, rows, indptr, indices, place, marginals, counts):
    """counts[s] += the number of coordinates whose feature is at s and whose state has a marginal >= FAINT there.

    rows: int64 (n,), each coordinate's row of `marginals` (states, S).
    """
    for a in range(features.size):
        p = marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= FAINT:
                counts[s] += 1


@strict_kernel
def list_members(
    features, rows, indptr, indices, values, place, roots, marginals, starts, members, x, x_p, offsets, entries, stops
):  # fmt: skip
    """Fill the lists of all sampled positions, coordinate by coordinate, and note where each coordinate is in them.

    features, rows : each coordinate's feature, and its row of `marginals`; roots : float64 (S,), of the weights
    """
    ends, o = starts[:-1].copy(), 0
    offsets[0] = 0
    for a in range(features.size):
        p = marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= FAINT:
                m = ends[s]
                members[m] = a
                x[m] = roots[s] * (values[e] if values.size > 0 else 1.0)
                x_p[m] = x[m] * p[s]
                entries[o], stops[o] = m, starts[s + 1]
                ends[s] += 1
                o += 1
        offsets[a + 1] = o


@kernel
def measure_rows(offsets, entries, stops, x, x_p, pairs, diagonal):
    """pairs[a] = entries from a's own to the end of each list that has a, diagonal[a] = sum_s x_a^2 (p_a - p_a^2)."""
    for a in range(pairs.size):
        n, total = 0, 0.0
        for o in range(offsets[a], offsets[a + 1]):
            m = entries[o]
            n += stops[o] - m
            total += x_p[m] * (x[m] - x_p[m])
        pairs[a], diagonal[a] = n, max(total, 0.0)


@inner
def move_entry(b, row, limit, end, out_indices, out_data):
    """Write row[b] at `end` unless its size is within `limit`, and clear it; returns the new end."""
    if row[b] != 0.0:
        if abs(row[b]) > limit:
            out_indices[end], out_data[end] = b, row[b]
            end += 1
        row[b] = 0.0
    return end


@strict_kernel
def write_rows(
    first, last, offsets, entries, stops, members, x, x_p, own, bounds, below_indptr, below, limits, pairs, ends,
    out_indices, out_data,
):  # fmt: skip
    """Write the rows a = first ... last - 1 from the diagonal on: sum_s x_a x_b (P(a and b) - p_a p_b).

    P is p_a where b's state is a's, p_b where it is below, and 0 where the two exclude each other. An entry within
    limits[a] limits[b] is left out; a row's first entry is its diagonal, always.
    own: int (n,), the number of each coordinate's state; bounds: where the coordinates of each state begin, and the
    end; below_indptr, below: the states below each, compressed; pairs: as `measure_rows` has them; ends: int64
    (last - first,), where each row ends.
    """
    n = limits.size
    row, is_below = np.zeros(n), np.zeros(bounds.size - 1, np.bool_)
    end, state = 0, -1
    for a in range(first, last):
        if own[a] != state:
            if state >= 0:
                is_below[below[below_indptr[state] : below_indptr[state + 1]]] = False
            state = own[a]
            is_below[below[below_indptr[state] : below_indptr[state + 1]]] = True
        has_below = below_indptr[state + 1] > below_indptr[state]
        for o in range(offsets[a], offsets[a + 1]):
            m, stop = entries[o], stops[o]
            x_a, scale = x[m], x_p[m]
            while m < stop and members[m] < bounds[state + 1]:
                row[np.uint64(members[m])] += scale * (x[m] - x_p[m])
                m += 1
            if has_below:
                for i in range(m, stop):
                    b = np.uint64(members[i])
                    row[b] += (x_a - scale if is_below[own[b]] else -scale) * x_p[i]
            else:
                for i in range(m, stop):
                    row[np.uint64(members[i])] -= scale * x_p[i]
        out_indices[end], out_data[end] = a, row[a]
        end += 1
        row[a] = 0.0
        if SCAN * pairs[a] > n - a:
            for b in range(a + 1, n):
                end = move_entry(b, row, limits[a] * limits[b], end, out_indices, out_data)
        else:
            for o in range(offsets[a], offsets[a + 1]):
                for m in range(entries[o] + 1, stops[o]):
                    b = members[m]
                    end = move_entry(b, row, limits[a] * limits[b], end, out_indices, out_data)
        ends[a - first] = end
