"""Rows of a table as numbers: its columns of numbers, centred and scaled, and a column for each text of the others.

Sizes: I rows, F features.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.data.column_watch import MIN_KNOWN_SHARE, ColumnWatch
from crfqn.data.items import LARGEST_VALUE, wrong_value
from crfqn.data.matrices import is_numeric
from crfqn.data.token_columns import TokenColumns
from crfqn.data.token_rows import Rows
from crfqn.errors import ColumnWarning, InputError, warn_caller
from crfqn.messages import describe, place_of, shorten
from crfqn.numerals import BLANKS, NUMBER_CHARACTERS

MISSING = ("", "na", "n/a", "nan", "null", "none", "?")  # in small letters, of a column of numbers
LARGEST = 1e150  # number of a column, whose squares can be summed
SMALLEST = 1e-12  # deviation, to the largest number of a column, below which all its numbers are one but for rounding
OWN_TEXTS = (
    "column {name!r}: {n:,} different texts in {n_items:,} items, each of them a feature, which new items will hardly "
    "have; to train on their words choose features text (--features text --columns {name}), or leave it out by drop "
    "(--drop {name})"
)
MISSING_HINT = (
    "fill it in (a column of texts may have empty cells), or leave the column out by drop (--drop {name})"
)
BETWEEN = "="  # a column's name and the text of a feature


class CellError(InputError):
    """What is wrong with a cell of a row, `item`."""

    def __init__(self, item: int, reason: str) -> None:
        super().__init__(f"{place_of(item)}: {reason}")
        self.item, self.reason = item, reason


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Column of numbers x, whose feature is (x - center) / scale."""

    name: str
    feature: int
    center: float
    scale: float

    def names(self) -> dict[int, str]:
        """Return the names of its features."""
        return {self.feature: self.name}

    def entries(self, cells: Sequence[Any]) -> tuple[NDArray[np.int64], Any, NDArray[np.float64]]:
        """Return rows, features and values other than 0; CellError for a cell without a number, or one too large."""
        values = (numbers_of(self.name, cells) - self.center) / self.scale
        wrong = np.flatnonzero(np.abs(values) > LARGEST_VALUE)
        if wrong.size:
            what = f"column {self.name!r}, centred and scaled"
            raise CellError(int(wrong[0]), wrong_value(what, values[wrong[0]]))
        rows = np.flatnonzero(values)
        return rows, np.full(rows.size, self.feature), values[rows]


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Column of texts, each a feature that is 1 where it stands; others, and empty cells, have none. `share`: how many
    of the training's cells with a text have one of these; `counts`: of each text, in the training alone."""

    name: str
    features: dict[str, int]
    share: float = 1.0
    counts: Mapping[str, int] | None = None

    @cached_property
    def watch(self) -> ColumnWatch:
        """What warns of cells none of whose texts has a feature."""
        return ColumnWatch(self.name, self.features, self.share)

    def with_used(self, used: Collection[int]) -> TextColumn:
        """Return the column with those texts whose features are `used`."""
        features = {text: feature for text, feature in self.features.items() if feature in used}
        share = self.share
        if self.counts:
            share = sum(self.counts[text] for text in features) / sum(self.counts.values())
        return replace(self, features=features, share=share)

    def names(self) -> dict[int, str]:
        """Return the names of its features."""
        return {feature: f"{self.name}{BETWEEN}{text}" for text, feature in self.features.items()}

    def entries(self, cells: Sequence[Any]) -> tuple[NDArray[np.int64], Any, NDArray[np.float64]]:
        """Return rows, features and values, which are 1."""
        texts = [*map(str, cells)]
        self.watch.look(texts)
        features = np.array([self.features.get(text, -1) for text in texts], np.int64)
        rows = np.flatnonzero(features >= 0)
        return rows, features[rows], np.ones(rows.size)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a table that a model reads, and the number F of features that they have: one all of whose cells are
    numbers, or missing, is a column of numbers, divided by its standard deviation, and centred unless most are 0; any
    other has a feature for each of its texts, but not for the empty one."""

    parts: list[NumberColumn | TextColumn]
    n_columns: int

    KIND: ClassVar[str] = "table"
    first_id: ClassVar[int] = 0

    @classmethod
    def fit(cls, cells: TokenColumns) -> tuple[Table, Any]:
        """Learn the columns; return this and the rows' csr_array (I, F). CellError for a missing number, and for a text
        among numbers, which more than half of a column's different cells are."""
        columns: list[NumberColumn | TextColumn] = []
        n_features = 0
        for name, texts in cells.texts.items():
            distinct = set(texts)
            known = [text for text in distinct if not is_missing(text)]
            if known and all(map(is_numeric, known)):
                columns.append(_number_column(name, n_features, texts))
                n_features += 1
            elif 2 * sum(map(is_numeric, known)) > len(known):
                item = next(
                    i for i, text in enumerate(texts) if not is_missing(text) and not is_numeric(text)
                )
                raise CellError(
                    item,
                    f"column {name!r}: expected a number, as {sum(map(is_numeric, known))} of its {len(known)} "
                    f"different cells are, got {shorten(texts[item])}; correct it, leave the column out by drop "
                    f"(--drop {name}), or, if its cells name kinds, put a letter before its numbers",
                )
            else:
                values = sorted(distinct - {""})
                if 2 * len(values) > len(texts):
                    warn_caller(OWN_TEXTS.format(name=name, n=len(values), n_items=len(texts)), ColumnWarning)
                features = {text: n_features + n for n, text in enumerate(values)}
                columns.append(TextColumn(name, features, counts=Counter(filter(None, texts))))
                n_features += len(values)
        table = cls(columns, n_features)
        return table, table.transform(cells)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Table:
        """Return what `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        n_features = int(table["n_columns"])
        columns: list[NumberColumn | TextColumn] = []
        for name, *content in table["table"]:
            if isinstance(content[0], dict):
                texts = {str(text): int(feature) for text, feature in content[0].items()}
                share = float(content[1]) if content[1:] else MIN_KNOWN_SHARE
                if not 0 <= share <= 1:
                    raise ValueError("table: expected shares of known texts from 0 to 1")
                columns.append(TextColumn(str(name), texts, share))
            else:
                feature, center, scale = content
                columns.append(NumberColumn(str(name), int(feature), float(center), float(scale)))
        features = [feature for column in columns for feature in column.names()]
        numbers = [column for column in columns if isinstance(column, NumberColumn)]
        if len(set(features)) < len(features) or not all(0 <= f < n_features for f in features):
            raise ValueError(f"table: expected distinct features from 0 to {n_features - 1}")
        if not all(math.isfinite(c.center) and math.isfinite(c.scale) and c.scale > 0 for c in numbers):
            raise ValueError("table: expected finite centers and scales")
        return cls(columns, n_features)

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return the columns as JSON values: those of texts with the `used` features, and the share of the training's
        cells that have one."""
        used_features = set(used.tolist())
        table: list[list[Any]] = []
        for column in self.parts:
            if isinstance(column, NumberColumn):
                table.append([column.name, column.feature, column.center, column.scale])
            else:
                kept = column.with_used(used_features)
                table.append([kept.name, kept.features, round(kept.share, 6)])
        return {"kind": self.KIND, "n_columns": self.n_columns, "table": table}

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(sorted((f, name) for column in self.parts for f, name in column.names().items()))

    @property
    def columns(self) -> NDArray[np.int64]:
        """Which of the F features these are, ascending, (n,)."""
        return np.array([*self._names], np.int64)

    @property
    def names(self) -> list[str]:
        """The names of the features: `x` of numbers, `colour=red` of texts."""
        return [*self._names.values()]

    @property
    def columns_read(self) -> list[str]:
        """The names of the columns of a table that are needed."""
        return [column.name for column in self.parts]

    def transform(self, inputs: TokenColumns, first: int = 0) -> Any:
        """Return the features of the rows of a table, csr_array (I, F); texts not seen in training have none."""
        from scipy.sparse import csr_array

        row_ends, columns, values = self.rows(inputs.texts, len(inputs))
        return csr_array((values, columns, row_ends), shape=(len(inputs), self.n_columns))

    @property
    def takes_numbers(self) -> bool:
        """Whether all columns are of numbers, so that a row of numbers in their order is an item."""
        return all(isinstance(column, NumberColumn) for column in self.parts)

    def read(self, X: Any) -> Rows:
        """Return the features of I items: a data frame, dicts of cells by column, or, where all columns are of numbers,
        rows of them in the order of the training. InputError for anything else."""
        names = self.columns_read
        if hasattr(X, "columns"):
            cells = {name: [_known(cell) for cell in X[name]] for name in names if name in X.columns}
            return self.rows(cells, len(X))
        if getattr(X, "ndim", 1) == 0 or isinstance(X, str) or not isinstance(X, (Sequence, np.ndarray)):
            raise InputError(f"expected a list of a table's rows, got {describe(X)}")
        if any(isinstance(item, Mapping) for item in X):
            for i, item in enumerate(X):
                if not isinstance(item, Mapping):
                    raise InputError(
                        f"{place_of(i)}: expected a dict of a table's cells, got {describe(item)}"
                    )
                absent = [name for name in names if name not in item]
                if absent:  # a name that is written otherwise would count as an empty cell
                    got = ", ".join(map(str, item))
                    raise InputError(
                        f"{place_of(i)}: expected a cell, None if it is empty, of column {absent[0]!r}; got {got:.300}"
                    )
            return self.rows({name: [_known(item[name]) for item in X] for name in names}, len(X))
        titles = f"{', '.join(names):.300}"
        for i, item in enumerate(X):
            if not self.takes_numbers:
                raise InputError(
                    f"{place_of(i)}: expected a dict of a table's cells by column ({titles}), got {describe(item)}"
                )
            if not isinstance(item, (list, tuple, np.ndarray)) or len(item) != len(names):
                raise InputError(
                    f"{place_of(i)}: expected a number for each of the {len(names)} columns ({titles}) in this order, "
                    f"or a dict of them, got {describe(item)}"
                )
        is_matrix = isinstance(X, np.ndarray) and X.ndim == 2
        columns = np.transpose(X) if is_matrix else [[item[c] for item in X] for c in range(len(names))]
        return self.rows(dict(zip(names, columns, strict=True)), len(X))

    def rows(self, cells: Mapping[str, Sequence[Any]], n_rows: int) -> Rows:
        """Return the features of I rows, given the cells of each column by its name. InputError for a column that is
        not there, CellError for a cell without a number where one is needed."""
        parts = []
        for column in self.parts:
            if column.name not in cells:
                titles = ", ".join(cells)
                raise InputError(f"expected a column {column.name!r}; there are: {titles:.300}")
            parts.append(column.entries(cells[column.name]))
        at, features, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((features, at))
        ends = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=n_rows))])
        return Rows(ends.astype(np.int64), features[order], values[order])


def numbers_of(name: str, cells: Sequence[Any]) -> NDArray[np.float64]:
    """Return a column's cells as finite numbers; CellError, naming the column, for one that is none."""
    texts = () if isinstance(cells, np.ndarray) else (cell for cell in cells if isinstance(cell, str))
    if not "".join(texts).strip(NUMBER_CHARACTERS + BLANKS):
        try:
            values = np.array(cells, np.float64)
            if values.ndim == 1 and np.isfinite(values).all():
                return values
        except (TypeError, ValueError, OverflowError):  # the search below says where
            pass
    for item, cell in enumerate(cells):
        if not is_numeric(cell):
            got = "a missing value" if is_missing(cell) else shorten(cell)
            raise CellError(item, f"column {name!r}: expected a finite number, got {got}")
    return np.array([float(cell) for cell in cells])


def _known(cell: Any) -> Any:
    """Return a cell, the empty text for one that is not there (None or NaN)."""
    return "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell


def is_missing(cell: Any) -> bool:
    """Return whether a cell stands for a number that is not known."""
    return str(cell).strip().lower() in MISSING


def _number_column(name: str, feature: int, texts: list[str]) -> NumberColumn:
    try:
        values = numbers_of(name, texts)
    except CellError as error:
        raise CellError(error.item, f"{error.reason}; {MISSING_HINT.format(name=name)}") from error
    largest = int(np.abs(values).argmax())
    if abs(values[largest]) > LARGEST:
        raise CellError(
            largest,
            f"column {name!r}: expected a number of at most {LARGEST:g} in size, got {shorten(texts[largest])}",
        )
    center = float(values.mean()) if 2 * np.count_nonzero(values) > values.size else 0.0
    scale = float(np.sqrt(np.mean((values - center) ** 2)))
    return NumberColumn(name, feature, center, scale if scale > np.abs(values).max() * SMALLEST else 1.0)
