"""The parts of a model file that several kinds of models have: sparse matrices, labels, names and sizes.

A file stores the non-zeros of a matrix as arrays `<name>_<row>`, `<name>_<column>` and `<name>_weight`, such as
node_state, node_feature and node_weight; labels as a list of strings or an array of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.model_file import ModelFile, narrowed
from crfqn.data.vocabulary import NO_VALUE, UNKNOWN_VALUE, Vocabulary
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe
from crfqn.model.results import RESULT_NUMBERS, TRACE_COLUMNS
from crfqn.result import Status
from crfqn.structures.transition_rules import TransitionRules

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from crfqn.data.templates.vocabulary import TemplateSource


@dataclass
class ModelContent:
    """The arrays, lists of strings and JSON values that `crfqn.data.model_file.write_model` writes, by name."""

    arrays: dict[str, NDArray] = field(default_factory=dict)
    strings: dict[str, list[str]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


# Absolute value of a weight in a file. Scores and their squares stay finite in float64 for features up to
# `data.items.LARGEST_VALUE`; weights of trainings are far smaller.
MAX_WEIGHT = 1e30
# Entries of an array that a small file may describe: the letters of all labels in numpy's array, each padded to the
# longest (64 MB), or the transitions between labels (128 MB). Arrays that the file itself holds may be larger.
MAX_TABLE_SIZE = 1 << 24
# kinds of models
CHAIN, FLAT, CLASSIFIER, TAXONOMY = "chain-crf", "multiclass-crf", "multiclass-classifier", "taxonomy-crf"
RANKER = "multilabel-ranker"
KINDS_OF_SETS = (RANKER, "generalized-least-squares")  # their items may have several labels
WEIGHT_TYPES = ("float64", "float32")
GAZETTEER_START = "gazetteer "  # of the names of lists of strings that are entries
VALUE_STARTS, CRFSUITE_NAMING = "feature_value_start", "crfsuite"
FORBIDDEN_PAIRS, FORBIDDEN_STARTS, FORBIDDEN_ENDS = ("forbidden", "forbidden_start", "forbidden_end")  # rules
DENSE_WEIGHTS = "dense_weights"  # (K, D), of a dense block of features
# The weights of labels, transitions and bigram features.
NODE_MATRIX, EDGE_MATRIX, BIGRAM_MATRIX = "node", "edge", "bigram"
# The rows or columns of matrices.
STATE_INDEX, FEATURE_INDEX, FROM_INDEX, TO_INDEX = "state", "feature", "from", "to"
TRANSITION_INDEX = "transition"  # the same: `from` K + `to`, for K labels
IMPORTED_FROM = "imported_from"  # in `extra`: the format of another tool's model


def add_matrix(content: ModelContent, name: str, matrix: csr_array, row: str, column: str) -> None:
    """Add the non-zeros of a sparse matrix to the content, under the names that the head of this file describes."""
    entries = matrix.tocoo()
    content.arrays[f"{name}_{row}"] = narrowed(entries.row)
    content.arrays[f"{name}_{column}"] = narrowed(entries.col)
    content.arrays[f"{name}_weight"] = entries.data


class Entries(NamedTuple):
    """The non-zeros of a matrix: values float64 (n,), rows and columns int64 (n,)."""

    values: NDArray[np.float64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]


def read_entries(file: ModelFile, name: str, row: str, column: str, shape: tuple[int, int]) -> Entries:
    """Return the matrix that `add_matrix` stored; ModelFileError for entries outside `shape` and invalid weights."""
    values = read_weights(file, f"{name}_weight", (None,))
    rows = file.integers(f"{name}_{row}", values.shape, shape[0])
    return Entries(values, rows, file.integers(f"{name}_{column}", values.shape, shape[1]))


def read_weights(file: ModelFile, name: str, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Return the array `name`, stored as float64 or float32, in float64; ModelFileError unless all entries are finite
    and no larger than MAX_WEIGHT in absolute value."""
    array = file.arrays.get(name)
    dtype = "float32" if array is not None and array.dtype == np.float32 else "float64"
    values = file.array(name, dtype, shape).astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise ModelFileError(f"{file.path}: a weight of {name} is not finite")
    largest = np.abs(values).max(initial=0.0)
    if largest > MAX_WEIGHT:
        raise ModelFileError(
            f"{file.path}: {name}: expected weights of at most {MAX_WEIGHT:g} in size, whose scores are finite, "
            f"got {largest:g}"
        )
    return values


def read_dense(file: ModelFile, n_states: int) -> NDArray[np.float64]:
    """Return the weights of a dense block, (K, D), D = 0 without one; ModelFileError for other shapes."""
    return (
        read_weights(file, DENSE_WEIGHTS, (n_states, None))
        if DENSE_WEIGHTS in file.arrays
        else np.empty((n_states, 0))
    )


def narrow_weights(content: ModelContent, dtype: str) -> None:
    """Store weights (`*_weight`, `*_weights`, `intercept`) as `dtype`. float32 has a relative error up to 6e-8 (below
    1e-38 an absolute error up to 1e-45). InputError for another dtype, and for weights too large for it."""
    if dtype not in WEIGHT_TYPES:
        raise InputError(f"dtype: expected one of {list(WEIGHT_TYPES)}, got {dtype!r}")
    for name, array in content.arrays.items():
        if array.dtype != np.float64 or not name.endswith(("_weight", "_weights", "intercept")):
            continue
        largest = float(np.abs(array).max(initial=0.0))
        if largest > float(np.finfo(dtype).max):
            raise InputError(f"dtype: {name} has a weight of {largest:g}, too large for {dtype}")
        content.arrays[name] = array.astype(dtype)


def add_labels(content: ModelContent, labels: NDArray) -> None:
    """Add labels under the name `classes`: strings, or an array of numbers or booleans."""
    if labels.dtype.kind in "US":
        content.strings["classes"] = [str(label) for label in labels]
    else:
        content.arrays["classes"] = labels


def read_labels(file: ModelFile, n_classes: int) -> NDArray:
    """Return the labels that `add_labels` stored; ModelFileError unless they are `n_classes`, distinct and finite."""
    names = file.strings.get("classes")
    if names is not None and len(names) * max(map(len, names), default=0) > max(
        MAX_TABLE_SIZE, 16 * sum(map(len, names))
    ):
        raise ModelFileError(
            f"{file.path}: classes: expected shorter labels, one has {max(map(len, names)):,} letters"
        )
    classes = file.arrays.get("classes", np.empty(0)) if names is None else np.array(names)
    if classes.shape != (n_classes,) or n_classes < 1:
        raise ModelFileError(f"{file.path}: expected {n_classes} classes, found {classes.shape}")
    if classes.dtype.kind not in "biufU" or (classes.dtype.kind == "f" and not np.isfinite(classes).all()):
        raise ModelFileError(f"{file.path}: classes: expected strings or finite numbers, got {classes.dtype}")
    if len(set(classes.tolist())) < n_classes:
        raise ModelFileError(
            f"{file.path}: classes: expected {n_classes} different labels, but one comes twice"
        )
    return classes


def add_vocabulary(content: ModelContent, vocabulary: Vocabulary | None, features: NDArray) -> None:
    """Add the names of some features, or the templates that make them, and the rule that names features of dicts."""
    if vocabulary is None:
        return
    if (source := vocabulary.stored_source()) is not None:
        content.metadata["templates"] = table = dict(source)
        lists = table.pop("gazetteers", {})
        content.strings |= {f"{GAZETTEER_START}{name}": [*entries] for name, entries in lists.items()}
    if vocabulary.is_hashed:
        return
    content.strings["feature_names"] = [vocabulary.names[f] for f in features]
    if vocabulary.has_attributes:
        content.metadata["naming"] = CRFSUITE_NAMING
    elif source is None:
        content.arrays[VALUE_STARTS] = narrowed(vocabulary.value_starts[features] - UNKNOWN_VALUE)


def read_vocabulary(file: ModelFile) -> Vocabulary | None:
    """Return the vocabulary that `add_vocabulary` stored; None if the file has neither names nor templates."""
    names = file.string_list("feature_names") if "feature_names" in file.strings else None
    if "templates" in file.metadata:
        from crfqn.data.templates.vocabulary import TemplateSource  # most models have none

        start = GAZETTEER_START
        lists = {name[len(start) :]: file.strings[name] for name in file.strings if name.startswith(start)}
        return TemplateSource.from_dict(file.table("templates") | {"gazetteers": lists}).vocabulary(names)
    if names is None:
        return None
    naming = file.metadata.get("naming")
    if naming not in (None, CRFSUITE_NAMING):
        raise ModelFileError(f"{file.path}: naming: expected {CRFSUITE_NAMING!r}, got {describe(naming)}")
    if naming is not None:
        return Vocabulary(names, has_attributes=True)
    if VALUE_STARTS not in file.arrays:  # features without values
        return Vocabulary(names, np.full(len(names), UNKNOWN_VALUE))
    longest = max(map(len, names), default=0)
    starts = file.integers(VALUE_STARTS, (len(names),), longest + 1 - UNKNOWN_VALUE) + UNKNOWN_VALUE
    for name, start in zip(names, starts.tolist(), strict=True):
        if start > 0 and name[start - 1 : start] != "=":
            raise ModelFileError(
                f"{file.path}: {VALUE_STARTS}: expected '=' in {name!r:.60} before place {start}"
            )
    return Vocabulary(names, starts)


def read_size(file: ModelFile, n_states: int) -> int:
    """Return the number of features; ModelFileError if int64 could not number the weights of so many states."""
    return file.count("n_features", maximum=(2**63 - 1) // max(n_states, 1) - n_states - 1)


def check_transitions(file: ModelFile, n_states: int) -> None:
    """Raise ModelFileError if the transitions of so many labels would take much more memory than the file."""
    limit = max(MAX_TABLE_SIZE, 16 * sum(array.size for array in file.arrays.values()))
    if n_states**2 > limit:
        raise ModelFileError(
            f"{file.path}: n_classes: expected at most {int(limit**0.5):,} labels of a chain with so few weights, got "
            f"{n_states:,}"
        )


def read_names(file: ModelFile, n_features: int) -> list[str] | None:
    """Return the names of the columns of single items, None without names; ModelFileError if their number differs."""
    names = file.string_list("feature_names") if "feature_names" in file.strings else None
    if names is not None and len(names) != n_features:
        raise ModelFileError(f"{file.path}: {len(names)} names for {n_features} features")
    return names


def add_rules(content: ModelContent, rules: TransitionRules | None) -> None:
    """Add forbidden transitions, as pairs of states, and the states that may not begin or end an item."""
    if rules is None:
        return
    first, second = np.nonzero(~rules.transitions)
    content.arrays[f"{FORBIDDEN_PAIRS}_{FROM_INDEX}"] = narrowed(first)
    content.arrays[f"{FORBIDDEN_PAIRS}_{TO_INDEX}"] = narrowed(second)
    content.arrays[FORBIDDEN_STARTS] = narrowed(np.flatnonzero(~rules.start))
    content.arrays[FORBIDDEN_ENDS] = narrowed(np.flatnonzero(~rules.end))


def read_rules(file: ModelFile, n_states: int) -> TransitionRules | None:
    """Return the rules that `add_rules` stored, None without rules; ModelFileError for invalid states."""
    if FORBIDDEN_STARTS not in file.arrays:
        return None
    rules = TransitionRules.everything(n_states)
    first = file.integers(f"{FORBIDDEN_PAIRS}_{FROM_INDEX}", (None,), n_states)
    rules.transitions[first, file.integers(f"{FORBIDDEN_PAIRS}_{TO_INDEX}", first.shape, n_states)] = False
    rules.start[file.integers(FORBIDDEN_STARTS, (None,), n_states)] = False
    rules.end[file.integers(FORBIDDEN_ENDS, (None,), n_states)] = False
    return rules


def chain_file(
    path: str,
    labels: list[str],
    attributes: list[str],
    state: Entries,
    transition: Entries,
    bigram: Entries | None = None,
    *,
    extra: Mapping[str, object],
    source: TemplateSource | None = None,
    naming: str | None = None,
) -> ModelFile:
    """Return the content of a model file with the weights of a chain that another tool has trained.

    The order of labels and attributes is kept, as it decides ties.

    Parameters
    ----------
    path : name of the tool's file, for messages
    state, transition, bigram : weights of attributes x labels, of labels x labels (from x to), and of attributes x
        pairs of labels, as `EdgeLayout` numbers these
    extra : values to keep with the model
    source : the templates that make the attributes of token columns, None if items are dicts or lists of names
    naming : the rule that names the features of dicts, None for crfqn's own

    Raises
    ------
    ModelFileError
        A pair of names has two weights, which a sparse matrix would add.
    """
    tables = [
        (NODE_MATRIX, FEATURE_INDEX, STATE_INDEX, state),
        (EDGE_MATRIX, FROM_INDEX, TO_INDEX, transition),
    ]
    if bigram is not None and bigram.values.size:
        tables.append((BIGRAM_MATRIX, FEATURE_INDEX, TRANSITION_INDEX, bigram))
    arrays: dict[str, NDArray] = {"trace": np.empty((0, len(TRACE_COLUMNS)))}
    for name, row, column, (values, rows, columns) in tables:
        if np.unique(rows * (columns.max(initial=0) + 1) + columns).size < rows.size:
            raise ModelFileError(f"{path}: the file is damaged: a pair of names has two weights")
        arrays |= {f"{name}_{row}": rows, f"{name}_{column}": columns, f"{name}_weight": values}
    result = {"status": Status.IMPORTED.name, "n_iter": 0, "n_proved_zeros": None}
    metadata: dict[str, Any] = {
        "n_features": len(attributes),
        "n_classes": len(labels),
        "settings": {"solver": "auto"},  # the other settings are unknown
        "result": dict.fromkeys(RESULT_NUMBERS) | result,
        "extra": extra,
    }
    if source is not None:
        metadata["templates"] = asdict(source)
    elif naming is not None:
        metadata["naming"] = naming
    else:
        arrays[VALUE_STARTS] = np.full(len(attributes), NO_VALUE - UNKNOWN_VALUE, np.uint8)
    return ModelFile(CHAIN, arrays, {"classes": labels, "feature_names": attributes}, metadata, path)
