"""Labels of a taxonomy in the forms of users' data: names, or rows of the parts of a path.

Rows are tuples, or an array padded with "" as for the library hiclass; `PathTargets` converts them into names, and
names back into rows. Shapes: n labels or paths, D levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.inputs import LabelsLike
from crfqn.errors import InputError
from crfqn.messages import describe, shorten


@dataclass(frozen=True)
class PathRowFormat:
    """Columns of labels that are rows of the parts of a path: their number, and those whose parts are integers.
    Other columns are texts."""

    n_levels: int
    integer_levels: tuple[int, ...] = ()

    def rows(self, names: ArrayLike, separator: str = "/") -> NDArray:
        """Return names that are tree paths as rows of parts, padded with "" (as is the row of an empty name), shape (n,
        n_levels): of strings, of integers if all are, else of objects."""
        distinct, number = np.unique(np.asarray(names, dtype=str), return_inverse=True)
        rows: list[list[Any]] = [name.split(separator) for name in distinct.tolist()]
        for name, row in zip(distinct.tolist(), rows, strict=True):
            if len(row) > self.n_levels:
                raise InputError(
                    f"expected paths of at most {self.n_levels} parts, got {shorten(separator.join(row))} of {len(row)}"
                )
            for level in self.integer_levels if name else ():
                row[level : level + 1] = map(int, row[level : level + 1])
            row += [""] * (self.n_levels - len(row))
        kinds = {type(part) for row in rows for part in row} or {str}
        dtype: type = object if len(kinds) > 1 else kinds.pop()
        return np.array(rows, dtype).reshape(len(rows), self.n_levels)[number]

    def of_tree(self, names: Iterable[Any], separator: str) -> PathRowFormat:
        """Return the form of the paths to all nodes of a taxonomy, by their names; a level has texts if one of its
        parts is not an integer."""
        paths = [str(name).split(separator) for name in names]
        texts = {
            level
            for path in paths
            for level, part in enumerate(path)
            if not (part.removeprefix("-").isdecimal() and str(int(part)) == part)
        }
        levels = tuple(level for level in self.integer_levels if level not in texts)
        return PathRowFormat(max(self.n_levels, *map(len, paths)), levels)


@dataclass(frozen=True, eq=False)
class PathTargets:
    """Labels as names of nodes, (n,): as given, or the parts of each row joined by the separator, then with the `form`
    of the rows, as many columns as the longest has, or as the array."""

    names: NDArray
    form: PathRowFormat | None = None

    @property
    def is_rows(self) -> bool:
        """Whether the labels are rows of parts."""
        return self.form is not None

    @classmethod
    def from_y(cls, y: LabelsLike, separator: str = "/") -> PathTargets:
        """Return labels that are names, or rows of the parts of a tree path, as names; InputError names the item.

        The parts of a row of y, (n, D) or n sequences, are strings or whole numbers; "", None and NaN fill it up at the
        end. One column (n, 1) is read as names, as in scikit-learn.
        """
        check_separator(separator)
        if isinstance(y, (str, bytes, Mapping)) or not (isinstance(y, Iterable) or hasattr(y, "__array__")):
            raise InputError(f"expected labels (names, tuples, or a padded 2-D array), got {describe(y)}")
        if hasattr(y, "__array__"):
            array = np.asarray(y)
            if array.ndim not in (1, 2):
                raise InputError(f"expected labels of shape (n,) or (n, levels), got shape {array.shape}")
            if array.shape[1:] == (1,) or (array.ndim == 1 and not any(map(is_row, array.tolist()))):
                return cls(array.ravel())
            width, labels = (array.shape[1] if array.ndim == 2 else 0), array.tolist()
        else:
            width, labels = 0, list(y)
            if not any(map(is_row, labels)):
                return cls(_as_names(labels))
        rows = [as_row(row, i, "item") for i, row in enumerate(labels)]
        if width == 0 and all(len(row) == 1 for row in rows):
            return cls(_as_names([part for (part,) in rows]))
        names = np.array(joined_rows(rows, separator, "item"), dtype=str)
        columns = itertools.zip_longest(*rows, fillvalue="")
        levels = tuple(level for level, column in enumerate(columns) if _are_integers(column))
        return cls(names, PathRowFormat(max([width, *map(len, rows)]), levels))


def joined_rows(rows: Sequence[tuple], separator: str, noun: str) -> list[str]:
    """Return the joined parts of each row, equal rows joined once; InputError names the invalid `noun`."""
    name_of: dict[tuple, str] = {}
    for i, row in enumerate(rows):
        try:
            is_new = row not in name_of
        except TypeError:  # a part that cannot be hashed; the next line raises an error
            is_new = True
        if is_new:
            name_of[row] = _joined(row, separator, f"{noun} {i}")
    return [name_of[row] for row in rows]


def _joined(row: tuple, separator: str, where: str) -> str:
    parts = [_part(value, where) for value in row]
    while parts and not parts[-1]:
        parts.pop()
    if not parts:
        raise InputError(f"{where}: expected at least one part of a path, got {shorten(row)}")
    for part in parts:
        if not part.strip():
            raise InputError(
                f"{where}: expected missing levels only at the end of a path, got {shorten(row)}"
            )
        if separator in part:
            raise InputError(
                f"{where}: the part {shorten(part)} holds the separator {separator!r}; choose another separator"
            )
    return separator.join(parts)


def _part(value: object, where: str) -> str:
    """Return a part of a path as text, "" for a missing one; whole floats are integers in a column with a NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool) or not (
        isinstance(value, int) or (isinstance(value, float) and value % 1 == 0)
    ):
        raise InputError(
            f"{where}: expected strings or whole numbers as parts of a path, got {describe(value)}"
        )
    return str(int(value))


def _are_integers(parts: Iterable[Any]) -> bool:
    """Return whether the parts of a level, but for missing ones, are numbers, which `_part` has checked to be whole."""
    present = (part for part in parts if part is not None and part == part and part != "")
    kinds = set(map(type, present))
    return bool(kinds) and not any(issubclass(kind, str) for kind in kinds)


def _as_names(labels: list) -> NDArray:
    """Return labels as an array, of objects if they are not of one kind: numpy would convert all to strings."""
    is_plain = any(all(isinstance(label, kind) for label in labels) for kind in (str, (Number, np.generic)))
    return np.asarray(labels) if is_plain else np.fromiter(labels, object, len(labels))


def as_row(row: object, i: int, noun: str) -> tuple:
    """Return a row as a tuple; InputError, naming `noun` i, if it is not a sequence."""
    if not is_row(row):
        raise InputError(f"{noun} {i}: expected a tuple or list of the parts of a path, got {describe(row)}")
    return tuple(row.tolist() if isinstance(row, np.ndarray) else row)


def is_row(label: object) -> TypeGuard[list | tuple | NDArray]:
    """Return whether a label is a row of parts rather than a name."""
    return isinstance(label, (list, tuple)) or (isinstance(label, np.ndarray) and label.ndim == 1)


def check_separator(separator: object) -> None:
    """Raise InputError unless the separator is a string of one or more characters."""
    if not isinstance(separator, str) or not separator:
        raise InputError(f"expected a separator of one or more characters, got {describe(separator)}")
