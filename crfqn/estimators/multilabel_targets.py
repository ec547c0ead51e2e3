"""Labels of single items: one label each, or label sets as a dense or sparse table of 0 and 1, or as a list of sets.

Shapes: I items, K labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d

from crfqn.data.inputs import LabelsLike, SampleWeight, SparseMatrix
from crfqn.data.items import check_item_weights
from crfqn.data.label_arrays import check_any_known, encode_known_labels, encode_labels, item_labels
from crfqn.data.matrices import check_sparse
from crfqn.errors import InputError
from crfqn.model.label_index import ONE_LABEL


@dataclass(frozen=True, eq=False)
class MultilabelTargets:
    """The label set of each item.

    classes : the labels, (K,), or the numbers of columns of a table
    table : csr_array (I, K) of ones, with sorted columns
    form : of the user's labels
    """

    classes: NDArray
    table: SparseMatrix
    form: str

    @classmethod
    def from_y(cls, y: LabelsLike) -> MultilabelTargets:
        """Return the label sets of `y`; scikit-learn's `type_of_target` distinguishes tables from labels."""
        if are_sets(y):
            offsets = np.cumsum([0, *map(len, y)], dtype=np.int64)
            classes, codes = encode_labels([list(labels) for labels in y], offsets)
            return cls(classes, make_table(codes, offsets, classes.size), "sets")
        check_sparse(y)
        y = item_labels(y)
        kind = type_of_target(y, input_name="y")
        if kind == "multilabel-indicator":
            table = scipy.sparse.csr_array(y, dtype=np.float64, copy=True)
            table.sum_duplicates()
            table.eliminate_zeros()
            if (table.data != 1).any():
                raise InputError(
                    "expected a table of 0 and 1, items by labels, got an entry "
                    f"{table.data[table.data != 1][0]:g}"
                )
            form = "sparse table" if scipy.sparse.issparse(y) else "table"
            return cls(np.arange(table.shape[1]), table, form)
        if kind.endswith("multioutput"):
            raise InputError(
                "expected one label an item, a table of 0 and 1 or label sets, "
                f"got {kind} of shape {getattr(y, 'shape', ())}"
            )
        names = column_or_1d(y, warn=True)
        offsets = np.arange(names.size + 1)
        classes, codes = encode_labels(names, offsets)
        check_classification(names, classes)
        return cls(classes, make_table(codes, offsets, classes.size), ONE_LABEL)

    @classmethod
    def among(cls, y: LabelsLike, classes: NDArray) -> MultilabelTargets:
        """Return the label sets of `y`, of the known labels `classes`; InputError for other labels."""
        if not are_sets(y):
            sets = cls.from_y(y)
            if sets.table.shape[1] == classes.size and sets.form != ONE_LABEL:
                return sets
            raise InputError(
                f"expected a table of {classes.size} columns or label sets, got {sets.form} of {sets.classes.size}"
            )
        offsets = np.cumsum([0, *map(len, y)], dtype=np.int64)
        codes = encode_known_labels([list(labels) for labels in y], offsets, classes)
        return cls(classes, make_table(codes, offsets, classes.size), "sets")

    def take(self, items: NDArray[np.intp]) -> MultilabelTargets:
        """Return the label sets of some items, without labels that none of them has; tables keep all columns."""
        table = self.table[items]
        if "table" in self.form:
            return MultilabelTargets(self.classes, table, self.form)
        seen = np.unique(table.indices)
        return MultilabelTargets(self.classes[seen], table[:, seen], self.form)


def are_sets(y: object) -> TypeGuard[Sequence[Collection[object]]]:
    """Return whether `y` is a list of label sets: sets, or lists or tuples that are not rows of a table of numbers."""
    if not isinstance(y, (list, tuple)) or not all(
        isinstance(row, (list, tuple, set, frozenset)) for row in y
    ):
        return False
    if any(isinstance(row, (set, frozenset)) for row in y):
        return True
    lengths = set(map(len, y))
    return len(lengths) > 1 or any(isinstance(label, str) for label in chain.from_iterable(y))


def make_table(codes: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int) -> SparseMatrix:
    """Return the table of 0 and 1 of label numbers, CSR (I, K); labels may be repeated."""
    table = scipy.sparse.csr_array((np.ones(codes.size), codes, offsets), (offsets.size - 1, n_labels))
    table.sum_duplicates()
    table.data[:] = 1.0
    return table


def check_classification(names: NDArray, classes: NDArray) -> None:
    """Raise ValueError for labels that scikit-learn considers targets of a regression, without its warning of too many
    classes for strings. `classes` are the distinct labels, which are counted only once."""
    with warnings.catch_warnings():
        if names.dtype.kind in "OUS":
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(classes if names.dtype.kind in "US" else names)


def label_accuracy(y: LabelsLike, predicted: NDArray, classes: NDArray, sample_weight: SampleWeight) -> float:
    """Return the weighted fraction of items whose label `y` is the predicted one. Labels that are not among `classes`
    count as wrong; InputError if none is, for missing labels and mixed types, and for another number of labels."""
    names = column_or_1d(item_labels(y))
    check_consistent_length(predicted, names)
    check_any_known(names, classes)
    weights = check_item_weights(sample_weight, names.size)
    hits = [label == other for label, other in zip(names.tolist(), predicted.tolist(), strict=True)]
    return float(np.average(hits, weights=weights))


def check_no_rows(y: LabelsLike | None) -> None:
    """Raise InputError for rows of several labels, for a model of one label an item that is not a path."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    is_plain = isinstance(y, np.ndarray) and y.dtype.kind != "O"
    labels: Any = y if not is_plain and (isinstance(y, (list, tuple)) or len(shape) == 1) else ()
    is_row = (isinstance(label, (list, tuple)) and len(label) > 1 for label in labels)
    if (len(shape) == 2 and shape[1] > 1) or any(is_row):
        raise InputError(
            "expected one label an item, got rows of several; rows of parts are for TaxonomyCRF, "
            "label sets for MultilabelRanker"
        )
