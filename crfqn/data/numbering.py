"""Columns of texts that number rows or places: indices that were saved with a table, and offsets of annotation files.

Each number would be a separate feature, which new items will not have. Such a column is recognised by its order, which
n random numbers have with probability 1 / n!.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import lgamma, log

from crfqn.data.token_columns import TokenColumns
from crfqn.numerals import DECIMAL_DIGITS

CHANCE_PROBABILITY = 1e-6  # probability below which an order is not due to chance


def increasing_columns(columns: TokenColumns) -> list[str]:
    """Return the names of the columns of whole numbers that increase from position to position in all items."""
    lengths, ends = columns.lengths.tolist(), columns.offsets.tolist()
    if not _is_no_chance(lengths):
        return []
    return [
        name
        for name, texts in columns.texts.items()
        if all(_are_numbered(texts[start:stop]) for start, stop in pairwise(ends))
    ]


def counts_rows(texts: Sequence[str]) -> bool:
    """Return whether texts are whole numbers, each one more than the one before."""
    first = _number(texts[0]) if _is_no_chance([len(texts)]) else None
    return first is not None and all(text == str(first + n) for n, text in enumerate(texts))


def _is_no_chance(lengths: Sequence[int]) -> bool:
    """Return whether ascending numbers in all items of these lengths are not due to chance."""
    return sum(lgamma(n + 1) for n in lengths) > -log(CHANCE_PROBABILITY)


def _are_numbered(texts: Sequence[str]) -> bool:
    numbers = [*map(_number, texts)]
    return None not in numbers and all(a < b for a, b in pairwise(numbers))  # type: ignore[operator]


def _number(text: str) -> int | None:
    return int(text) if text and not text.strip(DECIMAL_DIGITS) and len(text) < 19 else None
