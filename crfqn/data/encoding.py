"""Sequences, which store the positions of all items as the rows of one matrix, and the encoding of users' items as
sequences: the input of the estimators (labels: `label_arrays.py`).

Items may be 2-D arrays, or lists of positions that are dicts or lists of strings (`token_rows.py`). Columns are sorted,
whatever the order of the items. Shapes: I items, N positions, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.attribute_items import AttributeItems
from crfqn.data.inputs import ItemsLike, SparseMatrix
from crfqn.data.items import (
    Items,
    check_any_position,
    check_is_list_of_items,
    check_offsets,
    check_values,
    locate,
    positions_of,
)
from crfqn.data.matrices import check_matrix, is_matrix
from crfqn.data.token_rows import TokenRows, can_be_read_again, growing_rows, known_rows
from crfqn.data.vocabulary import Pairs, Vocabulary, check_feature_names
from crfqn.errors import InputError
from crfqn.messages import describe, place_of


class Sequences(Items):
    """List of sequences, stored as one matrix of positions x features.

    Parameters
    ----------
    matrix : scipy.sparse matrix or array, or 2-D array-like, shape (N, F)
        Booleans or real numbers up to 1e12 in size. CSR and arrays are kept without a copy, other sparse formats
        become CSR.
    offsets : array-like of int, shape (I + 1,)
        Item i has the rows offsets[i] ... offsets[i + 1] - 1; starts at 0, never decreases, ends at N.
    feature_names : sequence of str, optional
        Names of the F columns, each one once.

    Attributes
    ----------
    matrix, offsets, feature_names
        As above, `offsets` as an array of int64 and `feature_names` as a list or None.

    Raises
    ------
    InputError
        For shapes, types, offsets or names that do not fit, and for numbers that are not finite or too large.

    Examples
    --------
    >>> import numpy as np
    >>> words = Sequences(np.eye(5), [0, 2, 5])
    >>> len(words), words[1].shape, words[[1, 0]].lengths.tolist()
    (2, (3, 5), [3, 2])
    """

    matrix: Any  # an array, or a sparse one in the format CSR

    def __init__(
        self, matrix: NDArray | SparseMatrix, offsets: ArrayLike, feature_names: Sequence[str] | None = None
    ) -> None:
        is_sparse = hasattr(matrix, "tocsr")
        try:
            self.matrix = matrix if is_sparse else np.asarray(matrix)
        except ValueError:  # numpy's refusal of ragged nesting
            raise InputError(
                "expected a 2-D matrix (positions x features), got rows of different lengths"
            ) from None
        check_matrix(self.matrix)
        if is_sparse:
            self.matrix = self.matrix.tocsr()
        self.offsets: NDArray[np.int64] = check_offsets(offsets, self.matrix.shape[0])
        self.n_features = int(self.matrix.shape[1])
        self._names = None if feature_names is None else check_feature_names(feature_names, self.n_features)
        self.vocabulary: Vocabulary | None = None
        check_values(self.matrix, partial(locate, self.offsets), self._names)

    @classmethod
    def from_checked(
        cls,
        matrix: NDArray | SparseMatrix,
        offsets: NDArray[np.int64],
        feature_names: list[str] | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> Sequences:
        """Return sequences of parts known to fit, without the checks, which dominate the time of one sentence. The
        `vocabulary` that encoded them makes the names of the columns on request."""
        sequences = object.__new__(cls)
        sequences.matrix, sequences.offsets, sequences._names = matrix, offsets, feature_names
        sequences.vocabulary, sequences.n_features = vocabulary, int(matrix.shape[1])
        return sequences

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the F columns, None if they have none; those of templates are made at the first call."""
        return self._names if self.vocabulary is None else self.vocabulary.names

    def __repr__(self) -> str:
        if isinstance(self.matrix, np.ndarray):
            storage = f"dense {self.matrix.dtype}"
        else:
            storage = f"CSR {self.matrix.dtype}, {self.matrix.nnz} stored"
        named = ", named" if self._names is not None or self.vocabulary is not None else ""
        return (
            f"Sequences({len(self)} items, {self.n_positions} positions, "
            f"{self.n_features} features{named}, {storage})"
        )

    def with_names(self, names: list[str]) -> Sequences:
        """Return the same items with the columns of these names, empty for a new one; InputError if columns have no
        names."""
        if self.feature_names is None:
            raise InputError("the columns have no names to choose them by")
        if names is self.feature_names or names == self.feature_names:
            return self
        import scipy.sparse

        column_of = {name: column for column, name in enumerate(self.feature_names)}
        pairs = [(column_of[name], new) for new, name in enumerate(names) if name in column_of]
        old, new = np.array(pairs, np.int64).reshape(-1, 2).T
        selector = scipy.sparse.coo_array(
            (np.ones(old.size, self.matrix.dtype), (old, new)), shape=(self.n_features, len(names))
        )
        matrix = scipy.sparse.csr_array(self.matrix @ selector.tocsr())
        return Sequences(matrix, self.offsets, names)

    def _item(self, i: int) -> NDArray | SparseMatrix:
        return self.matrix[self.offsets[i] : self.offsets[i + 1]]

    def _take(self, items: NDArray[np.integer]) -> Sequences:
        rows: slice | NDArray[np.int64]
        if items.size and items[-1] - items[0] == items.size - 1 and (np.diff(items) == 1).all():
            cuts = self.offsets[items[0] : items[-1] + 2]
            rows, cuts = slice(cuts[0], cuts[-1]), cuts - cuts[0]
        else:
            rows, cuts = positions_of(self.offsets, items)
        # The names are shared, because they may be millions.
        return self.from_checked(self.matrix[rows], cuts, self._names, self.vocabulary)


def encode_sequences(
    X: ItemsLike,
    vocabulary: Vocabulary | None = None,
    allow_empty: bool = False,
    n_features: int | None = None,
) -> tuple[Sequences, Vocabulary | None]:
    """Return the input of an estimator as Sequences, with the vocabulary of its columns, sorted; None for matrices.

    An item is a 2-D array or sparse matrix (positions x features), or a list of positions, each of them

    - a dict: a number is the value of the column `name`, True is 1, and 0 gives no entry (but the column exists); a
      string makes `name=value` 1 (as in DictVectorizer), a list, tuple or set of strings each `name:string`, and a
      nested dict gives its own columns the prefix `name:` (as in CRFsuite's bindings);
    - a list, tuple, set, 1-D array or other iterable of strings, each of which makes its column 1.

    A vocabulary of templates encodes token columns itself (`TokenColumns.from_items`). A position's entries in the same
    column are summed, as by CRFsuite and FeatureHasher. Items may have no positions, and positions no features; in
    prediction, names that `vocabulary` lacks are ignored, `n_features` is the number of columns of a model without
    names, and `allow_empty` accepts no position at all. The matrix is float64 (float32 if every value is 1), CSR and
    canonical, or dense for dense arrays.
    InputError names the item, the position, the feature and what came, for anything else.
    """
    if vocabulary is not None:
        n_features = len(vocabulary)
    if isinstance(X, Sequences):
        sequences = X
    elif vocabulary is not None and vocabulary.encodes_items:
        sequences = vocabulary.encode(X)
    else:
        sequences = _encode_items(_as_items(X), vocabulary, n_features)
    if not allow_empty:
        check_any_position(sequences.offsets)
    if n_features is not None and sequences.n_features != n_features:
        raise InputError(f"expected {n_features} features, as in training, got {sequences.n_features}")
    if sequences.vocabulary is not None and (vocabulary is None or vocabulary is sequences.vocabulary):
        return sequences, sequences.vocabulary
    names = sequences.feature_names
    if names is None or vocabulary is None:
        return sequences, vocabulary if names is None else Vocabulary(names)
    if names is not vocabulary.names and names != vocabulary.names:
        column = next(i for i, name in enumerate(names) if name != vocabulary.names[i])
        raise InputError(
            f"expected the feature names of training, but column {column} is {names[column]!r} "
            f"instead of {vocabulary.names[column]!r}"
        )
    return sequences, vocabulary


def in_columns_of(X: ItemsLike, vocabulary: Vocabulary | None) -> ItemsLike:
    """Return `Sequences` of other named columns with the columns of the vocabulary, other items unchanged."""
    if not isinstance(X, Sequences) or vocabulary is None or X.vocabulary is vocabulary:
        return X
    return X if X.feature_names is None else X.with_names(vocabulary.names)


def encode_new(
    X: ItemsLike, vocabulary: Vocabulary | None, n_features: int, find_pairs: Callable[[Vocabulary], Pairs]
) -> Sequences | TokenRows:
    """Return new items in a model's columns: as `TokenRows`, which is fastest, if given by name, else as
    `encode_sequences`. `find_pairs` returns the pairs of the names with weights; items may be empty."""
    if isinstance(X, Sequences) or vocabulary is None:
        X = in_columns_of(X, vocabulary)
        return encode_sequences(X, vocabulary, allow_empty=True, n_features=n_features)[0]
    if vocabulary.encodes_items:
        return vocabulary.encode_rows(X)
    items = _as_items(X)
    first = next((item for item in items if not _is_empty(item)), None)
    if first is None or is_matrix(first):
        return encode_sequences(items, vocabulary, allow_empty=True)[0]
    return _known_rows(items, vocabulary, find_pairs(vocabulary))


def _encode_items(items: Sequence[Any], vocabulary: Vocabulary | None, n_features: int | None) -> Sequences:
    first = next((item for item in items if not _is_empty(item)), None)
    if first is None and n_features is None:
        check_any_position(np.zeros(len(items) + 1, np.int64))
    if first is None or is_matrix(first):
        return _stack_matrices(items, n_features)
    if vocabulary is not None:
        rows = _known_rows(items, vocabulary, vocabulary.pairs)
        return Sequences.from_checked(rows.matrix(), rows.offsets, vocabulary.names)
    if n_features is not None:
        raise InputError(
            f"expected matrices with {n_features} columns, as in training; features given by name "
            "need a model that was trained on names"
        )
    rows, vocabulary = items.encode_new() if isinstance(items, AttributeItems) else growing_rows(items)
    return Sequences.from_checked(rows.matrix(), rows.offsets, vocabulary=vocabulary)


def _known_rows(items: Sequence[Any], vocabulary: Vocabulary, pairs: Pairs) -> TokenRows:
    """Return items in the columns of a vocabulary. The columns of attributes of plain dicts and lists are found without
    making their strings, which takes a fraction of the time."""
    if isinstance(items, AttributeItems):
        return items.encode(pairs.columns, len(vocabulary))
    if vocabulary.has_attributes and can_be_read_again(items):
        with suppress(InputError):  # for bytes; other errors are raised below
            return known_rows(items, pairs, len(vocabulary))
    return known_rows(vocabulary.named(items), pairs, len(vocabulary))


def _as_items(X: ItemsLike) -> Sequence[Any]:
    if hasattr(X, "tocsr") or (isinstance(X, np.ndarray) and X.dtype != object and X.ndim != 3):
        raise InputError(
            "expected a list of items, got one matrix or array: cut it into items with "
            "crfqn.Sequences(matrix, offsets)"
        )
    check_is_list_of_items(
        X, "crfqn.Sequences or a list of items (2-D arrays, or lists of dicts or of lists of strings)"
    )
    return X if isinstance(X, (list, tuple, AttributeItems)) else list(X)


def has_no_position(X: object) -> bool:
    """Return whether no item of an estimator's input has positions."""
    if hasattr(X, "offsets"):
        return not X.offsets[-1]
    return isinstance(X, (list, tuple)) and all(map(_is_empty, X))


def _is_empty(item: object) -> bool:
    return not is_matrix(item) and isinstance(item, Sized) and len(item) == 0


# ---- items that are matrices


def _stack_matrices(items: Sequence[Any], n_features: int | None) -> Sequences:
    """Stack one matrix an item; an empty list means no rows."""
    filled = []
    lengths = [0] * len(items)
    for i, item in enumerate(items):
        if _is_empty(item):
            continue
        if not is_matrix(item):
            raise InputError(f"{place_of(i)}: expected a matrix like the items before, got {describe(item)}")
        matrix = item if hasattr(item, "tocsr") else np.asarray(item)
        try:
            check_matrix(matrix)
        except InputError as error:
            raise InputError(f"{place_of(i)}: {error}") from None
        n_features = matrix.shape[1] if n_features is None else n_features
        if matrix.shape[1] != n_features:
            raise InputError(f"{place_of(i)}: expected {n_features} features, got {matrix.shape[1]}")
        filled.append(matrix)
        lengths[i] = matrix.shape[0]
    offsets = np.cumsum([0, *lengths])
    filled = filled or [np.empty((0, n_features or 0))]
    if not any(hasattr(matrix, "tocsr") for matrix in filled):
        return Sequences(np.concatenate(filled), offsets)
    import scipy.sparse

    return Sequences(scipy.sparse.vstack([scipy.sparse.csr_array(m) for m in filled], format="csr"), offsets)
