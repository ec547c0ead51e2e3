"""The objective: the sum of the losses of the parts of the items, in memory, in files, or on the workers of a cluster.

An executor (`executors.py`) applies functions to the parts, and every number is the sum of their answers in their
order. `Point` (`point.py`) is the loss at sparse weights, whose methods can be called in any order. A `MethodState` is
what one method keeps over the items. Shapes: I items, N positions, F features, K states, E edge weights; coordinates as
in `linear/feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Vector
from crfqn.errors import UnsupportedObjectiveError
from crfqn.objectives.curvature import Operations
from crfqn.objectives.executors import MAX_KEPT_RESIDUALS, Executor, LocalParts
from crfqn.objectives.fingerprint import fingerprint
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap, with_edges
from crfqn.objectives.linear.gram import check_width
from crfqn.objectives.losses.intercept_bound import part_difference_bounds
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.part import Part, PartStatistics, Ranges
from crfqn.objectives.point import Point, total
from crfqn.objectives.support import Support
from crfqn.threads import Pool

MAX_PART_SCORES = 1 << 27  # scores of a point in one part: 1 GiB, and a solver keeps four such arrays
BLOCK_SCORES = 1 << 25  # scores of a block: 256 MiB
REFUSALS = {
    "has_curvature": "a metric of second order needs a loss with curvature",
    "is_smooth": "constant steps need a loss with a bounded Hessian",
    "has_gram": "a Gram matrix needs a loss with a bounded Hessian, a weight for every state and feature, and no edges",
    "has_marginals": "proofs of zeros need a likelihood",
}
FINGERPRINT_PARTS = "features", "labels", "weights of items", "offset"


class MethodState:
    """Base of what a method keeps over the items: dual variables, rows of weights, margins that every step updates.

    A state is defined in the method's folder and made by `objective.state(kind, ...)` for items in this process.

    Attributes
    ----------
    takes_parts : whether it can also be made for items in several parts
    """

    takes_parts: ClassVar[bool] = False

    def __init__(self, objective: Objective, *arguments: Any) -> None:
        raise NotImplementedError

    @classmethod
    def make(cls, objective: Objective, *arguments: Any) -> Self:
        """Return the state of an objective; arguments as of the class."""
        return cls(objective, *arguments)

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError if the state cannot be made for an objective."""


S = TypeVar("S", bound=MethodState)


def has_state(objective: Objective, kind: type[MethodState]) -> bool:
    """Return whether a method's state can be made for an objective."""
    try:
        objective.check_state(kind)
    except UnsupportedObjectiveError:
        return False
    return True


class Objective:
    """The loss of a model, a sum over parts of the items with the same coordinates. `build_objective` makes it for
    items in memory.

    Parameters
    ----------
    executor : Executor, which applies functions to the parts

    Attributes
    ----------
    parts : the parts, as the executor has them
    first : Part, without or with items: its labels, features, support and kind of loss are those of all parts
    whole : Part, the only part of an objective in memory; None if there are several, or on workers
    support : the coordinates that may have a weight, n_coords of the n_node_coords = K F and E
    n_items, n_positions, n_features, n_states : I, N, F, K
    total_weight : float, the sum of the items' weights
    mean_occurrence : float, the number of positions that have a feature, on average over the features
    is_convex : bool; otherwise nothing is proved, and runs end at stationary points
    has_dual : bool, whether the conjugate is known; then 0 is the smallest loss
    has_curvature, is_smooth : bool, whether the loss has second derivatives; whether the Hessian is bounded
    has_gram : bool, whether that bound is a matrix over the features alone
    has_marginals : bool, whether the loss is a likelihood
    likely_coords : coordinates whose gradient was computed last, likely those of the next point
    """

    def __init__(self, executor: Executor) -> None:
        self.executor, self.parts, self.whole = executor, executor.parts, executor.whole
        self.likely_coords = NO_COORDS

    @property
    def pool(self) -> Pool:
        """The threads of the penalty's part of a step, and of parts in this process."""
        return self.executor.pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self.executor.use_threads(pool)

    @property
    def n_passes(self) -> float:
        """The inference passes over the data so far."""
        return (self.whole or self.executor).n_passes

    @n_passes.setter
    def n_passes(self, n_passes: float) -> None:
        (self.whole or self.executor).n_passes = n_passes

    @property
    def n_bytes(self) -> int:
        """The bytes sent over the network so far, in both directions."""
        return self.executor.n_bytes

    def map_parts(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Return `function(part, *args)` of each part, in their order."""
        return [*self.executor.map(function, *args)]

    @cached_property
    def part_statistics(self) -> list[PartStatistics]:
        """The statistics of each part."""
        return self.map_parts(Part.statistics)

    @cached_property
    def statistics(self) -> PartStatistics:
        """The sums of the statistics of the parts."""
        return PartStatistics(*map(total, zip(*self.part_statistics, strict=True)))

    first = cached_property(lambda self: self.executor.first)
    n_items = cached_property(lambda self: self.statistics.n_items)
    n_positions = cached_property(lambda self: self.statistics.n_positions)
    total_weight = cached_property(lambda self: self.statistics.total_weight)
    mean_occurrence = cached_property(lambda self: self.statistics.mean_occurrence)
    n_states = cached_property(lambda self: self.first.n_states)
    n_features = cached_property(lambda self: self.first.n_features)
    support = cached_property(lambda self: self.first.support)
    n_coords = cached_property(lambda self: self.support.n_coords)
    n_node_coords = cached_property(lambda self: self.support.n_node_coords)
    is_convex = cached_property(lambda self: self.first.loss.is_convex and self.first.map.is_definite)
    has_dual = cached_property(lambda self: self.first.loss.has_dual)
    has_curvature = cached_property(lambda self: self.first.loss.has_curvature)
    has_marginals = cached_property(lambda self: self.first.loss.has_marginals)
    is_smooth = cached_property(lambda self: self.first.loss.is_smooth)
    has_gram = cached_property(
        lambda self: self.is_smooth and self.support.is_everything and not self.support.n_edges
    )

    @property
    def operations(self) -> Operations:
        """The operations of a pass over the items."""
        return self.statistics.operations(self.n_features, self.n_states)

    def without_bigram_features(self) -> Objective:
        """Return the objective of a model without bigram features, whose coordinates come first; itself if it has none,
        or if its items are not in one part."""
        return self if self.whole is None else self.with_parts(Part.without_bigram_features)

    def with_truncated_items(self) -> Objective:
        """Return the loss without the transitions between segments of long items: nearly the same, of many items;
        itself if none is longer, or if the parts are not in memory."""
        return self.with_parts(Part.with_truncated_items)

    def with_parts(self, function: Callable[[Part], Part]) -> Objective:
        """Return the objective of the parts that a function makes from those in memory; itself if it changes none."""
        executor = self.executor.map_to_parts(function)
        return self if executor is self.executor else Objective(executor)

    def sample(self, stride: int) -> Objective:
        """Return the loss over every stride-th item, or over fewer if these would take too much memory: the same
        coordinates, about 1 / stride of the value."""
        sizes = [statistics.n_items for statistics in self.part_statistics]
        return Objective(self.executor.sample(stride, np.array(sizes)))

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Return the loss at sparse weights (sorted coordinates, values), computed when it is needed."""
        return Point(self, coords, weights)

    def split(self, coords: Coords) -> CoordinateParts:
        """Split sorted coordinates into nodes and edges."""
        return self.first.split(coords)

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data, in one pass over them."""
        hashes = map(fingerprint, zip(*self.map_parts(Part.fingerprints), strict=True))
        return dict(zip(FINGERPRINT_PARTS, hashes, strict=True)) | {"support": fingerprint(self.support)}

    def refusal(self, capability: str) -> str:
        """Return why the objective lacks a capability."""
        return f"{REFUSALS[capability]}; the loss is {type(self.first.loss).__name__}"

    @cached_property
    def feature_scales(self) -> Vector:
        """max_t x_tf^2 of each feature, (F,)."""
        return reduce(np.maximum, self.map_parts(Part.feature_scales), np.zeros(self.n_features))

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
        nodes = self.split(coords)
        return with_edges(self.feature_scales[nodes.features], np.ones(nodes.edges.size))

    def small_values(self, coords: Coords) -> Vector:
        """Return a small value of each coordinate's feature, (n,), as of `Part.small_values`; 1 for edges and for
        features that do not occur."""
        nodes = self.split(coords)
        features, places = np.unique(nodes.features, return_inverse=True)
        largest = np.sqrt(self.feature_scales[features])
        small = reduce(np.minimum, self.map_parts(Part.small_values, features), largest)
        small[largest == 0] = 1.0
        return with_edges(small[places], np.ones(nodes.edges.size))

    def hessian_bound(self) -> float:
        """Return an upper bound on the largest eigenvalue of the Hessian, at all weights."""
        return total(self.map_parts(Part.hessian_bound))

    def gram(self) -> Vector:
        """Return M, float64 (F, F): at all weights Hessian <= I_K (x) M."""
        check_width(self.n_features)
        return total(self.map_parts(Part.gram))

    def gram_product(self, table: Vector) -> Vector:
        """Return a table (k, F) times M, in float64 and without M."""
        return total(self.map_parts(Part.gram_product, table))

    def intercept_bound(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on |b| of some optimum, from an objective value and the norms of penalised weights (L1, L2)
        there; infinite if nothing bounds it, or unless the unpenalised weights are all intercepts."""
        if not self.executor.room:
            return np.inf
        bounds = self.map_parts(part_difference_bounds, unpenalised, value, norms)
        if any(each is None for each in bounds):
            return np.inf
        tables, steps = zip(*bounds, strict=True)
        return self.first.loss.intercept_bound(np.min(tables, axis=0), max(steps))

    @cached_property
    def ranges(self) -> Ranges:
        """The ranges of the counts of features and edges within the items, for a likelihood."""
        squares = zip(*self.map_parts(Part.squared_ranges), strict=True)
        return Ranges(*(np.sqrt(np.sum(both, axis=0)) for both in squares))

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise UnsupportedObjectiveError unless the state of a method can be made."""
        if not self.executor.is_local:
            raise UnsupportedObjectiveError(
                f"{kind.__name__} is kept item by item, and the items are on workers"
            )
        if self.whole is None and not kind.takes_parts:
            raise UnsupportedObjectiveError(
                f"{kind.__name__} is kept for items in one part, and these are in several"
            )
        if self.first.loss.edge_layout.n_contexts > 1:
            raise UnsupportedObjectiveError(
                "it knows one weight for each pair of labels, and bigram features (patterns like B01:%x[0,0]) have one "
                "for each pair and feature: prox-qn, l-bfgs and the others of whole gradients train these"
            )
        kind.check(self)

    def state(self, kind: type[S], *arguments: Any) -> S:
        """Return the state of a method, or raise UnsupportedObjectiveError; arguments as of its class."""
        self.check_state(kind)
        return kind.make(self, *arguments)


def build_objective(
    features: FeatureMap,
    loss: ScoreLoss,
    weights: Vector | None = None,
    support: Support | None = None,
    offset: Vector | None = None,
    max_part_scores: float = MAX_PART_SCORES,
    block_scores: int = BLOCK_SCORES,
) -> Objective:
    """Return the objective of a loss over features in memory; parameters as of `Part`. Items with more than
    `max_part_scores` scores are cut into blocks of about `block_scores`."""
    part = Part(features, loss, weights, support, offset)
    if loss.n_states * features.n_positions <= max_part_scores:
        return Objective(LocalParts([part], np.inf))
    return in_blocks(part, max(block_scores // loss.n_states, 1))


def in_blocks(part: Part, n_positions: int, max_kept: float = MAX_KEPT_RESIDUALS) -> Objective:
    """Return the objective of items cut into blocks of about `n_positions` positions, of one or more items."""
    cuts = block_cuts(part.map.offsets, n_positions)
    return Objective(LocalParts([part.take(np.arange(*ends)) for ends in pairwise(cuts)], max_kept))


def block_cuts(offsets: NDArray[np.int64], n_positions: int) -> list[int]:
    """Return the ends of runs of items with up to `n_positions` positions, of one or more items."""
    cuts = [0]
    while cuts[-1] < offsets.size - 1:
        after = int(np.searchsorted(offsets, offsets[cuts[-1]] + n_positions, side="right")) - 1
        cuts.append(max(after, cuts[-1] + 1))
    return cuts
