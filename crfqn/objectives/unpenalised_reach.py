"""How far from zero weights without penalty can be at an optimum: what a gradient that is not quite 0 may cost.

A dual point whose gradient g_u by an unpenalised weight is not 0 proves F(w) >= D + sum_u g_u w_u. At an optimum the
penalty and the loss of each item are at most F at any point, so that penalised weights are bounded, and by
`losses/reach.py` so are intercepts, unpenalised weights of one feature for all states. Others of a likelihood are
bounded by relabelling one position of an item, which gains no more than the item's loss. N positions, K states, n
unpenalised ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector

MOST_RELABELLINGS = 5000  # that are looked at, and their counts of each unpenalised weight
ROUNDED = 1.0 + 1e-6  # float32 values of a feature may be rounded by so much


def unpenalised_reach(objective: Any, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
    """Return a bound on the weights without penalty of some optimum of a sum; infinite where there is none."""
    limits = unpenalised, value, norms
    reach = objective.of_parts(joint_reach, objective.of_parts(row_leads, *limits))[0]
    return reach if np.isfinite(reach) else min(objective.of_parts(relabelling_reach, *limits))


def is_apt(part: Any, value: float, norms: tuple[float, float]) -> bool:
    """Whether an item's loss is bounded, and bounds anything."""
    return bool(np.isfinite(value) and np.isfinite(min(norms)) and is_bounded(part))


def is_bounded(part: Any) -> bool:
    """Whether an item's loss bounds anything: it has a dual, and positions can be labelled anew one by one, which
    changes what is known of their transitions."""
    has_rules = getattr(getattr(part.loss, "structure", None), "rules", None) is not None
    return part.loss.has_dual and not has_rules and not part.loss.has_bigrams


def row_leads(
    part: Any, unpenalised: Coords, value: float, norms: tuple[float, float]
) -> tuple[Vector, float] | None:
    """The leads and the step of a part where what is unpenalised is the intercepts of all states, else None."""
    nodes = part.split(unpenalised)
    features = np.unique(nodes.features)
    is_row = (
        is_apt(part, value, norms)
        and nodes.edges.size == 0
        and features.size == 1
        and np.isin(part.loss.position_labels, nodes.states).all()
    )
    if not (is_row and part.support.contains(unpenalised).all()):
        return None
    x = values_of(part, features)[0] / ROUNDED
    losses, rest = most_losses(part, value), most_change(part, norms)
    counts = np.isfinite(losses)
    is_positive = bool((x[counts] > 0).all())
    step = float(np.max((1.0 + rest[counts]) / x[counts], initial=0.0)) if is_positive else np.inf
    return part.loss.leads(losses, rest, x), step


def joint_reach(part: Any, leads: list[Any]) -> float:
    """The bound on the intercepts by the leads of all parts, any of which is `part`."""
    if any(each is None for each in leads):
        return np.inf
    tables, steps = zip(*leads, strict=True)
    return part.loss.reach(np.min(tables, axis=0), max(steps))


def values_of(part: Any, features: Coords) -> Vector:
    """The values of some features at all positions, (features, N)."""
    return part.map.values_at(features, np.arange(part.n_positions)).astype(np.float64)


def most_losses(part: Any, value: float) -> Vector:
    """The most that the loss of each position's item can be at an optimum, (N,); infinite for items without weight."""
    weights = part.position_weights
    with np.errstate(over="ignore"):
        return np.divide(value, weights, out=np.full(weights.size, np.inf), where=weights > 0)


def most_change(part: Any, norms: tuple[float, float]) -> Vector:
    """The most that penalised weights and the offset change by relabelling a position, (N,).

    The counts of no coordinate change by more than the largest |x|, and by 2 of an edge; the squares of all changes sum
    to at most those of x at the states on both labels' paths, and 8 for edges: two go, two come.
    """
    has_edges = part.loss.n_edges > 0
    n_states = 2 * longest_path(part)
    largest = max(part.map.largest_value, 2.0 * has_edges)
    length = float(np.sqrt(n_states * part.map.feature_scales.sum() + 8.0 * has_edges))
    change = np.full(part.n_positions, min(largest * norms[0], length * norms[1]))
    return change if part.offset is None else change + n_states * np.abs(part.offset).max(axis=0)


def longest_path(part: Any) -> int:
    """The most states that hold at a position."""
    return int(np.diff(part.loss.ancestors.indptr).max())


def relabelling_reach(part: Any, unpenalised: Coords, value: float, norms: tuple[float, float]) -> float:
    """The largest |w_u| that no relabelling of a position forbids: one that changes u and weights bounded before."""
    if not (is_apt(part, value, norms) and part.loss.has_marginals):
        return np.inf
    positions, is_fixed = chosen_positions(part, unpenalised), fixed_of_rows(part, unpenalised)
    changes = count_changes(part, unpenalised, positions)
    most = np.repeat((most_losses(part, value) + most_change(part, norms))[positions], part.n_states)
    bounds = np.where(is_fixed, 0.0, np.inf)
    for _ in range(bounds.size):
        is_known = np.isfinite(bounds)
        rest = np.where(is_known, 0.0, changes)
        alone = np.flatnonzero(np.count_nonzero(rest, axis=1) == 1)
        limits = most[alone] + np.abs(changes[alone][:, is_known]) @ bounds[is_known]
        with np.errstate(divide="ignore"):
            sizes = limits[:, None] / np.abs(rest[alone])
        ways = [
            np.where(sign * rest[alone] > 0, sizes, np.inf).min(axis=0, initial=np.inf) for sign in (1, -1)
        ]
        bounds = np.where(is_known, bounds, np.max(ways, axis=0))
        if is_known.sum() == np.isfinite(bounds).sum():
            break
    return ROUNDED * float(bounds.max(initial=0.0))


def chosen_positions(part: Any, unpenalised: Coords) -> Coords:
    """Positions of items that count, where something unpenalised may change: heavy ones, of all labels by turns."""
    nodes = part.split(unpenalised)
    is_there = np.full(part.n_positions, nodes.edges.size > 0)
    if nodes.n_nodes:
        is_there |= values_of(part, np.unique(nodes.features)).any(axis=0)
    found = np.flatnonzero(is_there & (part.position_weights > 0))
    found = found[np.argsort(-part.position_weights[found], kind="stable")]
    labels = part.loss.targets[found]
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    turn = np.empty(found.size, np.int64)
    turn[order] = np.arange(found.size) - np.repeat(starts, np.diff(np.append(starts, found.size)))
    return found[np.argsort(turn, kind="stable")][: max(MOST_RELABELLINGS // part.n_states, 1)]


def count_changes(part: Any, unpenalised: Coords, positions: Coords) -> Vector:
    """What relabelling each position by each state adds to the unpenalised counts, (positions K, n)."""
    nodes, n_states = part.split(unpenalised), part.n_states
    is_path = np.zeros((n_states, n_states))
    ancestors = part.loss.ancestors
    for k in range(n_states):
        is_path[k, ancestors.of(k)] = 1.0
    is_path[np.setdiff1d(np.arange(n_states), part.loss.position_labels)] = np.nan
    own = part.loss.targets[positions]
    features, place = np.unique(nodes.features, return_inverse=True)
    x = values_of(part, features)[:, positions].T[:, place] if nodes.n_nodes else np.empty((own.size, 0))
    held = is_path[:, nodes.states]
    changes = [x[:, None] * (held - held[own][:, None])]
    if nodes.edges.size:
        changes.append(edge_changes(part, nodes.edges, positions))
    table = np.concatenate(changes, axis=2).reshape(own.size * n_states, unpenalised.size)
    return np.nan_to_num(table)  # states that are no labels change nothing


def edge_changes(part: Any, edges: Coords, positions: Coords) -> Vector:
    """What relabelling each position by each state adds to the counts of some edges, (positions, K, edges)."""
    n_states, targets = part.n_states, part.loss.targets.astype(np.int64)
    from_, to = np.divmod(edges, n_states)
    states = np.arange(n_states)
    starts = np.isin(positions, part.map.offsets[:-1])
    ends = np.isin(positions, part.map.offsets[1:] - 1)
    before = np.where(starts, -1, targets[positions - 1])[:, None, None]
    after = np.where(ends, -1, targets[np.minimum(positions + 1, targets.size - 1)])[:, None, None]

    def counts(label: Coords) -> Vector:
        into = (before == from_) & (label == to)
        return into.astype(float) + ((label == from_) & (after == to))

    return counts(states[None, :, None]) - counts(targets[positions][:, None, None])


def fixed_of_rows(part: Any, unpenalised: Coords) -> NDArray[np.bool_]:
    """Whether each may be zero at some optimum because the others of a whole unpenalised row can do all it can. So may
    those of non-labels, and of the first label: a constant added to all labels' scores changes no likelihood."""
    nodes, labels = part.split(unpenalised), part.loss.position_labels
    out = np.zeros(unpenalised.size, bool)
    for feature in np.unique(nodes.features):
        row = np.flatnonzero(nodes.features == feature)
        if row.size == part.n_states and part.support.contains(unpenalised[row]).all():
            states = nodes.states[row]
            out[row] = ~np.isin(states, labels) | (states == labels[0])
    return out
