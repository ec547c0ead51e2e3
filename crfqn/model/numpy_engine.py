"""Scores and inference by numpy alone, for single items and for processes that must not compile.

Shapes: I items, N positions, K labels (in a taxonomy nodes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.data.encoding import encode_new
from crfqn.data.hybrid import check_dense, sparse_of
from crfqn.data.inputs import ItemsLike
from crfqn.data.label_arrays import encode_allowed_labels
from crfqn.data.token_rows import Rows, TokenRows
from crfqn.errors import InputError
from crfqn.messages import place_of
from crfqn.model.label_constraints import UNCONSTRAINED, LabelConstraints
from crfqn.model.opened_items import OpenedItems
from crfqn.model.unknown_features import warn_of_unknown_names
from crfqn.structures.item_chain import BestPath, NumpyChain
from crfqn.structures.span_rules import SpanRules, Spans

if TYPE_CHECKING:
    from crfqn.model.compiled_engine import CompiledEngine

BLOCK_NUMBERS = 1 << 23  # scores of a block of items: 64 MB, which bounds the memory of an array


@dataclass(frozen=True, eq=False)
class NumpyItems(OpenedItems):
    """Sequences ready for inference: the scores of each, (T, K), -inf where rules or known labels exclude a label."""

    chain: NumpyChain
    scores: list[Vector]
    has_known: bool

    def at(self, temperature: float) -> Self:
        """Return the items with all scores divided by a temperature."""
        if temperature == 1.0:
            return self
        chain = NumpyChain(self.chain.edges / temperature, self.chain.rules)
        return replace(self, chain=chain, scores=[scores / temperature for scores in self.scores])

    def _best(self) -> tuple[Labels, Vector]:
        paths = self.chain.best(self.scores)
        states = paths[0].states if len(paths) == 1 else [k for path in paths for k in path.states]
        scores = [path.score for path in paths]
        self._check_possible(scores)
        return np.array(states, np.intp), np.array(scores, np.float64)

    def log_partition(self) -> Vector:
        """Return log Z of each item, (I,)."""
        totals = [self.chain.messages(scores)[1] for scores in self.scores]
        self._check_possible(totals)
        return np.array(totals, np.float64)

    def marginals(self) -> list[Vector]:
        """Return the probabilities of the labels, (T, K) for each item."""
        forward = [self.chain.messages(scores) for scores in self.scores]
        self._check_possible([total for _, total in forward])
        return [
            self.chain.marginals(scores, messages)
            for scores, (messages, _) in zip(self.scores, forward, strict=True)
        ]

    def pairs(self) -> list[Vector]:
        """Return the probabilities of pairs of neighbouring labels, (T - 1, K, K) for each item."""
        self.log_partition()
        return [self.chain.pairs(scores) for scores in self.scores]

    def _n_best(self, n: int) -> list[list[BestPath]]:
        return [self.chain.n_best(scores, n) for scores in self.scores]

    def item(self, i: int) -> tuple[Vector, list[Vector]]:
        return self.chain.tables(self.scores[i])

    def span_probabilities(self, spans: Spans, rules: SpanRules) -> Vector:
        """Return the probability of each span, (S,)."""
        probabilities: list[float] = []
        heads = np.searchsorted(spans.starts, self.offsets).tolist()
        for scores, start, (first, last) in zip(
            self.scores, self.offsets.tolist(), pairwise(heads), strict=False
        ):
            ends = (np.stack([spans.starts, spans.stops], 1)[first:last] - start).tolist()
            types = [rules.type_of == kind for kind in spans.types[first:last].tolist()]
            probabilities += self.chain.span_probabilities(scores, ends, types, rules.continues)
        return np.array(probabilities, np.float64)

    def log_probability(self, states: Labels) -> Vector:
        """Return log P of a labelling of each item, (I,), given its states, (N,)."""
        runs = zip(self.scores, pairwise(self.offsets.tolist()), strict=True)
        scores = [
            self.chain.path_score(scores, states[first:last].tolist()) for scores, (first, last) in runs
        ]
        return np.array(scores, np.float64) - self.log_partition()

    def within(self, allowed: NDArray[np.bool_]) -> Vector:
        """Return log Z of each item over the allowed labellings, (I,), -inf without any; `allowed` : states, (K, N)."""
        runs = zip(self.scores, pairwise(self.offsets.tolist()), strict=True)
        masked = (
            self.chain.masked_scores(scores, allowed[:, first:last].T) for scores, (first, last) in runs
        )
        return np.array([self.chain.messages(scores)[1] for scores in masked], np.float64)

    def _check_possible(self, scores: list[float]) -> None:
        """Raise InputError for an item without any labelling, whose best score or log Z is -inf."""
        if -np.inf in scores:
            known = " and the known labels" if self.has_known else ""
            raise InputError(f"{place_of(scores.index(-np.inf))}: no labelling keeps the rules{known}")


class NumpyEngine:
    """The engine that uses numpy alone."""

    def encode(self, model: Any, X: ItemsLike) -> Any:
        """Return sequences as `TokenRows` or `Sequences`, with their dense block if the model has one."""
        X = check_dense(X, model.n_dense_)
        encoded = encode_new(sparse_of(X), model.vocabulary, model.n_features_in_, model.known_pairs)
        return X.beside(encoded) if model.n_dense_ else encoded

    def open(
        self, model: Any, X: ItemsLike, constraints: LabelConstraints = UNCONSTRAINED, warns: bool = True
    ) -> NumpyItems:
        """Return new sequences under constraints; `warns`: whether to warn of items without a known feature."""
        single_runs = model.single_runs(constraints.once)
        X = list(X) if isinstance(X, Iterator) else X
        encoded = self.encode(model, X)
        if warns and model.weights.values.size and not model.n_dense_:
            warn_of_unknown_names(encoded, X, model)
        chain, ends, rows = model.chain, encoded.offsets.tolist(), rows_of(encoded)
        scores = model.weights.scores(rows)
        if model.n_dense_:
            scores = scores + np.asarray(encoded.dense, np.float64) @ model.dense_coef_.T
        if model.bigrams is not None:
            scores = np.hstack([scores, model.bigrams.scores(rows)])
        if constraints.known is None:
            items = [chain.masked_scores(scores[first:last]) for first, last in pairwise(ends)]
        else:
            allowed = encode_allowed_labels(constraints.known, encoded.offsets, model.classes_).T
            items = [
                chain.masked_scores(scores[first:last], allowed[first:last]) for first, last in pairwise(ends)
            ]
        return NumpyItems(encoded.offsets, single_runs, chain, items, constraints.known is not None)

    def node_scores(self, model: Any, X: Any, warns: bool) -> Iterator[Vector]:
        """Yield the scores of the nodes block by block, (items, K)."""
        X = check_dense(X, model.n_dense_)
        rows = model.rows(sparse_of(X), warns)
        n_items, n_block = rows.row_ends.size - 1, max(1, BLOCK_NUMBERS // model.weights.shape[0])
        for first in range(0, max(n_items, 1), n_block):
            last = min(first + n_block, n_items)
            scores = model.weights.scores(rows.cut(first, last), model.intercept)
            if model.n_dense_:
                scores = scores + np.asarray(X.dense[first:last], np.float64) @ model.dense_coef_.T
            yield scores

    def class_scores(self, model: Any, X: ItemsLike, warns: bool = True) -> Iterator[Vector]:
        """Yield the scores of the classes block by block, (items, classes): in a taxonomy the sums of the scores of a
        class's node and its ancestors. `warns`: whether to warn of items without a known feature."""
        for scores in self.node_scores(model, X, warns):
            yield model.labels.class_scores(scores)

    def node_probabilities(self, model: Any, X: ItemsLike, warns: bool = True) -> Iterator[Vector]:
        """Yield for each node of a taxonomy the probability of the node and those under it, block by block,
        (items, K)."""
        from crfqn.model.label_index import sum_up  # models of sequences have no taxonomy

        tree, nodes = model.labels.tree, model.labels.nodes
        for scores in self.class_scores(model, X, warns):
            p = np.exp((scores - scores.max(axis=1, keepdims=True)) / model.temperature)
            whole = np.zeros((len(p), tree.n_nodes))
            whole[:, nodes] = p / p.sum(axis=1, keepdims=True)
            yield sum_up(tree, whole)


NUMPY = NumpyEngine()
Engine: TypeAlias = "NumpyEngine | CompiledEngine"


def rows_of(encoded: Any) -> Rows:
    """Return the features of the positions of encoded sequences."""
    encoded = sparse_of(encoded)
    return Rows.from_items(encoded if isinstance(encoded, TokenRows) else encoded.matrix)
