"""The objective: a feature map x a loss of the scores x weights of the items.

    F(w) = sum_i weight_i loss_i(scores(w)),   scores = X w + offset,   gradient = X' residual

It evaluates at sparse weights; an evaluation is a handle, a `Point` (`point.py`): nothing has to be called in the right
order. What one method keeps over the items is a state (`MethodState`). Shapes: I items, N positions, F features, K
states, E edge weights; coordinates as in `linear/feature_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, reduce
from operator import add, attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError, ViewError
from crfqn.objectives import curvature
from crfqn.objectives.fingerprint import fingerprint
from crfqn.objectives.linear.feature_map import FeatureMap, Split, split_coords, with_edges
from crfqn.objectives.linear.gram import check_width
from crfqn.objectives.losses.intercept_bound import part_margins
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.operations import STATE, Operations
from crfqn.objectives.point import Point
from crfqn.objectives.support import Support
from crfqn.threads import Pool

LONGEST = 256  # positions of an item that is learned from as a whole
SEGMENT = 32  # positions, about, of the segments that longer items are cut into
MOST_SAMPLED, FEATURES_AT_ONCE = 4096, 1024  # positions and features that small values are looked for at
RESOLVED = 1e-6  # of a value: differences that single precision tells
SMALLEST_WEIGHT = float(np.finfo(np.float64).tiny)  # of an item that counts
REFUSALS = {
    "has_curvature": "a metric of second order needs a loss with curvature",
    "has_hessian_bound": "constant steps need a loss with a bounded Hessian",
    "has_gram": "a Gram matrix needs a loss with a bounded Hessian, a weight for every state and feature, and no edges",
    "proves_zeros": "proofs of zeros need a likelihood",
}

HASHED = {"features": "map", "labels": "loss", "weights of items": "weights", "offset": "offset"}


def fingerprints_of(part: Any) -> list[str]:
    """Return hashes of the data of a part, as of `HASHED`."""
    return [fingerprint(getattr(part, field)) for field in HASHED.values()]


def feature_scales(part: Any) -> Vector | float:
    """Return max_t x_tf^2 of each feature, (F,), or 1 where all are 1, as of words."""
    scales = part.map.feature_scales
    return 1.0 if (scales == 1.0).all() else scales


def tenth(values: NDArray[np.float32]) -> float:
    """Return the value that nine in ten are above, or as large as."""
    return float(np.partition(values, values.size // 10)[values.size // 10])


def small_values(part: Any, features: Coords) -> Vector:
    """Return the size that nine in ten of each feature's values other than 0 exceed, or of their distances from the
    median, if that is smaller: a feature may be off its centre. Of at most `MOST_SAMPLED` positions of a part, (n,);
    infinite for a feature that none of them has, 0 where single precision does not tell the values apart."""
    positions = np.arange(0, part.n_positions, -(-part.n_positions // MOST_SAMPLED) or 1)
    out = np.full(features.size, np.inf)
    for first in range(0, features.size, FEATURES_AT_ONCE):
        x = part.map.values_at(features[first : first + FEATURES_AT_ONCE], positions)
        for i, row in enumerate(x, first):
            values = row[row != 0]
            if values.size == 0:
                continue
            out[i] = tenth(np.abs(values))
            if (values != values[0]).any():
                middle = np.median(values)
                distances = np.abs(values - middle)
                spread = tenth(distances[distances > 0])
                out[i] = min(out[i], spread) if spread > RESOLVED * abs(middle) else 0.0
    return out


class Ranges(NamedTuple):
    """sqrt(sum_i weight_i r_ij^2) of each feature, the same for all states, (F,); and of each edge, (E,).

    A distribution over the labellings of item i that moves by some L1 distance moves the expectation of f_j by no more
    than half of it times the range r_ij = max_y f_j(x_i, y) - min_y f_j(x_i, y). A label (node) k with feature f can
    collect all positive or all negative x_tf of the item: r_ij = sum_t |x_tf|, one number for all k.
    """

    features: Vector
    edges: Vector

    def at(self, nodes: Split) -> Vector:
        """Return those of sorted coordinates."""
        return with_edges(self.features[nodes.features], self.edges[nodes.edges])


def squared_ranges(part: Any) -> tuple[Vector, Vector]:
    """Return the squares of a part's ranges, which add up."""
    return part.map.item_ranges(part.weights), part.loss.edge_ranges(part.weights)


class MethodState:
    """Base of what a method keeps over the items: dual variables, dense rows, margins that follow every step.

    It lives in the method's folder and is made by `objective.state(kind, ...)`, of items that are at hand.

    Attributes
    ----------
    takes_blocks : whether it is made of items that come in blocks, too
    """

    takes_blocks: ClassVar[bool] = False

    def __init__(self, objective: Any, *arguments: Any) -> None:
        raise NotImplementedError

    @classmethod
    def make(cls, objective: Any, *arguments: Any) -> Any:
        """Return the state of an objective; arguments as of the class."""
        return cls(objective, *arguments)

    @classmethod
    def check(cls, objective: Any) -> None:
        """Raise ViewError for objectives, sums of `objective.parts`, of which it cannot be made."""


S = TypeVar("S", bound=MethodState)


def has_state(objective: Any, kind: type[MethodState]) -> bool:
    """Return whether a method's state can be made of an objective."""
    try:
        objective.check_state(kind)
    except ViewError:
        return False
    return True


class BaseObjective:
    """Base of objectives, in one piece or in `parts`, whose bounds add up: all that solvers and wrappers know of one.

    parts : the objectives that it is the sum of, over the same coordinates; may be made anew whenever iterated over
    first : Objective, the first of the parts, perhaps without its items: what all of them have in common
    at(coords, weights) : the point of sparse weights (sorted coordinates, values)
    sample(stride) : the loss over every stride-th item: the same coordinates, about 1 / stride of the value
    split(coords) : `Split`, sorted coordinates taken apart
    support : the coordinates that may have a weight; n_coords of them, of n_node_coords = K F and E
    n_passes : float, inference passes over the data so far
    pool : the threads, for the penalty's part of a step
    n_items, n_positions, n_features, n_states : I, N, F, K
    mean_occurrence : float, the positions that have a feature, on average over the features
    total_weight : float, the sum of the items' weights
    is_convex : bool; of a loss that is not, nothing is proved, and its runs end at stationary points
    is_nonnegative : bool; whether 0 is the smallest loss
    has_curvature, has_hessian_bound : bool; whether the loss has second derivatives; whether the Hessian is bounded
    proves_zeros : bool; whether the loss is a likelihood
    operations : Operations, what a pass takes
    """

    in_blocks: ClassVar[bool] = False
    n_passes: float
    first: Any
    parts: Any
    pool: Any
    n_items: Any
    n_positions: Any
    mean_occurrence: Any
    total_weight: Any
    operations: Any
    at: Any
    sample: Any
    split: Any

    n_states = cached_property(attrgetter("first.loss.n_states"))
    n_features = cached_property(attrgetter("first.map.n_features"))
    support = cached_property(attrgetter("first.support"))
    n_coords = cached_property(attrgetter("support.n_coords"))
    n_node_coords = cached_property(attrgetter("support.n_node_coords"))
    is_nonnegative = cached_property(attrgetter("first.loss.has_dual"))
    has_curvature = cached_property(attrgetter("first.loss.has_curvature"))
    has_hessian_bound = cached_property(attrgetter("first.loss.is_smooth"))
    proves_zeros = cached_property(attrgetter("first.loss.has_marginals"))

    def of_parts(self, question: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function that is no method answers of each part, in their order."""
        return [question(part, *args) for part in self.parts]

    @property
    def without_contexts(self) -> Any:
        """The objective of a model without bigram features, whose coordinates come first: itself where it has none."""
        return self

    @property
    def in_segments(self) -> Any:
        """The objective of items of bounded length: itself where none is longer."""
        return self

    @property
    def has_gram(self) -> bool:
        """Whether that bound is a matrix over the features alone."""
        return self.has_hessian_bound and self.support.is_everything and not self.support.n_edges

    @property
    def is_convex(self) -> bool:
        """Whether the problem is convex, so that a small gradient may say how far the optimum is."""
        return self.first.loss.is_convex and self.first.map.is_definite

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data, which are read once."""
        hashes = map(fingerprint, zip(*self.of_parts(fingerprints_of), strict=True))
        return dict(zip(HASHED, hashes, strict=True)) | {"support": fingerprint(self.support)}

    def refusal(self, fact: str) -> str:
        """Return why a fact does not hold."""
        return f"{REFUSALS[fact]}; the loss is {type(self.first.loss).__name__}"

    @cached_property
    def feature_scales(self) -> Vector:
        """max_t x_tf^2 of each feature, (F,)."""
        return reduce(np.maximum, self.of_parts(feature_scales), np.zeros(self.n_features))

    def feature_scale(self, coords: Coords) -> Vector:
        """Return the unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
        nodes = self.split(coords)
        return with_edges(self.feature_scales[nodes.features], np.ones(nodes.edges.size))

    def small_values(self, coords: Coords) -> Vector:
        """Return a small value of each coordinate's feature, (n,), as of `small_values`; 1 for edges, and for features
        that nothing has."""
        nodes = self.split(coords)
        features, places = np.unique(nodes.features, return_inverse=True)
        largest = np.sqrt(self.feature_scales[features])
        small = reduce(np.minimum, self.of_parts(small_values, features), largest)
        small[largest == 0] = 1.0
        return with_edges(small[places], np.ones(nodes.edges.size))

    def hessian_bound(self) -> float:
        """Return at least the largest eigenvalue of the Hessian, at all weights."""
        return sum(self.of_parts(curvature.hessian_bound))

    def gram(self) -> Vector:
        """Return M, float64 (F, F): at all weights Hessian <= I_K (x) M."""
        check_width(self.n_features)
        return reduce(add, self.of_parts(curvature.gram))

    def gram_product(self, table: Vector) -> Vector:
        """Return a table (k, F) times M, in float64 and without M."""
        return reduce(add, self.of_parts(curvature.times_gram, table))

    def intercept_bound(self, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
        """Return a bound on |b| of some optimum, from an objective value and the norms of penalised weights (L1, L2)
        there; infinite where nothing bounds it, or other weights than all intercepts are unpenalised."""
        margins = self.of_parts(part_margins, unpenalised, value, norms)
        if any(each is None for each in margins):
            return np.inf
        tables, steps = zip(*margins, strict=True)
        return self.first.loss.intercept_bound(np.min(tables, axis=0), max(steps))

    @cached_property
    def ranges(self) -> Ranges:
        """Bounds on how far the counts of features and edges can move within the items, of a likelihood."""
        squares = zip(*self.of_parts(squared_ranges), strict=True)
        return Ranges(*(np.sqrt(np.sum(both, axis=0)) for both in squares))

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise ViewError unless the state of a method can be made."""
        if self.in_blocks and not kind.takes_blocks:
            raise ViewError(f"{type(self).__name__} has no {kind.__name__}")
        if self.first.loss.edge_layout.has_contexts:
            raise ViewError(
                "it knows one weight for each pair of labels, and bigram features (patterns like B01:%x[0,0]) have one "
                "for each pair and feature: prox-qn, l-bfgs and the others of whole gradients train these"
            )
        kind.check(self)

    def state(self, kind: type[S], *arguments: Any) -> S:
        """Return the state of a method, or raise ViewError; arguments as of its class."""
        self.check_state(kind)
        return kind.make(self, *arguments)


class Objective(BaseObjective):
    """The loss of a model over features; `at(coords, weights)` evaluates it.

    Parameters
    ----------
    map : FeatureMap of N positions and F features, with its threads
    loss : ScoreLoss over the same positions
    weights : ndarray of float64, shape (I,), optional: how often each item counts
    support : Support, optional: the only coordinates that may have a weight; all by default
    offset : ndarray of float64, shape (K, N), optional: scores that are there before any weight, for training the
        rest of a model around a fixed part

    Raises
    ------
    InputError
        For parts that do not fit together, and weights of items that are not allowed.
    """

    def __init__(
        self,
        map: FeatureMap,
        loss: ScoreLoss,
        weights: Vector | None = None,
        support: Support | None = None,
        offset: Vector | None = None,
    ) -> None:
        self.map, self.loss = map, loss
        self.weights = np.ones(loss.n_items) if weights is None else np.asarray(weights, np.float64)
        self.offset = None if offset is None else np.asarray(offset, np.float64)
        self._everything: Split | None = None
        self.n_items, self.n_positions, self.n_passes = map.n_items, map.n_positions, 0.0
        if (loss.n_items, loss.n_positions) != (map.n_items, map.n_positions):
            raise InputError(
                f"expected a loss over {map.n_items} items and {map.n_positions} positions, as the "
                f"features have, got {loss.n_items} items and {loss.n_positions} positions"
            )
        if self.weights.shape != (loss.n_items,):
            raise InputError(f"expected {loss.n_items} weights, one an item, got shape {self.weights.shape}")
        # Smaller weights have an infinite inverse.
        is_allowed = (self.weights == 0) | (self.weights >= SMALLEST_WEIGHT)
        wrong = np.flatnonzero(~(np.isfinite(self.weights) & is_allowed))
        if wrong.size:
            raise InputError(
                f"expected weights of items that are 0, or finite and at least {SMALLEST_WEIGHT:.3g}, got "
                f"{self.weights[wrong[0]]} for item {wrong[0]}"
            )
        shape = loss.n_states, loss.n_positions
        if self.offset is not None and (self.offset.shape != shape or not np.all(np.isfinite(self.offset))):
            raise InputError(f"offset: expected finite scores of shape {shape}, got {self.offset.shape}")
        self.support = support or Support(loss.n_states * map.n_features, loss.n_edges)
        self.total_weight = float(self.weights.sum())

    mean_occurrence = cached_property(attrgetter("map.mean_occurrence"))

    @property
    def first(self) -> Objective:  # type: ignore[override]
        return self

    @property
    def pool(self) -> Pool:
        """The threads of the feature map."""
        return self.map.pool

    @pool.setter
    def pool(self, pool: Pool) -> None:
        self.map.pool = pool

    @property
    def parts(self) -> list[Objective]:  # type: ignore[override]
        """The objectives that it is the sum of: itself."""
        return [self]

    @property
    def operations(self) -> Operations:
        """What a pass over the items takes."""
        inference = self.n_positions * (STATE * self.n_states + self.loss.edge_layout.plain.size)
        has_sequences = self.n_positions >= 2 * self.n_items
        entries = self.mean_occurrence * self.n_features
        return Operations(inference, entries, self.n_features, self.n_states, has_sequences)

    @property
    def without_contexts(self) -> Objective:
        if not self.loss.edge_layout.has_contexts:
            return self
        n_edges, support = self.loss.edge_layout.plain.size, self.support
        edges = None if support.edges is None else support.edges[support.edges < n_edges]
        support = replace(support, n_edges=n_edges, edges=edges)
        return Objective(self.map, self.loss.without_contexts, self.weights, support, self.offset)

    @property
    def in_segments(self) -> Objective:
        """The loss without the transitions between segments of long items: nearly the same, of many items. Items longer
        than `LONGEST` are cut into segments of about `SEGMENT` positions, where the loss allows it."""
        offsets = self.map.offsets
        lengths = np.diff(offsets)
        is_long = lengths > LONGEST
        if not is_long.any():
            return self
        n_segments = np.where(is_long, -(-lengths // SEGMENT), 1)
        item_of = np.repeat(np.arange(lengths.size), n_segments)
        number = np.arange(item_of.size) - np.repeat(np.cumsum(n_segments) - n_segments, n_segments)
        goals = offsets[item_of] + lengths[item_of] * number // n_segments[item_of]
        may_cut = self.loss.may_cut()
        may_cut[offsets[:-1][lengths > 0]] = True
        places = np.append(np.flatnonzero(may_cut), offsets[-1])
        cuts = np.unique(np.append(places[np.searchsorted(places, goals)], offsets[-1]))
        weights = self.weights[np.searchsorted(offsets, cuts[:-1], side="right") - 1]
        loss = self.loss.take(np.arange(cuts.size - 1), np.arange(self.n_positions), cuts)
        return Objective(self.map.cut(cuts), loss, weights, self.support, self.offset)

    @cached_property
    def position_weights(self) -> Vector:
        """The weight of each position, (N,): that of its item, times its own where positions have some."""
        return np.repeat(self.weights, np.diff(self.map.offsets)) * self.loss.position_factors

    @cached_property
    def inverse_weights(self) -> Vector:
        """1 / `position_weights`, and 0 for 0, (N,)."""
        out = np.zeros(self.n_positions)
        np.divide(1.0, self.position_weights, out=out, where=self.position_weights > 0)
        return out

    def sample(self, stride: int) -> Objective:
        """Return the loss over every stride-th item: the same coordinates, about 1 / stride of the value."""
        return self.take(np.arange(stride // 2, self.n_items, stride))

    def take(self, items: NDArray[np.integer]) -> Objective:
        """Return the loss over some items (ascending), with the same coordinates."""
        features, positions = self.map.take(items)
        loss = self.loss.take(items, positions, features.offsets)
        offset = None if self.offset is None else self.offset[:, positions]
        return Objective(features, loss, self.weights[items], self.support, offset)

    def at(self, coords: Coords, weights: Vector) -> Point:
        """Evaluate at the sparse weights (sorted coordinates, values)."""
        return Point(self, coords, weights, *self.image(coords, weights))

    def later(self, coords: Coords, weights: Vector) -> Point:
        """Return the point of the weights, whose pass waits until somebody asks for it."""
        return Point(self, coords, weights)

    def image(self, coords: Coords, weights: Vector) -> tuple[Vector, Vector]:
        """Return the scores, (K, N), and those of the edges, (E,)."""
        nodes, edges = self.split(coords), np.zeros(self.loss.n_edges)
        scores = np.zeros((self.n_states, self.n_positions)) if self.offset is None else self.offset.copy()
        self.map.image(nodes, weights[: nodes.n_nodes], scores)
        edges[nodes.edges] += weights[nodes.n_nodes :]
        return scores, edges

    def split(self, coords: Coords) -> Split:
        """Take sorted coordinates apart."""
        n_possible = self.n_states * self.n_features + self.loss.n_edges
        if coords.size != n_possible:
            return split_coords(coords, self.n_states, self.n_features)
        if self._everything is None:  # methods that keep all of them ask for these in every step
            self._everything = split_coords(np.arange(n_possible), self.n_states, self.n_features)
        return self._everything

    def rows(self, features: NDArray[np.int64], edges: NDArray[np.int64]) -> Coords:
        """Return all coordinates of some features and edges (both sorted), as far as they may have a weight."""
        first = self.map.n_features * np.arange(self.n_states)
        nodes = (first[:, None] + features).reshape(-1)
        coords = with_edges(nodes, edges + self.map.n_features * self.n_states)
        return coords if self.support.is_everything else coords[self.support.contains(coords)]
