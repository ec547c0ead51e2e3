"""Window features of items, with names in alphabetical order: templates that need no fit of their own.

Shapes: I items, N positions, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crfqn.data.sequences import Sequences
from crfqn.data.templates.encoding.encoder import Encoder, Settings
from crfqn.data.templates.patterns.pattern import Pattern
from crfqn.data.templates.patterns.windows import CHUNKING, parse_windows
from crfqn.data.token_columns import TokenColumns


@dataclass(frozen=True)
class WindowFeatures:
    """Feature map of window templates; `parse` makes one of their text.

    Parameters
    ----------
    patterns : tuple of Pattern
    """

    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(
        cls, text: str = CHUNKING, columns: Sequence[str] = ("w", "pos"), has_ends: bool = True
    ) -> WindowFeatures:
        """Read templates, separated by white space: parameters and errors as in `parse_windows`."""
        return cls(parse_windows(text, columns, has_ends))

    def encode(self, items: Any) -> Sequences:
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
            A position lacks a column, or has something else than a text there (both are named).
        """
        import scipy.sparse

        settings = Settings(self.patterns)
        columns = TokenColumns.from_items(items, settings.columns)
        encoder = Encoder.fit(settings, columns)
        encoded, names = encoder.transform(columns), encoder.names()
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(names), dtype=np.int32)
        found = encoded.matrix
        matrix = scipy.sparse.csr_array((found.data, rank[found.indices], found.indptr), shape=found.shape)
        matrix.sort_indices()
        return Sequences(matrix, encoded.offsets, [names[column] for column in order])
