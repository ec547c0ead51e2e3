"""Labels that a model of single items chooses from, the node of the structure that each of them is, and their form in
`y`. An item has one label, perhaps in a taxonomy, or a set of them: a table of 0 and 1, dense or sparse, or sets.

Shapes: K nodes, I items; classes are the labels that can be predicted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.model_file import ModelFile
from crfqn.errors import ModelFileError
from crfqn.model.content import MAX_TABLE_SIZE, ModelContent, add_labels, read_labels
from crfqn.taxonomy.label_paths import PathRowFormat, check_separator
from crfqn.taxonomy.tree import NO_PARENT, LabelTree

if TYPE_CHECKING:
    from crfqn.structures.taxonomy import Taxonomy
    from crfqn.threads import Pool

ONE_LABEL = "labels"
MOST_UNUSED = 1000  # columns of labels as rows of parts, beyond those that a model's paths need
FORMS = (ONE_LABEL, "table", "sparse table", "sets")


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """Labels and their nodes.

    classes : (n_classes,); nodes : the number of each one's node, int32 (n_classes,)
    form : of the labels in `y`, one of FORMS
    tree : the taxonomy; None without one, where each class is a node, and none is above another
    rows : the form of labels that are rows of parts; None where they are names of parts with a `separator` between
    """

    classes: NDArray
    nodes: NDArray[np.int32]
    form: str = ONE_LABEL
    tree: LabelTree | None = None
    rows: PathRowFormat | None = None
    separator: str = ""

    @classmethod
    def flat(cls, classes: NDArray, form: str = ONE_LABEL) -> LabelIndex:
        """Return the space of labels without a taxonomy."""
        return cls(classes, np.arange(classes.size, dtype=np.int32), form)

    @classmethod
    def of_tree(
        cls, tree: LabelTree, nodes: NDArray[np.integer], rows: PathRowFormat | None, separator: str
    ) -> LabelIndex:
        """Return the space of these label nodes, classes sorted where they can be; InputError for too deep a tree."""
        tree.check_depth()
        names = [tree.names[node] for node in nodes]
        with suppress(TypeError):  # numbers beside strings cannot be sorted
            names.sort()  # type: ignore[type-var]
        classes = name_array(names)
        return cls(classes, tree.nodes_of(classes), tree=tree, rows=rows, separator=separator)

    @property
    def has_one_label(self) -> bool:
        """Whether an item has one label, not a set."""
        return self.form == ONE_LABEL

    @property
    def n_nodes(self) -> int:
        """Number of nodes, K."""
        return int(self.classes.size) if self.tree is None else self.tree.n_nodes

    @property
    def node_names(self) -> list:
        """Names of the nodes, K of them; without a taxonomy the labels."""
        return self.classes.tolist() if self.tree is None else list(self.tree.names)

    @cached_property
    def forest(self) -> Taxonomy:
        """The structure of all K nodes over no items."""
        from crfqn.structures.taxonomy import Taxonomy, flat  # compiled code

        if self.tree is None:
            return flat(self.classes.size, 0)
        is_label = np.zeros(self.tree.n_nodes, bool)
        is_label[self.nodes] = True
        return Taxonomy(self.tree.parents, is_label, 0)

    def add_to(self, content: ModelContent, has_sets: bool) -> None:
        """Add the labels to what a model file holds; `has_sets`: of a model whose items may have several."""
        if self.tree is None:
            add_labels(content, self.classes)
            if has_sets:
                content.metadata["form"] = self.form
            return
        content.arrays |= {"parents": self.tree.parents, "label_node": self.nodes}
        content.metadata |= {
            "nodes": list(self.tree.names),
            "label_levels": self.rows.n_levels if self.rows else 0,
            "label_separator": self.separator,
        }
        if self.rows and self.rows.integer_levels:
            content.metadata["integer_levels"] = list(self.rows.integer_levels)

    @classmethod
    def of_file(cls, file: ModelFile, has_sets: bool, has_tree: bool = False) -> LabelIndex:
        """Return the labels that `add_to` has stored; ModelFileError where they do not fit together."""
        if not has_tree:
            form = file.metadata["form"] if has_sets else ONE_LABEL
            if form not in FORMS:
                raise ModelFileError(f"{file.path}: expected a form of labels among {FORMS}, found {form!r}")
            return cls.flat(read_labels(file, file.count("n_classes", 1)), form)
        tree = LabelTree(tuple(file.metadata["nodes"]), file.array("parents", "int32", (None,)))
        nodes = file.array("label_node", "int32", (file.count("n_classes", 1),))
        are_nodes = nodes.size and nodes.min() >= 0 and nodes.max() < tree.n_nodes
        if not are_nodes or np.unique(nodes).size < nodes.size:
            raise ModelFileError(
                f"{file.path}: label_node should hold distinct numbers of 0 ... {tree.n_nodes - 1}"
            )
        if not np.isin(tree.leaves, nodes).all():
            raise ModelFileError(f"{file.path}: label_node lacks a leaf of the taxonomy")
        separator = file.metadata["label_separator"]
        check_separator(separator)
        return cls.of_tree(tree, nodes, read_rows(file, tree, separator), separator)

    def over(self, n_items: int) -> Taxonomy:
        """Return the structure over `n_items` items."""
        return self.forest.over(np.arange(n_items + 1))

    def class_scores(self, scores: Vector) -> Vector:
        """Return the score of each class from those of the nodes, (items, K): in a taxonomy the sum on its path."""
        if self.tree is None:
            return scores
        sums = scores.copy()
        for nodes in _levels_below_the_top(self.tree):
            sums[:, nodes] += sums[:, self.tree.parents[nodes]]
        return sums[:, self.nodes]

    def compiled_class_scores(self, scores: Vector, pool: Pool) -> Vector:
        """Return the same of scores (K, items), by compiled code."""
        if self.tree is None:
            return scores
        return self.over(scores.shape[1]).path_scores(scores, pool)[self.nodes]

    def as_given(self, labels: NDArray) -> NDArray:
        """Return labels in the form that the labels of the training had; of no label (None) a row is empty."""
        if self.rows is None:
            return labels
        return self.rows.rows(["" if label is None else label for label in labels.tolist()], self.separator)

    def centered(self, intercepts: Vector) -> Vector:
        """Return the intercepts (K,) of the same probabilities with mean 0 under each node that is no label: what its
        children share can be its own. Without a penalty to choose, another order of items would end elsewhere."""
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


def read_rows(file: ModelFile, tree: LabelTree, separator: str) -> PathRowFormat | None:
    """Return the form of labels as rows of parts, None for names; ModelFileError unless the taxonomy's names fit. More
    levels than the tree's are accepted: a table may have columns that none of its rows used."""
    longest = max(1 + str(name).count(separator) for name in tree.names)
    levels = file.count("label_levels", maximum=longest + MOST_UNUSED)
    if levels == 0:
        return None
    n_levels = file.count("label_levels", longest, longest + MOST_UNUSED)
    integer_levels = file.metadata.get("integer_levels", [])
    if not integer_levels:
        return PathRowFormat(n_levels)
    possible = PathRowFormat(n_levels, tuple(range(n_levels))).of_tree(tree.names, separator).integer_levels
    if not isinstance(integer_levels, list) or not all(level in possible for level in integer_levels):
        raise ModelFileError(
            f"{file.path}: integer_levels: expected levels of integers, got {integer_levels!r}"
        )
    return PathRowFormat(n_levels, tuple(integer_levels))


def name_array(names: Sequence[Hashable]) -> NDArray:
    """Return names as an array: of objects where numpy would change them, or give all the length of a very long one."""
    longest = max((len(name) for name in names if isinstance(name, str)), default=0)
    if longest * len(names) > MAX_TABLE_SIZE:
        return np.fromiter(names, object, len(names))
    array = np.asarray(names)
    return array if array.tolist() == list(names) else np.fromiter(names, object, len(names))


def descend_tree(is_probable: NDArray[np.bool_], p: Vector, parents: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the node that each item reaches from above the tops, int64 (n,), by going to the most probable child (`p`:
    (K, n)) while it `is_probable` enough, -1 for no node; ties go to the lower node, and `parents` (K,) are -1 for
    tops."""
    reached = np.full(p.shape[1], NO_PARENT)
    for above in np.unique(parents):
        items = np.flatnonzero(reached == above)
        first, last = np.searchsorted(parents, (above, above + 1))
        best = first + p[first:last, items].argmax(axis=0)
        goes = is_probable[best, items]
        reached[items[goes]] = best[goes]
    return reached


def sum_up(tree: LabelTree, probabilities: Vector) -> Vector:
    """Return of each node its probability as a label and those of all nodes under it, (I, K)."""
    sums = probabilities.copy()
    for nodes in reversed(_levels_below_the_top(tree)):
        above = tree.parents[nodes]
        firsts = np.flatnonzero(
            np.diff(above, prepend=NO_PARENT)
        )  # the children of a node stand side by side
        sums[:, above[firsts]] += np.add.reduceat(sums[:, nodes], firsts, axis=1)
    return sums


def _levels_below_the_top(tree: LabelTree) -> list[slice]:
    """Return the nodes of each level but the first, which are runs."""
    cuts = np.searchsorted(tree.depths, np.arange(1, int(tree.depths[-1]) + 2)).tolist()
    return [slice(first, last) for first, last in pairwise(cuts)]
