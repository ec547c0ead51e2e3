"""Encoding of users' sequences as matrices, the estimators' input (labels: `labels.py`).

Items may be 2-D arrays, or lists of positions that are dicts or lists of strings (`token_rows.py`). Columns come out
sorted, whatever the order of the items. Shapes: I items, N positions, F features.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from crfqn.data.items import check_any_position, check_is_list_of_items
from crfqn.data.matrices import check_matrix, is_matrix
from crfqn.data.sequences import Sequences
from crfqn.data.token_rows import TokenRows, can_be_read_again, growing_rows, known_rows
from crfqn.data.vocabulary import Pairs, Vocabulary
from crfqn.errors import InputError
from crfqn.messages import describe, place_of


def encode_sequences(
    X: Any, vocabulary: Vocabulary | None = None, allow_empty: bool = False, n_features: int | None = None
) -> tuple[Sequences, Vocabulary | None]:
    """Return the input of an estimator as Sequences, with the vocabulary of its columns, sorted; None for matrices.

    An item is a 2-D array or sparse matrix (positions x features), or a list of positions, each of them

    - a dict: of a number column `name` has this value, True is 1, and 0 leaves no entry (though the column exists); a
      string makes `name=value` 1 (as DictVectorizer has it), a list, tuple or set of strings each `name:string`, and a
      dict is read like one, under `name:` (as CRFsuite's bindings have it);
    - a list, tuple, set, 1-D array or other iterable of strings, each of which makes its column 1.

    A vocabulary of templates encodes token columns itself (`TokenColumns.from_items`). Entries of a position that meet
    in one column are summed, as by CRFsuite and FeatureHasher. Items may have no positions, positions no features; in
    prediction names that `vocabulary` lacks are ignored, `n_features` is the number of columns of a model without
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


def in_columns_of(X: Any, vocabulary: Vocabulary | None) -> Any:
    """Return items as they are, `Sequences` of other named columns with those of the vocabulary."""
    is_encoded = isinstance(X, Sequences) and (X.vocabulary is None or X.vocabulary is not vocabulary)
    if is_encoded and vocabulary is not None and X.feature_names is not None:
        return X.with_names(vocabulary.names)
    return X


def encode_new(
    X: Any, vocabulary: Vocabulary | None, n_features: int, find_pairs: Callable[[Vocabulary], Pairs]
) -> Sequences | TokenRows:
    """Return new items in a model's columns: `TokenRows` if given by name, which is soonest done, else as
    `encode_sequences`. `find_pairs` returns the pairs of the names that matter; items may be empty."""
    if isinstance(X, Sequences) or vocabulary is None:
        X = in_columns_of(X, vocabulary)
        return encode_sequences(X, vocabulary, allow_empty=True, n_features=n_features)[0]
    if vocabulary.encodes_items:
        return vocabulary.encode_rows(X)
    items = _as_items(X)
    first = _first_filled(items)
    if first is None or is_matrix(first):
        return encode_sequences(items, vocabulary, allow_empty=True)[0]
    return _known_rows(items, vocabulary, find_pairs(vocabulary))


def _encode_items(items: Sequence[Any], vocabulary: Vocabulary | None, n_features: int | None) -> Sequences:
    first = _first_filled(items)
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
    rows, vocabulary = growing_rows(items)
    return Sequences.from_checked(rows.matrix(), rows.offsets, vocabulary=vocabulary)


def _known_rows(items: Sequence[Any], vocabulary: Vocabulary, pairs: Pairs) -> TokenRows:
    """Return items in the columns of a vocabulary. Attributes of plain dicts and lists are looked up as they are, which
    takes a fraction of the time of making them."""
    if vocabulary.has_attributes and can_be_read_again(items):
        with suppress(InputError):  # of bytes, and of errors, which are told below
            return known_rows(items, pairs, len(vocabulary))
    return known_rows(vocabulary.named(items), pairs, len(vocabulary))


def _first_filled(items: Sequence[Any]) -> Any:
    """Return the first item that has positions, None for none."""
    return next((item for item in items if not _is_empty(item)), None)


def _as_items(X: Any) -> Sequence[Any]:
    if hasattr(X, "tocsr") or (isinstance(X, np.ndarray) and X.dtype != object and X.ndim != 3):
        raise InputError(
            "expected a list of items, got one matrix or array: cut it into items with "
            "crfqn.Sequences(matrix, offsets)"
        )
    check_is_list_of_items(
        X, "crfqn.Sequences or a list of items (2-D arrays, or lists of dicts or of lists of strings)"
    )
    return X if isinstance(X, (list, tuple)) else list(X)


def has_no_position(X: Any) -> bool:
    """Return whether no item of an estimator's input has positions."""
    if hasattr(X, "offsets"):
        return not X.offsets[-1]
    return isinstance(X, (list, tuple)) and all(map(_is_empty, X))


def _is_empty(item: Any) -> bool:
    return not is_matrix(item) and hasattr(item, "__len__") and len(item) == 0


# ---- items that are matrices


def _stack_matrices(items: Sequence[Any], n_features: int | None) -> Sequences:
    """Stack one matrix an item; an empty list stands for no rows."""
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
