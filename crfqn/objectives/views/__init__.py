"""Views: what single families of solvers need of an objective besides values, gradients and rays.

Importing this package registers all of them (`registry.py`).
"""

from crfqn.objectives.views import curvature, gram
from crfqn.objectives.views.bounds import item_mixtures, proved_zeros, unpenalised_reach
from crfqn.objectives.views.dual import frank_wolfe, splitting
from crfqn.objectives.views.dual import items as dual_items
from crfqn.objectives.views.features import blocks as feature_blocks
from crfqn.objectives.views.online import gradient_rows as online
from crfqn.objectives.views.online import mistakes, row_learner
from crfqn.objectives.views.rowwise import rows

__all__ = [
    "curvature",
    "dual_items",
    "feature_blocks",
    "frank_wolfe",
    "gram",
    "item_mixtures",
    "mistakes",
    "online",
    "proved_zeros",
    "row_learner",
    "rows",
    "splitting",
    "unpenalised_reach",
]
