"""Norms of blocks of features within a state: sum_k sum_b ||w_(k,b)||, as Chierchia et al. (2015) use them.

A state keeps or drops a block of features by itself, where the rows of `group_lasso.py` are kept by all states or none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from crfqn.arrays import Coords, Screening
from crfqn.errors import InputError
from crfqn.kernels.sparse import union
from crfqn.penalties.blocks import Blocks
from crfqn.penalties.elastic_net import ElasticNet
from crfqn.penalties.group_lasso import GroupLasso, LocalGroupLasso


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
        groups = self.feature_groups
        if groups.shape != (self.n_features,) or groups.dtype.kind not in "iu" or groups.min() < 0:
            raise InputError(
                f"feature_groups: expected {self.n_features} integers >= 0, one a feature, "
                f"got shape {groups.shape} and dtype {groups.dtype}"
            )

    @property
    def is_rowwise(self) -> bool:
        return False

    @cached_property
    def members(self) -> Blocks:
        """The features of each block."""
        return Blocks.of_names(self.feature_groups)

    @cached_property
    def _block_of(self) -> Coords:
        """The number of each feature's block, (F,)."""
        return self.members.spread(np.arange(self.members.n_blocks))

    def names(self, coords: Coords) -> Coords:
        """Return the number of each coordinate's block, (n,)."""
        states, features = np.divmod(coords, self.n_features)
        return states * self.members.n_blocks + self._block_of[features]

    def _at(self, coords: Coords) -> LocalGroupLasso:
        is_unpenalised = np.isin(coords, self.unpenalised)
        is_alone = is_unpenalised | (coords >= self.n_features * self.n_states)
        n_blocks = self.members.n_blocks * self.n_states
        nodes = np.where(is_alone, 0, coords)
        blocks = Blocks.of_names(np.where(is_alone, n_blocks + coords, self.names(nodes)))
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
        largest = int(self.members.sizes.max(initial=1))
        share = largest if self.norm == "linf" else np.sqrt(largest)
        found = point.screen(self.l1 + self.group_l1 / share * (1.0 - 1e-12))
        n_nodes = self.n_features * self.n_states
        asked = union(found.coords, point.coords[point.weights != 0])
        nodes = np.setdiff1d(asked[asked < n_nodes], self.unpenalised, assume_unique=True)
        coords = union(self.coords_of(np.unique(self.names(nodes))), asked)
        screening = Screening(coords, point.gradient(coords))
        local = self.at(coords)
        is_kept = local.blocks.holders(np.flatnonzero(np.isin(coords, point.coords[point.weights != 0])))
        stays = is_kept | (local.dual_norms(screening.gradient) > local.group)
        return screening.only(local.blocks.spread(stays))

    def norm_bounds(self, value: float) -> tuple[float, float]:
        """Return the largest L1 and Euclidean norms of penalised weights whose penalty is at most `value`."""
        l1_norm, l2_norm = ElasticNet(self.l1, self.l2).norm_bounds(value)
        if self.group_l1 > 0:
            per_block = np.sqrt(self.members.sizes.max(initial=1)) if self.norm == "linf" else 1.0
            l2_norm = min(l2_norm, float(per_block * value / self.group_l1))
        return l1_norm, l2_norm
