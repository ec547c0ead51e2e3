"""The duality gap of a penalised likelihood, the stopping rule that uses it, and the zeros that it proves.

At any point the mixtures of its distributions with the observed labels are dual points with the gradient s g. Each
gives a lower bound, D(s) = dual loss(s) - penalty*(-s g) <= F(w*) <= F(w). If l2 > 0, then by strong convexity
F(w) - D(1) <= ||smallest subgradient||^2 / (2 l2), with equality without L1.

The gradient g_u of unpenalised coordinates u must be 0, as after `unpenalised.solve_unpenalised`. Its rounding error
lowers the bound: F(w*) >= D(s) - s sum_u |g_u| |w*_u|. `Objective.intercept_bound` bounds the w*_u of some optimum by
the value here; if there is no such bound, nothing is proved. Estimates of the gap are compared with the bound that
holds if no w*_u adds more than 100 nats to nine in ten scores of positions with its feature. It detects runs that
stall far from the optimum if items differ by orders of magnitude.

Zeros of the optimum are proved as in Ndiaye et al. (2017, "gap safe"): let q be the mixtures of the certificate, q* the
optimal ones, and gap = F(w) - D(q). Entropies are 1-strongly concave in the L1 norm (Pinsker), hence

    1/2 sum_i weight_i ||q_i - q*_i||_1^2 <= D(q*) - D(q) <= gap.

The expectation of f_j over item i differs by at most 1/2 r_ij ||q_i - q*_i||_1, r_ij = max_y f_j - min_y f_j. By the
Cauchy-Schwarz inequality

    s |g_j| + 1/2 sqrt(sum_i weight_i r_ij^2) sqrt(2 gap) < l1   implies   w*_j = 0.

An L2 term adds the convex sum_j max(|g_j| - l1, 0)^2 / (2 l2) to the dual problem, so that the first inequality still
holds, and w*_j = -sign(g*_j) max(|g*_j| - l1, 0) / l2 is 0 under the same condition.
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
# Allowance for rounding in proofs, as a fraction of the objective and of l1: a numerical guard.
PROOF_ROUNDING = 1e-12
# Slack for unpenalised coordinates above which there is no bound, as a fraction of the objective.
MAX_SLACK = 0.01
# Assumption for `likely_bound`: an unpenalised weight of the optimum adds no more nats to a score, ...
MAX_ASSUMED_SCORE = 100.0
MAX_ASSUMED_GROWTH = 10.0  # ... or is no more times as large as at the point


def best_bound(point: Point, penalty: Penalty, screening: Screening, sizes: Vector | None = None) -> Bound:
    """Return the largest lower bound that the point proves; -inf if the unpenalised coordinates are not solved.

    screening : the result of `penalty.screen` at the point
    sizes : assumed bounds on the unpenalised weights of an optimum, (n,); None for proved ones
    """
    slack = unpenalised_slack(point, penalty, sizes)
    if slack > 0.0 and not slack <= MAX_SLACK * abs(value_at(point, penalty)):
        return NO_BOUND
    coords, gradient = screening.coords, screening.gradient
    if penalty.unpenalised.size:
        gradient = gradient.copy()
        place, is_there = found_in(coords, penalty.unpenalised)
        gradient[place[is_there]] = 0.0  # the slack accounts for them
    scales = penalty.dual_scales(coords, gradient)
    scaled = ((s, gradient if s == 1.0 else s * gradient) for s in scales)  # 1 without a copy
    bounds = (Bound(point.dual_value(s) - penalty.conjugate(coords, g), s) for s, g in scaled)
    bound = max(bounds, default=NO_BOUND)
    return bound._replace(dual_value=bound.dual_value - slack)


def unpenalised_slack(point: Point, penalty: Penalty, sizes: Vector | None = None) -> float:
    """Bound sum_u |g_u| |w*_u| over the unpenalised coordinates of some optimum; infinite if there is no bound."""
    if penalty.unpenalised.size == 0:
        return 0.0
    residuals = np.abs(point.gradient(penalty.unpenalised))
    if not residuals.any():
        return 0.0
    if sizes is not None:
        return float(residuals[residuals > 0] @ sizes[residuals > 0])
    size = float(residuals.sum())
    value = value_at(point, penalty)
    if not value >= 0.0:  # the infimum of the loss is not known
        return np.inf
    return size * point.objective.intercept_bound(penalty.unpenalised, value, penalty.norm_bounds(value))


def value_at(point: Point, penalty: Penalty) -> float:
    """Return the objective at a point, penalty included."""
    return point.value + penalty.value(point.coords, point.weights)


def count_proved_zeros(
    objective: Objective, penalty: Penalty, point: Point, value: float, bound: ItemBound | None = None
) -> int | None:
    """Count the zeros of the point that are proved to be zero at the optimum, in one or two sweeps over the gradient.

    Return None if the gap is not known, the penalty has groups, or the strengths of weights differ.
    value : the smallest known objective, penalty included, at this point or another
    bound : the bound from mixtures with a share for each item at this point; their gradient replaces s g
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
    # Half the largest distance of the mixtures from the optimal ones.
    radius = 0.5 * float(np.sqrt(2.0 * (max(value - dual_value, 0.0) + PROOF_ROUNDING * abs(value))))
    # Coordinates that are not zero, or without a kink at zero.
    others = union(point.coords, penalty.unpenalised, penalty.ridge.coords)
    return point.count_within((1.0 - PROOF_ROUNDING) * penalty.l1, scale, radius, others)


def relative_gap(value: float, dual_value: float) -> float:
    """Return (value - dual_value) / |value|; nan if one of them is not finite."""
    if not (np.isfinite(value) and np.isfinite(dual_value)):
        return np.nan
    return max(value - dual_value, 0.0) / abs(value) if value != 0 else 0.0


@dataclass
class Best:
    """The best weights of a run so far.

    tol : the tolerance of the run; weights are feasible if `excess` is at most `tol`
    value : their objective, penalty included
    excess : the relative amount by which the loss exceeds its upper bound, if it has one, or None
    """

    weights: SparseWeights
    tol: float
    value: float = np.inf
    excess: float | None = None

    def gap_to(self, dual_value: float) -> float:
        """Return the relative gap to a lower bound; nan if it is not finite, or the weights are not feasible."""
        is_feasible = self.excess is None or self.excess <= self.tol
        return relative_gap(self.value, dual_value) if is_feasible else np.nan

    def point(self, objective: Objective) -> Point:
        """Return the point of the weights, which takes a pass over the data."""
        return objective.at(self.weights.coords, self.weights.weights)

    def update(self, state: State) -> None:
        """Take the weights of a state if they are better: first feasible, then of a lower objective."""
        if state.excess is None:
            is_better = state.value <= self.value
        else:
            excess = np.inf if self.excess is None else self.excess
            is_better = (max(state.excess, self.tol), state.value) <= (max(excess, self.tol), self.value)
        if is_better:
            self.value, self.weights, self.excess = state.value, state.point.sparse_weights, state.excess


ITEM_BOUND_PASSES = 30.0  # cost of a bound by items, in passes
# Factor of the run's passes from one bound by items to the next: 30 % of the passes or less.
ITEM_BOUND_INTERVAL = 1.3
ITEM_BOUND_AT_THE_END = 10.0  # times its cost: a run of as many passes computes a bound by items at its end
# Limits of the factor of the violation from one bound with unpenalised coordinates solved to the next.
MIN_VIOLATION_FACTOR, MAX_VIOLATION_FACTOR = 0.25, 0.9


class Proof:
    """The rule that ends a run whose gap is proved to be within the tolerance, and the best lower bound so far.

    dual_value : the proved bound, in nats; -inf for none
    likely_bound : the larger of `dual_value` and the bound under the assumption on unpenalised weights
    solves_below : the violation below which the unpenalised coordinates are solved for the next bound
    due : the number of passes after which a bound by items is due
    """

    def __init__(self, objective: Objective, penalty: Penalty, best: Best) -> None:
        self.objective, self.penalty, self.best, self.tol = objective, penalty, best, best.tol
        self.dual_value = self.likely_bound = -np.inf
        self.solves_unpenalised = penalty.unpenalised.size > 0 and objective.has_curvature
        self.solves_below = np.inf
        self.due, self.last_value = ITEM_BOUND_PASSES, np.inf

    @property
    def gap(self) -> float:
        """The proved relative gap of the best weights; nan if there is no bound, or they are not feasible."""
        return self.best.gap_to(self.dual_value)

    @property
    def likely_gap(self) -> float:
        """The relative gap to `likely_bound`; nan if there is no bound, or the best weights are not feasible."""
        return self.best.gap_to(self.likely_bound)

    @cached_property
    def assumed_sizes(self) -> Vector:
        """The assumed bounds on the unpenalised weights of an optimum, (n,): weights of these sizes add
        `MAX_ASSUMED_SCORE` or more to nine in ten of the scores that they are part of."""
        with np.errstate(divide="ignore"):
            return MAX_ASSUMED_SCORE / self.objective.small_values(self.penalty.unpenalised)

    def reason_to_stop(self, state: State, progress: Progress) -> Status | None:
        """Return `CONVERGED` (`WITHIN_BOUND` for a loss with an upper bound) if the gap is within the tolerance, or if
        no coordinate of a convex problem violates its KKT condition."""
        if self.gap <= self.tol:
            return Status.CONVERGED if self.best.excess is None else Status.WITHIN_BOUND
        is_solved = state.is_screening and state.violation == 0.0 and self.objective.is_convex
        return Status.CONVERGED if is_solved and not np.isfinite(self.dual_value) else None

    def add(self, dual_value: float) -> None:
        """Take a proved lower bound on the optimum."""
        self.dual_value = max(self.dual_value, dual_value)
        self.likely_bound = max(self.likely_bound, self.dual_value)

    def after_state(self, state: State, n_passes: float, is_needed: bool) -> State:
        """Take the bound of a state, and after a scan of all coordinates compute tighter ones. Return the state, with
        its unpenalised coordinates solved if that ends the run.

        n_passes : the passes of the run so far
        is_needed : whether only a proof ends the run, so that bounds by items are computed
        """
        self.add(state.dual_value)
        if state.is_screening and not self.gap <= self.tol:
            if self.solves_unpenalised:
                state = self._solve_unpenalised(state)
            if is_needed and self.objective.is_convex:
                self._bound_by_items(state.point, n_passes)
        return state

    def _solve_unpenalised(self, state: State) -> State:
        """Bound the optimum from the point with its unpenalised coordinates solved, if the violation is small enough.

        The best weights of the run change only if the solved ones are within the tolerance and the solver's are not.
        The gap is between proportional to the violation and to its square; the next bound is computed at the violation
        at which the gap could be within the tolerance.
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
            sizes = np.maximum(self.assumed_sizes, MAX_ASSUMED_GROWTH * here)
            assumed = best_bound(point, self.penalty, screening, sizes).dual_value
            self.likely_bound = max(self.likely_bound, assumed)
        gap = relative_gap(value, self.likely_bound)
        factor = np.sqrt(self.tol / gap) if gap > 0 else 1.0
        self.solves_below = state.violation * min(max(factor, MIN_VIOLATION_FACTOR), MAX_VIOLATION_FACTOR)
        if not gap <= self.tol < self.likely_gap:
            return state
        self.best.value, self.best.weights = value, point.sparse_weights
        return replace(state, point=point, value=value)

    def _bound_by_items(self, point: Point, n_passes: float) -> None:
        """Compute a bound by items if one is due and the objective has decreased by no more than the tolerance since
        the last scan. The intervals grow with the passes of the run, so that the bounds take a fixed share of them."""
        has_settled = self.last_value - self.best.value <= self.tol * abs(self.best.value)
        self.last_value = self.best.value
        if has_settled and n_passes >= self.due and (bound := item_bound(point, self.penalty)) is not None:
            self.add(bound.dual_value)
            self.due = max(ITEM_BOUND_INTERVAL * n_passes, n_passes + ITEM_BOUND_PASSES)

    def count_zeros(self, point: Point, gap: float, n_passes: float) -> int | None:
        """Return the number of proved zeros at the point of the best weights; a run of many passes (see
        `ITEM_BOUND_AT_THE_END`) computes a bound by items first."""
        if self.penalty.unpenalised.size and self.objective.has_marginals:
            point = solve_unpenalised(point, self.penalty.unpenalised)
        pays = gap > 0 and n_passes >= ITEM_BOUND_AT_THE_END * ITEM_BOUND_PASSES
        bound = item_bound(point, self.penalty) if pays else None
        if bound is not None:
            self.add(bound.dual_value)
        return count_proved_zeros(self.objective, self.penalty, point, self.best.value, bound)
