"""Generalised least squares: Agarwal, Kakade, Karampatziakis, Song, Valiant (ICML 2014), Algorithm 1.

    W <- W - (M + l2)^-1 (gradient + l2 W),    M = sum_i L c_i x_i x_i' >= Hessian

is gradient descent in the metric of the features' second moments, which no step size has to be found for: M is
factorised once, and the number of steps does not grow with the condition number of the features (theorem 1). It does
grow with that of the link: where predictions are nearly certain the Hessian is far below M.

Theorem 1's bound is 2 ||W*||^2 / (t + 4) in the norm of M; the Frobenius norm, as printed, would change with the units
of the features, and the iterates do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crfqn.solvers.line_search import ROUNDING
from crfqn.solvers.protocols import Objective, Penalty, Point, Requirements, State
from crfqn.solvers.smooth_point import SmoothPoint, metric


@dataclass(frozen=True)
class GLS:
    """Settings of generalised least squares.

    Parameters
    ----------
    accelerated : bool
        Nesterov's acceleration with distances in the metric (the paper's section 4), restarted where a step goes
        uphill (O'Donoghue and Candes 2015). Without it the objective falls at every step. Either way least squares
        itself is solved by the first.
    """

    accelerated: bool = True

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(("has_gram",), ("is_quadratic",))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """One state a step, at the points where gradients are taken; each knows the gradient at all coordinates."""
        coords = objective.all_coords()
        factor, n_features = metric(objective, penalty, coords)
        here = SmoothPoint(objective, penalty, coords, start)
        origin, w, length = start, here.w, 1.0
        del start
        yield here.state()
        while True:
            step = -factor.solve(here.slopes.reshape(-1, n_features)).ravel()
            if -0.5 * float(here.slopes @ step) <= ROUNDING * abs(here.value):
                yield here.state(is_final=True)
                return
            direction = here.w + step - w
            if float(here.slopes @ direction) > 0:
                length = 1.0
            length, before = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * length**2)), length
            momentum = (before - 1.0) / length if self.accelerated else 0.0
            ray = origin.along(coords, direction)
            origin, w = ray.at(1.0), w + direction
            here = SmoothPoint(objective, penalty, coords, ray.at(1.0 + momentum))
            yield here.state(is_step=True)
