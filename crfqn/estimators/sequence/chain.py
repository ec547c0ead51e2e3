"""ChainCRF: sequence labelling with a linear-chain conditional random field, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from crfqn.arrays import SparseWeights
from crfqn.data.encoding import encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.labels import encode_known_labels, encode_labels, split_by_item
from crfqn.data.sequences import Sequences
from crfqn.data.templates.vocabulary import TemplateVocabulary, is_hashed
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError, ModelFileError
from crfqn.estimators.base import Decoding, pass_on_interrupt
from crfqn.estimators.checks import check_flags
from crfqn.estimators.classification.labels.item_weights import check_item_weights
from crfqn.estimators.classification.probabilistic import has_probabilities
from crfqn.estimators.few_positions import few_scores
from crfqn.estimators.start import Axes, Common, match, sorted_weights, start_model, tell
from crfqn.estimators.storage.content import (
    FEATURE,
    FROM,
    STATE,
    TO,
    Content,
    add_labels,
    add_matrix,
    read_labels,
    read_matrix,
    read_size,
    read_vocabulary,
)
from crfqn.estimators.strengths import ByStrengths
from crfqn.estimators.weights import csr, entries, merged
from crfqn.model_file import ModelFile, narrowed
from crfqn.objectives.linear.image import add_image
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.support import observed_support
from crfqn.structures.chain import NO_TARGETS, Chain
from crfqn.structures.structure import Inference
from crfqn.threads import Pool


@dataclass(eq=False, repr=False, kw_only=True)
class ChainCRF(ByStrengths):
    """Linear-chain CRF with sparse weights, trained by a proximal quasi-Newton method with a certificate.

    Minimises, over node weights W (classes x features) and edge weights V (classes x classes, from x to),

        sum_i c_i (-log P(y_i | x_i; W, V)) + l1 (|W|_1 + |V|_1) + l2/2 (|W|^2 + |V|^2),

    and group_l1 times the sum of the norms of W's columns, if asked. The loss is a sum over the items i, not a mean: l1
    and l2 mean what CRFsuite's c1 and 2 c2 mean.

    Parameters
    ----------
    l1, l2 : float, default 1.0 and 0.0
        Strengths of the penalties, >= 0, in nats.
    group_l1 : float, default 0.0
        Strength of group_l1 sum_f ||w_f|| over the features f, w_f the weights of f for all labels, besides l1 and l2:
        with l1 = 0 a feature keeps all its weights or none. Each edge weight is a group of its own.
    group_norm : {"l2", "linf"}, default "l2"
        The norm of w_f: its length, or its largest size.
    loss : {"logistic", "hinge"}, default "logistic"
        -log P(y | x); or max over y' of (number of wrong positions of y' + score(y')) - score(y), the max-margin Markov
        network of Taskar et al. (2003), which needs l2 > 0 with l1 = 0 and has no probabilities. A sum over the items:
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

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    edge_coef_ : scipy.sparse.csr_array, shape (n_classes, n_classes), from x to
    n_features_in_ : int
    vocabulary_ : Vocabulary of the feature names, None for matrices without names
    result_ : Result: status, value, gap, passes, trace
    n_iter_ : int
    extra_ : dict, what was given to `save`; only after `crfqn.load`

    Examples
    --------
    >>> from crfqn import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> model = ChainCRF(l1=0.1).fit(X, [["D", "N"], ["D", "N"]])
    >>> [path.tolist() for path in model.predict([[{"word": "the"}, {"word": "cat"}]])]
    [['D', 'N']]

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014.
    """

    KIND = "chain-crf"

    all_possible_states: bool = True
    all_possible_transitions: bool = True

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sequences are no 2-D arrays, and have no single class to stratify by."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.no_validation = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, start: Any = None) -> ChainCRF:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : crfqn.Sequences, or list of items
            An item is a 2-D array (positions x features), or a list of dicts (str -> number, bool or str),
            or a list of lists of feature strings. `Templates` make Sequences of token columns; a model trained on them
            takes token columns from then on, loaded from a file too.
        y : list of label sequences, one an item, or a flat array of labels by position
        sample_weight : array-like, shape (n_items,), optional
            How often each sequence counts; 0 is the same as leaving it out.
        start : fitted ChainCRF, optional
            Start from its weights, of the labels and features (by name where both have names) in common, others from
            zero. It goes before `warm_start`. `verbose` says how much was kept.

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
        classes, targets = encode_labels(y, sequences.offsets)
        weights = check_item_weights(sample_weight, len(sequences))
        if weights is not None and not weights.all():
            sequences, classes, targets, weights = _without_weightless(sequences, classes[targets], weights)
        begin = self._start(classes, sequences.n_features, vocabulary, start)
        with Pool(self.n_threads) as pool:
            store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, pool=pool)
        n_features = sequences.n_features
        del sequences
        chain = Chain(store.offsets, len(classes))
        possible = self.all_possible_states, self.all_possible_transitions
        support = observed_support(store, targets, len(classes), *possible)
        result = self._train(SparseMap(store), chain, targets, weights, begin, support=support)
        self.classes_, self.vocabulary_, self.n_features_in_ = classes, vocabulary, n_features
        self._keep(result)
        pass_on_interrupt(result)
        return self

    def predict(self, X: Any) -> list[NDArray]:
        """Return the most probable label sequence of each item (Viterbi).

        Parameters
        ----------
        X : crfqn.Sequences, or list of items, as in `fit`; items may be empty

        Returns
        -------
        list of 1-D arrays of labels, one an item

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Says what was expected, what came, and where: item, position, feature.
        """
        chain, scores, edges = self._open(X)
        with Pool(self.n_threads) as pool:
            best = chain.decode(scores, edges, pool)
        return split_by_item(self.classes_[best.states], chain.offsets)

    @available_if(has_probabilities)
    def decode(self, X: Any) -> Decoding:
        """Return the most probable label sequence of each item, with log-probability; X and errors as in `predict`."""
        chain, scores, edges = self._open(X)
        with Pool(self.n_threads) as pool:
            best = chain.decode(scores, edges, pool)
            log_partition = chain.infer(scores, edges, pool=pool).log_partition
        return Decoding(split_by_item(self.classes_[best.states], chain.offsets), best.score - log_partition)

    @available_if(has_probabilities)
    def predict_marginals(self, X: Any) -> list[NDArray[np.float64]]:
        """Return P(y_t = k | x) of each position: a list of float64 arrays (positions, classes), rows that sum to 1.

        X and errors as in `predict`.
        """
        chain, scores, edges = self._open(X)
        inference = self._infer(chain, scores, edges)
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
        predicted = np.concatenate([np.asarray([], self.classes_.dtype), *self.predict(sequences)])
        hits = predicted == known[codes]
        return float(
            np.average(hits, weights=None if weights is None else np.repeat(weights, sequences.lengths))
        )

    @available_if(has_probabilities)
    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return log P(y_i | x_i) of each item, float64 (n_items,), in nats.

        X and errors as in `predict`; InputError also for labels that are not among the classes.
        """
        check_is_fitted(self)
        sequences = self._encode(X)
        targets = encode_known_labels(y, sequences.offsets, self.classes_)
        chain, scores, edges = self._open(sequences)
        inference = self._infer(chain, scores, edges, targets)
        return inference.target_score - inference.log_partition

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flags(self, "all_possible_states", "all_possible_transitions")

    def _encode(self, X: Any) -> Sequences:
        is_encoded = isinstance(X, Sequences) and (
            X.vocabulary is None or X.vocabulary is not self.vocabulary_
        )
        if is_encoded and X.feature_names is not None and self.vocabulary_ is not None:
            X = X.with_names(self.vocabulary_.names)
        return encode_sequences(X, self.vocabulary_, allow_empty=True, n_features=self.n_features_in_)[0]

    def _open(self, X: Any) -> tuple[Chain, NDArray[np.float64], NDArray[np.float64]]:
        """Return the chain over new items, with the scores of its nodes and edges."""
        check_is_fitted(self)
        sequences = self._encode(X)
        chain = Chain(sequences.offsets, len(self.classes_))
        scores = few_scores(sequences.matrix, self.coef_, np.zeros(chain.n_states))
        if scores is not None:
            return chain, scores, self.edge_coef_.toarray()
        store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, allow_empty=True)
        with Pool(self.n_threads) as pool:
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
        if isinstance(self.vocabulary_, TemplateVocabulary):
            content.metadata["templates"] = self.vocabulary_.stored_source()
        if self.vocabulary_ is not None and not is_hashed(self.vocabulary_):
            used, renumbered = np.unique(content.arrays["node_feature"], return_inverse=True)
            content.arrays["node_feature"] = narrowed(renumbered)
            content.strings["feature_names"] = [self.vocabulary_.names[f] for f in used]
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
        self.coef_ = read_matrix(file, "node", STATE, FEATURE, (n_states, n_features))
        self.edge_coef_ = read_matrix(file, "edge", FROM, TO, (n_states, n_states))


def _axes(classes: NDArray, n_features: int, vocabulary: Vocabulary | None) -> Axes:
    return Axes(classes.tolist(), n_features, None if vocabulary is None else vocabulary.names)


def _without_weightless(
    sequences: Sequences, labels: NDArray, weights: NDArray[np.float64]
) -> tuple[Sequences, NDArray, NDArray[np.int32], NDArray[np.float64]]:
    """Leave out the items of weight 0, with the labels that only they have."""
    stays = weights > 0
    kept = sequences[stays]
    classes, targets = encode_labels(labels[np.repeat(stays, sequences.lengths)], kept.offsets)
    return kept, classes, targets, weights[stays]
