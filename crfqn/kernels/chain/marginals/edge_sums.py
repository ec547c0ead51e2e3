"""Curvature of edge weights from node marginals alone, as if neighbouring positions were independent.

For the models of the Hessian (`objectives.curvature`). Position t then adds to the variance of the number of
transitions e = (k, l)

    v' C_t v + C_t(k, k) C_{t+1}(l, l),   v = p_{t+1}(l) at k + p_{t-1}(k) at l,   C_t = diag p_t - p_t p_t'

(Hoeffding's decomposition: the parts of each end alone, and the rest that takes both). The expected number of
transitions, an upper bound, is 50 times as large where labels are certain (CoNLL-2000): steps along edges were as many
times too short.

Shapes: K states, N positions, S sampled positions, E edges.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.curvature.token_rows import FAINT


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
