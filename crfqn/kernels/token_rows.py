"""Rows of the token-wise model where positions have few active coordinates: sums over the pairs that meet.

A word is in few documents, and a document has few of the active words: most pairs of coordinates never meet, and the
model is sparse. Work: the sum over positions of (active coordinates there)^2, whatever the size of the model.

Shapes: n active coordinates of nodes, S sampled positions; `place` int32 (N,) is a position's number among the sampled,
or -1. What each sampled position has is a compressed list: `starts` int64 (S + 1,), and by entry `members` int32, the
coordinate, and `x` float64, its value times the root of the position's weight.
"""

from crfqn.kernels import kernel, strict_kernel

ABOVE, BELOW = (
    1,
    2,
)  # what a state is to another: itself or an ancestor, a descendant; 0: they exclude each other


@kernel
def count_members(features, n_active, indptr, indices, counts):
    """counts[t] += n_active[i], the active coordinates of features[i], at each of its positions t."""
    for i in range(features.size):
        for e in range(indptr[features[i]], indptr[features[i] + 1]):
            counts[indices[e]] += n_active[i]


@kernel
def list_members(features, indptr, indices, values, place, roots, ends, members, x):
    """Fill the lists, coordinate a of features[a] by coordinate; `ends` (S,) come as the starts and move along."""
    for a in range(features.size):
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0:
                members[ends[s]] = a
                x[ends[s]] = roots[s] * (values[e] if values.size > 0 else 1.0)
                ends[s] += 1


@strict_kernel
def add_rows(
    first, last, features, indptr, indices, values, place, roots, starts, members, x, x_p, p, relation, rows
):
    """rows[a - first, b] = sum_s x_a x_b (P(a and b) - p_a p_b), a = first ... last - 1 the coordinates of one state.

    P is p_a where b's state is a's or above it, p_b where it is below, and 0 where the two exclude each other.
    p: float64 (S,), the marginal of a's state; x_p: float64, by entry x times the marginal of its coordinate's state;
    relation: uint8 (n,), what each coordinate's state is to a's; rows: float64 (last - first, n), zero before.
    """
    for a in range(first, last):
        row = rows[a - first]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0:
                x_a = roots[s] * (values[e] if values.size > 0 else 1.0)
                p_a = p[s]
                for m in range(starts[s], starts[s + 1]):
                    b = members[m]
                    both = -p_a * x_p[m]
                    if relation[b] == ABOVE:
                        both += p_a * x[m]
                    elif relation[b] == BELOW:
                        both += x_p[m]
                    row[b] += x_a * both
