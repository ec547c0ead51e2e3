"""Forests of labels, and the measures by their definitions."""

from __future__ import annotations

from crfqn.metrics import (
    hierarchical_precision_recall_f1,
    lca_precision_recall_f1,
    level_accuracy,
    tree_induced_error,
)
from crfqn.taxonomy.tree import LabelTree

MEASURES = [hierarchical_precision_recall_f1, lca_precision_recall_f1, tree_induced_error, level_accuracy]
AVERAGES = ["micro", "macro"]
NAMES = [f"{kind}_{part}" for kind in ("hierarchical", "lca") for part in ("precision", "recall", "f1")]

#        animal              plant
#       /      \               |
#    cat        dog          rose
#   /   \
# lion  lynx
ZOO = LabelTree.from_edges(
    [("animal", "cat"), ("animal", "dog"), ("cat", "lion"), ("cat", "lynx"), ("plant", "rose")]
)
