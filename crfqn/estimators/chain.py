"""ChainCRF: sequence labelling by a linear-chain conditional random field, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from crfqn.data.inputs import ItemsLike, LabelsLike, SampleWeight
from crfqn.data.items import check_position_weights
from crfqn.data.label_arrays import check_any_known, encode_labels, item_labels
from crfqn.errors import InputError
from crfqn.estimators.blocks import Blocks
from crfqn.estimators.chain_data import (
    encode_batch,
    encode_blocks,
    encode_held_out,
    encode_items,
    labelled_batch,
)
from crfqn.estimators.estimator import (
    CalibrationMixin,
    Estimator,
    StartLike,
    TrainingMixin,
    available_if,
    check_no_dense,
    has_probabilities,
    of_model,
)
from crfqn.estimators.online import (
    all_batch_classes,
    learns_in_batches,
    learns_online,
    one_pass,
    refit,
    take_pass,
)
from crfqn.estimators.problem import CallbackSupportMixin, Encoded, Validation, start_within, with_fit_task
from crfqn.estimators.settings import ChainSettings
from crfqn.kernels.second_process import start_second_process
from crfqn.model.answers import SEQUENCE_ANSWERS
from crfqn.model.sequences import SequenceModel
from crfqn.model.space import SequenceSpace
from crfqn.model.trained import Fitted
from crfqn.model.weights import FittedMatrix
from crfqn.parameters import with_parameter_documentation
from crfqn.threads import Pool, check_n_threads, has_idle_core


@with_parameter_documentation
@dataclass(eq=False, repr=False, kw_only=True)
class ChainCRF(ChainSettings, CallbackSupportMixin, CalibrationMixin, TrainingMixin, Estimator):
    """Linear-chain CRF with sparse weights, trained by a proximal quasi-Newton method with a certificate.

    Minimises, over node weights W (classes x features) and edge weights V (classes x classes, from x to),

        sum_i c_i (-log P(y_i | x_i; W, V)) + l1 (|W|_1 + |V|_1) + l2/2 (|W|^2 + |V|^2),

    plus group_l1 times the sum of the norms of W's columns. Each bigram feature, of templates like B01:%x[0,0], adds a
    matrix U_f (classes x classes), penalised as V. The loss is a sum over the items i, not a mean: l1 and l2 are c1 and
    2 c2 of CRFsuite.

    Examples
    --------
    >>> from crfqn import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> model = ChainCRF(l1=0.1).fit(X, [["D", "N"], ["D", "N"]])
    >>> model.predict([[{"word": "the"}, {"word": "cat"}]]).tolist()
    [['D', 'N']]

    Parameters
    ----------
    {l1}
    {l2}
    {scheme}
    {tol}
    {max_seconds}
    {n_threads}

    Other Parameters
    ----------------
    {others}

    Attributes
    ----------
    model_ : crfqn.Model, the fitted model, which predicts and cannot be trained
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    n_dense_ : int, D, the columns of a dense block, 0 without one
    dense_coef_ : ndarray, shape (n_classes, D), only with a dense block
    transition_coef_ : scipy.sparse.csr_array, shape (n_classes, n_classes), from x to
    bigram_columns_ : ndarray of int, the features with weights for pairs of labels, of templates like B01:%x[0,0]
    bigram_coef_ : scipy.sparse.csr_array, shape (n_classes ** 2, n_features), only with bigram features
        Their weights; those of classes j and k are in row j n_classes + k.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if the features have names
    l1_, l2_, group_l1_ : float, the strengths of the training
    rules_ : TransitionRules over the classes, None without any
    temperature_ : float, found by `calibrate`, else 1
    result_ : Result
        Its status, value, gap, passes and trace.
    n_iter_ : int
    extra_ : dict, the argument `extra` of `save`; only after `crfqn.load`

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014.
    """

    KIND = "chain-crf"
    ANSWERS = SEQUENCE_ANSWERS
    STARTS_FROM = "ChainCRF"
    MODEL = SequenceModel
    SPACE = SequenceSpace

    vocabulary, rules_ = Fitted("vocabulary", None), Fitted("rules_")
    transition_coef_, bigram_coef_ = FittedMatrix("edges"), FittedMatrix("bigrams")
    bigram_columns_ = Fitted("bigram_columns_")

    @with_fit_task
    def fit(
        self,
        X: ItemsLike,
        y: LabelsLike | None = None,
        sample_weight: SampleWeight = None,
        start: StartLike = None,
        *,
        validation: Validation = None,
    ) -> Self:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : crfqn.Sequences, or list of items
            An item is a 2-D array (positions x features), or a list of dicts (str -> number, bool or str),
            or a list of lists of feature strings. `Templates` make Sequences of token columns; a model trained on these
            predicts for token columns, also if it is loaded from a file. `crfqn.Features` add a dense block. Items
            without positions are ignored in training. Positions may have no features; without any feature the model has
            weights of transitions only. With a `dask_client`, X is a list of paths of labelled files, a Dask bag of
            pairs (item, labels), or `crfqn.Shards`, and y and sample_weight are None.
        y : list of label sequences, one an item, or a flat array of labels by position
            None is an unknown label, or an item without known labels; a set of labels means one of them. The loss is
            then -log of the probability of all labellings that agree with y. It is not convex (`result_.status` is
            STATIONARY at best), and not all solvers can minimise it.
        sample_weight : array-like, shape (n_items,), or list of numbers and arrays of shape (positions,), optional
            Weight of each sequence in the loss; items of weight 0 are ignored. An array has the weights of a sequence's
            positions, which are multiplied by `class_weight`.
        start : fitted ChainCRF, or the name of a model file, optional
            Start from the weights of this model, for its labels and features that the data have too (by name if both
            have names); other weights start from zero. It is used instead of `warm_start`. With `verbose` the number
            of weights that are used is printed.
        validation : (X, y), optional
            Held-out items, which are scored during the training by `scoring`. The model has the weights with the best
            score, and the training stops after `patience` scores without a better one. They may have labels that X
            does not have.

        Raises
        ------
        InputError (a ValueError)
            Invalid data or parameters; the message names the item, position and feature.
        KeyboardInterrupt
            Ctrl-C, or raised by the callback. The model has the best weights so far and can predict.
        """
        if check_n_threads(self.n_threads) > 1 and has_idle_core():
            start_second_process()
        problem = self.prepare(X, y, sample_weight, start, validation=validation)
        del X  # its memory can be freed if the caller has no reference
        return self.train(problem)

    def label_names(self, y: LabelsLike) -> tuple[LabelsLike, None]:
        """Return the labels, and None, as they are not rows of parts of a path."""
        return item_labels(y), None

    def encode(self, X: Any, y: Any, sample_weight: SampleWeight) -> Encoded:
        if self.dask_client is not None:
            from crfqn.estimators.sharded_chain import encode_shards

            return encode_shards(X, y, sample_weight, self)
        return encode_blocks(X, self) if isinstance(X, Blocks) else encode_items(X, y, sample_weight, self)

    encode_held_out = staticmethod(encode_held_out)

    @available_if(learns_in_batches)
    def partial_fit(
        self, X: Any, y: LabelsLike, classes: ArrayLike | None = None, sample_weight: SampleWeight = None
    ) -> Self:
        """Continue the training with a batch of sequences.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; "averaged-perceptron" and "passive-aggressive" need labels that are all known.
        classes : array-like of labels
            All labels of all batches. Required by these two solvers in the first call for a model that has not been
            fitted; other solvers learn a label when it first occurs.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            With other solvers, for a model that was trained by `fit` or loaded, whose items are not available.
        InputError (a ValueError)
            As in `fit`. With these two solvers also for labels that are not among `classes`, and for parameters that
            need all data (`transition_rules="seen"`, `all_possible_states=False`).

        Notes
        -----
        "averaged-perceptron" and "passive-aggressive" make one pass over the batch, from the weights of the last call
        or fit, and do not keep it. The model is the mean of the weights after each item of all calls, and `result_` has
        no objective. A pass takes time for its items and for features x labels, so batches should not be tiny. Model
        files have the mean of the weights, and the next call continues from it.

        All other solvers fit a sample of all batches, from the weights of the last call. While there are up to 10,000
        items (the class attribute `RESERVOIR`), the sample has all of them, and the model is that of `fit` to its
        tolerance. Then it has 10,000 items, each with the same probability (Vitter 1985), with weights whose sum is
        that of all.

        New features by name get new columns after the others. The columns of matrices and of `Templates` are those of
        the first call. Pickles have the state with which the next call continues.
        """
        check_no_dense(self, X, "partial_fit")
        if self.min_count != 1:
            raise InputError(
                "min_count: partial_fit expects 1, as features that are rare in a batch may occur in others"
            )
        before = self.current_model if self.is_fitted else None
        known = None if before is None else SequenceSpace.from_model(before)
        if not learns_online(self):
            return refit(self, *labelled_batch(X, y, known), sample_weight)
        self.check_parameters()
        batch = encode_batch(X, y, sample_weight, all_batch_classes(self, classes), known, self)
        begin = None if before is None else batch.space.start(before, True, bool(self.verbose))
        with Pool(self.n_threads) as pool:
            objective = batch.source.objective(batch.support, pool)
            weights, memory = one_pass(self, objective, start_within(batch.support, begin))
        return take_pass(self, batch.space, weights, _memory=memory)

    predict = of_model(SequenceModel.predict, None)
    decode = of_model(SequenceModel.decode)
    predict_marginals = of_model(SequenceModel.predict_marginals)
    predict_nbest = of_model(SequenceModel.predict_nbest)
    predict_spans = of_model(SequenceModel.predict_spans)
    log_likelihood = of_model(SequenceModel.log_likelihood)
    explain = of_model(SequenceModel.explain, None)
    uncertainty = of_model(SequenceModel.uncertainty)

    @available_if(has_probabilities)
    def predict_proba(self, X: ItemsLike, known: Sequence[object] | None = None) -> list[NDArray[np.float64]]:
        """Return the probabilities of the labels of each position, in the order of `classes_`, as `predict_marginals`
        does."""
        return self.predict_marginals(X, known)

    def score(self, X: ItemsLike, y: LabelsLike, sample_weight: SampleWeight = None) -> float:
        """Return the accuracy, the fraction of correctly labelled positions, weighted by `sample_weight`.

        X, y and errors as in `fit`; labels that the model does not have count as wrong. InputError without any
        position, and if the model has none of the labels.
        """
        states, offsets = self.current_model.best_states(X, engine=self.engine)
        if not states.size:
            raise InputError("expected one or more positions to score, got none")
        known, codes = encode_labels(y, offsets)
        weights, position_weights = check_position_weights(sample_weight, offsets)
        if position_weights is None and weights is not None:
            position_weights = np.repeat(weights, np.diff(offsets))
        check_any_known(known, self.classes_)
        hits = self.classes_[states] == known[codes]
        return float(np.average(hits, weights=position_weights))

    def predict_single(self, x: object) -> list:
        """Return the labels of one item; item and errors as in `predict`."""
        return self.predict([x])[0]

    @available_if(has_probabilities)
    def predict_marginals_single(self, x: object) -> NDArray[np.float64]:
        """Return the probabilities of one item, float64 (positions, classes); errors as in `predict_marginals`."""
        return self.predict_marginals([x])[0]

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns; AttributeError, as in scikit-learn, if they have none."""
        if self.vocabulary is None or self.vocabulary.is_hashed:
            raise AttributeError(f"{type(self).__name__} has no names of features")
        return np.array(self.vocabulary.names, dtype=object)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights that are not 0, by (feature, label), or (column, label) if features have no names."""
        return self.current_model.weights_by_name().features

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights that are not 0, by (label, next label)."""
        return self.current_model.weights_by_name().transitions

    @property
    def bigram_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """Weights of bigram features that are not 0, by (feature, label, next label)."""
        return self.current_model.weights_by_name().bigrams

    def checked_items(self, X: ItemsLike) -> ItemsLike:
        """Return the items unchanged, because the engine checks them."""
        return X

    def checked_labels(self, y: LabelsLike) -> LabelsLike:
        """Return the labels unchanged, because the model checks them."""
        return y

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sequences are not 2-D arrays, and have no single class to stratify by."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.no_validation = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, with the address of the scheduler instead of the client."""
        state: dict[str, Any] = super().__getstate__()
        scheduler = getattr(self.dask_client, "scheduler", None)
        return state if scheduler is None else {**state, "dask_client": scheduler.address}

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy, which shares the client."""
        bare = self.with_model(None)
        bare.dask_client = None
        clone: Self = super(ChainCRF, bare).__sklearn_clone__()
        clone.dask_client = self.dask_client
        return clone
