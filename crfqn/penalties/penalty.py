"""Base of the penalties: strengths by coordinate, and norms of blocks if there are any.

    sum_j (l1_j |w_j| + l2_j/2 w_j^2) + sum_b group_b ||w_b||

The strengths are those that the user sets, times the factor of the feature if features have factors. They are 0 at
unpenalised coordinates; coordinates of the ridge have another l2 and no l1.
Shapes: n coordinates passed in as `coords`, sorted int64, with their weights w and gradients g, float64 (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partialmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.errors import InputError
from crfqn.kernels.coordinate_descent import Subproblem
from crfqn.kernels.row_norm import RowStrengths
from crfqn.kernels.sparse import entries_at, found_in, places, union
from crfqn.penalties.factors import FeatureFactors, Layout


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Partition of n coordinates into blocks; a group penalty sets all weights of a block to zero, or none.

    order : a permutation (n,); starts : (n_blocks + 1,). The coordinates of block b are order[starts[b]] ...
        order[starts[b + 1] - 1].
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @staticmethod
    def single(n: int) -> Partition:
        """Make a block of each of n coordinates."""
        return Partition(np.arange(n), np.arange(n + 1))

    @staticmethod
    def from_names(names: NDArray[np.int64]) -> Partition:
        """Make a block of all coordinates with the same name, (n,), in the order of the names."""
        order = np.argsort(names, kind="stable")
        is_new = np.diff(names[order], prepend=-1) != 0
        return Partition(order, np.append(np.flatnonzero(is_new), names.size))

    @property
    def n_blocks(self) -> int:
        return self.starts.size - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of coordinates of each block, (n_blocks,)."""
        return np.diff(self.starts)

    def reduce(self, ufunc: np.ufunc, values: NDArray) -> NDArray:
        """Return the reduction of values (n,) by a ufunc over each block, (n_blocks,)."""
        return ufunc.reduceat(values[self.order], self.starts[:-1]) if self.n_blocks else np.empty(0)

    total = partialmethod(reduce, np.add)
    largest = partialmethod(reduce, np.maximum)

    def restricted_to(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], Partition]:
        """Return the places of the chosen blocks' coordinates, and the partition of these alone."""
        sizes = self.sizes[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        places = self.order[np.repeat(self.starts[chosen], sizes) + within]
        return places, Partition(np.arange(places.size), starts)

    def spread(self, per_block: NDArray) -> NDArray:
        """Return each block's value, (n_blocks,), at all of its coordinates, (n,)."""
        out = np.empty(self.order.size, per_block.dtype)
        out[self.order] = np.repeat(per_block, self.sizes)
        return out


class Ridge(NamedTuple):
    """Coordinates (sorted) with the penalty l2/2 w_j^2 instead of that of all others."""

    coords: Coords
    l2: float


NO_RIDGE = Ridge(NO_COORDS, 0.0)


class PenalisedRows(NamedTuple):
    """A penalty of whole rows with the same strengths for all but the unpenalised ones; unpenalised : the features of
    these, sorted int64."""

    strengths: RowStrengths
    unpenalised: Coords

    def is_unpenalised(self, features: Coords) -> NDArray[np.bool_]:
        """Return which of some features are without penalty."""
        return found_in(self.unpenalised, features)[1]


class LocalPenalty:
    """Base of a penalty at n coordinates: what depends on them, but not on the weights, is computed once.

    blocks : a block of each coordinate by default; the weights of a block leave zero together or not at all, when their
        `dual_norm(w, g)`, (n,), which is infinite if the block is not zero, exceeds `threshold`, (n,)
    l1, l2 : the strengths, by block; group : those of the norms of groups
    value(w), violation(w, g), largest_violation(w, g), conjugate(g), prox(w, step) : as of `Penalty`
    largest_scale(g) : the largest s <= 1 with which s g is feasible
    gradient(w), hessian_times(w, d) : derivatives at weights that are not zero; None for a Hessian of 0
    descend(problem, d, base_d) : coordinate descent on a quadratic model (`kernels/coordinate_descent.py`)
    """

    threshold: Vector
    l1: Vector
    l2: Vector
    group: Vector
    dual_norm: Callable[[Vector, Vector], Vector]
    value: Callable[[Vector], float]
    violation: Callable[[Vector, Vector], Vector]
    largest_violation: Callable[[Vector, Vector], float]
    conjugate: Callable[[Vector], float]
    prox: Callable[[Vector, float], Vector]
    largest_scale: Callable[[Vector], float]
    gradient: Callable[[Vector], Vector]
    hessian_times: Callable[[Vector, Vector], Vector | None]
    descend: Callable[[Subproblem, Vector, NDArray[np.float32]], int]

    blocks = cached_property(lambda self: Partition.single(self.l1.size))


class Penalty:
    """A convex penalty over all coordinates but the unpenalised ones and those of `ridge`.

    A subclass is a frozen dataclass with these fields and two methods: at(coords), the penalty at some coordinates, and
    screen(point), the blocks that may leave zero, whole, and perhaps others, with the gradient there.
    Solvers read its properties, never its class.

    is_separable : whether it has no blocks: it is a sum over coordinates, l1_of |w_j| + l2_of/2 w_j^2
    is_row_separable : whether it is a sum over rows, the weights of all states of a feature
    has_hidden_kinks : whether it has kinks other than at zero, which Newton's method does not take into account
    l1, l2, group_l1 : the strengths that the user sets; those of each weight are `l1_of` and `l2_of`
    unpenalised : sorted int64, the coordinates without penalty
    feature_factors : factors of the strengths of weights, or None; coordinates of factor 0 are unpenalised
    min_factor : the smallest factor of a penalised weight
    lengths_per_norm : the largest ratio of a block's Euclidean length to its norm
    """

    STRENGTHS: ClassVar[tuple[str, ...]] = ("l1", "l2")  # its fields that `scaled` multiplies
    is_separable: ClassVar[bool] = False
    is_row_separable: ClassVar[bool] = False
    has_hidden_kinks: bool = False
    l1: float
    l2: float
    group_l1: float = 0.0
    unpenalised: Coords
    ridge: Ridge = NO_RIDGE
    feature_factors: FeatureFactors | None = None
    min_factor: float
    lengths_per_norm: float = 1.0
    at: Callable[[Coords], LocalPenalty]
    screen: Callable[[Any], Screening]

    def __post_init__(self) -> None:
        """Raise InputError for strengths that are negative or not finite."""
        for name in self.STRENGTHS:
            strength = getattr(self, name)
            if not (np.isfinite(strength) and strength >= 0):
                raise InputError(f"{name}: expected a finite number >= 0, got {strength!r}")
        l2 = self.ridge.l2
        if not (np.isfinite(l2) and l2 >= 0):
            raise InputError(f"ridge: expected a finite l2 >= 0, got {l2!r}")
        factors = self.feature_factors
        # The dataclass is frozen otherwise.
        object.__setattr__(self, "min_factor", 1.0 if factors is None else factors.minimum)
        if factors is not None:
            object.__setattr__(self, "unpenalised", union(self.unpenalised, factors.zeros()))

    @classmethod
    def from_strengths(cls, strengths: Mapping[str, float], layout: Layout) -> Self:
        """Return the penalty of strengths by name, as estimators make it (`crfqn/choices.py`)."""
        names = {each.name for each in fields(cls)}  # type: ignore[arg-type]
        of_layout = {name: value for name, value in layout._asdict().items() if name in names}
        return cls(**{name: strengths[name] for name in cls.STRENGTHS}, **of_layout)

    def with_strengths(self, **strengths: float) -> Penalty:
        """Return the penalty with other strengths, by the names of users; a class whose fields are not the strengths of
        users overrides it."""
        return replace(self, **strengths)  # type: ignore[type-var]

    def strengths_at(self, name: str, coords: Coords, gradient: Vector) -> Vector:
        """Return, for each penalised weight or block at zero, the strength `name` above which it stays at zero, the
        other strengths unchanged."""
        l1_of_unit = self.with_strengths(**{name: 1.0}).l1_of(coords)
        is_penalised = l1_of_unit > 0
        return np.abs(gradient[is_penalised]) / l1_of_unit[is_penalised]

    @property
    def min_l1(self) -> float:
        """The smallest of `l1_of` at penalised weights: screening skips zeros whose |gradient| is below it."""
        return self.min_factor * self.l1

    @property
    def min_threshold(self) -> float:
        """The smallest |gradient| above which a single weight at zero can leave zero if the other gradients of its
        block are 0; the unit of violations if nothing is proved. It is 0 without kinks at zero."""
        return self.min_l1 + self.min_factor * self.group_l1

    @property
    def needs_check(self) -> bool:
        """Whether a training compares `l1_of` at all coordinates with `min_l1`: a subclass overrides the strengths."""
        return type(self).l1_of is not Penalty.l1_of or type(self).l2_of is not Penalty.l2_of

    @property
    def has_one_l1(self) -> bool:
        """Whether `l1` and `l2` are the strengths of all coordinates with a kink at zero."""
        return not self.needs_check and self.feature_factors is None

    @property
    def is_uniform(self) -> bool:
        """Whether `l1` and `l2` are the strengths of all penalised coordinates."""
        return self.has_one_l1 and not self.ridge.coords.size

    @property
    def is_quadratic(self) -> bool:
        """Whether it is the sum of l2_of/2 w_j^2, without L1 and blocks."""
        return self.l1 == self.group_l1 == 0 and type(self).l1_of is Penalty.l1_of

    def rows(self, n_features: int, n_states: int) -> PenalisedRows:
        """Return the penalty of rows if it `is_row_separable` and `is_uniform`; InputError if some weights of a
        feature, but not all of them, are unpenalised."""
        features, counts = np.unique(self.unpenalised % n_features, return_counts=True)
        if np.any(counts != n_states):
            raise InputError(
                f"expected all {n_states} weights of a feature to be free or none, "
                f"got {counts.min()} of feature {features[counts.argmin()]}"
            )
        return PenalisedRows(
            RowStrengths(float(self.l1), float(self.l2), float(self.group_l1), False), features
        )

    def scaled(self, factor: float) -> Penalty:
        """Return the penalty with all strengths times `factor`, for a loss over this fraction of the items."""
        strengths = {name: factor * getattr(self, name) for name in self.STRENGTHS}
        ridge = self.ridge._replace(l2=factor * self.ridge.l2)
        return replace(self, **strengths, ridge=ridge)  # type: ignore[type-var]

    def l1_of(self, coords: Coords) -> Vector:
        """Return the strength of |w_j| for each coordinate, (n,)."""
        return self.strengths_of(coords, self.l1, 0.0)

    def l2_of(self, coords: Coords) -> Vector:
        """Return the strength of w_j^2 / 2 for each coordinate, (n,)."""
        return self.strengths_of(coords, self.l2, self.ridge.l2)

    def strengths_of(self, coords: Coords, strength: float, of_ridge: float) -> Vector:
        """Return a strength times the factor of each coordinate, `of_ridge` at those of the ridge, 0 at unpenalised
        ones, (n,)."""
        strengths = np.full(coords.size, strength)
        if self.feature_factors is not None:
            strengths *= self.feature_factors.at(coords)
        if self.unpenalised.size and strength:
            strengths[self.is_unpenalised(coords)] = 0.0
        if self.ridge.coords.size:
            strengths[are_members(coords, self.ridge.coords)] = of_ridge
        return strengths

    def is_unpenalised(self, coords: Coords) -> NDArray[np.bool_]:
        """Return a mask of the coordinates without penalty, (n,); distinct ones in any order."""
        return are_members(coords, self.unpenalised)

    def is_smooth(self, coords: Coords) -> NDArray[np.bool_]:
        """Return a mask of the coordinates at which the penalty is differentiable at zero: unpenalised ones and those
        of the ridge, (n,)."""
        mask = self.is_unpenalised(coords)
        return mask | are_members(coords, self.ridge.coords) if self.ridge.coords.size else mask

    def _may_move(self, screening: Screening, point: Any) -> Screening:
        """Return the blocks of a screening that are not zero or whose gradient exceeds its bound."""
        coords, g = screening.coords, screening.gradient
        local = self.at(coords)
        moves = local.dual_norm(entries_at(coords, point.coords, point.weights), g) > local.threshold
        return screening if moves.all() else screening.restricted_to(moves)

    def _with_ridge(self, screening: Screening, point: Any) -> Screening:
        """Return a screening of a point with all coordinates of the ridge, which have no bound."""
        missing = self.ridge.coords[~found_in(screening.coords, self.ridge.coords)[1]]
        if not missing.size:
            return screening
        coords = union(screening.coords, missing)
        gradient = np.empty(coords.size)
        gradient[places(coords, screening.coords)] = screening.gradient
        gradient[places(coords, missing)] = point.gradient(missing)
        return Screening(coords, gradient)

    def norm_bounds(self, value: float) -> tuple[float, float]:
        """Return upper bounds on the L1 and Euclidean norms of penalised weights with a penalty of `value` or less."""
        l1, l2, group = (self.min_factor * strength for strength in (self.l1, self.l2, self.group_l1))
        l1_norm = value / l1 if l1 > 0 else np.inf
        l2_norm = min(l1_norm, float(np.sqrt(2.0 * value / l2)) if l2 > 0 else np.inf)
        if group > 0:  # the sum of the blocks' lengths bounds the length of all weights
            l2_norm = min(l2_norm, float(self.lengths_per_norm * value / group))
        n, l2 = self.ridge.coords.size, self.ridge.l2
        if not n:
            return l1_norm, l2_norm
        length = float(np.sqrt(2.0 * value / l2)) if l2 > 0 else np.inf
        return l1_norm + float(np.sqrt(n)) * length, float(np.hypot(l2_norm, length))

    def _iter_local(self, coords: Coords) -> Iterator[tuple[slice, LocalPenalty]]:
        """Yield parts of the coordinates and the penalty there, whose sum is the penalty: one part if blocks may not be
        cut."""
        yield slice(None), self.at(coords)

    def value(self, coords: Coords, w: Vector) -> float:
        """Return the penalty of weights w at `coords`, in nats; zeros may be left out."""
        return float(sum(local.value(w[part]) for part, local in self._iter_local(coords)))

    def prox(self, coords: Coords, w: Vector, step: float) -> Vector:
        """Return argmin_v 1/2 ||v - w||^2 + step * penalty(v)."""
        return self.at(coords).prox(w, step)

    def violation(self, coords: Coords, w: Vector, g: Vector) -> Vector:
        """Return the distance of -g to the subdifferential at w, (n,): the one measure of optimality."""
        return self.at(coords).violation(w, g)

    def conjugate(self, coords: Coords, g: Vector) -> float:
        """Return the conjugate at -g, which the dual value subtracts; infinite if the dual point is infeasible.

        `coords` must contain every coordinate, or every row, whose gradient exceeds its bound.
        """
        return float(sum(local.conjugate(g[part]) for part, local in self._iter_local(coords)))

    def dual_scales(self, coords: Coords, g: Vector) -> list[float]:
        """Return factors s to try in a certificate: s g is feasible, or its conjugate is small."""
        parts = [(local.largest_scale(g[part]), local.l2.any()) for part, local in self._iter_local(coords)]
        largest = min(scale for scale, _ in parts)
        scales = [largest] if largest > 0 else []
        if any(has_l2 for _, has_l2 in parts):
            scales += [1.0, *(0.5 * (1.0 + s) for s in scales)]
        return [*dict.fromkeys(scales)]


def are_members(coords: Coords, members: Coords) -> NDArray[np.bool_]:
    """Return a mask of the coordinates, distinct ones in any order, that are among sorted others, (n,)."""
    place, is_there = found_in(coords, members)
    if not is_there.all():  # some are missing, or the coordinates are not sorted
        return found_in(members, coords)[1]
    mask = np.zeros(coords.size, bool)
    mask[place] = True
    return mask
