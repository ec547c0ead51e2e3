"""Sequences: the positions of all items as the rows of one matrix, and where to cut it into items.

For users and estimators: like a list of items (length, slices, index arrays, masks), as scikit-learn's splitters and
searches index theirs. CSR matrices and arrays are not copied. Shapes: I items, N positions, F features.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.data.items import Items, check_offsets, check_values, locate, positions_of
from crfqn.data.matrices import check_matrix
from crfqn.errors import InputError


class Sequences(Items):
    """List of sequences, stored as one matrix of positions x features.

    Parameters
    ----------
    matrix : scipy.sparse matrix or array, or 2-D array-like, shape (N, F)
        Booleans or real numbers, of at most 1e12 in size. CSR and arrays are kept without a copy, other sparse formats
        become CSR.
    offsets : array-like of int, shape (I + 1,)
        Item i is made of the rows offsets[i] ... offsets[i + 1]; starts at 0, never decreases, ends at N.
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

    def __init__(self, matrix: Any, offsets: ArrayLike, feature_names: Sequence[str] | None = None) -> None:
        is_sparse = hasattr(matrix, "tocsr")
        try:
            matrix = matrix if is_sparse else np.asarray(matrix)
        except ValueError:  # numpy's refusal of ragged nesting
            raise InputError(
                "expected a 2-D matrix (positions x features), got rows of different lengths"
            ) from None
        check_matrix(matrix)
        self.matrix = matrix.tocsr() if is_sparse else matrix
        self.offsets: NDArray[np.int64] = check_offsets(offsets, self.matrix.shape[0])
        self._names = None if feature_names is None else check_feature_names(feature_names, self.n_features)
        self.vocabulary: Any = None
        check_values(self.matrix, partial(locate, self.offsets), self._names)

    @classmethod
    def from_checked(
        cls,
        matrix: Any,
        offsets: NDArray[np.int64],
        feature_names: list[str] | None = None,
        vocabulary: Any = None,
    ) -> "Sequences":
        """Return sequences of parts known to fit: for one sentence, checks would take longest. `vocabulary`, what
        encoded them, makes the names of the columns when they are asked for."""
        sequences = object.__new__(cls)
        sequences.matrix, sequences.offsets, sequences._names = matrix, offsets, feature_names
        sequences.vocabulary = vocabulary
        return sequences

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the F columns, None for columns without; those of templates are made at the first call."""
        return self._names if self.vocabulary is None else self.vocabulary.names

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

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

    def with_names(self, names: list[str]) -> "Sequences":
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

    def _item(self, i: int) -> Any:
        return self.matrix[self.offsets[i] : self.offsets[i + 1]]

    def _take(self, items: NDArray[np.integer]) -> "Sequences":
        rows: slice | NDArray[np.int64]
        if items.size and items[-1] - items[0] == items.size - 1 and (np.diff(items) == 1).all():
            cuts = self.offsets[items[0] : items[-1] + 2]
            rows, cuts = slice(cuts[0], cuts[-1]), cuts - cuts[0]
        else:
            rows, cuts = positions_of(self.offsets, items)
        # The names are shared, because they may be millions.
        return self.from_checked(self.matrix[rows], cuts, self._names, self.vocabulary)


def check_feature_names(names: Sequence[str], n_features: int) -> list[str]:
    """Return the names as a list after checking that they are distinct strings, one for each column."""
    if isinstance(names, (str, bytes)):
        raise InputError(f"feature_names must be a list of {n_features} strings, got the single {names!r}")
    listed = list(names)
    if len(listed) != n_features:
        raise InputError(f"feature_names must name each of the {n_features} columns, got {len(listed)} names")
    if not all(issubclass(kind, str) for kind in set(map(type, listed))):
        column = next(column for column, name in enumerate(listed) if not isinstance(name, str))
        raise InputError(
            f"feature_names must be strings, but that of column {column} is of type "
            f"{type(listed[column]).__name__}: {listed[column]!r}"
        )
    if len(set(listed)) != n_features:
        ((repeated, _),) = Counter(listed).most_common(1)
        raise InputError(f"feature_names must be distinct, but {repeated!r} comes twice")
    return listed
