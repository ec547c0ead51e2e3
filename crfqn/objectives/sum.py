"""The sum of the losses over blocks of items: for data whose scores, items x states, do not fit into memory.

A block's scores and residuals live while the block is looked at; a point keeps its weights and a number or two an item.
So what a `CRFObjective` reads off its one inference pass costs a pass each time here, but memory is that of one block.
The blocks are fixed by the data, and sums run over them in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore
from crfqn.kernels.union import union
from crfqn.objectives.coordinates import SparseWeights, merge_weights
from crfqn.objectives.crf import CRFObjective
from crfqn.objectives.online import Online
from crfqn.objectives.point import Coords, Point, Vector, mixture_dual
from crfqn.objectives.screening import Memory, Screening
from crfqn.objectives.spreads import Spreads, count_spreads, joint_spreads, list_beyond
from crfqn.objectives.support import Support
from crfqn.objectives.token_model import Model
from crfqn.structures.structure import Structure
from crfqn.threads import Pool

MOST_NUMBERS = 1 << 27  # scores of a point in one piece: 1 GiB, and a solver holds four such arrays
BLOCK_NUMBERS = 1 << 25  # scores of a block: 256 MiB


def likelihood(
    store: FeatureStore,
    structure: Structure,
    targets: NDArray[np.int32],
    weights: Vector | None = None,
    pool: Pool | None = None,
    support: Support | None = None,
) -> CRFObjective | SumObjective:
    """The negative log-likelihood of all items, in one piece where its scores fit into memory, else in blocks."""
    whole = CRFObjective(store, structure, targets, weights, pool=pool, support=support)
    if structure.n_states * store.n_positions <= MOST_NUMBERS:
        return whole
    return SumObjective.of_blocks(whole, max(1, BLOCK_NUMBERS // structure.n_states))


class SumObjective:
    """The sum of objectives over the same coordinates, evaluated one after the other.

    Parameters
    ----------
    parts : list of CRFObjective
    """

    def __init__(self, parts: list[CRFObjective]) -> None:
        self.parts = parts
        self.n_passes = 0.0

    @classmethod
    def of_blocks(cls, whole: CRFObjective, n_positions: int) -> SumObjective:
        """Cut into runs of items of about `n_positions` positions, one item at least."""
        offsets = whole.store.offsets
        cuts = [0]
        while cuts[-1] < whole.n_items:
            after = int(np.searchsorted(offsets, offsets[cuts[-1]] + n_positions, side="right")) - 1
            cuts.append(max(after, cuts[-1] + 1))
        return cls([whole.take(np.arange(first, last)) for first, last in pairwise(cuts)])

    @property
    def n_coords(self) -> int:
        return self.parts[0].n_coords

    @property
    def support(self) -> Support:
        return self.parts[0].support

    @property
    def pool(self) -> Pool:
        return self.parts[0].pool

    @cached_property
    def spreads(self) -> Spreads:
        """How far the expected count of each coordinate can move."""
        return joint_spreads([part.spreads for part in self.parts])

    def spread_of(self, coords: Coords) -> Vector:
        """sqrt(sum_i weight_i r_ij^2), as of a `CRFObjective`."""
        return self.spreads.at(coords, self.parts[0].structure.n_states)

    def rows(self, features: NDArray[np.int64], edges: NDArray[np.int64]) -> Coords:
        """All coordinates of some features and edges."""
        return self.parts[0].rows(features, edges)

    @property
    def n_items(self) -> int:
        return sum(part.n_items for part in self.parts)

    @property
    def n_positions(self) -> int:
        return sum(part.n_positions for part in self.parts)

    @property
    def n_node_coords(self) -> int:
        return self.parts[0].n_node_coords

    @property
    def mean_occurrence(self) -> float:
        return sum(part.mean_occurrence for part in self.parts)

    @property
    def total_weight(self) -> float:
        return sum(part.total_weight for part in self.parts)

    def sample(self, stride: int) -> SumObjective:
        """The loss over every stride-th item of each part."""
        return SumObjective([part.sample(stride) for part in self.parts if part.n_items > stride // 2])

    def online(
        self, start: tuple[Coords, Vector], l1: float, l2: float, free: Coords, share: float = 1.0
    ) -> Online:
        """Dense weights that learn item by item, block after block."""
        return Online(self, self.parts, start, l1, l2, free, share)

    def lipschitz_bound(self) -> float:
        """A bound on the largest eigenvalue of the Hessian that holds everywhere."""
        return sum(part.lipschitz_bound() for part in self.parts)

    def at(self, coords: Coords, weights: Vector) -> SumPoint:
        """Evaluate at the sparse weights (sorted coordinates, values)."""
        return SumPoint(self, coords, weights)


class Sums(NamedTuple):
    """What a pass leaves behind: item losses (I,), and the weighted sum of the items' entropies."""

    item_losses: Vector
    entropy: float


@dataclass(eq=False)
class SumPoint:
    """The loss at sparse weights; every question but those about single items costs a pass."""

    objective: SumObjective
    coords: Coords
    weights: Vector
    _memory: Memory = field(default_factory=Memory, repr=False)

    @property
    def light(self) -> SparseWeights:
        """What may be kept of a point."""
        return SparseWeights(self.coords, self.weights)

    def points(self) -> Iterator[Point]:
        """The point of each part, one at a time."""
        owner = self.objective
        for part in owner.parts:
            yield part.at(self.coords, self.weights)
            owner.n_passes += part.n_positions / owner.n_positions

    @cached_property
    def sums(self) -> Sums:
        """One pass: item losses and entropy."""
        losses, entropy = [], 0.0
        for point in self.points():
            weights, inference = point.objective.weights, point.inference
            losses.append(point.item_losses)
            entropy += float(weights @ inference.log_partition) - inference.expected_score
        return Sums(np.concatenate(losses), entropy)

    @property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self._item_weights @ self.sums.item_losses)

    def gradient(self, coords: Coords) -> Vector:
        """Partial derivatives of the loss at `coords`."""
        return self._sum(lambda point: point.gradient(coords))

    def curvature(self, coords: Coords) -> Vector:
        """Diagonal of the token-wise model."""
        return self._sum(lambda point: point.curvature(coords))

    def roughness(self, coords: Coords) -> Vector:
        """How much curvature a coordinate may meet on its way to a fit."""
        return self._sum(lambda point: point.roughness(coords))

    def unit(self, coords: Coords) -> Vector:
        """The unit of each coordinate's curvature."""
        units = [part.at(self.coords, self.weights).unit(coords) for part in self.objective.parts]
        return np.maximum.reduce(units)

    def screen(self, threshold: float) -> Screening:
        """Every coordinate with |gradient| > threshold."""
        return self._memory.screen(threshold, self._screen)

    def _screen(self, threshold: float) -> Screening:
        """Look at the parts, and again at what may stand out in the sum.

        A sum of n numbers exceeds the threshold only where one of them exceeds an n-th of it: the candidates of the
        parts hold all that is sought, and a second pass adds up their gradients.
        """
        share = threshold / len(self.objective.parts)
        candidates = [point.screen(share).coords for point in self.points()]
        coords = union(*candidates)
        gradient = self.gradient(coords)
        is_above = np.abs(gradient) > threshold
        return Screening(coords[is_above], gradient[is_above])

    def count_within(self, bound: float, scale: float, radius: float) -> int:
        """How many coordinates j have scale |g_j| + radius spread_j < bound: not fewer than are returned.

        Those with radius spread_j > bound / 2 are left out: all others that are not within stand out in a screening.
        """
        half, owner = 0.5 * bound, self.objective
        found = self.screen(half / scale)
        spreads = owner.spread_of(found.coords)
        is_open = radius * spreads <= half
        exceeds = scale * np.abs(found.gradient) + radius * spreads >= bound
        return count_spreads(owner, half, radius) - int((is_open & exceeds).sum())

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Whole rows above the bound, and perhaps others.

        Where the parts' rows all have || max(|g| - inside / n, 0) || <= bound / n, their sum is within the bound.
        """
        n = len(self.objective.parts)
        found = [point.screen_rows(bound / n, inside / n, order).coords for point in self.points()]
        coords = union(*found)
        return Screening(coords, self.gradient(coords))

    def beyond(self, bound: float, scale: float, radius: float, most: int) -> Coords | None:
        """The coordinates that are not within, and perhaps others; None if more than `most`."""
        return list_beyond(self, bound, scale, radius, most)

    def token_model(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Model | None:
        """The token-wise model, each part giving its share of the sampled positions."""
        total: Model | None = None
        for point in self.points():
            own = -(-n_sampled * point.objective.n_positions // self.objective.n_positions)
            model = point.token_model(coords, own, max_dense, share)
            if model is None:
                return None
            total = model if total is None else total + model
        return total

    def dual_value(self, scale: float) -> float:
        """The dual loss of the mixtures s p_i + (1 - s) delta(y_i)."""
        return mixture_dual(self._item_weights, self.sums.entropy, self.sums.item_losses, scale)

    def along(self, coords: Coords, direction: Vector) -> SumRay:
        """The ray w + step * direction."""
        return SumRay(self, coords, direction)

    @property
    def _item_weights(self) -> Vector:
        return np.concatenate([part.weights for part in self.objective.parts])

    def _sum(self, ask: Callable[[Point], Vector]) -> Vector:
        return np.sum([ask(point) for point in self.points()], axis=0)


@dataclass(eq=False)
class SumRay:
    """A point and a direction."""

    origin: SumPoint
    coords: Coords
    direction: Vector

    def at(self, step: float) -> SumPoint:
        """The point w + step * direction."""
        start = self.origin
        return SumPoint(
            start.objective,
            *merge_weights(start.coords, start.weights, self.coords, step * self.direction),
        )
