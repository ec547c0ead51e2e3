"""Models of every kind as JSON, with all weights: for other languages, for reading, for comparing with `diff`.

The document has the content of a .crfqn file, under the same names: `kind`, `metadata` (settings, result, extra),
`strings` (such as classes and feature_names) and `arrays`, each with dtype, shape and a flat list of values. Of a chain
`node_state`, `node_feature` and `node_weight` are the non-zero weights, an entry each, numbers of the class, of the
feature, and the weight; `edge_from`, `edge_to` and `edge_weight` those of the transitions. Numbers are written so that
they are read back bit by bit; NaN and infinity are the strings "NaN", "Infinity" and "-Infinity" among the values, and
null in the metadata.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.atomic_write import replace_file
from crfqn.data.json_text import parse_json
from crfqn.data.model_file import (
    STORED_DTYPES,
    ModelFile,
    ModelSource,
    at_hand,
    null_for_nan,
    plain_json,
    read_whole,
    shown_source,
)
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.storage import restore, whole_content
from crfqn.messages import describe

JSON_NAME = "json"
FORMAT_KEY, FORMAT_VERSION = "crfqn-model", 1  # the version that is written
# By the kind of the array; integers otherwise.
VALUE_TYPES: dict[str, set[type]] = {"b": {bool}, "f": {float, int}}
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def write(model: Estimator, path: str | os.PathLike[str], dtype: str = "float64") -> None:
    """Write a fitted estimator as JSON, atomically; parameters and errors as of its `save`."""
    content = whole_content(model, getattr(model, "extra_", None), dtype)
    document: dict[str, Any] = {
        "format": FORMAT_KEY,
        "version": FORMAT_VERSION,
        "kind": model.KIND,
        "metadata": null_for_nan(plain_json(content.metadata)),
        "strings": content.strings,
        "arrays": {},
    }
    for name, array in content.arrays.items():
        is_float = array.dtype.kind == "f"
        values = array.astype(np.float64 if is_float else array.dtype).ravel().tolist()
        if is_float and not np.isfinite(array).all():
            spelled = {math.inf: "Infinity", -math.inf: "-Infinity"}
            values = ["NaN" if value != value else spelled.get(value, value) for value in values]
        document["arrays"][name] = {"dtype": array.dtype.name, "shape": list(array.shape), "values": values}
    replace_file(path, json.dumps(document, allow_nan=False).encode())


def read(path: ModelSource) -> Estimator:
    """Read a model that `write` wrote: return a fitted estimator with the same weights, bit by bit.

    Raises
    ------
    ModelFileError
        The file is not such a document.
    """
    source = at_hand(path)
    shown = shown_source(source)
    try:
        document = parse_json(read_whole(source), "surrogateescape")  # as BYTES has them
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{shown}: not a JSON document: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT_KEY:
        raise ModelFileError(f"{shown}: expected a JSON object whose 'format' is {FORMAT_KEY!r}")
    version = document.get("version")
    if version != FORMAT_VERSION or type(version) is not int:
        raise ModelFileError(f"{shown}: version: expected {FORMAT_VERSION}, got {describe(version)}")
    for name, kind in (("kind", str), ("metadata", dict), ("strings", dict), ("arrays", dict)):
        if not isinstance(document.get(name), kind):
            what = "string" if kind is str else "JSON object"
            raise ModelFileError(f"{shown}: {name}: expected a {what}, got {describe(document.get(name))}")
    for name, values in document["strings"].items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ModelFileError(f"{shown}: strings: {name}: expected a list of strings")
    try:
        arrays = {name: _array(entry) for name, entry in document["arrays"].items()}
    except InputError as error:
        raise ModelFileError(f"{shown}: arrays: {error}") from None
    return restore(ModelFile(document["kind"], arrays, document["strings"], document["metadata"], shown))


def _array(entry: Any) -> NDArray:
    """Return the array of an entry; InputError unless values, dtype and shape fit together."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "values"}:
        raise InputError(f"expected objects of dtype, shape and values, got {describe(entry)}")
    dtype, shape, values = entry["dtype"], entry["shape"], entry["values"]
    if not isinstance(dtype, str) or dtype not in STORED_DTYPES:
        raise InputError(f"expected a dtype of {sorted(STORED_DTYPES)}, got {describe(dtype)}")
    if not isinstance(values, list) or not isinstance(shape, list):
        raise InputError("expected lists of values, and of sizes")
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(values):
        raise InputError(f"{len(values)} values do not have the shape {shape}")
    allowed = VALUE_TYPES.get(np.dtype(dtype).kind, {int})
    numbers = [NOT_FINITE.get(value, value) if isinstance(value, str) else value for value in values]
    wrong = [value for value in numbers if type(value) not in allowed]
    if wrong:
        raise InputError(f"expected values of {dtype}, got {describe(wrong[0])}")
    try:
        return np.array(numbers, dtype).reshape(shape)
    except (OverflowError, ValueError) as error:
        raise InputError(f"expected values of {dtype}: {error}") from None
