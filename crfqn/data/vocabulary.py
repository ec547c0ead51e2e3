"""Names of features and their columns: the dictionaries that sequences are encoded with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from crfqn.data.sequences import check_names

UNSEEN = -1


class KnownColumns(dict[str, int]):
    """Map from name to column of a fixed vocabulary; any other string has the column UNSEEN."""

    def __missing__(self, name: object) -> int:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        return UNSEEN


class GrowingColumns(dict[str, int]):
    """Map from name to column in the order of first appearance; a new string gets the next column."""

    def __missing__(self, name: object) -> int:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        column = self[str(name)] = len(self)
        return column


class Unplain(Exception):
    """Error for a feature's value that is no string, boolean, 0 or 1: it has to be checked, and may be wrong."""


class GrowingPairs(dict[str, "GrowingValues"]):
    """Map from name and value to the column of an entry whose value is 1; a pair seen before costs no new string."""

    def __init__(self, columns: GrowingColumns) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, name: object) -> GrowingValues:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        found = self[str(name)] = GrowingValues(str(name), self.columns)
        return found


class GrowingValues(dict[object, int]):
    """Map from value to column, for one name; UNSEEN for what leaves no entry.

    A string value has the column `name=value`; 1 and True that of `name`; 0 and False none, though `name` gets its
    column.

    Raises
    ------
    Unplain
        For any other value, from a look-up.
    """

    __slots__ = ("columns", "name")

    def __init__(self, name: str, columns: GrowingColumns) -> None:
        super().__init__()
        self.name, self.columns = name, columns

    def __missing__(self, value: object) -> int:
        if isinstance(value, str):
            column = self.columns[f"{self.name}={value}"]
        elif value in (0, 1):
            column = self.columns[self.name]
            if not value:
                column = UNSEEN
        else:
            raise Unplain
        self[value] = column
        return column


class KnownPairs(dict[str, "KnownValues"]):
    """Map from name and value to columns of a fixed vocabulary, as `GrowingPairs`: UNSEEN also for what has no column.

    A look-up makes no string and, where there is a column, runs no Python code. For that `name=value` stands under all
    names that it can be read as, `a=b=c` under `a` and under `a=b`. Names that stand for themselves are added when they
    are met; what has no column is never kept, because there may be no end of it.
    """

    def __init__(self, columns: dict[str, int]) -> None:
        super().__init__()
        self.columns = columns
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
            self[name][1] = columns[name]

    def __missing__(self, name: object) -> KnownValues:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        column = self.columns.get(name)
        if column is None:
            return NO_VALUES
        found = self[str(name)] = KnownValues({1: column})
        return found


class KnownValues(dict[object, int]):
    """Map from value to column, for one name of a fixed vocabulary; a look-up raises Unplain as in `GrowingValues`."""

    __slots__ = ()

    def __missing__(self, value: object) -> int:
        if isinstance(value, str) or value in (0, 1):
            return UNSEEN
        raise Unplain


NO_VALUES = KnownValues()


class KnownNames:
    """Names that have a column, for looking them up.

    columns : the column of each name
    """

    columns: dict[str, int]

    def __init__(self, columns: KnownColumns, n_features: int) -> None:
        self.columns, self._n_features = columns, n_features

    @cached_property
    def pairs(self) -> KnownPairs:
        """Columns by name and value."""
        return KnownPairs(self.columns)

    @property
    def n_features(self) -> int:
        """Number of all columns, those included that have no name here."""
        return self._n_features


class Vocabulary(KnownNames):
    """Vocabulary of feature names: the names of the columns, and the column of each name.

    Parameters
    ----------
    names : sequence of str
        Distinct, in the order of the columns.

    Raises
    ------
    InputError
        For names that are no strings or come twice.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = check_names(names, len(names))
        self.columns = KnownColumns(zip(self.names, range(len(self.names)), strict=True))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self)

    def some(self, columns: Iterable[int]) -> KnownNames:
        """Return the names of some columns."""
        return KnownNames(KnownColumns((self.names[column], column) for column in columns), len(self))

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
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.names == other.names

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type, tuple[list[str]]]:
        return type(self), (self.names,)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} names)"
