"""The quadratic model of a step (paper, equation 2), and its solution by coordinate descent (Algorithm 2, lines 21-30).

min_d  g'd + 1/2 d'(B + D) d + penalty(w + d),   D the damping, a diagonal; none in the paper
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from crfqn.kernels.coordinate_descent import Limits, Subproblem
from crfqn.kernels.coordinate_descent import QuadraticModel as Model
from crfqn.solvers.protocols import Vector
from crfqn.solvers.prox_qn.active_set import ActiveSet
from crfqn.solvers.prox_qn.metric import CompactBFGS
from crfqn.solvers.settings import check_numbers

OVERHEAD = 1e6  # operations, half a millisecond: what a step takes beside its pass, however small the problem


@dataclass(frozen=True)
class PaperSweeps:
    """The paper's inner_iter = min(max_inner, floor(d / |A|)) sweeps (line 22).

    It leaves one sweep where all coordinates are active: on a small problem 300 steps did not do what 50 do.
    """

    max_inner: int = 10

    def __post_init__(self) -> None:
        check_numbers(self, 1, "max_inner")

    def limits(self, of_pass: float, n_coords: int, n_active: int) -> Limits:
        return Limits(min(self.max_inner, max(1, n_coords // n_active)), 0.0, np.inf)


@dataclass(frozen=True)
class PricedSweeps:
    """Sweeps until one moves little, or wins less for its price than the step so far.

    A metric as good as the token-wise one deserves to be solved where a pass is dear: on OCR (l1 = 100) 10 sweeps took
    116 passes to a gap of 1e-3 where 30 took 39; on LSHTC1 30 took 127 to 1e-4 where 60 took 102. Where a pass takes
    hardly longer than a sweep, as in text, steps of fewer sweeps are the cheaper way: the first 2,000 sentences of
    CoNLL-2000 (l1 = .1, l2 = .2) took 27 s with 60, and take 7 s with those that pay.

    Parameters
    ----------
    most : int
    tolerance : float
        Stop when a sweep's largest move is below this share of the first one's.
    is_priced : bool
        Whether sweeps are weighed against the pass after them; if not, equal problems in other forms, whose passes take
        other numbers of operations, take the same steps.
    """

    most: int = 60
    tolerance: float = 0.01
    is_priced: bool = True

    def __post_init__(self) -> None:
        check_numbers(self, 1, "most")
        check_numbers(self, 0, "tolerance")

    def limits(self, of_pass: float, n_coords: int, n_active: int) -> Limits:
        return Limits(self.most, self.tolerance, of_pass + OVERHEAD if self.is_priced else np.inf)


# When the descent ends: `limits`, given the operations of a pass.
Sweeps: TypeAlias = PaperSweeps | PricedSweeps


class QuadraticModel:
    """The model at an active set.

    Attributes
    ----------
    d : float64 (n,), the direction, zero until it is solved for
    base_d : float32 (n,), B0 d where B0 is a matrix
    """

    def __init__(self, active: ActiveSet, metric: CompactBFGS, limits: Limits, pool: Any) -> None:
        self.active, self.metric, self.limits, self.pool = active, metric, limits, pool
        self.restart()

    def restart(self) -> None:
        """Begin at d = 0, d^ = 0 (line 21)."""
        self.d, self.base_d = np.zeros(self.active.w.size), np.zeros(self.active.w.size, np.float32)
        self.is_fresh = True

    def solve(self, damping: Vector) -> float:
        """Descend from the present d on (lines 23-30); returns the slope Delta of Armijo's rule along d."""
        active, metric = self.active, self.metric
        model = Model(*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)
        problem = Subproblem(model, damping, active.g, active.w, self.limits)
        active.local.descend(problem, self.d, self.base_d, self.pool)
        slope = active.slope(self.d)
        if not self.is_fresh and not slope < 0:
            # The way back from a far trial takes more sweeps than there are: only from 0 does every sweep descend.
            self.restart()
            return self.solve(damping)
        self.is_fresh = False
        return slope

    def metric_times_d(self) -> Vector:
        """Return B d, (n,)."""
        return self.metric.times(self.d, self.base_d)
