"""Sources of features in batches, GEN of Agarwal et al. (2014), Algorithm 3, and those that take the given features.

A generator holds settings; its `fit(blocks, seed)`, given arrays or CSR arrays (rows, d), returns a source of batches,
functions of a row that depend on the seed and the batch's number alone, so that a model needs to keep no features.
Shapes: N rows of d numbers, p features of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError

SAMPLE = 1000  # rows from which a scale is learnt
NO_ROWS = "expected at least one block of rows, got none"


class Batch:
    """Batch of features, each a function of a row."""

    n_features: int

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        """Return some of the features of some rows, (rows, columns); columns: a slice or an array of numbers."""
        raise NotImplementedError


class Source:
    """Source of batches: a generator fitted to rows of d numbers; KIND names it in model files."""

    KIND: ClassVar[str]

    n_inputs: int

    def batch_width(self, number: int, size: int) -> int:
        """Return the number of features of the batch `number`, without making it."""
        return size

    def batch(self, number: int, size: int) -> Batch:
        """Return the batch `number`, counted from 0, of up to `size` features."""
        raise NotImplementedError

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return what a model file has to hold: JSON values, and arrays by name; InputError if that is impossible."""
        return vars(self).copy(), {}

    @classmethod
    def restored(cls, table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Source:
        """Return what `content` describes; KeyError or ValueError for anything else."""
        raise NotImplementedError


def draws(seed: int, number: int) -> np.random.RandomState:
    """Return the random numbers of a batch, of numpy's RandomState, whose streams stay the same in all versions."""
    return np.random.RandomState([seed, number])


def result_dtype(rows: Any) -> np.dtype:
    """Return float32 for rows of float32 and small integers, float64 for others."""
    return np.result_type(rows.dtype, np.float32)


def sample_rows(blocks: Iterable[Any]) -> NDArray[np.float64]:
    """Return up to SAMPLE different rows, evenly spread over the blocks, float64 (rows, d); of fewer all, in an order
    of their own, so that neither repetitions nor the blocks' order make a difference."""
    found = []
    for block in blocks:
        some = block[:: max(1, block.shape[0] // SAMPLE)][:SAMPLE]
        found.append(np.asarray(some.toarray() if hasattr(some, "toarray") else some, np.float64))
    if not found:
        raise InputError(NO_ROWS)
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


@dataclass(frozen=True, eq=False)
class ChosenBatch(Batch):
    """Some of the given features as they are, int64 (p,)."""

    chosen: NDArray[np.int64]

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.chosen.size

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        found = rows[:, self.chosen[columns]]
        return (found.toarray() if hasattr(found, "toarray") else found).astype(result_dtype(rows))


class InTurn(Source):
    """Base class of the sources that take every given feature once before any comes again, in rounds."""

    def order(self, turn: int) -> NDArray[np.int64]:
        """Return the permutation of the features in round `turn`, int64 (d,)."""
        raise NotImplementedError

    def batch(self, number: int, size: int) -> ChosenBatch:
        """Return the batch `number`, its features ascending."""
        turn, place = divmod(number, -(-self.n_inputs // size))
        return ChosenBatch(np.sort(self.order(turn)[place * size : (place + 1) * size]))

    def batch_width(self, number: int, size: int) -> int:
        """Return the number of features of the batch `number`: the last of a round may have fewer."""
        place = number % -(-self.n_inputs // size)
        return min(size, self.n_inputs - place * size)


@dataclass(frozen=True)
class Shuffled(InTurn):
    """Source that draws features without replacement; once all have been drawn, a new permutation begins."""

    KIND: ClassVar[str] = "subsets"

    n_inputs: int
    seed: int

    def order(self, turn: int) -> NDArray[np.int64]:
        return draws(self.seed, turn).permutation(self.n_inputs)

    @classmethod
    def restored(cls, table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Shuffled:
        return cls(check_count(table, "n_inputs"), check_count(table, "seed"))


@dataclass(frozen=True, eq=False)
class Ordered(InTurn):
    """Source that takes features in a given order, int64 (d,), again and again."""

    KIND: ClassVar[str] = "ordered"

    features: NDArray[np.int64]

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
        return self.features.size

    def order(self, turn: int) -> NDArray[np.int64]:
        return self.features

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        return {}, {"order": self.features}

    @classmethod
    def restored(cls, table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Ordered:
        order = np.asarray(arrays["order"])
        if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(order.size)):
            raise ValueError("order: expected every feature once")
        return cls(order.astype(np.int64))


@dataclass(frozen=True)
class RandomSubsets:
    """Generator that draws the given features at random without replacement; all come before one comes again."""

    def fit(self, blocks: Iterable[Any], seed: int) -> Shuffled:
        first = next(iter(blocks), None)
        if first is None:
            raise InputError(NO_ROWS)
        return Shuffled(int(first.shape[1]), seed)


@dataclass(frozen=True)
class ByFrequency:
    """Generator that takes the given features by frequency, the most frequent first: the paper's choice for text."""

    def fit(self, blocks: Iterable[Any], seed: int) -> Ordered:
        counts: NDArray | None = None
        for block in blocks:
            own = np.bincount(block.nonzero()[1], minlength=block.shape[1])
            counts = own if counts is None else counts + own
        if counts is None:
            raise InputError(NO_ROWS)
        return Ordered(np.argsort(-counts, kind="stable").astype(np.int64))
