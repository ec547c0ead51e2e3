"""Warnings of items without a feature that the model knows, as from features with other names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.column_watch import ColumnWatch
from crfqn.data.encoding import Sequences
from crfqn.data.token_rows import TokenRows, known_rows
from crfqn.data.vocabulary import UNSEEN, Pairs, Vocabulary
from crfqn.errors import UnknownFeaturesWarning, warn_caller, warns_of_items

# Calls of a model whose dicts are searched for keys without known values: the first ones, then one call in so many, as
# a search takes about a quarter of the time of labelling; and the number of positions that are searched in a call.
FIRST_CALLS, CALL_INTERVAL, MAX_POSITIONS = 16, 64, 1000


def warn_of_unknown(counts: NDArray[np.integer], n_positions: NDArray[np.integer] | None = None) -> None:
    """Warn of items without known features, given the number of known features of each, (I,). Items without positions
    are left out."""
    is_unknown = counts == 0 if n_positions is None else (counts == 0) & (n_positions > 0)
    n_unknown = int(is_unknown.sum())
    if n_unknown == 0 or not warns_of_items():
        return
    positions = "" if n_positions is None else f" ({n_positions[is_unknown].sum():,} positions)"
    message = (
        f"{n_unknown:,} of {counts.size:,} items{positions} have no feature that the model knows; "
        "their labels do not depend on them"
    )
    warn_caller(UnknownFeaturesWarning(message, n_unknown), UnknownFeaturesWarning)


def warn_of_empty_rows(X: object) -> None:
    """Warn of rows of a sparse matrix without entries, such as a vectorizer makes of unknown words."""
    if hasattr(X, "tocsr"):
        warn_of_unknown(np.diff(X.tocsr().indptr))


class KeyWatches:
    """Watches keys of dicts, and of texts `key=value`, to warn if the model knows a key but none of its values."""

    def __init__(self, pairs: Pairs, vocabulary: Vocabulary) -> None:
        self._pairs, self._vocabulary, self._n_calls = pairs, vocabulary, 0
        self._watches: dict[str, ColumnWatch] = {}

    def look(self, items: Iterable[object]) -> None:
        """Search positions of the items, in some of the calls."""
        self._n_calls += 1
        if self._n_calls > FIRST_CALLS and self._n_calls % CALL_INTERVAL:
            return
        texts: dict[str, list[str]] = {}
        listed = (item for item in items if isinstance(item, (list, tuple)))
        for position in islice(chain.from_iterable(listed), MAX_POSITIONS):
            if isinstance(position, Mapping):
                entries: Iterable[Any] = position.items()
            else:
                names = (name for name in position if isinstance(name, str))
                entries = ((key, value) for key, has, value in (name.partition("=") for name in names) if has)
            for key, value in entries:
                if type(value) is str:
                    texts.setdefault(key, []).append(value)
        for key, values in texts.items():
            if key in self._pairs:
                self._watch(key).look(values)

    def _watch(self, key: str) -> ColumnWatch:
        if key not in self._watches:
            known: Collection[Any] = self._pairs[key]
            if not any(isinstance(value, str) and value for value in known):
                known = ()  # a name without values
            self._watches[key] = ColumnWatch(
                key, known, was_seen=lambda value: f"{key}={value}" in self._vocabulary
            )
        return self._watches[key]


def warn_of_unknown_names(encoded: Sequences | TokenRows, items: Any, model: Any) -> None:
    """Warn of sequences without known features, and of keys without known values. `encoded`: the items in the model's
    columns; rows of names have only the features with weights."""
    vocabulary = model.vocabulary
    if isinstance(encoded, TokenRows) and vocabulary is not None and not vocabulary.encodes_items:
        model.key_watches.look(items)
    if (
        isinstance(encoded, TokenRows)
        and encoded.offsets.size == 2
        and encoded.rows.columns.max(initial=UNSEEN) >= 0
    ):
        return  # a quick test for a single sequence
    n_positions = np.diff(encoded.offsets)
    if isinstance(encoded, TokenRows) and vocabulary is not None and vocabulary.encodes_items:
        # Unknown features have no entry.
        warn_of_unknown(np.diff(encoded.rows.row_ends[encoded.offsets]), n_positions)
        return
    if not isinstance(encoded, TokenRows):
        matrix = encoded.matrix
        if hasattr(matrix, "indptr"):
            warn_of_unknown(np.diff(matrix.indptr[encoded.offsets]), n_positions)
        return
    counts = known_entries(encoded)
    suspects = np.flatnonzero((counts == 0) & (np.diff(encoded.rows.row_ends[encoded.offsets]) > 0))
    counts[counts == 0] = 1  # items without any feature have no unknown ones
    if suspects.size and vocabulary is not None:
        sequences = items if isinstance(items, Sequence) else list(items)
        rows = known_rows([sequences[i] for i in suspects.tolist()], vocabulary.pairs, len(vocabulary))
        counts[suspects] = known_entries(rows)
        warn_of_unknown(counts, n_positions)


def known_entries(rows: TokenRows) -> NDArray[np.int64]:
    """Return the number of entries of each item that have a column, (I,)."""
    n_before = np.concatenate([[0], np.cumsum(rows.rows.columns != UNSEEN)])
    return np.diff(n_before[rows.rows.row_ends[rows.offsets]])
