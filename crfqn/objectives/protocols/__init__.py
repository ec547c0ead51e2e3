"""Protocols of objectives, points, rays and views: all that solvers, penalties and wrappers know of a problem.

Every solver may count on an `Objective`, its `Point`s and `Ray`s: that is all that a remote objective has to send over
a wire. What one family of solvers needs besides is a *view*, asked for by its type:

    curvature = objective.view(CurvatureView).at(point)

An objective that has no such view refuses with a `ViewError`; a solver names the views that it `requires`, and
`minimize` asks for them before the first step.

Shapes: I items, N positions, F features, K states; coordinates as in `coordinates.py`.
"""

from crfqn.objectives.protocols.bounds import (
    ItemMixtures,
    ItemMixturesView,
    UnpenalisedReachView,
    ZeroProofView,
)
from crfqn.objectives.protocols.curvature import Curvature, CurvatureView, GramView, LipschitzView, Matrix
from crfqn.objectives.protocols.objective import Objective, Point, Ray, has_state, has_view

__all__ = [
    "Curvature",
    "CurvatureView",
    "GramView",
    "ItemMixtures",
    "ItemMixturesView",
    "LipschitzView",
    "Matrix",
    "Objective",
    "Point",
    "Ray",
    "UnpenalisedReachView",
    "ZeroProofView",
    "has_state",
    "has_view",
]
