"""A look at all rows: residuals from the margins, position by position, and what gradients say of rows.

Layouts, losses and letters as in `row_losses.py`, penalties of rows as in `row_step.py`.
"""

import numpy as np

from crfqn.kernels import bare_kernel, kernel
from crfqn.kernels.row_losses import LOGISTIC, MULTITASK, slopes
from crfqn.kernels.row_step import NO_PENALTY, ROOM, dual_norm, largest_of, measure_row

NO_VALUES = np.empty(0)
LEAST_MARGIN = -1000.0  # of a state, with next to no probability; beside the states is -inf


@bare_kernel
def left_open(loss, weight, margins, probabilities, residual, loss_value):
    """What a dual value needs of a position, unweighted: the entropy (LOGISTIC), or sum max(1 - margin, 0) over pairs.

    In a residual of hinges each pair is seen at both of its labels, with a factor of 2; a task is seen once.
    """
    total = 0.0
    if loss == LOGISTIC:
        for r in range(margins.size):
            total += probabilities[r] * max(margins[r], LEAST_MARGIN)
        return loss_value - total
    for r in range(residual.size):
        total += abs(residual[r])
    return total / ((2.0 if loss == MULTITASK else 4.0) * weight) if weight > 0.0 else 0.0


@kernel
def fill_residuals(
    loss, first, last, positions, labels, weights, margins, aid, losses, order, residual, norms, slacks
):  # fmt: skip
    """The weighted derivatives by the scores of the positions first ... last - 1, their norms, and `left_open`.

    A position's residual is the gradient of a feature that is 1 there and 0 elsewhere.

    positions : 0 ... N - 1, as the entries of such features; order : of the norm, 1 or 2
    residual : float64 (N, width), norms, slacks : float64 (N,), out
    """
    width = margins.shape[1]
    h, own = np.empty(width), np.empty((2, width))
    for i in range(first, last):
        g = residual[i]
        slopes(loss, i, i + 1, positions, NO_VALUES, labels, weights, margins, aid, g, h, own)
        norms[i] = dual_norm(g, 0.0, order == 1)
        probabilities = aid[i] if loss == LOGISTIC else g
        slacks[i] = left_open(loss, weights[i], margins[i], probabilities, g, losses[i])


@kernel
def measure_rows(rows, table, gradients, is_free, l1, l2, group, is_linf, has_groups, norms, violations):
    """The dual norms of rows' gradients, distances to the subdifferential, and which rows stand out, bool (n,).

    Those that do: free ones, those that are not zero, and zeros that may move.

    rows : int64 (n,), places in `table`, float64 (rows, K), negative for rows of zeros
    gradients : float64 (n, width); is_free : bool (n,); has_groups : whether rows count as wholes
    norms, violations : float64 (n,), out
    """
    n_states = table.shape[1]
    room, zeros, stands_out = np.empty((ROOM, n_states)), np.zeros(n_states), np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        w, g = table[rows[i]] if rows[i] >= 0 else zeros, gradients[i, :n_states]
        own = NO_PENALTY if is_free[i] else (l1, l2, group, is_linf)
        outside, violations[i] = measure_row(w, g, own, room)
        if outside > 0.0 and (is_free[i] or not has_groups):
            violations[i] = largest_of(room[0])  # in no group: every weight on its own
        norms[i] = dual_norm(g, own[0], own[3])
        stands_out[i] = is_free[i] or outside > 0.0
    return stands_out
