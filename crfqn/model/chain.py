"""Labelling of sequences by a model file, with numpy alone; `estimators/chain.py` has the same in compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.encoding import encode_new
from crfqn.data.hybrid import check_dense, sparse_of
from crfqn.data.label_codes import encode_constraints, encode_known_labels, flat_partial_labels, is_partial
from crfqn.data.model_file import ModelFile
from crfqn.data.schemes import BORDER, LabelSpan, find_scheme, spans_of
from crfqn.data.token_rows import TokenRows
from crfqn.data.vocabulary import KnownNames, Vocabulary
from crfqn.errors import InputError
from crfqn.model.content import (
    BIGRAMS,
    FEATURE,
    FROM,
    NODE,
    STATE,
    TO,
    TRANSITION,
    read_axes,
    read_dense,
    read_entries,
)
from crfqn.model.predictor import Predictor, check_number
from crfqn.model.scores import FeatureWeights, Rows
from crfqn.model.unknown_features import warn_of_unknown_names
from crfqn.structures.item_chain import BestPath, BigramItemChain, ItemChain


class ChainPredictor(Predictor):
    """The predictions of a `ChainCRF`, under its names; items, errors and results are the same."""

    LABELS_SEQUENCES = True

    def __init__(self, file: ModelFile) -> None:
        super().__init__(file)
        self.classes_, self.vocabulary_, self.n_features_in_, self.rules_ = read_axes(file)
        n_states = len(self.classes_)
        shape = n_states, self.n_features_in_
        self.weights = FeatureWeights(read_entries(file, NODE, STATE, FEATURE, shape), shape)
        if f"{BIGRAMS}_weight" in file.arrays:
            shape = n_states**2, self.n_features_in_
            self.bigrams = FeatureWeights(read_entries(file, BIGRAMS, TRANSITION, FEATURE, shape), shape)
        edges = read_entries(file, "edge", FROM, TO, (n_states, n_states))
        table = np.zeros((n_states, n_states))
        np.add.at(table, (edges.rows, edges.columns), edges.values)
        kind = ItemChain if self.bigrams is None else BigramItemChain
        self.edges, self.chain = edges, kind(table, self.rules_)
        self.dense_coef_ = read_dense(file, n_states)
        self._labels = self.classes_.tolist()

    def predict(self, X: Any, known: Any = None) -> list[list]:
        """Return the most probable labels of each item; others as of `ChainCRF.predict`."""
        return [*map(self._named, self._best([*self._open(X, known)], known))]

    def decode(self, X: Any, known: Any = None) -> tuple[list[list], Vector]:
        """Return the most probable labels of each item, and log P(y | x, known), float64 (n_items,)."""
        self.check_probabilities()
        items = [*self._open(X, known)]
        best = self._best(items, known)
        log_partition = [self.chain.forward(scores)[1] for scores in items]
        scores = np.array([path.score for path in best], np.float64)
        return [*map(self._named, best)], scores - np.array(log_partition, np.float64)

    def predict_marginals(self, X: Any, known: Any = None) -> list[Vector]:
        """Return P(y_t = k | x, known) of each item, float64 (positions, classes)."""
        self.check_probabilities()
        found = []
        for i, scores in enumerate(self._open(X, known, warns=False)):
            messages, log_partition = self.chain.forward(scores)
            self._check_possible(i, log_partition, known)
            found.append(self.chain.marginals(scores, messages))
        return found

    def predict_nbest(self, X: Any, n: int = 5, known: Any = None) -> list[list[tuple[list, float]]]:
        """Return the n most probable labellings of each item with their probabilities, as `ChainCRF.predict_nbest`."""
        self.check_probabilities()
        n, found = check_number(n), []
        for i, scores in enumerate(self._open(X, known)):
            log_partition = self.chain.forward(scores)[1]
            self._check_possible(i, log_partition, known)
            paths = self.chain.n_best(scores, n)
            found.append([(self._named(p), float(np.exp(min(p.score - log_partition, 0.0)))) for p in paths])
        return found

    def predict_spans(self, X: Any, known: Any = None, scheme: str | None = None) -> list[list[LabelSpan]]:
        """Return the spans of each item's most probable labels, as `ChainCRF.predict_spans`."""
        self.check_probabilities()
        name = scheme or self.scheme
        if name is None:
            raise InputError("scheme: spans need one, such as IOB2, and the model has none")
        rules = find_scheme(name)
        tags = [rules.parse(label) for label in self._labels]
        continues = np.array([[rules.continues(one, other) for other in tags] for one in tags])
        found, items = [], [*self._open(X, known)]
        for scores, best in zip(items, self._best(items, known), strict=True):
            spans = spans_of(self._named(best), rules, strict=False)
            types = [np.array([t != BORDER and t.type == span.type for t in tags]) for span in spans]
            ends = [(span.start, span.stop) for span in spans]
            probabilities = self.chain.span_probabilities(scores, ends, types, continues)
            rows = zip(spans, probabilities, strict=True)
            found.append([LabelSpan(span.type, span.start, span.stop, p) for span, p in rows])
        return found

    def strongest_features(
        self, X: Any, n: int = 5, known: Any = None
    ) -> list[list[list[tuple[Any, float]]]]:
        """Return for each position of each item the n features that say most for or against its best label: their
        names (or columns) and weights times values, the largest in size first."""
        n, encoded = check_number(n), self._encode(X)
        rows, best = _rows(encoded), self._best([*self._open(X, known, warns=False)], known)
        items = zip(pairwise(encoded.offsets.tolist()), best, strict=True)
        return [
            [self._strongest(rows, t, [k], n) for t, k in zip(range(*item), path.states, strict=True)]
            for item, path in items
        ]

    def log_likelihood(self, X: Any, y: Any) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), as `ChainCRF.log_likelihood`."""
        self.check_probabilities()
        encoded = self._encode(X)
        labels, items = flat_partial_labels(y, encoded.offsets), [*pairwise(encoded.offsets.tolist())]
        choices: Any = (
            encode_constraints(labels, encoded.offsets, self.classes_).T
            if is_partial(labels)
            else encode_known_labels(labels, encoded.offsets, self.classes_)
        )
        found = []
        for i, scores in enumerate(self._scores(encoded)):
            log_partition, given = self.chain.forward(scores)[1], choices[slice(*items[i])]
            self._check_possible(i, log_partition)
            if given.ndim == 1:
                found.append(self.chain.path_score(scores, given.tolist()) - log_partition)
            else:
                within = self.chain.forward(self.chain.ruled(scores, given))[1]
                found.append(min(within - log_partition, 0.0))
        return np.array(found, np.float64)

    def _best(self, items: list[Vector], known: Any) -> list[BestPath]:
        found = self.chain.best(items)
        for i, path in enumerate(found):
            self._check_possible(i, path.score, known)
        return found

    def _check_possible(self, i: int, score: float, known: Any = None) -> None:
        """Raise InputError for an item without any labelling: its best one's score and log Z are -inf."""
        if score == -np.inf:
            more = "" if known is None else " and what is known"
            raise InputError(f"item {i}: no labelling keeps the rules{more}")

    @property
    def names(self) -> Sequence[str] | None:
        """The names of all features, None where they have none."""
        return None if self.vocabulary_ is None else self.vocabulary_.names

    def _named(self, path: BestPath) -> list:
        return [*map(self._labels.__getitem__, path.states)]

    @property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted."""
        of_labels = self.weights.features
        return of_labels if self.bigrams is None else np.union1d(of_labels, self.bigrams.features)

    @cached_property
    def _names(self) -> KnownNames | None:
        """The names of features that have weights."""
        vocabulary, features = self.vocabulary_, self.kept_features_
        if vocabulary is None or vocabulary.encodes_items or features.size == len(vocabulary):
            return vocabulary
        return vocabulary.some(features)

    def _encode(self, X: Any) -> Any:
        """Return items as `TokenRows` or `Sequences`, with their dense block if there is one."""
        X = check_dense(X, self.n_dense_)
        encoded = encode_new(sparse_of(X), self.vocabulary_, self.n_features_in_, self._known_names)
        return X.beside(encoded) if self.n_dense_ else encoded

    def _known_names(self, vocabulary: Vocabulary) -> KnownNames:
        return self._names or vocabulary

    def _scores(self, encoded: Any) -> Iterator[Vector]:
        """Yield the scores of each item, -inf where the rules forbid."""
        scores, ends = self.weights.scores(_rows(encoded)), encoded.offsets.tolist()
        if self.n_dense_:
            scores = self._with_dense(scores, encoded.dense)
        if self.bigrams is not None:
            scores = np.hstack([scores, self.bigrams.scores(_rows(encoded))])
        return (self.chain.ruled(scores[first:last]) for first, last in pairwise(ends))

    def _open(self, X: Any, known: Any, warns: bool = True) -> Iterator[Vector]:
        """Yield the scores of each item, -inf where the rules or what is known forbid."""
        X = list(X) if isinstance(X, Iterator) else X
        encoded = self._encode(X)
        if warns and self.weights.weights.size and not self.n_dense_:
            warn_of_unknown_names(encoded, X, self.vocabulary_)
        if known is None:
            return self._scores(encoded)
        allowed = encode_constraints(known, encoded.offsets, self.classes_).T
        items = zip(self._scores(encoded), pairwise(encoded.offsets.tolist()), strict=True)
        return (self.chain.ruled(scores, allowed[first:last]) for scores, (first, last) in items)


def _rows(encoded: Any) -> Rows:
    encoded = sparse_of(encoded)
    return Rows.of(encoded if isinstance(encoded, TokenRows) else encoded.matrix)
