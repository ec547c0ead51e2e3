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

import numpy as np

from crfqn.arrays import Vector
from crfqn.objectives.coordinates import Split
from crfqn.objectives.curvature.dense_model import dense_model
from crfqn.objectives.curvature.marginals import Marginals
from crfqn.objectives.curvature.sparse_model import sparse_model
from crfqn.objectives.operations import FETCHED
from crfqn.objectives.protocols import Matrix

PAIR = 150  # multiplications in a matrix product take the time of one pair that meets
MOST_PAIRS = 1e8  # for a model too large to be dense: a second's work
PAIR_OPERATIONS = 14.0  # of a pair that meets: found in lists, multiplied and stored
EDGE_OPERATIONS = 30.0  # of a sampled position, for each pair of edges: sparse products state by state
STEPS, SWEEPS = 20, 10  # between two models, and about how often a step goes over the matrix
DISTINCT = 0.2  # of the pairs that meet, those that neither meet again nor are too small to be kept
SAVED = 6.0  # passes that a step with this model saves, against one with its diagonal: 3 to 10 where both were tried


def token_model(
    marginals: Marginals,
    split: Split,
    diagonal: Vector,
    n_sampled: int,
    max_dense: int,
    share: float = 1.0,
    pair: float = PAIR,
    most_pairs: float = MOST_PAIRS,
) -> Matrix | None:
    """Return the model on the coordinates `split`, (n, n) symmetric float32, dense or sparse, with the given diagonal.

    The dense one comes from about `n_sampled` positions and O(n^2 n_sampled) multiplications; the sparse one from as
    many positions as cost no more, or a `share` of these. None: more than `max_dense` coordinates, and too many pairs
    for a sparse one, `most_pairs`. `pair` is what one costs, in multiplications.
    """
    features, n = marginals.objective.map, diagonal.size
    n_dense = min(n_sampled, features.n_positions)
    n_affordable = most_pairs if n > max_dense else n * n * n_dense / pair
    n_pairs = count_pairs(marginals, split, n_dense, np.inf if n > max_dense else n_affordable)
    if is_too_dear(marginals, split, min(n_pairs, n_affordable), n_dense):
        return None
    n_sparse = int(features.n_positions * min(1.0, n_affordable / max(n_pairs, 1.0)))
    if n_sparse < n_dense:
        return None if n > max_dense else dense_model(marginals, split, diagonal, n_sampled)
    return sparse_model(marginals, split, diagonal, max(1, int(share * n_sparse)))


def count_pairs(marginals: Marginals, split: Split, n_dense: int, most: float) -> float:
    """Count the pairs of coordinates that meet at a position, over all positions; inf where n_dense have too many.

    By Cauchy and Schwarz these have more than `most` if the mean number of active coordinates is large: no need to
    count then.
    """
    features = marginals.objective.map
    if features.count_entries(split) ** 2 * n_dense > most * features.n_positions**2:
        return np.inf
    return float(np.square(features.count_active(split), dtype=np.float64).sum())


def is_too_dear(marginals: Marginals, split: Split, n_pairs: float, n_sampled: int) -> bool:
    """Whether a model formed from so many pairs, and the steps with it, take longer than the passes that it saves.

    The diagonal takes some times as many steps, each of one pass; where passes are cheap and active sets large these
    are done before a matrix is formed. Of single positions the model is the Hessian itself, and frequent features
    depend on each other so much that a diagonal takes ten times as many (OCR: 150 passes, and 14): worth their price.
    """
    owner, n = marginals.objective, split.n_nodes
    if marginals.loss.n_edges == 0 or not owner.operations.has_rare_features:
        return False
    of_pass = owner.operations.inference + 2.0 * FETCHED * owner.map.count_entries(split)
    of_edges = EDGE_OPERATIONS * n_sampled * float(split.edges.size) ** 2
    of_sweeps = STEPS * SWEEPS * min(DISTINCT * n_pairs, float(n) * n)
    of_model = PAIR_OPERATIONS * n_pairs + of_edges + of_sweeps
    return of_model > STEPS * SAVED * of_pass
