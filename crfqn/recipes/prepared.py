"""Prepared data of a recipe: matrices and labels, and the features as they were fitted to the training part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from crfqn.taxonomy.tree import LabelTree


class Features(Protocol):
    """Features of documents as they were fitted to the training part."""

    @property
    def n_columns(self) -> int:
        """Number of features in the training."""

    @property
    def first_id(self) -> int:
        """The number that files in svmlight's format give to the first column of the data."""

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Features of other documents, csr_array (I, n_columns); the inputs' columns count from `first`."""

    def name_of(self, column: int) -> str:
        """Name of a feature: a word, an id."""

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return what it takes to compute the used columns, ascending numbers, as JSON values."""


@dataclass(frozen=True)
class Observed:
    """Features `X` (for the estimator's `predict`) and labels `y`; y is None if none are known.

    `y` has a list of labels for each sequence, or a label for each document, "" where it is not known.
    """

    X: Any
    y: list[Any] | None


@dataclass
class Prepared:
    """The data of a recipe, cut and mapped.

    `X_*` is a `Sequences` for pixels and windows, a list of lists of dicts for attributes, a csr_array for documents;
    `y_*` has a list of labels for each sequence, a label for each document. `fingerprint`: SHA-256 over all labels and
    observations (64 hex digits), the same for every format of the file. `taxonomy` and `features` are those of
    documents, None for sequences; without a taxonomy in the recipe there is none here. `is_inferred`: it is what the
    labels of the training part tell, and those of the test part need not be nodes of it.
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

    @property
    def given_taxonomy(self) -> LabelTree | None:
        """Argument `taxonomy` of the estimator: it infers from the labels on its own."""
        return None if self.is_inferred else self.taxonomy

    def take_train(self) -> Any:
        """Hand over X_train and forget it: a training then holds it only until its own store is built."""
        taken, self.X_train = self.X_train, None
        return taken
