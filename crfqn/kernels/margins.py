"""Slopes and curvatures of the losses with respect to one row of the weights, and updates of the margins.

For block coordinate descent (Blondel, Seki, Uehara 2013, Algorithm 3 and section 4.3). The state of the positions is
position-major: the update of a row reads whole cache lines of the positions that have the feature, and no others. The
paper's test for violated pairs is written without branches, so that it vectorises.
The losses over label-major score arrays, at the end, are for `objectives.losses`.

Shapes: N positions, K states, width = K rounded up to LANES; scores s, label y, feature value x.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import inner, kernel, subkernel
from crfqn.kernels.numba_internals import hinge_move, hinge_slopes
from crfqn.kernels.rows import exp_in_place

MULTICLASS, MULTITASK, LOGISTIC, RANKING = range(4)
UNIT_VALUE = np.ones(1)  # with a stride of 0 the values of all entries if these are 1
EXP_BATCH_POSITIONS = 32  # positions whose exponentials are computed in one call


class MarginState(NamedTuple):
    """The data by feature and the state of each position.

    loss : MULTICLASS, MULTITASK, LOGISTIC or RANKING
    indices, values : positions and values of the entries; values (0,) means that all are 1
    labels, weights : int32 (N,), y; float64 (N,), the weight of each position
    margins : float64 (N, width), -inf in the padding: 1 + s_r - s_y, and -inf at y (MULTICLASS); 1 + s_r, and 1 - s_y
        at y (MULTITASK); s_r - s_y (LOGISTIC); s_r (RANKING)
    probabilities : float64 (N, width) with LOGISTIC, otherwise (0, width)
    relevance : float64 (N, width) with RANKING, 1 for relevant labels, otherwise (0, width)
    losses : float64 (N,); updated during a sweep with LOGISTIC and RANKING only
    """

    loss: int
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    margins: np.ndarray
    probabilities: np.ndarray
    relevance: np.ndarray
    losses: np.ndarray


@inner
def entry_value(values, e):
    """Return the value of entry e; values (0,) means that all are 1."""
    return values[e] if values.size > 0 else 1.0


@inner
def task_slopes(state, begin, end, g, h, own):
    """Add half the slopes and curvatures of the multitask squared hinge (equation 13) to g, h and own."""
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        a, x = state.margins[i], entry_value(state.values, e)
        first = state.weights[i] * x
        second = first * x
        for r in range(a.size):
            g[r] += first * (a[r] if a[r] > 0.0 else 0.0)
            h[r] += second * (1.0 if a[r] > 0.0 else 0.0)
        slack = a[state.labels[i]]
        own[0, state.labels[i]] -= 2.0 * first * (slack if slack > 0.0 else 0.0)


@inner
def task_move(state, begin, end, step, d):
    """Update the margins of the multitask squared hinge; return the change of the loss."""
    change = 0.0
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        a, x, y = state.margins[i], step * entry_value(state.values, e), state.labels[i]
        part, own = 0.0, a[y]
        for r in range(a.size):
            old = a[r] if a[r] > 0.0 else 0.0
            a[r] += x * d[r]
            new = a[r] if a[r] > 0.0 else 0.0
            part += new * new - old * old
        wrong = a[y] if a[y] > 0.0 else 0.0
        a[y] = own - x * d[y]
        right = a[y] if a[y] > 0.0 else 0.0
        part += right * right - wrong * wrong
        change += state.weights[i] * part
    return change


@inner
def logistic_slopes(state, begin, end, g, h, own):
    """Add sum c x (p_r - [r = y]) to g and own, sum c x^2 p_r (1 - p_r) to h; c the position's weight."""
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        p, x = state.probabilities[i], entry_value(state.values, e)
        first = state.weights[i] * x
        second = first * x
        for r in range(p.size):
            g[r] += first * p[r]
            h[r] += second * p[r] * (1.0 - p[r])
        own[0, state.labels[i]] -= first


@subkernel
def add_probabilities(rows, margins, probabilities, losses, scores):
    """Compute probabilities and losses of the positions `rows` from their margins; scores : workspace
    (rows * width,)."""
    width = margins.shape[1]
    for k in range(rows.size):
        a = margins[rows[k]]
        largest = 0.0  # the margin of y
        for r in range(width):
            largest = a[r] if a[r] > largest else largest
        for r in range(width):
            scores[k * width + r] = a[r] - largest
        losses[rows[k]] = largest
    exp_in_place(scores[: rows.size * width])
    for k in range(rows.size):
        p, total = probabilities[rows[k]], 0.0
        for r in range(width):
            total += scores[k * width + r]
        share = 1.0 / total
        for r in range(width):
            p[r] = share * scores[k * width + r]
        losses[rows[k]] += np.log(total)


@subkernel
def logistic_move(state, begin, end, step, d):
    """Update margins, probabilities and losses of the logistic loss in batches; return the change of the loss."""
    width, change = state.margins.shape[1], 0.0
    scores = np.empty(EXP_BATCH_POSITIONS * width)
    for start in range(begin, end, EXP_BATCH_POSITIONS):
        stop = min(start + EXP_BATCH_POSITIONS, end)
        for e in range(start, stop):
            i = np.uint64(state.indices[e])
            a, x = state.margins[i], step * entry_value(state.values, e)
            own = d[state.labels[i]]
            for r in range(width):
                a[r] += x * (d[r] - own)
            change -= state.weights[i] * state.losses[i]
        rows = state.indices[start:stop]
        add_probabilities(rows, state.margins, state.probabilities, state.losses, scores)
        for e in range(start, stop):
            i = np.uint64(state.indices[e])
            change += state.weights[i] * state.losses[i]
    return change


@inner
def ranking_slopes(state, begin, end, g, h):
    """Add half the slopes and curvatures of the squared hinges of all pairs of a relevant and an irrelevant label, each
    pair a term of the multiclass loss (section 4.7)."""
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        s, is_relevant, x = state.margins[i], state.relevance[i], entry_value(state.values, e)
        first = state.weights[i] * x
        second = first * x
        for y in range(s.size):
            if is_relevant[y] > 0.0:
                total, n_violated = 0.0, 0.0
                for r in range(s.size):
                    a = 1.0 + s[r] - s[y]
                    if a > 0.0 and is_relevant[r] == 0.0:
                        g[r] += first * a
                        h[r] += second
                        total += a
                        n_violated += 1.0
                g[y] -= first * total
                h[y] += second * n_violated


@inner
def ranking_loss(s, is_relevant):
    """Return the sum of max(1 + s_r - s_y, 0)^2 over the pairs of a relevant label y and an irrelevant one r."""
    total = 0.0
    for y in range(s.size):
        if is_relevant[y] > 0.0:
            for r in range(s.size):
                a = 1.0 + s[r] - s[y]
                if a > 0.0 and is_relevant[r] == 0.0:
                    total += a * a
    return total


@inner
def ranking_move(state, begin, end, step, d):
    """Update scores and losses of the ranking loss; return the change of the loss."""
    change = 0.0
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        s, x = state.margins[i], step * entry_value(state.values, e)
        for r in range(s.size):
            s[r] += x * d[r]
        loss = ranking_loss(s, state.relevance[i])
        change += state.weights[i] * (loss - state.losses[i])
        state.losses[i] = loss
    return change


@kernel
def fill_losses(state, first, last):
    """Compute the losses of the positions first ... last - 1 from their margins; with LOGISTIC also probabilities."""
    width = state.margins.shape[1]
    if state.loss == LOGISTIC:
        rows, size = np.arange(first, last), (last - first) * width
        add_probabilities(rows, state.margins, state.probabilities, state.losses, np.empty(size))
        return
    for i in range(first, last):
        if state.loss == RANKING:
            state.losses[i] = ranking_loss(state.margins[i], state.relevance[i])
        else:
            total, a = 0.0, state.margins[i]
            for r in range(width):
                total += a[r] * a[r] if a[r] > 0.0 else 0.0
            state.losses[i] = total


@kernel(counts=False)
def slopes(state, begin, end, g, h, own):
    """Compute gradient g and diagonal h of the (generalised) Hessian of one row from its entries begin ... end - 1:
    Algorithm 3.

    own : float64 (2, width), workspace of the labels' terms: writing single numbers of g between vector operations on
        it would stall the loads
    """
    g[:] = 0.0
    h[:] = 0.0
    own[:] = 0.0
    if state.loss == MULTICLASS:  # half of equations 5 and 6, the label's terms to own
        values, stride = (state.values, 1) if state.values.size > 0 else (UNIT_VALUE, 0)
        hinge_slopes(
            g, h, own, state.margins, state.indices, begin, end, values, stride, state.labels, state.weights
        )
    elif state.loss == MULTITASK:
        task_slopes(state, begin, end, g, h, own)
    elif state.loss == LOGISTIC:
        logistic_slopes(state, begin, end, g, h, own)
    else:
        ranking_slopes(state, begin, end, g, h)
    factor = 1.0 if state.loss == LOGISTIC else 2.0
    for r in range(g.size):
        g[r] = factor * (g[r] + own[0, r])
        h[r] = factor * (h[r] + own[1, r])


@subkernel(counts=False)
def move(state, begin, end, step, d):
    """Update the margins after the row has changed by step * d (section 4.3); return the change of the loss."""
    if state.loss == MULTICLASS:
        values, stride = (state.values, 1) if state.values.size > 0 else (UNIT_VALUE, 0)
        return hinge_move(
            d, state.margins, state.indices, begin, end, values, stride, state.labels, state.weights, step
        )
    if state.loss == MULTITASK:
        return task_move(state, begin, end, step, d)
    if state.loss == LOGISTIC:
        return logistic_move(state, begin, end, step, d)
    return ranking_move(state, begin, end, step, d)


# Squared hinge losses over label-major score arrays for `objectives.losses`: losses, residuals, dual slacks, and the
# Lipschitz constants of the features. Equations as in Blondel, Seki and Uehara (2013). The residual is the derivative
# of the weighted loss with respect to the scores. The ranking loss sums over pairs (relevant y, irrelevant r); the
# relevant labels of position i are sets[starts[i] ... starts[i + 1] - 1]. With one relevant label it equals the
# multiclass loss, which has a kernel whose inner loop runs over the positions.
#
#     scores, residual, curvature   float64 (K, N)
#     labels                        int32 (N,)
#     weights, losses               float64 (N,)
#     slacks                        float64 (N,), the sum over the violated pairs of 1 - margin, for dual values


@kernel
def multiclass_hinge(first, last, scores, labels, weights, losses, slacks, residual):
    """Compute the multiclass loss and its residual (equations 2 and 5) at the positions first ... last - 1. The inner
    loop has no branches and uses arrays that start at `first`, so that it vectorises."""
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
    """Compute the ranking loss (section 4.7), its residual and the diagonal of its generalised Hessian; both arrays are
    zero on entry."""
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
def star_constants(indptr, indices, values, labels, weights, n_states, out):
    """Compute the block Lipschitz constants of the multiclass squared hinge (appendix A, sharpened), out (F,).

    With c_y the sum of weight x^2 over the positions of class y, the generalised Hessian of a row is bounded by twice

        sum_y c_y sum_{r != y} (e_y - e_r)(e_y - e_r)' = K diag c + (sum c) I - c 1' - 1 c'.

    Both K sum_r c_r and K max_r c_r + sqrt(K) ||c|| bound the largest eigenvalue of this matrix; the paper has
    2 (K - 1) sum_r c_r.
    """
    squares = np.empty(n_states)
    for f in range(indptr.size - 1):
        squares[:] = 0.0
        for e in range(indptr[f], indptr[f + 1]):
            x = entry_value(values, e)
            squares[labels[indices[e]]] += weights[indices[e]] * x * x
        total, norm = squares.sum(), np.sqrt((squares * squares).sum())
        out[f] = 2.0 * min(n_states * total, n_states * squares.max() + np.sqrt(n_states) * norm)


@kernel
def squared_columns(first, last, states, features, indptr, indices, values, rows, out):
    """out[c] = sum_t x_{t,f_c}^2 rows[k_c, t] for the coordinates c = first ... last - 1."""
    for c in range(first, last):
        row, total = rows[states[c]], 0.0
        for e in range(indptr[features[c]], indptr[features[c] + 1]):
            x = entry_value(values, e)
            total += x * x * row[np.uint64(indices[e])]
        out[c] = total
