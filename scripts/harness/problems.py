"""Labelled items as every library of a benchmark gets them: a `Problem`; and what a library returns: a `Run`.

Every run has a process of its own: the problem is made once, stored, and read back by each, so that no run's peak
of memory holds what making it took.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test items: sequences with a list of labels each, or single items with one.

    X_train, X_test : Sequences, or csr_array or dense array (items, features)
    y_train, y_test : list of lists of str, or array of labels
    taxonomy : LabelTree or None
        The labels are leaves of it; None: they are flat.
    groups : as of `MulticlassClassifier.feature_groups`
    """

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    taxonomy: Any = None
    groups: Any = None

    @classmethod
    def of_recipe(cls, name: str) -> Problem:
        """The data of a ready-made recipe, with its split."""
        from crfqn.recipes import load_recipe, prepare_data

        data = prepare_data(load_recipe(name))
        if hasattr(data.X_train, "offsets"):
            return cls(data.X_train, data.y_train, data.X_test, data.y_test)
        matrices = narrow(data.X_train), narrow(data.X_test)
        return cls(matrices[0], np.array(data.y_train), matrices[1], np.array(data.y_test), data.taxonomy)

    @property
    def is_chain(self) -> bool:
        return isinstance(self.y_train, list)

    @cached_property
    def classes(self) -> list[str]:
        """The labels of the training items, sorted."""
        items = self.y_train if self.is_chain else [self.y_train.tolist()]
        return sorted({label for labels in items for label in labels})

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the training labels in their order, 64 hex digits: says whether it is the same split."""
        table = () if self.is_chain else np.asarray(self.y_train).reshape(len(self.y_train), -1).tolist()
        items = self.y_train if self.is_chain else table
        lines = (" ".join(map(str, labels)) for labels in items)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def matrix(self) -> Any:
        """The rows of the training positions or items."""
        return self.X_train.matrix if self.is_chain else self.X_train

    @property
    def cut(self) -> str:
        """The fingerprint, and the size of the matrix."""
        return f"{self.fingerprint} {self.matrix.shape[1]} {self.matrix.nnz}"

    def part(self, n_items: int) -> Problem:
        """The first training items only: for warming up."""
        return replace(self, X_train=self.X_train[:n_items], y_train=self.y_train[:n_items])

    def subset(self, per_class: int, seed: int) -> Problem:
        """As many training items of every class, at random."""
        random = np.random.default_rng(seed)
        chosen = [
            random.permutation(np.flatnonzero(self.y_train == label))[:per_class]
            for label in np.unique(self.y_train)
        ]
        rows = np.concatenate(chosen)
        return replace(self, X_train=self.X_train[rows], y_train=self.y_train[rows])

    def without_unused(self) -> Problem:
        """Without the features that no training item has, whose weights are zero."""
        used = np.unique(self.X_train.indices)
        return replace(self, X_train=self.X_train[:, used], X_test=self.X_test[:, used])

    def flat(self) -> Problem:
        return replace(self, taxonomy=None)

    def describe(self) -> str:
        """Sizes of single items."""
        (n_items, n_features), n_labels = self.X_train.shape, np.unique(self.y_train).size
        nodes = "" if self.taxonomy is None else f" in a taxonomy of {self.taxonomy.n_nodes:,} nodes"
        return f"{n_items:,} items x {n_features:,} features, {n_labels:,} labels{nodes}"

    def describe_chains(self, items: str, positions: str) -> str:
        """Sizes of sequences, by what they and their positions are called."""
        X = self.X_train
        return (
            f"{len(self.y_train):,} {items} and {X.n_positions:,} {positions} for training, "
            f"{X.n_features:,} features, {len(self.classes)} labels"
        )


@dataclass(frozen=True, eq=False)
class Run:
    """How one library trained.

    iterations, seconds, values : arrays of equal length
        After so many iterations and processor seconds the objective, penalty included, as the library reports it.
    passes : inference passes over the training items
    weights : float64 (K, F), CSR
    n_nonzero : how many weights the library keeps, edges included
    peak_bytes : largest resident size of its process, Python and the features included
    edges : float64 (K, K), from x to; of chains
    facts : what else is worth printing
    """

    name: str
    iterations: NDArray[np.int64]
    seconds: NDArray[np.float64]
    values: NDArray[np.float64]
    weights: Any
    n_nonzero: int
    peak_bytes: int
    passes: float = np.nan
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    facts: dict[str, Any] = field(default_factory=dict)

    def seconds_to(self, target: float) -> float | None:
        """Seconds until the objective was at most the target; None: it was not."""
        row = first_row(self.values <= target)
        return None if row is None else float(self.seconds[row])


def first_row(is_there: NDArray[np.bool_]) -> int | None:
    """The first of the rows that are there; None: none is."""
    rows = np.flatnonzero(is_there)
    return int(rows[0]) if rows.size else None


def narrow(matrix: Any) -> Any:
    """The same matrix with 32-bit indices: scikit-learn's saga and liblinear know no others."""
    result = matrix.copy()
    result.indices, result.indptr = (x.astype(np.int32) for x in (matrix.indices, matrix.indptr))
    return result


@contextmanager
def stored(content: Any) -> Iterator[str]:
    """The path of a file that `read_stored` reads, as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "problem.joblib")
        joblib.dump(content, path)
        yield path


def read_stored(path: str) -> Any:
    return joblib.load(path)
