"""Norms of Chierchia et al. (2015): the largest size of a row or block, and blocks of features within a state.

The sum of the rows' largest sizes is the penalty of Turlach, Venables and Wright (2005). `FeatureBlocks` has norms of
blocks of features, sum_k sum_b ||w_(k,b)||: each state keeps or drops a block independently.
Shapes: F features; n coordinates that are passed in as `coords`, sorted int64, with their weights w, float64 (n,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Screening, Vector
from crfqn.errors import InputError
from crfqn.kernels.sparse import union
from crfqn.objectives.point import Point
from crfqn.penalties.factors import Layout
from crfqn.penalties.group_lasso import GroupLasso, LocalGroupLasso
from crfqn.penalties.penalty import Partition


class LocalLargestSizes(LocalGroupLasso):
    """The penalty at n coordinates whose norm of a row is its largest size; the dual norm is a sum of sizes."""

    is_linf: ClassVar[bool] = True
    dual_order: ClassVar[int] = 1

    def norms(self, sizes: Vector, squares: Vector) -> Vector:
        return self.blocks.largest(sizes)

    def combined(self, excess: Vector) -> Vector:
        return self.blocks.total(np.abs(excess))

    @staticmethod
    def dual_slope(left: Vector, row: Vector) -> float:
        return float(row[left > 0].sum())

    def gradient(self, w: Vector) -> Vector:
        """Return one of the subgradients: the largest weights of a row share its strength."""
        top = self.blocks.spread(self.blocks.largest(np.abs(w)))
        shares = ((np.abs(w) == top) & (top > 0)).astype(float)
        counts = np.maximum(self.blocks.total(shares), 1.0)
        of_weights = self.blocks.spread(self.l1) * np.sign(w) + self.blocks.spread(self.l2) * w
        return of_weights + self.blocks.spread(self.group / counts) * shares * np.sign(w)

    def hessian_times(self, w: Vector, d: Vector) -> None:
        """Return None, for zero: the norm is piecewise linear."""


@dataclass(frozen=True, eq=False)
class FeatureBlocks(GroupLasso):
    """group_l1 sum_k sum_b ||w_(k,b)|| + l1 ||w||_1 + l2/2 ||w||^2 over all coordinates but the unpenalised ones.

    w_(k,b) are the weights of state k for the features of block b. Parameters as of `GroupLasso`, and

    Parameters
    ----------
    feature_groups : ndarray of int64, shape (F,), numbers >= 0: the block of each feature
    """

    is_row_separable = False

    feature_groups: Coords = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ridge.coords.size:
            raise InputError("ridge: expected groups that are rows, got blocks of features within a state")
        if self.feature_factors is not None:
            raise InputError("feature_groups: with penalty_factors expected None, rows as groups")
        groups = self.feature_groups
        if groups.shape != (self.n_features,) or groups.dtype.kind not in "iu" or groups.min() < 0:
            raise InputError(
                f"feature_groups: expected {self.n_features} integers >= 0, one a feature, "
                f"got shape {groups.shape} and dtype {groups.dtype}"
            )
        largest = int(self.members.sizes.max(initial=1))
        object.__setattr__(self, "largest_block", largest)  # frozen otherwise
        object.__setattr__(self, "lengths_per_norm", float(np.sqrt(largest)) if self.local.is_linf else 1.0)
        object.__setattr__(self, "n_blocks", self.members.n_blocks * self.n_states)

    @cached_property
    def members(self) -> Partition:
        """The features of each block."""
        return Partition.from_names(self.feature_groups)

    def block_numbers(self, coords: Coords) -> Coords:
        states, features = np.divmod(coords, self.n_features)
        block_of = self.members.spread(np.arange(self.members.n_blocks))
        return states * self.members.n_blocks + block_of[features]

    def coords_of(self, numbers: Coords) -> Coords:
        """Return all coordinates of some blocks, sorted."""
        states, blocks = np.divmod(numbers, self.members.n_blocks)
        places, _ = self.members.restricted_to(blocks)
        return np.sort(np.repeat(states, self.members.sizes[blocks]) * self.n_features + places)

    def screen(self, point: Point) -> Screening:
        """Return the whole blocks that are not zero, or whose gradient's dual norm exceeds its bound: one of its
        entries exceeds the bound over the root of the largest block's size, or under "linf" over this size."""
        share = self.largest_block ** (1.0 / self.local.dual_order)
        entries = point.screen(self.l1 + self.group_l1 / share * (1.0 - 1e-12))
        n_nodes = self.n_features * self.n_states
        coords = union(entries.coords, point.coords[point.weights != 0])
        nodes = np.setdiff1d(coords[coords < n_nodes], self.unpenalised, assume_unique=True)
        coords = union(self.coords_of(np.unique(self.block_numbers(nodes))), coords)
        return self._may_move(Screening(coords, point.gradient(coords)), point)


def blocks_by_column(groups: object, names: Sequence[str] | None, n_features: int) -> NDArray[np.int64]:
    """Number the blocks of F = `n_features` columns, int64 (F,), each so many in order, or by a label a column;
    InputError for other `groups`."""
    if isinstance(groups, Integral) and not isinstance(groups, bool) and int(groups) >= 1:
        return np.arange(n_features) // int(groups)
    labels = np.asarray(groups)
    if labels.shape != (n_features,) or labels.dtype.kind not in "biuUS":
        got = f"an array of shape {labels.shape} and dtype {labels.dtype}" if labels.ndim else repr(groups)
        raise InputError(
            f"feature_groups: expected None, a block size >= 1 or {n_features} labels, one a feature, got {got}"
        )
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)


def with_constant(blocks: NDArray[np.int64], space: object, layout: Layout) -> NDArray[np.int64]:
    """Return the blocks of a training's columns, in which a constant is a separate block."""
    constant = np.full(layout.n_features - blocks.size, blocks.max(initial=-1) + 1)
    return np.concatenate([blocks, constant]).astype(np.int64)
