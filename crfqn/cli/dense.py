"""A dense block of features from a file of numpy's, beside what a data file has: the option --dense."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crfqn.cli.loading import Input
from crfqn.data.hybrid import Features
from crfqn.errors import DataError, InputError
from crfqn.recipes import Observed


def read_dense(path: Path) -> Any:
    """Return the array of a .npy file, or the only one of a .npz file; DataError for anything else."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            names = found.files
            if len(names) == 1:
                return found[names[0]]
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except Exception as error:  # numpy, zip and zlib each have their own of damaged files
        raise DataError(f"{path}: expected an array of numbers in a .npy or .npz file of numpy's") from error
    raise DataError(f"{path}: expected one array, got {len(names)}: {', '.join(names)}")


def beside(path: Path, X: Any, is_of_sequences: bool) -> Features:
    """Return the dense block of a file beside the items of a data file, in the order of its rows: one an item, of
    sequences one a position. DataError, naming the file, where they do not fit together."""
    dense = read_dense(path)
    if dense.ndim != 2:
        raise DataError(f"{path}: expected a 2-D array, got shape {dense.shape}")
    if not is_of_sequences:
        lengths = np.array([X.shape[0]])
    else:
        lengths = X.lengths if hasattr(X, "lengths") else np.array([len(item) for item in X], np.int64)
    n_rows = int(lengths.sum())
    if len(dense) != n_rows:
        of = "a position" if is_of_sequences else "an item"
        raise DataError(f"{path}: expected {n_rows:,} rows, one {of} of the data file, got {len(dense):,}")
    try:
        return Features(np.split(dense, np.cumsum(lengths)[:-1]) if is_of_sequences else dense, X)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def beside_input(input: Input, model: Any, path: Path, dense: Path | None) -> Input:
    """Return the input of a model with the dense block of a file beside it, read as a whole; InputError where the model
    has one and no file is named, or the other way."""
    if dense is None:
        if model.n_dense_:
            raise InputError(
                f"{path}: trained beside a dense block of {model.n_dense_} columns; --dense FILE names the items' own"
            )
        return input
    if not model.n_dense_:
        raise InputError(f"{path}: --dense: trained without a dense block")

    def observe(source: Any) -> Observed:
        seen = input.observe(source)
        X = beside(dense, seen.X, model.LABELS_SEQUENCES)
        if X.n_dense != model.n_dense_:
            raise DataError(f"{dense}: expected {model.n_dense_} columns, as in training, got {X.n_dense}")
        return replace(seen, X=X)

    return replace(input, observe=observe, cut=None)
