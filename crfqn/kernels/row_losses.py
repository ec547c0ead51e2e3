"""Losses seen from one row of the weights: slopes, curvatures, and what a move of the row does to the margins.

For block coordinate descent (Blondel, Seki, Uehara 2013, Algorithm 3 and section 4.3). What each position keeps is
laid out position-major, so that a row's update reads whole cache lines; a move of row j touches the positions that have
feature j and nothing else. Branch-free where the paper's loop asks "is this pair violated?": a vector instruction
answers eight times at once.

Shapes: N positions, K states, width = K rounded up to LANES; s the scores, y the label, x the feature's value.
margins : float64 (N, width), and what is beside the states is -inf. By loss
    MULTICLASS  A_r = 1 + s_r - s_y, and A_y = -inf
    MULTITASK   1 + s_r, and 1 - s_y
    LOGISTIC    s_r - s_y
    RANKING     s_r
aid : float64 (N, width): probabilities (LOGISTIC), 1 where a label is relevant (RANKING), (0, width) otherwise
losses : float64 (N,), the loss of each position, up to date for LOGISTIC and RANKING
labels : int32 (N,), y; weights : float64 (N,), how often a position counts
"""

import numpy as np

from crfqn.kernels import bare_kernel, inner, kernel
from crfqn.kernels.exponential import exp_in_place
from crfqn.kernels.hinge_rows import add_hinge_slopes, move_hinge

MULTICLASS, MULTITASK, LOGISTIC, RANKING = range(4)
BATCH = 32  # positions whose exponentials are taken at once
ONE = np.ones(1)  # the value of every entry where all are 1


@inner
def value_of(values, e):
    return values[e] if values.size > 0 else 1.0


@inner
def hinge_slopes(begin, end, indices, values, labels, weights, margins, g, h, own):
    """Equations 5 and 6: g_r += c x max(A_r, 0), g_y -= their sum; h likewise; half of both."""
    numbers, stride = (values, 1) if values.size > 0 else (ONE, 0)
    add_hinge_slopes(g, h, own, margins, indices, begin, end, numbers, stride, labels, weights)


@inner
def hinge_move(begin, end, indices, values, labels, weights, margins, step, d):
    """A_r += step (d_r - d_y) x (section 4.3); returns the change of the loss."""
    numbers, stride = (values, 1) if values.size > 0 else (ONE, 0)
    return move_hinge(d, margins, indices, begin, end, numbers, stride, labels, weights, step)


@inner
def task_slopes(begin, end, indices, values, labels, weights, margins, g, h, own):
    """Equation 13: of every state on its own, with the sign of its label; half of both."""
    for e in range(begin, end):
        i = np.uint64(indices[e])
        a, x = margins[i], value_of(values, e)
        first = weights[i] * x
        second = first * x
        for r in range(a.size):
            g[r] += first * (a[r] if a[r] > 0.0 else 0.0)
            h[r] += second * (1.0 if a[r] > 0.0 else 0.0)
        slack = a[labels[i]]
        own[0, labels[i]] -= 2.0 * first * (slack if slack > 0.0 else 0.0)


@inner
def task_move(begin, end, indices, values, labels, weights, margins, step, d):
    change = 0.0
    for e in range(begin, end):
        i = np.uint64(indices[e])
        a, x, y = margins[i], step * value_of(values, e), labels[i]
        part, own = 0.0, a[y]
        old_own = own if own > 0.0 else 0.0
        for r in range(a.size):
            old = a[r] if a[r] > 0.0 else 0.0
            a[r] += x * d[r]
            new = a[r] if a[r] > 0.0 else 0.0
            part += new * new - old * old
        wrong = a[y] if a[y] > 0.0 else 0.0
        a[y] = own - x * d[y]
        right = a[y] if a[y] > 0.0 else 0.0
        change += weights[i] * (
            part - (wrong * wrong - old_own * old_own) + (right * right - old_own * old_own)
        )
    return change


@inner
def logistic_slopes(begin, end, indices, values, labels, weights, probabilities, g, h, own):
    """sum c x (p_r - [r = y]), and sum c x^2 p_r (1 - p_r)."""
    for e in range(begin, end):
        i = np.uint64(indices[e])
        p, x = probabilities[i], value_of(values, e)
        first = weights[i] * x
        second = first * x
        for r in range(p.size):
            g[r] += first * p[r]
            h[r] += second * p[r] * (1.0 - p[r])
        own[0, labels[i]] -= first


@kernel
def add_probabilities(rows, margins, probabilities, losses, scores, exponents):
    """Probabilities and losses of the positions `rows`, from their margins; scores, exponents: room for them all."""
    width = margins.shape[1]
    for k in range(rows.size):
        a = margins[rows[k]]
        largest = 0.0  # the margin of y
        for r in range(width):
            largest = a[r] if a[r] > largest else largest
        for r in range(width):
            scores[k * width + r] = a[r] - largest
        losses[rows[k]] = largest
    exp_in_place(scores[: rows.size * width], exponents)
    for k in range(rows.size):
        p, total = probabilities[rows[k]], 0.0
        for r in range(width):
            total += scores[k * width + r]
        share = 1.0 / total
        for r in range(width):
            p[r] = share * scores[k * width + r]
        losses[rows[k]] += np.log(total)


@kernel
def logistic_move(begin, end, indices, values, labels, weights, margins, probabilities, losses, step, d):
    width, change = margins.shape[1], 0.0
    scores, exponents = np.empty(BATCH * width), np.empty(BATCH * width, np.int64)
    for start in range(begin, end, BATCH):
        stop = min(start + BATCH, end)
        for e in range(start, stop):
            i = np.uint64(indices[e])
            a, x = margins[i], step * value_of(values, e)
            own = d[labels[i]]
            for r in range(width):
                a[r] += x * (d[r] - own)
            change -= weights[i] * losses[i]
        add_probabilities(indices[start:stop], margins, probabilities, losses, scores, exponents)
        for e in range(start, stop):
            i = np.uint64(indices[e])
            change += weights[i] * losses[i]
    return change


@inner
def ranking_slopes(begin, end, indices, values, weights, margins, relevance, g, h):
    """Pairs of a relevant and an irrelevant label (section 4.7), as of classes; half of both."""
    for e in range(begin, end):
        i = np.uint64(indices[e])
        s, is_relevant, x = margins[i], relevance[i], value_of(values, e)
        first = weights[i] * x
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
    total = 0.0
    for y in range(s.size):
        if is_relevant[y] > 0.0:
            for r in range(s.size):
                a = 1.0 + s[r] - s[y]
                if a > 0.0 and is_relevant[r] == 0.0:
                    total += a * a
    return total


@inner
def ranking_move(begin, end, indices, values, weights, margins, relevance, losses, step, d):
    change = 0.0
    for e in range(begin, end):
        i = np.uint64(indices[e])
        s, x = margins[i], step * value_of(values, e)
        for r in range(s.size):
            s[r] += x * d[r]
        loss = ranking_loss(s, relevance[i])
        change += weights[i] * (loss - losses[i])
        losses[i] = loss
    return change


@bare_kernel
def fill_losses(loss, first, last, margins, aid, losses):
    """The losses of the positions first ... last - 1 from their margins; LOGISTIC: see `add_probabilities`."""
    for i in range(first, last):
        if loss == RANKING:
            losses[i] = ranking_loss(margins[i], aid[i])
        else:
            total, a = 0.0, margins[i]
            for r in range(a.size):
                total += a[r] * a[r] if a[r] > 0.0 else 0.0
            losses[i] = total


@bare_kernel
def slopes(loss, begin, end, indices, values, labels, weights, margins, aid, g, h, own):
    """Gradient and diagonal of the (generalised) Hessian of one row, from its entries begin ... end - 1.

    g, h: float64 (width,), out. own: float64 (2, width), room for what falls to labels: a number written to g between
    two vectors of it that are read makes the second read wait.
    """
    g[:] = 0.0
    h[:] = 0.0
    own[:] = 0.0
    if loss == MULTICLASS:
        hinge_slopes(begin, end, indices, values, labels, weights, margins, g, h, own)
    elif loss == MULTITASK:
        task_slopes(begin, end, indices, values, labels, weights, margins, g, h, own)
    elif loss == LOGISTIC:
        logistic_slopes(begin, end, indices, values, labels, weights, aid, g, h, own)
    else:
        ranking_slopes(begin, end, indices, values, weights, margins, aid, g, h)
    factor = 1.0 if loss == LOGISTIC else 2.0
    for r in range(g.size):
        g[r] = factor * (g[r] + own[0, r])
        h[r] = factor * (h[r] + own[1, r])


@bare_kernel
def move(loss, begin, end, indices, values, labels, weights, margins, aid, losses, step, d):
    """Let the margins follow a change of the row by step * d; returns the change of the loss."""
    if loss == MULTICLASS:
        return hinge_move(begin, end, indices, values, labels, weights, margins, step, d)
    if loss == MULTITASK:
        return task_move(begin, end, indices, values, labels, weights, margins, step, d)
    if loss == LOGISTIC:
        return logistic_move(begin, end, indices, values, labels, weights, margins, aid, losses, step, d)
    return ranking_move(begin, end, indices, values, weights, margins, aid, losses, step, d)
