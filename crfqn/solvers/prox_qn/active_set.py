"""The rules of the working set: the coordinates that open an epoch, and the zeros that leave it.

An epoch opens with all coordinates, or with the non-zero weights and the violating zeros that promise the largest
decrease; then the set only shrinks until the epoch ends (Zhong et al. 2014, section 2.3 and Algorithm 2, lines 3-12 and
17). `AllCoordinates` and `ByLastViolation` are the paper's rules, `TopViolators` and `ByShareOfBound` the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import warn_caller
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.protocols import Objective, Penalty, Point, Vector, check_numbers
from crfqn.solvers.screened_point import ScreenedPoint, curvature_at_entry, may_move, screen_point


@dataclass(frozen=True)
class AllCoordinates:
    """All coordinates open an epoch, as in the paper, up to `most`; above it, with a warning, the violating ones.

    The vectors of a step take some 50 numbers a coordinate, 4 GB for 10 million. Zeros that do not violate cannot leave
    zero in an epoch's first step, so that what is lost are the later steps of some, until the next epoch.
    """

    most: int = 10_000_000
    uses_curvature: ClassVar[bool] = False

    def open(self, objective: Objective, penalty: Penalty, point: Point, was_growing: bool) -> ScreenedPoint:
        """Screen with a threshold that every gradient exceeds."""
        screening = penalty.screen(point)
        dual_value = best_bound(point, penalty, screening).dual_value
        if objective.n_coords <= self.most:
            screening = point.screen(-1.0)
        elif point.coords.size == 0:
            warn_caller(
                f"Prox-QN as printed works on all {objective.n_coords:,} weights at first; above {self.most:,} it "
                "opens with those whose gradient exceeds the penalty"
            )
        return ScreenedPoint(penalty, point, *may_move(penalty, point, screening), dual_value)

    def goal(self, goal: float, active: ScreenedPoint) -> float:
        return goal


@dataclass(frozen=True)
class TopViolators:
    """A bounded number of violating coordinates enters, those with the largest predicted decrease. Without a bound the
    first steps make many weights non-zero that are zero at the optimum.

    most : at most max(most, 2 non-zeros) coordinates are active in an epoch, besides a ridge; None: all that violate
    excluded_fraction : an epoch ends if the largest violation in its active set is at most this fraction of the
        largest one outside of it
    """

    most: int | None = 2000
    excluded_fraction: float = 0.5

    def __post_init__(self) -> None:
        if self.most is not None:
            check_numbers(self, 1, "most")
        check_numbers(self, 0, "excluded_fraction")

    @property
    def uses_curvature(self) -> bool:
        return self.most is not None

    def open(self, objective: Objective, penalty: Penalty, point: Point, was_growing: bool) -> ScreenedPoint:
        """Screen all coordinates, and keep the blocks with the largest predicted decrease if there are too many.

        A block alone would decrease the objective by violation^2 / (2 curvature). By violation alone the most frequent
        features would enter, which are the most correlated ones.
        """
        active = screen_point(penalty, point)
        n_ridge = penalty.ridge.coords.size  # which are in every active set, and leave room for others
        limit = active.coords.size
        if self.most is not None:
            limit = max(self.most, 2 * (point.coords.size - n_ridge)) + n_ridge
        if active.coords.size > limit:
            blocks, violation = active.local.blocks, active.local.violation(active.w, active.g)
            curvature = blocks.spread(blocks.largest(curvature_at_entry(point, active.coords)))
            gain = violation**2 / curvature
            gain[(active.w != 0) | penalty.is_smooth(active.coords)] = np.inf
            order = np.argsort(-blocks.largest(gain), kind="stable")
            n_before = np.cumsum(blocks.sizes[order]) - blocks.sizes[order]
            enters = np.zeros(order.size, bool)
            enters[order[n_before < limit]] = True
            keep = blocks.spread(enters)
            active.restrict(keep)
            active.max_excluded_violation = float(violation[~keep].max(initial=0.0))
        active.is_growing = active.max_excluded_violation > 0 or (
            was_growing and active.violation > penalty.min_threshold
        )
        return active

    def goal(self, goal: float, active: ScreenedPoint) -> float:
        return max(goal, self.excluded_fraction * active.max_excluded_violation)


@dataclass(frozen=True)
class ByLastViolation:
    """The paper's rule (line 8): a zero stays if |g| > l1 - M^ / N, M^ the largest violation an iteration before."""

    def shrink(self, active: ScreenedPoint, last_violation: float, n_items: int) -> NDArray[np.bool_] | None:
        """Drop the zeros within the bound by more than M^ / N."""
        if last_violation == np.inf:
            return None
        return drop_zeros(active, last_violation / n_items, 0.0)


@dataclass(frozen=True)
class ByShareOfBound:
    """A zero stays if |g| > (1 - slack) l1, which is the same for sums and for means over the items. Zeros leave only
    if they are at least the share `least` of the active set, because a restriction copies the metric."""

    slack: float = 0.1
    least: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(self, 0, "slack", "least")

    def shrink(self, active: ScreenedPoint, last_violation: float, n_items: int) -> NDArray[np.bool_] | None:
        """Drop the zeros within the bound by more than this share of it."""
        return drop_zeros(active, self.slack * active.local.threshold, self.least)


def drop_zeros(active: ScreenedPoint, slack: float | Vector, least: float) -> NDArray[np.bool_] | None:
    """Drop (blocks of) zeros whose dual norm is not above their threshold less the slack; returns what stays, None for
    all: where there are none, or fewer than the share `least` of the set."""
    keep = active.local.dual_norm(active.w, active.g) > active.local.threshold - slack
    if keep.all() or keep.mean() > 1.0 - least:
        return None
    active.restrict(keep)
    return keep


# What opens an epoch: `open` screens all coordinates, and `goal` returns the violation at which the epoch ends, given
# the one without coordinates outside. `uses_curvature`: whether it asks points for theirs.
WorkingSetRule: TypeAlias = AllCoordinates | TopViolators
# Which zeros leave: `shrink` returns what stays, None for all; `last_violation`: M^ of Algorithm 2, infinite at first.
Shrinking: TypeAlias = ByLastViolation | ByShareOfBound
