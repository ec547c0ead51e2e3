"""Batches of the given features: in a random order, or the most frequent first. Shapes as in `protocol.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.data.generators.protocol import check_count, draws, result_dtype, width


@dataclass(frozen=True, eq=False)
class ChosenBatch:
    """Some of the given features as they are, int64 (p,)."""

    chosen: NDArray[np.int64]

    @property
    def n_features(self) -> int:
        return self.chosen.size

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        found = rows[:, self.chosen[columns]]
        return (found.toarray() if hasattr(found, "toarray") else found).astype(result_dtype(rows))


class InTurn:
    """Base class of the sources that take every given feature once before any comes again, in rounds."""

    n_inputs: int

    def order(self, turn: int) -> NDArray[np.int64]:
        """Return the permutation of the features in round `turn`, int64 (d,)."""
        raise NotImplementedError

    def batch(self, number: int, size: int) -> ChosenBatch:
        """Return the batch `number`, counted from 0; its features ascend."""
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

    def content(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        return vars(self).copy(), {}

    @classmethod
    def restored(cls, table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Shuffled:
        """Return what `content` describes; KeyError or ValueError for anything else."""
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
        """Return what `content` describes; KeyError or ValueError for anything else."""
        order = np.asarray(arrays["order"])
        if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(order.size)):
            raise ValueError("order: expected every feature once")
        return cls(order.astype(np.int64))


@dataclass(frozen=True)
class RandomSubsets:
    """Generator that draws the given features at random without replacement; all come before one comes again."""

    def fit(self, blocks: Iterable[Any], seed: int) -> Shuffled:
        return Shuffled(width(iter(blocks))[1], seed)


@dataclass(frozen=True)
class ByFrequency:
    """Generator that takes the given features by frequency, the most frequent first: the paper's choice for text."""

    def fit(self, blocks: Iterable[Any], seed: int) -> Ordered:
        counts: NDArray | None = None
        for block in blocks:
            own = np.bincount(block.nonzero()[1], minlength=block.shape[1])
            counts = own if counts is None else counts + own
        if counts is None:
            width(iter(()))
        return Ordered(np.argsort(-np.asarray(counts), kind="stable").astype(np.int64))
