"""Models of items to write and read back, each trained once."""

from __future__ import annotations

import warnings
from functools import cache

import networkx as nx
import numpy as np

from crfqn import MulticlassCRF, TaxonomyCRF
from crfqn.errors import EmptyModelWarning

ROWS = np.random.default_rng(5).random((60, 6)).round(1)
CODES = np.argmax(ROWS[:, :4] + np.random.default_rng(6).normal(0, 0.2, (60, 4)), axis=1)
TREE = nx.DiGraph([("root", 1), ("root", 2), (1, 11), (1, 12), (2, 21), (2, 22), (2, 23)])
PATHS = np.array([["a", "b", ""], ["a", "c", "d"], ["a", "c", "e"], ["f", "", ""]])


def items_labelled(names) -> np.ndarray:
    return np.array(names)[CODES]


ITEM_MODELS = {
    "flat str": lambda: MulticlassCRF(l1=0.3).fit(ROWS, items_labelled(["é", "b", "c", "d"])),
    "flat int": lambda: MulticlassCRF(l1=0.3, fit_intercept=False).fit(ROWS, items_labelled([-2, 0, 5, 2**40])),
    "flat bool": lambda: MulticlassCRF(class_weight={True: 2, False: 0.5}, penalize_intercept=True).fit(
        ROWS, CODES > 1
    ),
    "flat float": lambda: MulticlassCRF(class_weight={1.0: 2.5}, l2=0.1).fit(ROWS, CODES.astype(float)),
    "star": lambda: TaxonomyCRF(class_weight="balanced").fit(ROWS, CODES),
    "mixed names": lambda: TaxonomyCRF(taxonomy=TREE, l1=0.3, fit_intercept=True).fit(
        ROWS, items_labelled([11, 12, 21, 22])
    ),
    "inner labels": lambda: TaxonomyCRF(
        taxonomy=TREE, labels="nodes", class_weight={11: 3, 1: 2}, solver="prox-qn-paper", max_seconds=60.0
    ).fit(ROWS, items_labelled([11, 1, 21, 2])),
    "path rows": lambda: TaxonomyCRF(l1=0.3, separator=".").fit(ROWS, PATHS[CODES]),
    "columns without weights": lambda: TaxonomyCRF(l1=1e6).fit(ROWS, CODES),
}  # fmt: skip


@cache
def trained(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyModelWarning)
        return ITEM_MODELS[name]()
