"""A part of the items, with their features and their loss, and the loss of a part at sparse weights.

    F(w) = sum_i weight_i loss_i(scores(w)),   scores = X w + offset,   gradient = X' residual

An objective (`objective.py`) is the sum of its parts. Shapes: I items, N positions, F features, K states, E edge
weights; coordinates as in `linear/feature_map.py`. No array of F x K numbers ever exists.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Screening, Vector
from crfqn.errors import InputError
from crfqn.kernels.sparse import union
from crfqn.objectives.curvature import (
    MAX_MODEL_EDGES,
    STATE_OPERATIONS,
    Matrix,
    Operations,
    margin_model,
    token_model,
)
from crfqn.objectives.fingerprint import fingerprint
from crfqn.objectives.linear.feature_map import CoordinateParts, FeatureMap, scores_of, sums_of, with_edges
from crfqn.objectives.losses.score_loss import DualLoss, Evaluation, ScoreLoss
from crfqn.objectives.marginals import Marginals, edge_curvature
from crfqn.objectives.support import Support

MAX_UNCUT_POSITIONS = 256  # positions of an item that online learning does not cut
SEGMENT_LENGTH = 32  # positions of the segments of longer items, about: as many as sentences have
# Positions from which small values are computed; features at a time
SAMPLED_POSITIONS, FEATURE_BATCH = 4096, 1024
FLOAT32_RESOLUTION = 1e-6  # relative: a smaller spread is rounding of float32 values (eps 1.2e-7)
# Smallest weight above 0: the inverse of a smaller one is infinite.
MIN_ITEM_WEIGHT = float(np.finfo(np.float64).tiny)


class PartStatistics(NamedTuple):
    """Numbers that can be summed over the parts: items, positions, their weight, the mean number of positions that have
    a feature, the operations of inference (`curvature.py`) and the entries of the features."""

    n_items: int
    n_positions: int
    total_weight: float
    mean_occurrence: float
    inference: float
    entries: float

    def operations(self, n_features: int, n_states: int) -> Operations:
        """Return the operations of a pass over these items."""
        has_sequences = self.n_positions >= 2 * self.n_items
        return Operations(self.inference, self.entries, n_features, n_states, has_sequences)


class Part:
    """Items with their features, loss and weights.

    Parameters
    ----------
    map : FeatureMap of N positions and F features, with its threads
    loss : ScoreLoss over the same positions
    weights : ndarray of float64, shape (I,), optional: the weight of each item, 1 by default
    support : Support, optional: the only coordinates that may have a weight; all by default
    offset : ndarray of float64, shape (K, N), optional: scores of a fixed part of the model, added to those of the
        weights

    Attributes
    ----------
    n_passes : float, inference passes over these items so far

    Raises
    ------
    InputError
        If features, loss, weights and offset have different sizes, or if a weight of an item is not allowed.
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
        self.n_items, self.n_positions = map.n_items, map.n_positions
        self.n_features, self.n_states = map.n_features, loss.n_states
        self.n_passes = 0.0
        self._everything: CoordinateParts | None = None
        if (loss.n_items, loss.n_positions) != (map.n_items, map.n_positions):
            raise InputError(
                f"expected a loss over {map.n_items} items and {map.n_positions} positions, as the "
                f"features have, got {loss.n_items} items and {loss.n_positions} positions"
            )
        if self.weights.shape != (loss.n_items,):
            raise InputError(f"expected {loss.n_items} weights, one an item, got shape {self.weights.shape}")
        is_allowed = (self.weights == 0) | (self.weights >= MIN_ITEM_WEIGHT)
        wrong = np.flatnonzero(~(np.isfinite(self.weights) & is_allowed))
        if wrong.size:
            raise InputError(
                f"expected weights of items that are 0, or finite and at least {MIN_ITEM_WEIGHT:.3g}, got "
                f"{self.weights[wrong[0]]} for item {wrong[0]}"
            )
        shape = loss.n_states, loss.n_positions
        if self.offset is not None and (self.offset.shape != shape or not np.all(np.isfinite(self.offset))):
            raise InputError(f"offset: expected finite scores of shape {shape}, got {self.offset.shape}")
        self.support = support or Support(loss.n_states * map.n_features, loss.n_edges)
        self.total_weight = float(self.weights.sum())

    @cached_property
    def position_weights(self) -> Vector:
        """The weight of each position, (N,): that of its item, times its own if positions have weights."""
        return np.repeat(self.weights, np.diff(self.map.offsets)) * self.loss.position_weights

    @cached_property
    def inverse_weights(self) -> Vector:
        """1 / `position_weights`, and 0 for 0, (N,)."""
        out = np.zeros(self.n_positions)
        np.divide(1.0, self.position_weights, out=out, where=self.position_weights > 0)
        return out

    def take(self, items: NDArray[np.integer]) -> Part:
        """Return some items (ascending), with the same coordinates."""
        features, positions = self.map.take(items)
        loss = self.loss.take(items, positions, features.offsets)
        offset = None if self.offset is None else self.offset[:, positions]
        return Part(features, loss, self.weights[items], self.support, offset)

    def without_items(self) -> Part:
        """Return a part of no items, with the same support, labels and features."""
        return self.take(np.empty(0, np.int64))

    def without_bigram_features(self) -> Part:
        """Return the items for a model without bigram features, whose coordinates come first; itself if it has none."""
        if self.loss.edge_layout.n_contexts <= 1:
            return self
        n_edges, support = min(self.n_states**2, self.loss.n_edges), self.support
        edges = None if support.edges is None else support.edges[support.edges < n_edges]
        support = replace(support, n_edges=n_edges, edges=edges)
        return Part(self.map, self.loss.without_bigram_features, self.weights, support, self.offset)

    def with_truncated_items(self) -> Part:
        """Return the items, those longer than `MAX_UNCUT_POSITIONS` cut at truncation points of the loss into segments
        of about `SEGMENT_LENGTH` positions, without the transitions between segments; itself if no item is longer."""
        offsets = self.map.offsets
        lengths = np.diff(offsets)
        is_long = lengths > MAX_UNCUT_POSITIONS
        if not is_long.any():
            return self
        n_segments = np.where(is_long, -(-lengths // SEGMENT_LENGTH), 1)
        item_of = np.repeat(np.arange(lengths.size), n_segments)
        number = np.arange(item_of.size) - np.repeat(np.cumsum(n_segments) - n_segments, n_segments)
        goals = offsets[item_of] + lengths[item_of] * number // n_segments[item_of]
        truncation_points = self.loss.truncation_points()
        truncation_points[offsets[:-1][lengths > 0]] = True
        places = np.append(np.flatnonzero(truncation_points), offsets[-1])
        cuts = np.unique(np.append(places[np.searchsorted(places, goals)], offsets[-1]))
        weights = self.weights[np.searchsorted(offsets, cuts[:-1], side="right") - 1]
        loss = self.loss.take(np.arange(cuts.size - 1), np.arange(self.n_positions), cuts)
        return Part(self.map.cut(cuts), loss, weights, self.support, self.offset)

    def split(self, coords: Coords) -> CoordinateParts:
        """Split sorted coordinates into nodes and edges."""
        n_possible = self.n_states * self.n_features + self.loss.n_edges
        if coords.size != n_possible:
            return CoordinateParts.from_coords(coords, self.n_states, self.n_features)
        if self._everything is None:  # methods that keep all weights need it in every step
            self._everything = CoordinateParts.from_coords(
                np.arange(n_possible), self.n_states, self.n_features
            )
        return self._everything

    def at(self, coords: Coords, weights: Vector) -> PartPoint:
        """Return the loss at sparse weights (sorted coordinates, values)."""
        return PartPoint(self, coords, weights)

    # Functions for `Objective.map_parts`.

    def statistics(self) -> PartStatistics:
        """Return the numbers that are summed over the parts."""
        n_transitions = min(self.n_states**2, self.loss.n_edges)
        inference = self.n_positions * (STATE_OPERATIONS * self.n_states + n_transitions)
        mean_occurrence = self.map.mean_occurrence
        entries = mean_occurrence * self.n_features
        sizes = self.n_items, self.n_positions, self.total_weight
        return PartStatistics(*sizes, mean_occurrence, inference, entries)

    def fingerprints(self) -> list[str]:
        """Return hashes of features, labels, weights of items and offset."""
        return [*map(fingerprint, (self.map, self.loss, self.weights, self.offset))]

    def feature_scales(self) -> Vector | float:
        """Return max_t x_tf^2 of each feature, (F,), or 1 if all are 1."""
        scales = self.map.feature_scales
        return 1.0 if (scales == 1.0).all() else scales

    def small_values(self, features: Coords) -> Vector:
        """Return the first decile of the absolute nonzero values of each feature, or that of their distances from the
        median if it is smaller, because features need not be centered, (n,). It is computed from up to
        `SAMPLED_POSITIONS` positions; infinite for a feature that none of them has, 0 if its values are equal in
        float32.
        """
        positions = np.arange(0, self.n_positions, -(-self.n_positions // SAMPLED_POSITIONS) or 1)
        out = np.full(features.size, np.inf)
        for first in range(0, features.size, FEATURE_BATCH):
            x = self.map.values_at(features[first : first + FEATURE_BATCH], positions)
            for i, row in enumerate(x, first):
                values = row[row != 0]
                if values.size == 0:
                    continue
                out[i] = first_decile(np.abs(values))
                if (values != values[0]).any():
                    middle = np.median(values)
                    distances = np.abs(values - middle)
                    spread = first_decile(distances[distances > 0])
                    out[i] = min(out[i], spread) if spread > FLOAT32_RESOLUTION * abs(middle) else 0.0
        return out

    def hessian_bound(self) -> float:
        """Return a bound on the largest eigenvalue of the Hessian that holds at all weights.

        For losses of single positions it is that of sum_t c_t x_t x_t', c_t = weight_t times the loss's bound: for the
        multiclass squared hinge 2 K ||X||_2^2; Blondel et al. (2013), appendix A, have 4 (K - 1) sum_tj x_tj^2.
        """
        per_position, edges = self.loss.hessian_bounds(self.weights)
        return max(self.map.eigenvalue_bound(per_position), edges)

    def gram(self) -> Vector:
        """Return M, float64 (F, F): at all weights Hessian <= I_K (x) M."""
        return self.map.gram(self.loss.hessian_bounds(self.weights)[0])

    def gram_product(self, table: Vector) -> Vector:
        """Return a table (k, F) times M, in float64 and without M."""
        return sums_of(self.map, scores_of(self.map, table) * self.loss.hessian_bounds(self.weights)[0])

    def squared_ranges(self) -> tuple[Vector, Vector]:
        """Return the squares of the `Ranges` of this part, which are summed over the parts."""
        return self.map.item_ranges(self.weights), self.loss.structure.edge_ranges(self.weights)


def first_decile(values: NDArray[np.float32]) -> float:
    """Return the first decile of some values."""
    return float(np.partition(values, values.size // 10)[values.size // 10])


class PartPoint:
    """The loss of a part at sparse weights; all attributes are computed on first use.

    scores, edges : float64 (K, N) and (E,), optional: the scores of the weights, and of the edges
    """

    def __init__(
        self,
        part: Part,
        coords: Coords,
        weights: Vector,
        scores: Vector | None = None,
        edges: Vector | None = None,
    ) -> None:
        self.part, self.coords, self.weights = part, coords, weights
        if scores is not None:
            self.image = scores, edges

    @cached_property
    def image(self) -> tuple[Vector, Vector | None]:
        """The scores, (K, N), and those of the edges, (E,)."""
        part = self.part
        nodes, edges = part.split(self.coords), np.zeros(part.loss.n_edges)
        scores = np.zeros((part.n_states, part.n_positions)) if part.offset is None else part.offset.copy()
        part.map.image(nodes, self.weights[: nodes.n_nodes], scores)
        edges[nodes.edges] += self.weights[nodes.n_nodes :]
        return scores, edges

    @property
    def scores(self) -> Vector:
        """The scores, (K, N)."""
        return self.image[0]

    @property
    def edges(self) -> Vector:
        """The scores of the edges, (E,)."""
        assert self.image[1] is not None
        return self.image[1]

    @cached_property
    def evaluation(self) -> Evaluation:
        """Losses and residuals, computed in one inference pass."""
        part = self.part
        part.n_passes += 1
        return part.loss.evaluate(self.scores, self.edges, part.weights, part.map.pool)

    @cached_property
    def score_curvature(self) -> Vector:
        """The diagonal of the Hessian by the scores, (K, N), for losses of margins."""
        return self.part.loss.curvature(self.scores, self.evaluation, self.part.weights)

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self.part.weights @ self.evaluation.item_losses)

    @cached_property
    def dual(self) -> DualLoss:
        """The dual loss along the mixtures that prove bounds."""
        part, evaluation = self.part, self.evaluation
        dual = part.loss.dual(evaluation, part.weights)
        return dual if part.offset is None else dual.around(float(np.vdot(evaluation.residual, part.offset)))

    def forget(self, *names: str) -> None:
        """Free arrays that are as large as the scores; they are computed again on the next use."""
        for name in names:
            self.__dict__.pop(name, None)

    def moved(self, coords: Coords, weights: Vector, direction: Coords, change: Vector) -> PartPoint:
        """Return the point w + change, from the scores of this one; `coords`, `weights` : w + change."""
        part, scores, edges = self.part, self.scores.copy(), self.edges.copy()
        nodes = part.split(direction)
        part.map.image(nodes, change[: nodes.n_nodes], scores)
        edges[nodes.edges] += change[nodes.n_nodes :]
        return PartPoint(part, coords, weights, scores, edges)

    def gradient(self, coords: Coords) -> Vector:
        """Return the partial derivatives of the loss at `coords` (Zhong et al., equations 20 and 21)."""
        nodes = self.part.split(coords)
        sums = self.part.map.adjoint(nodes, self.evaluation.residual)
        return with_edges(sums, self.evaluation.edge_residual[nodes.edges])

    def screen(self, threshold: float) -> Screening:
        """Return every coordinate with |gradient| > threshold."""
        part, evaluation = self.part, self.evaluation
        nodes = part.map.screen(evaluation.residual, threshold)
        edges = np.flatnonzero(np.abs(evaluation.edge_residual) > threshold)
        coords = with_edges(nodes.coords, edges + part.n_states * part.n_features)
        gradient = with_edges(nodes.gradient, evaluation.edge_residual[edges])
        return self._within_support(Screening(coords, gradient))

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Return whole rows, all weights of a feature: those with || max(|gradient| - inside, 0) || > bound, those of
        the point's weights, and perhaps others. The norm is the sum (order 1) or Euclidean (2). Each edge is a row."""
        part, nodes, evaluation = self.part, self.part.split(self.coords), self.evaluation
        features, gradients = part.map.screen_rows(
            evaluation.residual, union(nodes.features), bound, inside, order
        )
        edges = union(np.flatnonzero(np.abs(evaluation.edge_residual) > bound + inside), nodes.edges)
        first = part.n_features * np.arange(part.n_states)
        coords = with_edges((first[:, None] + features).reshape(-1), edges + part.n_states * part.n_features)
        gradient = with_edges(gradients.reshape(-1), evaluation.edge_residual[edges])
        return self._within_support(Screening(coords, gradient))

    def _within_support(self, found: Screening) -> Screening:
        support = self.part.support
        return found if support.is_everything else found.restricted_to(support.contains(found.coords))

    def squares(self, coords: Coords) -> Vector:
        """Return diagonal and majorant of the curvature, (2, coords).

        The diagonal of a likelihood's model is sum_t weight x_tf^2 p_t(k) (1 - p_t(k)); for edges see `marginals.py`.
        The majorant is sum_t weight x_tf^2 |p_t(k) - observed|: if p is 0 and the label is k there is no curvature at
        the point, but p has to pass through 1/2. For piecewise quadratic losses the majorant is the diagonal.
        """
        part, nodes, evaluation = self.part, self.part.split(coords), self.evaluation
        if not part.loss.has_marginals:
            return np.tile(part.map.squares(nodes, self.score_curvature), (2, 1))
        # The residual of weighted positions also contains expectations given the other labels.
        residual = Marginals(self).residual if part.loss.has_position_weights else evaluation.residual
        table = part.map.residual_squares(nodes, residual, part.inverse_weights)
        if nodes.edges.size == 0:
            return table
        edges = [edge_curvature(Marginals(self), nodes.edges), np.abs(evaluation.edge_residual)[nodes.edges]]
        return np.concatenate([table, np.stack(edges)], axis=1)

    def hessian_model(
        self,
        coords: Coords,
        diagonal: Vector | None,
        n_sampled: int,
        n_positions: int,
        max_dense: int,
        share: float,
        passes: float,
    ) -> Matrix | None:
        """Return the token-wise model of the Hessian, or the generalised Hessian, from this part's share of about
        `n_sampled` of all `n_positions`; None if it would be too large, or cost more than `passes`.

        diagonal : that of the curvature at `coords`; None if it has not been computed
        """
        part, nodes = self.part, self.part.split(coords)
        n_sampled = -(-n_sampled * part.n_positions // max(n_positions, 1))
        diagonal = self.squares(coords)[0] if diagonal is None else diagonal
        if nodes.edges.size > max(MAX_MODEL_EDGES, part.loss.edge_layout.n_pairs):
            return None
        if part.loss.has_marginals:
            return token_model(Marginals(self), nodes, diagonal, n_sampled, max_dense, share, passes)
        return None if coords.size > max_dense else margin_model(self, coords, diagonal, n_sampled)

    def count_within(self, bound: float, scale: float, radius: float, ranges: Ranges) -> int:
        """Count the coordinates j of the support with scale |g_j| + radius range_j < bound; scale > 0. Features are
        skipped if their range alone exceeds the bound, or if no gradient can."""
        part, support, evaluation = self.part, self.part.support, self.evaluation
        room = (bound - radius * ranges.features) / scale
        edges = slice(None) if support.edges is None else support.edges
        edge_room = (bound - radius * ranges.edges[edges]) / scale
        count = int(np.count_nonzero(np.abs(evaluation.edge_residual[edges]) < edge_room))
        if support.nodes is None:
            return count + part.map.count_small(evaluation.residual, room) - support.n_empty * (bound > 0)
        gradient = part.map.adjoint(part.split(support.nodes), evaluation.residual)
        return count + int(np.count_nonzero(np.abs(gradient) < room[support.nodes % room.size]))


class Ranges(NamedTuple):
    """sqrt(sum_i weight_i r_ij^2) of each feature, the same for all states, (F,); and of each edge, (E,).

    If a distribution over the labellings of item i moves by an L1 distance d, the expectation of f_j moves by no more
    than d / 2 times the range r_ij = max_y f_j(x_i, y) - min_y f_j(x_i, y). A label (node) k with feature f can
    collect all positive or all negative x_tf of the item: r_ij = sum_t |x_tf|, one number for all k.
    """

    features: Vector
    edges: Vector

    def at(self, nodes: CoordinateParts) -> Vector:
        """Return the ranges of sorted coordinates."""
        return with_edges(self.features[nodes.features], self.edges[nodes.edges])
