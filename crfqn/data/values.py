"""The largest value that a feature may have, of items in any form, and the message that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crfqn.errors import InputError
from crfqn.messages import shorten

LARGEST_ID = 2**31 - 2  # of a column, counted from 0: the number of columns fits 32 bits
LARGEST_VALUE = 1e12  # of its size; sums of squares neither overflow nor lose all digits


def wrong_value(name: str, value: Any) -> str:
    """Return in words what is wrong with a value that is not finite or too large; `name`: "feature 'a'"."""
    shown = shorten(value.item() if isinstance(value, np.generic) else value)
    return f"{name}: expected a finite number of at most {LARGEST_VALUE:g} in size, got {shown}"


def check_values(matrix: Any, place: Callable[[int], str], names: Any = None, kind: str = "feature") -> None:
    """Raise InputError for the first number of an array or sparse matrix that is not finite or larger than
    LARGEST_VALUE, naming the place of its row, and its column by `names`, or as `kind` and number. O(entries)."""
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    if _are_small(values):
        return
    if hasattr(matrix, "tocsr"):
        found = matrix.tocsr().tocoo()
        rows, columns, values = found.row, found.col, found.data
    else:
        rows, columns = np.nonzero(~(np.abs(matrix) <= LARGEST_VALUE))
        values = matrix[rows, columns]
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))
    if wrong.size:
        row, column, value = rows[wrong[0]], int(columns[wrong[0]]), values[wrong[0]]
        name = f"{kind} {column if names is None else shorten(str(names[column]))}"
        raise InputError(f"{place(int(row))}: {wrong_value(name, value)}")


def _are_small(values: Any) -> bool:
    if values.dtype.kind == "f" and (values.flags.c_contiguous or values.flags.f_contiguous):
        flat = values.ravel("K")
        with np.errstate(over="ignore", invalid="ignore"):
            if np.dot(flat, flat) <= LARGEST_VALUE**2:  # one pass, and most often enough
                return True
    return bool(values.min(initial=0) >= -LARGEST_VALUE and values.max(initial=0) <= LARGEST_VALUE)
