"""Proximal gradients with Barzilai-Borwein steps: SpaRSA of Wright, Nowak and Figueiredo (2009).

    x+ = prox(x - g / alpha, penalty / alpha),   alpha = s'r / s's

where s is the last step and r the change of the gradient along it: alpha I is the multiple of the identity nearest to
the Hessian there. Such steps are long, and the objective need not fall at every one: it stays below the largest of the
last values (equation 22), or below the very last one (monotone).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crfqn.errors import InputError
from crfqn.solvers.first_order.prox_gd import Predicted, ProximalStep, StepSize, first_length, proximal_step
from crfqn.solvers.protocols import Memory, Objective, Penalty, Point, State, check_integers, check_shares
from crfqn.solvers.screened_point import ScreenedPoint, screen_point


@dataclass(frozen=True)
class SpaRSA:
    """Settings of SpaRSA; those of the paper's experiments by default.

    Parameters
    ----------
    monotone : bool
        Ask each step to lower the objective.
    memory : int
        M: otherwise a step has to stay below the largest of the last M + 1 values.
    sigma : float within (0, 1)
        By sigma/2 alpha ||x+ - x||^2 at least.
    factor : float > 1
        By which alpha grows after a refused trial (eta).
    least_curvature, most_curvature : float > 0
        Bounds of alpha, in nats a squared unit of weight.

    Notes
    -----
    A step costs an inference pass and a full gradient scan, a refused trial a pass. Where rounding hides the
    decrease that is asked for, staying level is enough; where it hides the curvature too, alpha stays as it is.

    References
    ----------
    Wright, Nowak, Figueiredo: Sparse reconstruction by separable approximation. IEEE Transactions on Signal Processing
    57(7), 2009: the algorithm "SpaRSA", equations 7 and 22; monotone: M = 0, section II-E.
    """

    monotone: bool = False
    memory: int = 5
    sigma: float = 0.01
    factor: float = 2.0
    least_curvature: float = 1e-30
    most_curvature: float = 1e30

    resumes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integers(self, 0, "memory")
        check_shares(self, "sigma")
        if not 1 < self.factor < np.inf:
            raise InputError(f"factor: expected a finite number > 1, got {self.factor!r}")
        if not 0 < self.least_curvature <= self.most_curvature < np.inf:
            raise InputError(
                "expected 0 < least_curvature <= most_curvature < infinity, "
                f"got {self.least_curvature!r} and {self.most_curvature!r}"
            )

    def steps(
        self, objective: Objective, penalty: Penalty, start: Point, memory: Memory | None = None
    ) -> Iterator[State]:
        """Yield a state a step; each has screened all coordinates."""

        def stepped() -> State:
            return here.state(
                is_step=True, memory=lambda: {"here": here.memory(), "values": values, "alpha": alpha}
            )

        values: deque[float] = deque(maxlen=1 if self.monotone else self.memory + 1)
        if memory is None:
            here = screen_point(penalty, start)
            del start
            yield here.state()
            values.append(here.value)
            alpha = self.within(1.0 / first_length(here))
        else:
            del start
            here, alpha = ScreenedPoint.of_memory(objective, penalty, memory["here"]), memory["alpha"]
            values.extend(memory["values"])
            yield stepped()
        while True:
            size = StepSize(1.0 / alpha, False, 1.0 / self.factor, 1.0)

            def accepts(here: ScreenedPoint, trial: Point, predicted: Predicted) -> bool:
                asked = 0.5 * self.sigma * float(predicted.d @ predicted.d) / predicted.t
                value = trial.value + penalty.value(here.coords, here.w) + predicted.change
                return value <= max(values) - asked + predicted.rounding

            step, has_failed = proximal_step(here, size, here.point, accepts)
            if step is None:
                yield here.state(is_final=True, has_failed=has_failed)
                return
            found = spectral_curvature(here, step)
            alpha = self.within(found) if found > 0 else 1.0 / size.t
            here = screen_point(penalty, step.point)
            values.append(here.value)
            del step
            yield stepped()

    def within(self, alpha: float) -> float:
        """Return alpha, or the nearer of its bounds."""
        return min(max(alpha, self.least_curvature), self.most_curvature)


def spectral_curvature(here: ScreenedPoint, step: ProximalStep) -> float:
    """Return s'r / s's of Barzilai and Borwein (1988)."""
    moved = np.flatnonzero(step.w != here.w)
    s = (step.w - here.w)[moved]
    r = step.point.gradient(here.coords[moved]) - here.g[moved]
    return float(s @ r) / float(s @ s)
