"""Views: what single families of solvers need of an objective besides values, gradients and rays.

Importing this package registers all of them (`registry.py`).
"""

from crfqn.objectives.views import (
    curvature,
    dual_items,
    feature_blocks,
    frank_wolfe,
    gram,
    item_mixtures,
    mistakes,
    online,
    proved_zeros,
    row_learner,
    rows,
    splitting,
    unpenalised_reach,
)

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
