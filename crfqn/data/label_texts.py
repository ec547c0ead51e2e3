"""Labels as texts and as numbers: which texts of a file are numbers, and how a label is written.

In svmlight's format and in a table's column labels are whole numbers where all are written as such: `1`, `+1`, `1.0`
and `1e0` are one label. Numbers that are not whole stay texts, in one spelling. A text is no number where a number
would lose some of it: a zero in front (`007`) or at the end of decimals (`3.10`), or digits beyond 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np

PLAIN = r"(?:0|[1-9][0-9]*)(?:\.(?:0*|[0-9]*[1-9]))?|\.[0-9]*[1-9]"
WITH_EXPONENT = r"(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+"
NUMBER = re.compile(rf"[-+]?(?:{PLAIN}|{WITH_EXPONENT})")
LARGEST = 2**63 - 1
EXACT = 2**53  # whole numbers in double precision are exact up to here


def number_of(text: str) -> int | float | None:
    """Return the number that a label's text is, whole ones as int; None for another text."""
    text = text.strip()
    if not NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit():
        whole = int(text)
        return whole if abs(whole) <= LARGEST else None
    value = float(text)
    if not np.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= EXACT else value


def label_text(label: Any) -> str:
    """Return a label as it is written to files: whole numbers as `1`, never `1.0`."""
    if isinstance(label, (float, np.floating)) and float(label).is_integer() and abs(float(label)) <= EXACT:
        return str(int(label))
    return str(label)


def target_reader(labels: Iterable[str]) -> Callable[[str], Any]:
    """Return what makes targets of a file's labels, where they may be numbers: of all texts the same text, unless
    `labels`, but for empty ones, are all numbers: then integers, or texts of one spelling if some are not whole."""
    numbers = {number_of(label) for label in set(labels) if label}
    if None in numbers or not numbers:
        return str
    is_whole = all(isinstance(number, int) for number in numbers)

    def read(text: str) -> Any:
        number = number_of(text)
        return text if number is None else number if is_whole else label_text(number)

    return read


def are_equal(labels: Iterable[str], others: Iterable[Any]) -> bool:
    """Return whether two lists of labels are the same numbers, in whatever order and spelling."""
    numbers, expected = ([*map(number_of, map(label_text, texts))] for texts in (labels, others))
    return None not in numbers and None not in expected and sorted(numbers) == sorted(expected)  # type: ignore


def labels_like(labels: list[Any], training: list[Any]) -> list[Any]:
    """Return labels, perhaps a list an item, as those of a training are: numbers or texts."""
    nested = (label if isinstance(label, list) else [label] for label in training)
    first = next(chain.from_iterable(nested), None)

    def like(label: Any) -> Any:
        if isinstance(label, list):
            return [*map(like, label)]
        if isinstance(first, str):
            return label_text(label)
        number = number_of(label_text(label))
        return label if number is None else number

    return labels if first is None else [*map(like, labels)]
