"""Dual decomposition for the multiclass hinge and the squared hinge: Algorithm 1 of Blondel, Fujino and Ueda (2014).

Every sub-problem, the dual variables of one item while all others are held, is a projection onto a simplex. Items are
shuffled and visited in turn. The weights follow every update, so one pass over the data is a good model already.
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

FEW = 3000  # variables: a pass takes less than a millisecond, so there is no certificate before rounding ends it
PASSES_OF_FEW = 3000
FEWEST_STEPS, MOST_STEPS = 4, 1000  # of conjugate gradients at a time
LONGEST_WAIT = 16  # epochs
SUB_SOLVERS = ("pivot", "sort", "bisection", "smo", "frank-wolfe")


@dataclass(frozen=True)
class DualDecomposition(Solver):
    """Settings of dual decomposition; an iteration is a pass over the items that are not left out.

    Parameters
    ----------
    sub_solver : {"pivot", "sort", "bisection", "smo", "frank-wolfe"}
        How the sub-problem of an item is solved: exactly, by a projection onto the simplex with random pivots (Duchi et
        al. 2008) or by sorting (Algorithm 2); by bisection (Algorithm 3, from [max - c, max], where the level
        lies, in the place of the paper's [0, U]); one exchange between two states (supplement A); one step to a vertex
        (supplement B). The squared hinge knows the first two.
    tau : float > 0
        Of bisection: the sum of the variables is right to within this share of the mass.
    shrink : bool
        Leave out items at a vertex of their simplex that stay there by more than the largest violation of the last
        pass. All are visited again before a certificate.
    by_gradient : bool
        Choose by the gradient: pass over items that are violated by no more than the mean of the epoch's last pass, as
        pays with a kernel, where a visit costs far less than an update (the paper's section III).
    reshuffle : bool
        Visit the items of every pass in a new order. False keeps the first one, as the paper has it, and takes many
        times the passes: 20 newsgroups (C = 1) to 3e-3 of the dual optimum in 9 instead of more than 60.
    cooling : float within (0, 1)
        The certificate, a sweep over all items without updates, is due when the duality gap as the items have met it on
        the way has fallen to this share of that of the epoch's first pass.
    max_passes : int
        Or after so many passes.
    faces : bool
        Between epochs solve for the variables within their bounds by conjugate gradients, as long as those win more by
        item than the passes do; of the hinge alone.
    random_state : int
        Seed of the order of the items.

    Notes
    -----
    Sequential, whatever the number of threads. It starts from zero: weights do not tell the dual variables.

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
        """Yield a state for each pass over the items; those that end an epoch have a value and a bound."""
        blocks = objective.state(DualItems, penalty, self.sub_solver, self.tau)
        del start
        random = np.random.default_rng(self.random_state)
        order = random.permutation(blocks.items)
        # Where nothing is proved, an early look tells the violation that the later ones are compared to.
        active = blocks.admit(order, np.zeros(order.size))
        is_small = order.size * blocks.objective.n_states <= FEW and objective.is_convex
        most = PASSES_OF_FEW if is_small else self.max_passes
        # Of conjugate gradients: the most steps, and after how many epochs they are due, n_left of them from now on.
        most_steps, wait, n_left = FEWEST_STEPS, 1, 1
        while True:
            first_gap, n_visits, decrease, least = np.nan, 0, 0.0, 0.0
            for n_passes in range(1, most + 1):
                active = random.permutation(active) if self.reshuffle else active
                n_visited, seen = active.size, blocks.sweep(active, least)
                n_visits, decrease = n_visits + n_visited, decrease + seen.decrease
                first_gap = seen.gap if n_passes == 1 else first_gap
                share = 0.0 if is_small else self.cooling
                if (
                    n_passes == most
                    or (seen.n_updates == 0 and least == 0.0)
                    or (n_passes > 1 and seen.gap <= share * first_gap)
                ):
                    break
                active = self.left_over(active, seen.slacks, seen.violation)
                is_choosing = self.by_gradient and not is_small and seen.n_updates > 0
                least = seen.mean if is_choosing else 0.0
                yield passed(blocks, order, n_visited, seen.violation)
            if self.faces and blocks.has_faces and seen.n_updates > 0:
                n_left -= 1
                if n_left == 0:
                    face = blocks.descend_face(most_steps)
                    # Twice as many steps after they have lowered the dual more by item than the passes of the epoch;
                    # fewer, and later again, after others.
                    if face.decrease > decrease / n_visits * face.n_items * (face.n_steps + 1):
                        most_steps, wait = min(2 * most_steps, MOST_STEPS), 1
                    else:
                        most_steps, wait = max(most_steps // 2, FEWEST_STEPS), min(2 * wait, LONGEST_WAIT)
                    n_left = wait
            state, everything = certified(blocks, order, n_visited)
            # A first pass begins with scores made anew; those that passes leave have their rounding. An item that it
            # leaves out is less violated than others, unless an intercept has moved.
            is_seen = n_visited == order.size or not blocks.is_free
            is_still = seen.n_updates == 0 and n_passes == 1 and is_seen
            yield replace(state, is_step=True, end=Status.STALLED if is_still else None)
            slacks, violation = everything.slacks, everything.violation
            active = blocks.admit(
                self.left_over(order, slacks, violation), self.left_over(slacks, slacks, violation)
            )

    def left_over(self, order: NDArray, slacks: NDArray[np.float64], violation: float) -> NDArray:
        """Return the items that the next pass visits, or another array's entries for these items."""
        return order[slacks <= violation] if self.shrink else order


def certified(blocks: DualItems, order: NDArray[np.int64], n_visited: int) -> tuple[State, ItemSweep]:
    """Return the state with its value and bound, from a sweep over all items without updates, and its findings."""
    value, dual_value, seen = blocks.certify(order)
    gap = value - dual_value if np.isfinite(dual_value) else 0.0  # the bound knows of intercepts already
    point, violation = blocks.point(), seen.violation
    return State(point, value, violation, n_visited, dual_value, is_screening=True, least_gap=gap), seen


def passed(blocks: DualItems, order: NDArray[np.int64], n_visited: int, violation: float) -> State:
    """Return the state after a pass, whose value waits until it is asked for."""
    certify = partial(certified, blocks, order, n_visited)
    return State(blocks.point(), np.nan, violation, n_visited, certify=lambda: certify()[0])
