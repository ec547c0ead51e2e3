"""Features by functions of the user: a token in, a list of texts out, once for each distinct token.

A token is a dict `column -> text`. The feature of a text is called `<name of the function>=<text>`.

Shapes: N positions, D distinct tokens, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.token_columns import TokenColumns
from crfqn.errors import InputError
from crfqn.wording import describe, shorten

Function = Callable[[dict[str, str]], Iterable[str]]


class TokenFeatures:
    """Texts that functions give for the distinct tokens of a batch.

    Attributes
    ----------
    names : list of D lists of str
        Names of the features of each distinct token, in the order of first appearance.
    token_of : ndarray of int64, shape (N,)
        Distinct token of each position.
    """

    def __init__(self, columns: TokenColumns, functions: Sequence[Function]) -> None:
        number_of: dict[tuple[str, ...], int] = {}
        rows = zip(*columns.texts.values(), strict=True)
        self.token_of = np.fromiter(
            (number_of.setdefault(row, len(number_of)) for row in rows), np.int64, columns.n_positions
        )
        tokens = [dict(zip(columns.texts, row, strict=True)) for row in number_of]
        self.names = [
            [name for function in functions for name in _names(function, token)] for token in tokens
        ]

    def counts(self) -> dict[str, int]:
        """Return how often each name comes, at all positions."""
        found: dict[str, int] = {}
        times = np.bincount(self.token_of, minlength=len(self.names)).tolist()
        for names, n in zip(self.names, times, strict=True):
            for name in names:
                found[name] = found.get(name, 0) + n
        return found

    def rows(self, column_of: Callable[[str], int | None], n_features: int) -> Any:
        """Return the features of all positions, csr_array (N, F); names without a column are left out."""
        import scipy.sparse

        found = [[c for name in names if (c := column_of(name)) is not None] for names in self.names]
        indptr = np.cumsum([0, *map(len, found)])
        indices: NDArray[np.int32] = np.array([column for columns in found for column in columns], np.int32)
        parts = (np.ones(indices.size, np.float32), indices, indptr)
        by_token = scipy.sparse.csr_array(parts, shape=(len(found), n_features))
        return by_token[self.token_of]


def function_name(function: Function) -> str:
    """Return what the features of a function begin with; InputError for what is no function with a name."""
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        raise InputError(
            f"functions: expected functions `token -> list of texts` with a name, got {describe(function)}"
        )
    return name


def _names(function: Function, token: dict[str, str]) -> list[str]:
    found = function(dict(token))
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise InputError(
            f"{function_name(function)}({token}): expected a list of texts, got {describe(found)}"
        )
    texts = list(found)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{function_name(function)}({token}): expected texts, got {shorten(text)}")
    return [f"{function_name(function)}={text}" for text in texts]
