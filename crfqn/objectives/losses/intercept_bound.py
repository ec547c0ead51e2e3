"""Bound on intercepts without penalty at an optimum, from the bounded loss of each item.

A dual point whose gradient g_u by an unpenalised weight is not 0 proves F(w) >= D + sum_u g_u w_u. At an optimum the
penalty and the loss of each item cannot exceed F. So penalised weights are bounded, and the labels of the items bound
the intercepts: if an item of label j has a loss of L or less, no label's score exceeds the score of j by more than L
under the multinomial likelihood, and by more than sqrt(L) - 1 under a squared hinge. With scores = b x_t + others, and
`change` a bound on the differences of the others,

    b_k - b_j <= (excess_t + change_t) / x_t    for every label k,

or the other way round if x_t < 0. The intercept of a hinge's label without items needs no step longer than (1 +
change_t) / x_t. Shapes: K states, N positions; `excess` is excess + change, (N,), infinite for items without weight; x
(N,), the constant feature.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from crfqn.arrays import Coords, Vector

FLOAT32_SLACK = 1.0 + 1e-6  # values of a feature may be rounded to float32 by this factor (eps 1.2e-7)


def part_difference_bounds(
    part: Any, unpenalised: Coords, value: float, norms: tuple[float, float]
) -> tuple[Vector, float] | None:
    """Return the loss's `difference_bounds` and the largest step of a part; None if they bound nothing."""
    loss, nodes, weights = part.loss, part.split(unpenalised), part.position_weights
    features = np.unique(nodes.features)
    has_rules = getattr(getattr(loss, "structure", None), "rules", None) is not None
    is_bounded = loss.has_dual and not has_rules and loss.edge_layout.n_contexts <= 1
    is_row = (
        nodes.edges.size == 0 and features.size == 1 and np.isin(loss.position_labels, nodes.states).all()
    )
    is_finite = bool(np.isfinite([value, min(norms)]).all())
    if not (is_bounded and is_row and is_finite and part.support.contains(unpenalised).all()):
        return None
    x = part.map.values_at(features, np.arange(part.n_positions)).astype(np.float64)[0] / FLOAT32_SLACK
    with np.errstate(over="ignore"):
        losses = np.divide(value, weights, out=np.full(weights.size, np.inf), where=weights > 0)
    # Another label at a position changes no count by more than the largest |x|, and a count of edges by 2. The squares
    # of all changes do not exceed the sum of those of x at the states on both labels' paths, and 8 for edges: two
    # transitions are lost, two are new.
    has_edges, n_states = loss.n_edges > 0, 2 * int(np.diff(loss.ancestors.indptr).max())
    length = float(np.sqrt(n_states * part.map.feature_scales.sum() + 8.0 * has_edges))
    bound = min(max(part.map.largest_value, 2.0 * has_edges) * norms[0], length * norms[1])
    change = np.full(x.size, bound)
    change += 0.0 if part.offset is None else n_states * np.abs(part.offset).max(axis=0)
    counts = np.isfinite(losses)
    steps = np.divide(1.0 + change, x, out=np.full(x.size, np.inf), where=x > 0)[counts]
    return loss.difference_bounds(losses, change, x), float(steps.max(initial=0.0))


def label_difference_bounds(labels: NDArray[np.integer], n_states: int, excess: Vector, x: Vector) -> Vector:
    """Return the minimum of excess / |x| by label, over positions with x > 0 and with x < 0, (2, K)."""
    table = np.full((2, n_states), np.inf)
    for row, has_sign in zip(table, (x > 0, x < 0), strict=True):
        np.minimum.at(row, labels[has_sign], excess[has_sign] / np.abs(x[has_sign]))
    return table


def label_range(table: Vector, step: float = np.inf) -> float:
    """Return a bound on max b - min b. The label of the smallest intercept bounds it from above, or that of the
    largest. If `step` is finite (multiclass hinges), a label without items need not be farther than it below the
    smallest of the others."""
    is_seen = np.isfinite(table[0])
    if is_seen.all() or not is_seen.any() or not np.isfinite(step):
        return float(max(min(table[0].max(), table[1].max()), 0.0))
    return float(max(table[0][is_seen].max(), 0.0) + max(step, 0.0))


def pair_difference_bounds(relevance: NDArray[np.bool_], excess: Vector, x: Vector) -> Vector:
    """Return the minimum of excess / x over items with x > 0 whose label j is relevant and k is not, (K, K)."""
    is_used = (x > 0) & np.isfinite(excess)
    relevance, ratios = relevance[is_used], excess[is_used] / x[is_used]
    rows = [
        np.where(relevance[has], np.inf, ratios[has, None]).min(axis=0, initial=np.inf) for has in relevance.T
    ]
    return np.array(rows).reshape(relevance.shape[1], relevance.shape[1])


def pair_range(table: Vector, step: float) -> float:
    """Return a bound on max b - min b by the shortest paths over pairs of labels; infinite if these do not connect
    them. Labels that are always relevant, or never, are within the excess and a step of the others."""
    lengths = np.maximum(table, 0.0)
    is_above, is_below = np.isfinite(lengths).any(axis=1), np.isfinite(lengths).any(axis=0)
    inner = np.flatnonzero(is_above & is_below)
    if inner.size == 0 or not (is_above | is_below).all():
        return np.inf
    always, never = np.flatnonzero(is_above & ~is_below), np.flatnonzero(is_below & ~is_above)
    edges = lengths[np.ix_(inner, inner)]
    graph = np.where(np.isfinite(edges), edges + np.finfo(float).tiny, 0.0)  # scipy takes a zero for no edge
    total = dijkstra(graph, indices=0).max() + dijkstra(graph.T, indices=0).max()
    if always.size or never.size:
        outer = [lengths[np.ix_(always, inner)].min(axis=1), lengths[np.ix_(inner, never)].min(axis=0)]
        total += 2.0 * (np.concatenate(outer).max(initial=0.0) + max(step, 0.0))
    return float(total)
