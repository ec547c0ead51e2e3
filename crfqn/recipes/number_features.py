"""Given numbers as features: the columns that the training part uses, divided by their largest sizes if asked for.

Shapes: I documents, F columns that have an entry in the training part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.readers.documents import Documents, drop_unseen_columns
from crfqn.readers.formats.svmlight import LARGEST_ID
from crfqn.wording import shorten


def ascending_numbers(name: str, stored: Any, below: int) -> NDArray[np.int64]:
    """Return a list of a model file as ascending numbers 0 ... below - 1; ValueError or the like for anything else."""
    found = np.array(stored, np.int64)
    if (
        found.ndim != 1
        or not (found[1:] > found[:-1]).all()
        or (found.size and not 0 <= found[0] <= found[-1] < below)
    ):
        raise ValueError(f"{name}: expected ascending numbers from 0 to {below - 1}")
    return found


@dataclass(frozen=True, eq=False)
class NumberFeatures:
    """Columns of numbers as features: all F after `fit`, those with a weight when read from a model file.

    Attributes
    ----------
    n_columns : int
        F.
    columns : ndarray of int64, shape (n,)
        Which of the F these are, ascending.
    sources : ndarray of int64, shape (n,)
        The columns of the data that they come from, ascending, counted from 0.
    names : list of n str
    scales : ndarray of float64, shape (n,)
        What they are divided by.
    first_id : int
        The number of the data's first column in svmlight's format: 0 if the data is in this format itself, so that
        ids are columns; else 1.
    """

    n_columns: int
    columns: NDArray[np.int64]
    sources: NDArray[np.int64]
    names: list[str]
    scales: NDArray[np.float64]
    first_id: int

    @classmethod
    def fit(cls, train: Documents, scale: str) -> tuple[NumberFeatures, Any]:
        """Learn from the training part which columns are in use, and their scales ("none" or "max-abs").

        Returns the features and the matrix of the training part, csr_array (I, F).
        """
        assert not isinstance(train.inputs, list)
        seen = drop_unseen_columns(train)
        n = len(seen.feature_names or ())
        scales = np.ones(n)
        if scale == "max-abs":
            from sklearn.preprocessing import MaxAbsScaler

            scales = MaxAbsScaler().fit(seen.inputs).scale_
        sources = np.unique(train.inputs.indices).astype(np.int64)
        first_id = 0 if train.feature_names is None else 1
        features = cls(n, np.arange(n), sources, list(seen.feature_names or ()), scales, first_id)
        return features, features.transform(train.inputs)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> NumberFeatures:
        """Return the features that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
        n_columns = int(table["n_columns"])
        columns = ascending_numbers("columns", table["columns"], n_columns)
        sources = ascending_numbers("sources", table["sources"], LARGEST_ID + 1)
        scales = np.ones(columns.size) if table["scales"] is None else np.array(table["scales"], np.float64)
        names = list(map(str, sources if table["names"] is None else table["names"]))
        features = cls(n_columns, columns, sources, names, scales, int(table["first_id"]))
        if not columns.shape == sources.shape == scales.shape == (len(names),):
            raise ValueError("columns, sources, scales and names differ in length")
        if not (np.isfinite(scales).all() and scales.all()):
            raise ValueError("scales: expected finite numbers other than 0")
        return features

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, Any]:
        """Return what computes the used columns as JSON values; see `crfqn.recipes.Features`."""
        places = np.flatnonzero(np.isin(self.columns, used))
        sources = self.sources[places].tolist()
        names = [self.names[place] for place in places]
        scales = self.scales[places].tolist()
        return {
            "n_columns": self.n_columns,
            "columns": self.columns[places].tolist(),
            "sources": sources,
            "names": None if names == list(map(str, sources)) else names,
            "scales": None if set(scales) <= {1.0} else scales,
            "first_id": self.first_id,
        }

    def transform(self, inputs: Any, first: int = 0) -> Any:
        """Return the features of other documents, without columns new to them; see `crfqn.recipes.Features`."""
        from scipy.sparse import csr_array

        wanted = self.sources + first
        places = np.searchsorted(wanted, inputs.indices)
        is_in = np.append(wanted, -1)[places] == inputs.indices
        places = places[is_in]
        ends = np.concatenate([[0], np.cumsum(is_in)])[inputs.indptr]
        with np.errstate(over="ignore"):
            values = inputs.data[is_in] / self.scales[places]
        if not np.isfinite(values).all():
            name = self.names[places[~np.isfinite(values)][0]]
            raise InputError(f"feature {shorten(name)}: a value is too large for its scale in the training")
        parts = (values, self.columns[places], ends)
        return csr_array(parts, shape=(inputs.shape[0], self.n_columns))

    def name_of(self, column: int) -> str:
        """Return the name of a column: the data's own, or its id."""
        return self.names[int(np.searchsorted(self.columns, column))]
