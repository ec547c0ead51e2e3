"""L-BFGS for smooth objectives: pure L2, or no penalty at all (Liu and Nocedal 1989).

Without an L1 term no weight is zero, and vectors have all coordinates: about 2 m + 8 numbers for each.

The recursion is that of `SecantPairs`. scipy's own driver returns when it is
done: between two iterations it could only be held in a thread of its own, out of reach of limits and interrupts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crfqn.arrays import Screening
from crfqn.errors import InputError
from crfqn.solvers.certificate import best_dual_value
from crfqn.solvers.gram_factor import Factor, metric
from crfqn.solvers.line_search import BLURRED, ROUNDING, strong_wolfe, unit_length
from crfqn.solvers.protocols import Coords, Objective, Penalty, Point, Requirements, State, Vector
from crfqn.solvers.prox_qn.warm_start import can_learn_online, learn_online
from crfqn.solvers.quasi_newton.secant_pairs import SecantPairs
from crfqn.solvers.settings import check_numbers

FLOOR = 1e-3  # of the curvature, in units of max x^2


@dataclass(frozen=True)
class LBFGS:
    """Settings of L-BFGS.

    Parameters
    ----------
    memory : int
        Secant pairs m.
    armijo, wolfe : float
        c1 and c2 of the strong Wolfe conditions.
    scaling : float from 0 to 1
        The method works in the variables v = c^(scaling / 2) w, c the diagonal of the Hessian where it starts: 0 is the
        plain method, 1 undoes the diagonal. On CoNLL-2000 (l2 = 2) 94 iterations to 13,139.4 with 0, 60 with 1, which
        makes too much of features that come together, and 50 with 0.7.
    in_gram_metric : bool
        Work in the variables v = R' w instead, R R' the Gram matrix that bounds the Hessian (as does `GLS`, which see):
        ill-conditioned features, up to some thousands, then cost no more steps than others.
    warm_up : bool
        Begin with a few epochs item by item where the data are text, as Prox-QN does.
    """

    memory: int = 10
    armijo: float = 1e-4
    wolfe: float = 0.9
    scaling: float = 0.7
    in_gram_metric: bool = False
    warm_up: bool = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "memory")
        if not 0 < self.armijo < self.wolfe < 1:
            raise InputError(
                f"armijo, wolfe: expected 0 < armijo < wolfe < 1, got {self.armijo!r} and {self.wolfe!r}"
            )
        if not 0 <= self.scaling <= 1:
            raise InputError(f"scaling: expected a number from 0 to 1, got {self.scaling!r}")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return what is asked of the problem: a diagonal to scale the weights by."""
        facts = ("has_curvature", "has_gram") if self.in_gram_metric else ("has_curvature",)
        return Requirements(facts, ("is_quadratic",))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state a step; each knows the gradient at all coordinates."""
        if self.warm_up and start.coords.size == 0 and can_learn_online(objective, penalty):
            start = yield from learn_online(objective, penalty, start)
        coords = objective.all_coords()
        here = Evaluated(objective, penalty, coords, start)
        del start
        v: Any = (
            GramVariables(*metric(objective, penalty, coords))
            if self.in_gram_metric
            else DiagonalVariables(here.curvature() ** (-0.5 * self.scaling))
        )
        pairs = SecantPairs(self.memory, here.coords)
        yield here.state()
        while True:
            direction = -v.direction(pairs.times(v.gradient(here.slopes)))
            if not (len(pairs) or self.in_gram_metric):
                direction *= unit_length(direction)
            decrease, unseen = -float(here.slopes @ direction), ROUNDING * abs(here.value)
            there = self.search(here, direction) if decrease > unseen else None
            if there is None and len(pairs) and decrease > BLURRED * unseen:
                pairs = SecantPairs(self.memory, here.coords)  # steepest descent has the last word
                continue
            if there is None:
                yield here.state(is_final=True, has_failed=decrease > BLURRED * unseen)
                return
            pairs.update(v.change(there.w - here.w), v.gradient(there.slopes - here.slopes))
            here = there
            del there
            yield here.state(is_step=True)

    def search(self, here: Evaluated, direction: Vector) -> Evaluated | None:
        """Return the first trial along the direction that the strong Wolfe conditions accept."""
        trials: dict[float, Evaluated] = {}

        def at(step: float) -> tuple[float, float]:
            if step not in trials:
                trials.clear()  # as large as the data each
                trials[step] = here.moved(step * direction)
            return trials[step].value, float(trials[step].slopes @ direction)

        step = strong_wolfe(at, (here.value, float(here.slopes @ direction)), self.armijo, self.wolfe)
        if step is None:
            return None
        at(step)
        return trials[step]


class DiagonalVariables(NamedTuple):
    """Variables v = w / unit."""

    unit: Vector

    def gradient(self, g: Vector) -> Vector:
        """Return the gradient by v."""
        return self.unit * g

    def direction(self, d: Vector) -> Vector:
        """Return the direction in w of one in v."""
        return self.unit * d

    def change(self, w: Vector) -> Vector:
        """Return the change of v of one of w."""
        return w / self.unit


class GramVariables(NamedTuple):
    """Variables v = R' w, state by state."""

    factor: Factor
    n_features: int

    def gradient(self, g: Vector) -> Vector:
        """Return the gradient by v."""
        return self.factor.half_solve(g.reshape(-1, self.n_features)).ravel()

    def direction(self, d: Vector) -> Vector:
        """Return the direction in w of one in v."""
        return self.factor.half_solve(d.reshape(-1, self.n_features), transposed=True).ravel()

    def change(self, w: Vector) -> Vector:
        """Return the change of v of one of w."""
        return self.factor.half_times(w.reshape(-1, self.n_features)).ravel()


class Evaluated:
    """A point with the objective and its slopes at all coordinates (n,), the quadratic penalty included."""

    def __init__(
        self,
        objective: Objective,
        penalty: Penalty,
        coords: Coords,
        point: Point,
        l2: Vector | float | None = None,
    ) -> None:
        self.objective, self.penalty, self.coords, self.point = objective, penalty, coords, point
        self.w = point.weights
        if point.coords is not coords:
            self.w = np.zeros(coords.size)
            self.w[np.searchsorted(coords, point.coords)] = point.weights
        self.gradient = point.gradient(coords)
        if l2 is None:  # a number where it is the same for all
            is_number = penalty.is_uniform and not penalty.unpenalised.size
            l2 = penalty.l2 if is_number else penalty.l2_of(coords)
        self.l2 = l2
        self.slopes = self.l2 * self.w
        self.slopes += self.gradient
        self.value = point.value + 0.5 * float(self.w @ (self.l2 * self.w))

    def curvature(self) -> Vector:
        """Return the diagonal of the Hessian, (n,): above 0 where all is decided, 1 for weights of no effect."""
        diagonal = self.point.curvature(self.coords).diagonal
        found = diagonal + self.l2 + FLOOR * self.point.feature_scale(self.coords)
        return np.where(found > 0, found, 1.0)

    def moved(self, step: Vector) -> Evaluated:
        """Return the point w + step, evaluated at all coordinates: those of features that no item has stay zero."""
        point = self.objective.at(self.coords, self.w + step)
        return Evaluated(self.objective, self.penalty, self.coords, point, self.l2)

    def state(self, **kinds: Any) -> State:
        """Return the state for the loop around the solver."""
        return State(
            self.point,
            self.value,
            float(max(self.slopes.max(initial=0.0), -self.slopes.min(initial=0.0))),
            self.coords.size,
            self.dual_value(),
            is_screening=True,
            least_gap=self.least_gap,
            **kinds,
        )

    def dual_value(self) -> float:
        """Return the lower bound on the optimum that the point proves.

        Where the loss has a dual and no weight is unpenalised it is known without one: the loss and its conjugate
        at the residual add up to <scores, residual> = w'g, which leaves ||g + l2 w||^2 / (2 l2) between the bounds.
        """
        if (
            self.penalty.unpenalised.size
            or self.penalty.l2 == 0
            or not np.isfinite(self.point.dual_value(1.0))
        ):
            return best_dual_value(self.point, self.penalty, Screening(self.coords, self.gradient))
        return self.value - self.least_gap

    @cached_property
    def least_gap(self) -> float:
        """What the bound from this point's own mixtures leaves open, slopes^2 / (2 l2) over penalised weights."""
        if self.penalty.l2 == 0:
            return 0.0
        slopes, l2 = self.slopes, self.l2
        if isinstance(l2, np.ndarray):
            slopes, l2 = slopes[l2 > 0], l2[l2 > 0]
        return 0.5 * float(slopes @ (slopes / l2))
