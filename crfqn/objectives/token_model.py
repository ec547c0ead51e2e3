"""The token-wise model of the Hessian: exact within a position, blind to the covariance between positions.

    H ~ sum_t weight_t x_t x_t' (x) (diag p_t - p_t p_t')

It needs no inference, only the marginals that the gradient has needed anyway. For a flat model it is the exact
Hessian. A sample of the positions is enough for a metric; the sampled matrix is then scaled to the exact diagonal, so
that a rare feature that the sample missed still has its curvature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.gather import gather_features

if TYPE_CHECKING:
    from crfqn.objectives.crf import Point

BLOCK = 256  # rows of a tile of the product: big enough for BLAS, small enough to share out


def token_model(point: Point, coords: NDArray[np.int64], n_sampled: int) -> NDArray[np.float32]:
    """The model on `coords`, (n, n) symmetric, from about `n_sampled` positions; edges get their diagonal only.

    O(n^2 n_sampled) in matrix products of fixed tiles, shared out over the threads.
    """
    owner = point.objective
    store, pool = owner.store, owner.pool
    split = owner.split(coords)
    marginals = point.marginals()
    sampled, c = sample_positions(marginals, owner.position_weights, n_sampled)
    place = np.full(store.n_positions, -1, np.int32)
    place[sampled] = np.arange(sampled.size, dtype=np.int32)
    features, where = np.unique(split.features, return_inverse=True)
    x = np.zeros((features.size, sampled.size), np.float32)

    def gather(part: int) -> None:
        first, last = part * 64, min((part + 1) * 64, features.size)
        gather_features(first, last, features, place, store.indptr, store.indices, store.values, x)

    pool.each(-(-features.size // 64), gather)
    p = marginals[:, sampled].astype(np.float32)
    x *= np.sqrt(c).astype(np.float32)
    with_p = p[split.states]
    for row, feature in zip(with_p, where, strict=True):
        row *= x[feature]
    n = coords.size
    model = np.zeros((n, n), np.float32)
    n_blocks = -(-split.n_nodes // BLOCK)
    tiles = [(i, j) for i in range(n_blocks) for j in range(i + 1)]

    def multiply(part: int) -> None:
        i, j = (slice(b * BLOCK, min((b + 1) * BLOCK, split.n_nodes)) for b in tiles[part])
        tile = -(with_p[i] @ with_p[j].T)
        model[i, j] = tile
        model[j, i] = tile.T

    bounds = np.searchsorted(split.states, np.arange(owner.structure.n_states + 1))

    def add_own(state: int) -> None:
        k = slice(bounds[state], bounds[state + 1])
        model[k, k] += with_p[k] @ x[where[k]].T

    pool.each(len(tiles), multiply)
    pool.each(owner.structure.n_states, add_own)
    return scale_to_diagonal(model, point.curvature(coords, marginals))


def sample_positions(
    marginals: NDArray[np.float64], weights: NDArray[np.float64], n_sampled: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """About `n_sampled` positions, and what each stands for.

    A position adds to the Hessian what it leaves undecided: it is drawn with a probability in proportion to
    weight_t sqrt(sum_k p_t(k) (1 - p_t(k))), systematically and without chance, and counts by its inverse. Drawn
    evenly, the sample of a well-fitted model would consist of decided positions, which have no curvature: on the
    digit strings that took 369 passes, against 220.
    """
    undecided = np.zeros(weights.size)
    for row in marginals:
        undecided += row * (1.0 - row)
    undecided = weights * np.sqrt(np.maximum(undecided, 0.0))
    total = undecided.sum()
    if total == 0:
        return np.empty(0, np.intp), np.empty(0)
    share = np.minimum(1.0, undecided * (n_sampled / total))
    ticks = np.floor(np.cumsum(share) + 0.5)
    sampled = np.flatnonzero(np.diff(ticks, prepend=0.0) > 0)
    return sampled, weights[sampled] / share[sampled]


def scale_to_diagonal(model: NDArray[np.float32], diagonal: NDArray[np.float64]) -> NDArray[np.float32]:
    """D model D with the given diagonal; positive semidefinite as before. Empty rows get the diagonal alone."""
    sampled = np.diagonal(model).astype(np.float64)
    is_seen = sampled > 0
    scale = np.sqrt(np.divide(diagonal, sampled, out=np.zeros_like(diagonal), where=is_seen)).astype(
        np.float32
    )
    model *= scale[:, None]
    model *= scale
    model[np.diag_indices_from(model)] = diagonal
    return model
