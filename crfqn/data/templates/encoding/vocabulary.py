"""Vocabulary of templates: columns of features by arithmetic on token columns, with names when they are asked for.

It stands where a `Vocabulary` of names does in a model, so that a model trained on templates encodes token columns
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.sequences import Sequences
from crfqn.data.templates.encoding.encoder import Encoder
from crfqn.data.templates.encoding.functions import function_name
from crfqn.data.token_columns import TokenColumns
from crfqn.data.vocabulary import NO_VALUE, KnownColumns, Vocabulary
from crfqn.errors import InputError


class TemplateVocabulary(Vocabulary):
    """Vocabulary of an encoder's features.

    Parameters
    ----------
    encoder : Encoder
    source : dict
        What the templates were made of, as JSON values; a model file keeps it.
    """

    def __init__(self, encoder: Encoder, source: dict[str, Any]) -> None:
        self.encoder, self.source = encoder, source

    @cached_property
    def names(self) -> list[str]:  # type: ignore[override]
        """Names of the columns; "hash 17" where features are hashed."""
        if is_hashed(self):
            return [f"hash {column}" for column in range(len(self))]
        return self.encoder.names()

    @cached_property
    def columns(self) -> dict[str, int]:  # type: ignore[override]
        """Columns by name."""
        return KnownColumns(zip(self.names, range(len(self)), strict=True))

    @cached_property
    def value_starts(self) -> NDArray[np.int32]:  # type: ignore[override]
        """Names stand for themselves."""
        return np.full(len(self), NO_VALUE, np.int32)

    def encode(self, items: Any) -> Sequences:
        """Return the features of token columns, or of items in any form that `TokenColumns.from_items` takes."""
        columns = TokenColumns.from_items(items, self.source["columns"], self.encoder.settings.columns)
        encoded = self.encoder.transform(columns)
        return Sequences.from_checked(encoded.matrix, encoded.offsets, vocabulary=self)

    def stored_source(self) -> dict[str, Any]:
        """Return the source; InputError where there are functions, whose code a model file does not keep."""
        if self.encoder.settings.functions:
            names = ", ".join(map(function_name, self.encoder.settings.functions))
            raise InputError(
                f"a model file keeps no code, and features come from functions ({names}): pickle the pipeline"
            )
        return self.source

    def __len__(self) -> int:
        return self.encoder.n_features

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.names == other.names)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.encoder, self.source)

    def __repr__(self) -> str:
        return f"TemplateVocabulary({len(self)} features of {len(self.encoder.settings.patterns)} templates)"


def is_hashed(vocabulary: Vocabulary) -> bool:
    """Return whether features share columns, which have no names then."""
    return isinstance(vocabulary, TemplateVocabulary) and vocabulary.encoder.settings.n_hashed is not None
