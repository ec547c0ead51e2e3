"""Move mass between states until every state has the same total as its items' labels: sum_i alpha_i = 0.

It makes dual variables feasible for an intercept without penalty. From a state with too much there is always as much to
take, for its excess is part of what items have there; items that have the other state too come first, whose gradients
of both are nearly the same.

Shapes as in `linear.py`; surplus : float64 (K,), sum_i b_i less the masses of the labels, which add up to 0.
"""

from crfqn.kernels import bare_subkernel, kernel
from crfqn.kernels.dual.linear import move_weights


@bare_subkernel
def give(i, p, q, rows, items, surplus, states, changes, weights):
    """Move as much as is there and wanted from state q of item i to state p, and the weights with it."""
    b = items.b[i]
    moved = min(b[q], min(surplus[q], -surplus[p]))
    b[q] -= moved
    b[p] += moved
    surplus[q] -= moved
    surplus[p] += moved
    states[0], changes[0], states[1], changes[1] = q, moved, p, -moved
    move_weights(i, rows, 2, states, changes, weights)


@kernel
def balance(order, rows, items, surplus, states, changes, weights):
    """Make the surplus zero, but for rounding; states, changes : workspaces (2,) of int64 and float64."""
    for is_second in range(2):
        for q in range(surplus.size):
            for t in range(order.size):
                if not surplus[q] > 0.0:
                    break
                i = order[t]
                for p in range(surplus.size):
                    is_wanted = surplus[p] < 0.0 and surplus[q] > 0.0
                    if is_wanted and items.b[i, q] > 0.0 and (is_second == 1 or items.b[i, p] > 0.0):
                        give(i, p, q, rows, items, surplus, states, changes, weights)
