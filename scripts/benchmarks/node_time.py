"""One inference pass over a taxonomy, against the memory bound of the machine.

A node and item has a score that is read and a residual that is written, 24 bytes with the line that a write fetches
first. The yardstick is what the same core manages in NumPy's `residual = scores + 1` over arrays of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.inference import best_time, exponential_seconds
from benchmarks.items import read_stored

BYTES = 24


@dataclass(frozen=True)
class NodeTime:
    """Nanoseconds a node and item on one core, the bound on it, and what the bound is made of."""

    measured: float
    bound: float
    n_nodes: int
    n_labels: int
    n_items: int
    exp_nanoseconds: float

    def describe_bound(self) -> str:
        exponentials = self.exp_nanoseconds * self.n_labels / self.n_nodes
        return (
            f"Bound on an inference pass over {self.n_nodes:,} nodes and {self.n_items:,} items: {self.bound:.2f} ns a "
            f"node and item for {BYTES} bytes at the {BYTES / self.bound:.1f} GB/s of `residual = scores + 1` on this "
            f"core. NumPy's exponentials of the {self.n_labels:,} labels would take {exponentials:.2f} ns more."
        )


def measure(path: str, weights: Any) -> NodeTime:
    """Time `Taxonomy.infer` (value and marginals) on one thread, at the scores of trained weights."""
    from crfqn.structures.taxonomy import Taxonomy

    problem = read_stored(path)
    tree, n_items = problem.taxonomy, len(problem.y_train)
    assert tree is not None
    scores = np.ascontiguousarray((problem.X_train @ weights.T).toarray().T)
    targets, residual = tree.nodes_of(problem.y_train.tolist()), np.empty_like(scores)
    taxonomy = Taxonomy(tree.parents, tree.is_leaf, n_items)
    return NodeTime(
        measured=1e9 * best_time(lambda: taxonomy.infer(scores, targets=targets), 10) / scores.size,
        bound=1e9 * best_time(lambda: np.add(scores, 1.0, out=residual), 10) / scores.size,
        n_nodes=tree.n_nodes,
        n_labels=len(tree.leaves),
        n_items=n_items,
        exp_nanoseconds=1e9 * exponential_seconds(),
    )
