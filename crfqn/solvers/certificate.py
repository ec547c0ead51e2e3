"""The duality gap of a penalised likelihood: a proof of how far the optimum can be.

For any point the mixtures of its distributions with the observed labels are dual points with the gradient s g;
each gives the lower bound D(s) = dual loss(s) - penalty*(-s g) <= F(w*) <= F(w). Where l2 > 0, F(w) - D(1) is at most
||smallest subgradient||^2 / (2 l2), what strong convexity allows; without L1 it is the same number.

Unpenalised coordinates must have a gradient of zero, as at a point from `unpenalised.solve_unpenalised`. What rounding
leaves of it is charged to the bound: with g_u by the unpenalised, F(w*) >= D(s) - s sum_u |g_u| |w*_u|, and
`Point.intercept_bound` bounds the w*_u of some optimum, from the value here. Where it cannot, nothing is proved.

Which zeros are zeros of the optimum (after Ndiaye et al. 2017, "gap safe"): with q the mixtures of the certificate, q*
the optimal ones and gap = F(w) - D(q), the entropies, each of them 1-strongly concave in the L1 norm (Pinsker), leave

    1/2 sum_i weight_i ||q_i - q*_i||_1^2 <= D(q*) - D(q) <= gap,

and the expectation of f_j over item i moves by at most 1/2 r_ij ||q_i - q*_i||_1, r_ij = max_y f_j - min_y f_j. By
Cauchy and Schwarz the optimum's gradient is near the certificate's s g; where it is inside the bound, the weight is 0:

    s |g_j| + 1/2 sqrt(sum_i weight_i r_ij^2) sqrt(2 gap) < l1   implies   w*_j = 0.

With an L2 term only the certificate changes: its dual costs sum_j max(|g_j| - l1, 0)^2 / (2 l2), which is convex, so
that the first line holds as it is; and w*_j = -sign(g*_j) max(|g*_j| - l1, 0) / l2 is zero within the same bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.point import ItemBound
from crfqn.solvers.protocols import Objective, Penalty, Point, Screening


class Bound(NamedTuple):
    """A lower bound on the optimum, and the scale s of the mixtures that prove it."""

    dual_value: float
    scale: float


NOTHING = Bound(-np.inf, np.nan)
DIGITS = 1e-12  # of the objective and of l1: a proof must not rest on the last digits
MOST_CHARGED = 0.01  # of the objective, for unpenalised coordinates: more leaves no bound worth having


def best_bound(point: Point, penalty: Penalty, screening: Screening) -> Bound:
    """Return the best lower bound that the point proves; -inf where it proves none (an unpenalised one is not solved).
    `screening`: what `penalty.screen` has found at the point."""
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
    if not value >= 0.0:  # the loss is one whose least value is not known
        return np.inf
    return size * point.intercept_bound(penalty.unpenalised, value, penalty.norm_bounds(value))


def value_at(point: Point, penalty: Penalty) -> float:
    """Return the objective at a point, penalty included."""
    return point.value + penalty.value(point.coords, point.weights)


def best_of(
    scales: list[float], dual_value: Callable[[float], float], conjugate: Callable[[float], float]
) -> Bound:
    """Return the best bound of some scales, from the dual loss and the penalty's conjugate at each."""
    return max((Bound(dual_value(s) - conjugate(s), s) for s in scales), default=NOTHING)


def best_dual_value(point: Point, penalty: Penalty, screening: Screening) -> float:
    """Return the value of the best bound."""
    return best_bound(point, penalty, screening).dual_value


class Proof(NamedTuple):
    """A proof: the weights with scale |g_j| + radius spread_j < bound are zero at the optimum."""

    bound: float
    scale: float
    radius: float


def proof_at(penalty: Penalty, point: Point, value: float) -> Proof | None:
    """Return what a point and the smallest known `value` prove; None where there is no certificate."""
    dual_value, scale = best_bound(point, penalty, penalty.screen(point))
    if not np.isfinite(dual_value):
        return None
    return Proof((1.0 - DIGITS) * penalty.l1, scale, radius_of(value, dual_value))


def radius_of(value: float, dual_value: float) -> float:
    """Return half of the distance that the mixtures can be from the optimal ones."""
    return 0.5 * float(np.sqrt(2.0 * (max(value - dual_value, 0.0) + DIGITS * abs(value))))


def count_proved_zeros(
    objective: Objective, penalty: Penalty, point: Point, value: float, bound: ItemBound | None = None
) -> int | None:
    """Count the point's zeros that are proved to be zero at the optimum; None where the gap is not known.

    Two sweeps over the gradient at most, no inference pass. It proves nothing about groups of weights, nor where
    strengths differ: None.
    value : the smallest value of objective and penalty that is known, at this point or another
    bound : what mixtures with a share for each item prove at this point; their gradient takes the place of s g
    """
    has_one_bound = penalty.is_separable and penalty.has_one_l1
    if not objective.proves_zeros or not has_one_bound:
        return None
    proof = proof_at(penalty, point, value)
    if bound is not None and (proof is None or radius_of(value, bound.dual_value) < proof.radius):
        point = point.at_shares(bound.shares)
        proof = Proof((1.0 - DIGITS) * penalty.l1, 1.0, radius_of(value, bound.dual_value))
    if proof is None:
        return None
    # No zeros of the model, or not held there by the penalty.
    others = union(point.coords, penalty.unpenalised, penalty.ridge.coords)
    return point.count_within(*proof, others)


PRICE = 30.0  # passes that a bound costs, about
FEWEST_PASSES = PRICE
GROWTH = 1.3


class BoundSchedule:
    """When bounds by items are worth their price along a run."""

    def __init__(self) -> None:
        self.due, self.value = FEWEST_PASSES, np.inf

    def is_due(self, n_passes: float, value: float, tol: float) -> bool:
        """Whether to look for a bound after so many passes, asked with the least objective at each scan: while it still
        falls by more than the tolerance from scan to scan no bound can be near."""
        has_settled = self.value - value <= tol * abs(value)
        self.value = value
        return has_settled and n_passes >= self.due

    def looked(self, n_passes: float) -> None:
        """Wait after a look until the passes have grown by a share that makes its price a part of theirs."""
        self.due = max(GROWTH * n_passes, n_passes + PRICE)
