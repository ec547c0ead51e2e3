"""`ChainCRF.partial_fit`: label sequences learned batch by batch, with features that grow.

See `estimators/online.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from crfqn.data.encoding import encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.items import check_item_weights
from crfqn.data.label_codes import PartialLabels, encode_known_labels
from crfqn.data.sequences import Sequences
from crfqn.data.templates.vocabulary import TemplateVocabulary
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError
from crfqn.estimators.chain_decoding import SequenceDecoding
from crfqn.estimators.chain_training import find_broken, items_that_stay, take_items
from crfqn.estimators.online import is_online, known_classes, learn_batch, note_pass
from crfqn.estimators.transitions import as_transitions
from crfqn.objectives.blocks import build_objective
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.structures.chain import Chain
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


class OnlineSequences(SequenceDecoding):
    """Mixin with `partial_fit` for label sequences."""

    all_possible_states: bool
    all_possible_transitions: bool
    on_violation: str
    vocabulary_: Vocabulary | None

    @property
    @abstractmethod
    def _trains_rules(self) -> bool:
        """Whether rules hold in training."""

    @available_if(is_online)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of sequences in one pass, from where the last call or fit has ended.

        Parameters
        ----------
        X, y, sample_weight
            As of `fit`, with labels that are all known.
        classes : array-like of labels
            All labels that will ever come; needed by the first call of a model that has not been fitted.

        Returns
        -------
        self
            With the mean of the weights after each item of all calls. `result_` says nothing of an objective.

        Raises
        ------
        AttributeError
            The solver is not "averaged-perceptron" or "passive-aggressive".
        InputError (a ValueError)
            As of `fit`; also for labels that are not among `classes`, and for rules or restrictions to what the data
            have (`constraints="seen"`, `all_possible_states=False`), which need all data at once.

        Notes
        -----
        Features by name grow: those that a batch has for the first time get columns behind the others, and begin at
        zero. The columns of matrices and of `Templates` stay those of the first call. A pass costs time for its items,
        and some for features x labels: batches should not be tiny.

        Pickles keep all that the next call goes on from. Model files keep the mean of the weights, which is then what
        the next call begins with.
        """
        self._check_parameters()
        self._check_batches()
        labels = known_classes(self, classes)
        sequences, vocabulary = self._grown(X)
        rules = self._batch_rules(labels)
        targets: Any = encode_known_labels(y, sequences.offsets, labels)
        weights = check_item_weights(sample_weight, len(sequences))
        if rules is not None and self._trains_rules:
            broken = find_broken(rules, PartialLabels(labels, targets, None), sequences.offsets)
            if broken is not None:
                stays = items_that_stay(broken, len(sequences), self.on_violation)
                sequences, targets, weights = take_items(sequences, targets, weights, stays)
        start = self._start(
            labels, sequences.n_features, vocabulary, self if hasattr(self, "coef_") else None
        )
        chain = Chain(sequences.offsets, len(labels), rules=rules if self._trains_rules else None)
        with Pool(self.n_threads) as pool:
            store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, pool=pool)
            features = SparseMap(store, pool)
            objective = build_objective(features, Likelihood(chain, targets), weights)
            learnt = learn_batch(self, objective, features, start)
        self.classes_, self.vocabulary_, self.rules_ = labels, vocabulary, rules
        self.n_features_in_ = sequences.n_features
        self._set_weights(learnt)
        note_pass(self)
        return self

    def _check_batches(self) -> None:
        """Refuse what depends on all data."""
        for name in ("all_possible_states", "all_possible_transitions"):
            if not getattr(self, name):
                raise InputError(
                    f"{name}: partial_fit expects True, as no batch has all that occurs, got False"
                )
        if as_transitions(self.constraints, self.scheme).seen:
            raise InputError(
                "constraints: partial_fit does not take what was seen, as no batch has all of it"
            )

    def _grown(self, X: Any) -> tuple[Sequences, Vocabulary | None]:
        """Return the batch in the features that were known, and behind them its new ones."""
        known = getattr(self, "vocabulary_", None)
        if not hasattr(self, "coef_"):
            return encode_sequences(X)
        if known is None or isinstance(known, TemplateVocabulary):
            return encode_sequences(X, known, n_features=self.n_features_in_)
        sequences, found = encode_sequences(X if isinstance(X, Sequences) else known.named(X))
        if found is None:
            raise InputError("expected features by name, as in the calls before, got matrices")
        vocabulary = known.grown(found)
        return sequences.with_names(vocabulary.names), vocabulary

    def _batch_rules(self, labels: NDArray) -> TransitionRules | None:
        """Return the rules over the labels, None without any."""
        given = as_transitions(self.constraints, self.scheme)
        if given.is_empty:
            return None
        return given.rules(labels, np.empty(0, np.int32), np.zeros(1, np.int64))
