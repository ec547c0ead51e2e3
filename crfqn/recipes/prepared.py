"""Data of a recipe that is ready to train on: matrices, labels, and the features fitted to the training part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from crfqn.taxonomy.tree import LabelTree


class Features(Protocol):
    """Features of documents, fitted to the training part."""

    @property
    def n_columns(self) -> int:
        """Number of features in the training, F."""

    @property
    def columns(self) -> NDArray[np.int64]:
        """Which of the features these are, ascending: all of them, or those that a model file keeps."""

    @property
    def first_id(self) -> int:
        """Number of the data's first column in files of svmlight's format."""

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other documents, csr_array (I, n_columns); the inputs' columns count from `first`."""

    def name_of(self, column: int) -> str:
        """Return the name of a feature: a word, an id."""

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return as JSON values whatever computes the `used` columns, ascending numbers."""


@dataclass(frozen=True)
class Observed:
    """Features of new items, and their labels if there are any.

    Attributes
    ----------
    X : what the estimator's `predict` takes
    y : a list of labels for each sequence or a label for each document, "" for an unknown one; None if all are unknown
    data : the items as they were read, Labeled or Documents, of a file
    texts : how the positions read, a list of str an item: the first column of data that has columns
    """

    X: Any
    y: list[Any] | None
    data: Any = None
    texts: list[list[str]] | None = None


@dataclass
class Prepared:
    """Data of a recipe, cut into training and test items and mapped to features.

    Attributes
    ----------
    X_train, X_test : `Sequences` of pixels and windows, lists of lists of dicts of attributes, csr_array of documents
    y_train, y_test : a list of labels for each sequence, or a label (ranking: a list of labels) for each document
    feature_names : names of the columns, None where X names its features itself
    fingerprint : SHA-256 over all labels and observations (64 hex digits), the same for every format of the file
    taxonomy : of documents whose recipe has one, else None
    features : of documents, None for sequences
    is_inferred : whether the taxonomy is that of the training labels; those of the test part need not be nodes of it
    sample_weight : weights of the training items, where their file gives any; else None
    """

    X_train: Any
    y_train: list[Any]
    X_test: Any
    y_test: list[Any]
    feature_names: Sequence[str] | None
    fingerprint: str
    taxonomy: LabelTree | None = None
    features: Features | None = None
    is_inferred: bool = False
    sample_weight: list[float] | None = None

    @property
    def given_taxonomy(self) -> LabelTree | None:
        """Taxonomy to give to the estimator; None where it infers the taxonomy from the labels itself."""
        return None if self.is_inferred else self.taxonomy

    def take_train(self) -> Any:
        """Return X_train and let go of it: a training then holds it only until its own store is built."""
        taken, self.X_train = self.X_train, None
        return taken
