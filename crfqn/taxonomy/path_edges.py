"""Edges of a taxonomy that is written as paths, such as `sport/football`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from crfqn.errors import InputError
from crfqn.taxonomy.shape import check_depth_of
from crfqn.wording import shorten


def path_edges(paths: Iterable[tuple[str, str]], separator: str) -> Iterator[tuple[str | None, str]]:
    """Yield (parent, child) for each node on the paths once, (None, top) first: "a/b" gives (None, "a"), ("a", "a/b").

    A node's name is the path to it, so that the parts of a path are read once, however many paths share them.

    Parameters
    ----------
    paths : iterable of (place, path); the place is for messages
    separator : str

    Raises
    ------
    InputError
        A part of a path is empty, or the paths are too deep (MOST_ANCESTORS); the message begins with the place.
    """
    seen: set[str] = set()
    n_ancestors = 0
    for place, path in paths:
        if path in seen:
            continue
        ends = _ends_above(path, separator, place)
        level = len(ends) + 1
        check_depth_of(level, level * (level + 1) // 2, f"{place}: ")
        names = [path]
        for end in reversed(ends):
            names.append(path[:end])
            if names[-1] in seen:
                break
        is_known = names[-1] in seen
        n_new = len(names) - is_known
        n_ancestors += n_new * (2 * level - n_new + 1) // 2
        check_depth_of(level, n_ancestors, f"{place}: ")
        seen.update(names)
        if not is_known:
            yield None, names[-1]
        yield from pairwise(reversed(names))


def _ends_above(path: str, separator: str, place: str) -> list[int]:
    """Return how many characters of a path belong to each node above the last, from the top down."""
    parts = path.split(separator)
    if not all(map(str.strip, parts)):
        raise InputError(
            f"{place}: expected a path without empty parts, separated by {separator!r}, got {shorten(path)}"
        )
    return [end + n * len(separator) for n, end in enumerate(accumulate(map(len, parts[:-1])))]
