"""Labelled sequences as every library of a benchmark gets them, and what a library returns: a `Run`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from crfqn import Sequences


@dataclass(frozen=True)
class Problem:
    """Training and test items: features, and a list of labels for each item."""

    X_train: Sequences
    y_train: list[list[str]]
    X_test: Sequences
    y_test: list[list[str]]

    @classmethod
    def of_recipe(cls, name: str) -> Problem:
        """The data of a ready-made recipe, with its split."""
        from crfqn.recipes import load_recipe, prepare

        prepared = prepare(load_recipe(name))
        return cls(prepared.X_train, prepared.y_train, prepared.X_test, prepared.y_test)

    @cached_property
    def classes(self) -> list[str]:
        return sorted({label for labels in self.y_train for label in labels})

    @property
    def fingerprint(self) -> str:
        """Of the training labels in their order: says whether it is the same split."""
        return fingerprint(" ".join(labels) for labels in self.y_train)

    def part(self, n_items: int) -> Problem:
        """The first training items only: for warming up."""
        return Problem(self.X_train[:n_items], self.y_train[:n_items], self.X_test, self.y_test)


@dataclass(frozen=True, eq=False)
class Run:
    """How one library trained.

    Attributes
    ----------
    iterations, seconds, values : arrays of equal length
        After so many iterations and seconds the objective, penalty included, as the library reports it.
    setup_seconds : from features in memory to the first iteration
    passes : inference passes over the training items
    weights : float64 (K, F), CSR
    n_nonzero : how many weights the library keeps, edges included
    peak_bytes : largest resident size of its process, Python and the features included
    edges : float64 (K, K), from x to; of chains
    facts : what else is worth printing
    """

    name: str
    iterations: NDArray[np.int64]
    seconds: NDArray[np.float64]
    values: NDArray[np.float64]
    setup_seconds: float
    passes: float
    weights: Any
    n_nonzero: int
    peak_bytes: int
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    facts: dict[str, Any] = field(default_factory=dict)

    def row_at(self, reference: float, level: float) -> int | None:
        """The first row within `level` (relative) of the reference optimum; None: not reached."""
        reached = np.flatnonzero(self.values <= reference * (1.0 + level))
        return int(reached[0]) if reached.size else None

    def seconds_to(self, reference: float, level: float) -> float | None:
        """Seconds until the objective was within `level` of the reference optimum."""
        row = self.row_at(reference, level)
        return None if row is None else float(self.seconds[row])


def fingerprint(lines: Iterable[str]) -> str:
    """SHA-256 over lines of text, 64 hex digits."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
