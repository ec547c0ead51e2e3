"""Featurizers compute the features of single items; they are fitted to the training data and stored in the model file.

Each kind is a class with `KIND`, `fit`, `from_dict` and `as_dict`, `n_columns`, `columns`, `names`, `columns_read` (of
a table), `first_id` and `transform`. Features of new items need numpy alone. Shapes: I items, F columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import LARGEST_ID
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe, shorten
from crfqn.model.tables import Table
from crfqn.model.texts import Words, ascending_numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Numbers:
    """The columns of numbers that are not 0 in training (from a file: those with weights), scaled by their largest
    absolute values if the recipe says so."""

    n_columns: int  # F
    columns: NDArray[np.int64]  # numbers of these columns among the F, ascending, (n,)
    sources: NDArray[np.int64]  # their columns in the data, ascending, from 0, (n,)
    names: list[str]
    scales: NDArray[np.float64]  # divisors of the columns, (n,)
    # The number of the data's first column in svmlight's format: 0 if the data have this format themselves, so that
    # ids are columns; else 1.
    first_id: int

    KIND: ClassVar[str] = "given"
    columns_read: ClassVar[None] = None

    @classmethod
    def fit(cls, inputs: csr_array, names: Sequence[str] | None, scale: str) -> tuple[Numbers, csr_array]:
        """Learn the used columns of a csr_array and their scales ("none", "max-abs"); return the featurizer and the
        features, csr_array (I, F). names : of the columns, None without."""
        sources = np.unique(inputs.indices).astype(np.int64)
        scales = np.ones(sources.size)
        if scale == "max-abs":
            from sklearn.preprocessing import MaxAbsScaler

            scales = MaxAbsScaler().fit(inputs[:, sources]).scale_
        shown = [str(column) if names is None else names[column] for column in sources.tolist()]
        first_id = 0 if names is None else 1
        featurizer = cls(sources.size, np.arange(sources.size), sources, shown, scales, first_id)
        return featurizer, featurizer.transform(inputs)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Numbers:
        """Return the featurizer that `as_dict` wrote; KeyError, TypeError or ValueError for anything else."""
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

    def as_dict(self, used: NDArray[np.integer]) -> dict[str, object]:
        """Return the featurizer of the `used` columns, ascending numbers, as JSON values."""
        places = np.flatnonzero(np.isin(self.columns, used))
        sources = self.sources[places].tolist()
        names = [self.names[place] for place in places]
        scales = self.scales[places].tolist()
        return {
            "kind": self.KIND,
            "n_columns": self.n_columns,
            "columns": self.columns[places].tolist(),
            "sources": sources,
            "names": None if names == list(map(str, sources)) else names,
            "scales": None if set(scales) <= {1.0} else scales,
            "first_id": self.first_id,
        }

    def transform(self, inputs: csr_array, first: int = 0) -> csr_array:
        """Return the features of other items, csr_array (I, F), without new columns; columns count from `first`."""
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


Featurizer = Numbers | Words | Table
FEATURIZERS: dict[str, type[Featurizer]] = {kind.KIND: kind for kind in (Numbers, Words, Table)}


def read_featurizer(file: ModelFile) -> Featurizer:
    """Return the featurizer of a model file that has one; ModelFileError if it is invalid."""
    table = file.metadata["featurizer"]
    kind = table.get("kind") if isinstance(table, dict) else None
    if not isinstance(kind, str) or kind not in FEATURIZERS:
        expected = ", ".join(FEATURIZERS)
        raise ModelFileError(
            f"{file.path}: featurizer: expected one of the kinds {expected}, got {describe(kind)}"
        )
    try:
        return FEATURIZERS[kind].from_dict(table)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{file.path}: its features cannot be read: {error!r}") from error
