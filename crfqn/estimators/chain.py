"""ChainCRF: sequence labelling with a linear-chain conditional random field, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import SparseWeights
from crfqn.data.encoding import encode_new, encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.items import check_item_weights
from crfqn.data.label_codes import (
    PartialLabels,
    encode_constraints,
    encode_known_labels,
    encode_labels,
    flat_labels,
    flat_partial_labels,
    is_partial,
    lists_by_item,
    split_by_item,
)
from crfqn.data.model_file import ModelFile, narrowed
from crfqn.data.sequences import Sequences
from crfqn.data.token_rows import TokenRows
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.automatic_solver import AUTO
from crfqn.estimators.base import Decoding, pass_on_interrupt
from crfqn.estimators.callbacks import with_tasks
from crfqn.estimators.chain_decoding import OpenItems
from crfqn.estimators.chain_inspection import SequenceInspection
from crfqn.estimators.chain_online import OnlineSequences
from crfqn.estimators.chain_training import prepare
from crfqn.estimators.content import (
    FEATURE,
    FROM,
    STATE,
    TO,
    Content,
    add_labels,
    add_matrix,
    add_vocabulary,
    read_labels,
    read_matrix,
    read_size,
    read_vocabulary,
)
from crfqn.estimators.features import warn_of_unknown_names
from crfqn.estimators.few_positions import few_scores
from crfqn.estimators.probabilistic import has_probabilities
from crfqn.estimators.rules_content import add_rules, read_rules
from crfqn.estimators.start import Axes, Common, match, sorted_weights, start_model, tell
from crfqn.estimators.structured import HINGE, ByStrengths
from crfqn.estimators.token_scores import edge_table, names_with_weights, token_scores
from crfqn.estimators.transitions import Transitions, as_transitions
from crfqn.estimators.validation import check_pair, held_out
from crfqn.estimators.weights import csr, entries, merged
from crfqn.objectives.linear.sparse_map import SparseMap, add_image
from crfqn.objectives.losses.likelihood import PartialLikelihood
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.support import Support, observed_support
from crfqn.result import Result
from crfqn.solvers.validation import ValidationSet
from crfqn.structures.chain import NO_TARGETS, Chain
from crfqn.structures.chain_decoding import pairs_of
from crfqn.structures.structure import Inference, Structure
from crfqn.structures.transition_rules import TransitionRules
from crfqn.threads import Pool

TOKEN_SCORE = "token_accuracy"


@dataclass(eq=False, repr=False, kw_only=True)
class ChainCRF(ByStrengths, OnlineSequences, SequenceInspection):
    """Linear-chain CRF with sparse weights, trained by a proximal quasi-Newton method with a certificate.

    Minimises, over node weights W (classes x features) and edge weights V (classes x classes, from x to),

        sum_i c_i (-log P(y_i | x_i; W, V)) + l1 (|W|_1 + |V|_1) + l2/2 (|W|^2 + |V|^2),

    and group_l1 times the sum of the norms of W's columns, if asked. The loss is a sum over the items i, not a mean: l1
    and l2 mean what CRFsuite's c1 and 2 c2 mean.

    Parameters
    ----------
    l1 : float or "auto", default "auto"
        Strength of the L1 penalty, >= 0, in nats. "auto" is a share of the standard deviation that the gradients of
        features that say nothing would have (docs/choosing-strengths.md), a quarter where l2 is "auto" and a tenth
        elsewhere: for a first fit, from which `crf_path` goes on. With the loss "hinge" it is 0.
    l2 : float or "auto", default "auto"
        Strength of the L2 penalty, >= 0, in nats. "auto" is worth two positions of a feature, one with a label and one
        without, where l1 is "auto" too and there are no groups. Otherwise it is 0: a given penalty is the whole one.
    group_l1 : float or "auto", default 0.0
        Strength of group_l1 sum_f ||w_f|| over the features f, w_f the weights of f for all labels, besides l1 and l2:
        with l1 = 0 a feature keeps all its weights or none. Each edge weight is a group of its own.
    group_norm : {"l2", "linf"}, default "l2"
        The norm of w_f: its length, or its largest size.
    loss : {"logistic", "hinge"}, default "logistic"
        -log P(y | x); or max over y' of (number of wrong positions of y' + score(y')) - score(y), the max-margin Markov
        network of Taskar et al. (2003), which needs l2 > 0 without l1 and has no probabilities. A sum over the items:
        C of a structural SVM with l2 = 1 is 1 / l2 here, and lambda of a mean over n items is l2 / n.
    tol : float, default 1e-3
        Stop when objective - optimum <= tol * objective.
    stop : {"estimate", "certificate"}, default "estimate"
        What has to say so: an estimate from what the steps have won (docs/training.md says how), or the certified
        duality gap: a proof, which on text takes many times as long.
    all_possible_states, all_possible_transitions : bool, default True
        Whether a pair of feature and label, or of two labels, that never occurs in the training data may have a weight
        (CRFsuite's options of this name, which are off there). Without, models are smaller and trained sooner, but
        know nothing against labels never seen beside a feature.
    scheme : str, optional
        The labels' scheme for spans, whose rules all labellings have to keep: "IOB1", "IOB2" ("BIO"), "IOE1", "IOE2",
        "BIOES" ("IOBES"), "BILOU", "BMES".
    constraints : Transitions or "seen", optional
        Other rules on neighbouring labels (`crfqn.Transitions`), "seen" for what the training data have; with `scheme`,
        both have to be kept. A labelling that breaks a rule has the probability 0: it is not in Z.
    constrain : {"both", "decoding"}, default "both"
        Whether rules hold in training and in decoding, or in decoding alone.
    on_violation : {"error", "drop"}, default "error"
        What becomes of training items whose labels break a rule; they are left out with a warning, or refused.
    max_iter : int, default 500
        Steps on all items; the warm-up on samples has a limit of its own (40 steps for each of its 4 stages).
    max_seconds : float, optional
        Limit of time, looked at after every iteration.
    solver : {"auto", "prox-qn", "prox-qn-paper", "owl-qn", "prox-gd", "fista", "spa-rsa", "sgd", "bcd", "l-bfgs"}
        Or "averaged-perceptron", "passive-aggressive", "block-frank-wolfe", which the loss "hinge" is trained by; or a
        solver object. "auto" is "prox-qn", and "l-bfgs" where l1 and group_l1 are 0, which needs that;
        "prox-qn-paper" is the method as published, the others are those it was compared with.
        `crfqn.solvers.prox_qn.ProxQN(...)` takes settings, and so do the others' classes.
    n_threads : int, optional
        All cores by default. The result does not depend on it, bit by bit.
    random_state : int, RandomState or None
        Seeds the order of the items with `solver="sgd"`; all else is deterministic, and so is None.
    verbose : int, default 0
        1 shows progress on stderr.
    warm_start : bool, default False
        Start from the weights of the last fit (or of the file that the model was loaded from), of the labels and the
        features, by name, that are in the data again; others start from zero. `fit(start=model)` starts from another.
    callback : callable, optional
        Called with a `crfqn.result.Progress` every iteration; a true answer stops the training.
    scoring : str or callable(estimator, X, y), optional
        Score of the items that `fit(validation=(X, y))` is given, the larger the better: a name of
        `crfqn.metrics.scorer_names()` or of scikit-learn's, "f1" (of spans by the scheme; without one of chunks of IOB
        labels). By default the F1 of spans with a scheme, otherwise the share of right positions.
    patience : int, default 10
        Looks at these items in a row without a better score, after which the training ends.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    edge_coef_ : scipy.sparse.csr_array, shape (n_classes, n_classes), from x to
    n_features_in_ : int
    vocabulary_ : Vocabulary of the feature names, None for matrices without names
    l1_, l2_, group_l1_ : float, the strengths that it was trained with
    rules_ : TransitionRules over the classes, None without any
    result_ : Result
        Its status, value, gap, passes and trace.
    n_iter_ : int
    extra_ : dict, what was given to `save`; only after `crfqn.load`

    Examples
    --------
    >>> from crfqn import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> model = ChainCRF(l1=0.1).fit(X, [["D", "N"], ["D", "N"]])
    >>> model.predict([[{"word": "the"}, {"word": "cat"}]]).tolist()
    [['D', 'N']]

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014.
    """

    KIND = "chain-crf"

    l2: float | str | None = field(default=AUTO, kw_only=False)
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    scheme: str | None = None
    constraints: Transitions | str | None = None
    constrain: str = "both"
    on_violation: str = "error"

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sequences are no 2-D arrays, and have no single class to stratify by."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.no_validation = True
        return tags

    @with_tasks
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> ChainCRF:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : crfqn.Sequences, or list of items
            An item is a 2-D array (positions x features), or a list of dicts (str -> number, bool or str),
            or a list of lists of feature strings. `Templates` make Sequences of token columns; a model trained on them
            takes token columns from then on, loaded from a file too.
        y : list of label sequences, one an item, or a flat array of labels by position
            None stands for an unknown label, or for an item without known labels, and a set of labels for one of them:
            the loss is then -log of the probability of all labellings that fit, which is not convex
            (`result_.status` is STATIONARY at best), and solvers have to do without curvature.
        sample_weight : array-like, shape (n_items,), optional
            How often each sequence counts; 0 is the same as leaving it out.
        start : fitted ChainCRF, optional
            Start from its weights, of the labels and features (by name where both have names) in common, others from
            zero. It goes before `warm_start`. `verbose` says how much was kept.
        validation : (X, y), optional
            Items that the weights are scored on during the training, by `scoring`: the model has those of the best
            score, and the training ends after `patience` looks without a better one. Their labels may be new ones.

        Raises
        ------
        InputError (a ValueError)
            Says what was expected, what came, and where: item, position, feature.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback; the model has the best weights so far, and is usable.
        """
        self._check_parameters()
        sequences, vocabulary = encode_sequences(X)
        del X  # so that a caller who does not keep it gets its memory back once the store is built
        weights = check_item_weights(sample_weight, len(sequences))
        given = as_transitions(self.constraints, self.scheme)
        sequences, labels, weights, rules = prepare(
            sequences, y, weights, given, self._trains_rules, self.on_violation
        )
        begin = self._start(labels.classes, sequences.n_features, vocabulary, start)
        with Pool(self.n_threads) as pool:
            store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, pool=pool)
        n_features = sequences.n_features
        del sequences
        held = None
        if validation is not None:
            twin = copy(self)
            twin.classes_, twin.vocabulary_, twin.n_features_in_ = labels.classes, vocabulary, n_features
            twin.rules_ = rules
            held = twin._held_out(validation, store.n_positions)
        result = self._train_on(store, labels, weights, rules, begin, held)
        self.classes_, self.vocabulary_, self.n_features_in_ = labels.classes, vocabulary, n_features
        self.rules_ = rules
        self._keep(result, is_convex=labels.allowed is None)
        pass_on_interrupt(result)
        return self

    @property
    def _trains_rules(self) -> bool:
        """Whether rules hold in training."""
        return self.constrain == "both"

    def _train_on(
        self,
        store: FeatureStore,
        labels: PartialLabels,
        weights: NDArray[np.float64] | None,
        rules: TransitionRules | None,
        begin: SparseWeights | None,
        held: ValidationSet | None = None,
    ) -> Result:
        n_states = len(labels.classes)
        targets: Any = labels.targets
        chain = Chain(store.offsets, n_states, rules=rules if self._trains_rules else None)
        if labels.allowed is not None:
            self._check_partial()
            targets = labels.allowed
        support = self._support(store, targets, n_states)
        return self._train(SparseMap(store), chain, targets, weights, begin, support=support, held_out=held)

    def _held_out(self, validation: Any, n_positions: int) -> ValidationSet:
        """Return validation items, encoded once for all looks; `n_positions`: those of the training."""
        X, y = check_pair(validation)
        sequences = self._encode(X)
        items = OpenItems.of(sequences, len(self.classes_), self.rules_)
        given = lists_by_item(np.asarray(flat_labels(y, sequences.offsets), object), sequences.offsets)
        return held_out(self, items, given, sequences.n_positions / n_positions)

    @property
    def _span_scheme(self) -> str | None:
        """Scheme of the labels, None without any."""
        return as_transitions(self.constraints, self.scheme).scheme

    @property
    def _default_scoring(self) -> str:
        return TOKEN_SCORE if self._span_scheme is None else f"span_f1:{self._span_scheme}"

    def predict(self, X: Any, known: Any = None) -> NDArray[np.object_]:
        """Return the most probable label sequence of each item (Viterbi).

        Parameters
        ----------
        X : crfqn.Sequences, or list of items, as in `fit`; items may be empty
        known : list, one entry an item, optional
            What is known of the labels: None for an item of which nothing is, or a list with a label, a set of possible
            ones or None for each position.

        Returns
        -------
        ndarray of objects, shape (n_items,)
            A list of labels for each item, whatever the lengths.

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Says what was expected, what came, and where: item, position, feature; also for an item that no labelling is
            left for.
        """
        states, offsets = self._best_states(X, known)
        return lists_by_item(self.classes_[states], offsets)

    def _best_states(self, X: Any, known: Any = None) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the best label's number at each position of all items, and where the items begin and end."""
        with Pool(self.n_threads) as pool:
            chain, scores, edges = self._open_known(X, known, pool)
            return chain.decode(scores, edges, pool).states, chain.offsets

    @available_if(has_probabilities)
    def decode(self, X: Any, known: Any = None) -> Decoding:
        """Return the most probable label sequence of each item, with log P(y | x, known); others as in `predict`."""
        with Pool(self.n_threads) as pool:
            chain, scores, edges = self._open_known(X, known, pool)
            best = chain.decode(scores, edges, pool)
            log_partition = chain.infer(scores, edges, pool=pool).log_partition
        return Decoding(split_by_item(self.classes_[best.states], chain.offsets), best.score - log_partition)

    @available_if(has_probabilities)
    def predict_marginals(self, X: Any, known: Any = None, pairs: bool = False) -> list[NDArray[np.float64]]:
        """Return P(y_t = k | x, known) of each position: a list of float64 arrays (positions, classes).

        With `pairs` P(y_t = j, y_{t+1} = k | x, known): float64 arrays (positions - 1, classes, classes). Rows and
        pairs of a position sum to 1. Other parameters and errors as in `predict`.
        """
        with Pool(self.n_threads) as pool:
            chain, scores, edges = self._open_known(X, known, pool, warns=False)
            if pairs:
                return pairs_of(chain, scores, edges, pool)
            inference = chain.infer(scores, edges, pool=pool)
        return split_by_item(np.ascontiguousarray(inference.residual.T), chain.offsets)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of positions that are labelled right, each item weighted by `sample_weight`.

        X, y and errors as in `fit`; labels may be new ones, which count as wrong. InputError without any position.
        """
        check_is_fitted(self)
        sequences = self._encode(X)
        if sequences.n_positions == 0:
            raise InputError("expected at least one position to score, got none")
        known, codes = encode_labels(y, sequences.offsets)
        weights = check_item_weights(sample_weight, len(sequences))
        hits = self.classes_[self._best_states(sequences)[0]] == known[codes]
        return float(
            np.average(hits, weights=None if weights is None else np.repeat(weights, sequences.lengths))
        )

    @available_if(has_probabilities)
    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), in nats; -inf for labels that break a rule.

        X and errors as in `predict`, y as in `fit`: with unknown labels it is the probability of all labellings that
        fit. InputError also for labels that are not among the classes.
        """
        check_is_fitted(self)
        sequences = self._encode(X)
        labels = flat_partial_labels(y, sequences.offsets)
        with Pool(self.n_threads) as pool:
            chain, scores, edges = self._open_known(sequences, None, pool, warns=False)
        if not is_partial(labels):
            targets = encode_known_labels(labels, sequences.offsets, self.classes_)
            inference = self._infer(chain, scores, edges, targets)
            return inference.target_score - inference.log_partition
        allowed = encode_constraints(labels, chain.offsets, self.classes_)
        within = self._infer(chain, np.where(allowed, scores, -np.inf), edges).log_partition
        within[chain.impossible(allowed)] = -np.inf
        return np.minimum(within - self._infer(chain, scores, edges).log_partition, 0.0)

    def _support(self, store: FeatureStore, targets: NDArray[np.int32], n_states: int) -> Support:
        """Return the weights that may be other than 0, by what occurs in the training data."""
        possible = self.all_possible_states, self.all_possible_transitions
        return observed_support(store, targets, n_states, *possible)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        as_transitions(self.constraints, self.scheme)

    def _check_partial(self) -> None:
        """Refuse what unknown labels cannot be trained with."""
        if self.loss == HINGE:
            raise InputError(f"loss={HINGE!r}: expected known labels, but some are None or sets")
        if not (self.all_possible_states and self.all_possible_transitions):
            raise InputError(
                "expected known labels where all_possible_states or all_possible_transitions is False: None or a set "
                "does not say what occurs"
            )

    def _loss(self, structure: Structure, targets: Any) -> ScoreLoss:
        if targets.ndim == 2:
            return PartialLikelihood(cast(Chain, structure), targets)
        return super()._loss(structure, targets)

    def _settings(self) -> dict[str, Any]:
        given = self.constraints
        return super()._settings() | {
            "constraints": given.to_json() if isinstance(given, Transitions) else given
        }

    @classmethod
    def _from_settings(cls, settings: dict[str, Any]) -> ChainCRF:
        given = settings.get("constraints")
        if isinstance(given, dict):
            settings = settings | {"constraints": Transitions.from_json(given)}
        return super()._from_settings(settings)

    def _encode(self, X: Any) -> Any:
        """Return items as `Sequences` in the model's features; those that are open as they are."""
        if isinstance(X, OpenItems):
            return X
        X = self._with_names(X)
        return encode_sequences(X, self.vocabulary_, allow_empty=True, n_features=self.n_features_in_)[0]

    def _with_names(self, X: Any) -> Any:
        """Return items, `Sequences` of other columns with those of the model's names."""
        is_encoded = isinstance(X, Sequences) and (
            X.vocabulary is None or X.vocabulary is not self.vocabulary_
        )
        if is_encoded and X.feature_names is not None and self.vocabulary_ is not None:
            return X.with_names(self.vocabulary_.names)
        return X

    def _open(
        self, X: Any, pool: Pool, warns: bool
    ) -> tuple[Chain, NDArray[np.float64], NDArray[np.float64]]:
        """Return the chain over new items, with the scores of its nodes and edges."""
        if not hasattr(self, "classes_"):  # scikit-learn's check takes a tenth of a sentence's time
            check_is_fitted(self)
        if isinstance(X, OpenItems):
            return X.chain, *self._scores(X.store, pool)
        X = list(X) if isinstance(X, Iterator) else X
        encoded = encode_new(
            self._with_names(X),
            self.vocabulary_,
            self.n_features_in_,
            partial(names_with_weights, self.coef_),
        )
        if warns and self.coef_.nnz:  # else nothing depends on features
            warn_of_unknown_names(encoded, X, self.vocabulary_)
        chain = Chain(encoded.offsets, len(self.classes_), rules=self.rules_)
        if isinstance(encoded, TokenRows):
            scores = token_scores(encoded, self.coef_, pool)
        else:
            scores = few_scores(encoded.matrix, self.coef_, np.zeros(chain.n_states))
        if scores is not None:
            return chain, scores, edge_table(self.edge_coef_)
        matrix = encoded.matrix() if isinstance(encoded, TokenRows) else encoded.matrix
        store = FeatureStore.from_matrix(matrix, encoded.offsets, allow_empty=True)
        return chain, *self._scores(store, pool)

    def _infer(
        self, chain: Chain, scores: NDArray, edges: NDArray, targets: NDArray[np.int32] = NO_TARGETS
    ) -> Inference:
        with Pool(self.n_threads) as pool:
            return chain.infer(scores, edges, targets, pool=pool)

    def _axes(self) -> Axes:
        """Return the names of rows and columns of the fitted weights."""
        return _axes(self.classes_, self.n_features_in_, self.vocabulary_)

    def _start(
        self, classes: NDArray, n_features: int, vocabulary: Vocabulary | None, start: Any
    ) -> SparseWeights | None:
        """Return the weights to start from: those of `start` or of the last fit, for labels and features in common."""
        model = start_model(start, self, ChainCRF, "ChainCRF")
        if model is None:
            return None
        new = _axes(classes, n_features, vocabulary)
        common, weights = match(model._axes(), new, start is not None), None
        if common is not None:
            n_states = len(new.labels)
            rows, columns, values = common.entries(model.coef_)
            first, second, edges = Common(common.rows, common.rows).entries(model.edge_coef_)
            weights = sorted_weights(
                np.append(rows * new.n_features + columns, (new.n_features + first) * n_states + second),
                np.append(values, edges),
            )
        if self.verbose:
            tell(common, new, weights, model.coef_.nnz + model.edge_coef_.nnz)
        return weights

    def _set_weights(self, weights: SparseWeights) -> None:
        n_states = len(self.classes_)
        n_nodes = n_states * self.n_features_in_
        end = int(np.searchsorted(weights.coords, n_nodes))
        rows, columns = np.divmod(weights.coords[:end], self.n_features_in_)
        self.coef_ = csr(weights.weights[:end], rows, columns, (n_states, self.n_features_in_))
        first, second = np.divmod(weights.coords[end:] - n_nodes, n_states)
        self.edge_coef_ = csr(weights.weights[end:], first, second, (n_states, n_states))

    def _weights(self) -> SparseWeights:
        n_states, n_features = self.coef_.shape
        edges = entries(self.edge_coef_, n_states)
        return merged(
            entries(self.coef_, n_features),
            SparseWeights(n_states * n_features + edges.coords, edges.weights),
        )

    def _scores(self, store: FeatureStore, pool: Pool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return node scores (K, N) and edge scores (K, K) under the fitted weights."""
        n_states = len(self.classes_)
        scores, edges = np.zeros((n_states, store.n_positions)), np.zeros(n_states**2)
        add_image(store, *self._weights(), scores, edges, pool)
        return scores, edges.reshape(n_states, n_states)

    def _content(self) -> Content:
        content = Content(metadata={"n_features": self.n_features_in_, "n_classes": len(self.classes_)})
        add_matrix(content, "node", self.coef_, STATE, FEATURE)
        add_matrix(content, "edge", self.edge_coef_, FROM, TO)
        add_labels(content, self.classes_)
        add_rules(content, self.rules_)
        used, renumbered = np.unique(content.arrays["node_feature"], return_inverse=True)
        add_vocabulary(content, self.vocabulary_, used)
        if "feature_names" in content.strings:
            content.arrays["node_feature"] = narrowed(renumbered)
            content.metadata["n_features"] = used.size
        return content

    def _restore(self, file: ModelFile) -> None:
        n_states = file.count("n_classes", 1)
        n_features = read_size(file, n_states)
        self.classes_ = read_labels(file, n_states)
        self.vocabulary_ = read_vocabulary(file)
        if self.vocabulary_ is not None and len(self.vocabulary_) != n_features:
            raise ModelFileError(f"{file.path}: {len(self.vocabulary_)} names for {n_features} features")
        self.n_features_in_ = n_features
        self.rules_ = read_rules(file, n_states)
        self.coef_ = read_matrix(file, "node", STATE, FEATURE, (n_states, n_features))
        self.edge_coef_ = read_matrix(file, "edge", FROM, TO, (n_states, n_states))


def _axes(classes: NDArray, n_features: int, vocabulary: Vocabulary | None) -> Axes:
    return Axes(classes.tolist(), n_features, None if vocabulary is None else vocabulary.names)
