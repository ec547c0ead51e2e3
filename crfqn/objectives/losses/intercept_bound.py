"""Bound on intercepts without penalty at an optimum, from the bounded loss of each item.

A dual point whose gradient g_u by an unpenalised weight is not 0 proves F(w) >= D + sum_u g_u w_u. At an optimum the
penalty and the loss of each item are at most F, so that penalised weights are bounded, and intercepts by the labels of
the items: where an item of label j loses at most L, no label's score exceeds the score of j by more than a margin, L
under the multinomial likelihood and sqrt(L) - 1 under a squared hinge. With scores = b x_t + others, whose differences
are at most `change`,

    b_k - b_j <= (margin_t + change_t) / x_t    for every label k,

or the other way round where x_t < 0. A hinge's label without items needs a step of (1 + change_t) / x_t at most. K
states, N positions; `margins` is margin + change, (N,), infinite for items without weight; x (N,).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from crfqn.arrays import Coords, Vector

ROUNDED = 1.0 + 1e-6  # float32 values of a feature may be rounded by so much


def part_margins(
    part: Any, unpenalised: Coords, value: float, norms: tuple[float, float]
) -> tuple[Vector, float] | None:
    """Return the loss's `label_margins` and the largest step of a part; None where they bound nothing."""
    loss, nodes, weights = part.loss, part.split(unpenalised), part.position_weights
    features = np.unique(nodes.features)
    has_rules = getattr(getattr(loss, "structure", None), "rules", None) is not None
    is_bounded = loss.has_dual and not has_rules and not loss.edge_layout.has_contexts
    is_row = (
        nodes.edges.size == 0 and features.size == 1 and np.isin(loss.position_labels, nodes.states).all()
    )
    is_finite = bool(np.isfinite([value, min(norms)]).all())
    if not (is_bounded and is_row and is_finite and part.support.contains(unpenalised).all()):
        return None
    x = part.map.values_at(features, np.arange(part.n_positions)).astype(np.float64)[0] / ROUNDED
    with np.errstate(over="ignore"):
        losses = np.divide(value, weights, out=np.full(weights.size, np.inf), where=weights > 0)
    # A relabelled position changes no count by more than the largest |x|, and by 2 of an edge; the squares of all
    # changes sum to at most those of x at the states on both labels' paths, and 8 for edges: two go, two come.
    has_edges, n_states = loss.n_edges > 0, 2 * int(np.diff(loss.ancestors.indptr).max())
    length = float(np.sqrt(n_states * part.map.feature_scales.sum() + 8.0 * has_edges))
    most = min(max(part.map.largest_value, 2.0 * has_edges) * norms[0], length * norms[1])
    change = np.full(x.size, most)
    change += 0.0 if part.offset is None else n_states * np.abs(part.offset).max(axis=0)
    counts = np.isfinite(losses)
    steps = np.divide(1.0 + change, x, out=np.full(x.size, np.inf), where=x > 0)[counts]
    return loss.label_margins(losses, change, x), float(steps.max(initial=0.0))


def label_margins(labels: NDArray[np.integer], n_states: int, margins: Vector, x: Vector) -> Vector:
    """Return the least of margins / |x| by label, of positions with x > 0 and with x < 0, (2, K)."""
    table = np.full((2, n_states), np.inf)
    for row, has_sign in zip(table, (x > 0, x < 0), strict=True):
        np.minimum.at(row, labels[has_sign], margins[has_sign] / np.abs(x[has_sign]))
    return table


def label_range(table: Vector, step: float = np.inf) -> float:
    """Return a bound on max b - min b: from above by the label of the least, or by that of the largest. With a finite
    step (multiclass hinges), a label without items need not be farther than it below the least of the others."""
    is_seen = np.isfinite(table[0])
    if is_seen.all() or not is_seen.any() or not np.isfinite(step):
        return float(max(min(table[0].max(), table[1].max()), 0.0))
    return float(max(table[0][is_seen].max(), 0.0) + max(step, 0.0))


def pair_margins(relevance: NDArray[np.bool_], margins: Vector, x: Vector) -> Vector:
    """Return the least of margins / x over items with x > 0 where label j is relevant and k is not, (K, K)."""
    is_used = (x > 0) & np.isfinite(margins)
    relevance, ratios = relevance[is_used], margins[is_used] / x[is_used]
    rows = [
        np.where(relevance[has], np.inf, ratios[has, None]).min(axis=0, initial=np.inf) for has in relevance.T
    ]
    return np.array(rows).reshape(relevance.shape[1], relevance.shape[1])


def pair_range(table: Vector, step: float) -> float:
    """Return a bound on max b - min b by the shortest paths over pairs of labels; infinite where these do not connect
    them. Labels that are always relevant, or never, are a margin and a step away from the others at most."""
    lengths = np.maximum(table, 0.0)
    is_above, is_below = np.isfinite(lengths).any(axis=1), np.isfinite(lengths).any(axis=0)
    inner = np.flatnonzero(is_above & is_below)
    if inner.size == 0 or not (is_above | is_below).all():
        return np.inf
    always, never = np.flatnonzero(is_above & ~is_below), np.flatnonzero(is_below & ~is_above)
    edges = lengths[np.ix_(inner, inner)]
    graph = np.where(np.isfinite(edges), edges + np.finfo(float).tiny, 0.0)  # a zero is no edge to scipy
    total = dijkstra(graph, indices=0).max() + dijkstra(graph.T, indices=0).max()
    if always.size or never.size:
        outer = [lengths[np.ix_(always, inner)].min(axis=1), lengths[np.ix_(inner, never)].min(axis=0)]
        total += 2.0 * (np.concatenate(outer).max(initial=0.0) + max(step, 0.0))
    return float(total)
