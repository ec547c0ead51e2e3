"""Taxonomies of model files, and inference over one for a few items, with numpy alone.

Shapes: K nodes, parents first, I items; scores here are (I, K).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.model_file import ModelFile
from crfqn.errors import ModelFileError
from crfqn.model.content import LARGEST_TABLE
from crfqn.taxonomy.labels import RowForm, check_separator
from crfqn.taxonomy.tree import NO_PARENT, LabelTree

MOST_UNUSED = 1000  # columns of labels as rows of parts, beyond those that a model's paths need


class TreeLabels(NamedTuple):
    """The labels of a taxonomy: its tree, their nodes, the form of labels as rows of parts (None: they are names), and
    what stands between the parts of a name."""

    tree: LabelTree
    nodes: NDArray[np.int32]
    rows: RowForm | None
    separator: str


def read_tree(file: ModelFile) -> TreeLabels:
    """Return the taxonomy of a model file and its labels; ModelFileError where they do not fit together."""
    meta = file.metadata
    tree = LabelTree(tuple(meta["nodes"]), file.array("parents", "int32", (None,)))
    nodes = file.array("label_node", "int32", (file.count("n_classes", 1),))
    are_nodes = nodes.size and nodes.min() >= 0 and nodes.max() < tree.n_nodes
    if not are_nodes or np.unique(nodes).size < nodes.size:
        raise ModelFileError(
            f"{file.path}: label_node should hold distinct numbers of 0 ... {tree.n_nodes - 1}"
        )
    if not np.isin(tree.leaves, nodes).all():
        raise ModelFileError(f"{file.path}: label_node lacks a leaf of the taxonomy")
    separator = meta["label_separator"]
    check_separator(separator)
    return TreeLabels(tree, nodes, read_rows(file, tree, separator), separator)


def read_rows(file: ModelFile, tree: LabelTree, separator: str) -> RowForm | None:
    """Return the form of labels as rows of parts, None for names; ModelFileError unless the taxonomy's names fit. More
    levels than the tree's are accepted: a table may have columns that none of its rows used."""
    longest = max(1 + str(name).count(separator) for name in tree.names)
    levels = file.count("label_levels", most=longest + MOST_UNUSED)
    if levels == 0:
        return None
    n_levels = file.count("label_levels", longest, longest + MOST_UNUSED)
    integer_levels = file.metadata.get("integer_levels", [])
    if not integer_levels:
        return RowForm(n_levels)
    possible = RowForm(n_levels, tuple(range(n_levels))).of_tree(tree.names, separator).integer_levels
    if not isinstance(integer_levels, list) or not all(level in possible for level in integer_levels):
        raise ModelFileError(
            f"{file.path}: integer_levels: expected levels of integers, got {integer_levels!r}"
        )
    return RowForm(n_levels, tuple(integer_levels))


def class_names(tree: LabelTree, nodes: NDArray[np.integer]) -> NDArray:
    """Return the names of label nodes, sorted where they can be."""
    names = [tree.names[node] for node in nodes]
    with suppress(TypeError):  # numbers beside strings
        names.sort()  # type: ignore[type-var]
    return name_array(names)


def name_array(names: Sequence[Hashable]) -> NDArray:
    """Return names as an array: of objects where numpy would change them, or give all the length of a very long one."""
    longest = max((len(name) for name in names if isinstance(name, str)), default=0)
    if longest * len(names) > LARGEST_TABLE:
        return np.fromiter(names, object, len(names))
    found = np.asarray(names)
    return found if found.tolist() == list(names) else np.fromiter(names, object, len(names))


def descend(p: NDArray[np.float64], parents: NDArray[np.int32], threshold: float) -> NDArray[np.int64]:
    """Return the node that each item reaches from the top, int64 (n,), going on to the most probable child (`p`: (K,
    n)) if >= threshold; ties go to the lower node, and `parents` (K,) are -1 for tops."""
    reached = np.full(p.shape[1], NO_PARENT)
    for above in np.unique(parents):
        items = np.flatnonzero(reached == above)
        first, last = np.searchsorted(parents, (above, above + 1))
        best = first + p[first:last, items].argmax(axis=0)
        goes = (p[best, items] >= threshold) | (above == NO_PARENT)
        reached[items[goes]] = best[goes]
    return reached


def path_sums(tree: LabelTree, scores: Vector) -> Vector:
    """Return the sums of the scores from the top to each node, (I, K)."""
    sums = scores.copy()
    for nodes in _levels_below_the_top(tree):
        sums[:, nodes] += sums[:, tree.parents[nodes]]
    return sums


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
