"""Encoder of templates: token columns in, rows of feature columns out, by arithmetic on integers.

The fitted state is a number for each value of a view, and for each pattern the table from combinations of these
numbers to feature columns. Names are made when they are asked for. Two features of one name are one feature, as in
the tools that work with the names: where texts or patterns could be mistaken for each other (`U:a/b/c` of `a/b` and
`c`, or of `a` and `b/c`), the names concerned are made in `fit`, and all their readings lead to one column.

Shapes: I items, N positions, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.sequences import Sequences, check_names
from crfqn.data.templates.encoding.batch import Batch, rows_of
from crfqn.data.templates.encoding.combinations import NONE, Combinations, distinct
from crfqn.data.templates.encoding.functions import Function, TokenFeatures, function_name
from crfqn.data.templates.encoding.hashing import hashed_column, hashed_columns
from crfqn.data.templates.patterns.pattern import Pattern
from crfqn.data.templates.patterns.pattern_file import CRFPP, marks
from crfqn.data.templates.patterns.views import View
from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError


@dataclass(frozen=True)
class Settings:
    """Settings of an encoder.

    Parameters
    ----------
    patterns : tuple of Pattern
    dialect : {"crf++", "wapiti"}
        Whose marks stand for what lies beyond an item.
    min_count : int
        Features at fewer positions of the training data are left out.
    n_hashed : int or None
        Number of columns that all features share by hashing; None: a column each.
    functions : tuple of functions
        Each gives further features of a token, see `functions.py`.
    """

    patterns: tuple[Pattern, ...]
    dialect: str = CRFPP
    min_count: int = 1
    n_hashed: int | None = None
    functions: tuple[Function, ...] = ()

    def __post_init__(self) -> None:
        starts = [f"{function_name(function)}=" for function in self.functions]
        for start in starts:
            for other in [*(pattern.literals[0] for pattern in self.patterns), *starts]:
                if other is not start and (start.startswith(other) or other.startswith(start)):
                    raise InputError(
                        f"features that begin with {start!r} and {other!r} could have one name: rename one"
                    )

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that are read; None for all, where there are functions."""
        if self.functions:
            return None
        return tuple(
            dict.fromkeys(macro.view.column for pattern in self.patterns for macro in pattern.macros)
        )

    def marks(self) -> tuple[list[str], list[str]]:
        return marks(self.dialect)


@dataclass
class Found:
    """Features of a pattern: combinations of the numbers of its values, and their columns."""

    digits: NDArray[np.int64]
    columns: NDArray[np.int32]


@dataclass(eq=False)
class Encoder:
    """Fitted templates; `fit` and `from_names` make them.

    Attributes
    ----------
    settings : Settings
    value_number : dict of View to dict of str to int
        Numbers of the values of each view.
    found : list of Found, one a pattern
    n_features : int
    function_column : dict of str to int
        Columns of the features that functions give, by name.
    """

    settings: Settings
    value_number: dict[View, dict[str, int]]
    found: list[Found]
    n_features: int
    function_column: dict[str, int] = field(default_factory=dict)
    _tables: list[Combinations] = field(init=False, repr=False)
    _names: list[str] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self._tables = [
            Combinations.build(found.digits, found.columns, self._sizes(pattern))
            for pattern, found in zip(self.settings.patterns, self.found, strict=False)  # none where hashed
        ]

    @classmethod
    def fit(cls, settings: Settings, columns: TokenColumns) -> Encoder:
        """Return the encoder of the features that occur in `columns`.

        Notes
        -----
        Columns are in the order of the patterns and, within one, of the texts, so that the order of the items does not
        matter. O(N log N) time a pattern.
        """
        if settings.n_hashed is not None:
            return cls(settings, {}, [], settings.n_hashed)
        batch = Batch(columns, settings.marks())
        views = {macro.view: None for pattern in settings.patterns for macro in pattern.macros}
        value_number = {view: _numbered(_distinct_values(batch, view)) for view in views}
        value_of = _numbers_of(batch, value_number)
        all_digits, all_counts = [], []
        for pattern in settings.patterns:
            sizes = [len(value_number[macro.view]) for macro in pattern.macros]
            values, n_positions = _values(batch, pattern, value_of)
            digits, counts = distinct(values, sizes, n_positions)
            all_digits.append(digits)
            all_counts.append(counts)
        found, n_features = _columns(settings, value_number, all_digits, all_counts)
        by_function: dict[str, int] = {}
        if settings.functions:
            by_name = TokenFeatures(columns, settings.functions).counts()
            kept = sorted(name for name, times in by_name.items() if times >= settings.min_count)
            by_function = dict(zip(kept, range(n_features, n_features + len(kept)), strict=True))
        return cls(settings, value_number, found, n_features + len(by_function), by_function)

    @classmethod
    def from_names(cls, settings: Settings, names: Sequence[str]) -> Encoder:
        """Return the encoder whose column f is the feature names[f], as a model file keeps it.

        Raises
        ------
        InputError
            A name that none of the patterns has, or that comes twice.
        """
        check_names(names, len(names))
        value_number: dict[View, dict[str, int]] = {
            macro.view: {} for pattern in settings.patterns for macro in pattern.macros
        }
        rows: list[list[tuple[int, ...]]] = [[] for _ in settings.patterns]
        columns: list[list[int]] = [[] for _ in settings.patterns]
        by_start = _by_start(settings.patterns)
        for column, name in enumerate(names):
            is_read = False
            for number in by_start(name):
                pattern = settings.patterns[number]
                for values in pattern.readings(name):
                    rows[number].append(_add(pattern, values, value_number))
                    columns[number].append(column)
                    is_read = True
            if not is_read:
                raise InputError(f"no template has a feature {name!r}")
        found = [
            Found(np.array(row, np.int64).reshape(len(row), len(pattern.macros)), np.array(column, np.int32))
            for pattern, row, column in zip(settings.patterns, rows, columns, strict=True)
        ]
        return cls(settings, value_number, found, len(names))

    def transform(self, columns: TokenColumns) -> Sequences:
        """Return the features of all positions, CSR of float32 ones; features that are not known are left out."""
        import scipy.sparse

        batch = Batch(columns, self.settings.marks())
        hits = list(self._hits(batch))
        indptr, indices = rows_of(hits, batch.n_positions)
        parts = (np.ones(indices.size, np.float32), indices, indptr)
        matrix = scipy.sparse.csr_array(parts, shape=(batch.n_positions, self.n_features))
        if self.settings.functions:
            of_tokens = TokenFeatures(columns, self.settings.functions)
            matrix = scipy.sparse.csr_array(matrix + of_tokens.rows(self._function_column, self.n_features))
        matrix.sum_duplicates()
        return Sequences.from_checked(matrix, columns.offsets, None)

    def names(self) -> list[str]:
        """Return the names of all columns; made at the first call, and kept.

        Raises
        ------
        InputError
            Features are hashed: their names are not known.
        """
        if self.settings.n_hashed is not None:
            raise InputError("hashed features have no names")
        if self._names is None:
            named = [""] * self.n_features
            for name, own in self.function_column.items():
                named[own] = name
            for pattern, found in zip(self.settings.patterns, self.found, strict=True):
                for column, name in zip(
                    found.columns.tolist(), _names(pattern, found.digits, self._texts_of), strict=True
                ):
                    named[column] = name
            self._names = named
        return self._names

    def _function_column(self, name: str) -> int | None:
        if self.settings.n_hashed is not None:
            return hashed_column(name, self.settings.n_hashed)
        return self.function_column.get(name)

    def _texts_of(self, view: View) -> list[str]:
        return list(self.value_number[view])

    def _sizes(self, pattern: Pattern) -> list[int]:
        return [len(self.value_number[macro.view]) for macro in pattern.macros]

    def _hits(self, batch: Batch) -> Iterable[NDArray[np.int32]]:
        if self.settings.n_hashed is not None:
            yield from hashed_columns(batch, self.settings.patterns, self.settings.n_hashed)
            return
        value_of = _numbers_of(batch, self.value_number)
        for pattern, table in zip(self.settings.patterns, self._tables, strict=True):
            values = [batch.values(macro, value_of) for macro in pattern.macros]
            hits = table.find(values, batch.n_positions)
            if (here := batch.fits(pattern)) is not None:
                hits[~here] = NONE
            yield hits


def _values(
    batch: Batch, pattern: Pattern, value_of: Callable[[View], NDArray[np.int32]]
) -> tuple[list[NDArray[np.int32]], int]:
    """Return what the macros read at the positions where the pattern fits, and how many these are."""
    values = [batch.values(macro, value_of) for macro in pattern.macros]
    here = batch.fits(pattern)
    if here is None:
        return values, batch.n_positions
    return [column[here] for column in values], int(np.count_nonzero(here))


def _distinct_values(batch: Batch, view: View) -> list[str]:
    function = view.function()
    return sorted({value for value in map(function, batch.texts(view.column)) if value is not None})


def _numbered(values: Sequence[str]) -> dict[str, int]:
    return dict(zip(values, range(len(values)), strict=True))


def _numbers_of(
    batch: Batch, value_number: dict[View, dict[str, int]]
) -> Callable[[View], NDArray[np.int32]]:
    """Return what gives, for a view, the number of the value of each distinct text (D,), NONE for unknown ones."""
    known: dict[View, NDArray[np.int32]] = {}

    def numbers(view: View) -> NDArray[np.int32]:
        if view not in known:
            texts, number_of = batch.texts(view.column), value_number[view]
            values: Iterable[Any] = map(view.function(), texts)
            known[view] = np.fromiter((number_of.get(value, NONE) for value in values), np.int32, len(texts))
        return known[view]

    return numbers


def _names(
    pattern: Pattern, digits: NDArray[np.int64], texts_of: Callable[[View], list[str]]
) -> Iterable[str]:
    """Return the names of the features of a pattern."""
    if not pattern.macros:
        return [pattern.literals[0]] * len(digits)
    columns = []
    for macro, numbers in zip(pattern.macros, digits.T.tolist(), strict=True):
        texts = texts_of(macro.view)
        columns.append([texts[number] for number in numbers])
    return map(pattern.name, zip(*columns, strict=True))


def _columns(
    settings: Settings,
    value_number: dict[View, dict[str, int]],
    all_digits: list[NDArray[np.int64]],
    all_counts: list[NDArray[np.int64]],
) -> tuple[list[Found], int]:
    """Number the features; those whose names may have several readings by their names, with all readings of each."""
    shared = _sharing(settings.patterns)
    texts_of = {view: list(numbers) for view, numbers in value_number.items()}.__getitem__
    found: list[Found] = []
    counts: Counter[str] = Counter()
    by_name: list[int] = []
    n_features = 0
    for number, pattern in enumerate(settings.patterns):
        digits, count = all_digits[number], all_counts[number]
        is_named = _is_named(pattern, digits, texts_of, number in shared)
        if is_named.any():
            by_name.append(number)
            for name, times in zip(
                _names(pattern, digits[is_named], texts_of), count[is_named].tolist(), strict=True
            ):
                counts[name] += times
        digits = digits[~is_named & (count >= settings.min_count)]
        found.append(Found(digits, np.arange(n_features, n_features + len(digits), dtype=np.int32)))
        n_features += len(digits)
    names = [name for name, times in counts.items() if times >= settings.min_count]
    for number in by_name:
        digits, columns = _all_readings(settings.patterns[number], names, n_features, value_number)
        found[number] = Found(
            np.concatenate([found[number].digits, digits]), np.append(found[number].columns, columns)
        )
    return found, n_features + len(names)


def _all_readings(
    pattern: Pattern, names: list[str], first: int, value_number: dict[View, dict[str, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the combinations of a pattern that have one of the names, and the columns, `first` for names[0]."""
    rows, columns = [], []
    for column, name in enumerate(names, start=first):
        for values in pattern.readings(name):
            rows.append(_add(pattern, values, value_number))
            columns.append(column)
    return np.array(rows, np.int64).reshape(len(rows), len(pattern.macros)), np.array(columns, np.int32)


def _add(
    pattern: Pattern, values: tuple[str, ...], value_number: dict[View, dict[str, int]]
) -> tuple[int, ...]:
    """Return the numbers of values, new ones for values that had none."""
    row = []
    for macro, value in zip(pattern.macros, values, strict=True):
        numbers = value_number[macro.view]
        row.append(numbers.setdefault(value, len(numbers)))
    return tuple(row)


def _sharing(patterns: Sequence[Pattern]) -> set[int]:
    """Return the patterns that may have names in common: of which one begins as the other does."""
    found: set[int] = set()
    starts = sorted((pattern.literals[0], number) for number, pattern in enumerate(patterns))
    for place, (first, one) in enumerate(starts):
        for second, other in starts[place + 1 :]:
            if not second.startswith(first):
                break  # nor do those behind it, in the order of the alphabet
            found |= {one, other}
    return found


def _is_named(
    pattern: Pattern, digits: NDArray[np.int64], texts_of: Callable[[View], list[str]], is_shared: bool
) -> NDArray[np.bool_]:
    """Return the combinations (M,) that may have the name of another one.

    Where the values before a literal do not hold its first character, names have one reading. Where they do, and
    literals are single characters, those have one reading of which no value holds any of these.
    """
    inner = pattern.literals[1:-1]
    if is_shared or not all(inner):
        return np.full(len(digits), is_shared or bool(inner))
    texts = [texts_of(macro.view) for macro in pattern.macros]
    if not any(literal[0] in text for literal, column in zip(inner, texts, strict=False) for text in column):
        return np.zeros(len(digits), bool)
    if max(map(len, inner)) > 1:
        return np.ones(len(digits), bool)
    is_named = np.zeros(len(digits), bool)
    for column, numbers in zip(texts, digits.T, strict=True):
        holds = np.array([any(literal in text for literal in inner) for text in column], bool)
        is_named |= holds[numbers]
    return is_named


def _by_start(patterns: Sequence[Pattern]) -> Callable[[str], list[int]]:
    """Return what gives, for a name, the patterns that begin as it does."""
    numbers: dict[str, list[int]] = {}
    for number, pattern in enumerate(patterns):
        numbers.setdefault(pattern.literals[0], []).append(number)
    lengths = sorted({*map(len, numbers)})
    return lambda name: [number for length in lengths for number in numbers.get(name[:length], ())]
