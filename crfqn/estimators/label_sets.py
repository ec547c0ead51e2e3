"""Label sets in the forms that users have them: a table of 0 and 1, dense or sparse, lists of sets, or one label each.

Shapes: I items, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from crfqn.data.csc_builder import check_sparse
from crfqn.data.label_codes import encode_known_labels, encode_labels
from crfqn.errors import InputError
from crfqn.estimators.items import check_names
from crfqn.estimators.label_space import LabelSpace

FORMS = ("labels", "table", "sparse table", "sets")


@dataclass(frozen=True, eq=False)
class LabelSets:
    """The label set of each item.

    Attributes
    ----------
    classes : ndarray, shape (K,); of a table the numbers of its columns
    table : scipy.sparse.csr_array of ones, shape (I, K), its columns ascending in each row
    form : one of FORMS
    """

    classes: NDArray
    table: Any
    form: str

    @classmethod
    def of(cls, y: Any) -> LabelSets:
        """Return the sets that `y` holds; tables are told from labels as by scikit-learn's `type_of_target`."""
        if are_sets(y):
            offsets = offsets_of(y)
            classes, codes = encode_labels([list(labels) for labels in y], offsets)
            return cls(classes, make_table(codes, offsets, classes.size), "sets")
        check_sparse(y)
        kind = type_of_target(y, input_name="y")
        if kind == "multilabel-indicator":
            table = check_table(y)
            form = "sparse table" if scipy.sparse.issparse(y) else "table"
            return cls(np.arange(table.shape[1]), table, form)
        if kind.endswith("multioutput"):
            raise InputError(
                f"expected one label an item, a table of 0 and 1 or label sets, got {kind} of shape {y.shape}"
            )
        names = column_or_1d(y, warn=True)
        offsets = np.arange(names.size + 1)
        classes, codes = encode_labels(names, offsets)
        check_names(names, classes)
        return cls(classes, make_table(codes, offsets, classes.size), "labels")

    @classmethod
    def among(cls, y: Any, classes: NDArray) -> LabelSets:
        """Return the sets that `y` holds, of the known labels `classes`; InputError for others."""
        if not are_sets(y):
            found = cls.of(y)
            if found.table.shape[1] == classes.size and found.form != "labels":
                return found
            raise InputError(
                f"expected a table of {classes.size} columns or label sets, got {found.form} of {found.classes.size}"
            )
        offsets = offsets_of(y)
        codes = encode_known_labels([list(labels) for labels in y], offsets, classes)
        return cls(classes, make_table(codes, offsets, classes.size), "sets")

    def take(self, items: NDArray[np.intp]) -> LabelSets:
        """Return the sets of some items; labels that none of them has are dropped, but no columns of a table."""
        table = self.table[items]
        if "table" in self.form:
            return LabelSets(self.classes, table, self.form)
        seen = np.unique(table.indices)
        return LabelSets(self.classes[seen], table[:, seen], self.form)


@dataclass(frozen=True, eq=False)
class SetSpace(LabelSpace):
    """Space of labels without a taxonomy, of which an item has one or several; `form` is one of FORMS."""

    form: str

    @classmethod
    def of(cls, classes: NDArray, form: str) -> SetSpace:
        """Return the space of these labels."""
        plain = LabelSpace.flat(classes)
        return cls(plain.classes, plain.nodes, plain.forest, form)


def are_sets(y: Any) -> bool:
    """Return whether `y` is a list of label sets: sets, or lists or tuples that are no rows of a table of numbers."""
    if not isinstance(y, (list, tuple)) or not all(
        isinstance(row, (list, tuple, set, frozenset)) for row in y
    ):
        return False
    if any(isinstance(row, (set, frozenset)) for row in y):
        return True
    lengths = set(map(len, y))
    return len(lengths) > 1 or any(isinstance(label, str) for label in chain.from_iterable(y))


def offsets_of(y: Any) -> NDArray[np.int64]:
    """Return where the labels of each item begin when all stand in one list, int64 (I + 1,)."""
    return np.cumsum([0, *map(len, y)], dtype=np.int64)


def make_table(codes: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int) -> Any:
    """Return the table of 0 and 1 of label numbers, CSR (I, K); a label named twice counts once."""
    table = scipy.sparse.csr_array((np.ones(codes.size), codes, offsets), (offsets.size - 1, n_labels))
    table.sum_duplicates()
    table.data[:] = 1.0
    return table


def check_table(y: Any) -> Any:
    """Return a table as CSR of ones; InputError unless all entries are 0 or 1."""
    table = scipy.sparse.csr_array(y, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    if (table.data != 1).any():
        raise InputError(
            f"expected a table of 0 and 1, items by labels, got an entry {table.data[table.data != 1][0]:g}"
        )
    return table
