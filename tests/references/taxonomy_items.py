"""Items of a small taxonomy, their labels in every form, and the model by its definition."""

from __future__ import annotations

import numpy as np

from crfqn import TaxonomyCRF
from crfqn.taxonomy.tree import LabelTree

# a has the leaves a/x, a/y and the inner node a/z with a/z/1, a/z/2; b has b/w; c is a leaf at the top.
LEAVES = ["a/x", "a/y", "a/z/1", "a/z/2", "b/w", "c"]
NODES = ["a", "b", "c", "a/x", "a/y", "a/z", "b/w", "a/z/1", "a/z/2"]
PARENTS = [-1, -1, -1, 0, 0, 0, 1, 5, 5]
RNG = np.random.default_rng(71)
X = RNG.poisson(0.8, (120, 10)) / 2.0


def draw(names: list[str]) -> np.ndarray:
    """Labels that hang on the features through all nodes on their paths."""
    node_scores = X @ np.random.default_rng(72).normal(size=(10, len(NODES)))
    scores = [sum(node_scores[:, NODES.index(name)] for name in prefixes(label)) for label in names]
    return np.array(names)[np.argmax(np.array(scores) + RNG.gumbel(size=(len(names), 120)), axis=0)]


def prefixes(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


Y = draw(LEAVES)
ANY = draw(NODES)
EDGES = [(None, name) if len(prefixes(name)) == 1 else tuple(prefixes(name)[-2:]) for name in NODES]
GRAPH = LabelTree.from_edges(EDGES).to_networkx()
TUPLES = [tuple(name.split("/")) for name in Y]
PADDED = np.array([[*row, "", ""][:3] for row in TUPLES])


def fitted(taxonomy=None, y=Y, **settings) -> TaxonomyCRF:
    return TaxonomyCRF(taxonomy=taxonomy, **{"l1": 0.5, **settings}).fit(X, y)


def membership(labels) -> np.ndarray:
    """1 where the node (column, in the order of NODES) is the label (row) or above it."""
    return np.array([[float(node in prefixes(label)) for node in NODES] for label in labels])


def class_scores(model: TaxonomyCRF, X=X) -> np.ndarray:
    """(I, classes) by the definition: the sum over the path."""
    assert list(model.tree_.names) == NODES
    return (X @ model.coef_.toarray().T + model.intercept_) @ membership(model.classes_).T


def assert_same_model(left: TaxonomyCRF, right: TaxonomyCRF) -> None:
    assert left.tree_.names == right.tree_.names
    assert left.coef_.toarray().tobytes() == right.coef_.toarray().tobytes()
    assert left.intercept_.tobytes() == right.intercept_.tobytes()
    assert left.result_.value == right.result_.value
    assert left.classes_.tolist() == right.classes_.tolist()
