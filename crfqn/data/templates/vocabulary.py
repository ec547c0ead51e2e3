"""Templates as users and model files write them, and the vocabulary of their features, which a model keeps.

A `TemplateVocabulary` replaces the `Vocabulary` of names in a model, so that a model trained on templates encodes
token columns itself and makes names on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.choices import CHUNKING_TEMPLATES
from crfqn.data.column_watch import ColumnWatch
from crfqn.data.encoding import Sequences
from crfqn.data.gazetteers import Gazetteers, check_gazetteers, cut_entries
from crfqn.data.templates.batch import Function, function_name
from crfqn.data.templates.encoder import Encoder, Settings
from crfqn.data.templates.patterns import BIGRAM, BOTH, CRFPP, UNIGRAM, Pattern, View, parse_patterns
from crfqn.data.templates.windows import neighbour_patterns, parse_windows, word_patterns, word_shapes
from crfqn.data.token_columns import TokenColumns
from crfqn.data.token_rows import Rows, TokenRows
from crfqn.data.tokenizers import (
    BLANK_WITHIN,
    STOP_AT_END,
    TOKENIZER_NAMES,
    UNICODE_RULES,
    Tokenizer,
    choose_tokenizer,
)
from crfqn.data.vocabulary import NO_VALUE, UNKNOWN_VALUE, Vocabulary
from crfqn.errors import InputError, TokenWarning, check_count, warn_caller
from crfqn.messages import describe, shorten

MAX_WIDTH = 2**31 - 1  # columns, which are int32


class TemplateVocabulary(Vocabulary):
    """Vocabulary of an encoder's features; `source` is the `TemplateSource` as a dict, which a model file keeps."""

    has_attributes, encodes_items = False, True
    source: dict[str, Any]

    def __init__(self, encoder: Encoder, source: dict[str, Any]) -> None:
        self.encoder, self.source = encoder, source
        self.has_warned_of_tokens = self.has_warned_of_share = False
        self.has_transitions = encoder.settings.has_transitions
        # If all features are of the first column, the words of a raw text are an item.
        self.takes = "text" if reads_words_alone(source["columns"], encoder.settings) else "columns"
        self.is_hashed = encoder.settings.n_hashed is not None
        self.bigram_columns = encoder.columns_of(BIGRAM, BOTH)
        self.only_bigram_columns = encoder.columns_of(BIGRAM)
        if self.only_bigram_columns.size:
            of_labels = encoder.columns_of(UNIGRAM, BOTH)
            self.only_bigram_columns = np.setdiff1d(self.only_bigram_columns, of_labels)

    @cached_property
    def names(self) -> list[str]:  # type: ignore[override]
        """Names of the columns; "hash 17" if features are hashed."""
        if self.is_hashed:
            return [f"hash {column}" for column in range(len(self))]
        return self.encoder.names()

    @cached_property
    def value_starts(self) -> NDArray[np.int32]:  # type: ignore[override]
        """NO_VALUE for every name."""
        return np.full(len(self), NO_VALUE, np.int32)

    def encode(self, items: Iterable[Any]) -> Sequences:
        """Return the features of token columns, or of items in any form that `TokenColumns.from_items` takes."""
        columns = self._columns(items)
        return Sequences.from_checked(
            self.encoder.transform(columns).matrix, columns.offsets, vocabulary=self
        )

    def encode_rows(self, items: Iterable[Any]) -> Sequences | TokenRows:
        """Return the features as `TokenRows`, or as `encode` does if functions make features."""
        if self.encoder.settings.functions:
            return self.encode(items)
        columns = self._columns(items)
        indices, indptr = self.encoder.rows(columns)
        return TokenRows(Rows(indptr, indices, np.empty(0)), columns.offsets, len(self))

    @cached_property
    def watches(self) -> dict[str, ColumnWatch]:
        """The `ColumnWatch` of each column whose texts are features, which warns if none of its texts is known."""
        return {
            view.column: ColumnWatch(view.column, numbers)
            for view, numbers in self.encoder.value_number.items()
            if view == View(view.column)
        }

    @cached_property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        """The tokenizer of raw text."""
        source, forms = self.source, self.source["token_forms"]
        return Tokenizer(
            source["tokens"],
            source["token_share"],
            frozenset(source["abbreviations"]),
            None if forms is None else tuple(forms),
        )

    def _columns(self, items: Iterable[Any]) -> TokenColumns:
        names, used = self.source["columns"], self.encoder.settings.columns
        used = names if used is None else used
        columns = TokenColumns.from_items(items, names, used, has_more=self.source["has_more_columns"])
        for name, watch in self.watches.items():
            watch.look(columns.texts.get(name, ()))
        if self.encoder.settings.gazetteers is not None:
            columns = self.encoder.settings.gazetteers.add_marks(columns)
        forms = self.source["token_forms"]
        if forms is None or len(forms) == 2 or self.has_warned_of_tokens or not columns.texts:
            return columns
        # Warn once of words that contain a blank or have a full stop at the end if no training token did.
        words = next(iter(columns.texts.values()))
        together = "\n".join(words) + "\n"
        if (STOP_AT_END in forms or ".\n" not in together) and (BLANK_WITHIN in forms or " " not in together):
            return columns
        odd = None
        for word in words:
            has_blank = BLANK_WITHIN not in forms and " " in word
            has_stop = (
                STOP_AT_END not in forms and len(word) > 1 and word[-1] == "." and any(map(str.isalnum, word))
            )
            # The tokenizer splits such words.
            if has_blank or (has_stop and not self.tokenizer.is_abbreviation(word)):
                odd = word
                break
        if odd is not None:
            self.has_warned_of_tokens = True
            what = "contains a blank" if " " in odd else "ends in a full stop"
            message = (
                f"the token {shorten(odd)} {what}, as no token of the training data does: is it a text that is to be "
                "cut into tokens (a str for Tagger.tag, a line of raw text for crfqn predict)?"
            )
            warn_caller(message, TokenWarning)
        return columns

    def stored_source(self) -> dict[str, Any]:
        """Return the source; InputError if there are functions, whose code a model file does not keep."""
        if self.encoder.settings.functions:
            names = ", ".join(map(function_name, self.encoder.settings.functions))
            raise InputError(
                f"a model file keeps no code, and features come from functions ({names}): pickle the pipeline"
            )
        return self.source

    def __len__(self) -> int:
        return self.encoder.n_features

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.encoder, self.source)

    def __repr__(self) -> str:
        return f"TemplateVocabulary({len(self)} features of {len(self.encoder.settings.patterns)} templates)"


def reads_words_alone(columns: Sequence[str], settings: Settings) -> bool:
    """Return whether features are of the first column alone."""
    return not settings.functions and set(settings.columns or ()) <= {columns[0]}


@dataclass(frozen=True)
class TemplateSource:
    """Source of templates: texts, names of columns and numbers. An empty text gives no features."""

    columns: tuple[str, ...]  # by their numbers in pattern files
    patterns: str = ""  # text of a pattern file
    dialect: str | None = None  # see `parse_patterns`
    windows: str = ""  # window templates
    has_ends: bool = True  # windows mark the first and the last position
    shapes: tuple[str, ...] = ()  # columns whose forms (`word_shapes`) are features
    min_count: int = 1  # features at fewer positions of the training data are left out
    n_hashed: int | None = None  # columns that all features share by hashing
    words: str = ""  # the column of words, for the features of a first tagger (`word_patterns`)
    tokens: str = (
        UNICODE_RULES  # the tokenizer of raw text; its fields have the meaning of those of `Tokenizer`
    )
    transitions: bool = False  # pairs of neighbouring labels have weights even if the patterns have no `B`
    has_more_columns: bool = False  # items may have others after `columns`, as in other tools' models
    token_share: float | None = None
    abbreviations: tuple[str, ...] = ()
    token_forms: tuple[str, ...] | None = None
    # Entries by the name of their list, once they are fitted as `Gazetteers` has them.
    gazetteers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, table: object) -> TemplateSource:
        """Return the source of the fields that `asdict` has written; InputError for anything else."""
        names = {declared.name for declared in fields(cls)}
        if not isinstance(table, Mapping) or {*table} != names:
            raise InputError(
                f"templates: expected a table of {', '.join(sorted(names))}, got {describe(table)}"
            )
        settings = dict(table)

        def check(name: str, is_right: bool, expected: str) -> None:
            if not is_right:
                raise InputError(f"templates: {name}: expected {expected}, got {describe(settings[name])}")

        for name in ("columns", "shapes", "abbreviations", "token_forms"):
            texts = settings[name]
            if texts is not None or name != "token_forms":
                is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
                check(name, is_list and all(isinstance(text, str) for text in texts), "a list of texts")
                settings[name] = tuple(texts)
        for name in ("patterns", "windows", "words"):
            check(name, isinstance(settings[name], str), "a text")
        check("tokens", settings["tokens"] in TOKENIZER_NAMES, f"one of {', '.join(TOKENIZER_NAMES)}")
        forms, share = {*(settings["token_forms"] or ())}, settings["token_share"]
        check(
            "token_forms", forms <= {BLANK_WITHIN, STOP_AT_END}, f"some of {BLANK_WITHIN} and {STOP_AT_END}"
        )
        is_share = share is None or (type(share) in (int, float) and 0 <= share <= 1)
        check("token_share", is_share, "a number from 0 to 1")
        for name in ("transitions", "has_more_columns"):
            check(name, type(settings[name]) is bool, "true or false")
        settings["gazetteers"] = check_gazetteers(settings["gazetteers"])
        return cls(**settings)

    def settings(self, functions: Sequence[Function] = ()) -> Settings:
        """Return the parsed patterns; InputError for a malformed one (line named), an unknown column, a number out of
        range, or no features at all."""
        check_count("min_count", self.min_count, MAX_WIDTH)
        if self.n_hashed is not None:
            check_count("n_hashed", self.n_hashed, MAX_WIDTH)
            if self.min_count > 1:
                raise InputError(
                    "min_count: hashed features are not counted; give one of min_count and n_hashed"
                )
        patterns: tuple[Pattern, ...] = ()
        dialect, has_transitions = CRFPP, True
        if self.patterns:
            parsed = parse_patterns(self.patterns, self.columns, self.dialect)
            patterns, dialect = parsed.patterns, parsed.dialect
            has_transitions = parsed.n_edge_patterns == 1 or (self.transitions and not parsed.n_edge_patterns)
        if self.windows:
            patterns += parse_windows(self.windows, self.columns, self.has_ends)
        for column in self.shapes:
            self._check_column("shapes", column)
            patterns += word_shapes(column)
        if self.words:
            self._check_column("words", self.words)
            patterns += word_patterns(self.words, [name for name in self.columns if name != self.words])
        if not patterns and not functions:
            raise InputError("expected patterns, windows, shapes, words or functions, got none of them")
        if self.gazetteers and not self.columns:
            raise InputError("gazetteers: expected items with a column of words, got none")
        gazetteers = Gazetteers(self.gazetteers, self.columns[0]) if self.gazetteers else None
        for name in self.gazetteers:
            if name in self.columns:
                raise InputError(f"gazetteers: expected other names than those of columns, got {name!r}")
            patterns += neighbour_patterns(name)
        return Settings(
            patterns, dialect, self.min_count, self.n_hashed, tuple(functions), has_transitions, gazetteers
        )

    def _check_column(self, what: str, column: object) -> None:
        if column not in self.columns:
            raise InputError(
                f"{what}: expected columns out of {', '.join(self.columns)}, got {describe(column)}"
            )

    def fitted_to(self, columns: TokenColumns, settings: Settings) -> TemplateSource:
        """Return the source with the tokenizer that cuts raw text, unless raw text is no item, and the entries of
        gazetteers into the words of the training data."""
        takes_text = reads_words_alone(self.columns, settings)
        if not columns.texts or not (takes_text or self.gazetteers):
            return self
        best = choose_tokenizer(columns.first_texts(), columns.blanks_by_item(), columns.tokenizer)
        lists = {name: cut_entries(entries, best) for name, entries in self.gazetteers.items()}
        fitted = replace(self, gazetteers=lists)
        if not takes_text:
            return fitted
        marks = tuple(sorted(best.abbreviations))
        return replace(
            fitted, tokens=best.name, token_share=best.share, abbreviations=marks, token_forms=best.forms
        )

    def vocabulary(self, names: Sequence[str] | None) -> TemplateVocabulary:
        """Return the vocabulary whose column f is the feature names[f]; hashed features need no names."""
        settings = self.settings()
        if settings.n_hashed is not None:
            return TemplateVocabulary(Encoder(settings, {}, [], settings.n_hashed), asdict(self))
        if names is None:
            raise InputError("templates: the names of their features are missing")
        return TemplateVocabulary(Encoder.from_names(settings, names), asdict(self))


@dataclass(frozen=True)
class WindowFeatures:
    """Feature map of window templates, which needs no fit; `parse` makes one of their text."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(
        cls, text: str = CHUNKING_TEMPLATES, columns: Sequence[str] = ("w", "pos"), has_ends: bool = True
    ) -> WindowFeatures:
        """Read templates, separated by white space: parameters and errors as in `parse_windows`."""
        return cls(parse_windows(text, columns, has_ends))

    def encode(self, items: Iterable[Any]) -> Sequences:
        """Return the features of all positions.

        Parameters
        ----------
        items : TokenColumns, or sequence of I items, each a sequence of mappings `column -> text`

        Returns
        -------
        Sequences
            With the F features that occur, sorted by name; CSR of float32 ones.

        Raises
        ------
        InputError
            A position lacks a column, or its value is no text (position and column are named).
        """
        import scipy.sparse

        settings = Settings(self.patterns)
        columns = TokenColumns.from_items(items, settings.columns)
        encoder = Encoder.fit(settings, columns)
        encoded, names = encoder.transform(columns), encoder.names()
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(names), dtype=np.int32)
        by_number = encoded.matrix
        matrix = scipy.sparse.csr_array(
            (by_number.data, rank[by_number.indices], by_number.indptr), shape=by_number.shape
        )
        matrix.sort_indices()
        return Sequences(matrix, encoded.offsets, [names[column] for column in order])


class MergedNames:
    """The names of the features of batches or shards, the starts of their values (`Vocabulary.value_starts`), and the
    number of positions of each."""

    def __init__(self) -> None:
        self.starts: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    def add(self, names: Sequence[str], starts: Sequence[int], counts: Sequence[int]) -> None:
        """Add the names of a batch."""
        for name, start, count in zip(names, starts, counts, strict=True):
            if self.starts.setdefault(name, start) != start:
                self.starts[name] = UNKNOWN_VALUE
            self.counts[name] = self.counts.get(name, 0) + count

    def vocabulary(
        self, min_count: int, source: dict[str, Any] | None = None, has_attributes: bool = False
    ) -> Vocabulary:
        """Return the vocabulary of the frequent names, sorted; with a `source`, of templates."""
        names = sorted(name for name, count in self.counts.items() if min_count <= 1 or count >= min_count)
        if source is not None:
            return TemplateSource.from_dict(source).vocabulary(names)
        return Vocabulary(names, [self.starts[name] for name in names], has_attributes)
