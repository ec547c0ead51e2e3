"""Reader of taxonomies from text files, plain or gzip-compressed: a tree path or a chain of nodes a line.

If every line has exactly two fields, separated by white space, the lines are edges, `parent child`, whatever the names
hold. Otherwise, if any line holds the separator, every line is a path and a node's name is the path to it: `a/b` has
the nodes `a` and `a/b`. Otherwise the fields of a line are the names of nodes from parent to child, a path of names
that are unique in the whole file, as the LSHTC challenges have it. Blank lines and comments (`# ...`) are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from crfqn.data.files.lines import text_lines
from crfqn.errors import DataError, InputError
from crfqn.taxonomy.path_edges import path_edges
from crfqn.taxonomy.tree import LabelTree
from crfqn.wording import shorten


def read_taxonomy_file(path: str | Path, separator: str = "/") -> LabelTree:
    """Read a taxonomy from a text file.

    Parameters
    ----------
    path : str or Path
    separator : str
        Between the parts of a path.

    Returns
    -------
    LabelTree
        All names are strings.

    Raises
    ------
    DataError
        The file cannot be read, a path has an empty part, a node has two parents, there is a cycle, or there is
        no node at all. The message names the file, the nodes and, except for cycles over several lines, the line.
    """
    lines = [(number, line.strip()) for number, line in text_lines(path)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    try:
        return LabelTree.from_edges(_edges(path, lines, separator))
    except InputError as error:
        raise DataError(f"{path}: {error}") from error


def _edges(
    path: str | Path, lines: list[tuple[int, str]], separator: str
) -> Iterator[tuple[str | None, str]]:
    """Yield (parent, child), and (None, first name of a line)."""
    is_edges = all(len(line.split()) == 2 for _, line in lines)
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
        names = line.split()
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
