"""Views: what single families of solvers need of an objective besides values, gradients and rays.

Importing this package registers all of them (`registry.py`).
"""

from crfqn.objectives.views import (
    curvature,
    feature_blocks,
    gram,
    item_mixtures,
    mistakes,
    online,
    proved_zeros,
    row_learner,
    rows,
    unpenalised_reach,
)

__all__ = [
    "curvature",
    "feature_blocks",
    "gram",
    "item_mixtures",
    "mistakes",
    "online",
    "proved_zeros",
    "row_learner",
    "rows",
    "unpenalised_reach",
]
