"""The interface of the solvers: their states, their requirements, and the checks of their settings.

Solvers use objectives and penalties through `Objective`, `Point` and `Penalty` alone, and do not depend on the
structure, be it a chain, a taxonomy or a flat classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np

from crfqn.arrays import Coords, Screening, SparseWeights, Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.point import Point
from crfqn.penalties.penalty import Penalty
from crfqn.result import Status

__all__ = [
    "Coords", "Objective", "Penalty", "Point", "Requirements", "Screening", "Solver", "SparseWeights", "State",
    "Vector", "check_requirements", "requirements",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class State:
    """State of a solver after a step.

    point, value : the point, and the objective there in nats, penalty included
    violation : the largest KKT violation over the active set, or over all coordinates if `is_screening`
    n_active : the number of coordinates of that set
    dual_value : the largest lower bound on the optimum that this step has proved, in nats; -inf for none
    is_screening : whether the full gradient was scanned
    end : why the solver stops: `STALLED` if rounding hides any decrease, `LINE_SEARCH_FAILED` if every trial was
        refused, `RULE_MET` or `LEARNED` if its own rule holds, independent of the certificate; None if it continues
    is_step : whether a state with `is_screening` counts as an iteration; others always do
    sample_fraction : the fraction of the items that the objective is a sum over; below 1, value and bound are those of
        the sample
    n_wrong : the number of wrongly labelled positions, of solvers that learn from mistakes; these evaluate the
        objective at their last state only
    excess : the relative amount by which the loss exceeds its upper bound, if the problem has one, or None
    certify : returns this state with its value, if the value has not been computed; called for the last state of a run
    least_gap : a lower bound on the gap that remains after the unpenalised weights are solved, in nats; 0 if unknown
    """

    point: Point
    value: float
    violation: float
    n_active: int
    dual_value: float = -np.inf
    is_screening: bool = False
    end: Status | None = None
    is_step: bool = False
    sample_fraction: float = 1.0
    n_wrong: int | None = None
    excess: float | None = None
    certify: Callable[[], State] | None = None
    least_gap: float = 0.0

    @property
    def has_value(self) -> bool:
        """Whether `value` is known and is that of all items."""
        is_of_all = self.sample_fraction == 1.0 and self.certify is None
        return is_of_all and (self.n_wrong is None or self.end is not None)

    @property
    def is_final(self) -> bool:
        """Whether no further step can decrease the objective."""
        return self.end is not None and self.end.is_standstill


# For messages: the properties of a penalty that a solver may require.
PENALTY_PROPERTIES = {
    "is_separable": "of single weights, l1 |w_j| + l2/2 w_j^2",
    "is_uniform": "with the same strengths for all weights, which ProxQN, OWLQN and FISTA do not need",
    "is_row_separable": "of single weights or of rows, all states of a feature",
    "is_quadratic": "l2/2 ||w||^2 without L1 and groups, which ProxQN and FISTA support",
}


class Requirements(NamedTuple):
    """Requirements of a solver besides values, gradients and rays.

    Attributes
    ----------
    capabilities : names of attributes of `Objective` that must be true
    penalty : names of attributes of `Penalty` that must be true, keys of `PENALTY_PROPERTIES`
    states : the classes of the data by item that the solver keeps; the objective must support them
    """

    capabilities: tuple[str, ...] = ()
    penalty: tuple[str, ...] = ()
    states: tuple[type[MethodState], ...] = ()


class Solver:
    """Base of all solvers: a frozen dataclass of settings, whose `steps` makes the iterations.

    `minimize` accepts any object with these two methods; one without `requires` has no requirements.
    """

    needs: ClassVar[Requirements] = Requirements()  # the requirements, if they are the same for all problems

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return the requirements for this objective and penalty, by default `needs`."""
        return self.needs

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state after each iteration, until no step decreases the objective; `minimize` may stop earlier."""
        raise NotImplementedError


def requirements(solver: Solver, objective: Objective, penalty: Penalty) -> Requirements:
    """Return the requirements of a solver; none if it has no method `requires`."""
    return solver.requires(objective, penalty) if hasattr(solver, "requires") else Requirements()


def check_requirements(solver: Solver, objective: Objective, penalty: Penalty) -> None:
    """Raise InputError unless the objective and the penalty fulfil the requirements of the solver."""
    required = requirements(solver, objective, penalty)
    try:
        for capability in required.capabilities:
            if not getattr(objective, capability):
                raise UnsupportedObjectiveError(objective.refusal(capability))
        for state in required.states:
            objective.check_state(state)
    except UnsupportedObjectiveError as error:
        raise UnsupportedObjectiveError(f"{type(solver).__name__} cannot train this: {error}") from None
    for name in required.penalty:
        if not getattr(penalty, name):
            raise InputError(
                f"{type(solver).__name__} needs a penalty {PENALTY_PROPERTIES[name]} ({name}), "
                f"got {type(penalty).__name__} of strength {penalty.min_threshold:g}"
            )
    check_min_l1(objective, penalty)


def check_min_l1(objective: Objective, penalty: Penalty) -> None:
    """Raise InputError if a coordinate's L1 strength is below `min_l1`, since screening skips gradients below it, or is
    not 0 although `is_smooth` holds there."""
    if not penalty.needs_check:
        return
    coords = objective.support.coords()
    strengths, is_smooth = penalty.l1_of(coords), penalty.is_smooth(coords)
    too_small = np.flatnonzero((strengths < penalty.min_l1) & ~is_smooth)
    if too_small.size:
        smallest = too_small[np.argmin(strengths[too_small])]
        raise InputError(
            f"{type(penalty).__name__}: expected l1 to be the smallest strength of any weight, got l1 = "
            f"{penalty.min_l1:g} and l1_of = {strengths[smallest]:g} at coordinate {coords[smallest]}"
        )
    has_kink = np.flatnonzero(is_smooth & (strengths != 0))
    if has_kink.size:
        first = has_kink[0]
        raise InputError(
            f"{type(penalty).__name__}: expected l1_of = 0 at coordinates without penalty and at those of the ridge, "
            f"which have no kink at zero, got {strengths[first]:g} at coordinate {coords[first]}"
        )


def check_integers(settings: object, minimum: int, *names: str) -> None:
    """Raise InputError unless the named settings are integers >= `minimum`."""
    _check(
        settings, names, f"an integer >= {minimum}", lambda x: isinstance(x, Integral) and int(x) >= minimum
    )


def check_numbers(settings: object, minimum: float, *names: str) -> None:
    """Raise InputError unless the named settings are numbers >= `minimum`; they may be infinite."""
    _check(settings, names, f"a number >= {minimum}", lambda x: x >= minimum)


def check_positive(settings: object, name: str, or_none: bool = False) -> None:
    """Raise InputError unless the named setting is a finite number above 0, or None if `or_none`."""
    if not (or_none and getattr(settings, name) is None):
        expected = "None or a finite number > 0" if or_none else "a finite number > 0"
        _check(settings, (name,), expected, lambda x: 0 < x < np.inf)


def check_shares(settings: object, *names: str) -> None:
    """Raise InputError unless the named settings are numbers within the open interval (0, 1)."""
    _check(settings, names, "a number between 0 and 1", lambda x: 0 < x < 1)


def _check(settings: object, names: tuple[str, ...], expected: str, is_allowed: Callable[..., bool]) -> None:
    for name in names:
        setting = getattr(settings, name)
        is_number = isinstance(setting, Real) and not isinstance(setting, bool)
        if not (is_number and is_allowed(setting)):
            raise InputError(f"{name}: expected {expected}, got {setting!r}")
