"""The duality gap of a penalised likelihood: a proof of how far the optimum can be.

For any point the mixtures of its distributions with the observed labels are dual points with the gradient s g;
each gives the lower bound D(s) = dual loss(s) - penalty*(-s g) <= F(w*) <= F(w). Where l2 > 0, F(w) - D(1) is at most
||smallest subgradient||^2 / (2 l2), what strong convexity allows; without L1 it is the same number.

Unpenalised coordinates must have a gradient of zero, as at a point from `unpenalised.solve_unpenalised`. What rounding
leaves of it is charged to the bound: with g_u by the unpenalised, F(w*) >= D(s) - s sum_u |g_u| |w*_u|, and
`Point.unpenalised_reach` bounds the w*_u of some optimum, from the value here. Where it cannot, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crfqn.kernels.sparse.sorted_sets import found_in
from crfqn.solvers.protocols import Penalty, Point, Screening


class Bound(NamedTuple):
    """A lower bound on the optimum, and the scale s of the mixtures that prove it."""

    dual_value: float
    scale: float


NOTHING = Bound(-np.inf, np.nan)
MOST_CHARGED = 0.01  # of the objective, for unpenalised coordinates: more leaves no bound worth having


def best_bound(point: Point, penalty: Penalty, screening: Screening) -> Bound:
    """The best lower bound that the point proves; -inf where it proves none (an unpenalised one is not solved).

    `screening`: what `penalty.screen` has found at the point.
    """
    charge = unpenalised_charge(point, penalty)
    if charge > 0.0 and not charge <= MOST_CHARGED * abs(value_at(point, penalty)):
        return NOTHING
    coords, gradient = screening.coords, screening.gradient
    if penalty.unpenalised.size:
        gradient = gradient.copy()
        place, is_there = found_in(coords, penalty.unpenalised)
        gradient[place[is_there]] = 0.0  # the charge is for them
    scales = penalty.dual_scales(coords, gradient)
    bound = best_of(scales, point.dual_value, lambda s: penalty.conjugate(coords, s * gradient))
    return bound._replace(dual_value=bound.dual_value - charge)


def unpenalised_charge(point: Point, penalty: Penalty) -> float:
    """Bound sum_u |g_u| |w*_u| over the unpenalised coordinates of some optimum; infinite where nothing bounds them."""
    if penalty.unpenalised.size == 0:
        return 0.0
    size = float(np.abs(point.gradient(penalty.unpenalised)).sum())
    if size == 0.0:
        return 0.0
    value = value_at(point, penalty)
    return size * point.unpenalised_reach(penalty.unpenalised, value, penalty.norm_bounds(value))


def value_at(point: Point, penalty: Penalty) -> float:
    """The objective at a point, penalty included."""
    return point.value + penalty.value(point.coords, point.weights)


def best_of(
    scales: list[float], dual_value: Callable[[float], float], conjugate: Callable[[float], float]
) -> Bound:
    """The best bound of some scales, from the dual loss and the penalty's conjugate at each."""
    return max((Bound(dual_value(s) - conjugate(s), s) for s in scales), default=NOTHING)


def best_dual_value(point: Point, penalty: Penalty, screening: Screening) -> float:
    """The value of the best bound."""
    return best_bound(point, penalty, screening).dual_value
