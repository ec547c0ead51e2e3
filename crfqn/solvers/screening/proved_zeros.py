"""Count the zeros of a model that are proved to be zeros of the optimum (after Ndiaye et al. 2017, "gap safe").

With q the mixtures of the certificate, q* the optimal ones and gap = F(w) - D(q), the entropies, each of them
1-strongly concave in the L1 norm (Pinsker), leave

    1/2 sum_i weight_i ||q_i - q*_i||_1^2 <= D(q*) - D(q) <= gap,

and the expectation of f_j over item i moves by at most 1/2 r_ij ||q_i - q*_i||_1, r_ij = max_y f_j - min_y f_j. By
Cauchy and Schwarz the optimum's gradient is near the certificate's s g; where it is inside the bound, the weight is 0:

    s |g_j| + 1/2 sqrt(sum_i weight_i r_ij^2) sqrt(2 gap) < l1   implies   w*_j = 0.

With an L2 term only the certificate changes: its dual costs sum_j max(|g_j| - l1, 0)^2 / (2 l2), which is convex, so
that the first line holds as it is; and w*_j = -sign(g*_j) max(|g*_j| - l1, 0) / l2 is zero within the same bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crfqn.kernels.sparse.sorted_sets import union
from crfqn.objectives.protocols import ItemBound
from crfqn.solvers.certificate import best_bound
from crfqn.solvers.protocols import Objective, Penalty, Point

DIGITS = 1e-12  # of the objective and of l1: a proof must not rest on the last digits


class Proof(NamedTuple):
    """The weights with scale |g_j| + radius spread_j < bound are zero at the optimum."""

    bound: float
    scale: float
    radius: float


def proof_at(penalty: Penalty, point: Point, value: float) -> Proof | None:
    """Return what a point and the smallest known `value` prove; None where there is no certificate."""
    dual_value, scale = best_bound(point, penalty, penalty.screen(point))
    if not np.isfinite(dual_value):
        return None
    return Proof((1.0 - DIGITS) * penalty.l1, scale, radius_of(value, dual_value))


def radius_of(value: float, dual_value: float) -> float:
    """Half of the distance that the mixtures can be from the optimal ones."""
    return 0.5 * float(np.sqrt(2.0 * (max(value - dual_value, 0.0) + DIGITS * abs(value))))


def count_proved_zeros(
    objective: Objective, penalty: Penalty, point: Point, value: float, bound: ItemBound | None = None
) -> int | None:
    """Count the point's zeros that are proved to be zero at the optimum; None where the gap is not known.

    Parameters
    ----------
    value : float
        The smallest value of objective and penalty that is known, at this point or another.
    bound : what mixtures with a share for each item prove at this point; their gradient takes the place of s g

    Notes
    -----
    Two sweeps over the gradient at most, no inference pass. It proves nothing about groups of weights, nor where
    strengths differ: None.
    """
    has_one_bound = penalty.is_separable and penalty.is_uniform
    if not objective.proves_zeros or not has_one_bound:
        return None
    proof = proof_at(penalty, point, value)
    if bound is not None and (proof is None or radius_of(value, bound.dual_value) < proof.radius):
        point = point.at_shares(bound.shares)
        proof = Proof((1.0 - DIGITS) * penalty.l1, 1.0, radius_of(value, bound.dual_value))
    if proof is None:
        return None
    # No zeros of the model, or not held there by the penalty.
    others = union(point.coords, penalty.unpenalised)
    return point.count_within(*proof, others)
