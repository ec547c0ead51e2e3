"""Encoding of users' sequences as matrices, the estimators' input (labels: `labels.py`).

Items may be 2-D arrays, or lists of positions that are dicts or lists of strings. Columns come out sorted, so
that the result does not depend on the order of the items.
Long inputs go straight into flat buffers of 4 bytes a feature: no list of all entries exists.

Shapes: I items, N positions, F features.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.columns import BLOCK, check_sparse
from crfqn.data.features import check_not_empty
from crfqn.data.sequences import Sequences
from crfqn.data.templates.encoding.vocabulary import TemplateVocabulary
from crfqn.data.vocabulary import UNSEEN, GrowingColumns, PairColumns, Unplain, Vocabulary
from crfqn.errors import InputError
from crfqn.wording import describe, shorten

ONE = frozenset([1])
COLLECTIONS = (list, tuple, set, frozenset, Mapping)
PLAIN_TYPES = frozenset([str, bool, int, float])


def encode_sequences(
    X: Any,
    vocabulary: Vocabulary | None = None,
    allow_empty: bool = False,
    n_features: int | None = None,
) -> tuple[Sequences, Vocabulary | None]:
    """Return the input of an estimator as Sequences, with the vocabulary of its columns.

    Parameters
    ----------
    X : Sequences, or list of items
        Each item a 2-D array or sparse matrix (positions x features), or a list of positions. A position is

        - a dict of str to value: a number gives column `name` this value, True counts as 1, a number or
          boolean equal to 0 leaves no entry (though the column exists), a string gives column `name=value`
          the value 1 (the convention of scikit-learn's DictVectorizer); a list, tuple or set of strings gives each
          column `name:string` the value 1, and a dict is read like one, under `name:` (as CRFsuite's bindings have it);
        - a list, tuple, set or 1-D array of strings: each gives its column the value 1.

        Where the vocabulary is that of templates, items are token columns (`TokenColumns.from_items`).

        Entries of one position that meet in one column are summed: a string listed twice counts 2 (the
        convention of CRFsuite and of scikit-learn's FeatureHasher).
    vocabulary : Vocabulary, optional
        The columns to use (prediction): names that it lacks are ignored.
    allow_empty : bool
        Accept items without positions, and no items at all (prediction does).
    n_features : int, optional
        The number of columns that a model without vocabulary expects (prediction).

    Returns
    -------
    sequences : Sequences
        Matrix float64 (float32 if every value is 1), CSR and canonical, or dense for dense arrays.
    vocabulary : Vocabulary or None
        Columns sorted by name; None for matrices without names.

    Raises
    ------
    InputError
        Names the item, the position, the feature and what came, for anything else.
    """
    if vocabulary is not None:
        n_features = len(vocabulary)
    if isinstance(X, Sequences):
        sequences = X
    elif isinstance(vocabulary, TemplateVocabulary):
        sequences = vocabulary.encode(X)
    else:
        items = _as_items(X)
        first = next((item for item in items if not _is_empty(item)), None)
        if first is None and n_features is None:
            check_not_empty(np.zeros(len(items) + 1, np.int64))
            raise InputError("expected at least one position in at least one item, got only empty items")
        if first is None or _is_matrix(first):
            sequences = _stack_matrices(items, n_features)
        else:
            if vocabulary is None and n_features is not None:
                raise InputError(
                    f"expected matrices with {n_features} columns, as in training; features given by name "
                    "need a model that was trained on names"
                )
            sequences = _encode_tokens(items, vocabulary)
    if not allow_empty:
        check_not_empty(sequences.offsets)
    return sequences, _check_columns(sequences, vocabulary, n_features)


def _check_columns(
    sequences: Sequences, vocabulary: Vocabulary | None, n_features: int | None
) -> Vocabulary | None:
    if n_features is not None and sequences.n_features != n_features:
        raise InputError(f"expected {n_features} features, as in training, got {sequences.n_features}")
    if sequences.vocabulary is not None and (vocabulary is None or vocabulary is sequences.vocabulary):
        return sequences.vocabulary
    names = sequences.feature_names
    if names is None or vocabulary is None:
        return vocabulary if names is None else Vocabulary(names)
    if names is not vocabulary.names and names != vocabulary.names:
        column = next(i for i, name in enumerate(names) if name != vocabulary.names[i])
        raise InputError(
            f"expected the feature names of training, but column {column} is {names[column]!r} "
            f"instead of {vocabulary.names[column]!r}"
        )
    return vocabulary


def _as_items(X: Any) -> Sequence[Any]:
    if hasattr(X, "tocsr") or (isinstance(X, np.ndarray) and X.dtype != object and X.ndim != 3):
        raise InputError(
            "expected a list of items, got one matrix or array: cut it into items with "
            "crfqn.Sequences(matrix, offsets)"
        )
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise InputError(
            "expected crfqn.Sequences or a list of items (2-D arrays, or lists of dicts or of lists of "
            f"strings), got {describe(X)}"
        )
    return X if isinstance(X, (list, tuple)) else list(X)


def _is_matrix(item: Any) -> bool:
    if isinstance(item, np.ndarray):
        return item.dtype.kind not in "OUST"
    return hasattr(item, "tocsr") or (hasattr(item, "__array__") and not isinstance(item, np.generic))


def _is_empty(item: Any) -> bool:
    return not _is_matrix(item) and hasattr(item, "__len__") and len(item) == 0


# ---- items that are matrices


def _stack_matrices(items: Sequence[Any], n_features: int | None) -> Sequences:
    """Stack one matrix an item; an empty list stands for no rows."""
    matrices = []
    for i, item in enumerate(items):
        if _is_empty(item):
            matrices.append(np.empty((0, 0)))
            continue
        if not _is_matrix(item):
            raise InputError(f"item {i}: expected a matrix like the items before, got {describe(item)}")
        matrix = item if hasattr(item, "tocsr") else np.asarray(item)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise InputError(
                f"item {i}: expected a 2-D matrix (positions x features) of booleans or real numbers, "
                f"got shape {matrix.shape} and dtype {matrix.dtype}"
            )
        if not matrix.shape[1] and matrix.shape[0]:
            raise InputError(f"item {i}: expected at least one feature, got shape {matrix.shape}")
        try:
            check_sparse(matrix)
        except InputError as error:
            raise InputError(f"item {i}: {error}") from None
        n_features = matrix.shape[1] if n_features is None else n_features
        if matrix.shape[1] != n_features:
            raise InputError(f"item {i}: expected {n_features} features, got {matrix.shape[1]}")
        matrices.append(matrix)
    offsets = np.cumsum([0, *(matrix.shape[0] for matrix in matrices)])
    # The empty lists are left out: their dtype would widen that of the whole.
    filled = [matrix for matrix in matrices if matrix.shape[1]] or [np.empty((0, n_features or 0))]
    if not any(hasattr(matrix, "tocsr") for matrix in filled):
        return Sequences(np.concatenate(filled), offsets)
    import scipy.sparse

    return Sequences(scipy.sparse.vstack([scipy.sparse.csr_array(m) for m in filled], format="csr"), offsets)


# ---- items that are lists of dicts or strings


class _Buffers:
    """Growing buffers of a CSR matrix: the columns of all entries so far, and the ends of the rows."""

    def __init__(self, columns: dict[str, int], pairs: PairColumns) -> None:
        self.columns_by_name, self.columns_by_pair = columns, pairs
        self.columns = array("i")
        # Most values are 1, so only the others are kept, with where in `columns` they belong.
        self.other_values, self.other_at = array("d"), array("q")
        self.row_ends = array("q", [0])
        self._add_dict = self._add_pairs

    def add(self, position: Any) -> None:
        """Append a position; any exception means that it is malformed: `_what_is_wrong` says how."""
        if isinstance(position, (dict, Mapping)):
            self._add_dict(position)
        elif isinstance(position, (list, tuple, set, frozenset)) or _is_string_row(position):
            self.columns.extend(map(self.columns_by_name.__getitem__, position))
        else:
            raise TypeError
        self.row_ends.append(len(self.columns))

    def _add_pairs(self, position: Mapping[str, Any]) -> None:
        """Append a position whose values are all 1, or else strings, booleans, 1 or 0, or else of any kind."""
        values, before = position.values(), len(self.columns)
        try:
            if ONE.issuperset(values):
                self.columns.extend(map(self.columns_by_name.__getitem__, position))
                return
            self.columns.extend(map(getitem, map(self.columns_by_pair.__getitem__, position), values))
        except (Unplain, TypeError):  # lists, sets and dicts cannot be keys
            del self.columns[before:]
            self._add_each(position)

    def _add_each(self, position: Mapping[str, Any]) -> None:
        """Append a position with values of any kind; the next position is first taken for one like it."""
        column_of, pairs, append = self.columns_by_name, self.columns_by_pair, self.columns.append
        n_others = len(self.other_at)
        for key, value in position.items():
            if type(value) not in PLAIN_TYPES:
                if isinstance(value, COLLECTIONS):
                    self._add_each(nested(key, value))
                    continue
                value = _plain(value)
            is_pair = type(value) is str
            column = pairs[key][value] if is_pair else column_of[key]
            if is_pair or value == 1:
                append(column)
            elif value != 0:
                if not math.isfinite(value):
                    raise ValueError
                if column != UNSEEN:
                    self.other_values.append(value)
                    self.other_at.append(len(self.columns))
                append(column)
        self._add_dict = self._add_each if len(self.other_at) > n_others else self._add_pairs

    def matrix(self, n_features: int, rank: NDArray[np.int32] | None) -> Any:
        """Return the entries as a CSR matrix, column c moved to rank[c]."""
        import scipy.sparse

        columns, row_ends = np.frombuffer(self.columns, np.int32), np.frombuffer(self.row_ends, np.int64)
        values = np.ones(columns.size, np.float64 if self.other_at else np.float32)
        values[np.frombuffer(self.other_at, np.int64)] = np.frombuffer(self.other_values)
        is_seen = columns != UNSEEN
        if not is_seen.all():
            row_ends = np.concatenate([[0], np.cumsum(is_seen)])[row_ends]
            columns, values = columns[is_seen], values[is_seen]
        if rank is not None:
            for start in range(0, columns.size, BLOCK):
                columns[start : start + BLOCK] = rank[columns[start : start + BLOCK]]
        if columns.size < 2**31:  # scipy wants one dtype for both
            row_ends = row_ends.astype(np.int32)
        matrix = scipy.sparse.csr_array((values, columns, row_ends), shape=(row_ends.size - 1, n_features))
        matrix.sum_duplicates()
        return matrix


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return a collection under `key` as features: "key:name" of each string, of each entry of a dict its value."""
    if not isinstance(key, str):
        raise TypeError
    if isinstance(value, Mapping):
        return {f"{key}:{_checked(name)}": inner for name, inner in value.items()}
    counts = Counter(map(_checked, value))
    return {f"{key}:{name}": count for name, count in counts.items()}


def _checked(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _plain(value: Any) -> str | bool | float:
    """Return a value of another type (numpy's, fractions) as one of PLAIN_TYPES; TypeError if it is none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError("a feature value must be a number, boolean or string")


def _encode_tokens(items: Sequence[Any], vocabulary: Vocabulary | None) -> Sequences:
    if vocabulary is None:
        growing = GrowingColumns()
        buffers = _Buffers(growing, PairColumns(growing))
    else:
        buffers = _Buffers(vocabulary.columns, vocabulary.pairs)
    offsets = array("q", [0])
    for i, item in enumerate(items):
        if not isinstance(item, (list, tuple, np.ndarray)) or _is_matrix(item):
            raise InputError(f"item {i}: expected a list of positions, got {describe(item)}")
        for t, position in enumerate(item):
            try:
                buffers.add(position)
            except (TypeError, ValueError, OverflowError):
                reason = _what_is_wrong(position)
                if reason is None:
                    raise
                raise InputError(f"item {i}, position {t}: {reason}") from None
        offsets.append(len(buffers.row_ends) - 1)
    if vocabulary is not None:
        matrix = buffers.matrix(len(vocabulary), None)
        return Sequences.from_checked(matrix, np.array(offsets, np.int64), vocabulary.names)
    found = list(buffers.columns_by_name)
    order = sorted(range(len(found)), key=found.__getitem__)
    rank = np.empty(len(found), np.int32)
    rank[order] = np.arange(len(found))
    return Sequences(buffers.matrix(len(found), rank), offsets, [found[column] for column in order])


def _is_string_row(position: Any) -> bool:
    return isinstance(position, np.ndarray) and position.ndim == 1 and position.dtype.kind in "OUT"


def _what_is_wrong(position: Any) -> str | None:
    """Return why `_Buffers.add` refuses a position; None if it should not have."""
    if isinstance(position, str):
        return f"expected a dict or a list of strings, got the single string {shorten(position)}"
    if isinstance(position, Mapping):
        for key, value in position.items():
            if not isinstance(key, str):
                return f"expected feature names that are strings, got {describe(key)}"
            if isinstance(value, (str, np.bool_)):
                continue
            if isinstance(value, COLLECTIONS):
                reason = _what_is_wrong(value)
                if reason is not None:
                    return f"feature {shorten(key)}: {reason}"
                continue
            if not isinstance(value, Real):
                expected = "a number, boolean, string, list or dict"
                return f"feature {shorten(key)}: expected {expected}, got {describe(value)}"
            try:
                is_finite = math.isfinite(value)
            except OverflowError:
                return f"feature {shorten(key)}: the number is too large for a float, {shorten(value)}"
            if not is_finite:
                return f"feature {shorten(key)}: expected a finite number, got {value}"
        return None
    if isinstance(position, (list, tuple, set, frozenset)) or _is_string_row(position):
        for name in position:
            if not isinstance(name, str):
                hint = "; for numbers, pass each item as a 2-D array" if isinstance(name, Real) else ""
                return f"expected a list of strings, but it contains {describe(name)}{hint}"
        return None
    return f"expected a dict or a list of strings, got {describe(position)}"
