"""A lower bound on the optimum by mixtures with a share for each item: many times tighter than with one share for all.

With one share s for all items (`certificate.py`) the largest violation alone decides, while each item's share s_i is
free to serve the coordinates that its features touch: maximise

    sum_i c_i h_i(s_i)    with    |sum_i s_i g_ij| <= l1 for all j,

h_i the entropy of s_i p_i + (1 - s_i) delta(y_i) and g_ij the item's part of gradient j. An l2 is charged instead, by
max(|.| - l1, 0)^2 / (2 l2). The multiplier of a constraint is the negative of its weight, w at the start: there all s_i
are 1, and the value is that of the point's objective.

From there only the constraints are met, by Hildreth's method (1957): coordinate after coordinate outside of its bound
moves its multiplier until it is inside. Optimality of the shares is not sought, nor needed for a bound. What is left
outside then is brought in by lowering the shares that push. A full gradient scan finds the coordinates that
have been left out, which join, and in the end one factor for all shares makes the bound strict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crfqn.arrays import Coords, Vector
from crfqn.errors import ViewError
from crfqn.kernels.item_mixtures import lower_shares, project_shares
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.protocols import ItemMixtures, ItemMixturesView
from crfqn.solvers.protocols import Penalty, Point

NEAR = 0.8  # of l1: coordinates with larger gradients are constraints from the start
LOOKS = (12, 30, 60)  # at most, between the scans of all coordinates
BEYOND = 0.8  # see `project_shares`
PRICE = 30.0  # passes that a bound costs, about
FEWEST_PASSES = PRICE
GROWTH = 1.3
MARGIN, STRICT = 5e-3, 1e-3  # shares of l1 that may be exceeded, while moving and while lowering


class ItemBound(NamedTuple):
    """A lower bound on the optimum, and the shares of the items that prove it, (I,)."""

    dual_value: float
    shares: Vector


class BoundSchedule:
    """When bounds by items are worth their price along a run."""

    def __init__(self) -> None:
        self.due, self.value = FEWEST_PASSES, np.inf

    def is_due(self, n_passes: float, value: float, tol: float) -> bool:
        """Whether to look for a bound after so many passes; value: the least objective so far, asked at each scan.

        It is while the objective still falls by more than the tolerance from scan to scan that no bound can be near.
        """
        has_settled = self.value - value <= tol * abs(value)
        self.value = value
        return has_settled and n_passes >= self.due

    def looked(self, n_passes: float) -> None:
        """Wait after a look until the passes have grown by a share that makes its price a part of theirs."""
        self.due = max(GROWTH * n_passes, n_passes + PRICE)


def item_bound(point: Point, penalty: Penalty) -> ItemBound | None:
    """Bound the optimum of a likelihood under one l1 for all weights; None where shares of items are no help.

    That is without l1, with unpenalised coordinates, whose gradients must stay 0, for losses or features without
    `ItemMixturesView`, and where items have parts in too many coordinates.
    """
    has_one_bound = penalty.is_separable and penalty.is_uniform and penalty.l1 > 0
    if not has_one_bound or penalty.unpenalised.size:
        return None
    try:
        view = point.view(ItemMixturesView)
    except ViewError:
        return None
    coords, mixtures = point.screen(NEAR * penalty.l1).coords, view.start()
    if view.entries(coords) > 1:
        return None
    parts, bounds = view.parts(coords), bounds_of(point, penalty, coords)
    for most_looks in LOOKS:
        project_shares(bounds, penalty.l2, parts, mixtures, MARGIN, BEYOND, most_looks)
        screening = view.at_shares(mixtures.shares).screen((1.0 + MARGIN) * penalty.l1)
        outside = screening.coords[~found_in(coords, screening.coords)[1]]
        wider = union(coords, outside)
        if outside.size == 0 or view.entries(wider) > 1:
            break
        coords = wider
        del parts  # as large as the data, several times
        parts, bounds = view.parts(coords), bounds_of(point, penalty, coords)
    shares = mixtures.shares.copy()
    if penalty.l2 == 0:
        lower_shares(bounds, parts, shares, STRICT, LOOKS[-1])
    return best_factor(view, penalty, shares)


def best_factor(view: ItemMixtures, penalty: Penalty, shares: Vector) -> ItemBound | None:
    """The best bound of the shares times a factor, one for all of them, that makes it strict."""
    screening = view.at_shares(shares).screen(penalty.l1)
    best = None
    for factor in penalty.dual_scales(screening.coords, screening.gradient):
        charge = penalty.conjugate(screening.coords, factor * screening.gradient)
        bound = ItemBound(view.dual_value(factor * shares) - charge, factor * shares)
        if best is None or bound.dual_value > best.dual_value:
            best = bound
    return best


def bounds_of(point: Point, penalty: Penalty, coords: Coords) -> Vector:
    """The bounds on gradients: l1, and what l2 adds at weights that are not zero."""
    place, is_there = found_in(point.coords, coords)
    bounds = np.full(coords.size, penalty.l1)
    bounds[is_there] += penalty.l2 * np.abs(point.weights[place[is_there]])
    return bounds
