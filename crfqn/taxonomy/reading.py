"""Readers of taxonomies in the forms of users' data: graphs, mappings, edges, tree paths, arrays and files.

`open_taxonomy` converts any of them into a LabelTree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.atomic_write import StrPath
from crfqn.data.files import blank_parted, safe_source, text_lines
from crfqn.data.inputs import LabelsLike
from crfqn.data.json_text import parse_json
from crfqn.errors import DataError, InputError
from crfqn.messages import describe, shorten
from crfqn.taxonomy.label_paths import PathTargets, as_row, check_separator, is_row, joined_rows
from crfqn.taxonomy.tree import NO_PARENT, LabelTree, check_depth_of, plain_name

if TYPE_CHECKING:
    from networkx import DiGraph

TaxonomyLike: TypeAlias = "LabelTree | DiGraph | Mapping[Any, Any] | NDArray | Iterable[Any] | StrPath | None"
PATH_LIST_SEPARATOR = ";"  # usual between several paths of one item
TAXONOMY_FORMS = (
    "a networkx.DiGraph, a mapping child -> parent, pairs (parent, child), paths (strings, tuples or a padded 2-D "
    "array), the name of a file, or None"
)


def open_taxonomy(
    taxonomy: TaxonomyLike, labels: LabelsLike | PathTargets | None = None, separator: str = "/"
) -> LabelTree:
    """Return a taxonomy in any of the usual forms as a checked tree.

    Parameters
    ----------
    taxonomy : LabelTree, or one of:
        networkx.DiGraph
            Edges from parent to child.
        mapping child -> parent
            The parent of a top node is None; or the top node is no key.
        pairs (parent, child)
            A list of tuples or lists, all of length 2: edges. They are paths of two parts instead if the labels
            are rows.
        str paths "a/b/c"
            A node's name is the path to it: "a", "a/b", "a/b/c".
        tuples or lists of parts, or a 2-D array of shape (n, D)
            The same paths in parts, padded with "", None or NaN at the end. An array of two columns holds paths.
        str or path of a file
            See `read_taxonomy_file`: paths, or chains of nodes from parent to child.
        None
            From the labels: paths if they are rows, or strings any of which contains the separator; else a star.
    labels : PathTargets, or anything that `PathTargets.from_y` reads; optional
    separator : str
        Between the parts of a path.

    Returns
    -------
    LabelTree
        Nodes in order of first appearance (level by level); those from labels or a set are sorted.

    Raises
    ------
    InputError
        For another form, paths with holes or empty parts, and all errors of `LabelTree.from_graph`: the message
        names the nodes.
    DataError
        For an invalid file.
    """
    check_separator(separator)
    if isinstance(taxonomy, LabelTree):
        return taxonomy
    if taxonomy is None:
        names = _as_path_labels(labels, separator).names.tolist()
        if not names:
            raise InputError("expected a taxonomy, or labels to infer it from, got no labels")
        is_text = {isinstance(name, str) for name in names}
        if len(is_text) > 1:
            raise InputError("expected labels of one kind, all strings or all numbers, got a mixture")
        if is_text == {True} and any(separator in name for name in names):
            parent_of = {child: parent for parent, child in _path_edges(names, separator, "item")}
            return LabelTree.from_edges((parent_of[node], node) for node in sorted(parent_of))
        return LabelTree.star(sorted(set(map(plain_name, names))))  # type: ignore[type-var]
    import networkx as nx

    if isinstance(taxonomy, nx.Graph):
        return LabelTree.from_graph(taxonomy)
    if isinstance(taxonomy, Mapping) and not isinstance(taxonomy, Set):  # the edge views of networkx are both
        return LabelTree.from_edges(_mapping_edges(taxonomy))
    if isinstance(taxonomy, (str, os.PathLike)):
        if Path(taxonomy).is_dir():
            raise InputError(f"expected {TAXONOMY_FORMS}; {shorten(os.fspath(taxonomy))} is a folder")
        if not Path(taxonomy).is_file():
            raise InputError(f"expected {TAXONOMY_FORMS}; there is no file {shorten(os.fspath(taxonomy))}")
        return read_taxonomy_file(Path(taxonomy), separator)
    return LabelTree.from_edges(_list_edges(taxonomy, labels, separator))


def extend_taxonomy(tree: LabelTree, labels: LabelsLike | PathTargets, separator: str = "/") -> LabelTree:
    """Return the tree with these labels added, the same as the tree inferred from all labels together."""
    names = map(plain_name, _as_path_labels(labels, separator).names.tolist())
    known = set(tree.names)
    new = [name for name in dict.fromkeys(names) if name not in known]
    if not new:
        return tree
    above = [None if parent == NO_PARENT else tree.names[parent] for parent in tree.parents.tolist()]
    paths = [name for name in new if isinstance(name, str)]
    others = [(None, name) for name in new if not isinstance(name, str)]
    added = _path_edges(paths, separator, "label")
    return LabelTree.from_edges([*zip(above, tree.names, strict=True), *added, *others])


def find_nodes(
    tree: LabelTree, labels: NDArray, taxonomy: TaxonomyLike, is_rows: bool = False
) -> NDArray[np.int32]:
    """Return the nodes of labels, int32 (n,), in the tree that `open_taxonomy` made of `taxonomy`.

    InputError for a label that is no node, with a hint if pairs of names may have been meant
    differently. is_rows : whether the labels came as rows of parts
    """
    try:
        return tree.nodes_of(labels)
    except InputError as error:
        hint = ""
        if isinstance(taxonomy, np.ndarray) or hasattr(taxonomy, "iloc"):
            if np.asarray(taxonomy).shape[1:] == (2,):
                hint = "; a 2-column array holds paths: pass a list of tuples for edges (parent, child)"
        elif isinstance(taxonomy, Sequence) and all(is_row(row) and len(row) == 2 for row in taxonomy):
            hint = "; pairs hold edges (parent, child): pass strings a/b or a 2-column array for paths"
            if is_rows:
                hint = (
                    "; with labels that are rows of parts, pairs hold paths: pass a mapping child -> parent for "
                    "edges"
                )
        raise InputError(f"{error}{hint}") from error


def _list_edges(
    taxonomy: NDArray | Iterable[Any], labels: LabelsLike | PathTargets | None, separator: str
) -> Iterable[tuple[Any, Any]]:
    """Yield (parent, child) and (None, top) of a list of pairs, of paths, or of an array."""
    is_array = hasattr(taxonomy, "__array__")
    if isinstance(taxonomy, bytes) or not (is_array or isinstance(taxonomy, Iterable)):
        raise InputError(f"expected {TAXONOMY_FORMS}; got {describe(taxonomy)}")
    if is_array:
        array = np.asarray(taxonomy)
        if array.ndim not in (1, 2):
            raise InputError(
                f"expected an array of paths, shape (n,) or (n, levels), got shape {array.shape}"
            )
        is_array, taxonomy = array.ndim == 2, array.tolist()
    # The order of a set of strings changes from run to run.
    paths = sorted(taxonomy, key=repr) if isinstance(taxonomy, (set, frozenset)) else list(taxonomy)
    if paths and all(isinstance(path, str) for path in paths):
        return _path_edges(paths, separator, "path")
    rows = [as_row(path, i, "row") for i, path in enumerate(paths)]
    if not is_array:  # edges with a weight or a mapping of data, as listed by networkx, look like paths
        for i, row in enumerate(rows):
            if len(row) == 3 and isinstance(row[2], Mapping):
                raise InputError(
                    f"row {i}: expected a pair (parent, child), got {shorten(row)}; pass the graph itself, or its "
                    "edges without data"
                )
        are_weighted = [len(row) == 3 and all(map(isinstance, row, (str, str, float))) for row in rows]
        if rows and all(are_weighted) and all(row[2] == row[2] for row in rows):  # NaN would pad a path
            raise InputError(
                f"row 0: expected a pair (parent, child), without a weight, got {shorten(rows[0])}"
            )
    is_pairs = not is_array and all(len(row) == 2 for row in rows)
    if is_pairs and not (labels is not None and _as_path_labels(labels, separator).is_rows):
        return _pair_edges(rows)
    return _path_edges(joined_rows(rows, separator, "row"), separator, "row")


def _mapping_edges(parent_of: Mapping) -> Iterator[tuple[Any, Any]]:
    for child, parent in parent_of.items():
        if isinstance(parent, (list, tuple, set, frozenset, Mapping)):
            raise InputError(
                f"expected a mapping child -> parent, got {describe(parent)} for {shorten(child)}; "
                "children of a parent are given as pairs (parent, child)"
            )
        yield parent, child


def _pair_edges(pairs: list[tuple]) -> Iterator[tuple[Any, Any]]:
    for i, (parent, child) in enumerate(pairs):
        if parent is None or child is None:
            raise InputError(f"row {i}: expected a pair (parent, child), got {shorten((parent, child))}")
        try:
            yield plain_name(parent), plain_name(child)
        except InputError as error:
            raise InputError(f"row {i}: {error}") from error


def _path_edges(paths: Sequence[str], separator: str, noun: str) -> Iterator[tuple[str | None, str]]:
    """Return the edges of the paths of a sequence of this `noun`. InputError for one that is several, separated by
    semicolons, if one of these is a path of the sequence, too."""
    known = set(paths)
    for i, path in enumerate(paths):
        several = [part.strip() for part in path.split(PATH_LIST_SEPARATOR)]
        if len(several) > 1 and all(separator in part for part in several) and not known.isdisjoint(several):
            raise InputError(
                f"{noun} {i}: expected one path, got {len(several)} in {shorten(path)}: a taxonomy's model gives each "
                "item one; train MultilabelRanker (--structure ranking) on sets of labels, or repeat the item with "
                "each path"
            )
    return path_edges(((f"{noun} {i}", path) for i, path in enumerate(paths)), separator)


def _as_path_labels(labels: LabelsLike | PathTargets | None, separator: str) -> PathTargets:
    if isinstance(labels, PathTargets):
        return labels
    return PathTargets.from_y([] if labels is None else labels, separator)


def read_taxonomy_file(path: str | Path, separator: str = "/") -> LabelTree:
    """Read a taxonomy from a text file, plain or gzip-compressed: a tree path or a chain of nodes a line.

    If every line has exactly two fields, separated by blanks or tabs, the lines are edges, `parent child`, whatever the
    names are. Otherwise, if any line contains the separator, every line is a path and a node's name is the path to it:
    `a/b` has the nodes `a` and `a/b`. Otherwise the fields of a line are the names of nodes from parent to child, a
    path of names that are unique in the whole file, as in the LSHTC challenges. Blank lines and comments (`# ...`)
    are skipped. A file that begins as JSON does is an object of nodes with lists or objects of their children.

    Raises
    ------
    DataError
        The file cannot be read, or is not a taxonomy: names file, nodes and, unless a cycle has several lines, line.
    """
    lines = [(number, line.strip(" \t")) for number, line in text_lines(safe_source(path))]
    text = "\n".join(line for _, line in lines).lstrip("\n")
    if text.startswith(("{", "[")):
        return _of_json(path, text)
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    try:
        return LabelTree.from_edges(_file_edges(path, lines, separator))
    except InputError as error:
        raise DataError(f"{path}: {error}") from error


def _of_json(path: str | Path, text: str) -> LabelTree:
    """Return the tree of a JSON object: nodes with lists or objects of their children; DataError for anything else."""
    expected = f'{path}: expected a JSON object of nodes and their children, {{"a": ["b", ...], ...}}, or lines of text'

    def edges(parent: str | None, children: object) -> Iterator[tuple[str | None, str]]:
        if not isinstance(children, (dict, list)):
            raise DataError(f"{expected}, got {describe(children)}")
        for name in children:
            if not isinstance(name, str):
                raise DataError(f"{expected}, got {describe(name)} among the nodes under {parent!r}")
            yield parent, name
            if isinstance(children, dict) and children[name] is not None:
                yield from edges(name, children[name])

    try:
        tree = parse_json(text)
        if not isinstance(tree, dict):
            raise DataError(f"{expected}, got {describe(tree)}")
        return LabelTree.from_edges(edges(None, tree))
    except InputError as error:
        raise DataError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{expected}: {error}") from error


def _file_edges(
    path: str | Path, lines: list[tuple[int, str]], separator: str
) -> Iterator[tuple[str | None, str]]:
    """Yield (parent, child), and (None, first name of a line)."""
    is_edges = all(len(blank_parted(line)) == 2 for _, line in lines)
    is_path = not is_edges and any(separator in line for _, line in lines)
    if is_path:
        try:
            yield from path_edges(((f"line {number}", line) for number, line in lines), separator)
        except InputError as error:
            raise DataError(f"{path}, {error}") from error
        return
    first_above: dict[str, tuple[str, int]] = {}
    for number, line in lines:
        where = f"{path}, line {number}"
        names = blank_parted(line)
        yield None, names[0]
        for parent, child in pairwise(names):
            other, other_number = first_above.setdefault(child, (parent, number))
            if parent == child:
                raise DataError(f"{where}: node {shorten(child)} is its own parent")
            if parent != other:
                raise DataError(
                    f"{where}: node {shorten(child)} has the parent {shorten(parent)}, but "
                    f"{shorten(other)} in line {other_number}; expected one"
                )
            yield parent, child


def path_edges(paths: Iterable[tuple[str, str]], separator: str) -> Iterator[tuple[str | None, str]]:
    """Yield (parent, child) for each node on the paths once, (None, top) first: "a/b" gives (None, "a"), ("a", "a/b").

    paths : pairs (place, path); an InputError for an empty part, or more than MAX_ANCESTORS, begins with the place
    """
    seen: set[str] = set()
    n_ancestors = 0
    for place, path in paths:
        if path in seen:
            continue
        parts = path.split(separator)
        if not all(map(str.strip, parts)):
            raise InputError(
                f"{place}: expected a path without empty parts, separated by {separator!r}, got {shorten(path)}"
            )
        level = len(parts)
        check_depth_of(level, level * (level + 1) // 2, f"{place}: ")
        names = [*accumulate(parts, lambda above, part: f"{above}{separator}{part}")]
        n_known = sum(name in seen for name in names)  # those above the others
        n_ancestors += sum(range(n_known + 1, level + 1))
        check_depth_of(level, n_ancestors, f"{place}: ")
        seen.update(names)
        above: list[str | None] = [None, *names]
        yield from zip(above[n_known:-1], names[n_known:], strict=True)
