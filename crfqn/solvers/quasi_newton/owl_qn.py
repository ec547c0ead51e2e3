"""OWL-QN: the orthant-wise limited-memory quasi-Newton method of Andrew and Gao (2007).

Within an orthant the L1 norm is linear. A step chooses the orthant of the weights and of the steepest descent, takes
the direction of L-BFGS with the pseudo-gradient in place of the gradient, and searches along it within the orthant:
weights that would leave it are set to zero.

    pseudo-gradient   the gradient of the objective within the orthant, 0 for zero weights within the L1 threshold
    direction         - H (pseudo-gradient), entries that do not descend set to 0; H from gradients of the smooth part
    orthant           sign(w), or the sign of - pseudo-gradient if w = 0

The published method stores dense vectors. Here a vector has the coordinates that are not zero, those that may leave
zero, and those that a secant pair has moved; all others have no entry in a pair and stay zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crfqn.result import Status
from crfqn.solvers.line_search import Found, HiddenDecrease, backtracking, is_hidden, unit_length
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    Vector,
    check_numbers,
    check_shares,
)
from crfqn.solvers.quasi_newton.secant_pairs import SecantPairs
from crfqn.solvers.screened_point import ScreenedPoint, screen_point


@dataclass(frozen=True)
class OWLQN(Solver):
    """Settings of OWL-QN.

    Parameters
    ----------
    memory : int >= 1
        The number m of secant pairs (paper: 10).
    armijo : float within (0, 1)
        gamma of the sufficient decrease.
    backtrack : float within (0, 1)
        beta, the factor of the step length after a refused trial.
    """

    needs: ClassVar[Requirements] = Requirements(penalty=("is_separable",))

    memory: int = 10
    armijo: float = 1e-4
    backtrack: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(self, 1, "memory")
        check_shares(self, "armijo", "backtrack")

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state after each step, all with a full gradient scan."""
        here = screen_point(penalty, start)
        del start
        yield here.state()
        pairs = SecantPairs(self.memory, here.coords)
        while True:
            pairs.move_to(here.coords)
            found = self.search(objective, here, pairs)
            if found is Status.LINE_SEARCH_FAILED and len(pairs):
                pairs = SecantPairs(self.memory, here.coords)  # try steepest descent before giving up
                continue
            if isinstance(found, Status):
                yield here.state(end=found)
                return
            after = screen_point(penalty, found.outcome, also=here.coords)
            # The pair of the smooth part: the loss and l2/2 ||w||^2. It leaves out coordinates that have just entered,
            # because computing their earlier gradient would take another sweep.
            place = np.searchsorted(after.coords, here.coords)
            s = after.w[place] - here.w
            pairs.update(s, after.g[place] - here.g + penalty.l2_of(here.coords) * s)
            pairs.move_to(after.coords)
            here = after.restricted_to((after.w != 0) | (pseudo_gradient(after) != 0) | pairs.has_moved)
            del found, after
            yield here.state(is_step=True)

    def search(self, objective: Objective, here: ScreenedPoint, pairs: SecantPairs) -> Found[Point] | Status:
        """Backtrack along the direction, within the orthant, until the objective has decreased enough."""
        penalty, coords, w = here.penalty, here.coords, here.w
        slopes = pseudo_gradient(here)
        direction = -pairs.times(slopes)
        # Entries that do not descend become 0, except those of coordinates without L1.
        direction[(direction * slopes >= 0) & (penalty.l1_of(coords) > 0)] = 0.0
        orthant, is_bound = np.where(w != 0, np.sign(w), -np.sign(slopes)), penalty.l1_of(coords) > 0
        value, penalty_value = here.value, penalty.value(coords, w)

        def attempt(step: float) -> Point | None:
            w_new = w + step * direction
            w_new[is_bound & (np.sign(w_new) != orthant)] = 0.0  # it has left the orthant
            slope = float(slopes @ (w_new - w))
            if is_hidden(-slope, value):
                raise HiddenDecrease
            # Update the scores of this point if fewer weights have moved than are not zero.
            used = np.flatnonzero(w_new)
            if np.count_nonzero(w_new != w) < used.size:
                trial = here.way_to(w_new).at(1.0)
            else:
                trial = objective.at(coords[used], w_new[used])
            decrease = here.point.value - trial.value + penalty_value - penalty.value(coords, w_new)
            return trial if decrease >= -self.armijo * slope else None

        return backtracking(attempt, 1.0 if len(pairs) else unit_length(slopes), self.backtrack)


def pseudo_gradient(view: ScreenedPoint) -> Vector:
    """Return the pseudo-gradient (equation 4), (n,)."""
    l1 = view.penalty.l1_of(view.coords)
    smooth = view.g + view.penalty.l2_of(view.coords) * view.w
    at_zero = np.sign(smooth) * np.maximum(np.abs(smooth) - l1, 0.0)
    return np.where(view.w != 0, smooth + np.sign(view.w) * l1, at_zero)
