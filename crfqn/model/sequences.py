"""Models of sequences: linear chains over the labels of neighbouring positions.

Shapes: I items, N positions, F features, K labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels, Vector
from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.data.label_arrays import (
    encode_allowed_labels,
    encode_known_labels,
    flat_partial_labels,
    is_partial,
    label_text,
    split_by_item,
)
from crfqn.data.model_file import ModelFile, narrowed
from crfqn.data.schemes import LabelSpan, find_scheme
from crfqn.data.token_rows import Rows
from crfqn.data.vocabulary import NO_COLUMNS, Columns, Pairs, Vocabulary
from crfqn.errors import InputError, ModelFileError, check_count
from crfqn.messages import describe, shorten
from crfqn.metrics.label_arrays import span_rules
from crfqn.model.answers import SEQUENCE_ANSWERS
from crfqn.model.content import (
    BIGRAM_MATRIX,
    EDGE_MATRIX,
    FEATURE_INDEX,
    FROM_INDEX,
    NODE_MATRIX,
    STATE_INDEX,
    TO_INDEX,
    TRANSITION_INDEX,
    ModelContent,
    add_labels,
    add_matrix,
    add_rules,
    add_vocabulary,
    check_transitions,
    read_dense,
    read_entries,
    read_labels,
    read_rules,
    read_size,
    read_vocabulary,
)
from crfqn.model.explanations import Explanation, TermSum, explanation
from crfqn.model.label_constraints import LabelConstraints, check_threshold, is_probable
from crfqn.model.model import Decoding, Model, WeightsByName, read_temperature
from crfqn.model.numpy_engine import NUMPY, Engine, NumpyItems, rows_of
from crfqn.model.one_sentence import OneSentence
from crfqn.model.opened_items import SingleRuns
from crfqn.model.path_differences import PathDifferences
from crfqn.model.trained import Trained
from crfqn.model.uncertainty import find_measure
from crfqn.model.unknown_features import KeyWatches
from crfqn.model.weights import WeightMatrix
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.item_chain import BestPath, NumpyChain
from crfqn.structures.single_runs import repeats
from crfqn.structures.span_rules import SpanRules
from crfqn.structures.transition_rules import TransitionRules
from crfqn.time_limit import check_time

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from crfqn.model.compiled_engine import CompiledItems


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceModel(Model):
    """A fitted linear chain.

    `ChainCRF` has the same methods. Their parameter `engine` is for scores and inference, by default numpy alone.

    Attributes
    ----------
    vocabulary : Vocabulary, or None for features without names
    rules_ : TransitionRules, or None
    edges : WeightMatrix (K, K), of transitions
    bigrams : WeightMatrix (K K, F), of pairs of labels with features of the second position, or None
    scheme : str, of the labels of spans, or None
    once : labels, or with a scheme types of spans, that each form one run in an item or none
    """

    ANSWERS = SEQUENCE_ANSWERS

    vocabulary: Vocabulary | None
    rules_: TransitionRules | None
    edges: WeightMatrix
    bigrams: WeightMatrix | None = None
    scheme: str | None = None
    once: Sequence[Hashable] = ()

    @classmethod
    def of_file(cls, file: ModelFile) -> Self:
        """Return the model of a file's content; ModelFileError, or another error, if its parts do not fit together."""
        n_states, settings = file.count("n_classes", 1), file.table("settings")
        check_transitions(file, n_states)
        n_features = read_size(file, n_states)
        classes, vocabulary = read_labels(file, n_states), read_vocabulary(file)
        if vocabulary is not None and len(vocabulary) != n_features:
            raise ModelFileError(f"{file.path}: {len(vocabulary)} names for {n_features} features")

        once = _stored_once(settings)
        if once is not None and not isinstance(once, list):
            raise ModelFileError(f"{file.path}: once: expected a list of labels, got {describe(once)}")

        def matrix(name: str, row: str, column: str, shape: tuple[int, int]) -> WeightMatrix:
            return WeightMatrix.from_entries(read_entries(file, name, row, column, shape), shape)

        return cls(
            kind=file.kind,
            classes_=classes,
            n_features_in_=n_features,
            weights=matrix(NODE_MATRIX, STATE_INDEX, FEATURE_INDEX, (n_states, n_features)),
            dense_coef_=read_dense(file, n_states),
            loss=settings.get("loss", "logistic"),  # models of other tools have none
            trained=Trained.of_file(file),
            vocabulary=vocabulary,
            rules_=read_rules(file, n_states),
            edges=matrix(EDGE_MATRIX, FROM_INDEX, TO_INDEX, (n_states, n_states)),
            bigrams=matrix(
                BIGRAM_MATRIX, TRANSITION_INDEX, FEATURE_INDEX, (EdgeLayout(n_states).n_pairs, n_features)
            )
            if f"{BIGRAM_MATRIX}_weight" in file.arrays
            else None,
            scheme=settings.get("scheme"),
            once=tuple(once or ()),
            temperature=read_temperature(file),
        )

    def add_to(self, content: ModelContent) -> None:
        """Add labels, features and weights to the content of a model file, without named features of no weight."""
        super().add_to(content)
        add_matrix(content, NODE_MATRIX, self.weights.csr, STATE_INDEX, FEATURE_INDEX)
        add_matrix(content, EDGE_MATRIX, self.edges.csr, FROM_INDEX, TO_INDEX)
        add_labels(content, self.classes_)
        add_rules(content, self.rules_)
        settings = content.metadata.get("settings", {})
        if self.once != tuple(_stored_once(settings) or ()):  # by `with_once`
            transition_rules = settings.get("transition_rules")
            if isinstance(transition_rules, dict):
                transition_rules = transition_rules | {"once": None}
            content.metadata["settings"] = settings | {
                "once": [*self.once],
                "transition_rules": transition_rules,
            }
        tables = [NODE_MATRIX]
        if self.bigrams is not None:
            tables.append(BIGRAM_MATRIX)
            add_matrix(content, BIGRAM_MATRIX, self.bigrams.csr, TRANSITION_INDEX, FEATURE_INDEX)
        names = [f"{table}_{FEATURE_INDEX}" for table in tables]
        used = np.unique(np.concatenate([content.arrays[name] for name in names]))
        add_vocabulary(content, self.vocabulary, used)
        if "feature_names" in content.strings:
            for name in names:
                content.arrays[name] = narrowed(np.searchsorted(used, content.arrays[name]))
            content.metadata["n_features"] = used.size

    def with_once(self, once: Collection[Hashable] | None) -> Self:
        """Return the model with other labels that each form one run in an item or none; None changes nothing.

        Raises
        ------
        InputError
            A name that is neither a label nor, if the model has a scheme, a type of spans.
        """
        self.single_runs(once)
        return self if once is None else replace(self, once=tuple(once))

    def single_runs(self, once: Collection[Hashable] | None) -> SingleRuns | None:
        """Return the rule of single runs for some labels, by default the model's own; None if it holds for no label.
        InputError as in `with_once`."""
        if once is None:
            return self._single_runs
        if isinstance(once, (str, bytes)) or not isinstance(once, Collection):
            raise InputError(f"once: expected a collection of labels, got {describe(once)}")
        if len(once) > len(self._labels):
            raise InputError(
                f"once: expected at most the {len(self._labels)} labels of the model, got {len(once):,}"
            )
        rules, unknown = single_run_rules(once, self._labels, self.scheme)
        if unknown:
            types = "" if self.scheme is None else " or types of spans"
            raise InputError(f"once: expected labels{types} of the model, got {shorten(unknown)}")
        return SingleRuns([*once], rules) if once else None

    @cached_property
    def _single_runs(self) -> SingleRuns | None:
        if not self.once:
            return None
        return SingleRuns(self.once, single_run_rules(self.once, self._labels, self.scheme)[0])

    def best_states(self, X: ItemsLike, engine: Engine = NUMPY) -> tuple[Labels, NDArray[np.int64]]:
        """Return the numbers of the best labels at all positions, (N,), and the offsets of the items, (I + 1,)."""
        items = engine.open(self, X)
        return items.best()[0], items.offsets

    def predict(
        self,
        X: ItemsLike,
        known: Sequence[Any] | None = None,
        engine: Engine = NUMPY,
        *,
        once: Collection[Any] | None = None,
        threshold: float | None = None,
    ) -> NDArray[np.object_]:
        """Return the most probable label sequence of each item (Viterbi).

        Parameters
        ----------
        X : crfqn.Sequences, or list of items, as in `ChainCRF.fit`; items may be empty
        known : list, one entry an item, optional
            Known labels: for each item None, or a list with a label, a set of possible labels or None for each
            position.
        once : collection of labels, optional
            Labels that may each form only one run of neighbouring positions in an item; with a scheme, also types of
            spans. The result is the best labelling that keeps this rule. By default the labels of `once` or of
            `Transitions(once=...)` in `transition_rules`; an empty list lifts the rule.
        threshold : float between 0 and 1, optional
            Minimum probability of a label. A position whose label has a lower marginal probability gets None, which
            `ChainCRF.fit` takes as an unknown label.

        Returns
        -------
        ndarray of objects, shape (n_items,)
            A list of labels for each item.

        Raises
        ------
        InputError
            Invalid items; the message names the item, position and feature. Also an item without any labelling that
            keeps the rules.
        AttributeError
            A threshold, if the model has no probabilities.
        """
        if threshold is not None:
            self.check_probabilities()
        items = engine.open(self, X, LabelConstraints(known, once))
        states = items.best()[0]
        if threshold is None:
            labels = [*map(self._labels.__getitem__, states.tolist())]
        else:
            labels = self._probable_labels(items, states, threshold)
        cuts = items.offsets.tolist()
        lists = np.empty(len(cuts) - 1, object)
        for i, (start, stop) in enumerate(pairwise(cuts)):
            lists[i] = labels[start:stop]
        return lists

    def decode(
        self,
        X: ItemsLike,
        known: Sequence[Any] | None = None,
        engine: Engine = NUMPY,
        *,
        once: Collection[Any] | None = None,
        threshold: float | None = None,
    ) -> Decoding:
        """Return the best label sequence of each item with log P(y | x, known). Parameters and errors as in
        `predict`. The probability counts all labellings, also those that break the rule of `once`; with `threshold` it
        is that of the labelling before labels are removed."""
        self.check_probabilities()
        items = engine.open(self, X, LabelConstraints(known, once))
        states, score = items.best()
        log_probability = score / self.temperature - items.at(self.temperature).log_partition()
        labels = self.classes_[states]
        if threshold is not None:
            labels = np.array([*self._probable_labels(items, states, threshold), None], object)[:-1]
        return Decoding(split_by_item(labels, items.offsets), log_probability)

    def _probable_labels(self, items: NumpyItems | CompiledItems, states: Labels, threshold: float) -> list:
        """Return the labels of all positions, given their numbers, (N,), with None for marginal probabilities below the
        threshold."""
        minimum, marginals = check_threshold(threshold), items.at(self.temperature).marginals()
        p = np.concatenate([np.empty((0, len(self._labels))), *marginals])[np.arange(states.size), states]
        return [
            self._labels[state] if is_answer else None
            for state, is_answer in zip(states.tolist(), is_probable(p, minimum).tolist(), strict=True)
        ]

    def predict_marginals(
        self, X: ItemsLike, known: Sequence[Any] | None = None, pairs: bool = False, engine: Engine = NUMPY
    ) -> list[Vector]:
        """Return P(y_t = k | x, known) of each position: a list of float64 arrays (positions, classes).

        With `pairs` P(y_t = j, y_{t+1} = k | x, known): float64 arrays (positions - 1, classes, classes). Rows and
        pairs of a position sum to 1. Other parameters and errors as in `predict`.
        """
        self.check_probabilities()
        items = engine.open(self, X, LabelConstraints(known), warns=False).at(self.temperature)
        return items.pairs() if pairs else items.marginals()

    def predict_nbest(
        self,
        X: ItemsLike,
        n: int = 5,
        known: Sequence[Any] | None = None,
        engine: Engine = NUMPY,
        *,
        once: Collection[Any] | None = None,
    ) -> list[list[tuple[list, float]]]:
        """Return the n most probable labellings of each item, with their probabilities.

        Viterbi's recursion with the n best scores of each state finds them exactly. P(y | x) = exp(score(y)) / Z, where
        Z is the sum over all labellings that the rules and `known` allow.

        Parameters
        ----------
        X, known, once : as in `predict`
        n : int >= 1, default 5

        Returns
        -------
        list of lists of (labels, probability), one an item
            Sorted by decreasing probability; less than n if an item has less labellings. Equally probable labellings
            are sorted by the class of their last position, then by the class before it, and so on.

        Raises
        ------
        InputError
            As in `predict`; also n below 1, or so large that the labellings would need more than 8 GB.
        """
        self.check_probabilities()
        n, labels = check_count("n", n), self.classes_.tolist()
        best = self._best_logs(engine.open(self, X, LabelConstraints(known, once)), n)
        return [
            [([*map(labels.__getitem__, path)], float(np.exp(log))) for path, log in paths] for paths in best
        ]

    def _best_logs(self, items: NumpyItems | CompiledItems, n: int) -> list[list[BestPath]]:
        """Return the n best labellings of each item, with log P as scores."""
        log_partition = items.at(self.temperature).log_partition().tolist()
        return [
            [BestPath(path, min(score / self.temperature - total, 0.0)) for path, score in paths]
            for paths, total in zip(items.n_best(n), log_partition, strict=True)
        ]

    def uncertainty(self, X: ItemsLike, measure: str = "confidence", engine: Engine = NUMPY) -> Vector:
        """Return the uncertainty of each item, float64 (n_items,).

        Active learning labels the items with the largest values next (Settles and Craven 2008).

        Parameters
        ----------
        X : as in `predict`
        measure : {"confidence", "margin", "entropy"}, default "confidence"
            - "confidence": -log P(best labelling) / positions, normalised by the length;
            - "margin": 1 - P(best labelling) + P(second best labelling);
            - "entropy": of the 10 best labellings, their probabilities divided by their sum (N-best sequence entropy),
              in nats.

            0 is certain; an item without positions has 0.

        Raises
        ------
        InputError
            As in `predict`, and for another measure.

        References
        ----------
        Settles, Craven: An analysis of active learning strategies for sequence labeling tasks. EMNLP 2008.
        Kim, Song, Kim, Cha, Lee: MMR-based active machine learning for bio named entity recognition. HLT-NAACL 2006.
        """
        n_best, value = find_measure(measure)
        self.check_probabilities()
        items = engine.open(self, X)
        if n_best == 1:
            scores = items.best()[1] / self.temperature
            logs = np.minimum(scores - items.at(self.temperature).log_partition(), 0.0)[:, None]
        else:
            logs = np.full((items.offsets.size - 1, n_best), -np.inf)
            for row, paths in zip(logs, self._best_logs(items, n_best), strict=True):
                row[: len(paths)] = [log for _, log in paths]
        return value(logs, np.diff(items.offsets))

    def predict_spans(
        self,
        X: ItemsLike,
        known: Sequence[Any] | None = None,
        scheme: str | None = None,
        engine: Engine = NUMPY,
        *,
        once: Collection[Any] | None = None,
    ) -> list[list[LabelSpan]]:
        """Return the spans of each item's best labelling, with their probabilities.

        The probability of a span is the sum over all labellings with exactly this span: the same type, start and end.
        The forward recursion restricted to these labellings computes it (Culotta and McCallum 2004, "constrained
        forward-backward").

        Parameters
        ----------
        X, known, once : as in `predict`
        scheme : str, optional
            The scheme of the labels of spans; by default that of the training.

        Returns
        -------
        list of lists of LabelSpan (label, start, end, probability), one for each item, in the order of their starts

        Raises
        ------
        InputError
            As in `predict`; also without a scheme, and for classes that do not belong to it.

        References
        ----------
        Culotta, McCallum: Confidence estimation for information extraction. HLT-NAACL 2004.
        """
        self.check_probabilities()
        name = scheme or self.scheme
        if name is None:
            raise InputError(
                'scheme: spans need one, such as predict_spans(X, scheme="IOB2"), and the model has none'
            )
        items = engine.open(self, X, LabelConstraints(known, once))
        rules, types = span_rules(find_scheme(name), self.classes_.tolist())
        spans = rules.find(items.best()[0], items.offsets)
        probabilities = items.at(self.temperature).span_probabilities(spans, rules)
        of_items: list[list[LabelSpan]] = [[] for _ in range(items.offsets.size - 1)]
        item_of = np.searchsorted(items.offsets, spans.starts, side="right") - 1
        begins = items.offsets[item_of]
        columns = (item_of, spans.types, spans.starts - begins, spans.stops - begins, probabilities)
        for i, kind, start, end, probability in zip(*(column.tolist() for column in columns), strict=True):
            of_items[i].append(LabelSpan(types[kind], start, end, probability))
        return of_items

    def log_likelihood(self, X: ItemsLike, y: LabelsLike, engine: Engine = NUMPY) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), in nats; -inf for labels that break a rule.

        X and errors as in `predict`, y as in `ChainCRF.fit`. If labels are unknown, it is the sum over all labellings
        that agree with the known ones. InputError also for labels that are not among the classes.
        """
        self.check_probabilities()
        items = engine.open(self, X, warns=False).at(self.temperature)
        labels = flat_partial_labels(y, items.offsets)
        if not is_partial(labels):
            return items.log_probability(encode_known_labels(labels, items.offsets, self.classes_))
        within = items.within(encode_allowed_labels(labels, items.offsets, self.classes_))
        return np.minimum(within - items.log_partition(), 0.0)

    def _mean_loss(self, X: ItemsLike, y: LabelsLike, engine: Engine) -> Callable[[float], float]:
        """Return the loss of marginal probabilities, without positions that have no known label; labels that the rules
        forbid add a constant."""
        items = engine.open(self, X, warns=False)
        labels = flat_partial_labels(y, items.offsets)
        allowed = encode_allowed_labels(labels, items.offsets, self.classes_).T
        is_known = ~allowed.all(axis=1) if len(self._labels) > 1 else np.ones(len(allowed), bool)
        if not is_known.any():
            raise InputError("expected at least one labelled position, got none")

        def loss(temperature: float) -> float:
            marginals = np.concatenate([*items.at(temperature).marginals()])[is_known]
            p = (marginals * allowed[is_known]).sum(axis=1)
            return -float(np.mean(np.log(np.maximum(p, np.finfo(np.float64).tiny))))

        return loss

    def strongest_features(
        self,
        X: ItemsLike,
        n: int = 5,
        known: Sequence[Any] | None = None,
        *,
        once: Collection[Any] | None = None,
    ) -> list[list[list[tuple[Any, float]]]]:
        """Return for each position of each item the n features with the largest terms (weights times values) of the
        best label's score: names (or columns) and terms, by decreasing absolute value."""
        n, (rows, offsets) = check_count("n", n), self.feature_rows(X)
        states = NUMPY.open(self, X, LabelConstraints(known, once), warns=False).best()[0].tolist()
        strongest = []
        for t, state in enumerate(states):
            check_time()
            strongest.append(self._strongest(rows, t, [state], n))
        return [strongest[first:last] for first, last in pairwise(offsets.tolist())]

    def explain(
        self,
        X: ItemsLike,
        n: int | None = 5,
        known: Sequence[Any] | None = None,
        *,
        once: Collection[Any] | None = None,
        positions: Sequence[Collection[int]] | None = None,
    ) -> list[list[Explanation]]:
        """Return for each position of each item the terms that decide between its label and the runner-up.

        The runner-up is the second most probable label of the position (without probabilities the one with the best
        labelling). The difference is the score of the predicted labelling minus that of the best labelling with the
        runner-up, in nats: the logarithm of the ratio of their probabilities. It is the sum of weights times values of
        features, and of weights of transitions, over the positions where the two labellings differ.

        Parameters
        ----------
        X, known, once : as in `predict`
        n : int >= 1 or None, default 5
            Number of terms, the largest in absolute value; `rest` is the sum of the others. None: all.
        positions : for each item the positions to explain, ascending; models only, by default all
            An item of T positions takes time O(T K^2) for all positions together, with `once` for each.

        Returns
        -------
        list of lists of Explanation (label, probability, runner_up, runner_up_probability, difference, terms, rest)
            A term has position, kind ("feature", "transition", "dense"), name and value.

        Raises
        ------
        InputError
            As in `predict`, and for another n.
        """
        n = check_count("n", n, or_none=True)
        X = list(X) if isinstance(X, Iterator) else X
        encoded, items = (
            NUMPY.encode(self, X),
            NUMPY.open(self, X, LabelConstraints(known, once), warns=False),
        )
        rows, (states, _), labels = rows_of(encoded), items.best(), self._labels
        dense = encoded.dense if self.n_dense_ else None
        marginals = items.at(self.temperature).marginals() if self.has_probabilities else None
        explained: list[list[Explanation]] = []
        for item, (first, last) in enumerate(pairwise(items.offsets.tolist())):
            best, of_item = states[first:last].tolist(), []
            through = items.chain.best_through(items.scores[item])
            differences = PathDifferences(self, rows, dense, first, best, through, n)
            ranks = through.scores if marginals is None else marginals[item]
            for t in range(len(best)) if positions is None else positions[item]:
                check_time()
                state = best[t]
                p = [None] * len(labels) if marginals is None else ranks[t].tolist()
                is_rival = through.scores[t] > -np.inf
                is_rival[state] = False
                order = np.argsort(-ranks[t], kind="stable")
                rivals = (
                    (k, self._terms_against(differences, items, item, t, k))
                    for k in order[is_rival[order]].tolist()
                )
                other, terms = next(((k, terms) for k, terms in rivals if terms is not None), (None, None))
                if other is None:
                    of_item.append(explanation(labels[state], p[state]))
                else:
                    of_item.append(explanation(labels[state], p[state], labels[other], p[other], terms))
            explained.append(of_item)
        return explained

    def _terms_against(
        self, differences: PathDifferences, items: NumpyItems, item: int, t: int, state: int
    ) -> TermSum | None:
        """Return the terms of the score of an item's best labelling minus that of the best one with a state at position
        t, None if no labelling with this state keeps the rule of single runs."""
        if items.single_runs is None:
            return differences.through(t, state)
        path, ends = differences.best_through.path(t, state), np.array([0, len(differences.best)])
        repeated = repeats(np.array(path), ends, items.single_runs.rules)
        if repeated:
            allowed = np.ones((ends[1], len(self._labels)), bool)
            allowed[t] = np.arange(len(self._labels)) == state
            tables = items.chain.tables(items.chain.masked_scores(items.scores[item], allowed))
            paths = items.best_of_single_runs(tables, item, repeated[0], 1)
            if not paths:
                return None
            path = paths[0].states
        return differences.along(path)

    def weights_by_name(self) -> WeightsByName:
        by_name = super().weights_by_name()
        return by_name._replace(transitions=self._transition_weights(), bigrams=self._bigram_weights())

    def _transition_weights(self) -> dict[tuple[Any, Any], float]:
        """Return the weights other than 0 by (label, next label)."""
        labels, columns = self._labels, (self.edges.values, self.edges.rows, self.edges.columns)
        edges = zip(*(column.tolist() for column in columns), strict=True)
        return {(labels[a], labels[b]): weight for weight, a, b in edges if weight}

    def _bigram_weights(self) -> dict[tuple[Any, Any, Any], float]:
        """Return the weights other than 0 by (feature, label, next label)."""
        if self.bigrams is None:
            return {}
        labels, entries = self._labels, self.bigrams.entries()
        first, second, _ = EdgeLayout(len(labels)).split(entries.rows)
        columns = entries.values, entries.columns, first, second
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return {(self.feature_name(f), labels[a], labels[b]): weight for weight, f, a, b in rows if weight}

    def strongest_transitions(
        self, n: int = 10, label: Hashable = None
    ) -> list[tuple[tuple[Any, Any], float]]:
        """Return the n transitions, of all or of one label, with the largest absolute weights: (label, next label) and
        weight, sorted."""
        return _largest(self._transition_weights(), n, label)

    def strongest_bigrams(
        self, n: int = 10, label: Hashable = None
    ) -> list[tuple[tuple[Any, Any, Any], float]]:
        """Return the n bigram features with the largest absolute weights, as `strongest_transitions`: (feature, label,
        next label) and weight."""
        return _largest(self._bigram_weights(), n, label)

    @property
    def bigram_columns_(self) -> NDArray[np.int64]:
        """The features with weights for pairs of labels, sorted."""
        named = NO_COLUMNS if self.vocabulary is None else self.vocabulary.bigram_columns
        return named if self.bigrams is None else np.union1d(named, self.bigrams.columns).astype(np.int64)

    @property
    def transition_coef_(self) -> csr_array:
        """The weights of transitions as scipy's `csr_array`, (K, K)."""
        return self.edges.csr

    @property
    def bigram_coef_(self) -> csr_array | None:
        """The weights of bigram features as scipy's `csr_array`, (K K, F), None without any."""
        return None if self.bigrams is None else self.bigrams.csr

    def feature_rows(self, X: ItemsLike) -> tuple[Rows, NDArray[np.int64]]:
        encoded = NUMPY.encode(self, X)
        return rows_of(encoded), encoded.offsets

    @property
    def takes(self) -> str:
        return "matrix" if self.vocabulary is None else self.vocabulary.takes

    @property
    def columns_read(self) -> list[str] | None:
        source = None if self.vocabulary is None else self.vocabulary.source
        return None if source is None or self.takes == "text" else list(source["columns"])

    marginals, n_best, spans = predict_marginals, predict_nbest, predict_spans

    @cached_property
    def _labels(self) -> list:
        return self.classes_.tolist()

    @cached_property
    def chain(self) -> NumpyChain:
        """The chain for inference over single items by numpy."""
        return NumpyChain(self.edges.to_dense(), self.rules_)

    @cached_property
    def one_sentence(self) -> OneSentence | None:
        """The fast answers for one sentence, None for a model that does not have them."""
        vocabulary = self.vocabulary
        if (
            vocabulary is None
            or vocabulary.encodes_items
            or self.chain.rules is not None
            or self.n_dense_
            or self.bigrams is not None
            or self._single_runs is not None
        ):
            return None
        return OneSentence(
            self.known_pairs(vocabulary),
            self.weights,
            self.chain,
            self._labels,
            self.key_watches,
            self.temperature if self.has_probabilities else None,
        )

    @property
    def names(self) -> Any:
        return self.vocabulary.names if self.feature_names is None and self.vocabulary else self.feature_names

    @cached_property
    def kept_features_(self) -> NDArray[np.int64]:
        of_labels = self.weights.features
        return of_labels if self.bigrams is None else np.union1d(of_labels, self.bigrams.features)

    @cached_property
    def _weighted_pairs(self) -> Pairs | None:
        """The pairs of features with weights; None if all features have weights or the vocabulary encodes items."""
        vocabulary, features = self.vocabulary, self.kept_features_
        is_whole = vocabulary is None or features.size == len(vocabulary)
        if vocabulary is None or is_whole or vocabulary.encodes_items:
            return None
        return vocabulary.pairs_of(Columns((vocabulary.names[column], column) for column in features))

    def known_pairs(self, vocabulary: Vocabulary) -> Pairs:
        """Return the pairs of features with weights, which make look-ups faster than all pairs."""
        return vocabulary.pairs if self._weighted_pairs is None else self._weighted_pairs

    @cached_property
    def key_watches(self) -> KeyWatches:
        """Warns of keys of dicts whose values are unknown."""
        assert self.vocabulary is not None
        return KeyWatches(self.known_pairs(self.vocabulary), self.vocabulary)


def _largest(weights: dict[Any, float], n: int, label: Hashable) -> list[tuple[Any, float]]:
    """Return the n largest absolute weights. Their keys close with a pair of labels; unless `label` is None, one of
    both must be this label."""
    entries = [entry for entry in weights.items() if label is None or label in entry[0][-2:]]
    return sorted(entries, key=lambda entry: -abs(entry[1]))[:n]


def single_run_rules(
    once: Collection[Any], labels: list[Any], scheme: str | None
) -> tuple[SpanRules, list[Any]]:
    """Return the groups of labels that each form one run or none, and the unknown names, neither labels nor, with a
    scheme, types of spans. InputError for a label in two groups. Labels other than strings may be given as text."""
    by_scheme, types = (None, []) if scheme is None else span_rules(find_scheme(scheme), labels)
    texts = [*map(label_text, labels)]
    type_of, continues = np.full(len(labels), -1), np.zeros((len(labels), len(labels)), bool)
    unknown: list[Any] = []
    for group, name in enumerate(once):
        if name in labels or name in texts:
            states = np.array([(labels if name in labels else texts).index(name)])
            joined: NDArray[np.bool_] | bool = True
        elif by_scheme is not None and name in types:
            states = np.flatnonzero(by_scheme.type_of == types.index(name))
            joined = by_scheme.continues[np.ix_(states, states)]
        else:
            unknown.append(name)
            continue
        if (type_of[states] >= 0).any():
            raise InputError(f"once: expected each label once, got {shorten(list(once))}")
        type_of[states], continues[np.ix_(states, states)] = group, joined
    return SpanRules(type_of, continues), unknown


def _stored_once(settings: dict[str, Any]) -> Any:
    """Return the labels of single runs in the settings of a training, None without any."""
    once, transition_rules = settings.get("once"), settings.get("transition_rules")
    return transition_rules.get("once") if once is None and isinstance(transition_rules, dict) else once
