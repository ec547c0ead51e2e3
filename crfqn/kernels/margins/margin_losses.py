"""Squared hinge losses over label-major score arrays: losses, residuals and dual slacks, and the features' constants.

For `objectives.losses`; equations as in Blondel, Seki and Uehara (2013). The residual is the derivative of the loss by
the scores, weights included. Pairs (relevant y, irrelevant r) of the
ranking loss come from sets of labels: position i has sets[starts[i] ... starts[i + 1]]; with one label each it is the
multiclass loss, which is written out apart because the position is the inner loop there.

scores, residual, curvature: float64 (K, N); labels: int32 (N,); weights, losses, slacks: float64 (N,).
slacks: sum over the violated pairs of max(1 - margin, 0), which a dual value needs.
"""

import numpy as np

from crfqn.kernels import kernel
from crfqn.kernels.margins.losses import value_of


@kernel
def multiclass_hinge(first, last, scores, labels, weights, losses, slacks, residual):
    """Compute the multiclass loss and its residual (equations 2 and 5) at the positions first ... last - 1.

    Without branches, and on arrays that start at `first`: the inner loop is compiled into vector instructions.
    """
    n, y, twice = last - first, labels[first:last], 2.0 * weights[first:last]
    loss, slack, own = np.zeros(n), np.zeros(n), np.empty(n)
    for i in range(n):
        own[i] = scores[y[i], first + i] - 1.0
    for r in range(scores.shape[0]):
        s, out = scores[r, first:last], residual[r, first:last]
        for i in range(n):
            a = s[i] - own[i]
            q = a if a > 0.0 else 0.0
            q = 0.0 if y[i] == r else q
            out[i] = twice[i] * q
            loss[i] += q * q
            slack[i] += q
    for i in range(n):
        residual[y[i], first + i] = -twice[i] * slack[i]
    for i in range(n):
        losses[first + i], slacks[first + i] = loss[i], slack[i]


@kernel
def multitask_hinge(first, last, scores, labels, weights, losses, slacks, residual):
    """Compute the multitask loss and its residual (equations 11 and 13) at the positions first ... last - 1."""
    n, y, twice = last - first, labels[first:last], 2.0 * weights[first:last]
    loss, slack = np.zeros(n), np.zeros(n)
    for r in range(scores.shape[0]):
        s, out = scores[r, first:last], residual[r, first:last]
        for i in range(n):
            sign = 1.0 if y[i] == r else -1.0
            a = 1.0 - sign * s[i]
            q = a if a > 0.0 else 0.0
            out[i] = -sign * twice[i] * q
            loss[i] += q * q
            slack[i] += q
    for i in range(n):
        losses[first + i], slacks[first + i] = loss[i], slack[i]


@kernel
def ranking_hinge(first, last, scores, starts, sets, weights, losses, slacks, residual, curvature):
    """Compute the ranking loss (section 4.7), its residual, and the diagonal of its generalised Hessian.

    residual, curvature : zero before
    """
    n_states = scores.shape[0]
    is_relevant = np.zeros(n_states, np.bool_)
    for i in range(first, last):
        loss, slack = 0.0, 0.0
        for e in range(starts[i], starts[i + 1]):
            is_relevant[sets[e]] = True
        for e in range(starts[i], starts[i + 1]):
            y = sets[e]
            for r in range(n_states):
                a = 1.0 + scores[r, i] - scores[y, i]
                if a > 0.0 and not is_relevant[r]:
                    loss += a * a
                    slack += a
                    residual[r, i] += 2.0 * weights[i] * a
                    residual[y, i] -= 2.0 * weights[i] * a
                    curvature[r, i] += 2.0 * weights[i]
                    curvature[y, i] += 2.0 * weights[i]
        losses[i], slacks[i] = loss, slack
        for e in range(starts[i], starts[i + 1]):
            is_relevant[sets[e]] = False


@kernel
def weighted_squares(indptr, indices, values, weights, out):
    """out[f] = sum_i weight_i x_if^2."""
    for f in range(indptr.size - 1):
        total = 0.0
        for e in range(indptr[f], indptr[f + 1]):
            x = value_of(values, e)
            total += weights[indices[e]] * x * x
        out[f] = total


@kernel
def star_constants(indptr, indices, values, labels, weights, n_states, out):
    """Compute the block Lipschitz constants of the multiclass squared hinge (appendix A, sharpened), out (F,).

    With c_y the sum of weight x^2 over the positions of class y, a row's generalised Hessian is at most twice
    sum_y c_y sum_{r != y} (e_y - e_r)(e_y - e_r)' = K diag c + (sum c) I - c 1' - 1 c', stars around every y, and both

        K sum_r c_r    and    K max_r c_r + sqrt(K) ||c||

    bound its largest eigenvalue; the paper has 2 (K - 1) sum_r c_r.
    """
    squares = np.empty(n_states)
    for f in range(indptr.size - 1):
        squares[:] = 0.0
        for e in range(indptr[f], indptr[f + 1]):
            x = value_of(values, e)
            squares[labels[indices[e]]] += weights[indices[e]] * x * x
        total, norm = squares.sum(), np.sqrt((squares * squares).sum())
        out[f] = 2.0 * min(n_states * total, n_states * squares.max() + np.sqrt(n_states) * norm)


@kernel
def squared_columns(first, last, states, features, indptr, indices, values, rows, out):
    """out[c] = sum_t x_{t,f_c}^2 rows[k_c, t] for the coordinates c = first ... last - 1."""
    for c in range(first, last):
        row, total = rows[states[c]], 0.0
        for e in range(indptr[features[c]], indptr[features[c] + 1]):
            x = value_of(values, e)
            total += x * x * row[np.uint64(indices[e])]
        out[c] = total
