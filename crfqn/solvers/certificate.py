"""The duality gap of a penalised likelihood: a proof of how far the optimum can be.

For any point the mixtures of its distributions with the observed labels are dual points with the gradient s g;
each gives the lower bound D(s) = dual loss(s) - penalty*(-s g) <= F(w*) <= F(w). Where l2 > 0, F(w) - D(1) is at most
||smallest subgradient||^2 / (2 l2), what strong convexity allows; without L1 it is the same number.

Unpenalised coordinates must have a gradient of zero, as at a point from `unpenalised.solve_unpenalised`. What rounding
leaves of it lowers the bound: with g_u by the unpenalised, F(w*) >= D(s) - s sum_u |g_u| |w*_u|, and
`Objective.intercept_bound` bounds the w*_u of some optimum, from the value here. Where it cannot, nothing is proved.
An estimate of the distance still has to agree with a bound under an assumption: that no w*_u adds more than 100 nats to
the scores of most positions with its feature. Where items differ by orders of magnitude, the gradient g_u then tells
that the optimum may be far, although steps win nothing.

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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crfqn.kernels.sparse import entries_at, found_in, union
from crfqn.objectives.item_bound import ItemBound, ItemMixtures, item_bound
from crfqn.result import Progress, Status
from crfqn.solvers.protocols import Objective, Penalty, Point, Screening, SparseWeights, State, Vector
from crfqn.solvers.unpenalised import solve_unpenalised


class Bound(NamedTuple):
    """A lower bound on the optimum, and the scale s of the mixtures that prove it."""

    dual_value: float
    scale: float


NO_BOUND = Bound(-np.inf, np.nan)
DIGITS = 1e-12  # of the objective and of l1: a proof must not rest on the last digits
MOST_SLACK = 0.01  # of the objective, for unpenalised coordinates: more leaves no bound worth having
LARGEST_SHARE = 100.0  # of a score, in nats, that an unpenalised weight is assumed to have at the optimum
FURTHEST = 10.0  # times the weight here that it is assumed to be able to have there


def best_bound(point: Point, penalty: Penalty, screening: Screening, sizes: Vector | None = None) -> Bound:
    """Return the best lower bound that the point proves; -inf where it proves none (an unpenalised one is not solved).
    `screening`: what `penalty.screen` has found at the point; `sizes`: bounds on the unpenalised weights of an optimum
    that are assumed, (n,), where None proves them."""
    slack = unpenalised_slack(point, penalty, sizes)
    if slack > 0.0 and not slack <= MOST_SLACK * abs(value_at(point, penalty)):
        return NO_BOUND
    coords, gradient = screening.coords, screening.gradient
    if penalty.unpenalised.size:
        gradient = gradient.copy()
        place, is_there = found_in(coords, penalty.unpenalised)
        gradient[place[is_there]] = 0.0  # they are in the slack
    scales = penalty.dual_scales(coords, gradient)
    bounds = (Bound(point.dual_value(s) - penalty.conjugate(coords, s * gradient), s) for s in scales)
    bound = max(bounds, default=NO_BOUND)
    return bound._replace(dual_value=bound.dual_value - slack)


def unpenalised_slack(point: Point, penalty: Penalty, sizes: Vector | None = None) -> float:
    """Bound sum_u |g_u| |w*_u| over the unpenalised coordinates of some optimum; infinite where nothing bounds them."""
    if penalty.unpenalised.size == 0:
        return 0.0
    residuals = np.abs(point.gradient(penalty.unpenalised))
    if not residuals.any():
        return 0.0
    if sizes is not None:
        return float(residuals[residuals > 0] @ sizes[residuals > 0])
    size = float(residuals.sum())
    value = value_at(point, penalty)
    if not value >= 0.0:  # the loss is one whose least value is not known
        return np.inf
    return size * point.objective.intercept_bound(penalty.unpenalised, value, penalty.norm_bounds(value))


def value_at(point: Point, penalty: Penalty) -> float:
    """Return the objective at a point, penalty included."""
    return point.value + penalty.value(point.coords, point.weights)


def count_proved_zeros(
    objective: Objective, penalty: Penalty, point: Point, value: float, bound: ItemBound | None = None
) -> int | None:
    """Count the point's zeros that are proved to be zero at the optimum; None where the gap is not known.

    Two sweeps over the gradient at most, no inference pass. It proves nothing about groups of weights, nor where
    strengths differ: None.
    value : the smallest value of objective and penalty that is known, at this point or another
    bound : what mixtures with a share for each item prove at this point; their gradient takes the place of s g
    """
    if not (objective.has_marginals and penalty.is_separable and penalty.has_one_l1 and penalty.l1 > 0):
        return None
    dual_value, scale = best_bound(point, penalty, penalty.screen(point))
    if bound is not None and not dual_value >= bound.dual_value:
        assert point.whole is not None
        mixtures, dual_value, scale = ItemMixtures(point.whole), bound.dual_value, 1.0
        point = objective.at(point.coords, point.weights)
        point.whole = mixtures.at_shares(bound.shares)
    if not np.isfinite(dual_value):
        return None
    # Half of the distance that the mixtures can be from the optimal ones.
    radius = 0.5 * float(np.sqrt(2.0 * (max(value - dual_value, 0.0) + DIGITS * abs(value))))
    # No zeros of the model, or not held there by the penalty.
    others = union(point.coords, penalty.unpenalised, penalty.ridge.coords)
    return point.count_within((1.0 - DIGITS) * penalty.l1, scale, radius, others)


def relative_gap(value: float, dual_value: float) -> float:
    """Return the distance to a lower bound as a share of the value; nan while one of them is not known."""
    if not (np.isfinite(value) and np.isfinite(dual_value)):
        return np.nan
    return max(value - dual_value, 0.0) / abs(value) if value != 0 else 0.0


@dataclass
class Best:
    """The best weights of a run so far, their objective, and by which share the loss exceeds its bound, if it has one;
    within the tolerance `tol` of that bound weights are feasible."""

    weights: SparseWeights
    tol: float
    value: float = np.inf
    excess: float | None = None

    @property
    def is_feasible(self) -> bool:
        """Whether the weights keep the loss within its bound, but for the tolerance."""
        return self.excess is None or self.excess <= self.tol

    def point(self, objective: Objective) -> Point:
        """Return the point of the weights: a pass over the data."""
        return objective.at(self.weights.coords, self.weights.weights)

    def update(self, state: State) -> None:
        """Take the weights of a state if they are better; where the loss has a bound, it has to be kept first."""
        if state.excess is None:
            is_better = state.value <= self.value
        else:
            excess = np.inf if self.excess is None else self.excess
            is_better = (max(state.excess, self.tol), state.value) <= (max(excess, self.tol), self.value)
        if is_better:
            self.value, self.weights, self.excess = state.value, state.point.sparse_weights, state.excess


ITEM_BOUND_PASSES = 30.0  # that a bound by items costs, about
ITEM_BOUND_INTERVAL = 1.3  # factor of the passes until the next bound by items
ITEM_BOUND_AT_THE_END = 10.0  # times its cost: after so many passes a run ends with a bound by items
# Of the violation at the last bound with unpenalised coordinates solved: the limits of the next one's.
MIN_FALL, MAX_FALL = 0.25, 0.9


class Proof:
    """The rule that ends a run whose optimum is proved to be within the tolerance, and the best lower bound so far.

    dual_value : the bound, -inf for none
    assumed_bound : the bound that holds if unpenalised weights have the sizes that are assumed, -inf for none
    solves_below : the violation below which the unpenalised coordinates are solved for the next bound
    due : the number of passes after which a bound by items is due
    """

    def __init__(self, objective: Objective, penalty: Penalty, best: Best) -> None:
        self.objective, self.penalty, self.best, self.tol = objective, penalty, best, best.tol
        self.dual_value = self.assumed_bound = -np.inf
        self.solves_unpenalised = penalty.unpenalised.size > 0 and objective.has_curvature
        self.solves_below = np.inf
        self.due, self.last_value = ITEM_BOUND_PASSES, np.inf

    @property
    def is_known(self) -> bool:
        """Whether a bound is proved."""
        return bool(np.isfinite(self.dual_value))

    @property
    def gap(self) -> float:
        """The certified relative gap of the best weights; nan if nothing is proved, or the loss exceeds its bound."""
        return relative_gap(self.best.value, self.dual_value) if self.best.is_feasible else np.nan

    @property
    def likely_bound(self) -> float:
        """The better of the bound that is proved and the one that is assumed."""
        return max(self.dual_value, self.assumed_bound)

    @property
    def likely_gap(self) -> float:
        """The relative gap to that bound; nan if there is neither, or the loss exceeds its bound."""
        return relative_gap(self.best.value, self.likely_bound) if self.best.is_feasible else np.nan

    @cached_property
    def assumed_sizes(self) -> Vector:
        """The assumed largest sizes of the unpenalised weights at an optimum, (n,), or `FURTHEST` times as large as at
        the point: a weight of this size adds `LARGEST_SHARE` or more to nine in ten scores that it is part of."""
        with np.errstate(divide="ignore"):
            return LARGEST_SHARE / self.objective.small_values(self.penalty.unpenalised)

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return why the best weights are proved to be good enough, or None: the gap is within the tolerance, or no
        coordinate of a convex problem violates its condition at all."""
        if self.gap <= self.tol:
            return Status.CONVERGED if self.best.excess is None else Status.WITHIN_BOUND
        is_solved = state.is_screening and state.violation == 0.0 and self.objective.is_convex
        return Status.CONVERGED if is_solved and not self.is_known else None

    def add(self, dual_value: float) -> None:
        """Take a lower bound on the optimum."""
        self.dual_value = max(self.dual_value, dual_value)

    def after_state(self, state: State, n_passes: float, is_needed: bool) -> State:
        """Take the bound of a state; after a scan of all coordinates look for a better one. Return the state with its
        unpenalised coordinates solved if that ends the run.

        is_needed : whether only a proof ends the run, so that a bound by items pays
        """
        self.add(state.dual_value)
        if state.is_screening and not self.gap <= self.tol:
            if self.solves_unpenalised:
                state = self._solve_unpenalised(state)
            if is_needed and self.objective.is_convex:
                self._bound_by_items(state.point, n_passes)
        return state

    def _solve_unpenalised(self, state: State) -> State:
        """Bound the optimum from the point with its unpenalised coordinates solved, once the violation has fallen.

        The solver's own weights stay the run's unless the solved ones are within the tolerance and they are not. A gap
        falls as the violation does, or as its square: the next bound is due when it could be small enough.
        """
        is_far = state.violation > self.solves_below or state.least_gap > self.tol * abs(state.value)
        if is_far and not state.is_final:
            return state
        point = solve_unpenalised(state.point, self.penalty.unpenalised)
        value = value_at(point, self.penalty)
        screening = self.penalty.screen(point)
        bound = best_bound(point, self.penalty, screening).dual_value
        self.add(bound)
        if not np.isfinite(bound):
            here = np.abs(entries_at(self.penalty.unpenalised, point.coords, point.weights))
            sizes = np.maximum(self.assumed_sizes, FURTHEST * here)
            assumed = best_bound(point, self.penalty, screening, sizes).dual_value
            self.assumed_bound = max(self.assumed_bound, assumed)
        gap = relative_gap(value, self.likely_bound)
        fall = np.sqrt(self.tol / gap) if gap > 0 else 1.0
        self.solves_below = state.violation * min(max(fall, MIN_FALL), MAX_FALL)
        if not gap <= self.tol < self.likely_gap:
            return state
        self.best.value, self.best.weights = value, point.sparse_weights
        return replace(state, point=point, value=value)

    def _bound_by_items(self, point: Point, n_passes: float) -> None:
        """Look for a tighter bound if the run may be near its end: no bound can be near while the objective falls by
        more than the tolerance from scan to scan. The passes until the next one grow, so that it costs a fixed share of
        them."""
        has_settled = self.last_value - self.best.value <= self.tol * abs(self.best.value)
        self.last_value = self.best.value
        if has_settled and n_passes >= self.due and (bound := item_bound(point, self.penalty)) is not None:
            self.add(bound.dual_value)
            self.due = max(ITEM_BOUND_INTERVAL * n_passes, n_passes + ITEM_BOUND_PASSES)

    def count_zeros(self, point: Point, gap: float, n_passes: float) -> int | None:
        """Return the number of zeros that are proved, counted at the point of the best weights; a run of enough passes
        adds a bound by items."""
        if self.penalty.unpenalised.size and self.objective.has_marginals:
            point = solve_unpenalised(point, self.penalty.unpenalised)
        pays = gap > 0 and n_passes >= ITEM_BOUND_AT_THE_END * ITEM_BOUND_PASSES
        bound = item_bound(point, self.penalty) if pays else None
        if bound is not None:
            self.add(bound.dual_value)
        return count_proved_zeros(self.objective, self.penalty, point, self.best.value, bound)
