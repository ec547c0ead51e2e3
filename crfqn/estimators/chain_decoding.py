"""Decoding of sequences beyond the best labelling: the n best ones with probabilities, spans with theirs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from crfqn.data.features import FeatureStore
from crfqn.data.items import Items
from crfqn.data.label_codes import encode_constraints
from crfqn.data.schemes import find_scheme
from crfqn.data.sequences import Sequences
from crfqn.errors import InputError
from crfqn.estimators.base import Fitted
from crfqn.estimators.probabilistic import has_probabilities
from crfqn.estimators.transitions import as_transitions, span_rules
from crfqn.structures.chain import Chain
from crfqn.structures.chain_decoding import n_best, span_probabilities
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool


class LabelSpan(NamedTuple):
    """A span of an item.

    Attributes
    ----------
    label : str, the type of the span, "" where labels have none
    start, end : int, the first position and the one behind the last, from 0
    probability : float, that a labelling has exactly this span: with this type, beginning and ending here
    """

    label: str
    start: int
    end: int
    probability: float


class ScoredItems(NamedTuple):
    """New items ready for inference: their chain, node scores (K, N), -inf where ruled out, and edge scores (K, K)."""

    chain: Chain
    scores: NDArray[np.float64]
    edges: NDArray[np.float64]


class SequenceDecoding(Fitted):
    """Base of estimators that label sequences, with all that a chain can tell of new items."""

    scheme: str | None
    constraints: Any
    n_threads: int | None
    rules_: TransitionRules | None = None  # models that were not trained here have none

    @abstractmethod
    def _open(
        self, X: Any, pool: Pool, warns: bool
    ) -> tuple[Chain, NDArray[np.float64], NDArray[np.float64]]:
        """Return the chain over new items, with the scores of its nodes and edges."""

    def _open_known(self, X: Any, known: Any, pool: Pool, warns: bool = True) -> ScoredItems:
        """Return new items with what is known of their labels; InputError for one that no labelling is left for.

        warns : whether items without a known feature are warned of: where they are labelled, once
        """
        chain, scores, edges = self._open(X, pool, warns)
        allowed = None if known is None else encode_constraints(known, chain.offsets, self.classes_)
        impossible = chain.impossible(allowed, pool)
        if impossible.size:
            raise InputError(
                f"item {impossible[0]}: no labelling keeps the rules"
                + " and what is known" * (known is not None)
            )
        return ScoredItems(chain, scores if allowed is None else np.where(allowed, scores, -np.inf), edges)

    @available_if(has_probabilities)
    def predict_nbest(self, X: Any, n: int = 5, known: Any = None) -> list[list[tuple[list, float]]]:
        """Return the n most probable labellings of each item, with their probabilities.

        The recursion of Viterbi with lists of n in the place of single numbers, exact; P(y | x) = exp(score(y)) / Z, Z
        over all labellings that the rules and `known` allow.

        Parameters
        ----------
        X, known : as in `predict`
        n : int >= 1, default 5

        Returns
        -------
        list of lists of (labels, probability), one an item
            The most probable one first, fewer than n where an item has fewer labellings. Of equal ones the one with the
            lower last class comes first, then with the lower class before it.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            As in `predict`; also for n below 1, or so large that memory for the labellings would exceed 8 GB.
        """
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise InputError(f"n: expected an integer >= 1, got {n!r}")
        with Pool(self.n_threads) as pool:
            chain, scores, edges = self._open_known(X, known, pool)
            best = n_best(chain, scores, edges, int(n), pool)
            log_partition = chain.infer(scores, edges, pool=pool).log_partition
        probabilities = np.exp(np.minimum(best.score - log_partition, 0.0))
        offsets, classes = chain.offsets.tolist(), self.classes_
        return [
            [
                (classes[best.states[r, offsets[i] : offsets[i + 1]]].tolist(), float(probabilities[r, i]))
                for r in range(best.counts[i])
            ]
            for i in range(chain.n_items)
        ]

    @available_if(has_probabilities)
    def predict_spans(self, X: Any, known: Any = None, scheme: str | None = None) -> list[list[LabelSpan]]:
        """Return the spans of each item's most probable labelling, with the probability that they are right.

        The probability of a span is that of all labellings that have exactly it: with its type, beginning and ending
        where it does; that of longer, shorter and other spans at its place is not in it. By the forward recursion
        restricted to these labellings (Culotta and McCallum 2004, "constrained forward-backward").

        Parameters
        ----------
        X, known : as in `predict`
        scheme : str, optional
            What makes labels a span: by default the estimator's own scheme.

        Returns
        -------
        list of lists of LabelSpan (label, start, end, probability), one an item, in the order of their starts

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            As in `predict`; also without a scheme, and for classes that it does not have.

        References
        ----------
        Culotta, McCallum: Confidence estimation for information extraction. HLT-NAACL 2004.
        """
        name = scheme or as_transitions(self.constraints, self.scheme).scheme
        if name is None:
            raise InputError(
                'scheme: spans need one, such as predict_spans(X, scheme="IOB2"), and the model has none'
            )
        with Pool(self.n_threads) as pool:
            chain, scores, edges = self._open_known(X, known, pool)
            rules, types = span_rules(find_scheme(name), self.classes_.tolist())
            spans = rules.find(chain.decode(scores, edges, pool).states, chain.offsets)
            probabilities = span_probabilities(chain, scores, edges, spans, rules, pool)
        found: list[list[LabelSpan]] = [[] for _ in range(chain.n_items)]
        items = np.searchsorted(chain.offsets, spans.starts, side="right") - 1
        begins = chain.offsets[items]
        columns = (items, spans.types, spans.starts - begins, spans.stops - begins, probabilities)
        for i, kind, start, end, probability in zip(*(column.tolist() for column in columns), strict=True):
            found[i].append(LabelSpan(types[kind], start, end, probability))
        return found


class EncodedItems(Items):
    """Items whose chain and features (`store`) are made already, for labelling them again and again."""

    def __init__(self, chain: Chain, store: FeatureStore) -> None:
        self.chain, self.store, self.offsets = chain, store, chain.offsets

    @classmethod
    def of(cls, sequences: Sequences, n_states: int, rules: TransitionRules | None) -> Self:
        """Return sequences that are to be labelled by n_states labels under rules; InputError for no positions."""
        if sequences.n_positions == 0:
            raise InputError("validation: expected at least one position, got none")
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, allow_empty=True)
        return cls(Chain(sequences.offsets, n_states, rules=rules), store)

    @property
    def n_positions(self) -> int:
        return int(self.offsets[-1])
