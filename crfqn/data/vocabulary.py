"""Names of features and their columns: the dictionaries that sequences are encoded with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, count
from operator import ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.sequences import Sequences, check_names

UNSEEN = -1
# Where the value begins in the name of a feature that dicts give as name and value, `name=value`: nowhere in a name
# that stands for itself, and for some nobody knows, or it was both.
NO_VALUE, UNKNOWN_VALUE = 0, -1
NO_COLUMNS = np.empty(0, np.int64)
MOST_UNKNOWN = 1000  # names without a column that are kept all the same


class KnownColumns(dict[str, int]):
    """Map from name to column of a fixed vocabulary; any other string has the column UNSEEN."""

    def __missing__(self, name: object) -> int:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        return UNSEEN


class GrowingColumns(dict[str, int]):
    """Map from name to column in the order of first appearance; a new string gets the next column."""

    def __init__(self) -> None:
        super().__init__()
        self.next_column = count().__next__

    def __missing__(self, name: object) -> int:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        column = self[str(name)] = self.next_column()
        return column


class Unplain(Exception):
    """Error for a feature's value that is no string, boolean, 0 or 1: it has to be checked, and may be wrong."""


class GrowingPairs(dict[str, "GrowingValues"]):
    """Map from name and value to the column of an entry 1; a pair seen before costs no new string, having a column
    beside that of the name `name=value` until `sorted_names` puts them together."""

    def __init__(self, columns: GrowingColumns, separator: str = "=") -> None:
        super().__init__()
        self.columns, self.separator = columns, separator

    def __missing__(self, name: object) -> GrowingValues:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        values = self[str(name)] = GrowingValues(str(name), self.columns)
        return values

    def sorted_names(self) -> tuple[NDArray[np.int32], Vocabulary]:
        """Return the place of each column, and behind them UNSEEN, in a vocabulary sorted by name."""
        names, columns, starts = [*self.columns], [*self.columns.values()], [NO_VALUE] * len(self.columns)
        for name, values in self.items():
            strings = [value for value in values if isinstance(value, str)]
            names += map(f"{name}{self.separator}".__add__, strings)
            columns += map(values.__getitem__, strings)
            starts += [len(name) + 1] * len(strings)
        order = np.array(sorted(range(len(names)), key=names.__getitem__), np.intp)
        names = [names[i] for i in order]
        is_new = np.fromiter(map(ne, names, chain([None], names)), bool, len(names))
        ranks = np.cumsum(is_new) - 1
        places = np.full(order.size + 1, UNSEEN, np.int32)
        places[np.array(columns, np.intp)[order]] = ranks
        value_starts = np.array(starts, np.int32)[order[is_new]]
        value_starts[ranks[~is_new]] = UNKNOWN_VALUE
        return places, Vocabulary([*compress(names, is_new)], value_starts)


class GrowingValues(dict[object, int]):
    """Map from one name's values to columns: a string has that of `name=value`, 1 and True have `name`'s, 0 and False
    UNSEEN (no entry, though `name` gets its column); any other value raises Unplain."""

    __slots__ = ("columns", "name")

    def __init__(self, name: str, columns: GrowingColumns) -> None:
        super().__init__()
        self.name, self.columns = name, columns

    def __missing__(self, value: object) -> int:
        if isinstance(value, str):
            column = self.columns.next_column()
        elif value in (0, 1):
            column = self.columns[self.name]
            if not value:
                column = UNSEEN
        else:
            raise Unplain
        self[value] = column
        return column


class KnownValues(dict[object, int]):
    """Map from value to column, for one name of a fixed vocabulary; a look-up of what is no string, 1 or 0 raises
    TypeError, and may for these. Look-ups run no Python code: to `find` a string in "" is UNSEEN."""

    __slots__ = ()
    __missing__ = "".find

    def __init__(self, given: Mapping[object, int] | None = None) -> None:
        super().__init__({"": UNSEEN} | dict(given or {}))


class KnownPairs(dict[str, "KnownValues"]):
    """Map as `GrowingPairs` of a fixed vocabulary; UNSEEN also for what has no column. Look-ups make no string and,
    found, run no Python code: `a=b=c` stands under `a` and under `a=b`. Names that stand for themselves are added when
    met, and some that are not known: there may be no end of them."""

    def __init__(self, columns: dict[str, int]) -> None:
        super().__init__()
        self.columns, self.n_unknown = columns, 0
        for name, column in columns.items():
            at = name.find("=")
            while at >= 0:
                start = name[:at]
                values = self.get(start)
                if values is None:
                    values = self[start] = KnownValues()
                values[name[at + 1 :]] = column
                at = name.find("=", at + 1)
        for name in self.keys() & columns.keys():
            self[name].update({0: UNSEEN, 1: columns[name]})

    def __missing__(self, name: object) -> KnownValues:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        column = self.columns.get(name)
        if column is not None:
            values = KnownValues({0: UNSEEN, 1: column})
        elif self.n_unknown < MOST_UNKNOWN:
            self.n_unknown, values = self.n_unknown + 1, NO_VALUES
        else:
            return NO_VALUES
        self[str(name)] = values
        return values


NO_VALUES = KnownValues({0: UNSEEN, 1: UNSEEN})


class KnownNames:
    """Names that have a column, for looking them up; `n_features` counts the columns without a name here, too."""

    columns: dict[str, int]

    def __init__(self, columns: KnownColumns, n_features: int) -> None:
        self.columns, self.n_features = columns, n_features

    @cached_property
    def pairs(self) -> KnownPairs:
        """Columns by name and value."""
        return KnownPairs(self.columns)


class Vocabulary(KnownNames):
    """Vocabulary of distinct feature names in the order of their columns, and the column of each; `value_starts` is
    where the value begins in each name, or NO_VALUE (the default) or UNKNOWN_VALUE."""

    def __init__(self, names: Sequence[str], value_starts: Sequence[int] | NDArray | None = None) -> None:
        self.names = check_names(names, len(names))
        starts = np.zeros(len(self.names)) if value_starts is None else value_starts
        self.value_starts: NDArray[np.int32] = np.asarray(starts, np.int32)
        n_features = len(self.names)
        super().__init__(KnownColumns(zip(self.names, range(n_features), strict=True)), n_features)

    def some(self, columns: Iterable[int]) -> KnownNames:
        """Return the names of some columns."""
        return KnownNames(KnownColumns((self.names[column], column) for column in columns), len(self))

    def grown(self, other: Vocabulary) -> Vocabulary:
        """Return the names, and behind them those of another vocabulary that are new; itself where nothing is new."""
        starts = dict(zip(self.names, self.value_starts.tolist(), strict=True))
        for name, start in zip(other.names, other.value_starts.tolist(), strict=True):
            if starts.setdefault(name, start) != start:
                starts[name] = UNKNOWN_VALUE
        if [*starts.values()] == self.value_starts.tolist():
            return self
        return type(self)([*starts], [*starts.values()])

    bigram_columns = only_bigram_columns = NO_COLUMNS  # of features of label pairs; and those of nothing else
    has_edges = True  # whether pairs of neighbouring labels have weights that are the same everywhere

    encodes_items = False  # whether items have a form of the vocabulary's own, which `encode` takes

    def encode(self, items: Any) -> Sequences:
        """Return items of the vocabulary's own form in its columns."""
        raise NotImplementedError

    def encode_rows(self, items: Any) -> Any:
        """Return items of the vocabulary's own form as `Sequences` or `TokenRows`."""
        raise NotImplementedError

    def named(self, items: Any) -> Any:
        """Return items in a form whose names are those of the vocabulary: as they are, by default."""
        return items

    def index(self, name: str) -> int:
        """Return the column of a name; KeyError if there is none."""
        column = self.columns.get(name)
        if column is None:
            raise KeyError(name)
        return column

    __getitem__ = index

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return self.n_features

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.names == other.names)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type, tuple[list[str], NDArray]]:
        return type(self), (self.names, self.value_starts)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} names)"
