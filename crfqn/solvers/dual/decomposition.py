"""Dual decomposition for the multiclass hinge and the squared hinge: Algorithm 1 of Blondel, Fujino and Ueda (2014).

A sub-problem updates the dual variables of one item; all others are fixed. It is a projection onto a simplex. Items are
visited in a random order, and the weights follow every update, so the first pass already gives a good model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.result import Status
from crfqn.solvers.dual.decomposition_state import DualItems, ItemSweep
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_integers,
    check_numbers,
    check_shares,
)

# Problems with up to this number of dual variables, whose passes take less than a millisecond, are solved to the
# precision of rounding before the first certificate, in up to this number of passes.
SMALL_PROBLEM_VARIABLES, SMALL_PROBLEM_PASSES = 3000, 3000
MIN_CG_STEPS, MAX_CG_STEPS = 4, 1000  # steps of conjugate gradients on a face
MAX_FACE_INTERVAL = 16  # epochs between two such faces, if they gain less than passes
SUB_SOLVERS = ("pivot", "sort", "bisection", "smo", "frank-wolfe")


@dataclass(frozen=True)
class DualDecomposition(Solver):
    """Settings of dual decomposition; an iteration is a pass over the active items.

    Parameters
    ----------
    sub_solver : {"pivot", "sort", "bisection", "smo", "frank-wolfe"}
        Solution of the sub-problem of an item. "pivot": projection onto the simplex with random pivots (Duchi et al.
        2008). "sort": the same by sorting (Algorithm 2). "bisection": Algorithm 3, from the interval [max - c, max]
        instead of [0, U]. "smo": one exchange between two states (supplement A). "frank-wolfe": one step to a vertex
        (supplement B). Only the first two support the squared hinge.
    tau : float > 0
        Of bisection: tolerance of the sum of the variables, relative to the mass.
    shrink : bool
        Leave out items at a vertex of their simplex if their margin of optimality is larger than the largest violation
        of the last pass. All items are visited again before a certificate.
    by_gradient : bool
        Update only items whose violation is above the mean of the epoch's last pass. For kernels, where a visit costs
        much less than an update (the paper's section III).
    reshuffle : bool
        Visit the items of every pass in a new order. False keeps the first order, as in the paper.
    cooling : float within (0, 1)
        An epoch ends with a certificate, a sweep over all items without updates, when the sum of the items' duality
        gaps in a pass has fallen to this share of that of the epoch's first pass.
    max_passes : int
        Maximum number of passes of an epoch.
    faces : bool
        Between epochs, minimise over the variables within their bounds by conjugate gradients while this lowers the
        dual objective by more per item than the passes do. For the hinge only.
    random_state : int
        Seed of the order of the items.

    Notes
    -----
    Passes are sequential. A run starts from zero, since weights do not determine the dual variables.

    References
    ----------
    Blondel, Fujino, Ueda: Large-scale multiclass support vector machine training via Euclidean projection onto the
    simplex. ICPR 2014.
    """

    sub_solver: str = "pivot"
    tau: float = 1e-3
    shrink: bool = True
    by_gradient: bool = False
    reshuffle: bool = True
    cooling: float = 0.2
    max_passes: int = 10
    faces: bool = True
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.sub_solver not in SUB_SOLVERS:
            raise InputError(f"sub_solver: expected one of {SUB_SOLVERS}, got {self.sub_solver!r}")
        check_numbers(self, 0.0, "tau")
        check_shares(self, "cooling")
        check_integers(self, 1, "max_passes")
        check_integers(self, 0, "random_state")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(penalty=("is_quadratic", "is_uniform"), states=(DualItems,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state for each pass of Algorithm 1; those that end an epoch have a value and a bound."""
        blocks = objective.state(DualItems, penalty, self.sub_solver, self.tau)
        del start
        random = np.random.default_rng(self.random_state)
        order = random.permutation(blocks.items)
        active = blocks.admit(order, np.zeros(order.size))
        is_small = order.size * blocks.objective.n_states <= SMALL_PROBLEM_VARIABLES and objective.is_convex
        # Problems that are not convex have no certified gap: violations are compared to the first epoch's.
        max_passes = SMALL_PROBLEM_PASSES if is_small else self.max_passes
        # Faces: the maximum number of steps, the epochs between two, and the epochs until the next.
        max_steps, interval, n_left = MIN_CG_STEPS, 1, 1
        while True:
            first_gap, n_visits, decrease, threshold = np.nan, 0, 0.0, 0.0
            for n_passes in range(1, max_passes + 1):
                active = random.permutation(active) if self.reshuffle else active
                n_visited, seen = active.size, blocks.sweep(active, threshold)
                n_visits, decrease = n_visits + n_visited, decrease + seen.decrease
                first_gap = seen.gap if n_passes == 1 else first_gap
                share = 0.0 if is_small else self.cooling
                if (
                    n_passes == max_passes
                    or (seen.n_updates == 0 and threshold == 0.0)
                    or (n_passes > 1 and seen.gap <= share * first_gap)
                ):
                    break
                active = self.left_over(active, seen.slacks, seen.violation)
                is_choosing = self.by_gradient and not is_small and seen.n_updates > 0
                threshold = seen.mean if is_choosing else 0.0
                yield passed(blocks, order, n_visited, seen.violation)
            if self.faces and blocks.has_faces and seen.n_updates > 0:
                n_left -= 1
                if n_left == 0:
                    face = blocks.descend_face(max_steps)
                    # If the face has lowered the dual by more per item than the passes of the epoch, double its steps,
                    # else halve them and double the interval.
                    if face.decrease > decrease / n_visits * face.n_items * (face.n_steps + 1):
                        max_steps, interval = min(2 * max_steps, MAX_CG_STEPS), 1
                    else:
                        max_steps = max(max_steps // 2, MIN_CG_STEPS)
                        interval = min(2 * interval, MAX_FACE_INTERVAL)
                    n_left = interval
            state, everything = certified(blocks, order, n_visited)
            # The run is at rest if the first pass after a certificate, whose weights have no accumulated rounding, has
            # updated nothing. Items that it left out have smaller violations, unless an intercept has moved.
            is_seen = n_visited == order.size or not blocks.is_free
            is_still = seen.n_updates == 0 and n_passes == 1 and is_seen
            yield replace(state, is_step=True, end=Status.STALLED if is_still else None)
            slacks, violation = everything.slacks, everything.violation
            active = blocks.admit(
                self.left_over(order, slacks, violation), self.left_over(slacks, slacks, violation)
            )

    def left_over(self, order: NDArray, slacks: NDArray[np.float64], violation: float) -> NDArray:
        """Return the items that the next pass visits, or the entries of another array for these items."""
        return order[slacks <= violation] if self.shrink else order


def certified(blocks: DualItems, order: NDArray[np.int64], n_visited: int) -> tuple[State, ItemSweep]:
    """Return the state with value and bound, from a sweep over all items without updates, and the sweep's findings."""
    value, dual_value, seen = blocks.certify(order)
    gap = value - dual_value if np.isfinite(dual_value) else 0.0  # the bound holds for unpenalised intercepts
    point, violation = blocks.point(), seen.violation
    return State(point, value, violation, n_visited, dual_value, is_screening=True, least_gap=gap), seen


def passed(blocks: DualItems, order: NDArray[np.int64], n_visited: int, violation: float) -> State:
    """Return the state after a pass, whose value is computed by `State.certify` only."""
    certify = partial(certified, blocks, order, n_visited)
    return State(blocks.point(), np.nan, violation, n_visited, certify=lambda: certify()[0])
