"""The active set: the coordinates that an epoch works on, which ones open it, and which zeros leave it.

It opens with all coordinates, or with the non-zero weights and the violating zeros that promise most, and only shrinks
until the epoch ends (Zhong et al. 2014, section 2.3 and Algorithm 2, lines 3-12 and 17). `AllCoordinates` and
`ByLastViolation` are the paper's rules, `TopViolators` and `ByShareOfBound` the default.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.sparse.sorted_sets import union
from crfqn.solvers.certificate import best_dual_value
from crfqn.solvers.protocols import (
    Coords,
    LocalPenalty,
    Objective,
    Penalty,
    Point,
    Ray,
    Screening,
    State,
    Vector,
)
from crfqn.solvers.settings import check_numbers


@dataclass(eq=False)
class ActiveSet:
    """A point seen through the coordinates that may move.

    Attributes
    ----------
    coords : sorted int64 (n,); w, g : float64 (n,): weights and gradient of the loss
    local : the penalty at the coordinates
    outside : largest violation among the coordinates left out
    is_growing : coordinates have waited to come in since the last epoch whose optimum was near
    """

    penalty: Penalty
    point: Point
    coords: Coords
    w: Vector
    g: Vector
    outside: float = 0.0
    is_growing: bool = False

    def __post_init__(self) -> None:
        self.local: LocalPenalty = self.penalty.at(self.coords)
        self.penalty_value = self.local.value(self.w)

    @property
    def value(self) -> float:
        """The objective at the point, penalty included."""
        return self.point.value + self.penalty_value

    @property
    def violation(self) -> float:
        """The largest KKT violation within the set (M of Algorithm 2)."""
        return self.local.largest_violation(self.w, self.g)

    def state(self, dual_value: float = -np.inf, is_screening: bool = False) -> State:
        """Return what the loop around the solver sees."""
        violation = max(self.violation, self.outside) if is_screening else self.violation
        return State(self.point, self.value, violation, self.coords.size, dual_value, is_screening)

    def slope(self, d: Vector) -> float:
        """Return Delta of the Armijo rule: g'd + penalty(w + d) - penalty(w)."""
        return float(self.g @ d) + self.local.value(self.w + d) - self.penalty_value

    def ray(self, d: Vector) -> Ray:
        """Return the ray along a direction."""
        moved = np.flatnonzero(d)
        return self.point.along(self.coords[moved], d[moved])

    def try_step(self, step: Vector, ray: Ray, alpha: float = 1.0) -> tuple[Point, float]:
        """Evaluate the point w + step, `alpha` along the ray, and the decrease of the objective."""
        trial = ray.at(alpha)
        change = self.local.value(self.w + step) - self.penalty_value
        return trial, self.point.value - trial.value - change

    def accept(self, step: Vector, trial: Point) -> Vector:
        """Move to `trial` = w + step; returns y, the change of the gradient."""
        before, g = self.g, trial.gradient(self.coords)
        self.point, self.w, self.g = trial, self.w + step, g
        self.penalty_value = self.local.value(self.w)
        return g - before

    def change_of_gradient(self, trial: Point) -> Vector:
        """Return the change of the active coordinates' gradient from here to the trial point, (n,)."""
        return trial.gradient(self.coords) - self.g

    def shrink(self, slack: float | Vector, least: float) -> NDArray[np.bool_] | None:
        """Drop (blocks of) zeros whose dual norm is not above their threshold less the slack.

        Parameters
        ----------
        least : float, a share of the set: fewer are not worth the copy

        Returns
        -------
        What stays, bool (n,), or None for all.
        """
        keep = self.local.dual_norm(self.w, self.g) > self.local.threshold - slack
        if keep.all() or keep.mean() > 1.0 - least:
            return None
        self.coords, self.w, self.g = self.coords[keep], self.w[keep], self.g[keep]
        self.local = self.penalty.at(self.coords)
        return keep


@dataclass(frozen=True)
class AllCoordinates:
    """All coordinates open an epoch, as in the paper, up to 10 million of them: beyond, the violating ones.

    Zeros that do not violate cannot leave zero in an epoch's first step, so that what is lost are the later steps of
    some of them, until the next epoch. A warning says so.

    Parameters
    ----------
    most : int
        Coordinates, beyond which only the violating ones open an epoch: the vectors of a step take some 50 numbers
        each, 4 GB for the default.
    """

    most: int = 10_000_000
    uses_curvature: ClassVar[bool] = False

    def open(
        self, objective: Objective, penalty: Penalty, point: Point, was_growing: bool
    ) -> tuple[ActiveSet, float]:
        """Screen with a threshold that every gradient exceeds."""
        screening = penalty.screen(point)
        dual_value = best_dual_value(point, penalty, screening)
        if objective.n_coords <= self.most:
            screening = point.screen(-1.0)
        elif point.coords.size == 0:
            warnings.warn(
                f"Prox-QN as printed works on all {objective.n_coords:,} weights at first; above {self.most:,} it "
                "opens with those whose gradient exceeds the penalty",
                stacklevel=2,
            )
        return ActiveSet(penalty, point, *screened_coords(penalty, point, screening)), dual_value

    def goal(self, goal: float, active: ActiveSet) -> float:
        return goal


@dataclass(frozen=True)
class TopViolators:
    """A bounded number of violating coordinates come in, those that promise the largest decrease.

    Without a bound the first step on OCR (l1 = 100) makes 59,000 weights non-zero, against 1,487 at the optimum, and a
    quarter of the run goes into getting rid of them.

    Parameters
    ----------
    most : int or None
        At most max(most, 2 non-zeros) coordinates are active in an epoch; None: all that violate.
    outside : float
        An epoch does not solve below this share of the largest violation left outside its active set: 53 passes to 1e-3
        on OCR without a warm start, instead of 111.
    """

    most: int | None = 2000
    outside: float = 0.5

    def __post_init__(self) -> None:
        if self.most is not None:
            check_numbers(self, 1, "most")
        check_numbers(self, 0, "outside")

    @property
    def uses_curvature(self) -> bool:
        return self.most is not None

    def open(
        self, objective: Objective, penalty: Penalty, point: Point, was_growing: bool
    ) -> tuple[ActiveSet, float]:
        """Screen, and rank what was found if it is too much."""
        screening = penalty.screen(point)
        dual_value = best_dual_value(point, penalty, screening)
        coords, w, g = screened_coords(penalty, point, screening)
        limit = coords.size if self.most is None else max(self.most, 2 * point.coords.size)
        outside = 0.0
        if coords.size > limit:
            keep, outside = top_violators(penalty, point, coords, w, g, limit)
            coords, w, g = coords[keep], w[keep], g[keep]
        active = ActiveSet(penalty, point, coords, w, g, outside)
        active.is_growing = outside > 0 or (was_growing and active.violation > penalty.dual_radius)
        return active, dual_value

    def goal(self, goal: float, active: ActiveSet) -> float:
        return max(goal, self.outside * active.outside)


def screened_coords(penalty: Penalty, point: Point, screening: Screening) -> tuple[Coords, Vector, Vector]:
    """Return the screened coordinates, the point's and the unpenalised ones, with weights and gradient, (n,) each."""
    coords = union(screening.coords, point.coords, penalty.unpenalised)
    w, g = np.zeros(coords.size), np.zeros(coords.size)
    w[np.searchsorted(coords, point.coords)] = point.weights
    g[np.searchsorted(coords, screening.coords)] = screening.gradient
    is_missing = np.ones(coords.size, bool)
    is_missing[np.searchsorted(coords, screening.coords)] = False
    g[is_missing] = point.gradient(coords[is_missing])
    return coords, w, g


def top_violators(
    penalty: Penalty, point: Point, coords: Coords, w: Vector, g: Vector, limit: int
) -> tuple[NDArray[np.intp], float]:
    """Return about `limit` coordinates, the blocks that promise most, and the largest violation left out.

    A block alone would win violation^2 / (2 curvature). Ranking by the violation instead lets the most frequent
    features in, which are the most correlated ones.
    """
    local = penalty.at(coords)
    blocks, violation = local.blocks, local.violation(w, g)
    gain = violation**2 / blocks.spread(blocks.largest(curvature_at_entry(point, coords)))
    gain[(w != 0) | np.isin(coords, penalty.unpenalised)] = np.inf
    order = np.argsort(-blocks.largest(gain), kind="stable")
    n_before = np.cumsum(blocks.sizes[order]) - blocks.sizes[order]
    enters = np.zeros(order.size, bool)
    enters[order[n_before < limit]] = True
    keep = blocks.spread(enters)
    return np.flatnonzero(keep), float(violation[~keep].max(initial=0.0))


@dataclass(frozen=True)
class ByLastViolation:
    """The paper's rule (line 8): a zero stays where |g| > l1 - M^ / N, M^ the largest violation an iteration before."""

    def shrink(self, active: ActiveSet, last_violation: float, n_items: int) -> NDArray[np.bool_] | None:
        """Drop what is as far within as the weights may still move it, an item on average."""
        if last_violation == np.inf:
            return None
        return active.shrink(last_violation / n_items, 0.0)


@dataclass(frozen=True)
class ByShareOfBound:
    """A zero stays where |g| > (1 - margin) l1: the same for sums and for means over the items.

    Parameters
    ----------
    margin : float
    least : float, a share of the active set: a restriction copies the metric, and is not worth it for fewer coordinates
    """

    margin: float = 0.1
    least: float = 0.1

    def __post_init__(self) -> None:
        check_numbers(self, 0, "margin", "least")

    def shrink(self, active: ActiveSet, last_violation: float, n_items: int) -> NDArray[np.bool_] | None:
        """Drop what is well within the bound."""
        return active.shrink(self.margin * active.local.threshold, self.least)


def curvature_at_entry(point: Point, coords: Coords) -> Vector:
    """Return the curvature by which coordinates that may come in are compared, (n,)."""
    return point.curvature(coords).diagonal + point.feature_scale(coords)


# What opens an epoch: `open` screens all coordinates, and `goal` says at which violation the epoch ends, given the one
# that the coordinates left out allow. `uses_curvature`: whether it asks points for theirs.
WorkingSetRule: TypeAlias = AllCoordinates | TopViolators
# Which zeros leave: `shrink` returns what stays, None for all; `last_violation`: M^ of Algorithm 2, infinite at first.
Shrinking: TypeAlias = ByLastViolation | ByShareOfBound
