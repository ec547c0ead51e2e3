"""Measurements as records, dicts with the same keys: cases, methods, numbers; and their CSV files, tables, panels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from harness.report import Table

Record = dict[str, Any]


def matching(records: Iterable[Record], **given: Any) -> list[Record]:
    """Those with the given values."""
    return [each for each in records if all(each[key] == value for key, value in given.items())]


def distinct(records: Iterable[Record], key: str) -> list[Any]:
    """The values of a key, each once, in the order in which they come."""
    return list(dict.fromkeys(each[key] for each in records))


def grouped(records: Iterable[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """The records of each combination of values."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for each in records:
        groups.setdefault(tuple(each[key] for key in keys), []).append(each)
    return groups


def means(records: Iterable[Record], keys: Sequence[str], numbers: Sequence[str]) -> list[Record]:
    """A record for each combination of values, with the means of the numbers."""
    return [
        dict(zip(keys, values, strict=True))
        | {n: float(np.mean([each[n] for each in group])) for n in numbers}
        for values, group in grouped(records, keys).items()
    ]


def lines_of(records: Sequence[Record], name: str, x: str, y: str) -> dict[str, tuple[Any, Any]]:
    """Lines of a panel: y against x for each value of `name`."""
    lines = {}
    for value in distinct(records, name):
        own = matching(records, **{name: value})
        lines[value] = tuple(np.array([each[key] for each in own]) for key in (x, y))
    return lines  # type: ignore[return-value]


def pivot(
    title: str, records: Sequence[Record], down: str, across: str, cell: Callable[[Any], str],
    notes: Sequence[str] = (),
) -> Table:  # fmt: skip
    """Values of `down` by rows and of `across` by columns, a record a cell; empty where there is none."""
    known = {(each[down], each[across]): cell(each) for each in records}
    names = distinct(records, across)
    rows = [
        [
            f"{place:g}" if isinstance(place, float | int) else place,
            *(known.get((place, n), "") for n in names),
        ]
        for place in distinct(records, down)
    ]
    return Table(title, [down, *map(str, names)], rows, notes)
