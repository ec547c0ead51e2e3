"""The best point of the plane through a few iterates of dual decomposition, made feasible.

Near the end passes creep along few directions of low curvature. Over the affine hull of iterates that lie some passes
apart the dual objective is a quadratic function of few numbers, minimised at once (Narkiss and Zibulevsky 2005,
sequential subspace optimisation); items that leave their simplex are projected back onto it.

Shapes: N items, K states; F features, M iterates before the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from crfqn.arrays import Vector
from crfqn.kernels.dual.linear import Items
from crfqn.kernels.dual.subproblem import METHODS
from crfqn.kernels.projection.rows import simplex_rows

HALVINGS = 2  # of the step, where projections have spoilt it
NEGLIGIBLE = 1e-12  # of the largest singular value: iterates in one line


class Iterate(NamedTuple):
    """b float64 (N, K), and the weights that it makes, (F, width)."""

    b: Vector
    weights: Vector


def slope_of(change: Vector, items: Items) -> float:
    """Return how much a change of b lowers what is linear in the dual objective (equation 3): sum Delta b."""
    own = np.arange(len(change)), items.labels
    return float(change.sum() - change[own].sum() + np.sum(change * items.offsets))


def best_shares(now: Iterate, differences: Sequence[Iterate], items: Items) -> Vector:
    """Return the steps along the differences that minimise the dual objective, (M,)."""
    w = now.weights.reshape(-1)
    table = [each.weights.reshape(-1) for each in differences]
    gram = np.array([[a @ b for b in table] for a in table])
    slopes = np.array([slope_of(each.b, items) - w @ each.weights.reshape(-1) for each in differences])
    return np.linalg.lstsq(gram, slopes, rcond=NEGLIGIBLE)[0]


def extrapolated(
    now: Iterate,
    before: Sequence[Iterate],
    items: Items,
    weights_of: Callable[[Vector, Vector], Vector],
) -> Iterate | None:
    """Return a feasible point with a lower dual objective than `now`; None: none was found.

    before : earlier iterates, at least one; weights_of : sum_i alpha_i x_i, (F, K), of some items' alpha
    """
    differences = [Iterate(now.b - each.b, now.weights - each.weights) for each in before]
    shares = best_shares(now, differences, items)
    b = sum(share * each.b for share, each in zip(shares, differences, strict=True))
    w = sum(share * each.weights for share, each in zip(shares, differences, strict=True))
    square = float(np.vdot(now.weights, now.weights))
    for n in range(HALVINGS + 1):
        moved = now.b + 0.5**n * b
        outside = np.flatnonzero(moved.min(axis=1) < 0.0)
        projected = moved[outside]
        simplex_rows(projected, items.masses[outside], METHODS["pivot"], 0.0, projected)
        weights = now.weights + 0.5**n * w
        weights[:, : b.shape[1]] += weights_of(outside, moved[outside] - projected)
        moved[outside] = projected
        decrease = 0.5 * (square - float(np.vdot(weights, weights))) + slope_of(moved - now.b, items)
        if decrease > 0.0:
            return Iterate(moved, weights)
    return None
