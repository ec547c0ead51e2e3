"""Models of sequences: a linear chain over the labels of neighbouring positions.

Shapes: I items, N positions, F features, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.data.labels import (
    encode_constraints,
    encode_known_labels,
    flat_partial_labels,
    is_partial,
    split_by_item,
)
from crfqn.data.model_file import ModelFile, narrowed
from crfqn.data.schemes import LabelSpan, find_scheme
from crfqn.data.vocabulary import Pairs, Vocabulary
from crfqn.errors import InputError, ModelFileError
from crfqn.metrics.label_arrays import span_rules
from crfqn.model.content import (
    BIGRAMS,
    FEATURE,
    FROM,
    NODE,
    STATE,
    TO,
    TRANSITION,
    ModelContent,
    add_labels,
    add_matrix,
    add_rules,
    add_vocabulary,
    read_dense,
    read_entries,
    read_labels,
    read_rules,
    read_size,
    read_vocabulary,
)
from crfqn.model.model import Decoding, Model, WeightsByName, check_number, without_weights
from crfqn.model.numpy_engine import NUMPY, rows_of
from crfqn.model.weights import WeightMatrix
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.item_chain import ItemChain
from crfqn.structures.transition_rules import TransitionRules


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceModel(Model):
    """A fitted linear chain.

    Parameters of the methods: X, items as of `ChainCRF.predict`, whose errors they have; known : list, one entry an
    item, optional, what is known of the labels: None for an item of which nothing is, or a list with a label, a set of
    possible ones or None for each position; engine : what scores and infers, by default numpy alone.

    Attributes
    ----------
    vocabulary_ : Vocabulary, or None for features without names
    rules_ : TransitionRules, or None
    edges : WeightMatrix (K, K), from label to label
    bigrams : WeightMatrix (K K, F), weights of pairs of labels with features of the second, or None
    scheme : str, of the labels of spans, or None
    """

    LABELS_SEQUENCES: ClassVar[bool] = True

    vocabulary_: Vocabulary | None
    rules_: TransitionRules | None
    edges: WeightMatrix
    bigrams: WeightMatrix | None = None
    scheme: str | None = None

    @classmethod
    def of_file(cls, file: ModelFile) -> Self:
        """Return the model of a file's content; ModelFileError, or another error, where it does not fit together."""
        n_states, settings = file.count("n_classes", 1), file.table("settings")
        n_features = read_size(file, n_states)
        classes, vocabulary = read_labels(file, n_states), read_vocabulary(file)
        if vocabulary is not None and len(vocabulary) != n_features:
            raise ModelFileError(f"{file.path}: {len(vocabulary)} names for {n_features} features")

        def matrix(name: str, row: str, column: str, shape: tuple[int, int]) -> WeightMatrix:
            return WeightMatrix.of(read_entries(file, name, row, column, shape), shape)

        return cls(
            kind=file.kind,
            classes_=classes,
            n_features_in_=n_features,
            weights=matrix(NODE, STATE, FEATURE, (n_states, n_features)),
            dense_coef_=read_dense(file, n_states),
            loss=settings.get("loss", "logistic"),  # earlier files do not name it
            stored=without_weights(file),
            vocabulary_=vocabulary,
            rules_=read_rules(file, n_states),
            edges=matrix("edge", FROM, TO, (n_states, n_states)),
            bigrams=matrix(BIGRAMS, TRANSITION, FEATURE, (EdgeLayout(n_states).n_pairs, n_features))
            if f"{BIGRAMS}_weight" in file.arrays
            else None,
            scheme=settings.get("scheme"),
        )

    def add_to(self, content: ModelContent) -> None:
        """Add labels, features and weights to what a model file holds; of named features those that have a weight."""
        add_matrix(content, NODE, self.weights.csr, STATE, FEATURE)
        add_matrix(content, "edge", self.edges.csr, FROM, TO)
        add_labels(content, self.classes_)
        add_rules(content, self.rules_)
        tables = [NODE]
        if self.bigrams is not None:
            tables.append(BIGRAMS)
            add_matrix(content, BIGRAMS, self.bigrams.csr, TRANSITION, FEATURE)
        names = [f"{table}_{FEATURE}" for table in tables]
        used = np.unique(np.concatenate([content.arrays[name] for name in names]))
        add_vocabulary(content, self.vocabulary_, used)
        if "feature_names" in content.strings:
            for name in names:
                content.arrays[name] = narrowed(np.searchsorted(used, content.arrays[name]))
            content.metadata["n_features"] = used.size

    def best_states(self, X: Any, known: Any = None, engine: Any = NUMPY) -> tuple[Labels, NDArray[np.int64]]:
        """Return the number of the best label at each position of all items, (N,), and where the items begin and end,
        (I + 1,)."""
        items = engine.open(self, X, known)
        return items.best()[0], items.offsets

    def predict(self, X: Any, known: Any = None, engine: Any = NUMPY) -> NDArray[np.object_]:
        """Return the most probable label sequence of each item (Viterbi): an array (I,) of lists."""
        states, offsets = self.best_states(X, known, engine)
        labels, cuts = [*map(self._labels.__getitem__, states.tolist())], offsets.tolist()
        lists = np.empty(len(cuts) - 1, object)
        for i, (start, stop) in enumerate(pairwise(cuts)):
            lists[i] = labels[start:stop]
        return lists

    def decode(self, X: Any, known: Any = None, engine: Any = NUMPY) -> Decoding:
        """Return the most probable label sequence of each item, with log P(y | x, known)."""
        self.check_probabilities()
        items = engine.open(self, X, known)
        states, score = items.best()
        return Decoding(split_by_item(self.classes_[states], items.offsets), score - items.log_partition())

    def predict_marginals(
        self, X: Any, known: Any = None, pairs: bool = False, engine: Any = NUMPY
    ) -> list[Vector]:
        """Return P(y_t = k | x, known) of each position: a list of float64 arrays (positions, K). With `pairs` P(y_t =
        j, y_{t+1} = k | x, known), (positions - 1, K, K)."""
        self.check_probabilities()
        items = engine.open(self, X, known, warns=False)
        return items.pairs() if pairs else items.marginals()

    def predict_nbest(
        self, X: Any, n: int = 5, known: Any = None, engine: Any = NUMPY
    ) -> list[list[tuple[list, float]]]:
        """Return the n most probable labellings of each item with their probabilities, the most probable first, as
        `ChainCRF.predict_nbest`."""
        self.check_probabilities()
        n, labels = check_number(n), self.classes_.tolist()
        items = engine.open(self, X, known)
        log_partition = items.log_partition().tolist()
        return [
            [
                ([*map(labels.__getitem__, states)], float(np.exp(min(score - total, 0.0))))
                for states, score in paths
            ]
            for paths, total in zip(items.n_best(n), log_partition, strict=True)
        ]

    def predict_spans(
        self, X: Any, known: Any = None, scheme: str | None = None, engine: Any = NUMPY
    ) -> list[list[LabelSpan]]:
        """Return the spans of each item's most probable labelling, with the probability that they are right, as
        `ChainCRF.predict_spans`."""
        self.check_probabilities()
        name = scheme or self.scheme
        if name is None:
            raise InputError(
                'scheme: spans need one, such as predict_spans(X, scheme="IOB2"), and the model has none'
            )
        items = engine.open(self, X, known)
        rules, types = span_rules(find_scheme(name), self.classes_.tolist())
        spans = rules.find(items.best()[0], items.offsets)
        probabilities = items.span_probabilities(spans, rules)
        of_items: list[list[LabelSpan]] = [[] for _ in range(items.offsets.size - 1)]
        item_of = np.searchsorted(items.offsets, spans.starts, side="right") - 1
        begins = items.offsets[item_of]
        columns = (item_of, spans.types, spans.starts - begins, spans.stops - begins, probabilities)
        for i, kind, start, end, probability in zip(*(column.tolist() for column in columns), strict=True):
            of_items[i].append(LabelSpan(types[kind], start, end, probability))
        return of_items

    def log_likelihood(self, X: Any, y: Any, engine: Any = NUMPY) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (I,), in nats; -inf for labels that break a rule. With unknown
        labels it is the probability of all labellings that fit. InputError for labels that are not among the
        classes."""
        self.check_probabilities()
        items = engine.open(self, X, None, warns=False)
        labels = flat_partial_labels(y, items.offsets)
        if not is_partial(labels):
            return items.log_probability(encode_known_labels(labels, items.offsets, self.classes_))
        within = items.within(encode_constraints(labels, items.offsets, self.classes_))
        return np.minimum(within - items.log_partition(), 0.0)

    def strongest_features(
        self, X: Any, n: int = 5, known: Any = None
    ) -> list[list[list[tuple[Any, float]]]]:
        """Return for each position of each item the n features that say most for or against its best label: their
        names (or columns) and weights times values, the largest in size first."""
        n, encoded = check_number(n), NUMPY.encode(self, X)
        rows, offsets = rows_of(encoded), encoded.offsets.tolist()
        states = NUMPY.open(self, X, known, warns=False).best()[0].tolist()
        return [
            [self._strongest(rows, t, [states[t]], n) for t in range(first, last)]
            for first, last in pairwise(offsets)
        ]

    def weights_by_name(self) -> WeightsByName:
        by_name = super().weights_by_name()
        return by_name._replace(transitions=self._transition_weights(), bigrams=self._bigram_weights())

    def _transition_weights(self) -> dict[tuple[Any, Any], float]:
        """Return the weights that are not 0 by (label, next label)."""
        labels, columns = self._labels, (self.edges.values, self.edges.rows, self.edges.columns)
        edges = zip(*(column.tolist() for column in columns), strict=True)
        return {(labels[a], labels[b]): weight for weight, a, b in edges if weight}

    def _bigram_weights(self) -> dict[tuple[Any, Any, Any], float]:
        """Return the weights that are not 0 by (feature, label, next label)."""
        if self.bigrams is None:
            return {}
        labels, entries = self._labels, self.bigrams.entries()
        first, second, _ = EdgeLayout(len(labels)).split(entries.rows)
        columns = entries.values, entries.columns, first, second
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return {(self.feature_name(f), labels[a], labels[b]): weight for weight, f, a, b in rows if weight}

    def strongest_transitions(self, n: int = 10, label: Any = None) -> list[tuple[tuple[Any, Any], float]]:
        """Return the n largest weights, in size, of transitions, or of those from or to a label: (label, next label)
        and weight, the largest first."""
        return _largest(self._transition_weights(), n, label)

    def strongest_bigrams(self, n: int = 10, label: Any = None) -> list[tuple[tuple[Any, Any, Any], float]]:
        """Return the n largest weights of bigram features as `strongest_transitions` does: (feature, label, next label)
        and weight."""
        return _largest(self._bigram_weights(), n, label)

    @property
    def edge_coef_(self) -> Any:
        """The weights of transitions as scipy's `csr_array`, (K, K)."""
        return self.edges.csr

    @property
    def bigram_coef_(self) -> Any:
        """The weights of bigram features as scipy's `csr_array`, (K K, F), None where there are none."""
        return None if self.bigrams is None else self.bigrams.csr

    marginals, n_best, spans = predict_marginals, predict_nbest, predict_spans

    @cached_property
    def _labels(self) -> list:
        return self.classes_.tolist()

    @cached_property
    def chain(self) -> ItemChain:
        """Inference over single items by numpy."""
        return ItemChain(self.edges.dense(), self.rules_)

    @property
    def names(self) -> Any:
        return (
            self.vocabulary_.names if self.feature_names is None and self.vocabulary_ else self.feature_names
        )

    @cached_property
    def kept_features_(self) -> NDArray[np.int64]:
        of_labels = self.weights.features
        return of_labels if self.bigrams is None else np.union1d(of_labels, self.bigrams.features)

    @cached_property
    def _weighted_pairs(self) -> Pairs | None:
        """The pairs of features that have weights; None where all have, or the vocabulary encodes items itself."""
        vocabulary, features = self.vocabulary_, self.kept_features_
        if vocabulary is None or vocabulary.encodes_items or features.size == len(vocabulary):
            return None
        return vocabulary.pairs_of(features)

    def known_pairs(self, vocabulary: Vocabulary) -> Pairs:
        """Return the pairs of features that have weights: others add nothing to scores, and make look-ups slower."""
        return vocabulary.pairs if self._weighted_pairs is None else self._weighted_pairs


def _largest(weights: dict[Any, float], n: int, label: Any) -> list[tuple[Any, float]]:
    """Return the n largest weights, in size, whose names end in a pair of labels with `label` among them, if given."""
    entries = [entry for entry in weights.items() if label is None or label in entry[0][-2:]]
    return sorted(entries, key=lambda entry: -abs(entry[1]))[:n]
