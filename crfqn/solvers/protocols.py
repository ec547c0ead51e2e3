"""What solvers share: the state that they yield, what they require, and the types that they work on.

A solver cannot know whether it trains a chain, a taxonomy or a flat classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple

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

    `dual_value` is the best lower bound on the optimum that this step has proved (-inf for none); `violation`
    is over the active set, or over all coordinates if `is_screening`.
    `end`: why the method goes no further: `STALLED` if rounding hides any decrease, `LINE_SEARCH_FAILED` if no trial
    was good enough, `RULE_MET` or `LEARNED` by a rule of its own, whatever the certificate says; else None.
    `is_step`: a state that has screened all coordinates counts as an iteration only where this is set.
    `sample_fraction` < 1: the state of a sample of the items, whose value and bound say nothing about the whole.
    `excess`: of a problem with a bound on the loss, how far the loss is above it, as a share of it; else None.
    `certify`: of a step whose value nobody has computed, returns the state with it; the last of a run is asked for it.
    `n_wrong`: the positions that a method labelled wrongly which learns from mistakes, and only values its last state.
    `least_gap`: what the bound will leave open, in nats, however well unpenalised weights are solved; 0 if not known.
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
        """Whether it is a state of all items, and they were evaluated."""
        is_of_all = self.sample_fraction == 1.0 and self.certify is None
        return is_of_all and (self.n_wrong is None or self.end is not None)

    @property
    def is_final(self) -> bool:
        """Whether no step of the method can improve it."""
        return self.end is not None and self.end.is_standstill


FORMS = {
    "is_separable": "of single weights, l1 |w_j| + l2/2 w_j^2",
    "is_uniform": "with the same strengths for all weights, which ProxQN, OWLQN and FISTA do not need",
    "is_row_separable": "of single weights or of rows, all states of a feature",
    "is_quadratic": "l2/2 ||w||^2 without L1 and groups, which ProxQN and FISTA know",
}


class Requirements(NamedTuple):
    """Demands of a solver on the problem besides values, gradients and rays.

    Attributes
    ----------
    capabilities : the properties of the objective that must hold, attributes of `Objective`
    penalty : the properties of a penalty that must hold, names in `FORMS`
    states : what the method keeps over the items, which must be there to be made
    """

    capabilities: tuple[str, ...] = ()
    penalty: tuple[str, ...] = ()
    states: tuple[type[MethodState], ...] = ()


class Solver:
    """Base of all methods: a frozen dataclass of settings, whose `steps` makes the iterations.

    `minimize` takes any object with these two methods, and takes one without `requires` to have no requirements.
    """

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        """Return what the method needs of the problem besides values, gradients and rays: here nothing."""
        return Requirements()

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state after each iteration, until a step can improve nothing; `minimize` decides when to stop."""
        raise NotImplementedError


def requirements(solver: Solver, objective: Objective, penalty: Penalty) -> Requirements:
    """Return what a solver asks of this objective and penalty; nothing, where it has no `requires`."""
    return solver.requires(objective, penalty) if hasattr(solver, "requires") else Requirements()


def check_requirements(solver: Solver, objective: Objective, penalty: Penalty) -> None:
    """Raise InputError unless the objective has the properties and states, and the penalty the form, asked for."""
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
                f"{type(solver).__name__} needs a penalty {FORMS[name]} ({name}), "
                f"got {type(penalty).__name__} of strength {penalty.min_threshold:g}"
            )
    check_least_strength(objective, penalty)


def check_least_strength(objective: Objective, penalty: Penalty) -> None:
    """Raise InputError where a coordinate's L1 strength is below `l1`, as zeros below it are looked at by no solver, or
    is not 0 although the penalty says that it has no kink there."""
    if not penalty.needs_check:
        return
    coords = objective.support.coords()
    strengths, is_smooth = penalty.l1_of(coords), penalty.is_smooth(coords)
    too_small = np.flatnonzero((strengths < penalty.min_l1) & ~is_smooth)
    if too_small.size:
        least = too_small[np.argmin(strengths[too_small])]
        raise InputError(
            f"{type(penalty).__name__}: expected l1 to be the least strength of any weight, got l1 = "
            f"{penalty.min_l1:g} and l1_of = {strengths[least]:g} at coordinate {coords[least]}"
        )
    has_kink = np.flatnonzero(is_smooth & (strengths != 0))
    if has_kink.size:
        first = has_kink[0]
        raise InputError(
            f"{type(penalty).__name__}: expected l1_of = 0 at coordinates without penalty and at those of the ridge, "
            f"which have no kink at zero, got {strengths[first]:g} at coordinate {coords[first]}"
        )


def check_integers(settings: object, least: int, *names: str) -> None:
    """Raise InputError unless the named settings are integers >= `least`."""
    _check(settings, names, f"an integer >= {least}", lambda x: isinstance(x, Integral) and int(x) >= least)


def check_numbers(settings: object, least: float, *names: str) -> None:
    """Raise InputError unless the named settings are numbers >= `least`; they may be infinite."""
    _check(settings, names, f"a number >= {least}", lambda x: x >= least)


def check_positive(settings: object, name: str, or_none: bool = False) -> None:
    """Raise InputError unless the named setting is a finite number above 0, or None where that is allowed."""
    if not (or_none and getattr(settings, name) is None):
        what = "None or a finite number > 0" if or_none else "a finite number > 0"
        _check(settings, (name,), what, lambda x: 0 < x < np.inf)


def check_shares(settings: object, *names: str) -> None:
    """Raise InputError unless the named settings are numbers between 0 and 1, neither of them allowed."""
    _check(settings, names, "a number between 0 and 1", lambda x: 0 < x < 1)


def _check(settings: object, names: tuple[str, ...], what: str, is_allowed: Callable[..., bool]) -> None:
    for name in names:
        setting = getattr(settings, name)
        is_number = isinstance(setting, Real) and not isinstance(setting, bool)
        if not (is_number and is_allowed(setting)):
            raise InputError(f"{name}: expected {what}, got {setting!r}")
