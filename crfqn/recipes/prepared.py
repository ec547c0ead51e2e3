"""What the data of a recipe is read into: items split for training and test, and new items for its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crfqn.messages import Where

if TYPE_CHECKING:
    from crfqn.model.featurizers import Featurizer
    from crfqn.taxonomy.tree import LabelTree

# The source of new items: a file, several files, or (None) the test part of the recipe.
Origin = str | Path | list[str | Path] | None


@dataclass(frozen=True)
class Observed:
    """New items for a model.

    X : features, as for `predict`
    y : labels, lists for sequences, "" if unknown, None if all are unknown; integers if the labels of the file are
        numbers (`Documents.targets`)
    data : the items as read
    texts : the first column of each item with columns, a list of str; for documents their texts, or the cells of rows
    """

    X: Any
    y: list[Any] | None
    data: Any = None
    texts: Sequence[Any] | None = None


@dataclass
class Prepared:
    """Data of a recipe, split into training and test items and mapped to features.

    X_train, X_test : `Sequences` of pixels and windows, lists of lists of dicts of attributes, csr_array of documents
    y_train, y_test : a list of labels for each sequence, or a label (ranking: a list of labels) for each document
    feature_names : None if X contains the names of its features
    fingerprint : SHA-256 over all labels and observations (hex), the same for every format of the file
    taxonomy, features : of documents
    sample_weight : of the training items, if their file has weights
    train_places, test_places, dev_places : the places of the items of each part, for `named_places`
    is_sharded : whether X_train is `crfqn.Shards`, which contains the labels; y_train is empty then
    is_inferred : whether the taxonomy was inferred from the training labels; test labels may be missing in it
    """

    X_train: Any
    y_train: list[Any]
    X_test: Any
    y_test: list[Any]
    feature_names: Sequence[str] | None
    fingerprint: str
    taxonomy: LabelTree | None = None
    features: Featurizer | None = None
    is_inferred: bool = False
    sample_weight: list[float] | None = None
    is_sharded: bool = False
    train_places: Where | None = None
    test_places: Where | None = None
    dev_places: Where | None = None

    @property
    def given_taxonomy(self) -> LabelTree | None:
        """The taxonomy for the estimator; None if the estimator infers it from the labels."""
        return None if self.is_inferred else self.taxonomy

    def take_train(self) -> Any:
        """Return X_train and delete it here, so that its memory can be freed."""
        X, self.X_train = self.X_train, None
        return X
