"""Sequences that an engine has opened under constraints: the part of inference that both engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.errors import InputError
from crfqn.messages import place_of, shorten
from crfqn.structures.item_chain import BestPath
from crfqn.structures.single_runs import best_of_single_runs, repeats
from crfqn.structures.span_rules import SpanRules


class SingleRuns(NamedTuple):
    """Labels that each form one run in an item or none: their names, and the groups of their states."""

    names: Sequence[Hashable]
    rules: SpanRules


@dataclass(frozen=True, eq=False)
class OpenedItems(ABC):
    """Sequences ready for inference. Their best labellings keep the rule of single runs; sums include labellings that
    break it.

    offsets : first position of each item, and the number of positions, int64 (I + 1,)
    single_runs : the rule, None if it holds for no label
    """

    offsets: NDArray[np.int64]
    single_runs: SingleRuns | None

    @abstractmethod
    def _best(self) -> tuple[Labels, Vector]:
        """Return the results of `best` without the rule of single runs."""

    @abstractmethod
    def _n_best(self, n: int) -> list[list[BestPath]]:
        """Return the results of `n_best` without the rule of single runs."""

    @abstractmethod
    def item(self, i: int) -> tuple[Vector, list[Vector]]:
        """Return the scores of an item's nodes, (T, K), and of the transitions to each position, T matrices (K, K)."""

    def best(self) -> tuple[Labels, Vector]:
        """Return the numbers of the best labels, (N,), and the scores of the best labellings, (I,)."""
        states, scores = self._best()
        repeated = {} if self.single_runs is None else repeats(states, self.offsets, self.single_runs.rules)
        if repeated:
            states, scores = states.copy(), scores.copy()
        for item, groups in repeated.items():
            paths = self.best_of_single_runs(self.item(item), item, groups, 1)
            if not paths:
                once = shorten([*self.single_runs.names]) if self.single_runs else ""
                raise InputError(
                    f"{place_of(item)}: no labelling keeps the rules, once={once} and the known labels"
                )
            states[self.offsets[item] : self.offsets[item + 1]], scores[item] = paths[0]
        return states, scores

    def n_best(self, n: int) -> list[list[BestPath]]:
        """Return the n best labellings of each item, or all if there are fewer, and their scores."""
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
        """Return an item's n best labellings that keep the rule of single runs; InputError with the item's place.
        `tables`: the scores of its nodes and transitions."""
        assert self.single_runs is not None
        try:
            return best_of_single_runs(*tables, self.single_runs.rules, groups, n)
        except InputError as error:
            raise InputError(f"{place_of(item)}: {error}") from None
