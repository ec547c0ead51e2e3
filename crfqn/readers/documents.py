"""Documents, the result of the readers of classification data: one label each, and a taxonomy if there is one.

A document is a row of a sparse matrix or a text. Two files that hold the same documents in any order have the
same `digest`, as with `Labeled`. Sizes: I documents, F features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crfqn.errors import InputError
from crfqn.readers.places import Places
from crfqn.taxonomy.tree import LabelTree

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents with their labels.

    Parameters
    ----------
    inputs : scipy.sparse.csr_array of shape (I, F), or list of str
        A row or a text for each document.
    labels : list of str
        The label of each document: the name of a node of the taxonomy, where there is one.
    taxonomy : LabelTree or None
        The taxonomy of the labels; None: they are flat.
    n_train : int or None
        Where the data brings its own split: the first `n_train` documents are for training.
    feature_names : sequence of F str, or None
        Names of the matrix's columns.
    places : Places or None
        File and line of each document.
    """

    inputs: csr_array | list[str]
    labels: list[str]
    taxonomy: LabelTree | None = None
    n_train: int | None = None
    feature_names: Sequence[str] | None = None
    places: Places | None = None

    @property
    def n_items(self) -> int:
        return len(self.labels)

    def where(self, item: int) -> str:
        """Return the place of a document in words: file and line, where it comes from a file."""
        return f"item {item}" if self.places is None else self.places.where(item)

    def distinct_labels(self) -> list[str]:
        """Return the labels that occur, sorted."""
        return sorted(set(self.labels))

    def digest(self) -> str:
        """Return the SHA-256 (64 hex digits) over labels and inputs; the order of the documents does not count.

        A row counts with its columns and its values other than zero, however the matrix is stored.
        """
        contents = self.inputs if isinstance(self.inputs, list) else _rows(self.inputs)
        pairs = zip(self.labels, contents, strict=True)
        digests = sorted(
            hashlib.sha256(_encoded(label) + _encoded(content)).digest() for label, content in pairs
        )
        return hashlib.sha256(b"".join(digests)).hexdigest()


def concatenate(train: Documents, test: Documents) -> Documents:
    """Join two parts into one `Documents`, the first of which is for training (`n_train` is its size).

    A matrix with fewer columns is widened; of two taxonomies the result has the nodes of both. InputError for texts and
    a matrix, feature names that disagree, taxonomies that contradict each other.
    """
    labels = train.labels + test.labels
    taxonomy = _joined_taxonomy(train.taxonomy, test.taxonomy)
    if isinstance(train.inputs, list) and isinstance(test.inputs, list):
        return Documents(train.inputs + test.inputs, labels, taxonomy, train.n_items)
    if isinstance(train.inputs, list) or isinstance(test.inputs, list):
        kinds = ["texts" if isinstance(part.inputs, list) else "a matrix" for part in (train, test)]
        raise InputError(
            f"the training part holds {kinds[0]}, the test part {kinds[1]}; expected the same kind"
        )
    from scipy.sparse import vstack

    names = _joined_names(train.feature_names, test.feature_names)
    n_columns = max(train.inputs.shape[1], test.inputs.shape[1])
    matrix = vstack([_widened(part.inputs, n_columns) for part in (train, test)], format="csr")
    return Documents(matrix, labels, taxonomy, train.n_items, names)


def drop_unseen_columns(documents: Documents) -> Documents:
    """Return the documents with those columns only that have an entry in the training part (all rows if unsplit).

    Columns keep their order and names; without names they are called by their numbers, such as the "1021534" of an id
    in an svmlight file. InputError for texts.
    """
    if isinstance(documents.inputs, list):
        raise InputError("the documents are texts; expected a matrix, whose columns can be dropped")
    seen = np.unique(documents.inputs[: documents.n_train].indices)
    names = documents.feature_names
    kept = [str(column) if names is None else names[column] for column in seen]
    return replace(documents, inputs=documents.inputs[:, seen], feature_names=kept)


def _rows(matrix: csr_array) -> Iterator[bytes]:
    """Yield columns and values of each row as bytes that are the same on every machine."""
    canonical = matrix.copy()
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    columns, values = canonical.indices.astype("<i8"), canonical.data.astype("<f8")
    for start, stop in zip(canonical.indptr[:-1], canonical.indptr[1:], strict=True):
        yield columns[start:stop].tobytes() + values[start:stop].tobytes()


def _encoded(content: str | bytes) -> bytes:
    return json.dumps(content).encode() if isinstance(content, str) else content


def _widened(matrix: csr_array, n_columns: int) -> csr_array:
    from scipy.sparse import csr_array

    return csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], n_columns))


def _joined_names(train: Sequence[str] | None, test: Sequence[str] | None) -> Sequence[str] | None:
    if train is None and test is None:
        return None
    if train is None or test is None:
        named, unnamed = ("test", "training") if train is None else ("training", "test")
        raise InputError(f"the {named} part has feature names, the {unnamed} part has none")
    for column, (left, right) in enumerate(zip(train, test, strict=False)):
        if left != right:
            raise InputError(f"column {column} is {left!r} in the training part, {right!r} in the test part")
    return max(train, test, key=len)


def _joined_taxonomy(train: LabelTree | None, test: LabelTree | None) -> LabelTree | None:
    if train is None or test is None:
        return test if train is None else train
    if train.names == test.names and np.array_equal(train.parents, test.parents):
        return train
    import networkx

    return LabelTree.from_graph(networkx.compose(train.to_networkx(), test.to_networkx()))
