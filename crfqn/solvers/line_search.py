"""Line searches: lengths tried one after the other until the objective has fallen enough.

A solver brings the trial and the rule, `backtracking` the loop, and this module what all of them share: when rounding
hides a decrease, and after how many trials a search has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.result import Status
from crfqn.solvers.protocols import Vector

ROUNDING = 4 * np.finfo(float).eps  # a share of the objective: a change below it cannot be seen
MOST_TRIALS = 40  # halving 40 times is 1e-12
BLURRED = 100.0  # roundings of the objective: where all trials fail and no more was predicted, rounding is the reason
SHORTEST_GROWTH, LONGEST_GROWTH = 2.0, 20.0  # of a step that is too short
INNER = 0.1  # of an interval: the next trial is no nearer to its ends
CLOSE = 1e-6  # a share of the objective: values that differ less may be compared by their slopes

T = TypeVar("T")


class HiddenDecrease(Exception):
    """Raised by a trial whose predicted decrease is hidden by rounding, as is that of all shorter ones."""


class Found(NamedTuple, Generic[T]):
    """The accepted outcome of a search, and its length."""

    outcome: T
    length: float


def is_hidden(decrease: float, value: float, share: float = 1.0) -> bool:
    """Return whether a predicted decrease is no more than `share` of the objective's rounding."""
    return bool(decrease <= share * ROUNDING * abs(value))


def falls_enough(decrease: float, slope: float, sigma: float) -> bool:
    """Return whether Armijo's rule holds: a share sigma of what the slope (negative) foretells; no for nan."""
    return bool(decrease >= -sigma * slope)


def decrease_by_slopes(decrease: float, value: float, slope: float, curvature: float) -> float:
    """Return the decrease of a convex objective, by the slopes at both ends where two values cannot tell it.

    Heavy items that are fitted nearly without an error have a loss far below the rounding of their scores: values then
    differ by chance, gradients do not (the "approximate" rule of Hager and Zhang 2005, section 2.1). Values cannot tell
    where both the decrease and the slope are tiny, nor where they contradict the slopes: of a convex function the
    decrease is at most -slope and at least -slope - curvature.
    slope, curvature : g'd, and what the penalty changes by; (g+ - g)'d
    """
    is_tiny = max(abs(decrease), -slope) <= CLOSE * abs(value)
    is_contradicted = not -slope - curvature <= decrease <= -slope
    return -slope - 0.5 * curvature if curvature >= 0 and (is_tiny or is_contradicted) else decrease


def backtracking(attempt: Callable[[float], T | None], length: float, factor: float) -> Found[T] | Status:
    """Return the first of length, factor * length, factor^2 * length, ... whose attempt returns an outcome, not None.
    If there is none, return why: `STALLED` if an attempt raises `HiddenDecrease`, or `LINE_SEARCH_FAILED`."""
    for _ in range(MOST_TRIALS):
        try:
            outcome = attempt(length)
        except HiddenDecrease:
            return Status.STALLED
        if outcome is not None:
            return Found(outcome, length)
        length *= factor
    return Status.LINE_SEARCH_FAILED


class Tried(NamedTuple):
    """A length that was tried, with the value and the slope along the ray there."""

    length: float
    value: float
    slope: float


def strong_wolfe(
    at: Callable[[float], tuple[float, float]], start: tuple[float, float], c1: float, c2: float
) -> float | None:
    """Return a length that the strong Wolfe conditions accept, or None (Nocedal and Wright, algorithms 3.5 and 3.6).

    Lengths grow to where the slopes say that the ray has its lowest point, instead of doubling: where a first step is
    far too short that saves most trials. at, start : value and slope at a length, and at 0.
    """
    origin = low = Tried(0.0, *start)
    high: Tried | None = None
    length = 1.0
    for _ in range(MOST_TRIALS):
        here = Tried(length, *at(length))
        if not here.value <= min(origin.value + c1 * length * origin.slope, low.value):
            high = here
        elif abs(here.slope) <= -c2 * origin.slope:
            return length
        elif here.slope * (length - low.length) < 0:  # it still falls away from the lowest point so far
            low = here
        else:
            low, high = here, low
        if high is not None and high.length == low.length:
            return None  # nothing is left between them
        length = extrapolated(origin, low) if high is None else interpolated(low, high)
    return None


def extrapolated(origin: Tried, last: Tried) -> float:
    """Return the length at which the slope would be zero if it went on to change as it has, within bounds."""
    rise = last.slope - origin.slope
    wanted = -origin.slope / rise if rise > 0 else np.inf
    return last.length * min(max(wanted, SHORTEST_GROWTH), LONGEST_GROWTH)


def interpolated(low: Tried, high: Tried) -> float:
    """Return the lowest point of the cubic through two lengths, well within them, or their middle (equation 3.59)."""
    width = high.length - low.length
    d = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    with np.errstate(all="ignore"):
        root = np.sign(width) * np.sqrt(d * d - low.slope * high.slope)
        share = 1.0 - (high.slope + root - d) / (high.slope - low.slope + 2.0 * root)
    return low.length + width * (float(share) if INNER <= share <= 1.0 - INNER else 0.5)


def unit_length(steepest: Vector) -> float:
    """Return the length of a first step that moves the weights by 1 along `steepest`."""
    return 1.0 / max(float(np.linalg.norm(steepest)), ROUNDING)


SMALLEST_COSINE = 1e-8  # a pair with s'y below this share of |s| |y| would make the metric indefinite


def has_curvature(s: Vector, y: NDArray[np.floating], smallest: float = SMALLEST_COSINE) -> bool:
    """Return whether a pair keeps the metric positive definite."""
    return bool(s @ y > smallest * np.sqrt((s @ s) * (y @ y)))
