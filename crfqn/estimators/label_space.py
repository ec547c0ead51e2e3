"""Labels that a classifier of items chooses from, and the node of the structure that each of them is.

Shapes: K nodes, I items; classes are the labels that can be predicted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.estimators.content import LARGEST_TABLE
from crfqn.structures.taxonomy import Taxonomy, flat
from crfqn.taxonomy.tree import LabelTree
from crfqn.threads import Pool

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelSpace:
    """Classes, and a node for each.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
    nodes : ndarray of int32, shape (n_classes,): the number of each class's node
    forest : Taxonomy of all K nodes, over no items
    """

    classes: NDArray
    nodes: NDArray[np.int32]
    forest: Taxonomy

    @classmethod
    def flat(cls, classes: NDArray) -> LabelSpace:
        """Return the space of labels without a taxonomy: each is a node, none above another."""
        return cls(classes, np.arange(classes.size, dtype=np.int32), flat(classes.size, 0))

    @property
    def n_nodes(self) -> int:
        return self.forest.n_states

    @property
    def node_names(self) -> list:
        """Names of the nodes, K of them; without a taxonomy the labels."""
        return self.classes.tolist()

    def over(self, n_items: int) -> Taxonomy:
        """Return the structure over `n_items` items."""
        return self.forest.over(np.arange(n_items + 1))

    def class_scores(self, structure: Taxonomy, scores: Vector, pool: Pool) -> Vector:
        """Return the score of each class from those of the nodes, (K, items): without a taxonomy the same."""
        return scores

    def centred(self, intercepts: Vector) -> Vector:
        """Return the intercepts (K,) of the same probabilities that have mean 0 under each node that is no label.

        What the children of such a node have in common can as well be the node's own; what all tops have in
        common changes nothing. Without a penalty to choose, another order of the items would end elsewhere.
        """
        result, forest = intercepts.copy(), self.forest
        bounds = np.searchsorted(forest.parents, np.arange(-1, self.n_nodes + 1))
        for above in range(self.n_nodes - 1, -2, -1):
            children = slice(bounds[above + 1], bounds[above + 2])
            if children.start < children.stop and (above < 0 or not forest.is_label[above]):
                common = result[children].mean()
                result[children] -= common
                if above >= 0:
                    result[above] += common
        return result


@dataclass(frozen=True, eq=False)
class TreeSpace(LabelSpace):
    """Labels of a taxonomy, and their nodes.

    Attributes
    ----------
    tree : LabelTree
    n_levels : int, columns of the labels where they are rows of parts, 0 where they are names
    separator : str, between the parts of a label
    """

    tree: LabelTree
    n_levels: int
    separator: str

    @property
    def node_names(self) -> list:
        """Names of the nodes, K of them."""
        return list(self.tree.names)

    def class_scores(self, structure: Taxonomy, scores: Vector, pool: Pool) -> Vector:
        """Return the sum of the scores on each class's path, (n_classes, items)."""
        return structure.path_scores(scores, pool)[self.nodes]

    @classmethod
    def of(cls, tree: LabelTree, nodes: NDArray[np.integer], n_levels: int, separator: str) -> TreeSpace:
        """Return the space of these label nodes, classes sorted where they can be; InputError for too deep a tree."""
        tree.check_depth()
        names = [tree.names[node] for node in nodes]
        with suppress(TypeError):  # numbers beside strings
            names.sort()  # type: ignore[type-var]
        is_label = np.zeros(tree.n_nodes, bool)
        is_label[nodes] = True
        forest = Taxonomy(tree.parents, is_label, 0)
        return cls(name_array(names), tree.nodes_of(names), forest, tree, n_levels, separator)


def name_array(names: Sequence[Hashable]) -> NDArray:
    """Return names as an array: of objects where numpy would change them, or give all the length of a very long one."""
    longest = max((len(name) for name in names if isinstance(name, str)), default=0)
    if longest * len(names) > LARGEST_TABLE:
        return np.fromiter(names, object, len(names))
    found = np.asarray(names)
    return found if found.tolist() == list(names) else np.fromiter(names, object, len(names))
