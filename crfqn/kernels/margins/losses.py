"""Losses seen from one row of the weights: slopes, curvatures, and the margins' moves that follow the row's.

For block coordinate descent (Blondel, Seki, Uehara 2013, Algorithm 3 and section 4.3). What each position keeps is
laid out position-major, so that a row's update reads whole cache lines; a move of row j touches the positions that have
feature j and nothing else. Branch-free where the paper's loop asks "is this pair violated?": a vector instruction
answers eight times at once.

Shapes: N positions, K states, width = K rounded up to LANES; s the scores, y the label, x the feature's value.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import bare_kernel, bare_subkernel, inner, kernel, subkernel
from crfqn.kernels.exp import exp_in_place
from crfqn.kernels.margins.hinges import add_hinge_slopes, move_hinge

MULTICLASS, MULTITASK, LOGISTIC, RANKING = range(4)
BATCH = 32  # positions whose exponentials are taken at once


class MarginState(NamedTuple):
    """The data by feature, and what each position keeps.

    loss : MULTICLASS ... RANKING
    indices, values : of the entries, positions and values; without values, (0,), all are 1
    labels : int32 (N,), y; weights : float64 (N,), how often a position counts
    margins : float64 (N, width), -inf beside the states: 1 + s_r - s_y, and -inf at y (MULTICLASS); 1 + s_r, and
        1 - s_y (MULTITASK); s_r - s_y (LOGISTIC); s_r (RANKING)
    probabilities, relevance : float64 (N, width) with LOGISTIC, and with RANKING, 1 where a label is relevant;
        (0, width) with other losses
    losses : float64 (N,), the loss of each position; up to date during a sweep for LOGISTIC and RANKING only
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
def value_of(values, e):
    """Return the value of entry e; without values, (0,), all are 1."""
    return values[e] if values.size > 0 else 1.0


@inner
def task_slopes(state, begin, end, g, h, own):
    """Add half the slopes and curvatures of the multitask squared hinge (equation 13) to g, h and own."""
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        a, x = state.margins[i], value_of(state.values, e)
        first = state.weights[i] * x
        second = first * x
        for r in range(a.size):
            g[r] += first * (a[r] if a[r] > 0.0 else 0.0)
            h[r] += second * (1.0 if a[r] > 0.0 else 0.0)
        slack = a[state.labels[i]]
        own[0, state.labels[i]] -= 2.0 * first * (slack if slack > 0.0 else 0.0)


@inner
def task_move(state, begin, end, step, d):
    """Move the margins of the multitask squared hinge; returns the change of the loss."""
    change = 0.0
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        a, x, y = state.margins[i], step * value_of(state.values, e), state.labels[i]
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
        p, x = state.probabilities[i], value_of(state.values, e)
        first = state.weights[i] * x
        second = first * x
        for r in range(p.size):
            g[r] += first * p[r]
            h[r] += second * p[r] * (1.0 - p[r])
        own[0, state.labels[i]] -= first


@subkernel
def add_probabilities(rows, margins, probabilities, losses, scores, exponents):
    """Compute probabilities and losses of the positions `rows` from their margins.

    scores, exponents : float64 and int64 (rows * width,) at least, scratch
    """
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


@subkernel
def logistic_move(state, begin, end, step, d):
    """Move the margins, probabilities and losses of the logistic loss, a batch of positions at a time.

    Returns the change of the loss.
    """
    width, change = state.margins.shape[1], 0.0
    scores, exponents = np.empty(BATCH * width), np.empty(BATCH * width, np.int64)
    for start in range(begin, end, BATCH):
        stop = min(start + BATCH, end)
        for e in range(start, stop):
            i = np.uint64(state.indices[e])
            a, x = state.margins[i], step * value_of(state.values, e)
            own = d[state.labels[i]]
            for r in range(width):
                a[r] += x * (d[r] - own)
            change -= state.weights[i] * state.losses[i]
        rows = state.indices[start:stop]
        add_probabilities(rows, state.margins, state.probabilities, state.losses, scores, exponents)
        for e in range(start, stop):
            i = np.uint64(state.indices[e])
            change += state.weights[i] * state.losses[i]
    return change


@inner
def ranking_slopes(state, begin, end, g, h):
    """Add half the slopes and curvatures of the squared hinges of all pairs of a relevant and an irrelevant label.

    Section 4.7: a pair counts as the label and another class do in the multiclass loss.
    """
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        s, is_relevant, x = state.margins[i], state.relevance[i], value_of(state.values, e)
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
    """Move the scores and losses of the ranking loss; returns the change of the loss."""
    change = 0.0
    for e in range(begin, end):
        i = np.uint64(state.indices[e])
        s, x = state.margins[i], step * value_of(state.values, e)
        for r in range(s.size):
            s[r] += x * d[r]
        loss = ranking_loss(s, state.relevance[i])
        change += state.weights[i] * (loss - state.losses[i])
        state.losses[i] = loss
    return change


@kernel
def fill_losses(state, first, last):
    """Compute the losses of the positions first ... last - 1 from their margins, with LOGISTIC also probabilities."""
    width = state.margins.shape[1]
    if state.loss == LOGISTIC:
        rows, size = np.arange(first, last), (last - first) * width
        add_probabilities(
            rows, state.margins, state.probabilities, state.losses, np.empty(size), np.empty(size, np.int64)
        )
        return
    for i in range(first, last):
        if state.loss == RANKING:
            state.losses[i] = ranking_loss(state.margins[i], state.relevance[i])
        else:
            total, a = 0.0, state.margins[i]
            for r in range(width):
                total += a[r] * a[r] if a[r] > 0.0 else 0.0
            state.losses[i] = total


@bare_kernel
def slopes(state, begin, end, g, h, own):
    """Compute gradient and diagonal of the (generalised) Hessian of one row, over its entries begin ... end - 1.

    Algorithm 3. g, h: float64 (width,), out. own: float64 (2, width), scratch for the labels' terms: a number written
    to g between two vectors of it that are read makes the second read wait.
    """
    g[:] = 0.0
    h[:] = 0.0
    own[:] = 0.0
    if state.loss == MULTICLASS:
        add_hinge_slopes(state, begin, end, g, h, own)
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


@bare_subkernel
def move(state, begin, end, step, d):
    """Move the margins with a change of the row by step * d (section 4.3); returns the change of the loss."""
    if state.loss == MULTICLASS:
        return move_hinge(state, begin, end, step, d)
    if state.loss == MULTITASK:
        return task_move(state, begin, end, step, d)
    if state.loss == LOGISTIC:
        return logistic_move(state, begin, end, step, d)
    return ranking_move(state, begin, end, step, d)
