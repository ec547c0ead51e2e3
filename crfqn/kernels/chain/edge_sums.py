"""Curvature of edge weights from node marginals alone, as if neighbouring positions were independent.

For the models of the Hessian (`objectives/edge_model.py`). Position t then adds to the variance of the number of
transitions e = (k, l)

    v' C_t v + C_t(k, k) C_{t+1}(l, l),   v = p_{t+1}(l) at k + p_{t-1}(k) at l,   C_t = diag p_t - p_t p_t'

(Hoeffding's decomposition: the parts of each end alone, and the rest that takes both). The expected number of
transitions, an upper bound, is 50 times as large where labels are certain (CoNLL-2000): steps along edges were as many
times too short.

Shapes: K states, N positions, S sampled positions, E edges.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, strict_kernel
from crfqn.kernels.curvature import FAINT


class Transitions(NamedTuple):
    """The edges that sampled positions allow, from here to a neighbour or from there to here, in compressed lists.

    ends : int64 (S + 1,), where each position's list begins
    edges : int32 (M,), the edges, and `here` int64 (M,), the state that each has at the position
    q : float64 (M,), the neighbour's marginal of the edge's other state; `mean`, that times the position's own marginal
    """

    ends: np.ndarray
    edges: np.ndarray
    here: np.ndarray
    q: np.ndarray
    mean: np.ndarray


@kernel
def edge_curvatures(first, last, firsts, seconds, offsets, targets, residual, inverse_weights, out):
    """out[e] += weight times the variance of the edge firsts[e] -> seconds[e], over the items first ... last - 1.

    residual : float64 (K, N), weight (p - observed), of which p is read off; inverse_weights : float64 (N,)
    """
    n_states = residual.shape[0]
    before, here, after = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
    for i in range(first, last):
        begin, end = offsets[i], offsets[i + 1]
        inverse = inverse_weights[begin] if end > begin else 0.0
        if inverse == 0.0:
            continue
        here[:], after[:] = 0.0, 0.0
        for t in range(begin - 1, end):
            for k in range(n_states):
                before[k], here[k] = here[k], after[k]
                after[k] = residual[k, t + 1] * inverse if t + 1 < end else 0.0
            if t + 1 < end:
                after[targets[t + 1]] += 1.0
            if t < begin:
                continue
            for e in range(firsts.size):
                k, l = firsts[e], seconds[e]
                left, right, p, p_l = after[l], before[k], here[k], here[l]
                if k == l:
                    spread = (left + right) * (left + right) * p * (1.0 - p)
                else:
                    mean = left * p + right * p_l
                    spread = left * left * p + right * right * p_l - mean * mean
                out[e] += (spread + p * (1.0 - p) * left * (1.0 - left)) / inverse


@kernel
def count_transitions(here, there, p, neighbours, counts):
    """counts[t] += the number of edges e with p_t(here[e]) q_t(there[e]) >= FAINT, q the neighbours' marginals.

    here, there : int (E,), the edges' states here and at the neighbour; p, neighbours : float64 (K, S)
    """
    for e in range(here.size):
        for t in range(counts.size):
            counts[t] += p[here[e], t] * neighbours[there[e], t] >= FAINT


@kernel
def list_transitions(here, there, p, neighbours, ends, found, values):
    """List by position the edges that `count_transitions` counts, and q_t(there[e]) of each.

    ends : int64 (S + 1,), where each position's list begins; found, values : (ends[-1],), out
    """
    heads = ends[:-1].copy()
    for e in range(here.size):
        for t in range(heads.size):
            q = neighbours[there[e], t]
            if p[here[e], t] * q >= FAINT:
                found[heads[t]], values[heads[t]] = e, q
                heads[t] += 1


@strict_kernel
def add_edge_products(outgoing, incoming, firsts, seconds, here, after, shares, model):
    """model += sum_t share_t (v' C_t v + C_t(k, k') C_{t+1}(l, l')) for all pairs of edges (k, l), (k', l').

    What two outgoing edges share by the first term of each part cancels, so that only the last one is left of it.

    outgoing, incoming : Transitions, v by the edge's first and by its second state; firsts, seconds : int64 (E,)
    here, after : float64 (K, S), marginals of the positions and of those behind them; shares : float64 (S,)
    model : float64 (E, E), in and out
    """
    for t in range(shares.size):
        for o in range(outgoing.ends[t], outgoing.ends[t + 1]):
            e, k, mean = outgoing.edges[o], outgoing.here[o], outgoing.mean[o]
            to = seconds[e]
            model[e, e] += shares[t] * mean
            for other in range(outgoing.ends[t], outgoing.ends[t + 1]):
                e_2 = outgoing.edges[other]
                if seconds[e_2] == to:
                    model[e, e_2] -= shares[t] * after[to, t] * here[k, t] * here[firsts[e_2], t]
            for i in range(incoming.ends[t], incoming.ends[t + 1]):
                e_2 = incoming.edges[i]
                joint = mean * incoming.q[i] if incoming.here[i] == k else 0.0
                product = shares[t] * (joint - mean * incoming.mean[i])
                model[e, e_2] += product
                model[e_2, e] += product
        for i in range(incoming.ends[t], incoming.ends[t + 1]):
            e, k, mean = incoming.edges[i], incoming.here[i], incoming.mean[i]
            for other in range(incoming.ends[t], incoming.ends[t + 1]):
                joint = mean * incoming.q[other] if incoming.here[other] == k else 0.0
                model[e, incoming.edges[other]] += shares[t] * (joint - mean * incoming.mean[other])


@strict_kernel
def write_edge_columns(
    first, last, offsets, entries, places, x_p, roots, states, outgoing, incoming, limits, least, ends,
    out_indices, out_data,
):  # fmt: skip
    """Write what the coordinates a = first ... last - 1 of nodes have in common with each edge: rows of a CSR matrix.

    That is sum_t x_ta p_t(k) (v_t(k) - mean_t), k = states[a]; an entry within limits[a] least[e] is left out.

    offsets, entries, x_p : as in `curvature/token_rows.py`; places : int32 (M,), the position of each entry
    roots : float64 (S,), of the positions' shares; states : int64 (n,); least : float64 (E,)
    ends : int64 (last - first,), where each row ends; out_indices, out_data : out
    """
    row, end = np.zeros(least.size), 0
    for a in range(first, last):
        for o in range(offsets[a], offsets[a + 1]):
            m = entries[o]
            t = places[m]
            scale = x_p[m] * roots[t]
            for lists in (outgoing, incoming):
                for i in range(lists.ends[t], lists.ends[t + 1]):
                    own = lists.q[i] if lists.here[i] == states[a] else 0.0
                    row[lists.edges[i]] += scale * (own - lists.mean[i])
        for e in range(least.size):
            if abs(row[e]) > limits[a] * least[e]:
                out_indices[end], out_data[end] = e, row[e]
                end += 1
            row[e] = 0.0
        ends[a - first] = end
