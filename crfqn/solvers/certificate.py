"""The duality gap of a penalised likelihood: a proof of how far the optimum can be.

For any point the mixtures of its distributions with the observed labels are dual points with the gradient s g;
each gives the lower bound D(s) = dual loss(s) - penalty*(-s g) <= F(w*) <= F(w).
"""

from __future__ import annotations

import numpy as np

from crfqn.solvers.protocols import Penalty, Point, Screening


def best_dual_value(point: Point, penalty: Penalty, screening: Screening) -> float:
    """The best lower bound that the point proves; -inf where it proves none (an unpenalised coordinate).

    `screening` must hold every coordinate with |g| above its L1 strength.
    """
    if np.any(point.gradient(penalty.free)):
        return -np.inf
    coords, gradient = screening.coords, screening.gradient
    return max(
        (
            point.dual_value(s) - penalty.conjugate(coords, s * gradient)
            for s in penalty.dual_scales(coords, gradient)
        ),
        default=-np.inf,
    )
