"""Views: what single families of solvers need of an objective besides values, gradients and rays.

Importing this package registers all of them (`registry.py`).
"""

from crfqn.objectives.views import curvature, gram
from crfqn.objectives.views.bounds import item_mixtures, proved_zeros, unpenalised_reach
from crfqn.objectives.views.features import blocks as feature_blocks
from crfqn.objectives.views.rowwise import rows

__all__ = [
    "curvature",
    "feature_blocks",
    "gram",
    "item_mixtures",
    "proved_zeros",
    "rows",
    "unpenalised_reach",
]
