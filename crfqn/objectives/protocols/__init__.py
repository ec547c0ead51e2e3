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
from crfqn.objectives.protocols.dual import (
    Certified,
    DualBlocks,
    DualView,
    EpigraphSplitting,
    EpigraphView,
    FrankWolfeState,
    FrankWolfeView,
    ItemSweep,
    Splitting,
    SplittingView,
)
from crfqn.objectives.protocols.features import BlockState, BlockSweep, FeatureBlockView
from crfqn.objectives.protocols.objective import Objective, Point, Ray, has_view
from crfqn.objectives.protocols.online import (
    AveragedState,
    FobosState,
    Learned,
    MistakeView,
    OnlineView,
    RowLearningView,
    SGDState,
)
from crfqn.objectives.protocols.rowwise import (
    LineSearch,
    RowBlocks,
    RowGradients,
    RowHistory,
    RowView,
    Swept,
)

__all__ = [
    "AveragedState",
    "BlockState",
    "BlockSweep",
    "Certified",
    "Curvature",
    "CurvatureView",
    "DualBlocks",
    "DualView",
    "EpigraphSplitting",
    "EpigraphView",
    "FeatureBlockView",
    "FobosState",
    "FrankWolfeState",
    "FrankWolfeView",
    "GramView",
    "ItemMixtures",
    "ItemMixturesView",
    "ItemSweep",
    "Learned",
    "LineSearch",
    "LipschitzView",
    "Matrix",
    "MistakeView",
    "Objective",
    "OnlineView",
    "Point",
    "Ray",
    "RowBlocks",
    "RowGradients",
    "RowHistory",
    "RowLearningView",
    "RowView",
    "SGDState",
    "Splitting",
    "SplittingView",
    "Swept",
    "UnpenalisedReachView",
    "ZeroProofView",
    "has_view",
]
