"""Memory of a solver between two steps as arrays and JSON: what a checkpoint has, and a run goes on from, to the bit.

Memory is made of dicts with names as keys, lists, tuples (which come back as lists), numbers, strings, arrays of
numbers, compressed matrices, and objects of the classes that are declared by `remembered`. Arrays keep their order in
memory, by which products of matrices round, and numpy's numbers their type.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crfqn.errors import InputError

ARRAY, BY_COLUMNS, COMPRESSED, NUMBER, OBJECT = "@array", "@by columns", "@compressed", "@number", "@object"
Arrays = dict[str, NDArray[Any]]
T = TypeVar("T", bound=type)
_classes: dict[str, type] = {}


def remembered(kind: T) -> T:
    """Declare a class whose objects may be part of a memory: they come back with the same attributes."""
    _classes[kind.__name__] = kind
    return kind


def packed(value: Any, arrays: Arrays, place: str = "") -> Any:
    """Return a memory as JSON, its arrays put into `arrays` under their places; InputError for other things."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return {NUMBER: [value.dtype.name, value.item()]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        by_columns = value.flags.f_contiguous and not value.flags.c_contiguous
        arrays[place] = value.T if by_columns else value
        return {BY_COLUMNS if by_columns else ARRAY: place}
    if isinstance(value, csr_array):
        parts = {"shape": value.shape, "data": value.data, "indices": value.indices, "indptr": value.indptr}
        return {COMPRESSED: packed(parts, arrays, place)}
    if isinstance(value, dict):
        return {name: packed(part, arrays, f"{place}.{name}") for name, part in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return [packed(part, arrays, f"{place}.{n}") for n, part in enumerate(value)]
    if _classes.get(type(value).__name__) is type(value):
        return {OBJECT: type(value).__name__, "of": packed(vars(value), arrays, place)}
    raise InputError(f"a checkpoint cannot have {place.lstrip('.')}, an object of {type(value).__qualname__}")


def unpacked(content: Any, arrays: Arrays) -> Any:
    """Return the memory that `packed` has made this of; KeyError, TypeError or ValueError where it has not."""
    if isinstance(content, list):
        return [unpacked(part, arrays) for part in content]
    if not isinstance(content, dict):
        return content
    if ARRAY in content:
        return arrays[content[ARRAY]]
    if BY_COLUMNS in content:
        return arrays[content[BY_COLUMNS]].T
    if NUMBER in content:
        name, number = content[NUMBER]
        return np.dtype(name).type(number)
    if COMPRESSED in content:
        found = unpacked(content[COMPRESSED], arrays)
        return csr_array((found["data"], found["indices"], found["indptr"]), shape=found["shape"])
    if OBJECT in content:
        kind = _classes[content[OBJECT]]
        restored: Any = object.__new__(kind)
        vars(restored).update(unpacked(content["of"], arrays))
        return restored
    return {name: unpacked(part, arrays) for name, part in content.items()}
