"""A bound on the curvature of the loss that holds at all weights: for methods with a fixed step.

The score of a labelling is a sum of n terms, one for each position and each transition of the item, and the variance of
a sum of n numbers is at most n times the sum of their variances. The score of a term is an entry of a vector a (a
position's states, or all transitions) or the sum of at most L entries (a node of a taxonomy and its ancestors), and
its variance is at most L/2 ||a||^2. Hence, with c_t = weight of the item * n_t * L / 2, everywhere

    Hessian <= I_K (x) X' diag(c) X   for the nodes,   sum_i c_i (T_i - 1)   for the edges.

Shapes: I items of T_i positions, N positions, F features, K states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crfqn.kernels.columns import add_columns, feature_ceilings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crfqn.objectives.crf import CRFObjective

MOST_ROUNDS = 100
CLOSE_ENOUGH = 0.01
SMALLEST = 1e-6  # of v, its largest entry 1: features that never meet the others keep a bound of their own


def lipschitz_bound(objective: CRFObjective) -> float:
    """A bound on the largest eigenvalue of the Hessian, whatever the weights."""
    structure, lengths = objective.structure, np.diff(objective.store.offsets)
    n_terms = np.maximum(2 * lengths - 1, 1) if structure.n_edges else lengths
    depth = int(np.diff(structure.lineages.indptr).max(initial=1))
    per_item = 0.5 * depth * n_terms * objective.weights
    edges = float(per_item @ np.maximum(lengths - 1, 0)) if structure.n_edges else 0.0
    return max(largest_eigenvalue(objective, np.repeat(per_item, lengths)), edges)


def largest_eigenvalue(objective: CRFObjective, c: NDArray[np.float64]) -> float:
    """At most 1 % above that of |X|' diag(c) |X|, which is that of X' diag(c) X or above, unless rounds run out.

    Power iteration on A = |X|' diag(c) |X| gives a bound in every round (Collatz and Wielandt): where A >= 0 and v > 0,
    no eigenvalue is above max_f (A v)_f / v_f.
    """
    store = objective.store
    columns = (np.zeros(store.n_features, np.int64), np.arange(store.n_features))
    arrays = (store.indptr, store.indices, np.abs(store.values))
    v, product, bound = np.ones(store.n_features), np.empty(store.n_features), np.inf
    for _ in range(MOST_ROUNDS):
        image = np.zeros((1, store.n_positions))
        add_columns(0, store.n_features, *columns, v, *arrays, image)
        feature_ceilings(0, store.n_features, *arrays, c * image[0], product)
        bound = min(bound, float(np.max(product / v, initial=0.0)))
        if bound * float(v @ v) <= (1.0 + CLOSE_ENOUGH) * float(v @ product):
            break
        v = product / product.max() + SMALLEST
    return bound
