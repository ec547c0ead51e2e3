"""Line searches: backtracking, and the strong Wolfe conditions (Nocedal and Wright 2006, chapter 3).

The solver computes the trials and decides which one to accept; the searches choose the lengths. All of them use the
same limit of trials and the same test whether rounding hides a decrease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.result import Status
from crfqn.solvers.protocols import Vector

# Relative rounding error of the objective: a change below it cannot be seen. A numerical guard.
VALUE_ROUNDING = 4 * np.finfo(float).eps
MAX_TRIALS = 40  # lengths of a search; halving 40 times gives 1e-12
# If all trials fail and the predicted decrease is below this number of rounding errors of the objective, rounding is
# the reason. A numerical guard.
UNRELIABLE_ROUNDINGS = 100.0
MIN_EXTRAPOLATION, MAX_EXTRAPOLATION = 2.0, 20.0  # factors by which a length that is too short grows
# Smallest distance of a trial from the ends of its interval, as a fraction of the interval.
INTERPOLATION_MARGIN = 0.1
# Relative difference of two values below which their slopes are compared instead. A numerical guard.
SLOPE_RULE_LIMIT = 1e-6
# Smallest s'y, as a fraction of |s| |y|: a pair below it would make the metric indefinite. A numerical guard.
MIN_COSINE = 1e-8
# Smallest number with all digits of float64, in nats: a pair with less curvature is rounding, and its inverse
# overflows.
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

Outcome = TypeVar("Outcome")


class HiddenDecrease(Exception):
    """Raised by a trial whose predicted decrease is within the rounding error, as is that of all shorter ones."""


class Found(NamedTuple, Generic[Outcome]):
    """The accepted outcome of a search, and its length."""

    outcome: Outcome
    length: float


def is_hidden(decrease: float, value: float, share: float = 1.0) -> bool:
    """Return whether a predicted decrease is within `share` times the rounding error of the objective `value`."""
    return bool(decrease <= share * VALUE_ROUNDING * abs(value))


def decrease_by_slopes(decrease: float, value: float, slope: float, curvature: float) -> float:
    """Return the decrease of a convex objective, computed from the slopes at both ends if the values are unreliable.

    The loss of heavy items with almost no error is far below the rounding error of their scores; the difference of two
    values is then noise, but gradients are accurate (the "approximate" rule of Hager and Zhang 2005, section 2.1). The
    slopes are used if both the decrease and the slope are tiny, or if the decrease is outside of the interval from
    -slope - curvature to -slope, which contains it for a convex function.
    slope : g'd + penalty(w + d) - penalty(w); curvature : (g+ - g)'d
    """
    is_tiny = max(abs(decrease), -slope) <= SLOPE_RULE_LIMIT * abs(value)
    is_contradicted = not -slope - curvature <= decrease <= -slope
    return -slope - 0.5 * curvature if curvature >= 0 and (is_tiny or is_contradicted) else decrease


def backtracking(
    attempt: Callable[[float], Outcome | None], length: float, factor: float
) -> Found[Outcome] | Status:
    """Return the first of length, factor * length, factor^2 * length, ... whose attempt returns an outcome, not None.
    If there is none, return `STALLED` if an attempt raises `HiddenDecrease`, else `LINE_SEARCH_FAILED`."""
    for _ in range(MAX_TRIALS):
        try:
            outcome = attempt(length)
        except HiddenDecrease:
            return Status.STALLED
        if outcome is not None:
            return Found(outcome, length)
        length *= factor
    return Status.LINE_SEARCH_FAILED


class Tried(NamedTuple):
    """A trial length, with the value and the slope along the ray there."""

    length: float
    value: float
    slope: float


def strong_wolfe(
    at: Callable[[float], tuple[float, float]], start: tuple[float, float], c1: float, c2: float
) -> float | None:
    """Return a length that fulfils the strong Wolfe conditions, or None (Nocedal and Wright, algorithms 3.5 and 3.6).

    A length that is too short grows to the minimum that the slopes predict, instead of doubling, which takes fewer
    trials if the first one is far too short. at, start : value and slope at a length, and at 0.
    """
    origin = low = Tried(0.0, *start)
    high: Tried | None = None
    length = 1.0
    for _ in range(MAX_TRIALS):
        here = Tried(length, *at(length))
        if not here.value <= min(origin.value + c1 * length * origin.slope, low.value):
            high = here
        elif abs(here.slope) <= -c2 * origin.slope:
            return length
        elif here.slope * (length - low.length) < 0:
            # The value still decreases beyond the lowest point so far.
            low = here
        else:
            low, high = here, low
        if high is not None and high.length == low.length:
            return None  # the interval is empty
        length = extrapolated(origin, low) if high is None else interpolated(low, high)
    return None


def extrapolated(origin: Tried, last: Tried) -> float:
    """Return the length at which the slope is zero by linear extrapolation, within bounds."""
    rise = last.slope - origin.slope
    factor = -origin.slope / rise if rise > 0 else np.inf
    return last.length * min(max(factor, MIN_EXTRAPOLATION), MAX_EXTRAPOLATION)


def interpolated(low: Tried, high: Tried) -> float:
    """Return the minimum of the cubic through two lengths (equation 3.59), or their middle if it is near an end."""
    width = high.length - low.length
    d = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    with np.errstate(all="ignore"):
        root = np.sign(width) * np.sqrt(d * d - low.slope * high.slope)
        share = 1.0 - (high.slope + root - d) / (high.slope - low.slope + 2.0 * root)
    return low.length + width * (
        float(share) if INTERPOLATION_MARGIN <= share <= 1.0 - INTERPOLATION_MARGIN else 0.5
    )


def unit_length(steepest: Vector) -> float:
    """Return the length of a first step that moves the weights by 1 along `steepest`."""
    return 1.0 / max(float(np.linalg.norm(steepest)), VALUE_ROUNDING)


def has_curvature(s: Vector, y: NDArray[np.floating], min_cosine: float = MIN_COSINE) -> bool:
    """Return whether a secant pair keeps the metric positive definite, and has more curvature than rounding."""
    return bool(s @ y > max(min_cosine * np.sqrt((s @ s) * (y @ y)), SMALLEST_NORMAL))
