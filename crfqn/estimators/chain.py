"""ChainCRF: sequence labelling with a linear-chain conditional random field, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from crfqn.choices import STRENGTHS
from crfqn.data.items import check_position_weights
from crfqn.data.label_arrays import check_any_known, encode_labels, item_labels
from crfqn.data.model_file import ModelFile
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
    CALIBRATE,
    Estimator,
    Feature,
    available_if,
    check_no_dense,
    has_probabilities,
    of_model,
    prepare,
    strongest_features,
    train,
)
from crfqn.estimators.online import (
    known_classes,
    learns_in_batches,
    learns_online,
    one_pass,
    refit,
    take_pass,
)
from crfqn.estimators.problem import CallbackSupportMixin, Encoded, Problem, start_within, with_tasks
from crfqn.estimators.settings import ChainSettings
from crfqn.model.answers import SEQUENCE_ANSWERS
from crfqn.model.sequences import SequenceModel
from crfqn.model.space import SequenceSpace
from crfqn.model.trained import Fitted
from crfqn.model.weights import FittedDense, FittedMatrix
from crfqn.parameters import with_parameter_documentation
from crfqn.threads import Pool


@with_parameter_documentation
@dataclass(eq=False, repr=False, kw_only=True)
class ChainCRF(ChainSettings, CallbackSupportMixin, Estimator):
    """Linear-chain CRF with sparse weights, trained by a proximal quasi-Newton method with a certificate.

    Minimises, over node weights W (classes x features) and edge weights V (classes x classes, from x to),

        sum_i c_i (-log P(y_i | x_i; W, V)) + l1 (|W|_1 + |V|_1) + l2/2 (|W|^2 + |V|^2),

    plus group_l1 times the sum of the norms of W's columns where group_l1 is set. Bigram features, of templates like
    B01:%x[0,0], add a matrix U_f (classes x classes) each, penalised as V. The loss is a sum over the items i, not a
    mean: l1 and l2 mean what CRFsuite's c1 and 2 c2 mean.

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
    model_ : crfqn.Model, the fitted model alone, with the same weights: it predicts, and cannot be trained
    classes_ : ndarray, shape (n_classes,), sorted
    coef_ : scipy.sparse.csr_array, shape (n_classes, n_features)
    n_dense_ : int, D, the columns of a dense block, 0 without one
    dense_coef_ : ndarray, shape (n_classes, D), only where there is one
    transition_coef_ : scipy.sparse.csr_array, shape (n_classes, n_classes), from x to
    bigram_columns_ : ndarray of int, the features with weights for pairs of labels: of templates like B01:%x[0,0]
    bigram_coef_ : scipy.sparse.csr_array, shape (n_classes ** 2, n_features), only where there are any
        Their weights, those of classes j and k in row j n_classes + k.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only if the features have names
    l1_, l2_, group_l1_ : float, the strengths that it was trained with
    rules_ : TransitionRules over the classes, None without any
    temperature_ : float, what `calibrate` found, else 1
    result_ : Result
        Its status, value, gap, passes and trace.
    n_iter_ : int
    extra_ : dict, what was given to `save`; only after `crfqn.load`

    References
    ----------
    Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized
    M-estimators. NIPS 2014.
    """

    KIND = "chain-crf"
    ANSWERS = SEQUENCE_ANSWERS
    STARTS_FROM = "ChainCRF"
    SPACE = SequenceSpace

    coef_, dense_coef_ = FittedMatrix("weights"), FittedDense("dense_coef_")
    l1_, l2_, group_l1_ = (Fitted(f"trained.strengths.{name}") for name in STRENGTHS)
    vocabulary, rules_ = Fitted("vocabulary", None), Fitted("rules_")
    transition_coef_, bigram_coef_ = FittedMatrix("edges"), FittedMatrix("bigrams")
    bigram_columns_ = Fitted("bigram_columns_")

    @with_tasks
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Self:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : crfqn.Sequences, or list of items
            An item is a 2-D array (positions x features), or a list of dicts (str -> number, bool or str),
            or a list of lists of feature strings. `Templates` make Sequences of token columns; a model trained on them
            takes token columns from then on, loaded from a file too. `crfqn.Features` have a dense block beside these.
            Items without positions do not count in training. Positions may have no features; without any feature the
            model has weights of transitions only. With a `dask_client` a list of paths of labelled files, a Dask
            bag of pairs (item, labels), or `crfqn.Shards` of them: the shards, without y and sample_weight.
        y : list of label sequences, one an item, or a flat array of labels by position
            None is an unknown label, or an item without known labels; a set of labels means one of them. The loss is
            then -log of the probability of all labellings that agree with y. It is not convex (`result_.status` is
            STATIONARY at best), and not all solvers can minimise it.
        sample_weight : array-like, shape (n_items,), or list of numbers and arrays of shape (positions,), optional
            Weight of each sequence in the loss; 0 leaves it out. An array has the weights of a sequence's positions,
            which are multiplied by `class_weight`.
        start : fitted ChainCRF, or the name of a model file, optional
            Start from the weights of this model, for the labels and features (by name where both have names) that both
            have; other weights start from zero. It is used instead of `warm_start`. With `verbose` the number of
            weights that were taken over is printed.
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
        problem = prepare(self, X, y, sample_weight, start, validation=validation)
        del X  # so that a caller who does not keep it gets its memory back
        return train(self, problem)

    def label_names(self, y: Any) -> tuple[Any, None]:
        """Return labels, and that they are no rows of parts."""
        return item_labels(y), None

    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, start: Any = None, *, validation: Any = None
    ) -> Problem:
        """Return the training that `fit` would do, without doing it; parameters and errors as in `fit`."""
        return prepare(self, X, y, sample_weight, start, validation=validation)

    def encode(self, X: Any, y: Any, sample_weight: Any) -> Encoded:
        if self.dask_client is not None:
            from crfqn.estimators.sharded_chain import encode_shards

            return encode_shards(X, y, sample_weight, self)
        return encode_blocks(X, self) if isinstance(X, Blocks) else encode_items(X, y, sample_weight, self)

    def encode_held_out(self, validation: Any, space: SequenceSpace) -> tuple[Any, Any, int]:
        return encode_held_out(validation, space)

    @available_if(learns_in_batches)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of sequences besides those of the calls before.

        Parameters
        ----------
        X, y, sample_weight
            As of `fit`; "averaged-perceptron" and "passive-aggressive" need labels that are all known.
        classes : array-like of labels
            All labels of all batches. Required by these two solvers in the first call for a model that has not been
            fitted; other solvers learn a label when it first occurs.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            With other solvers, for a model that was trained by `fit` or loaded: its items are not kept.
        InputError (a ValueError)
            As of `fit`. Of these two solvers also for labels that are not among `classes`, and for rules or
            restrictions to what the data have (`transition_rules="seen"`, `all_possible_states=False`), which need
            all data together.

        Notes
        -----
        "averaged-perceptron" and "passive-aggressive" learn the batch in one pass, from where the last call or fit has
        ended, and forget it: the model is the mean of the weights after each item of all calls, and `result_` says
        nothing of an objective. A pass costs time for its items, and some for features x labels: batches should not be
        tiny. Model files keep the mean of the weights, which is then what the next call begins with.

        All other solvers fit what is kept of all batches, from the weights of the last call: all items while they are
        at most 10,000 (the class attribute `RESERVOIR`), so that the model is that of `fit` on all of them, to its
        tolerance; from then on 10,000 of them, each item with the same probability (Vitter 1985) and weights that add
        up to those of all.

        Features by name grow: those that a batch has for the first time get columns behind the others. The columns of
        matrices and of `Templates` stay those of the first call. Pickles keep all that the next call goes on from.
        """
        check_no_dense(self, X, "partial_fit")
        if self.min_count != 1:
            raise InputError(
                "min_count: partial_fit expects 1, as features that are rare in a batch may come again"
            )
        before = self.current_model if self.is_fitted else None
        known = None if before is None else SequenceSpace.from_model(before)
        if not learns_online(self):
            return refit(self, *labelled_batch(X, y, known), sample_weight)
        self.check_parameters()
        batch = encode_batch(X, y, sample_weight, known_classes(self, classes), known, self)
        begin = None if before is None else batch.space.start(before, True, bool(self.verbose))
        with Pool(self.n_threads) as pool:
            weights, memory = one_pass(self, batch.objective(pool), start_within(batch.support, begin))
        return take_pass(self, batch.space, weights, _memory=memory)

    predict = of_model(SequenceModel.predict, None)
    decode = of_model(SequenceModel.decode)
    predict_marginals = of_model(SequenceModel.predict_marginals)
    predict_nbest = of_model(SequenceModel.predict_nbest)
    predict_spans = of_model(SequenceModel.predict_spans)
    log_likelihood = of_model(SequenceModel.log_likelihood)
    explain = of_model(SequenceModel.explain, None)
    uncertainty = of_model(SequenceModel.uncertainty)
    calibrate, temperature_ = CALIBRATE, Fitted("temperature")

    @available_if(has_probabilities)
    def predict_proba(self, X: Any, known: Any = None) -> list[NDArray[np.float64]]:
        """Return the probabilities of the labels of each position, in the order of `classes_`: `predict_marginals`
        under scikit-learn's name, which pipelines have."""
        return self.predict_marginals(X, known)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, the fraction of correctly labelled positions, weighted by `sample_weight`.

        X, y and errors as in `fit`; labels may be new ones, which count as wrong. InputError without any position, and
        where the model knows none of the labels.
        """
        states, offsets = self.current_model.best_states(X, engine=self.engine)
        if not states.size:
            raise InputError("expected at least one position to score, got none")
        known, codes = encode_labels(y, offsets)
        weights, position_weights = check_position_weights(sample_weight, offsets)
        if position_weights is None and weights is not None:
            position_weights = np.repeat(weights, np.diff(offsets))
        check_any_known(known, self.classes_)
        hits = self.classes_[states] == known[codes]
        return float(np.average(hits, weights=position_weights))

    def predict_single(self, x: Any) -> list:
        """Return the labels of one item; x is an item as in `predict`, whose errors it has."""
        return self.predict([x])[0]

    @available_if(has_probabilities)
    def predict_marginals_single(self, x: Any) -> NDArray[np.float64]:
        """Return the probabilities of one item, float64 (positions, classes); errors as in `predict_marginals`."""
        return self.predict_marginals([x])[0]

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns; AttributeError, as of scikit-learn's models, if they have none."""
        if self.vocabulary is None or self.vocabulary.is_hashed:
            raise AttributeError(f"{type(self).__name__} has no names of features")
        return np.array(self.vocabulary.names, dtype=object)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights that are not 0, by (feature, label); features without names are their columns."""
        return self.current_model.weights_by_name().features

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights that are not 0, by (label, next label)."""
        return self.current_model.weights_by_name().transitions

    @property
    def bigram_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """Weights of bigram features that are not 0, by (feature, label, next label), the one that has the feature."""
        return self.current_model.weights_by_name().bigrams

    def top_features(self, label: Any, n: int | None = 10) -> list[Feature]:
        """Return the features with the largest sizes of weights for a label, the largest first.

        Parameters
        ----------
        label : one of `classes_`
        n : int >= 1, or None for all that are not 0

        Raises
        ------
        sklearn.exceptions.NotFittedError
        InputError
            Another label, or no such number.
        """
        return strongest_features(self.current_model, label, n)

    def model_of_file(self, file: ModelFile) -> SequenceModel:
        return SequenceModel.of_file(file)

    def checked_items(self, X: Any) -> Any:
        """Return items to label, which the engine checks."""
        return X

    def checked_labels(self, y: Any) -> Any:
        """Return labels of items, which the model checks."""
        return y

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sequences are no 2-D arrays, and have no single class to stratify by."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.no_validation = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles: in the place of a client the address of its scheduler."""
        state: Any = super().__getstate__()
        scheduler = getattr(self.dask_client, "scheduler", None)
        return state if scheduler is None else {**state, "dask_client": scheduler.address}

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy, which shares the client."""
        bare = self.with_model(None)
        bare.dask_client = None
        clone: Any = super(ChainCRF, bare).__sklearn_clone__()
        clone.dask_client = self.dask_client
        return clone
