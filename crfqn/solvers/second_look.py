"""A second look at where a run is about to end: what Newton's method wins there, by gradients in double precision.

What a method's steps have won says nothing where the method itself is at fault: a metric in single precision that
knows no direction but that of the features' mean, steps that a line search has cut to nothing. Here the weights that
are not zero, or unpenalised, are seen through the objective's own Hessian, H p = (g(w + e p) - g(w)) / e in double
precision, in the Krylov space of as many directions as the look may cost (Nocedal and Wright 2006, section 7.1), and
the minima of the quadratic model there are tried, from long steps to short ones (Levenberg and Marquardt). What the
objective falls by is won for certain: a run that far from its optimum has not ended, whatever is estimated.

Shapes: n weights that are not zero or unpenalised.
"""

from __future__ import annotations

import numpy as np

from crfqn.solvers.protocols import LocalPenalty, Vector
from crfqn.solvers.prox_qn.active_set import curvature_at_entry
from crfqn.solvers.screened_point import ScreenedPoint, screen_point

SHORT = 1e-3  # of the square root of the objective: what differences of gradients move by, in the norm of D
SHARE = 0.03  # of the passes so far may go into a look
CHEAP, MOST_CHEAP = 5e6, 50  # operations, some milliseconds, and directions that any run may take
MOST_LOOKS = 20
LOST = 1e-10  # of a direction, which then is in the space already
RIDGES = 10.0 ** np.arange(-14, 1)  # of the largest curvature in the space


def steps_worth_taking(n_passes: float, of_pass: float) -> int:
    """Return the directions of a look: some hundredths of the run's passes, more where they cost nothing.

    of_pass : operations of a pass over the data
    """
    return int(max(SHARE * n_passes, min(CHEAP / of_pass, MOST_CHEAP), 1))


def second_look(seen: ScreenedPoint, tol: float, most_steps: int) -> tuple[ScreenedPoint, float]:
    """Return the lowest point found from a screened one, and what has been won, as a share of the objective there.

    Parameters
    ----------
    tol : share of the objective: the looks go on from where they lead while they win more
    most_steps : directions of a look, each of which takes a pass over the data
    """
    first = seen.value
    for _ in range(MOST_LOOKS):
        least = tol * abs(seen.value)
        there = lower_point(seen, most_steps, least)
        if there is None:
            break
        before, seen = seen.value, there
        if before - seen.value <= least:
            break
    return seen, (first - seen.value) / abs(seen.value)


def lower_point(seen: ScreenedPoint, most_steps: int, least: float) -> ScreenedPoint | None:
    """Return the lowest point of a look, screened; None where the model promises less than `least` nats."""
    here = seen.only((seen.w != 0) | np.isin(seen.coords, seen.penalty.unpenalised))
    if here.coords.size == 0:
        return None
    local = here.penalty.at(here.coords)
    slopes = here.g + local.gradient(here.w)
    basis, model = krylov(here, local, slopes, most_steps)
    if model.size == 0:
        return None
    roots, turn = np.linalg.eigh(model)
    c, best = turn.T @ (basis @ slopes), None
    lowest = seen.value
    for ridge in RIDGES * max(float(roots[-1]), 0.0):
        lifted = np.maximum(roots, 0.0) + ridge
        if not lifted.all():
            continue  # no curvature: no minimum
        promise = float(c @ (c / lifted)) - 0.5 * float(roots @ (c / lifted) ** 2)
        if promise > abs(seen.value):
            continue  # kinks that the model does not know are all that bounds it
        if promise <= max(least, seen.value - lowest):
            break
        there = here.way_to(here.w - basis.T @ (turn @ (c / lifted))).at(1.0)
        value = there.value + seen.penalty.value(there.coords, there.weights)
        if value < lowest:
            best, lowest = there, value
    return None if best is None else screen_point(seen.penalty, best)


def krylov(
    here: ScreenedPoint, local: LocalPenalty, slopes: Vector, most_steps: int
) -> tuple[Vector, Vector]:
    """Return a basis V (k, n) of Krylov's space, orthonormal by the diagonal D of the curvature, and V H V' (k, k)."""
    diagonal = curvature_at_entry(here.point, here.coords) + here.penalty.l2
    diagonal[diagonal == 0] = 1.0
    short = SHORT * np.sqrt(abs(here.value))
    basis, images = np.empty((0, slopes.size)), np.empty((0, slopes.size))
    following = slopes / diagonal
    for _ in range(min(most_steps, slopes.size)):
        size = np.sqrt(float(following @ (diagonal * following)))
        for _ in range(2):  # once leaves rounding
            following = following - basis.T @ (basis @ (diagonal * following))
        left = np.sqrt(float(following @ (diagonal * following)))
        if not left > LOST * size:
            break
        v = following / left
        g = here.way_to(here.w + short * v).at(1.0).gradient(here.coords)
        image, of_penalty = (g - here.g) / short, local.hessian_times(here.w, v)
        image = image if of_penalty is None else image + of_penalty
        basis, images = np.vstack([basis, v]), np.vstack([images, image])
        following = image / diagonal
    model = basis @ images.T
    return basis, 0.5 * (model + model.T)
