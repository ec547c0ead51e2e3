"""Protocols of generators of features: GEN of Agarwal et al. (2014), Algorithm 3.

A generator holds settings; fitted to rows and a seed it is a source of batches, which are functions of a row. What a
source draws depends on its seed and the number of the batch alone, so that a model needs to keep no features.

Shapes: N rows of d numbers, p features of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError

SAMPLE = 1000  # rows from which a scale is learnt


class Batch(Protocol):
    """Batch of features, each a function of a row."""

    @property
    def n_features(self) -> int: ...

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        """Return some of the features of some rows, (rows, columns); columns: a slice or an array of numbers."""


class Source(Protocol):
    """Source of batches: a generator fitted to rows of d numbers; KIND names it in model files."""

    KIND: ClassVar[str]

    @property
    def n_inputs(self) -> int:
        """Number of entries of a row, d."""

    def batch_width(self, number: int, size: int) -> int:
        """Return the number of features of the batch `number`, without making it."""

    def batch(self, number: int, size: int) -> Batch:
        """Return the batch `number`, counted from 0, of up to `size` features."""

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return what a model file has to hold: JSON values, and arrays by name; InputError if that is impossible."""


class Generator(Protocol):
    """Generator of features: the settings of a source."""

    def fit(self, blocks: Iterable[Any], seed: int) -> Source:
        """Return the source for rows that come in blocks, arrays or CSR arrays (rows, d)."""


def draws(seed: int, number: int) -> np.random.RandomState:
    """Return the random numbers of a batch, of numpy's RandomState, whose streams stay the same in all versions."""
    return np.random.RandomState([seed, number])


def result_dtype(rows: Any) -> np.dtype:
    """Return float32 for rows of float32 and small integers, float64 for others."""
    return np.result_type(rows.dtype, np.float32)


def width(blocks: Iterator[Any]) -> tuple[Any, int]:
    """Return the first block and its number of columns."""
    first = next(blocks, None)
    if first is None:
        raise InputError("expected at least one block of rows, got none")
    return first, int(first.shape[1])


def sample_rows(blocks: Iterable[Any]) -> NDArray[np.float64]:
    """Return up to SAMPLE different rows, evenly spread over the blocks, float64 (rows, d).

    Of fewer rows all are taken, in an order of their own: neither repetitions nor their order make a difference.
    """
    found = []
    for block in blocks:
        some = block[:: max(1, block.shape[0] // SAMPLE)][:SAMPLE]
        found.append(np.asarray(some.toarray() if hasattr(some, "toarray") else some, np.float64))
    if not found:
        raise InputError("expected at least one block of rows, got none")
    rows = np.unique(np.concatenate(found), axis=0)
    return rows[:: max(1, rows.shape[0] // SAMPLE)][:SAMPLE]


def check_number(table: Mapping[str, Any], name: str, low: float) -> float:
    """Return the entry `name` of a model file's table, a finite number above `low`; ValueError for anything else."""
    value = table[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < np.inf:
        raise ValueError(f"{name}: expected a finite number above {low:g}, got {value!r}")
    return float(value)


def check_count(table: Mapping[str, Any], name: str) -> int:
    """Return the entry `name` of a model file's table, a whole number >= 0; ValueError for anything else."""
    value = table[name]
    if type(value) is not int or not 0 <= value < 2**32:
        raise ValueError(f"{name}: expected a whole number from 0 to {2**32 - 1}, got {value!r}")
    return value
