"""Answers for one sentence of dicts or strings by a short chain of calls, which takes as long as the arithmetic.

Labels are those of `NumpyEngine`, bit by bit, and probabilities agree within 1e-12, since the same functions add up the
scores and do the inference.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_VALUES, Vector
from crfqn.data.token_rows import Rows, plain_columns
from crfqn.data.vocabulary import Pairs
from crfqn.model.unknown_features import KeyWatches
from crfqn.model.weights import WeightMatrix
from crfqn.structures.item_chain import NumpyChain


@dataclass(frozen=True, eq=False)
class OneSentence:
    """Answers for one sentence by a model with named features, without rules, a dense block and bigram features.

    Methods take a list of positions, and return None for one in a form that needs the model's methods.

    pairs : of the features with weights; weights : of the nodes; chain : of the edges
    label_names : by state; watches : of the keys of dicts; temperature : None without probabilities
    """

    pairs: Pairs
    weights: WeightMatrix
    chain: NumpyChain
    label_names: list[Any]
    watches: KeyWatches
    temperature: float | None

    def labels(self, item: list[Any]) -> list[Any] | None:
        """Return the best labels; None also for a sentence without known features, which is worth a warning."""
        scores = self._scores(item)
        if scores is None:
            return None
        self.watches.look((item,))
        return [*map(self.label_names.__getitem__, self.chain.best_alone(scores).states)]

    def marginals(self, item: list[Any]) -> Vector | None:
        """Return P(y_t = k | x), (T, K); None also for a model without probabilities."""
        scores = self._scores(item)
        if scores is None or self.temperature is None:
            return None
        scores = scores / self.temperature
        return self._tempered.marginals(scores, self._tempered.messages(scores)[0])

    def log_probability(self, item: list[Any], labels: Sequence[Any]) -> float | None:
        """Return log P(y | x); None also for labels that are unknown or not one for each position."""
        scores = self._scores(item)
        if scores is None or self.temperature is None or len(labels) != len(scores):
            return None
        try:
            states = [*map(self._state_of.__getitem__, labels)]
        except (KeyError, TypeError):
            return None
        scores = scores / self.temperature
        return self._tempered.path_score(scores, states) - self._tempered.messages(scores)[1]

    def _scores(self, item: list[Any]) -> Vector | None:
        """Return the scores of the labels, (T, K); None for a form that is not known or no known feature."""
        plain = plain_columns((item,), self.pairs)
        if plain is None or not plain[0] or max(plain[0]) < 0:
            return None
        columns: NDArray[np.int32] = np.frombuffer(array("i", plain[0]), np.int32)
        row_ends = np.array([0, *accumulate(map(len, plain[1]))])
        return self.weights.scores(Rows(row_ends, columns, NO_VALUES))

    @cached_property
    def _tempered(self) -> NumpyChain:
        """The chain with the scores of edges divided by the temperature."""
        if self.temperature is None or self.temperature == 1.0:
            return self.chain
        return NumpyChain(self.chain.edges / self.temperature)

    @cached_property
    def _state_of(self) -> dict[Any, int]:
        """The numbers of the labels."""
        return dict(zip(self.label_names, range(len(self.label_names)), strict=True))
