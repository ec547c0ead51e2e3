"""Base of the penalties, the norm of a kernel machine, and a bound on the loss in the place of a penalty's strength.

Shapes: I items; n coordinates passed in as `coords`, sorted int64, with their weights w and gradients g, float64 (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.errors import InputError
from crfqn.kernels.row_norm import RowStrengths
from crfqn.kernels.sparse import found_in, places, union
from crfqn.projections import project_halfspace


class Layout(NamedTuple):
    """What a penalty is made for: F features and K states, the coordinates without penalty, the norm of groups.

    groups : int64 (F,), the block of each feature, where groups are blocks of features within a state
    factors : `crfqn.penalties.factors.FeatureFactors`, where each feature has one
    """

    n_features: int
    n_states: int
    unpenalised: Coords
    norm: str = "l2"
    groups: Coords | None = None
    factors: Any = None


class Ridge(NamedTuple):
    """Coordinates (sorted) under l2/2 w_j^2 alone, in the place of what the penalty has for all others."""

    coords: Coords
    l2: float


NO_RIDGE = Ridge(NO_COORDS, 0.0)


class PenalisedRows(NamedTuple):
    """A penalty of whole rows that has the same strengths for all but the unpenalised ones; unpenalised : sorted
    int64, the features of these."""

    strengths: RowStrengths
    unpenalised: Coords

    def is_unpenalised(self, features: Coords) -> NDArray[np.bool_]:
        """Return which of some features are without penalty."""
        return found_in(self.unpenalised, features)[1]


class Penalty:
    """A convex penalty l1 ||w||_1 + l2/2 ||w||^2 + norms of rows, over all coordinates but the unpenalised ones and
    those of `ridge`.

    A subclass has `from_strengths`, `at`, the penalty at some coordinates, and
    screen(point) : the blocks that may leave zero, whole, and perhaps others, with the gradient there;
    norm_bounds(value) : the largest L1 and Euclidean norms of penalised weights whose penalty is at most `value`.
    Solvers ask its properties, never for its class.


    is_separable : whether it is a sum over coordinates, l1_of |w_j| + l2_of/2 w_j^2
    is_quadratic : whether it is l2_of/2 w_j^2 alone, without L1 and groups
    has_hidden_kinks : whether it has kinks elsewhere than at zero, which Newton's method does not see past
    min_threshold : the smallest |gradient| above which a single weight at zero can leave zero, the other gradients of
        its block being 0; the unit of violations where nothing is proved. 0 without kinks at zero
    l1, l2 : the strengths that the user sets; those of each weight are `l1_of` and `l2_of`
    unpenalised : sorted int64, the coordinates without penalty
    """

    STRENGTHS: ClassVar[tuple[str, ...]] = ("l1", "l2")  # its fields that `scaled` multiplies
    is_separable: ClassVar[bool] = False
    is_quadratic: Any = False
    has_hidden_kinks: Any = False
    min_threshold: Any
    l1: float
    l2: float
    unpenalised: Coords
    ridge: Ridge = NO_RIDGE

    @classmethod
    def from_strengths(cls, strengths: Mapping[str, float], layout: Layout) -> Penalty:
        """Return the penalty of these strengths by name, as estimators make it (`crfqn/choices.py`)."""
        raise NotImplementedError

    def with_strengths(self, **strengths: float) -> Penalty:
        """Return the penalty with other strengths, by the names that users give them; one whose fields are not the
        users' strengths has its own."""
        return replace(self, **strengths)  # type: ignore[type-var]

    def strengths_at(self, name: str, coords: Coords, gradient: Vector) -> Vector:
        """Return, for each penalised weight or block at zero, the strength `name` above which its gradient leaves it at
        zero, the others as they are."""
        l1_of_unit = self.with_strengths(**{name: 1.0}).l1_of(coords)
        is_penalised = l1_of_unit > 0
        return np.abs(gradient[is_penalised]) / l1_of_unit[is_penalised]

    @property
    def least_l1(self) -> float:
        """The smallest of `l1_of` at penalised weights: screening looks at no zero whose |gradient| is below it. It is
        `l1` unless strengths differ."""
        return self.l1

    @property
    def needs_check(self) -> bool:
        """Whether a training compares `l1_of` at all coordinates with `least_l1`, as of classes outside of crfqn."""
        return not self.has_one_l1

    @property
    def is_uniform(self) -> bool:
        """Whether `l1` and `l2` are the strengths at every coordinate that is penalised."""
        return self.has_one_l1 and not self.ridge.coords.size

    @property
    def has_one_l1(self) -> bool:
        """Whether they are the strengths wherever there is a kink at zero: no subclass has others."""
        return type(self).l1_of is Penalty.l1_of and type(self).l2_of is Penalty.l2_of

    @property
    def is_row_separable(self) -> bool:
        """Whether it is a sum over rows, the weights of all states of a feature; every separable penalty is one."""
        return self.is_separable

    def at(self, coords: Coords) -> Any:
        """Return the penalty at n coordinates: what belongs to them, but not to the weights, is found once.

        It has `blocks`, whose weights leave zero all or none, when their `dual_norm(w, g)` exceeds `threshold`, both
        (n,) and the norm infinite where a block is not zero; `value(w)`, `violation(w, g)`, `largest_violation(w, g)`,
        `gradient(w)`, `hessian_times(w, d)` (None: zero) and `descend(problem, d, base_d)`, coordinate descent
        on a quadratic model (`kernels/coordinate_descent.py`).
        """
        raise NotImplementedError

    def rows(self, n_features: int, n_states: int) -> PenalisedRows:
        """Return the penalty of rows, where it `is_row_separable` and `is_uniform`; InputError where some weights of a
        feature, but not all of them, are unpenalised."""
        features, counts = np.unique(self.unpenalised % n_features, return_counts=True)
        if np.any(counts != n_states):
            raise InputError(
                f"expected all {n_states} weights of a feature to be free or none, "
                f"got {counts.min()} of feature {features[counts.argmin()]}"
            )
        return PenalisedRows(RowStrengths(float(self.l1), float(self.l2), 0.0, False), features)

    def scaled(self, factor: float) -> Penalty:
        """Return the penalty with all strengths times `factor`, as for a loss over that fraction of the items."""
        strengths = {name: factor * getattr(self, name) for name in self.STRENGTHS}
        ridge = self.ridge._replace(l2=factor * self.ridge.l2)
        return replace(self, **strengths, ridge=ridge)  # type: ignore[type-var]

    screen: Any
    norm_bounds: Any

    def l1_of(self, coords: Coords) -> Vector:
        """Return the strength of |w_j| for each coordinate, (n,)."""
        return self._strength_of(coords, self.l1, 0.0)

    def l2_of(self, coords: Coords) -> Vector:
        """Return the strength of w_j^2 / 2 for each coordinate, (n,)."""
        return self._strength_of(coords, self.l2, self.ridge.l2)

    def _strength_of(self, coords: Coords, strength: float, of_ridge: float) -> Vector:
        """Return the strength at each coordinate, 0 at unpenalised ones, (n,)."""
        strengths = np.full(coords.size, strength)
        if self.unpenalised.size and strength:
            strengths[self.is_unpenalised(coords)] = 0.0
        if self.ridge.coords.size:
            strengths[are_members(coords, self.ridge.coords)] = of_ridge
        return strengths

    def is_unpenalised(self, coords: Coords) -> NDArray[np.bool_]:
        """Return a mask of the coordinates without penalty, (n,); distinct ones in any order."""
        return are_members(coords, self.unpenalised)

    def is_differentiable(self, coords: Coords) -> NDArray[np.bool_]:
        """Return a mask of the coordinates at which the penalty is differentiable at zero: unpenalised ones and those
        of the ridge, (n,)."""
        mask = self.is_unpenalised(coords)
        return mask | are_members(coords, self.ridge.coords) if self.ridge.coords.size else mask

    def _with_ridge(self, screening: Screening, point: Any) -> Screening:
        """Return a screening of a point with all coordinates of the ridge, which are at no bound."""
        missing = self.ridge.coords[~found_in(screening.coords, self.ridge.coords)[1]]
        if not missing.size:
            return screening
        coords = union(screening.coords, missing)
        gradient = np.empty(coords.size)
        gradient[places(coords, screening.coords)] = screening.gradient
        gradient[places(coords, missing)] = point.gradient(missing)
        return Screening(coords, gradient)

    def _norms_with_ridge(self, value: float, l1_norm: float, l2_norm: float) -> tuple[float, float]:
        """Return `norm_bounds` of all penalised weights, from those without the ridge's."""
        n, l2 = self.ridge.coords.size, self.ridge.l2
        if not n:
            return l1_norm, l2_norm
        length = float(np.sqrt(2.0 * value / l2)) if l2 > 0 else np.inf
        return l1_norm + float(np.sqrt(n)) * length, float(np.hypot(l2_norm, length))

    def value(self, coords: Coords, w: Vector) -> float:
        """Return the penalty of weights w at `coords`, in nats; zeros may be left out."""
        return self.at(coords).value(w)

    def prox(self, coords: Coords, w: Vector, step: float) -> Vector:
        """Return argmin_v 1/2 ||v - w||^2 + step * penalty(v)."""
        return self.at(coords).prox(w, step)

    def violation(self, coords: Coords, w: Vector, g: Vector) -> Vector:
        """Return the distance of -g to the subdifferential at w, (n,): the one measure of optimality."""
        return self.at(coords).violation(w, g)

    def conjugate(self, coords: Coords, g: Vector) -> float:
        """Return the conjugate at -g, subtracted in the dual value; infinite where the dual point is infeasible.

        `coords` must hold every coordinate, or every row, whose gradient is above its bound.
        """
        return self.at(coords).conjugate(g)

    def dual_scales(self, coords: Coords, g: Vector) -> list[float]:
        """Return factors s to try in a certificate: s g is feasible, or has a small conjugate."""
        return self.at(coords).dual_scales(g)


def are_members(coords: Coords, members: Coords) -> NDArray[np.bool_]:
    """Return a mask of the coordinates, distinct ones in any order, that are among sorted others, (n,)."""
    place, is_there = found_in(coords, members)
    if not is_there.all():  # or found nowhere, where the coordinates are in another order
        return found_in(members, coords)[1]
    mask = np.zeros(coords.size, bool)
    mask[place] = True
    return mask


def check_strengths(penalty: Penalty, *names: str) -> None:
    """Raise InputError for strengths that are negative or not finite."""
    for name in names:
        strength = getattr(penalty, name)
        if not (np.isfinite(strength) and strength >= 0):
            raise InputError(f"{name}: expected a finite number >= 0, got {strength!r}")
    l2 = penalty.ridge.l2
    if not (np.isfinite(l2) and l2 >= 0):
        raise InputError(f"ridge: expected a finite l2 >= 0, got {l2!r}")


@dataclass(frozen=True, eq=False)
class KernelNorm(Penalty):
    """Norm of functions that a kernel expands: l2/2 sum_k a_k' K a_k over the states k, K the Gram matrix (product :
    sorted coordinates and values (n,) -> K a there); l2/2 ||w||^2 of the weights in its unseen feature space."""

    is_quadratic: ClassVar[bool] = True  # type: ignore[misc] # of the weights in the feature space
    min_threshold: ClassVar[float] = 0.0  # type: ignore[misc]

    product: Callable[[NDArray[np.int64], Vector], Vector]
    l2: float
    l1: float = field(default=0.0, init=False)
    unpenalised: Coords = field(default_factory=lambda: NO_COORDS, init=False)

    def __post_init__(self) -> None:
        check_strengths(self, "l2")

    def value(self, coords: Coords, w: Vector) -> float:
        return 0.5 * self.l2 * float(w @ self.product(coords, w)) if w.size else 0.0


@dataclass(frozen=True)
class LossBudget:
    """V = {losses: sum_i weight_i loss_i <= bound}, a half-space (Chierchia et al. 2015, equation 13).

    Parameters
    ----------
    bound : float > 0, eta, in the unit of the loss summed over the items
    """

    bound: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"bound: expected a finite number > 0, got {self.bound!r}")

    def project(self, losses: Vector, weights: Vector) -> Vector:
        """Return the nearest losses within the budget."""
        return project_halfspace(losses, weights, self.bound)

    def excess(self, total: float) -> float:
        """Return how far a weighted sum of losses is above the budget, as a share of it."""
        return max(total - self.bound, 0.0) / self.bound
