"""The rules of the working set (Zhong et al. 2014, section 2.3 and Algorithm 2, lines 3-12 and 17).

An epoch begins with all coordinates, or with the non-zero weights and the violating zeros of the largest predicted
decrease. Zeros then leave the set until the epoch ends. `AllCoordinates` and `ByLastViolation` are the paper's rules,
`TopViolators` and `ByShareOfBound` those of the default.
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
    """Begin an epoch with all coordinates, as in the paper.

    If there are more than `most`, the set has the violating zeros and the non-zero weights only, with a warning: the
    vectors of a step take about 50 numbers for each coordinate, 4 GB for 10 million. Other zeros would stay zero in the
    first step of an epoch anyway.
    """

    most: int = 10_000_000
    uses_curvature: ClassVar[bool] = False  # whether `open` computes curvature
    excluded_fraction: ClassVar[float] = 0.0  # as of `TopViolators`

    def open(self, objective: Objective, penalty: Penalty, point: Point, was_growing: bool) -> ScreenedPoint:
        """Return the working set at a point; was_growing : as of `ScreenedPoint.is_growing` of the epoch before."""
        screening = penalty.screen(point)
        dual_value = best_bound(point, penalty, screening).dual_value
        if objective.n_coords <= self.most:
            screening = point.screen(-1.0)  # a threshold that every |gradient| exceeds
        elif point.coords.size == 0:
            warn_caller(
                f"Prox-QN as printed begins an epoch with all {objective.n_coords:,} weights; above {self.most:,} it "
                "begins with those whose gradient exceeds the penalty"
            )
        return ScreenedPoint(penalty, point, *may_move(penalty, point, screening), dual_value)


@dataclass(frozen=True)
class TopViolators:
    """Begin an epoch with the violating coordinates of the largest predicted decrease, up to a maximum. Without a
    maximum the first steps make many weights non-zero that are zero at the optimum.

    most : the maximum number of coordinates is max(most, 2 non-zeros), without those of a ridge; None for no maximum.
        A larger value takes fewer epochs, but longer steps
    excluded_fraction : an epoch ends if the largest violation in its active set is below this fraction (>= 0) of the
        largest one outside of it. A larger value takes shorter epochs; with 0 the violation outside has no influence
    """

    most: int | None = 2000
    excluded_fraction: float = 0.5

    def __post_init__(self) -> None:
        if self.most is not None:
            check_numbers(self, 1, "most")
        check_numbers(self, 0, "excluded_fraction")

    @property
    def uses_curvature(self) -> bool:
        """Whether `open` computes curvature."""
        return self.most is not None

    def open(self, objective: Objective, penalty: Penalty, point: Point, was_growing: bool) -> ScreenedPoint:
        """Screen all coordinates, and keep the blocks with the largest predicted decrease if there are too many.

        The predicted decrease of a block that moves alone is violation^2 / (2 curvature). Choosing by the violation
        would prefer frequent features, which are correlated with each other.
        """
        active = screen_point(penalty, point)
        n_ridge = penalty.ridge.coords.size  # always active, and not part of the maximum
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


@dataclass(frozen=True)
class ByLastViolation:
    """The paper's rule (line 8): a zero stays if |g| > l1 - M^ / N, M^ the largest violation of the last iteration."""

    def shrink(self, active: ScreenedPoint, last_violation: float, n_items: int) -> NDArray[np.bool_] | None:
        """Drop zeros; return the mask of the coordinates that stay, None for all; last_violation : M^, infinite at
        first."""
        if last_violation == np.inf:
            return None
        return drop_zeros(active, last_violation / n_items, 0.0)


@dataclass(frozen=True)
class ByShareOfBound:
    """A zero stays if |g| > (1 - slack) l1, a rule that does not depend on the scale of the objective.

    slack : fraction of the bound (0 to 1). A larger value keeps more zeros, which makes steps longer
    least : the minimum fraction (0 to 1) of the active set that leaves together, because a restriction copies the
        metric. A larger value takes fewer copies and longer steps
    """

    slack: float = 0.1
    least: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(self, 0, "slack", "least")

    def shrink(self, active: ScreenedPoint, last_violation: float, n_items: int) -> NDArray[np.bool_] | None:
        """Drop zeros; return the mask of the coordinates that stay, None for all."""
        return drop_zeros(active, self.slack * active.local.threshold, self.least)


def drop_zeros(active: ScreenedPoint, slack: float | Vector, min_fraction: float) -> NDArray[np.bool_] | None:
    """Drop zeros (or blocks of zeros) whose dual norm does not exceed threshold - slack; return the mask of the
    coordinates that stay, None for all. Fewer than the fraction `min_fraction` of the set are not dropped."""
    keep = active.local.dual_norm(active.w, active.g) > active.local.threshold - slack
    if keep.all() or keep.mean() > 1.0 - min_fraction:
        return None
    active.restrict(keep)
    return keep


WorkingSetRule: TypeAlias = AllCoordinates | TopViolators
Shrinking: TypeAlias = ByLastViolation | ByShareOfBound
