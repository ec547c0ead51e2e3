"""Single items as every library of a benchmark gets them: rows of a matrix, a label each, perhaps a taxonomy.

Every run has a process of its own: the problem is made once, stored, and read back by each, so that no run's peak
of memory holds what making it took.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from numpy.typing import NDArray

from benchmarks.problem import Problem, fingerprint

if TYPE_CHECKING:
    from crfqn.taxonomy.tree import LabelTree


@dataclass(frozen=True, eq=False)
class ItemProblem:
    """Training and test items.

    Attributes
    ----------
    X_train, X_test : csr_array or dense array (items, features), float64
    y_train, y_test : array of str, one label an item
    taxonomy : LabelTree or None
        The labels are leaves of it; None: they are flat.
    """

    X_train: Any
    y_train: NDArray[np.str_]
    X_test: Any
    y_test: NDArray[np.str_]
    taxonomy: LabelTree | None = None

    @classmethod
    def of_recipe(cls, name: str) -> ItemProblem:
        """The data of a ready-made recipe, with its split."""
        from crfqn.recipes import load_recipe, prepare

        prepared = prepare(load_recipe(name))
        matrices = narrow(prepared.X_train), narrow(prepared.X_test)
        labels = np.array(prepared.y_train), np.array(prepared.y_test)
        return cls(matrices[0], labels[0], matrices[1], labels[1], prepared.taxonomy)

    @property
    def fingerprint(self) -> str:
        """Of the training labels in their order: says whether it is the same split."""
        return fingerprint(self.y_train.tolist())

    def part(self, n_items: int) -> ItemProblem:
        """The first training items only: for warming up."""
        return ItemProblem(
            self.X_train[:n_items], self.y_train[:n_items], self.X_test, self.y_test, self.taxonomy
        )

    def without_unused(self) -> ItemProblem:
        """Without the features that no training item has, whose weights are zero."""
        used = np.unique(self.X_train.indices)
        return replace(self, X_train=self.X_train[:, used], X_test=self.X_test[:, used])

    def flat(self) -> ItemProblem:
        """The same without its taxonomy."""
        return ItemProblem(self.X_train, self.y_train, self.X_test, self.y_test)

    def describe(self) -> str:
        (n_items, n_features), n_labels = self.X_train.shape, np.unique(self.y_train).size
        nodes = "" if self.taxonomy is None else f" in a taxonomy of {self.taxonomy.n_nodes:,} nodes"
        return f"{n_items:,} items x {n_features:,} features, {n_labels:,} labels{nodes}"


def narrow(matrix: Any) -> Any:
    """The same matrix with 32-bit indices: scikit-learn's saga and liblinear know no others."""
    result = matrix.copy()
    result.indices, result.indptr = (x.astype(np.int32) for x in (matrix.indices, matrix.indptr))
    return result


@contextmanager
def stored(problem: ItemProblem | Problem) -> Iterator[str]:
    """The path of a file that `read_stored` reads, as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "problem.joblib")
        joblib.dump(problem, path)
        yield path


def read_stored(path: str) -> Any:
    """The problem that `stored` wrote."""
    return joblib.load(path)
