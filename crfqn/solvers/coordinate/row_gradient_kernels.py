"""The full gradient by rows: residuals from the margins, and the optimality measures of rows.

For the screening of block coordinate descent and for its duality gap (Blondel, Seki and Uehara 2013).

Shapes: N positions, K states, width = K rounded up to LANES.
"""

import numpy as np

from crfqn.kernels import bare_subkernel, kernel
from crfqn.kernels.margins.losses import LOGISTIC, MULTITASK, slopes
from crfqn.solvers.coordinate.row_penalty_kernels import (
    UNPENALISED,
    dual_norm,
    kkt_excess,
    largest_of,
    row_violation,
)

LEAST_MARGIN = -1000.0  # of a state, with next to no probability; beside the states is -inf


@bare_subkernel
def dual_slack(state, i, residual):
    """Return a position's term of the dual value, without its weight: entropy (LOGISTIC), or sum of the hinges' slacks.

    A slack is max(1 - margin, 0) of a pair of labels, or of a task (MULTITASK). In the residual of a hinge loss each
    pair occurs at both of its labels, with a factor of 2, and a task once.
    """
    total, weight = 0.0, state.weights[i]
    if state.loss == LOGISTIC:
        for r in range(residual.size):
            total += state.probabilities[i, r] * max(state.margins[i, r], LEAST_MARGIN)
        return state.losses[i] - total
    for r in range(residual.size):
        total += abs(residual[r])
    return total / ((2.0 if state.loss == MULTITASK else 4.0) * weight) if weight > 0.0 else 0.0


@kernel
def fill_residuals(state, first, last, order, residual, norms, slacks):
    """Write the weighted derivatives by the scores of the positions first ... last - 1, their norms, and `dual_slack`.

    A position's residual is the gradient of a feature that is 1 there and 0 elsewhere.

    state : a `MarginState` whose entries are those of such features: indices 0 ... N - 1, without values
    order : of the norm, 1 or 2
    residual : float64 (N, width), norms, slacks : float64 (N,), out
    """
    h, own = np.empty(residual.shape[1]), np.empty((2, residual.shape[1]))
    for i in range(first, last):
        g = residual[i]
        slopes(state, i, i + 1, g, h, own)
        norms[i] = dual_norm(g, 0.0, order == 1)
        slacks[i] = dual_slack(state, i, g)


@kernel
def measure_rows(
    places, weights, gradients, is_unpenalised, penalty, has_groups, norms, violations, stands_out
):
    """Compute the dual norms of rows' gradients, the rows' violations, and which rows stand out.

    Those do that are unpenalised or not zero, and zero rows that may move.

    places : int64 (n,), of the rows in `weights`, float64 (rows, K), negative for rows of zeros
    gradients : float64 (n, width); is_unpenalised : bool (n,)
    has_groups : whether the violation is a row's, not its largest coordinate's
    norms, violations : float64 (n,), stands_out : bool (n,), out
    """
    n_states = weights.shape[1]
    zeros, slope, spare = np.zeros(n_states), np.empty(n_states), np.empty(n_states)
    for i in range(places.size):
        w, g = weights[places[i]] if places[i] >= 0 else zeros, gradients[i, :n_states]
        own = UNPENALISED if is_unpenalised[i] else penalty
        norms[i] = dual_norm(g, own.l1, own.is_linf)
        stands_out[i] = is_unpenalised[i] or kkt_excess(w, g, own) > 0.0
        violations[i] = row_violation(w, g, own, slope, spare) if stands_out[i] else 0.0
        if stands_out[i] and (is_unpenalised[i] or not has_groups):
            violations[i] = largest_of(slope)  # in no group: by coordinate
