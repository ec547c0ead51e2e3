"""Names of features and their columns: the dictionaries that encode sequences.

`Columns` finds the columns of known names, `GrowingColumns` gives new names a column, and `Pairs` does either for the
entries `name: value` of dicts. A `Vocabulary` is the names of a model, in the order of their columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, count
from operator import ne
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.attributes import ATTRIBUTE_SEPARATOR, attributes
from crfqn.errors import InputError

if TYPE_CHECKING:
    from crfqn.data.tokenizers import Tokenizer

UNSEEN = -1  # the column of a name that has none
# The start of the value in the name of a feature that a dict gives as name and value, `name=value`. A plain name has
# none; for some names it is unknown, or a name occurred both ways.
NO_VALUE, UNKNOWN_VALUE = 0, -1
NO_COLUMNS = np.empty(0, np.int64)
MAX_UNKNOWN_NAMES = 1000  # without a column that look-ups remember: a bound on memory


class Columns(dict[Any, int]):
    """Map from strings to known columns: a string without a column has UNSEEN, a look-up of anything else that is not a
    key raises TypeError. Look-ups run no Python code: the result of finding a string in "" is UNSEEN."""

    __slots__ = ()
    __missing__ = "".find

    def __init__(self, columns: Mapping[Any, int] | Iterable[tuple[str, int]] = ()) -> None:
        super().__init__({"": UNSEEN})
        self.update(columns)


class GrowingColumns(dict[Any, int]):
    """Map from strings to columns in the order of first appearance; a new string gets the next column.

    For the values of a feature, `column_of_one` returns the column of the feature's name alone, which the values 1 and
    True have; 0 and False have UNSEEN (no entry, though the name gets its column). Any other key raises TypeError.
    """

    __slots__ = ("column_of_one", "next_column")

    def __init__(
        self, next_column: Callable[[], int], column_of_one: Callable[[], int] | None = None
    ) -> None:
        super().__init__()
        self.next_column, self.column_of_one = next_column, column_of_one

    def __missing__(self, key: object) -> int:
        if isinstance(key, str):
            column = self.next_column()
        elif self.column_of_one is not None and key in (0, 1):
            column = self.column_of_one()
            if not key:
                column = UNSEEN
        else:
            raise TypeError("a feature name must be a string")
        self[key] = column
        return column


NO_VALUES = Columns({0: UNSEEN, 1: UNSEEN})


class Pairs(dict[str, Columns | GrowingColumns]):
    """Map from the name of a dict's entry to the columns of its values; `columns` are those of names alone.

    The look-up of a known pair makes no string. Pairs of known columns find `a=b=c` under `a` and under `a=b`; the
    separator may be another one. Plain names are added at their first look-up, as are up to
    MAX_UNKNOWN_NAMES unknown names.
    """

    columns: Columns | GrowingColumns
    n_unknown = 0  # names without a column that are remembered

    @classmethod
    def known(cls, columns: Columns, separator: str = "=") -> Pairs:
        """Return all pairs into which the names of known columns can be split."""
        pairs = cls()
        pairs.columns = columns
        for name, column in columns.items():
            at = name.find(separator)
            while at >= 0:
                values = pairs.get(name[:at])
                if values is None:
                    values = pairs[name[:at]] = Columns()
                values[name[at + 1 :]] = column
                at = name.find(separator, at + 1)
        for name in pairs.keys() & columns.keys():
            pairs[name].update({0: UNSEEN, 1: columns[name]})
        return pairs

    @classmethod
    def growing(cls) -> Pairs:
        """Return pairs that give each new pair a column."""
        pairs = cls()
        pairs.columns = GrowingColumns(count().__next__)
        return pairs

    def __missing__(self, name: object) -> Columns | GrowingColumns:
        if not isinstance(name, str):
            raise TypeError("a feature name must be a string")
        name, columns = str(name), self.columns
        values: Columns | GrowingColumns
        if isinstance(columns, GrowingColumns):
            values = GrowingColumns(columns.next_column, lambda: columns[name])
        elif (column := columns[name]) != UNSEEN:
            values = Columns({0: UNSEEN, 1: column})
        elif self.n_unknown < MAX_UNKNOWN_NAMES:
            self.n_unknown, values = self.n_unknown + 1, NO_VALUES
        else:
            return NO_VALUES
        self[name] = values
        return values

    def sorted_names(self, separator: str = "=") -> tuple[NDArray[np.int32], Vocabulary]:
        """Return the place of each column, then UNSEEN, in a vocabulary sorted by name; a pair is named `name=value`,
        with the separator between."""
        names, columns = [*map(str, self.columns)], [*self.columns.values()]
        starts = [NO_VALUE] * len(names)
        for name, values in self.items():
            strings = [value for value in values if isinstance(value, str)]
            names += map(f"{name}{separator}".__add__, strings)
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


class Vocabulary:
    """Distinct names of features in the order of their columns.

    `value_starts` is the start of the value in each name, NO_VALUE (the default) or UNKNOWN_VALUE. With
    `has_attributes`, features of dicts are named as in CRFsuite's bindings (`word:dog` instead of `word=dog`).
    """

    bigram_columns = only_bigram_columns = NO_COLUMNS  # of features of label pairs; and those of nothing else
    has_transitions = True  # whether pairs of neighbouring labels have weights that are the same everywhere
    encodes_items = (
        False  # whether items have a form that only the vocabulary encodes (`encode`, `encode_rows`)
    )
    takes = (
        "features"  # the kind of a position of an item: features, columns, or a text that is cut into words
    )
    is_hashed = False  # whether features share columns, which have no names then
    source: dict[str, Any] | None = None  # the templates that make the features
    tokenizer: Tokenizer | None = None  # of raw text
    encode: Callable[[Any], Any]
    encode_rows: Callable[[Any], Any]

    def __init__(
        self,
        names: Sequence[str],
        value_starts: Sequence[int] | NDArray | None = None,
        has_attributes: bool = False,
    ) -> None:
        self.names = check_feature_names(names, len(names))
        starts = np.zeros(len(self.names)) if value_starts is None else value_starts
        self.value_starts: NDArray[np.int32] = np.asarray(starts, np.int32)
        self.has_attributes = has_attributes

    @cached_property
    def columns(self) -> Columns:
        """Columns by name."""
        return Columns(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def pairs(self) -> Pairs:
        """Columns by name and value."""
        return self.pairs_of(self.columns)

    def pairs_of(self, columns: Columns) -> Pairs:
        """Return some of the columns by name and value."""
        return Pairs.known(columns, ATTRIBUTE_SEPARATOR if self.has_attributes else "=")

    def grown(self, other: Vocabulary) -> Vocabulary:
        """Return the names, then the new ones of another vocabulary; itself if there are none."""
        starts = dict(zip(self.names, self.value_starts.tolist(), strict=True))
        for name, start in zip(other.names, other.value_starts.tolist(), strict=True):
            if starts.setdefault(name, start) != start:
                starts[name] = UNKNOWN_VALUE
        if [*starts.values()] == self.value_starts.tolist():
            return self
        return Vocabulary([*starts], [*starts.values()], self.has_attributes)

    def stored_source(self) -> dict[str, Any] | None:
        """Return the source of the names as a model file keeps it."""
        return self.source

    def named(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return items in a form whose names are those of the vocabulary; errors as of `attributes`."""
        return attributes(items) if self.has_attributes else items

    def index(self, name: str) -> int:
        """Return the column of a name; KeyError if there is none."""
        column = self.columns.get(name, UNSEEN)
        if column == UNSEEN:
            raise KeyError(name)
        return column

    __getitem__ = index

    def __contains__(self, name: object) -> bool:
        return self.columns.get(name, UNSEEN) != UNSEEN

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.names == other.names)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.names, self.value_starts, self.has_attributes)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} names)"


def check_feature_names(names: Sequence[str], n_features: int) -> list[str]:
    """Return the names as a list after checking that they are distinct strings, one for each column."""
    if isinstance(names, (str, bytes)):
        raise InputError(f"feature_names must be a list of {n_features} strings, got the single {names!r}")
    listed = list(names)
    if len(listed) != n_features:
        raise InputError(f"feature_names must name each of the {n_features} columns, got {len(listed)} names")
    if not all(issubclass(kind, str) for kind in set(map(type, listed))):
        column = next(column for column, name in enumerate(listed) if not isinstance(name, str))
        raise InputError(
            f"feature_names must be strings, but that of column {column} is of type "
            f"{type(listed[column]).__name__}: {listed[column]!r}"
        )
    if len(set(listed)) != n_features:
        ((repeated, _),) = Counter(listed).most_common(1)
        raise InputError(f"feature_names must be distinct, but {repeated!r} comes twice")
    return listed
