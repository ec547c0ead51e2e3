"""A point: the negative log-likelihood at sparse weights, and everything that one inference pass tells about it.

Its gradient is read where it is asked for; no array of F x K numbers ever exists. A `Ray` is a point and a direction.

Shapes: I items, N positions, F features, K states, E edge weights; coordinates as in `coordinates.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.columns import square_sums
from crfqn.kernels.taxonomy import add_undecided
from crfqn.kernels.union import union
from crfqn.objectives.coordinates import SparseWeights, joined, merge_weights
from crfqn.objectives.edge_model import edge_curvature
from crfqn.objectives.incremental import Incremental
from crfqn.objectives.scores import add_image
from crfqn.objectives.screening import Memory, RowNorm, Screening, screen, strong_rows
from crfqn.objectives.spreads import count_within, list_beyond
from crfqn.objectives.token_model import Model, token_model
from crfqn.structures.structure import Inference
from crfqn.threads import N_PARTS

if TYPE_CHECKING:
    from crfqn.objectives.crf import CRFObjective

Coords = NDArray[np.int64]
Vector = NDArray[np.float64]
NO_COORDS, NO_SQUARES = np.empty(0, np.int64), np.empty((2, 0))


@dataclass(eq=False)
class Point:
    """The loss at sparse weights; everything else is computed when it is asked for, once."""

    objective: CRFObjective
    coords: Coords
    weights: Vector
    scores: Vector
    edges: Vector
    _known_squares: tuple[Coords, Vector] = field(default=(NO_COORDS, NO_SQUARES), repr=False)
    _memory: Memory = field(default_factory=Memory, repr=False)

    @property
    def light(self) -> SparseWeights:
        """What may be kept of a point, which is as large as the data."""
        return SparseWeights(self.coords, self.weights)

    @cached_property
    def inference(self) -> Inference:
        """The one pass over the data that a point costs."""
        owner = self.objective
        owner.n_passes += 1
        return owner.structure.infer(self.scores, self.edges, owner.targets, owner.weights, owner.pool)

    @cached_property
    def item_losses(self) -> Vector:
        """-log P(y_i | x_i), (I,), in nats."""
        return self.inference.log_partition - self.inference.target_score

    @cached_property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self.objective.weights @ self.item_losses)

    def gradient(self, coords: Coords) -> Vector:
        """Partial derivatives of the loss at `coords` (paper, equations 20 and 21)."""
        return self.objective.column_sums(coords, self.inference.residual, self.inference.edge_residual)

    def marginals_at(self, states: NDArray[np.integer], positions: NDArray[np.integer]) -> Vector:
        """Node marginals of some states (ascending) at some positions, (states, positions); 0 where the weight is 0."""
        owner = self.objective
        p = self.inference.residual[np.ix_(states, positions)] * owner.inverse_weights[positions]
        lineages = owner.structure.lineages
        targets = owner.targets[positions]
        lengths = np.diff(lineages.indptr)[targets]
        first = np.cumsum(lengths) - lengths
        entry = np.arange(lengths.sum()) + np.repeat(lineages.indptr[targets] - first, lengths)
        observed, column = lineages.states[entry], np.repeat(np.arange(targets.size), lengths)
        if states.size == 0:
            return p
        row = np.minimum(np.searchsorted(states, observed), states.size - 1)
        is_asked = (states[row] == observed) & (owner.inverse_weights[positions[column]] > 0)
        p[row[is_asked], column[is_asked]] += 1.0
        return p

    def undecided(self, states: NDArray[np.integer]) -> Vector:
        """sum_k p_t(k) (1 - p_t(k)) over some states, (N,): what each position leaves open."""
        owner = self.objective
        residual = self.inference.residual  # not within a thread's share: inference needs the threads itself
        out = np.zeros(owner.n_positions)
        cuts = owner.n_positions * np.arange(N_PARTS + 1) // N_PARTS

        def run(part: int) -> None:
            add_undecided(cuts[part], cuts[part + 1], states, residual, owner.inverse_weights, out)

        owner.pool.each(N_PARTS, run)
        return out

    def curvature(self, coords: Coords) -> Vector:
        """Diagonal of the token-wise model: sum_t weight x_tf^2 p_t(k) (1 - p_t(k)); edges: see `edge_model.py`."""
        return self._squares(coords)[0]

    def roughness(self, coords: Coords) -> Vector:
        """sum_t weight x_tf^2 |p_t(k) - observed|: how much curvature a coordinate may meet on its way to a fit.

        Where p is 0 and the label is k there is none at the point, but p has to pass through 1/2.
        """
        return self._squares(coords)[1]

    def _squares(self, coords: Coords) -> Vector:
        """Curvature and roughness, (2, coords): one sweep finds both, and is kept for later subsets."""
        known, table = self._known_squares
        place = np.minimum(np.searchsorted(known, coords), max(known.size - 1, 0))
        if known.size == 0 or not np.array_equal(known[place], coords):
            self._known_squares = known, table = coords, self._measure_squares(coords)
            place = np.arange(coords.size)
        return table[:, place]

    def _measure_squares(self, coords: Coords) -> Vector:
        owner, inference = self.objective, self.inference
        store, split = owner.store, owner.split(coords)
        out = np.empty((2, coords.size))

        def sweep(first: int, last: int) -> None:
            square_sums(
                first, last, split.states, split.features, store.indptr, store.indices, store.values,
                inference.residual, owner.inverse_weights, out[0], out[1],
            )  # fmt: skip

        owner.each_column(split, sweep)
        out[0, split.n_nodes :] = edge_curvature(self, split.edges)
        out[1, split.n_nodes :] = np.abs(inference.edge_residual)[split.edges]
        return out

    def unit(self, coords: Coords) -> Vector:
        """The unit of each coordinate's curvature: max_t x_tf^2; 1 for edges."""
        split = self.objective.split(coords)
        return np.concatenate(
            [self.objective.store.largest_squares[split.features], np.ones(split.edges.size)]
        )

    def screen(self, threshold: float) -> Screening:
        """Every coordinate with |gradient| > threshold, block of features by block."""
        return self._memory.screen(threshold, self._screen)

    def _screen(self, threshold: float) -> Screening:
        found = screen(self.objective, self.inference, threshold)
        stays = self.objective.support.contains(found.coords)
        return Screening(found.coords[stays], found.gradient[stays])

    def screen_rows(self, bound: float, inside: float, order: int) -> Screening:
        """Whole rows, all weights of a feature: those with || max(|gradient| - inside, 0) || > bound, and the point's.

        The norm is the sum (order 1) or the Euclidean one (order 2); an edge is a row of its own. A few rows below the
        bound may come with them.
        """
        owner, own = self.objective, self.objective.split(self.coords)
        features, gradients = strong_rows(
            owner, self.inference, union(own.features), bound, RowNorm(inside, order)
        )
        edges = union(np.flatnonzero(np.abs(self.inference.edge_residual) > bound + inside), own.edges)
        gradient = joined(gradients.reshape(-1), self.inference.edge_residual[edges])
        coords = owner.all_rows(features, edges)
        if owner.support.is_everything:
            return Screening(coords, gradient)
        stays = owner.support.contains(coords)
        return Screening(coords[stays], gradient[stays])

    def count_within(self, bound: float, scale: float, radius: float) -> int:
        """How many coordinates j, or those of the support, have scale |g_j| + radius spread_j < bound; scale > 0."""
        return count_within(self.objective, self.inference, bound, scale, radius)

    def beyond(self, bound: float, scale: float, radius: float, most: int) -> Coords | None:
        """The coordinates that are not within, and perhaps others; None if more than `most`."""
        return list_beyond(self, bound, scale, radius, most)

    def token_model(self, coords: Coords, n_sampled: int, max_dense: int, share: float = 1.0) -> Model | None:
        """The token-wise model of the Hessian on `coords`, from about n_sampled positions."""
        return token_model(self, coords, n_sampled, max_dense, share)

    def dual_value(self, scale: float) -> float:
        """The dual loss of the mixtures q_i = s p_i + (1 - s) delta(y_i), s = scale in (0, 1]; its gradient is s g."""
        inference, weights = self.inference, self.objective.weights
        entropy = float(weights @ inference.log_partition) - inference.expected_score
        return mixture_dual(weights, entropy, self.item_losses, scale)

    def incremental(self) -> Incremental:
        """The loss from here on, while blocks of weights change one after the other."""
        return Incremental(self)

    def along(self, coords: Coords, direction: Vector) -> Ray:
        """The ray w + step * direction."""
        return Ray(self, coords, direction)


@dataclass(eq=False)
class Ray:
    """A point and a direction; the direction's image X d is computed once, points along it touch scores only."""

    origin: Point
    coords: Coords
    direction: Vector

    @cached_property
    def end(self) -> Point:
        """The point at step 1: nearly always the only one asked for, hence without an image of its own."""
        scores, edges = self.origin.scores.copy(), self.origin.edges.copy()
        owner = self.origin.objective
        add_image(owner.store, self.coords, self.direction, scores, edges, owner.pool)
        return self._point(1.0, scores, edges)

    def at(self, step: float) -> Point:
        """The point w + step * direction; the scores are interpolated, X d = scores at 1 - scores at 0."""
        if step == 1.0:
            return self.end
        start, end = self.origin, self.end
        scores = start.scores + step * (end.scores - start.scores)
        return self._point(step, scores, start.edges + step * (end.edges - start.edges))

    def _point(self, step: float, scores: Vector, edges: Vector) -> Point:
        start = self.origin
        coords, weights = merge_weights(start.coords, start.weights, self.coords, step * self.direction)
        return Point(start.objective, coords, weights, scores, edges)


def mixture_dual(weights: Vector, entropy: float, item_losses: Vector, scale: float) -> float:
    """sum_i weight_i [s (H_i + pi_i log pi_i) - s (1 - pi_i) log s - r_i log r_i], r_i = s pi_i + 1 - s.

    H_i is the entropy of p_i, `entropy` their weighted sum, and pi_i = p_i(y_i) = exp(-item_losses).
    """
    s, log_pi = scale, -item_losses
    pi = np.exp(np.minimum(log_pi, 0.0))
    r = s * pi + (1.0 - s)
    # r = 0 only where s = 1 and pi underflows; r log r -> 0 there.
    r_log_r = r * np.log(np.maximum(r, np.finfo(float).tiny))
    return float(s * entropy + weights @ (s * pi * log_pi - s * (1.0 - pi) * np.log(s) - r_log_r))
