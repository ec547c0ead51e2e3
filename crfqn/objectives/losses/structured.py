"""Losses of a structured model, whose labels are compared by inference over chains or taxonomies.

Shapes as in `score_loss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.structures.structure import Structure


@dataclass(frozen=True, eq=False)
class OverStructure:
    """What losses over a structure take from it."""

    structure: Structure

    @property
    def n_states(self) -> int:
        return self.structure.n_states

    @property
    def n_edges(self) -> int:
        return self.structure.n_edges

    @property
    def n_items(self) -> int:
        return self.structure.n_items


@dataclass(frozen=True, eq=False)
class StructuredLoss(OverStructure):
    """Base of losses that compare with one label a position.

    Parameters
    ----------
    structure : Structure over I items and N positions
    targets : ndarray of int32, shape (N,), the observed labels

    Raises
    ------
    InputError
        For targets of another number, outside of 0 ... K - 1, or that the structure has no labels for.
    """

    targets: Labels

    def __post_init__(self) -> None:
        targets = self.targets
        if targets.size and not 0 <= targets.min() <= targets.max() < self.n_states:
            raise InputError(
                f"expected targets within 0 ... {self.n_states - 1}, got {targets.min()} ... {targets.max()}"
            )
        self.structure.check_targets(targets)
        object.__setattr__(self, "targets", np.ascontiguousarray(targets, np.int32))

    @property
    def n_positions(self) -> int:
        return self.targets.size

    def take(
        self, items: NDArray[np.integer], positions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> Self:
        return type(self)(self.structure.over(offsets), self.targets[positions])

    @cached_property
    def _relatives(self) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
        ancestors = self.structure.ancestors
        return ancestors.indptr, ancestors.states

    def states_of(self, labels: Labels) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        """Return the states that labels make true, and which of the labels each belongs to."""
        starts, states = self._relatives
        lengths = np.diff(starts)[labels]
        first = np.cumsum(lengths) - lengths
        entry = np.arange(lengths.sum()) + np.repeat(starts[labels] - first, lengths)
        return states[entry], np.repeat(np.arange(labels.size), lengths)

    def observed_at(self, positions: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        """Return the states that the labels at some positions make true, and which of the positions each is at."""
        return self.states_of(self.targets[positions])

    def observed_edges(self, weights: Vector) -> Vector:
        """Return the weighted observed transitions, (E,)."""
        return self.structure.counts(self.targets, weights).reshape(-1)
