"""Items with a dense and a sparse block of features, such as the vectors of words and the words.

Shapes: I items, N positions, D dense features. A list of items for users, estimators and scikit-learn (length, slices,
index arrays, masks); it needs numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.inputs import ItemsLike
from crfqn.data.items import Items, check_values, locate, positions_of
from crfqn.errors import DataError, InputError
from crfqn.messages import describe, place_of

if TYPE_CHECKING:
    from pathlib import Path


class Features(Items):
    """Items of two blocks: dense numbers, and features in any form that an estimator takes.

    Parameters
    ----------
    dense : array-like of shape (I, D), or a list of I arrays of shape (T_i, D)
        Real numbers up to 1e12 in size: a row an item, or for sequences an array an item, a row a position. With
        `crfqn.Sequences` and token columns, an array (N, D) has a row a position.
    sparse : matrix, or list of I items
        The estimator's input without a dense block: a sparse matrix or array of shape (I, F), or sequences such as
        lists of dicts.

    Attributes
    ----------
    dense : ndarray, shape (I, D) or (N, D); offsets : int64 (I + 1,), the rows of item i are offsets[i] ...
        offsets[i + 1] - 1; sparse : as given

    Raises
    ------
    InputError
        For blocks of different numbers of items or positions, arrays that do not fit together, and numbers that are
        not finite or too large, naming the item.

    Examples
    --------
    >>> import numpy as np
    >>> words = Features([np.eye(2), np.ones((1, 2))], [[{"w": "a"}, {"w": "b"}], [{"w": "c"}]])
    >>> len(words), words[1]
    (2, (array([[1., 1.]]), [{'w': 'c'}]))
    """

    sparse: Any  # items in one of the forms of `ItemsLike`, those of no length as a list

    def __init__(self, dense: Iterable[ArrayLike], sparse: ItemsLike) -> None:
        if hasattr(sparse, "tocsr"):
            self.sparse = sparse.tocsr()
        else:
            self.sparse = sparse if hasattr(sparse, "shape") else list(sparse)
        n_items = self.sparse.shape[0] if hasattr(sparse, "shape") else len(self.sparse)
        dense = dense if isinstance(dense, np.ndarray) else list(dense)
        # The first item of a list may have no positions.
        first_rows = dense if isinstance(dense, list) else dense[:1]
        self.has_positions = hasattr(self.sparse, "offsets") or any(np.ndim(rows) == 2 for rows in first_rows)
        if self.has_positions and not (isinstance(dense, np.ndarray) and dense.ndim == 2):
            _check_count(len(dense), n_items)
            # An empty list means no rows.
            filled = {i: _numbers(rows, f"{place_of(i)}: dense") for i, rows in enumerate(dense) if len(rows)}
            if not filled:
                raise InputError("dense: expected at least one position, got none")
            n_columns = next(iter(filled.values())).shape[1]
            for i, rows in filled.items():
                if rows.shape[1] != n_columns:
                    raise InputError(
                        f"{place_of(i)}: dense: expected {n_columns} columns, got {rows.shape[1]}"
                    )
            self.dense = np.concatenate([*filled.values()])
            self.offsets = np.cumsum([0, *map(len, dense)])
        else:
            self.dense = _numbers(dense, "dense")
            self.offsets = getattr(self.sparse, "offsets", np.arange(len(self.dense) + 1))
            _check_count(len(self.dense), self.sparse.offsets[-1] if self.has_positions else n_items)
        if self.has_positions:
            _check_lengths(self.lengths, self.sparse)
        self.n_dense = int(self.dense.shape[1])  # D
        place = partial(locate, self.offsets) if self.has_positions else place_of
        check_values(self.dense, place, kind="dense column")

    @classmethod
    def from_input(cls, X: ItemsLike) -> Features:
        """Return `Features` unchanged, or those of a list of pairs (dense, sparse), one an item, or of dicts with
        vectors."""
        X = with_vectors_apart(X)
        if isinstance(X, cls):
            return X
        expected = (
            "expected crfqn.Features, pairs (dense, sparse) or dicts with vectors, as the model was trained on a dense "
            "block"
        )
        if isinstance(X, (str, bytes)) or hasattr(X, "tocsr") or not isinstance(X, Iterable):
            raise InputError(f"{expected}, got {describe(X)}")
        pairs = list(X)
        for i, pair in enumerate(pairs):
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise InputError(f"{place_of(i)}: {expected}, got {describe(pair)}")
        sparse = [pair[1] for pair in pairs]
        if pairs and np.ndim(pairs[0][0]) == 1 and hasattr(sparse[0], "tocsr"):
            import scipy.sparse

            return cls([pair[0] for pair in pairs], scipy.sparse.vstack(sparse, format="csr"))
        return cls([pair[0] for pair in pairs], sparse)

    def beside(self, sparse: ItemsLike) -> Self:
        """Return the same items with another form of the sparse block."""
        if hasattr(sparse, "offsets"):
            _check_lengths(self.lengths, sparse)
        return self._with(self.dense, self.offsets, sparse)

    def _with(self, dense: NDArray[Any], offsets: NDArray[np.int64], sparse: ItemsLike) -> Self:
        features = object.__new__(type(self))
        features.dense, features.offsets, features.sparse = dense, offsets, sparse
        features.has_positions, features.n_dense = self.has_positions, int(dense.shape[1])
        return features

    def _item(self, i: int) -> tuple[Any, Any]:
        first, last = self.offsets[i : i + 2]
        rows = self.dense[first:last] if self.has_positions else self.dense[first]
        sparse = self.sparse
        if hasattr(sparse, "iloc"):
            return rows, sparse.iloc[i]
        return rows, sparse[i : i + 1] if hasattr(sparse, "tocsr") else sparse[i]

    def _take(self, items: NDArray[np.integer]) -> Self:
        rows, offsets = positions_of(self.offsets, items)
        sparse = self.sparse
        if hasattr(sparse, "iloc"):
            sparse = sparse.iloc[items]
        else:
            sparse = sparse[items] if hasattr(sparse, "shape") else [sparse[i] for i in items.tolist()]
        return self._with(self.dense[rows], offsets, sparse)

    def __repr__(self) -> str:
        positions = f", {self.n_positions} positions" if self.has_positions else ""
        blocks = f"{self.n_dense} dense columns and a {type(self.sparse).__name__}"
        return f"Features({len(self)} items{positions}, {blocks})"


def with_dense(path: Path, X: Any) -> Features:
    """Return items joined with the dense block of a file: the array of a .npy file, or the only one of a .npz file.

    The block has one row per item, for sequences one per position, in the order of the data file. DataError, naming the
    file, if the block does not match the items.
    """
    try:
        dense: Any = np.load(path, allow_pickle=False)
        if not isinstance(dense, np.ndarray):
            with dense:
                names = dense.files
                dense = dense[names[0]] if len(names) == 1 else None
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except Exception as error:  # numpy, zip and zlib raise different errors for damaged files
        raise DataError(f"{path}: expected an array of numbers in a .npy or .npz file of numpy's") from error
    if dense is None:
        raise DataError(f"{path}: expected one array, got {len(names)}: {', '.join(names)}")
    if dense.ndim != 2:
        raise DataError(f"{path}: expected a 2-D array, got shape {dense.shape}")
    is_of_sequences = isinstance(X, list) or hasattr(X, "lengths")
    if not is_of_sequences:
        lengths = np.array([X.shape[0]])
    else:
        lengths = X.lengths if hasattr(X, "lengths") else np.array([len(item) for item in X], np.int64)
    n_rows = int(lengths.sum())
    if len(dense) != n_rows:
        of = "a position" if is_of_sequences else "an item"
        raise DataError(f"{path}: expected {n_rows:,} rows, one {of} of the data file, got {len(dense):,}")
    try:
        return Features(np.split(dense, np.cumsum(lengths)[:-1]) if is_of_sequences else dense, X)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def with_vectors_apart(X: ItemsLike) -> Any:
    """Return items whose dicts have vectors, 1-D arrays or lists of numbers, as `Features`; other items unchanged.

    The first dict decides which keys have vectors. Those of several keys are joined in the order of the keys.
    InputError, naming the item, the position and the key, for a dict without such a vector and for one of another
    length.
    """
    if not isinstance(X, (list, tuple)):
        return X
    of_items = bool(X) and isinstance(X[0], Mapping)  # a dict is an item, not a position
    lists: Sequence[Any] = [[item] for item in X] if of_items else X
    first = next((item[0] for item in lists if isinstance(item, (list, tuple)) and item), None)
    found = first.items() if isinstance(first, Mapping) else ()
    lengths = {key: len(value) for key, value in found if _is_vector(value)}
    keys = sorted(lengths)
    if not keys:
        return X
    dense, sparse = [], []
    for i, item in enumerate(lists):
        for t, position in enumerate(item):
            for key in keys:
                vector = position.get(key) if isinstance(position, Mapping) else position
                if not _is_vector(vector) or len(vector) != lengths[key]:
                    place = place_of(i) if of_items else place_of(i, t)
                    raise InputError(
                        f"{place}: feature {key!r}: expected a vector of {lengths[key]} numbers, as in the first dict, "
                        f"got {describe(vector)}"
                    )
        rows = [np.concatenate([position[key] for key in keys]) for position in item]
        dense.append(rows[0] if of_items else np.array(rows))
        rest = [{key: value for key, value in position.items() if key not in lengths} for position in item]
        sparse.append(rest[0] if of_items else rest)
    return Features(dense, sparse)


def _is_vector(value: object) -> TypeGuard[Sequence[float] | NDArray[Any]]:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.size > 0 and value.dtype.kind in "biuf"
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(x, Real) for x in value)


def check_dense(X: ItemsLike, n_dense: int) -> Any:
    """Return items for a model of so many dense features as `Features`, or, for a model without, unchanged; InputError
    for another number."""
    if not n_dense:
        if isinstance(X, Features):
            raise InputError("expected items without a dense block, as in training, got crfqn.Features")
        return X
    features = Features.from_input(X)
    if features.n_dense != n_dense:
        raise InputError(f"dense: expected {n_dense} columns, as in training, got {features.n_dense}")
    return features


def refuse_dense(model: object, what: str) -> None:
    """Raise InputError for a model with a dense block of weights, which `what` does not support."""
    n_dense = getattr(model, "n_dense_", 0)
    if n_dense:
        raise InputError(
            f"{what}: expected a model without a dense block, got one of {n_dense} dense columns"
        )


def sparse_of(X: ItemsLike) -> Any:
    """Return the sparse block of `Features`, other items unchanged."""
    return X.sparse if isinstance(X, Features) else X


def _check_count(n_dense: int, n_sparse: int) -> None:
    if n_dense != n_sparse:
        raise InputError(
            f"expected as many dense rows as sparse ones, got {n_dense} dense and {n_sparse} sparse"
        )


def _check_lengths(lengths: NDArray[np.int64], sparse: ItemsLike) -> None:
    if hasattr(sparse, "lengths"):
        expected = sparse.lengths
    else:
        expected = np.array([x.shape[0] if hasattr(x, "shape") else len(x) for x in sparse], np.int64)
    wrong = np.flatnonzero(lengths != expected)
    if wrong.size:
        i = int(wrong[0])
        raise InputError(
            f"{place_of(i)}: expected a dense row for each of {expected[i]} positions, got {lengths[i]}"
        )


def _numbers(rows: ArrayLike | list[ArrayLike], name: str) -> NDArray[Any]:
    """Return rows as an array of real numbers with one or more columns."""
    try:
        numbers = np.asarray(rows)
    except ValueError:  # numpy's refusal of ragged nesting
        raise InputError(f"{name}: expected rows of numbers of one length, got rows of several") from None
    if numbers.ndim != 2 or not numbers.shape[1] or numbers.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: expected a 2-D array of numbers, got shape {numbers.shape} and dtype {numbers.dtype}"
        )
    return numbers
