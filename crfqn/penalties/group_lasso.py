"""Group penalties: all weights of a feature vanish together, or none.

The groups are the rows of the (features x states) weights. The sum of their Euclidean norms is the group lasso of Yuan
and Lin (2006), as Blondel, Seki and Uehara (2013) use it for multiclass models; with an additional L1 term it is the
sparse group lasso (Simon et al. 2013). `NORMS` are the norms of a row, with the classes of the penalty at n
coordinates.

Dual norm of a row's gradient: the Euclidean length of max(|g| - l1, 0). Shapes: n coordinates that are passed in as
`coords`, sorted int64, with their weights w and gradients g, float64 (n,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.errors import InputError
from crfqn.kernels.coordinate_descent import Subproblem
from crfqn.kernels.group_descent import BlockPenalty, descend_groups
from crfqn.kernels.row_norm import block_distances, prox_blocks
from crfqn.penalties.factors import FeatureFactors
from crfqn.penalties.penalty import NO_RIDGE, LocalPenalty, Partition, PenalisedRows, Penalty, Ridge
from crfqn.registry import find

# The classes of the penalty at some coordinates.
NORMS: Mapping[str, str] = {"l2": "LocalGroupLasso", "linf": "LocalLargestSizes"}
DUAL_NORM_ROUNDING = 1e-12  # relative to a bound: the rounding of a row's dual norm, a sum of K squares
MAX_NEWTON_STEPS = 100  # guard: the steps decrease monotonically


@dataclass(frozen=True, eq=False)
class GroupLasso(Penalty):
    """group_l1 sum_f ||w_f|| + l1 ||w||_1 + l2/2 ||w||^2 over all coordinates but the unpenalised ones.

    w_f are the weights of feature f, the coordinates k F + f of all states k. Each edge weight, from K F on, is a
    group. The argument `coords` of all methods must consist of whole rows; for `value` all nonzero weights of a row are
    enough.

    Parameters
    ----------
    group_l1, l1, l2 : float >= 0, in nats a unit of weight: the loss is a sum over items, not a mean.
    norm : {"l2", "linf"}
        The norm of a row: its Euclidean length, or its largest absolute value, which no smaller weight of the row adds
        to.
    n_features, n_states : int
        F and K.
    unpenalised : sorted ndarray of int64: coordinates without penalty, in no group (intercepts).
    ridge : Ridge: coordinates with another L2 term and no other penalty, in no group.
    feature_factors : FeatureFactors, optional: factors of the strengths of weights and groups.

    Attributes
    ----------
    local : the class of the penalty at n coordinates
    largest_block : the number of weights of the largest group
    n_blocks : the number of groups without those of a single coordinate
    """

    STRENGTHS: ClassVar[tuple[str, ...]] = ("group_l1", "l1", "l2")
    is_row_separable = True

    group_l1: float
    l1: float = 0.0
    l2: float = 0.0
    norm: str = "l2"
    unpenalised: Coords = field(default_factory=lambda: NO_COORDS)
    ridge: Ridge = NO_RIDGE
    n_features: int = field(kw_only=True)
    n_states: int = field(kw_only=True)
    feature_factors: FeatureFactors | None = field(default=None, kw_only=True)
    local: type[LocalGroupLasso] = field(init=False, repr=False)
    has_hidden_kinks: bool = field(init=False, repr=False)  # the largest sizes of a row tie at a minimum
    largest_block: int = field(init=False, repr=False)
    n_blocks: int = field(init=False, repr=False)
    _last: tuple[Coords, LocalGroupLasso] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm not in NORMS:
            raise InputError(f"norm: expected one of {[*NORMS]}, got {self.norm!r}")
        for name in ("n_features", "n_states"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected an integer >= 1, got {getattr(self, name)!r}")

        local = find(NORMS[self.norm])
        made = {"local": local, "has_hidden_kinks": local.is_linf}
        made |= {"largest_block": self.n_states, "n_blocks": self.n_features}
        made["lengths_per_norm"] = float(np.sqrt(self.n_states)) if local.is_linf else 1.0
        for name, value in made.items():
            object.__setattr__(self, name, value)  # frozen otherwise

    def block_numbers(self, coords: Coords) -> Coords:
        """Return the number of the group of each coordinate of a feature, (n,)."""
        return coords % self.n_features

    def strengths_at(self, name: str, coords: Coords, gradient: Vector) -> Vector:
        if name != "group_l1":
            return super().strengths_at(name, coords, gradient)
        local = replace(self, group_l1=1.0).at(coords)
        is_penalised = local.group > 0
        return local.dual_norms(gradient)[is_penalised] / local.group[is_penalised]

    def at(self, coords: Coords) -> LocalGroupLasso:
        """Return the penalty at n coordinates; the last is kept, because a screening uses it five times."""
        if self._last is None or self._last[0] is not coords:
            is_alone = self.is_smooth(coords) | (coords >= self.n_features * self.n_states)
            blocks = Partition.from_names(
                np.where(is_alone, self.n_blocks + coords, self.block_numbers(coords))
            )
            firsts = coords[blocks.order[blocks.starts[:-1]]]
            group = self.strengths_of(firsts, self.group_l1, 0.0)
            local = self.local(blocks, blocks.spread(group), self.l1_of(firsts), group, self.l2_of(firsts))
            object.__setattr__(self, "_last", (coords, local))  # frozen otherwise
        assert self._last is not None
        return self._last[1]

    def rows(self, n_features: int, n_states: int) -> PenalisedRows:
        if (self.n_features, self.n_states) != (n_features, n_states):
            raise InputError(
                f"expected a penalty over {n_features} features and {n_states} states, "
                f"got {self.n_features} and {self.n_states}"
            )
        rows = super().rows(n_features, n_states)
        return rows._replace(strengths=rows.strengths._replace(is_linf=self.local.is_linf))

    def screen(self, point: Any) -> Screening:
        """Return the whole rows that are not zero, or whose gradient's dual norm exceeds its bound, and the ridge."""
        screening = point.screen_rows(self.min_factor * self.group_l1, self.min_l1, self.local.dual_order)
        return self._with_ridge(self._may_move(screening, point), point)


@dataclass(frozen=True, eq=False)
class LocalGroupLasso(LocalPenalty):
    """The group lasso at n coordinates and their rows, `blocks`; l1, group, l2 : float64 (n_blocks,).

    A subclass has another norm of rows. is_linf : whether kernels take the largest size instead of the length;
    dual_order : the order of the dual norm
    """

    is_linf: ClassVar[bool] = False
    dual_order: ClassVar[int] = 2

    blocks: Partition = field()  # without the default of the base
    threshold: Vector
    l1: Vector
    group: Vector
    l2: Vector

    def norms(self, sizes: Vector, squares: Vector) -> Vector:
        """Return the norms of all rows (n_blocks,) from the absolute weights (n,) and each row's sum of squares."""
        return np.sqrt(squares)

    def combined(self, excess: Vector) -> Vector:
        """Return the dual norms of all rows, (n_blocks,)."""
        return np.sqrt(self.blocks.total(excess * excess))

    @staticmethod
    def dual_slope(left: Vector, row: Vector) -> float:
        """Return the derivative in s of the dual norm of left = max(s row - l1, 0)."""
        return float((left @ row) / np.sqrt(left @ left))

    def dual_norm(self, w: Vector, g: Vector) -> Vector:
        """Return the dual norm of rows of zeros, infinite for other rows, at each coordinate of the row, (n,)."""
        return self.blocks.spread(np.where(self.blocks.largest(np.abs(w)) > 0, np.inf, self.dual_norms(g)))

    def dual_norms(self, g: Vector) -> Vector:
        """Return the dual norms of all rows' gradients, (n_blocks,): norms of max(|g| - l1, 0)."""
        excess = np.maximum(np.abs(g) - self.blocks.spread(self.l1), 0.0) if self.l1.any() else g
        return self.combined(excess)

    def value(self, w: Vector) -> float:
        sizes, squares = np.abs(w), self.blocks.total(w * w)
        norms, l1_norms = self.norms(sizes, squares), self.blocks.total(sizes)
        return float(self.group @ norms + self.l1 @ l1_norms + 0.5 * (self.l2 @ squares))

    def prox(self, w: Vector, step: float) -> Vector:
        out = np.empty(w.size)
        blocks, strengths = self.blocks, (step * self.l1, step * self.group, step * self.l2)
        prox_blocks(blocks.order, blocks.starts, w, *strengths, self.is_linf, out)
        return out

    def violation(self, w: Vector, g: Vector) -> Vector:
        """Return the distance of -g to the subdifferential at w, in the Euclidean norm of a row, at each of its
        coordinates, (n,).

        For zeros under the Euclidean norm it is ||max(|g| - l1, 0)|| - group_l1, if positive; else ||g + group_l1 w /
        ||w|| + ...||.
        """
        return self.blocks.spread(self.distances(w, g))

    def distances(self, w: Vector, g: Vector) -> Vector:
        """Return the distance of -g to the subdifferential at w, by row, (n_blocks,)."""
        out = np.empty(self.blocks.n_blocks)
        blocks = self.blocks
        block_distances(blocks.order, blocks.starts, w, g, self.l1, self.group, self.l2, self.is_linf, out)
        return out

    def largest_violation(self, w: Vector, g: Vector) -> float:
        """Return the largest distance of a row, or of a coordinate in no group; NaN if a gradient is NaN, so that the
        weights do not seem optimal."""
        return np.nan if np.isnan(g).any() else float(self.distances(w, g).max(initial=0.0))

    def conjugate(self, g: Vector) -> float:
        """Return the conjugate at -g; infinite if a row without l2 is outside the dual ball. A row adds the square of
        its distance to the dual ball, the length of the prox, over 2 l2."""
        is_outside = self.dual_norms(g) - self.group > DUAL_NORM_ROUNDING * (self.group + self.l1)
        if not is_outside.any():
            return 0.0
        if np.any((self.l2 == 0) & is_outside):
            return np.inf
        excess = self.distances(np.zeros(g.size), g)[is_outside]
        return float(np.sum(excess**2 / (2 * self.l2[is_outside])))

    def largest_scale(self, g: Vector) -> float:
        """Return the largest s <= 1 with which s g is feasible; 0 if only 0 is.

        The excess of the worst row's dual norm is convex in s, linear without L1: Newton's method decreases s from 1
        monotonically to the root.
        """
        is_bounded = (self.group + self.l1 > 0) | (self.l2 == 0)  # l2 alone bounds nothing
        if not self.l1.any():
            norms = self.dual_norms(g)
            above = ~(norms <= self.group) & is_bounded
            return float(np.min(self.group[above] / norms[above], initial=1.0))
        s = 1.0
        for _ in range(MAX_NEWTON_STEPS):
            excess = np.where(is_bounded, self.dual_norms(s * g) - self.group, -np.inf)
            if (
                excess.size == 0
                or excess.max() <= DUAL_NORM_ROUNDING * (self.group + self.l1)[excess.argmax()]
            ):
                return s
            worst = int(excess.argmax())
            row = np.abs(g[self.blocks.order[self.blocks.starts[worst] : self.blocks.starts[worst + 1]]])
            left = np.maximum(s * row - self.l1[worst], 0.0)
            if self.group[worst] + self.l1[worst] == 0:
                return 0.0
            s -= excess[worst] / self.dual_slope(left, row)
        return 0.0

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient (n,) at weights that are not zero unless they are unpenalised."""
        blocks = self.blocks
        of_weights = blocks.spread(self.l1) * np.sign(w) + blocks.spread(self.l2) * w
        return of_weights + blocks.spread(self._bend(w)[0]) * w

    def hessian_times(self, w: Vector, d: Vector) -> Vector | None:
        """Return the Hessian at such weights times a direction, (n,): that of group ||w_b|| is group (I - u u') /
        ||w_b||, u = w_b / ||w_b||."""
        blocks, (bend, norms) = self.blocks, self._bend(w)
        along = np.divide(bend * blocks.total(w * d), norms**2, out=np.zeros_like(norms), where=norms > 0)
        return blocks.spread(bend + self.l2) * d - blocks.spread(along) * w

    def _bend(self, w: Vector) -> tuple[Vector, Vector]:
        """Return group / ||w_b|| of each block, 0 for one of zeros, and the norms."""
        norms = np.sqrt(self.blocks.total(w * w))
        return np.divide(self.group, norms, out=np.zeros_like(norms), where=norms > 0), norms

    def descend(self, problem: Subproblem, d: Vector, base_d: NDArray[np.float32]) -> int:
        """Minimise the quadratic model over d, row by row; returns the number of sweeps. Parameters as of
        `kernels.group_descent.descend_groups`."""
        blocks = self.blocks
        penalty = BlockPenalty(blocks.order, blocks.starts, self.l1, self.group, self.l2, self.is_linf)
        return descend_groups(problem, penalty, d, base_d)
