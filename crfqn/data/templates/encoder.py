"""Encoder of templates: token columns in, rows of feature columns out, by arithmetic on integers.

A fitted encoder has a number for each value of a view, and for each pattern a table from combinations of these numbers
to feature columns. Names are made on request. Two features with the same name are one feature: if a name can be split
into the values of macros in several ways (`U:a/b/c` is `a/b` and `c`, or `a` and `b/c`), `fit` makes this name, and all
its readings have one column. Shapes: I items, N positions, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import distinct_columns
from crfqn.data.encoding import Sequences
from crfqn.data.gazetteers import Gazetteers
from crfqn.data.templates.batch import (
    NO_NUMBER,
    Combinations,
    Function,
    TokenBatch,
    TokenFeatures,
    distinct,
    function_name,
    hashed_columns,
    text_hash,
)
from crfqn.data.templates.patterns import CRFPP, UNIGRAM, Pattern, View, marks
from crfqn.data.token_columns import TokenColumns
from crfqn.data.vocabulary import check_feature_names
from crfqn.errors import InputError

NO_COLUMNS: NDArray[np.int64] = np.empty(0, np.int64)
Texts = Mapping[View, Sequence[str]]  # the values of each view, by their numbers


@dataclass(frozen=True)
class Settings:
    """Settings of an encoder, which define its features."""

    patterns: tuple[Pattern, ...]
    dialect: str = CRFPP  # whose marks are read beyond the ends of an item
    min_count: int = 1  # features at fewer positions of the training data are left out
    n_hashed: int | None = None  # columns that all features share by hashing; None: a column each
    functions: tuple[Function, ...] = ()  # each gives further features of a token, see `TokenFeatures`
    has_transitions: bool = True  # pairs of neighbouring labels have weights that are the same everywhere
    gazetteers: Gazetteers | None = None  # whose marks are further columns

    def __post_init__(self) -> None:
        if self.n_hashed is not None and any(pattern.kind != UNIGRAM for pattern in self.patterns):
            raise InputError(
                "n_hashed: expected None with patterns of label pairs and tokens, like B01:%x[0,0]: hashed features "
                "share columns with those of single labels"
            )
        starts = [f"{function_name(function)}=" for function in self.functions]
        for start in starts:
            for other in [*(pattern.literals[0] for pattern in self.patterns), *starts]:
                if other is not start and (start.startswith(other) or other.startswith(start)):
                    raise InputError(
                        f"features that begin with {start!r} and {other!r} could have one name: rename one"
                    )

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns of items that are read; None for all, which functions need."""
        if self.functions:
            return None
        names = [view.column for view in self.views]
        if self.gazetteers is not None:
            lists = self.gazetteers.entries
            names = [self.gazetteers.word_column, *(name for name in names if name not in lists)]
        return tuple(dict.fromkeys(names))

    @property
    def views(self) -> list[View]:
        """Views that the patterns read, each once."""
        return list(dict.fromkeys(macro.view for pattern in self.patterns for macro in pattern.macros))


class FoundFeatures(NamedTuple):
    """Features of a pattern: combinations of the numbers of its values (M, k), and their columns (M,)."""

    digits: NDArray[np.int64]
    columns: NDArray[np.int32]


@dataclass(eq=False)
class Encoder:
    """Fitted templates; `fit` and `from_names` make them."""

    settings: Settings
    value_number: dict[View, dict[str, int]]  # numbers of the values of each view
    found: list[FoundFeatures]  # one a pattern
    n_features: int
    function_column: dict[str, int] = field(default_factory=dict)  # of the features that functions give
    _tables: list[Combinations] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._tables = [
            Combinations.build(*features, [len(self.value_number[macro.view]) for macro in pattern.macros])
            for pattern, features in zip(self.settings.patterns, self.found, strict=False)
        ]  # empty if features are hashed

    @classmethod
    def fit(cls, settings: Settings, columns: TokenColumns) -> Encoder:
        """Return the encoder of the features in `columns`, O(N log N) time a pattern; its columns are by pattern and,
        within one, by text, whatever the order of the items."""
        if settings.n_hashed is not None:
            return cls(settings, {}, [], settings.n_hashed)
        batch = TokenBatch(columns, marks(settings.dialect))
        value_number: dict[View, dict[str, int]] = {}
        for view in settings.views:
            texts = sorted({value for value in batch.values(view) if value is not None})
            value_number[view] = dict(zip(texts, range(len(texts)), strict=True))
        numbers = batch.numbers(value_number)
        all_digits, all_counts = [], []
        for pattern in settings.patterns:
            sizes = [len(value_number[macro.view]) for macro in pattern.macros]
            values, n_positions = batch.read(pattern, numbers), batch.n_positions
            if (here := batch.fits(pattern)) is not None:
                values, n_positions = [column[here] for column in values], int(np.count_nonzero(here))
            digits, counts = distinct(values, sizes, n_positions)
            all_digits.append(digits)
            all_counts.append(counts)
        features, n_features = _columns(settings, value_number, all_digits, all_counts)
        by_function: dict[str, int] = {}
        if settings.functions:
            by_name = TokenFeatures(columns, settings.functions).counts()
            frequent_names = sorted(name for name, times in by_name.items() if times >= settings.min_count)
            by_function = dict(
                zip(frequent_names, range(n_features, n_features + len(frequent_names)), strict=True)
            )
        return cls(settings, value_number, features, n_features + len(by_function), by_function)

    @classmethod
    def from_names(cls, settings: Settings, names: Sequence[str]) -> Encoder:
        """Return the encoder whose column f is the feature names[f], as a model file keeps it; InputError for a name
        that no pattern has, or that comes twice."""
        check_feature_names(names, len(names))
        value_number: dict[View, dict[str, int]] = {view: {} for view in settings.views}
        columns: list[list[int]] = [[] for _ in settings.patterns]
        by_start: dict[str, list[int]] = {}
        for number, pattern in enumerate(settings.patterns):
            by_start.setdefault(pattern.literals[0], []).append(number)
        lengths = sorted({*map(len, by_start)})
        for column, name in enumerate(names):
            for length in lengths:
                for number in by_start.get(name[:length], ()):
                    columns[number].append(column)
        readings = [
            _readings(pattern, [names[column] for column in pattern_columns], pattern_columns, value_number)
            for pattern, pattern_columns in zip(settings.patterns, columns, strict=True)
        ]
        is_read = np.zeros(len(names), bool)
        for features in readings:
            is_read[features.columns] = True
        if not is_read.all():
            raise InputError(f"no template has a feature {names[int(np.argmin(is_read))]!r}")
        return cls(settings, value_number, readings, len(names))

    def transform(self, columns: TokenColumns) -> Sequences:
        """Return the features of all positions, CSR of float32 ones; unknown features are left out."""
        import scipy.sparse

        indices, indptr = self.rows(columns)
        parts = (np.ones(indices.size, np.float32), indices, indptr)
        matrix = scipy.sparse.csr_array(parts, shape=(columns.n_positions, self.n_features))
        if self.settings.functions:
            of_tokens, n_hashed = TokenFeatures(columns, self.settings.functions), self.settings.n_hashed

            def column_of(name: str) -> int | None:
                if n_hashed is not None:
                    return int(text_hash(name) % np.uint64(n_hashed))
                return self.function_column.get(name)

            matrix = scipy.sparse.csr_array(matrix + of_tokens.rows(column_of, self.n_features))
        matrix.sum_duplicates()
        return Sequences.from_checked(matrix, columns.offsets, None)

    def rows(self, columns: TokenColumns) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the features of the patterns as `indices` and `indptr` (N + 1,) of a CSR array of ones; a row may have
        a hashed one twice."""
        hits = np.empty((columns.n_positions, len(self.settings.patterns)), np.int32)
        batch, n_hashed = TokenBatch(columns, marks(self.settings.dialect)), self.settings.n_hashed
        if n_hashed is None:
            numbers = batch.numbers(self.value_number)
        else:
            hashes = {view: map(text_hash, batch.values(view)) for view in self.settings.views}
            numbers = {view: np.array([*values], np.uint64) for view, values in hashes.items()}
        for number, pattern in enumerate(self.settings.patterns):
            values = batch.read(pattern, numbers)
            if n_hashed is None:
                hits[:, number] = self._tables[number].find(values, batch.n_positions)
            else:
                hits[:, number] = hashed_columns(pattern, values, batch.n_positions, n_hashed)
            if (here := batch.fits(pattern)) is not None:
                hits[~here, number] = NO_NUMBER
        is_there = hits >= 0
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.count_nonzero(is_there, axis=1))])
        return hits[is_there], indptr

    def columns_of(self, *kinds: str) -> NDArray[np.int64]:
        """Return the columns, sorted, of the features of patterns of some kinds."""
        pairs = zip(self.settings.patterns, self.found, strict=False)  # `found` is empty if hashed
        columns = [features.columns for pattern, features in pairs if pattern.kind in kinds]
        return distinct_columns(np.concatenate([NO_COLUMNS, *columns]))

    def names(self) -> list[str]:
        """Return the names of all columns, which each call makes; InputError if features are hashed."""
        if self.settings.n_hashed is not None:
            raise InputError("hashed features have no names")
        named = [""] * self.n_features
        for name, column in self.function_column.items():
            named[column] = name
        texts = {view: list(numbers) for view, numbers in self.value_number.items()}
        for pattern, features in zip(self.settings.patterns, self.found, strict=True):
            names = _names(pattern, features.digits, texts)
            for column, name in zip(features.columns.tolist(), names, strict=True):
                named[column] = name
        return named


def _names(pattern: Pattern, digits: NDArray[np.int64], texts: Texts) -> Iterable[str]:
    """Return the names of the features of a pattern."""
    if not pattern.macros:
        return [pattern.literals[0]] * len(digits)
    columns = []
    for macro, numbers in zip(pattern.macros, digits.T.tolist(), strict=True):
        values = texts[macro.view]
        columns.append([values[number] for number in numbers])
    return map(pattern.name, zip(*columns, strict=True))


def _columns(
    settings: Settings,
    value_number: dict[View, dict[str, int]],
    all_digits: list[NDArray[np.int64]],
    all_counts: list[NDArray[np.int64]],
) -> tuple[list[FoundFeatures], int]:
    """Number the features; a name that may have several readings has one number for all of them."""
    # Patterns may have names in common if one of them begins as the other does.
    shared: set[int] = set()
    starts = sorted((pattern.literals[0], number) for number, pattern in enumerate(settings.patterns))
    for place, (first, one) in enumerate(starts):
        for second, other in starts[place + 1 :]:
            if not second.startswith(first):
                break  # nor do the later ones, in alphabetical order
            shared |= {one, other}
    texts = {view: list(numbers) for view, numbers in value_number.items()}
    features: list[FoundFeatures] = []
    counts: Counter[str] = Counter()
    by_name: list[int] = []
    n_features = 0
    for number, pattern in enumerate(settings.patterns):
        digits, count = all_digits[number], all_counts[number]
        is_named = _is_named(pattern, digits, texts, number in shared)
        if is_named.any():
            by_name.append(number)
            ambiguous_names = _names(pattern, digits[is_named], texts)
            for name, times in zip(ambiguous_names, count[is_named].tolist(), strict=True):
                counts[name] += times
        digits = digits[~is_named & (count >= settings.min_count)]
        features.append(
            FoundFeatures(digits, np.arange(n_features, n_features + len(digits), dtype=np.int32))
        )
        n_features += len(digits)
    names = [name for name, times in counts.items() if times >= settings.min_count]
    new = range(n_features, n_features + len(names))
    for number in by_name:
        digits, columns = _readings(settings.patterns[number], names, new, value_number)
        before = features[number]
        features[number] = FoundFeatures(
            np.concatenate([before.digits, digits]), np.append(before.columns, columns)
        )
    return features, n_features + len(names)


def _readings(
    pattern: Pattern, names: Sequence[str], columns: Sequence[int], value_number: dict[View, dict[str, int]]
) -> FoundFeatures:
    """Return the combinations of a pattern whose name has a column; new values get numbers."""
    numbers = [value_number[macro.view] for macro in pattern.macros]
    digits: list[int] = []
    name_columns: list[int] = []
    for name, column in zip(names, columns, strict=True):
        for values in pattern.readings(name):
            name_columns.append(column)
            for number_of, value in zip(numbers, values, strict=True):
                digits.append(number_of.setdefault(value, len(number_of)))
    return FoundFeatures(
        np.array(digits, np.int64).reshape(len(name_columns), len(numbers)), np.array(name_columns, np.int32)
    )


def _is_named(
    pattern: Pattern, digits: NDArray[np.int64], texts: Texts, is_shared: bool
) -> NDArray[np.bool_]:
    """Return whether another combination may have the same name, (M,): not if the values before each literal lack its
    first character, nor, if literals are single characters, if the values hold none of these."""
    inner = pattern.literals[1:-1]
    if is_shared or not all(inner):
        return np.full(len(digits), is_shared or bool(inner))
    by_macro = [texts[macro.view] for macro in pattern.macros]
    if not any(
        literal[0] in text
        for literal, macro_texts in zip(inner, by_macro, strict=False)
        for text in macro_texts
    ):
        return np.zeros(len(digits), bool)
    if max(map(len, inner)) > 1:
        return np.ones(len(digits), bool)
    is_named = np.zeros(len(digits), bool)
    for column, numbers in zip(by_macro, digits.T, strict=True):
        holds = np.array([any(literal in text for literal in inner) for text in column], bool)
        is_named |= holds[numbers]
    return is_named
