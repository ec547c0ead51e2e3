"""The duality gap of a penalised likelihood: a proof of how far the optimum can be.

For any point the mixtures of its distributions with the observed labels are dual points with the gradient s g;
each gives the lower bound D(s) = dual loss(s) - penalty*(-s g) <= F(w*) <= F(w).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crfqn.solvers.protocols import Penalty, Point, Screening


class Bound(NamedTuple):
    """A lower bound on the optimum, and the scale s of the mixtures that prove it."""

    dual_value: float
    scale: float


NOTHING = Bound(-np.inf, np.nan)


def best_bound(point: Point, penalty: Penalty, screening: Screening) -> Bound:
    """The best lower bound that the point proves; -inf where it proves none (an unpenalised coordinate).

    `screening`: what `penalty.screen` has found at the point.
    """
    if np.any(point.gradient(penalty.free)):
        return NOTHING
    coords, gradient = screening.coords, screening.gradient
    scales = penalty.dual_scales(coords, gradient)
    return best_of(scales, point.dual_value, lambda s: penalty.conjugate(coords, s * gradient))


def best_of(
    scales: list[float], dual_value: Callable[[float], float], conjugate: Callable[[float], float]
) -> Bound:
    """The best bound of some scales, from the dual loss and the penalty's conjugate at each."""
    return max((Bound(dual_value(s) - conjugate(s), s) for s in scales), default=NOTHING)


def best_dual_value(point: Point, penalty: Penalty, screening: Screening) -> float:
    """The value of the best bound."""
    return best_bound(point, penalty, screening).dual_value
