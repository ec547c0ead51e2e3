"""What templates are made of, as users and model files write it: texts, names of columns and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from crfqn.data.templates.encoding.encoder import Encoder, Settings
from crfqn.data.templates.encoding.functions import Function
from crfqn.data.templates.encoding.vocabulary import TemplateVocabulary
from crfqn.data.templates.patterns.pattern import Pattern
from crfqn.data.templates.patterns.pattern_file import CRFPP, parse_patterns
from crfqn.data.templates.patterns.windows import parse_windows, word_shapes
from crfqn.data.templates.patterns.words import word_patterns
from crfqn.errors import InputError
from crfqn.wording import describe

LARGEST_WIDTH = 2**31 - 1


@dataclass(frozen=True)
class TemplateSource:
    """Source of templates.

    Parameters
    ----------
    columns : tuple of str
        The columns by their numbers in pattern files.
    patterns : str
        Text of a pattern file; "" for none.
    dialect : {"crf++", "wapiti"} or None
        See `parse_patterns`.
    windows : str
        Window templates; "" for none.
    has_ends : bool
        Whether windows mark the first and the last position.
    shapes : tuple of str
        Columns whose forms (`word_shapes`) are features.
    min_count : int
        Features at fewer positions of the training data are left out.
    n_hashed : int or None
        Number of columns that all features share by hashing.
    words : str
        The column of words, for the features of a first tagger (`word_patterns`) of it and all others; "" for none.
    """

    columns: tuple[str, ...]
    patterns: str = ""
    dialect: str | None = None
    windows: str = ""
    has_ends: bool = True
    shapes: tuple[str, ...] = ()
    min_count: int = 1
    n_hashed: int | None = None
    words: str = ""

    @classmethod
    def from_dict(cls, table: Any) -> TemplateSource:
        """Return what `as_dict` has written; InputError for anything else."""
        names = {field.name for field in fields(cls)}
        if not isinstance(table, Mapping) or {*table} | {"words"} != names:  # there was none at first
            raise InputError(
                f"templates: expected a table of {', '.join(sorted(names))}, got {describe(table)}"
            )
        found = dict(table)
        for name in ("columns", "shapes"):
            if not isinstance(found[name], Sequence) or not all(
                isinstance(text, str) for text in found[name]
            ):
                raise InputError(f"templates: {name}: expected a list of texts, got {describe(found[name])}")
            found[name] = tuple(found[name])
        for name in ("patterns", "windows", "words"):
            if not isinstance(found.setdefault(name, ""), str):
                raise InputError(f"templates: {name}: expected a text, got {describe(found[name])}")
        return cls(**found)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return asdict(self)

    def settings(self, functions: Sequence[Function] = ()) -> Settings:
        """Return the patterns, parsed, with all numbers checked.

        Raises
        ------
        InputError
            A pattern that is none (line named), a column that is not there, a number out of range, no features at all.
        """
        _check_count("min_count", self.min_count, LARGEST_WIDTH)
        if self.n_hashed is not None:
            _check_count("n_hashed", self.n_hashed, LARGEST_WIDTH)
            if self.min_count > 1:
                raise InputError(
                    "min_count: hashed features are not counted; give one of min_count and n_hashed"
                )
        found: tuple[Pattern, ...] = ()
        dialect = CRFPP
        if self.patterns:
            parsed = parse_patterns(self.patterns, self.columns, self.dialect)
            found, dialect = parsed.patterns, parsed.dialect
        if self.windows:
            found += parse_windows(self.windows, self.columns, self.has_ends)
        for column in self.shapes:
            self._check_column("shapes", column)
            found += word_shapes(column)
        if self.words:
            self._check_column("words", self.words)
            found += word_patterns(self.words, [name for name in self.columns if name != self.words])
        if not found and not functions:
            raise InputError("expected patterns, windows, shapes, words or functions, got none of them")
        return Settings(found, dialect, self.min_count, self.n_hashed, tuple(functions))

    def _check_column(self, what: str, column: Any) -> None:
        if column not in self.columns:
            raise InputError(
                f"{what}: expected columns out of {', '.join(self.columns)}, got {describe(column)}"
            )

    def has_edges(self) -> bool:
        """Return whether the patterns ask for weights of neighbouring labels; true without a pattern file."""
        return not self.patterns or parse_patterns(self.patterns, self.columns, self.dialect).has_edges

    def vocabulary(self, names: Sequence[str] | None) -> TemplateVocabulary:
        """Return the vocabulary whose column f is the feature names[f]; hashed features need no names."""
        settings = self.settings()
        if settings.n_hashed is not None:
            return TemplateVocabulary(Encoder(settings, {}, [], settings.n_hashed), self.as_dict())
        if names is None:
            raise InputError("templates: the names of their features are missing")
        return TemplateVocabulary(Encoder.from_names(settings, names), self.as_dict())


def _check_count(name: str, value: Any, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise InputError(f"{name}: expected a whole number from 1 to {most}, got {describe(value)}")
