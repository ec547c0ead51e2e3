"""Curvature from sparse columns: ranges of features, rows of sampled positions, the sparse token-wise model.

Ranges. Between two distributions the expected count of feature f in item i differs by sum_t |x_tf| or less. With the
duality gap, the sum of the squares over the items bounds the distance of the gradient from the gradient at the optimum
(Ghaoui, Viallon and Rabbani 2012; Ndiaye et al. 2017).

Sparse model. An entry (a, b) of the token-wise model of the Hessian is a sum over the positions that have both
coordinates, and for nearly all pairs of words there is no such position. The work is half the sum over positions of
(number of active coordinates)^2: rows start at the diagonal, and `write_whole` mirrors each entry once.

Shapes: n active coordinates of nodes, N positions, S of them sampled; arrays of the features as in `sparse.py`.

    place    int32 (N,): the number of a position among the sampled ones, or -1
    starts   int64 (S + 1,): the M entries of sampled position s are starts[s] ... starts[s + 1] - 1
    members  int32 (M,): the coordinate of an entry
    x, x_p   float64 (M,): its value times the root of the position's weight; x times the marginal of its state
    offsets  int64 (n + 1,): the occurrences of coordinate a are offsets[a] ... offsets[a + 1] - 1
    entries  int64 (M,): the entry of an occurrence
    stops    int64 (M,): the end of the list that has this entry
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import IN_ORDER, inner, kernel


@kernel(sums=IN_ORDER, counts=False)
def square_ranges(first, last, indptr, indices, values, item_of, weights, out):
    """out[f] = sum_i weights[i] (sum_{t in item i} |x_tf|)^2 for f = first ... last - 1; item_of : int64 (N,), the item
    of each position."""
    for f in range(first, last):
        total, size, item = 0.0, 0.0, -1
        for e in range(indptr[f], indptr[f + 1]):
            own = item_of[np.uint64(indices[e])]
            size = size if own == item else 0.0
            x = abs(values[e]) if values.size > 0 else 1.0
            total += weights[np.uint64(own)] * x * (2.0 * size + x)  # (size + x)^2 - size^2
            size += x
            item = own
        out[f] = total


@kernel
def gather_features(first, last, features, place, indptr, indices, values, out):
    """out[i, place[t]] = x_{t,f} for f = features[i] and the sampled positions t; out : float32 (features, S), zeros
    on entry."""
    for i in range(first, last):
        for e in range(indptr[features[i]], indptr[features[i] + 1]):
            t = place[indices[e]]
            if t >= 0:
                out[i, t] = np.float32(values[e]) if values.size > 0 else np.float32(1.0)


# States with a smaller marginal are omitted from the model: nine of ten states if the labels are nearly certain.
MIN_MARGINAL = 1e-4
# The whole row is scanned for its nonzeros if more than 1 / ROW_SCAN_RATIO of it may be filled; otherwise the lists are
# read a second time.
ROW_SCAN_RATIO = 4


@kernel(sums=IN_ORDER)
def count_present(features, rows, indptr, indices, place, marginals, counts):
    """counts[s] += the number of coordinates whose feature occurs at s and whose state has a marginal >= MIN_MARGINAL.

    marginals : float64 (states, S); rows : int64 (n,), the row of each coordinate in `marginals`
    """
    for a in range(features.size):
        p = marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= MIN_MARGINAL:
                counts[s] += 1


@kernel(sums=IN_ORDER)
def list_members(
    features, rows, indptr, indices, values, place, roots, marginals, starts, members, x, x_p, offsets, entries, stops
):  # fmt: skip
    """Fill the lists of all sampled positions, coordinate by coordinate, and those of the occurrences.

    rows, marginals : as in `count_present`; roots : float64 (S,), square roots of the weights
    """
    ends, o = starts[:-1].copy(), 0
    offsets[0] = 0
    for a in range(features.size):
        p = marginals[rows[a]]
        for e in range(indptr[features[a]], indptr[features[a] + 1]):
            s = place[indices[e]]
            if s >= 0 and p[s] >= MIN_MARGINAL:
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
    """pairs[a] = the number of entries from a's to the end of each list that has a; diagonal[a] = sum_s x_a^2 (p_a -
    p_a^2)."""
    for a in range(pairs.size):
        n, total = 0, 0.0
        for o in range(offsets[a], offsets[a + 1]):
            m = entries[o]
            n += stops[o] - m
            total += x_p[m] * (x[m] - x_p[m])
        pairs[a], diagonal[a] = n, max(total, 0.0)


@inner
def move_entry(b, row, limit, end, out_indices, out_data):
    """Write row[b] at `end` if |row[b]| > limit, and clear it; return the new end."""
    if row[b] != 0.0:
        if abs(row[b]) > limit:
            out_indices[end], out_data[end] = b, row[b]
            end += 1
        row[b] = 0.0
    return end


@kernel(sums=IN_ORDER)
def write_rows(
    first, last, offsets, entries, stops, members, x, x_p, own, bounds, below_indptr, below, limits, pairs, ends,
    out_indices, out_data,
):  # fmt: skip
    """Write the rows a = first ... last - 1 from the diagonal on: sum_s x_a x_b (P(a and b) - p_a p_b).

    P(a and b) is p_a if both coordinates have the same state, p_b if the state of b is below that of a in the taxonomy,
    and 0 if the states exclude each other. Entries of size <= limits[a] limits[b] are omitted, except for the diagonal,
    which is the first entry of every row.

    own : int (n,), the number of each coordinate's state
    bounds : the first coordinate of each state, and n
    below_indptr, below : the states below each state, compressed
    pairs : as `measure_rows` writes them; ends : the end of each row, out
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
        if ROW_SCAN_RATIO * pairs[a] > n - a:
            for b in range(a + 1, n):
                end = move_entry(b, row, limits[a] * limits[b], end, out_indices, out_data)
        else:
            for o in range(offsets[a], offsets[a + 1]):
                for m in range(entries[o] + 1, stops[o]):
                    b = members[m]
                    end = move_entry(b, row, limits[a] * limits[b], end, out_indices, out_data)
        ends[a - first] = end


class CompressedRows(NamedTuple):
    """Rows of a compressed matrix: indptr int64 (n + 1,), indices int32, data float32."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


@kernel
def count_whole(nodes, beside, among, ends):
    """Count the entries of each row that `write_whole` writes; ends : int (n + n_edges + 1,), zeros on entry.

    On return ends[a + 1] is the begin of row a. `write_whole` advances it to the end of the row, which is the begin of
    row a + 1.
    """
    n, n_edges = nodes.indptr.size - 1, among.shape[0]
    # The length of row a goes to ends[a + 2]: the cumulated sums are then the begins of the rows, shifted by one.
    for a in range(n):
        length = nodes.indptr[a + 1] - nodes.indptr[a] + beside.indptr[a + 1] - beside.indptr[a]
        if a + 2 < ends.size:
            ends[a + 2] += length
        for e in range(nodes.indptr[a] + 1, nodes.indptr[a + 1]):
            if nodes.indices[e] + 2 < ends.size:
                ends[nodes.indices[e] + 2] += 1
        for e in range(beside.indptr[a], beside.indptr[a + 1]):
            if n + beside.indices[e] + 2 < ends.size:
                ends[n + beside.indices[e] + 2] += 1
    for e in range(n_edges - 1):
        for other in range(n_edges):
            ends[n + e + 2] += among[e, other] != 0.0
    for a in range(2, ends.size):
        ends[a] += ends[a - 1]


@kernel(sums=IN_ORDER)
def write_whole(nodes, beside, among, scale, diagonal, ends, out_indices, out_data):
    """Write the rows of D M D in ascending order, with another diagonal; M is the symmetric matrix of nodes and edges.

    nodes : CompressedRows of n nodes, from the diagonal on; the diagonal is the first entry of each row
    beside : CompressedRows of n nodes, their columns of the edges
    among : float64 (n_edges, n_edges), symmetric, of the edges
    scale, diagonal : float32 (n + n_edges,), D, and float64, the new diagonal
    ends : from `count_whole`; on return row a is ends[a] ... ends[a + 1] of out_indices and out_data
    """
    n, n_edges = nodes.indptr.size - 1, among.shape[0]
    for a in range(n):
        at = ends[a + 1]
        out_indices[at], out_data[at] = a, diagonal[a]
        at += 1
        for rows, shift, first in ((nodes, 0, nodes.indptr[a] + 1), (beside, n, beside.indptr[a])):
            for e in range(first, rows.indptr[a + 1]):
                b = np.uint64(rows.indices[e] + shift)
                value = rows.data[e] * (scale[a] * scale[b])
                out_indices[at], out_data[at] = b, value
                at += 1
                mirrored = np.uint64(ends[b + np.uint64(1)])
                out_indices[mirrored], out_data[mirrored] = a, value
                ends[b + np.uint64(1)] += 1
        ends[a + 1] = at
    for e in range(n_edges):
        a, at = n + e, ends[n + e + 1]
        for other in range(n_edges):
            if among[e, other] != 0.0:
                value = np.float32(among[e, other]) * (scale[a] * scale[n + other])
                out_indices[at], out_data[at] = n + other, diagonal[a] if other == e else value
                at += 1
        ends[a + 1] = at


# Curvature of edge weights, for the models of the Hessian (`objectives/marginals.py`). It uses node marginals only, as
# if neighbouring positions were independent. Position t then adds to the variance of the number of transitions (k, l)
#
#     v' C_t v + C_t(k, k) C_{t+1}(l, l),   v = p_{t+1}(l) at k + p_{t-1}(k) at l,   C_t = diag p_t - p_t p_t'
#
# by Hoeffding's decomposition: the terms of each end alone, and the remaining term of both. The expected number of
# transitions is an upper bound of the variance, but far too large if the labels are nearly certain.
# Shapes: K states, N positions, S sampled positions, E edges.


class TransitionCounts(NamedTuple):
    """The edges between each sampled position and one of its neighbours, as compressed lists of M entries.

    ends : int64 (S + 1,), the list of position s is ends[s] ... ends[s + 1] - 1
    edges : int32 (M,)
    here : int64 (M,), the state of the edge at the position
    q : float64 (M,), the marginal of the edge's other state at the neighbour
    mean : float64 (M,), q times the marginal of `here` at the position
    """

    ends: np.ndarray
    edges: np.ndarray
    here: np.ndarray
    q: np.ndarray
    mean: np.ndarray


@kernel(counts=False)
def edge_curvatures(first, last, offsets, targets, residual, inverse_weights, work, out):
    """out[k, l] += weight times the variance of the edge k -> l, over the items first ... last - 1.

    With the marginals p of a position, a of the next, b of the previous one, and v = p (1 - p), the variance is a sum
    of products of a factor of k and a factor of l,

        v(k) a(l) + b(k)^2 v(l) - 2 p(k) b(k) p(l) a(l),   plus 2 p(k) a(k) b(k) if k = l.

    residual : float64 (K, N), weight (p - observed), from which p is computed
    inverse_weights : float64 (N,); work : float64 (5, K), workspace; out : float64 (K, K)
    """
    n_states = residual.shape[0]
    before, here, after, variance, both = work[0], work[1], work[2], work[3], work[4]
    for i in range(first, last):
        begin, end = offsets[i], offsets[i + 1]
        inverse = inverse_weights[begin] if end > begin else 0.0
        if inverse == 0.0:
            continue
        for k in range(n_states):
            here[k] = after[k] = 0.0
        for t in range(begin - 1, end):
            for k in range(n_states):
                before[k], here[k] = here[k], after[k]
                after[k] = residual[k, t + 1] * inverse if t + 1 < end else 0.0
            if t + 1 < end:
                after[targets[t + 1]] += 1.0
            if t < begin:
                continue
            for k in range(n_states):
                variance[k], both[k] = here[k] * (1.0 - here[k]), here[k] * after[k]
            for k in range(n_states):
                by_after, by_variance = variance[k] / inverse, before[k] * before[k] / inverse
                by_both = 2.0 * here[k] * before[k] / inverse
                for l in range(n_states):
                    out[k, l] += by_after * after[l] + by_variance * variance[l] - by_both * both[l]
                out[k, k] += by_both * after[k]


@kernel
def count_transitions(here, there, p, neighbours, owners, starts, places, counts):
    """counts[t] += the number of edges e with p_t(here[e]) q_t(there[e]) >= MIN_MARGINAL.

    here, there : int (E,), the states of each edge at the position and at its neighbour
    p, neighbours : float64 (K, S), marginals of the positions, and q, those of their neighbours
    owners : int64 (E,), the bigram feature of each edge, 0 for none
    starts, places : the positions of feature f are places[starts[f]] ... places[starts[f + 1] - 1]
    """
    for e in range(here.size):
        if owners[e] == 0:
            for t in range(counts.size):
                counts[t] += p[here[e], t] * neighbours[there[e], t] >= MIN_MARGINAL
        else:
            for i in range(starts[owners[e]], starts[owners[e] + 1]):
                t = places[i]
                counts[t] += p[here[e], t] * neighbours[there[e], t] >= MIN_MARGINAL


@kernel
def list_transitions(here, there, p, neighbours, owners, starts, places, ends, found, values):
    """List by position the edges that `count_transitions` counts in `found`, and their q_t(there[e]) in `values`; ends
    : int64 (S + 1,), the begin of each position's list."""
    heads = ends[:-1].copy()
    for e in range(here.size):
        is_everywhere = owners[e] == 0
        first, last = (0, heads.size) if is_everywhere else (starts[owners[e]], starts[owners[e] + 1])
        for i in range(first, last):
            t = i if is_everywhere else places[i]
            q = neighbours[there[e], t]
            if p[here[e], t] * q >= MIN_MARGINAL:
                found[heads[t]], values[heads[t]] = e, q
                heads[t] += 1


@kernel(sums=IN_ORDER, counts=False)
def add_edge_products(outgoing, incoming, firsts, seconds, here, after, shares, heads, following, model):
    """model += sum_t share_t (v' C_t v + C_t(k, k') C_{t+1}(l, l')) for all pairs of edges (k, l), (k', l').

    For two outgoing edges all but the last terms of the two products cancel: these are added for edges to the same
    state. Sums for (e, e') and (e', e) are added at the end, so that symmetric products come in halves before.

    outgoing, incoming : TransitionCounts, edges whose first or whose second state is at the position
    here, after : float64 (K, S), marginals of the positions and of the next ones
    shares : float64 (S,); model : float64 (E, E), zeros on entry
    heads, following : int64 (K,), (E,), workspace: the last outgoing edge to each state, and the one before each edge
    """
    for t in range(shares.size):
        begin, half = outgoing.ends[t], 0.5 * shares[t]
        for k in range(heads.size):
            heads[k] = -1
        for o in range(begin, outgoing.ends[t + 1]):
            to = seconds[outgoing.edges[o]]
            following[o - begin], heads[to] = heads[to], o
        for o in range(begin, outgoing.ends[t + 1]):
            e, k, mean = outgoing.edges[o], outgoing.here[o], outgoing.mean[o]
            to = seconds[e]
            model[e, e] += half * mean
            other = heads[to]
            while other >= 0:
                e_2 = outgoing.edges[other]
                if firsts[e_2] == k and e_2 != e:  # the same transition, of another feature
                    model[e, e_2] += half * mean
                model[e, e_2] -= half * after[to, t] * here[k, t] * here[firsts[e_2], t]
                other = following[other - begin]
            for i in range(incoming.ends[t], incoming.ends[t + 1]):
                joint = mean * incoming.q[i] if incoming.here[i] == k else 0.0
                model[e, incoming.edges[i]] += shares[t] * (joint - mean * incoming.mean[i])
        for i in range(incoming.ends[t], incoming.ends[t + 1]):
            e, k, mean = incoming.edges[i], incoming.here[i], incoming.mean[i]
            for other in range(incoming.ends[t], incoming.ends[t + 1]):
                joint = mean * incoming.q[other] if incoming.here[other] == k else 0.0
                model[e, incoming.edges[other]] += half * (joint - mean * incoming.mean[other])
    for e in range(model.shape[0]):
        for e_2 in range(e + 1):
            model[e, e_2] += model[e_2, e]
            model[e_2, e] = model[e, e_2]


@kernel(sums=IN_ORDER, counts=False)
def add_edge_columns(ends, edges, own_states, q, means, states, here, roots, bounds, rows, mean, own, sums):
    """sums[e, a] += sum_t rows[t, a] p_t(k) (v_t(k) - mean_t) roots[t], k the state of node a, for the edges e.

    ends, edges, own_states, q, means : the fields of TransitionCounts, of edges to both neighbours
    states, bounds : int (M,), (M + 1,): the nodes of state states[i] are bounds[i] ... bounds[i + 1] - 1
    here : float64 (K, S), marginals of the positions; roots : float64 (S,), square roots of their shares
    rows : float32 (S, n), the features of the nodes; sums : float32 (E, n)
    mean, own : float64 (E,), workspace, zeros on entry
    """
    for t in range(roots.size):
        for i in range(ends[t], ends[t + 1]):
            mean[edges[i]] += means[i]
        for m in range(states.size):
            scale = roots[t] * here[states[m], t]
            for i in range(ends[t], ends[t + 1]):
                own[edges[i]] += q[i] if own_states[i] == states[m] else 0.0
            for i in range(ends[t], ends[t + 1]):
                e = edges[i]
                factor = np.float32((own[e] - mean[e]) * scale)
                own[e] = mean[e]  # an edge may be in the list twice
                if factor != 0.0:
                    for a in range(bounds[m], bounds[m + 1]):
                        sums[e, a] += factor * rows[t, a]
            for i in range(ends[t], ends[t + 1]):
                own[edges[i]] = 0.0
        for i in range(ends[t], ends[t + 1]):
            mean[edges[i]] = 0.0


@kernel(sums=IN_ORDER)
def write_edge_columns(
    first, last, offsets, entries, places, x_p, roots, states, outgoing, incoming, limits, edge_limits, ends,
    out_indices, out_data,
):  # fmt: skip
    """Write the covariances of the node coordinates a = first ... last - 1 with each edge: rows of a CSR matrix.

    A covariance is sum_t x_ta p_t(k) (v_t(k) - mean_t), k = states[a]. Entries of size <= limits[a] edge_limits[e] are
    omitted.

    places : int32 (M,), the position of each entry of `list_members`
    roots : float64 (S,), square roots of the positions' shares
    states : int64 (n,); edge_limits : float64 (E,); ends : int64 (last - first,), the end of each row, out
    """
    row, end = np.zeros(edge_limits.size), 0
    for a in range(first, last):
        for o in range(offsets[a], offsets[a + 1]):
            m = entries[o]
            t = places[m]
            scale = x_p[m] * roots[t]
            for lists in (outgoing, incoming):
                for i in range(lists.ends[t], lists.ends[t + 1]):
                    own = lists.q[i] if lists.here[i] == states[a] else 0.0
                    row[lists.edges[i]] += scale * (own - lists.mean[i])
        for e in range(edge_limits.size):
            if abs(row[e]) > limits[a] * edge_limits[e]:
                out_indices[end], out_data[end] = e, row[e]
                end += 1
            row[e] = 0.0
        ends[a - first] = end
