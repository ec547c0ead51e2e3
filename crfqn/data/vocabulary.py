"""Names of features and their columns: the dictionaries that sequences are encoded with."""

from collections.abc import Iterator, Sequence

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


class PairColumns(dict[str, "ValueColumns"]):
    """Map from name and value to the column of an entry whose value is 1; a pair seen before costs no new string.

    Only names and values that have a column stay: what else comes may be endless.
    """

    def __init__(self, columns: dict[str, int]) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, name: object) -> "ValueColumns":
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        return ValueColumns(str(name), self)


class ValueColumns(dict[object, int]):
    """Map from value to column, for one name; UNSEEN for what leaves no entry.

    A string value has the column `name=value`; 1 and True that of `name`; 0 and False none, though `name` gets its
    column.

    Raises
    ------
    Unplain
        For any other value, from a look-up.
    """

    __slots__ = ("name", "pairs")

    def __init__(self, name: str, pairs: PairColumns) -> None:
        super().__init__()
        self.name, self.pairs = name, pairs

    def __missing__(self, value: object) -> int:
        if isinstance(value, str):
            column = found = self.pairs.columns[f"{self.name}={value}"]
        elif value in (0, 1):
            found = self.pairs.columns[self.name]
            column = found if value else UNSEEN
        else:
            raise Unplain
        if found != UNSEEN:
            self[value] = column
            self.pairs[self.name] = self
        return column


class Vocabulary:
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
        self.columns: dict[str, int] = KnownColumns(zip(self.names, range(len(self.names)), strict=True))
        self.pairs = PairColumns(self.columns)

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
