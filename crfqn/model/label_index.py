"""The labels of models of single items: their nodes in the structure, and their form in `y`.

An item has one label, perhaps in a taxonomy, or a set of labels: a table of 0 and 1, dense or sparse, or sets. Shapes:
K nodes, I items; classes are the labels that can be predicted.
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
# Levels of labels in a file beyond those of its paths, for unused columns in a table of labels.
MAX_UNUSED_LEVELS = 1000
LABEL_FORMS = (ONE_LABEL, "table", "sparse table", "sets")


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """Labels and their nodes.

    classes : (n_classes,); nodes : the number of the node of each class, int32 (n_classes,)
    form : of the labels in `y`, one of LABEL_FORMS
    tree : the taxonomy; without one (None), each class is a node, and no node has children
    rows : the format of labels that are rows of parts; None if labels are names of parts joined by the `separator`
    """

    classes: NDArray
    nodes: NDArray[np.int32]
    form: str = ONE_LABEL
    tree: LabelTree | None = None
    rows: PathRowFormat | None = None
    separator: str = ""

    @classmethod
    def flat(cls, classes: NDArray, form: str = ONE_LABEL) -> LabelIndex:
        """Return the index of labels without a taxonomy."""
        return cls(classes, np.arange(classes.size, dtype=np.int32), form)

    @classmethod
    def of_tree(
        cls, tree: LabelTree, nodes: NDArray[np.integer], rows: PathRowFormat | None, separator: str
    ) -> LabelIndex:
        """Return the index of the labels at some nodes, sorted if they can be; InputError for too deep a tree."""
        tree.check_depth()
        names = [tree.names[node] for node in nodes]
        with suppress(TypeError):  # a mix of numbers and strings cannot be sorted
            names.sort()  # type: ignore[type-var]
        classes = name_array(names)
        return cls(classes, tree.nodes_of(classes), tree=tree, rows=rows, separator=separator)

    @property
    def has_one_label(self) -> bool:
        """Whether an item has one label, not a set of labels."""
        return self.form == ONE_LABEL

    @property
    def n_nodes(self) -> int:
        """Number of nodes, K."""
        return int(self.classes.size) if self.tree is None else self.tree.n_nodes

    @property
    def node_names(self) -> list:
        """The names of the K nodes; without a taxonomy the labels."""
        return self.classes.tolist() if self.tree is None else list(self.tree.names)

    @cached_property
    def forest(self) -> Taxonomy:
        """The structure of the K nodes, without items."""
        from crfqn.structures.taxonomy import Taxonomy, flat  # compiled code

        if self.tree is None:
            return flat(self.classes.size, 0)
        is_label = np.zeros(self.tree.n_nodes, bool)
        is_label[self.nodes] = True
        return Taxonomy(self.tree.parents, is_label, 0)

    def add_to(self, content: ModelContent, has_sets: bool) -> None:
        """Add the labels to the content of a model file; `has_sets`: whether the model's items may have several."""
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
        """Return the index that `add_to` stored; ModelFileError if its parts do not fit together."""
        if not has_tree:
            form = file.metadata["form"] if has_sets else ONE_LABEL
            if form not in LABEL_FORMS:
                raise ModelFileError(
                    f"{file.path}: expected a form of labels among {LABEL_FORMS}, found {form!r}"
                )
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
        return cls.of_tree(tree, nodes, read_row_format(file, tree, separator), separator)

    def class_scores(self, scores: Vector) -> Vector:
        """Return the scores of the classes, given those of the nodes, (items, K): in a taxonomy sums along paths."""
        if self.tree is None:
            return scores
        sums = scores.copy()
        for nodes in _levels_below_the_top(self.tree):
            sums[:, nodes] += sums[:, self.tree.parents[nodes]]
        return sums[:, self.nodes]

    def compiled_class_scores(self, scores: Vector, pool: Pool) -> Vector:
        """Return the scores of the classes, given those of the nodes, (K, items), by compiled code."""
        if self.tree is None:
            return scores
        structure = self.forest.over(np.arange(scores.shape[1] + 1))
        return structure.path_scores(scores, pool)[self.nodes]

    def as_given(self, labels: NDArray) -> NDArray:
        """Return labels in the form of the training's labels; the row of no label (None) is empty."""
        if self.rows is None:
            return labels
        return self.rows.rows(["" if label is None else label for label in labels.tolist()], self.separator)

    def centered(self, intercepts: Vector) -> Vector:
        """Return intercepts (K,) with the same probabilities and mean 0 among the children of each node that is no
        label. Without a penalty the optimum is not unique; centring makes it so, whatever the order of items."""
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


def read_row_format(file: ModelFile, tree: LabelTree, separator: str) -> PathRowFormat | None:
    """Return the format of labels as rows of parts, None for names; ModelFileError unless the taxonomy's names fit it.
    There may be more levels than in the tree, as a table of labels may have unused columns."""
    longest = max(1 + str(name).count(separator) for name in tree.names)
    levels = file.count("label_levels", maximum=longest + MAX_UNUSED_LEVELS)
    if levels == 0:
        return None
    n_levels = file.count("label_levels", longest, longest + MAX_UNUSED_LEVELS)
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
    """Return names as an array, of objects if numpy would change them or pad all to a very long one."""
    longest = max((len(name) for name in names if isinstance(name, str)), default=0)
    if longest * len(names) > MAX_TABLE_SIZE:
        return np.fromiter(names, object, len(names))
    array = np.asarray(names)
    return array if array.tolist() == list(names) else np.fromiter(names, object, len(names))


def descend_tree(is_probable: NDArray[np.bool_], p: Vector, parents: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the node that each item reaches from the root, int64 (n,), -1 for none.

    An item goes down to its child with the largest probability, as long as that is large enough; ties go to the lower
    node. is_probable, p : of the nodes (K, n); parents : (K,), -1 for the children of the root
    """
    reached = np.full(p.shape[1], NO_PARENT)
    for above in np.unique(parents):
        items = np.flatnonzero(reached == above)
        first, last = np.searchsorted(parents, (above, above + 1))
        best = first + p[first:last, items].argmax(axis=0)
        goes = is_probable[best, items]
        reached[items[goes]] = best[goes]
    return reached


def sum_up(tree: LabelTree, probabilities: Vector) -> Vector:
    """Return for each node the sum of its probability as a label and those of all nodes under it, (I, K)."""
    sums = probabilities.copy()
    for nodes in reversed(_levels_below_the_top(tree)):
        above = tree.parents[nodes]
        # Children of a node have consecutive numbers.
        firsts = np.flatnonzero(np.diff(above, prepend=NO_PARENT))
        sums[:, above[firsts]] += np.add.reduceat(sums[:, nodes], firsts, axis=1)
    return sums


def _levels_below_the_top(tree: LabelTree) -> list[slice]:
    """Return the nodes of each level except the first; they have consecutive numbers."""
    cuts = np.searchsorted(tree.depths, np.arange(1, int(tree.depths[-1]) + 2)).tolist()
    return [slice(first, last) for first, last in pairwise(cuts)]
