"""Items of a staged training: their targets, and rows in one piece or in blocks that are read anew in every pass.

Shapes: I items, K labels; tables are float64 (K, I), a column an item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.objectives.linear.coordinates import Split, split_coords
from crfqn.objectives.linear.feature_map import FeatureMap
from crfqn.threads import Pool


@dataclass(eq=False)
class Items:
    """Rows, targets and weights of the items that a model is trained on.

    Attributes
    ----------
    blocks : returns the rows, block by block, the same ones at each call
    targets : float64 (K, I), points of the simplex or the hypercube
    weights : float64 (I,)
    is_whole : whether all rows come in one block that stays in memory
    """

    blocks: Callable[[], Iterator[Any]]
    targets: Vector
    weights: Vector
    is_whole: bool
    pool: Pool

    @property
    def n_items(self) -> int:
        return self.targets.shape[1]

    def parts(self) -> Iterator[tuple[Any, slice]]:
        """Yield the rows of each block, and the slice of the items that they are."""
        first = 0
        for rows in self.blocks():
            part = slice(first, first + rows.shape[0])
            first = part.stop
            yield rows, part
        if first != self.n_items:
            raise InputError(
                f"blocks: expected the same {self.n_items:,} items in every pass, got {first:,} this time"
            )


class PartMaps:
    """The features of the items, part by part: kept where all items are one part, otherwise made anew in every pass.

    Parameters
    ----------
    items : Items
    make : returns the map of some rows and of the part of the items that they are
    """

    def __init__(self, items: Items, make: Callable[[Any, slice], FeatureMap]) -> None:
        self.items, self.make = items, make
        self._kept: list[tuple[FeatureMap, slice]] | None = None

    def __iter__(self) -> Iterator[tuple[FeatureMap, slice]]:
        if self._kept is not None:
            yield from self._kept
            return
        if self.items.is_whole:
            self._kept = [(self.make(rows, part), part) for rows, part in self.items.parts()]
            yield from self._kept
            return
        for rows, part in self.items.parts():
            yield self.make(rows, part), part


def all_nodes(n_states: int, n_features: int) -> Split:
    """Return the coordinates of a whole table of weights, (K, F)."""
    return split_coords(np.arange(n_states * n_features), n_states, n_features)


def scores_of(features: FeatureMap, table: Vector) -> Vector:
    """Return the scores of all positions, (K, N), under weights (K, F)."""
    scores = np.zeros((table.shape[0], features.n_positions))
    features.image(all_nodes(*table.shape), table.ravel(), scores)
    return scores


def sums_of(features: FeatureMap, table: Vector) -> Vector:
    """Return sum_t table[k, t] x_tf over the positions t, (K, F), for a table (K, N)."""
    shape = table.shape[0], features.n_features
    return features.adjoint(all_nodes(*shape), table).reshape(shape)
