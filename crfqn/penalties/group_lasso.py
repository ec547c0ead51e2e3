"""Group penalties: all weights of a feature vanish together, or none.

The rows of the (features x states) weights are the groups: the sum of their Euclidean norms is the group lasso of Yuan
and Lin (2006), as Blondel, Seki and Uehara (2013) use it for multiclass models, the sum of their largest sizes that of
Turlach, Venables and Wright (2005); with an L1 term besides it is the sparse group lasso (Simon et al. 2013).
`FeatureBlocks` has norms of blocks of features within a state, sum_k sum_b ||w_(k,b)||, as Chierchia et al. (2015) use
them: a state keeps or drops a block by itself.

Dual norm of a row's gradient: the Euclidean length, or the sum, of max(|g| - l1, 0). Shapes: n coordinates that are
passed in as `coords`, sorted int64, with their weights w and gradients g, float64 (n,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Screening, Vector
from crfqn.errors import InputError
from crfqn.kernels.coordinate_descent import Subproblem
from crfqn.kernels.group_descent import BlockPenalty, descend_groups
from crfqn.kernels.row_norm import block_distances, prox_blocks
from crfqn.kernels.sparse import found_in, union
from crfqn.penalties.blocks import Partition
from crfqn.penalties.elastic_net import ElasticNet
from crfqn.penalties.penalty import (
    NO_RIDGE,
    Layout,
    PenalisedRows,
    Penalty,
    Ridge,
    are_members,
    check_strengths,
)

NORMS = {"l2": 2, "linf": 1}  # with the order of the dual norm
ROUNDING = 1e-12  # relative to a bound: the rounding of a row's dual norm
MOST_NEWTON = 100


@dataclass(frozen=True, eq=False)
class GroupLasso(Penalty):
    """group_l1 sum_f ||w_f|| + l1 ||w||_1 + l2/2 ||w||^2 over all coordinates but the unpenalised ones.

    w_f are the weights of feature f, the coordinates k F + f of all states k. Edge weights, from K F on, are a group
    each. The argument `coords` of all methods must consist of whole rows, or of all weights of a row that are not zero
    where only these matter (`value`).

    Parameters
    ----------
    group_l1, l1, l2 : float >= 0, in nats a unit of weight: the loss is a sum over items, not a mean.
    norm : {"l2", "linf"}
        The norm of a row: its length, or its largest size, which lets all weights of a row be as large as that.
    n_features, n_states : int
        F and K.
    unpenalised : sorted ndarray of int64: coordinates without penalty, in no group (intercepts).
    ridge : Ridge: coordinates with an L2 term of their own and nothing else, in no group.
    """

    STRENGTHS: ClassVar[tuple[str, ...]] = ("group_l1", "l1", "l2")

    group_l1: float
    l1: float = 0.0
    l2: float = 0.0
    norm: str = "l2"
    unpenalised: Coords = field(default_factory=lambda: NO_COORDS)
    ridge: Ridge = NO_RIDGE
    n_features: int = field(kw_only=True)
    n_states: int = field(kw_only=True)
    _last: tuple[Coords, LocalGroupLasso] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_strengths(self, *self.STRENGTHS)
        if self.norm not in NORMS:
            raise InputError(f"norm: expected one of {[*NORMS]}, got {self.norm!r}")
        for name in ("n_features", "n_states"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected an integer >= 1, got {getattr(self, name)!r}")

    @classmethod
    def from_strengths(cls, strengths: Mapping[str, float], layout: Layout) -> GroupLasso:
        settings: dict[str, Any] = {name: strengths[name] for name in cls.STRENGTHS}
        settings |= {
            name: getattr(layout, name) for name in ("norm", "unpenalised", "n_features", "n_states")
        }
        if layout.groups is None:
            return cls(**settings)
        return FeatureBlocks(**settings, feature_groups=layout.groups)

    @property
    def min_threshold(self) -> float:
        return self.group_l1 + self.l1

    is_row_separable = True  # type: ignore[assignment]

    @property
    def has_hidden_kinks(self) -> bool:  # type: ignore[override]
        """The largest sizes of a row tie at a minimum."""
        return self.norm == "linf"

    @property
    def is_quadratic(self) -> bool:
        return self.min_threshold == 0

    @property
    def largest_block(self) -> int:
        """The most weights of a group."""
        return self.n_states

    def strengths_at(self, name: str, coords: Coords, gradient: Vector) -> Vector:
        if name != "group_l1":
            return super().strengths_at(name, coords, gradient)
        local = self.with_strengths(group_l1=1.0).at(coords)
        is_penalised = local.group > 0
        return local.dual_norms(gradient)[is_penalised] / local.group[is_penalised]

    def at(self, coords: Coords) -> LocalGroupLasso:
        """Return the penalty restricted to some coordinates; the last is kept, as a screening uses it five times."""
        if self._last is None or self._last[0] is not coords:
            object.__setattr__(self, "_last", (coords, self._at(coords)))  # frozen otherwise
        assert self._last is not None
        return self._last[1]

    def _at(self, coords: Coords) -> LocalGroupLasso:
        is_smooth = self.is_differentiable(coords)
        is_alone = is_smooth | (coords >= self.n_features * self.n_states)
        blocks = Partition.of_names(np.where(is_alone, self.n_features + coords, coords % self.n_features))
        local = self._on(blocks, ~is_smooth[blocks.firsts])
        if not self.ridge.coords.size:
            return local
        of_ridge = are_members(coords, self.ridge.coords)[blocks.firsts]
        return replace(local, l2=np.where(of_ridge, self.ridge.l2, local.l2))

    def _on(self, blocks: Partition, is_penalised: NDArray[np.bool_]) -> LocalGroupLasso:
        l1, group, l2 = (np.where(is_penalised, s, 0.0) for s in (self.l1, self.group_l1, self.l2))
        return LocalGroupLasso(blocks, l1, group, l2, self.norm == "linf")

    def rows(self, n_features: int, n_states: int) -> PenalisedRows:
        if (self.n_features, self.n_states) != (n_features, n_states):
            raise InputError(
                f"expected a penalty over {n_features} features and {n_states} states, "
                f"got {self.n_features} and {self.n_states}"
            )
        rows = super().rows(n_features, n_states)
        strengths = rows.strengths._replace(group=float(self.group_l1), is_linf=self.norm == "linf")
        return rows._replace(strengths=strengths)

    def screen(self, point: Any) -> Any:
        """Return the whole rows that are not zero, or whose gradient's dual norm exceeds its bound, and the ridge."""
        screening = point.screen_rows(self.group_l1, self.l1, NORMS[self.norm])
        local = self.at(screening.coords)
        is_kept = local.blocks.holders(found_in(screening.coords, point.coords[point.weights != 0])[0])
        stays = is_kept | (local.dual_norms(screening.gradient) > local.group)
        screening = screening if stays.all() else screening.only(local.blocks.spread(stays))
        return self._with_ridge(screening, point)

    def norm_bounds(self, value: float) -> tuple[float, float]:
        """Return the largest L1 and Euclidean norms of penalised weights whose penalty is at most `value`: blocks'
        lengths sum to a bound of the latter, each at most the root of its number of weights times its largest size."""
        l1_norm, l2_norm = ElasticNet(self.l1, self.l2).norm_bounds(value)
        if self.group_l1 > 0:
            per_block = np.sqrt(self.largest_block) if self.norm == "linf" else 1.0
            l2_norm = min(l2_norm, float(per_block * value / self.group_l1))
        return self._norms_with_ridge(value, l1_norm, l2_norm)


@dataclass(frozen=True, eq=False)
class FeatureBlocks(GroupLasso):
    """group_l1 sum_k sum_b ||w_(k,b)|| + l1 ||w||_1 + l2/2 ||w||^2 over all coordinates but the unpenalised ones.

    w_(k,b) are the weights of state k for the features of block b. Parameters as of `GroupLasso`, and

    Parameters
    ----------
    feature_groups : ndarray of int64, shape (F,), numbers >= 0: the block of each feature
    """

    feature_groups: Coords = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ridge.coords.size:
            raise InputError("ridge: expected groups that are rows, got blocks of features within a state")
        groups = self.feature_groups
        if groups.shape != (self.n_features,) or groups.dtype.kind not in "iu" or groups.min() < 0:
            raise InputError(
                f"feature_groups: expected {self.n_features} integers >= 0, one a feature, "
                f"got shape {groups.shape} and dtype {groups.dtype}"
            )

    is_row_separable = False  # type: ignore[assignment]

    @property
    def largest_block(self) -> int:
        return int(self.members.sizes.max(initial=1))

    @cached_property
    def members(self) -> Partition:
        """The features of each block."""
        return Partition.of_names(self.feature_groups)

    def names(self, coords: Coords) -> Coords:
        """Return the number of each coordinate's block, (n,)."""
        states, features = np.divmod(coords, self.n_features)
        block_of = self.members.spread(np.arange(self.members.n_blocks))
        return states * self.members.n_blocks + block_of[features]

    def _at(self, coords: Coords) -> LocalGroupLasso:
        is_unpenalised = self.is_unpenalised(coords)
        is_alone = is_unpenalised | (coords >= self.n_features * self.n_states)
        n_blocks = self.members.n_blocks * self.n_states
        nodes = np.where(is_alone, 0, coords)
        blocks = Partition.of_names(np.where(is_alone, n_blocks + coords, self.names(nodes)))
        return self._on(blocks, ~is_unpenalised[blocks.firsts])

    def coords_of(self, names: Coords) -> Coords:
        """Return all coordinates of some blocks, sorted."""
        states, blocks = np.divmod(names, self.members.n_blocks)
        places, _ = self.members.only(blocks)
        return np.sort(np.repeat(states, self.members.sizes[blocks]) * self.n_features + places)

    def screen(self, point: Any) -> Screening:
        """Return the whole blocks that are not zero, or whose gradient's dual norm exceeds its bound.

        Such a block has an entry above the bound over the root of its size, or under "linf" over its size.
        """
        share = self.largest_block if self.norm == "linf" else np.sqrt(self.largest_block)
        entries = point.screen(self.l1 + self.group_l1 / share * (1.0 - 1e-12))
        n_nodes = self.n_features * self.n_states
        asked = union(entries.coords, point.coords[point.weights != 0])
        nodes = np.setdiff1d(asked[asked < n_nodes], self.unpenalised, assume_unique=True)
        coords = union(self.coords_of(np.unique(self.names(nodes))), asked)
        screening = Screening(coords, point.gradient(coords))
        local = self.at(coords)
        is_kept = local.blocks.holders(np.flatnonzero(np.isin(coords, point.coords[point.weights != 0])))
        stays = is_kept | (local.dual_norms(screening.gradient) > local.group)
        return screening.only(local.blocks.spread(stays))


@dataclass(frozen=True, eq=False)
class LocalGroupLasso:
    """The group lasso at n coordinates, their rows (`blocks`) found once; l1, group, l2 : float64 (n_blocks,);
    is_linf : whether the norm of a row is its largest size."""

    blocks: Partition
    l1: Vector
    group: Vector
    l2: Vector
    is_linf: bool

    @property
    def is_bounded(self) -> NDArray[np.bool_]:
        """Whether a row's gradient has a bound to obey, or would without l2: not those under l2 alone, (n_blocks,)."""
        return (self.group + self.l1 > 0) | (self.l2 == 0)

    @property
    def threshold(self) -> Vector:
        """The bound that `dual_norm` of a row of zeros has to exceed before it moves, at each coordinate, (n,)."""
        return self.blocks.spread(self.group)

    def dual_norm(self, w: Vector, g: Vector) -> Vector:
        """Return the dual norm of rows of zeros, infinite for other rows, at each coordinate of the row, (n,)."""
        return self.blocks.spread(np.where(self.blocks.largest(np.abs(w)) > 0, np.inf, self.dual_norms(g)))

    def dual_norms(self, g: Vector) -> Vector:
        """Return the dual norms of all rows' gradients, (n_blocks,): norms of max(|g| - l1, 0)."""
        excess = np.maximum(np.abs(g) - self.blocks.spread(self.l1), 0.0) if self.l1.any() else g
        return self.blocks.total(np.abs(excess)) if self.is_linf else np.sqrt(self.blocks.squares(excess))

    def value(self, w: Vector) -> float:
        sizes, squares = np.abs(w), self.blocks.squares(w)
        norms = self.blocks.largest(sizes) if self.is_linf else np.sqrt(squares)
        l1_norms = self.blocks.total(sizes)
        return float(self.group @ norms + self.l1 @ l1_norms + 0.5 * (self.l2 @ squares))

    def prox(self, w: Vector, step: float) -> Vector:
        out = np.empty(w.size)
        blocks, strengths = self.blocks, (step * self.l1, step * self.group, step * self.l2)
        prox_blocks(blocks.order, blocks.starts, w, *strengths, self.is_linf, out)
        return out

    def violation(self, w: Vector, g: Vector) -> Vector:
        """Return the distance of -g to the subdifferential at w, in the Euclidean norm of a row, (n,): rows move as a
        whole.

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
        """Return the largest distance of a row; of coordinates in no group, the largest of a coordinate; NaN where a
        gradient is, so that the weights do not look solved."""
        return np.nan if np.isnan(g).any() else float(self.distances(w, g).max(initial=0.0))

    def conjugate(self, g: Vector) -> float:
        """Return the conjugate at -g; infinite where a row is outside of the dual ball and has no l2. A row adds the
        square of its distance to the dual ball, the length of the prox, over 2 l2."""
        is_outside = self.dual_norms(g) - self.group > ROUNDING * (self.group + self.l1)
        if not is_outside.any():
            return 0.0
        if np.any((self.l2 == 0) & is_outside):
            return np.inf
        excess = self.distances(np.zeros(g.size), g)[is_outside]
        return float(np.sum(excess**2 / (2 * self.l2[is_outside])))

    def dual_scales(self, g: Vector) -> list[float]:
        """Return factors s with which s g is feasible, or has a small conjugate."""
        largest = self.largest_scale(g)
        scales = [largest] if largest > 0 else []
        if self.l2.any():
            scales += [1.0, *(0.5 * (1.0 + s) for s in scales)]
        return scales

    def largest_scale(self, g: Vector) -> float:
        """Return the largest s <= 1 with which s g obeys all bounds; 0 if only 0 does.

        The excess of the worst row's dual norm is convex in s, linear without L1: Newton's method comes down from 1,
        never too far.
        """
        if not self.l1.any():
            norms = self.dual_norms(g)
            above = ~(norms <= self.group) & self.is_bounded
            return float(np.min(self.group[above] / norms[above], initial=1.0))
        s = 1.0
        for _ in range(MOST_NEWTON):
            excess = np.where(self.is_bounded, self.dual_norms(s * g) - self.group, -np.inf)
            if excess.size == 0 or excess.max() <= ROUNDING * (self.group + self.l1)[excess.argmax()]:
                return s
            worst = int(excess.argmax())
            row = np.abs(g[self.blocks.order[self.blocks.starts[worst] : self.blocks.starts[worst + 1]]])
            left = np.maximum(s * row - self.l1[worst], 0.0)
            if self.group[worst] + self.l1[worst] == 0:
                return 0.0
            slope = row[left > 0].sum() if self.is_linf else (left @ row) / np.sqrt(left @ left)
            s -= excess[worst] / slope
        return 0.0

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient (n,) at weights of which only unpenalised ones may be zero; under "linf" one of the
        subgradients: the largest weights of a row share its strength."""
        of_single = self.blocks.spread(self.l1) * np.sign(w) + self.blocks.spread(self.l2) * w
        if self.is_linf:
            top = self.blocks.spread(self.blocks.largest(np.abs(w)))
            shares = ((np.abs(w) == top) & (top > 0)).astype(float)
            counts = np.maximum(self.blocks.total(shares), 1.0)
            return of_single + self.blocks.spread(self.group / counts) * shares * np.sign(w)
        return of_single + self.blocks.spread(self._bend(w)[0]) * w

    def hessian_times(self, w: Vector, d: Vector) -> Vector | None:
        """Return the Hessian at such weights times a direction, (n,); None for "linf", which has kinks at its minima.
        That of group ||w_b|| is group (I - u u') / ||w_b||, u = w_b / ||w_b||."""
        if self.is_linf:
            return None
        blocks, (bend, norms) = self.blocks, self._bend(w)
        along = np.divide(bend * blocks.total(w * d), norms**2, out=np.zeros_like(norms), where=norms > 0)
        return blocks.spread(bend + self.l2) * d - blocks.spread(along) * w

    def _bend(self, w: Vector) -> tuple[Vector, Vector]:
        """Return group / ||w_b|| of each block, 0 for one of zeros, and the norms."""
        norms = np.sqrt(self.blocks.squares(w))
        return np.divide(self.group, norms, out=np.zeros_like(norms), where=norms > 0), norms

    def descend(self, problem: Subproblem, d: Vector, base_d: NDArray[np.float32]) -> int:
        """Solve the quadratic model for d, row by row; returns the number of sweeps made. Parameters as in
        `kernels.group_descent.descend_groups`."""
        blocks = self.blocks
        penalty = BlockPenalty(blocks.order, blocks.starts, self.l1, self.group, self.l2, self.is_linf)
        return descend_groups(problem, penalty, d, base_d)
