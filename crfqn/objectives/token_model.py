"""The token-wise model of the Hessian: exact within a position, blind to the covariance between positions.

    H ~ sum_t weight_t x_t x_t' (x) (P_t - p_t p_t'),   P_t(j, k) = P(states j and k are both true at t)

P_t = diag p_t where states exclude each other; in a taxonomy a node and its ancestor are true together with the
probability of the node, and P_t has entries for such pairs too. It needs no inference, only the marginals that the
gradient has needed anyway. For a flat model and a taxonomy, whose items have one position, it is the exact Hessian.

A sample of the positions is enough for a metric; the sampled matrix is then scaled to the exact diagonal, so that a
rare feature that the sample missed still has its curvature. Of the two ways to form it the cheaper one is taken:
matrix products of dense rows, or sums over the pairs of coordinates that meet at a position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crfqn.kernels.token_rows import count_members
from crfqn.objectives.coordinates import Split
from crfqn.objectives.dense_model import dense_model
from crfqn.objectives.sparse_model import sparse_model

if TYPE_CHECKING:
    from crfqn.objectives.point import Point

Model: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array  # dense, or compressed by rows

PAIR = 150  # multiplications in a matrix product take the time of one pair that meets
MOST_PAIRS = 1e8  # for a model too large to be dense: a second's work


def token_model(
    point: Point, coords: NDArray[np.int64], n_sampled: int, max_dense: int, share: float = 1.0
) -> Model | None:
    """The model on `coords`, (n, n) symmetric float32, dense or sparse.

    The dense one comes from about `n_sampled` positions and O(n^2 n_sampled) multiplications; the sparse one from as
    many positions as cost no more, or a `share` of these. None: more than `max_dense` coordinates, and too many pairs
    for a sparse one.
    """
    owner = point.objective
    split = owner.split(coords)
    n = coords.size
    n_dense = min(n_sampled, owner.n_positions)
    budget = MOST_PAIRS if n > max_dense else n * n * n_dense / PAIR
    store = owner.store
    n_entries = float((store.indptr[split.features + 1] - store.indptr[split.features]).sum())
    if n <= max_dense and n_entries**2 * n_dense > budget * owner.n_positions**2:
        # By Cauchy and Schwarz the pairs of n_dense positions cost more than the products: no need to count them.
        return dense_model(point, coords, split, n_sampled)
    counts = active_counts(point, split)
    n_pairs = float(np.square(counts, dtype=np.float64).sum())
    n_sparse = owner.n_positions if n_pairs <= budget else int(owner.n_positions * budget / n_pairs)
    if n_sparse < n_dense:
        return None if n > max_dense else dense_model(point, coords, split, n_sampled)
    return sparse_model(point, coords, split, max(1, int(share * n_sparse)))


def active_counts(point: Point, split: Split) -> NDArray[np.int64]:
    """How many coordinates of `split` have a feature at each position, (N,)."""
    store = point.objective.store
    features, n_active = np.unique(split.features, return_counts=True)
    counts = np.zeros(store.n_positions, np.int64)
    count_members(features, n_active, store.indptr, store.indices, counts)
    return counts
