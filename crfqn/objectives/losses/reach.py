"""How far apart constants added to the scores can be where the loss of each item is bounded.

Intercepts have no penalty that would bound them, but an item of label j whose loss is at most L does: under the
multinomial likelihood no label leads it by more than L, under a squared hinge by more than sqrt(L) - 1. With scores = b
x_t + others, the others' differences within `rest`, this is a *lead* for the intercepts,

    b_k - b_j <= (lead_t + rest_t) / x_t    for every label k,

or the other way round where x_t < 0. Where a hinge has no item that holds a label, the label's intercept can be moved
until its hinges vanish and no farther: by (1 + rest_t) / x_t at most. Shapes: K states, N positions; `leads` is lead +
rest, (N,), infinite for items without weight; x (N,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from crfqn.arrays import Vector


def label_leads(labels: NDArray[np.integer], n_states: int, leads: Vector, x: Vector) -> Vector:
    """Return the least of leads / |x| by label, of positions with x > 0 and with x < 0, (2, K)."""
    table = np.full((2, n_states), np.inf)
    for row, has_sign in zip(table, (x > 0, x < 0), strict=True):
        np.minimum.at(row, labels[has_sign], leads[has_sign] / np.abs(x[has_sign]))
    return table


def label_range(table: Vector) -> float:
    """Return a bound on max b - min b: from above by the label of the least, or by that of the largest."""
    return float(max(min(table[0].max(), table[1].max()), 0.0))


def range_with_unseen(table: Vector, step: float) -> float:
    """Return the range of multiclass hinges: a label without items need not be `step` below the least of the others."""
    is_seen = np.isfinite(table[0])
    if is_seen.all() or not is_seen.any() or not np.isfinite(step):
        return label_range(table)
    return float(max(table[0][is_seen].max(), 0.0) + max(step, 0.0))


def single_size(table: Vector, step: float) -> float:
    """Return a bound on max |b| where every label has a hinge of its own: s_y >= 1, other scores <= -1."""
    below = np.minimum(table[0], least_of_others(table[1]))
    above = np.minimum(least_of_others(table[0]), table[1])
    bounds = np.concatenate([below, above])
    return float(max(np.where(np.isfinite(bounds), bounds, step).max(), 0.0))


def least_of_others(values: Vector) -> Vector:
    """Return the least of all entries but one's own, (K,)."""
    out = np.full(values.size, values.min())
    first = int(values.argmin())
    out[first] = np.delete(values, first).min(initial=np.inf)
    return out


def pair_leads(relevance: NDArray[np.bool_], leads: Vector, x: Vector) -> Vector:
    """Return the least of leads / x over items with x > 0 where label j is relevant and k is not, (K, K)."""
    is_used = (x > 0) & np.isfinite(leads)
    relevance, ratios = relevance[is_used], leads[is_used] / x[is_used]
    table = np.full((relevance.shape[1], relevance.shape[1]), np.inf)
    for j in range(table.shape[0]):
        own = relevance[:, j]
        bounds = np.where(relevance[own], np.inf, ratios[own, None])
        table[j] = bounds.min(axis=0, initial=np.inf)
    return table


def pair_range(table: Vector, step: float) -> float:
    """Return a bound on max b - min b by the pairs of labels; infinite where the pairs do not connect them.

    Labels that are relevant in some items and not in others are as far apart as the shortest paths between them; those
    always relevant, or never, are a lead and a step away from these at most.
    """
    lengths = np.maximum(table, 0.0)
    is_pair = np.isfinite(lengths)
    leads, follows = is_pair.any(axis=1), is_pair.any(axis=0)
    inner = np.flatnonzero(leads & follows)
    if inner.size == 0 or not (leads | follows).all():
        return np.inf
    always, never = np.flatnonzero(leads & ~follows), np.flatnonzero(follows & ~leads)
    edges = lengths[np.ix_(inner, inner)]
    graph = np.where(np.isfinite(edges), edges + np.finfo(float).tiny, 0.0)  # a zero is no edge to scipy
    total = dijkstra(graph, indices=0).max() + dijkstra(graph.T, indices=0).max()
    if always.size or never.size:
        outer = [lengths[np.ix_(always, inner)].min(axis=1), lengths[np.ix_(inner, never)].min(axis=0)]
        total += 2.0 * (np.concatenate(outer).max(initial=0.0) + max(step, 0.0))
    return float(total)
