"""Views: what single families of solvers need of an objective besides values, gradients and rays.

Importing this package registers all of them (`registry.py`).
"""

from crfqn.objectives.views import curvature, gram
from crfqn.objectives.views.bounds import item_mixtures, proved_zeros, unpenalised_reach

__all__ = [
    "curvature",
    "gram",
    "item_mixtures",
    "proved_zeros",
    "unpenalised_reach",
]
