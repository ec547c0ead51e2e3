"""How sparse matrices and labels lie in a model file; what every kind of model has in common.

A matrix is its non-zeros: arrays `<name>_<row>`, `<name>_<column>` and `<name>_weight`, as in node_state,
node_feature, node_weight. Labels are a list of strings or an array of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import ModelFileError
from crfqn.estimators.weights import csr
from crfqn.model_file import ModelFile, narrowed


@dataclass
class Content:
    """Arrays, lists of strings and JSON values for `crfqn.model_file.write_model`, by name."""

    arrays: dict[str, NDArray] = field(default_factory=dict)
    strings: dict[str, list[str]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


STATE, FEATURE, FROM, TO = "state", "feature", "from", "to"  # what a row or a column of a matrix stands for


def add_matrix(content: Content, name: str, matrix: Any, row: str, column: str) -> None:
    """Add the non-zeros of a sparse matrix."""
    found = matrix.tocoo()
    content.arrays[f"{name}_{row}"] = narrowed(found.row)
    content.arrays[f"{name}_{column}"] = narrowed(found.col)
    content.arrays[f"{name}_weight"] = found.data


def read_matrix(file: ModelFile, name: str, row: str, column: str, shape: tuple[int, int]) -> Any:
    """The CSR array that `add_matrix` stored; ModelFileError for entries outside `shape` or not finite."""
    values = finite(file, f"{name}_weight", (None,))
    rows = file.integers(f"{name}_{row}", values.shape, shape[0])
    columns = file.integers(f"{name}_{column}", values.shape, shape[1])
    return csr(values, rows, columns, shape)


def finite(file: ModelFile, name: str, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """The float64 array `name`; ModelFileError unless all of it is finite."""
    values = file.array(name, "float64", shape)
    if not np.isfinite(values).all():
        raise ModelFileError(f"{file.path}: a weight of {name} is not finite")
    return values


def add_labels(content: Content, labels: NDArray) -> None:
    """Add `classes`: strings, or an array of numbers or booleans."""
    if labels.dtype.kind in "US":
        content.strings["classes"] = [str(label) for label in labels]
    else:
        content.arrays["classes"] = labels


def read_labels(file: ModelFile, n_classes: int) -> NDArray:
    """The labels that `add_labels` stored; ModelFileError unless they are `n_classes`, one at least."""
    is_text = "classes" in file.strings
    classes = np.array(file.string_list("classes")) if is_text else file.arrays.get("classes", np.empty(0))
    if classes.shape != (n_classes,) or n_classes < 1:
        raise ModelFileError(f"{file.path}: expected {n_classes} classes, found {classes.shape}")
    return classes
