"""Types of what users give: the items of estimators and models, their labels, and the weights of items.

They are names for annotations; `items.py`, `encoding.py` and `label_arrays.py` check the values. Only type checkers
import scipy.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray, spmatrix

SparseMatrix: TypeAlias = "sparray | spmatrix"
# Items: a table with one row each, or a list of them such as Sequences, TokenColumns, Features, dicts or texts.
ItemsLike: TypeAlias = "SparseMatrix | NDArray | Iterable[Any]"
# Items that have been checked: a table of numbers with one row each.
ItemTable: TypeAlias = "NDArray | csr_array"
# A label for each item or position, a list of labels for each item, or a table of label sets (I, K).
LabelsLike: TypeAlias = "SparseMatrix | NDArray | Iterable[Any]"
# A weight for each item, or for each position of each item; None if all are 1.
SampleWeight: TypeAlias = "NDArray | Sequence[ArrayLike] | float | None"
# The weights of labels by label, "balanced", or None if all are 1.
ClassWeight: TypeAlias = "Mapping[object, float] | str | None"
