"""Features of the rows of a table: columns of numbers are centred and scaled, columns of texts are one-hot encoded.

Sizes: I rows, F features.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.column_watch import MIN_KNOWN_SHARE, ColumnWatch
from crfqn.data.items import LARGEST_VALUE, wrong_value
from crfqn.data.matrices import is_numeric
from crfqn.data.token_columns import TokenColumns
from crfqn.data.token_rows import Rows
from crfqn.errors import ColumnWarning, InputError, warn_caller
from crfqn.messages import describe, place_of, shorten
from crfqn.numerals import BLANKS, NUMBER_CHARACTERS

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MISSING_CELLS = ("", "na", "n/a", "nan", "null", "none", "?")  # in small letters, of a column of numbers
MAX_NUMBER = 1e150  # of a column, in absolute value: sums of squares stay finite in float64
MIN_RELATIVE_DEVIATION = 1e-12  # of a column's largest number: a lower standard deviation is rounding
OWN_TEXTS = (
    "column {name!r}: {n:,} different texts in {n_items:,} items, each of them a feature, which new items will hardly "
    "have; to train on their words choose features text (--features text --columns {name}), or leave it out by drop "
    "(--drop {name})"
)
MISSING_HINT = (
    "fill it in (a column of texts may have empty cells), or leave the column out by drop (--drop {name})"
)
NAME_SEPARATOR = "="  # between a column's name and a text, in the name of a feature


class CellError(InputError):
    """An invalid cell of the row `item`, for `reason`."""

    def __init__(self, item: int, reason: str) -> None:
        super().__init__(f"{place_of(item)}: {reason}")
        self.item, self.reason = item, reason


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers x with the feature (x - center) / scale."""

    name: str
    feature: int
    center: float
    scale: float

    def entries(
        self, cells: Sequence[object] | NDArray
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
        """Return rows, features and the values other than 0; CellError for a cell without a number, or too large."""
        values = (numbers_of(self.name, cells) - self.center) / self.scale
        wrong = np.flatnonzero(np.abs(values) > LARGEST_VALUE)
        if wrong.size:
            what = f"column {self.name!r}, centred and scaled"
            raise CellError(int(wrong[0]), wrong_value(what, values[wrong[0]]))
        rows = np.flatnonzero(values)
        return rows, np.full(rows.size, self.feature), values[rows]


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of texts, each with a feature that is 1 in its cells. Other texts and empty cells have no feature.

    features : of the texts; share : the fraction of the training's cells with text that have one of these texts
    counts : of the texts in the training data, None for a column of a file
    """

    name: str
    features: dict[str, int]
    share: float = 1.0
    counts: Mapping[str, int] | None = None

    @cached_property
    def watch(self) -> ColumnWatch:
        """Warns of cells if none of their texts has a feature."""
        return ColumnWatch(self.name, self.features, self.share)

    def with_used(self, used: Collection[int]) -> TextColumn:
        """Return the column with only those texts whose features are `used`."""
        features = {text: feature for text, feature in self.features.items() if feature in used}
        share = self.share
        if self.counts:
            share = sum(self.counts[text] for text in features) / sum(self.counts.values())
        return replace(self, features=features, share=share)

    def entries(
        self, cells: Sequence[object] | NDArray
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
        """Return rows, features and the values, which are 1."""
        texts = [*map(str, cells)]
        self.watch.look(texts)
        features = np.array([self.features.get(text, -1) for text in texts], np.int64)
        rows = np.flatnonzero(features >= 0)
        return rows, features[rows], np.ones(rows.size)


@dataclass(frozen=True, eq=False)
class Table:
    """The encoder of a table.

    A column whose cells are numbers or missing is divided by its standard deviation, and centred unless half of its
    numbers or more are 0. Any other column has a feature for each of its texts, except the empty one.
    """

    parts: list[NumberColumn | TextColumn]  # the columns that the model reads
    n_columns: int  # F

    KIND: ClassVar[str] = "table"
    first_id: ClassVar[int] = 0

    @classmethod
    def fit(cls, cells: TokenColumns) -> tuple[Table, csr_array]:
        """Learn the columns; return the encoder and the features of the rows (I, F). CellError for a missing number,
        and for a text in a column if more than half of its different cells are numbers."""
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
        """Return the encoder that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
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
        features = [feature for column in columns for feature in _feature_names(column)]
        numbers = [column for column in columns if isinstance(column, NumberColumn)]
        if len(set(features)) < len(features) or not all(0 <= f < n_features for f in features):
            raise ValueError(f"table: expected distinct features from 0 to {n_features - 1}")
        if not all(math.isfinite(c.center) and math.isfinite(c.scale) and c.scale > 0 for c in numbers):
            raise ValueError("table: expected finite centers and scales")
        return cls(columns, n_features)

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, object]:
        """Return the columns as JSON values. Columns of texts keep the texts of `used` features, and the fraction of
        the training's cells that have one of these."""
        used_features = set(used.tolist())
        table: list[list[object]] = []
        for column in self.parts:
            if isinstance(column, NumberColumn):
                table.append([column.name, column.feature, column.center, column.scale])
            else:
                kept = column.with_used(used_features)
                table.append([kept.name, kept.features, round(kept.share, 6)])
        return {"kind": self.KIND, "n_columns": self.n_columns, "table": table}

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(sorted(pair for column in self.parts for pair in _feature_names(column).items()))

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """The numbers of these features among the F, ascending, (n,)."""
        return np.array([*self._names], np.int64)

    @cached_property
    def names(self) -> list[str]:
        """The names of the features: `x` of numbers, `colour=red` of texts."""
        return [*self._names.values()]

    @property
    def columns_read(self) -> list[str]:
        """The names of the columns of a table that the encoder reads."""
        return [column.name for column in self.parts]

    def transform(self, inputs: TokenColumns, first: int = 0) -> csr_array:
        """Return the features of the rows of a table, csr_array (I, F); texts not seen in training have none."""
        from scipy.sparse import csr_array

        row_ends, columns, values = self.rows(inputs.texts, len(inputs))
        return csr_array((values, columns, row_ends), shape=(len(inputs), self.n_columns))

    @property
    def takes_numbers(self) -> bool:
        """Whether all columns are of numbers, so that an item may be a row of numbers in their order."""
        return all(isinstance(column, NumberColumn) for column in self.parts)

    def read(self, X: Any) -> Rows:
        """Return the features of I items: a data frame, dicts of cells by column, or, if all columns are of numbers,
        rows of numbers in the order of the training. InputError for anything else."""
        names = self.columns_read
        if hasattr(X, "columns"):
            cells = {name: [_filled(cell) for cell in X[name]] for name in names if name in X.columns}
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
                if absent:  # a misspelt name would count as an empty cell
                    got = ", ".join(map(str, item))
                    raise InputError(
                        f"{place_of(i)}: expected a cell, None if it is empty, of column {absent[0]!r}; got {got:.300}"
                    )
            return self.rows({name: [_filled(item[name]) for item in X] for name in names}, len(X))
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

    def rows(self, cells: Mapping[str, Sequence[object] | NDArray], n_rows: int) -> Rows:
        """Return the features of I rows, given the cells of each column by its name. InputError for a missing column,
        CellError for a cell without a number in a column of numbers."""
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


def numbers_of(name: str, cells: Sequence[Any] | NDArray) -> NDArray[np.float64]:
    """Return a column's cells as finite numbers; CellError, with the column's name, for any other cell."""
    texts = () if isinstance(cells, np.ndarray) else (cell for cell in cells if isinstance(cell, str))
    if not "".join(texts).strip(NUMBER_CHARACTERS + BLANKS):
        try:
            values = np.array(cells, np.float64)
            if values.ndim == 1 and np.isfinite(values).all():
                return values
        except (TypeError, ValueError, OverflowError):  # the loop below finds the cell
            pass
    for item, cell in enumerate(cells):
        if not is_numeric(cell):
            got = "a missing value" if is_missing(cell) else shorten(cell)
            raise CellError(item, f"column {name!r}: expected a finite number, got {got}")
    return np.array([float(cell) for cell in cells])


def _filled(cell: object) -> object:
    """Return a cell, the empty text for None or NaN."""
    return "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell


def is_missing(cell: object) -> bool:
    """Return whether a cell of a column of numbers is missing."""
    return str(cell).strip().lower() in MISSING_CELLS


def _feature_names(column: NumberColumn | TextColumn) -> dict[int, str]:
    """Return the names of a column's features."""
    if isinstance(column, NumberColumn):
        return {column.feature: column.name}
    return {feature: f"{column.name}{NAME_SEPARATOR}{text}" for text, feature in column.features.items()}


def _number_column(name: str, feature: int, texts: list[str]) -> NumberColumn:
    try:
        values = numbers_of(name, texts)
    except CellError as error:
        raise CellError(error.item, f"{error.reason}; {MISSING_HINT.format(name=name)}") from error
    largest = int(np.abs(values).argmax())
    if abs(values[largest]) > MAX_NUMBER:
        raise CellError(
            largest,
            f"column {name!r}: expected a number of at most {MAX_NUMBER:g} in size, got {shorten(texts[largest])}",
        )
    center = float(values.mean()) if 2 * np.count_nonzero(values) > values.size else 0.0
    scale = float(np.sqrt(np.mean((values - center) ** 2)))
    return NumberColumn(
        name, feature, center, scale if scale > np.abs(values).max() * MIN_RELATIVE_DEVIATION else 1.0
    )
