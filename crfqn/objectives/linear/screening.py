"""The full gradient, read tile of states by tile and block of features by block: which coordinates stand out.

No array of F x K numbers exists: the gradients of a share of the features live in a small buffer until those above the
threshold are picked out. A tile's residuals are copied position by position, so that a feature's entries pick up whole
rows. This is the most expensive sweep, every stored entry times K; so what cannot stand out is left out without loss:

    |g_fk| = |sum_t x_tf r_t(k)| <= sum_t |x_tf| max_k |r_t(k)|,   the largest over the states k of the tile

costs one multiplication an entry and tile instead of one a state. In a taxonomy of thousands of nodes an item has
marginals in few tiles, and a rare word cannot reach the threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, NO_VALUES, Screening, Vector
from crfqn.data.features import FeatureStore
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.sparse import add_powers, feature_ceilings, feature_gradients, transpose_positions, union
from crfqn.threads import Pool

WIDEST = 64  # states of a tile: 512 bytes a position, and a bound that is still worth having
SLAB_NUMBERS = 1 << 16  # residuals walked at a time: 512 KB, half of an L2 cache
BLOCK_NUMBERS = 1 << 11  # gradients in a block: 16 KB, they share the L1 cache with the residuals
SHARE_NUMBERS = 1 << 15  # gradients that a thread finds before it compares them: 256 KB
CEILING_SHARE = 1 << 14  # features whose ceilings a thread finds at a time
MOST_PLACES = 8  # places of a table for each number: a sort moves it oftener
FEWEST, MOST_SHARES = 32, 16  # features of a share, if there are not many: enough shares to balance threads


class ScreeningCache:
    """The last screening of a point, which also answers for higher thresholds."""

    def __init__(self) -> None:
        self.threshold, self.found = np.inf, Screening(NO_COORDS, NO_VALUES)

    def screen(self, threshold: float, scan: Callable[[float], Screening]) -> Screening:
        """Return the screening at a threshold, by `scan(threshold)` if it is not known."""
        if threshold < self.threshold:
            self.found, self.threshold = scan(threshold), threshold
        return self.found if threshold == self.threshold else self.found.above(threshold)


def screen_nodes(store: FeatureStore, pool: Pool, residual: Vector, threshold: float) -> Screening:
    """Return every coordinate k F + f with |gradient| > threshold; residual: float64 (K, N)."""
    found = [
        part
        for first in range(0, residual.shape[0], WIDEST)
        for part in screen_tile(
            store, pool, residual[first : first + WIDEST], first * store.n_features, threshold
        )
    ]
    coords = np.concatenate([NO_COORDS, *(c for c, _ in found)])
    gradient = np.concatenate([NO_VALUES, *(g for _, g in found)])
    return sorted_screening(coords, gradient, residual.shape[0] * store.n_features)


def sorted_screening(coords: NDArray[np.int64], gradient: Vector, n_possible: int) -> Screening:
    """Return distinct coordinates below `n_possible` in order, with their gradients: by a sort, or by a table of all
    where there is no more than `MOST_PLACES` of it for each."""
    if n_possible > MOST_PLACES * coords.size:
        order = np.argsort(coords)
        return Screening(coords[order], gradient[order])
    table, is_found = np.empty(n_possible), np.zeros(n_possible, bool)
    table[coords], is_found[coords] = gradient, True
    return Screening(np.flatnonzero(is_found), table[is_found])


def screen_tile(
    store: FeatureStore, pool: Pool, rows: NDArray[np.float64], first_coord: int, threshold: float
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return coordinates and gradients above the threshold, of the states that `rows` are the residuals of."""
    residual, largest = by_position(rows, pool)
    features = possible_features(store, pool, largest, threshold)
    found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []

    def pick(share: slice, gradient: NDArray[np.float64]) -> None:
        which, states = np.nonzero(np.abs(gradient[:, : rows.shape[0]]) > threshold)
        if which.size:
            coords = first_coord + states * store.n_features + features[share][which]
            found.append((coords, gradient[which, states]))

    each_share(store, pool, features, residual, pick)
    return found


def each_share(
    store: FeatureStore,
    pool: Pool,
    features: NDArray[np.int64],
    residual: NDArray[np.float64],
    visit: Callable[[slice, NDArray[np.float64]], None],
) -> None:
    """Call visit(share, gradients (features of the share, width)) for share after share of the features, in threads;
    residual : float64 (N, width), position-major; what is beside the states comes along."""
    width = residual.shape[1]
    block, slab = max(1, BLOCK_NUMBERS // width), max(64, SLAB_NUMBERS // width)
    size = share_of(features.size, SHARE_NUMBERS // width)

    def run(part: int) -> None:
        share = slice(part * size, (part + 1) * size)
        chosen = features[share]
        out = aligned_rows(chosen.size, width)
        feature_gradients(chosen, block, slab, store.indptr, store.indices, store.values, residual, out)
        visit(share, out)

    pool.each(-(-features.size // size), run)


def share_of(n_features: int, most: int) -> int:
    """Return how many of some features a thread takes at a time."""
    return max(min(max(-(-n_features // MOST_SHARES), FEWEST), most), 1)


@dataclass(frozen=True)
class RowNorm:
    """|| max(|g| - inside, 0) || of the gradients of all states, the sum (order 1) or the Euclidean norm (order 2)."""

    inside: float
    order: int

    def exceeds(self, totals: NDArray[np.float64], bound: float) -> NDArray[np.bool_]:
        """Return whether norms are above a bound, from their sums of powers; rounding must not hide a row."""
        return totals ** (1.0 / self.order) * (1.0 + 1e-9) > bound


def strong_rows(
    store: FeatureStore, pool: Pool, residual: Vector, also: NDArray[np.int64], bound: float, norm: RowNorm
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the features with a gradient's norm above the bound, those `also` asked for, and gradients (K, features).

    Only features that ||g_f|| <= sum_t |x_tf| ||r_t|| lets above the bound are read: once if their states are one tile,
    otherwise a second time where the sum over all tiles turns out to be large.
    """
    rows, is_one_tile = residual, residual.shape[0] <= WIDEST
    if is_one_tile:
        by_positions, norms = by_position(rows, pool, norm.order)
    else:
        norms = position_norms(pool, rows, norm.order)
    features = union(possible_features(store, pool, norms, bound), also)
    is_wanted = np.isin(features, also, assume_unique=True)
    if not is_one_tile:
        chosen = features[is_wanted | norm.exceeds(row_powers(store, pool, residual, features, norm), bound)]
        return chosen, row_gradients(store, pool, residual, chosen)
    found: list[tuple[int, NDArray[np.int64], NDArray[np.float64]]] = []

    def pick(share: slice, gradient: NDArray[np.float64]) -> None:
        totals = np.zeros(gradient.shape[0])
        add_powers(gradient, rows.shape[0], norm.inside, norm.order, totals)
        stays = is_wanted[share] | norm.exceeds(totals, bound)
        found.append((share.start, features[share][stays], gradient[stays, : rows.shape[0]]))

    each_share(store, pool, features, by_positions, pick)
    found.sort(key=lambda part: part[0])
    ends = np.cumsum([0] + [chosen.size for _, chosen, _ in found])
    out = np.empty((residual.shape[0], ends[-1]))

    def turn(part: int) -> None:
        out[:, ends[part] : ends[part + 1]] = found[part][2].T

    pool.each(len(found), turn)
    return np.concatenate([features[:0], *(chosen for _, chosen, _ in found)]), out


def row_powers(
    store: FeatureStore, pool: Pool, residual: Vector, features: NDArray[np.int64], norm: RowNorm
) -> NDArray[np.float64]:
    """Return the sums of powers that the norms are roots of, tile of states by tile, (features,)."""
    totals = np.zeros(features.size)
    for first in range(0, residual.shape[0], WIDEST):
        rows = residual[first : first + WIDEST]

        def add(share: slice, gradient: NDArray[np.float64], n_states: int = rows.shape[0]) -> None:
            add_powers(gradient, n_states, norm.inside, norm.order, totals[share])

        each_share(store, pool, features, by_position(rows, pool)[0], add)
    return totals


def row_gradients(
    store: FeatureStore, pool: Pool, residual: Vector, features: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the gradients of all weights of some features (sorted), (K, features)."""
    out = np.empty((residual.shape[0], features.size))
    for first in range(0, residual.shape[0], WIDEST):
        rows = residual[first : first + WIDEST]

        def put(
            share: slice, gradient: NDArray[np.float64], own: NDArray = out[first : first + WIDEST]
        ) -> None:
            own[:, share] = gradient[:, : own.shape[0]].T

        each_share(store, pool, features, by_position(rows, pool)[0], put)
    return out


def position_norms(pool: Pool, residual: NDArray[np.float64], order: int) -> NDArray[np.float64]:
    """Return the norm over the states of each position's residuals, (N,)."""
    out, step = np.empty(residual.shape[1]), 1024

    def run(part: int) -> None:
        stretch = slice(part * step, (part + 1) * step)
        rows = residual[:, stretch]
        out[stretch] = np.sqrt(np.einsum("ki,ki->i", rows, rows)) if order == 2 else np.abs(rows).sum(axis=0)

    pool.each(-(-out.size // step), run)
    return out


def possible_features(
    store: FeatureStore, pool: Pool, largest: NDArray[np.float64], threshold: float | NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the features whose gradients may be above the threshold, one for all or one for each, (F,)."""
    ceilings, size = np.empty(store.n_features), share_of(store.n_features, CEILING_SHARE)

    def run(part: int) -> None:
        first, last = part * size, min((part + 1) * size, store.n_features)
        feature_ceilings(first, last, store.indptr, store.indices, store.values, largest, ceilings)

    pool.each(-(-store.n_features // size), run)
    return np.flatnonzero(ceilings * (1.0 + 1e-9) > threshold)  # rounding must not hide a coordinate


def by_position(
    rows: NDArray[np.float64], pool: Pool, order: float = np.inf
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Copy label-major (K, N) to position-major (N, width), width = K rounded up to whole registers; returns the copy,
    and the norm of the given order in each position, (N,)."""
    n_states, n_positions = rows.shape
    width = -(-n_states // LANES) * LANES
    out, norms = aligned_rows(n_positions, width), np.empty(n_positions)
    pool.each_stretch(
        n_positions, lambda first, last: transpose_positions(first, last, rows, float(order), out, norms)
    )
    return out, norms


def count_small(store: FeatureStore, pool: Pool, rows: Vector, limits: Vector) -> int:
    """Count the gradients, of the states that `rows` are the residuals of, below their feature's limit, (F,)."""
    n_states, is_open = rows.shape[0], limits > 0
    if not is_open.any():
        return 0
    residual, largest = by_position(rows, pool)
    possible = possible_features(store, pool, largest, limits)
    features = possible[is_open[possible]]
    counts = np.zeros(features.size, np.int64)

    def count(share: slice, gradient: Vector) -> None:
        counts[share] = (np.abs(gradient[:, :n_states]) < limits[features[share], None]).sum(axis=1)

    each_share(store, pool, features, residual, count)
    n_below = int(np.count_nonzero(is_open)) - features.size
    return n_states * n_below + int(counts.sum())
