"""Sequences that an engine has opened under constraints: the part of inference that all engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.messages import place_of, shorten
from crfqn.structures.item_chain import BestPath
from crfqn.structures.single_runs import best_of_single_runs, repeats
from crfqn.structures.span_rules import SpanRules


class SingleRuns(NamedTuple):
    """Labels that form at most one run in an item each: their names, and the groups of states that they are."""

    names: Sequence[Any]
    rules: SpanRules


@dataclass(frozen=True, eq=False)
class OpenedItems(ABC):
    """Sequences ready for inference. Their best labellings keep the rule of single runs; sums are over all labellings,
    also those that break it.

    offsets : first position of each item, and the number of positions, int64 (I + 1,)
    single_runs : the rule, None where no label has it
    """

    offsets: NDArray[np.int64]
    single_runs: SingleRuns | None

    @abstractmethod
    def _best(self) -> tuple[Labels, Vector]:
        """Return what `best` does, without the rule of single runs."""

    @abstractmethod
    def _n_best(self, n: int) -> list[list[BestPath]]:
        """Return what `n_best` does, without the rule of single runs."""

    @abstractmethod
    def item(self, i: int) -> tuple[Vector, list[Vector]]:
        """Return the scores of an item's nodes, (T, K), and of the transitions to each position, T matrices (K, K)."""

    def best(self) -> tuple[Labels, Vector]:
        """Return the best label's number at each position, (N,), and the scores of the labellings, (I,)."""
        states, scores = self._best()
        repeated = {} if self.single_runs is None else repeats(states, self.offsets, self.single_runs.rules)
        if repeated:
            states, scores = states.copy(), scores.copy()
        for item, groups in repeated.items():
            paths = self.best_of_single_runs(self.item(item), item, groups, 1)
            if not paths:
                once = shorten([*self.single_runs.names]) if self.single_runs else ""
                raise InputError(
                    f"{place_of(item)}: no labelling keeps the rules, once={once} and what is known"
                )
            states[self.offsets[item] : self.offsets[item + 1]], scores[item] = paths[0]
        return states, scores

    def n_best(self, n: int) -> list[list[BestPath]]:
        """Return the n best labellings of each item, fewer where there are fewer, and their scores."""
        best = self._n_best(n)
        for item, paths in enumerate(best):
            if self.single_runs is None:
                break
            states = np.array([state for path in paths for state in path[0]], np.intp)
            ends = np.cumsum([0, *(len(path[0]) for path in paths)], dtype=np.int64)
            repeated = repeats(states, ends, self.single_runs.rules)
            if repeated:
                groups = set().union(*repeated.values())
                best[item] = self.best_of_single_runs(self.item(item), item, groups, n)
        return best

    def best_of_single_runs(
        self, tables: tuple[Vector, list[Vector]], item: int, groups: set[int], n: int
    ) -> list[BestPath]:
        """Return an item's n best labellings that keep the rule of single runs, of the scores of its nodes and of its
        transitions; InputError with its place."""
        assert self.single_runs is not None
        try:
            return best_of_single_runs(*tables, self.single_runs.rules, groups, n)
        except InputError as error:
            raise InputError(f"{place_of(item)}: {error}") from None
