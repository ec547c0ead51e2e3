"""CRF: sklearn-crfsuite's estimator, its parameters, methods and attributes, over `ChainCRF`."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import Tags

from crfqn.atomic_write import check_writable
from crfqn.compat.metrics import flat_accuracy_score
from crfqn.compat.observed_chain import ObservedFeatures, Zeros, fit_observed, make_chain
from crfqn.compat.tagger import CrfsuiteTagger, TrainingLog
from crfqn.compat.utils import flatten
from crfqn.data.attributes import ATTRIBUTE_SEPARATOR, COLLECTION_TYPES, attributes
from crfqn.data.encoding import Sequences
from crfqn.data.label_arrays import check_labels
from crfqn.data.token_rows import PLAIN_TYPES, can_be_read_again, growing_rows
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError
from crfqn.estimators.chain import ChainCRF
from crfqn.interchange import crfsuite
from crfqn.messages import describe
from crfqn.parameters import NamedParameters
from crfqn.result import Status

LISTS = (list, tuple)


class TrainedFile:
    """A model in CRFsuite's format: the file `filename`, or a temporary one that is deleted with this object.

    Attributes
    ----------
    name : str or None, the path; None if there is no file yet
    auto : bool, whether the file is a temporary one
    keep_tempfiles : bool, whether to keep a temporary file
    """

    def __init__(self, filename: Any, keep_tempfiles: bool) -> None:
        self.name, self.auto, self.keep_tempfiles = filename, filename is None, bool(keep_tempfiles)

    def hold(self, model: Any) -> None:
        """Write a fitted chain to a temporary file unless there is a file."""
        if self.name is None:
            descriptor, self.name = tempfile.mkstemp(".crfsuite", "model")
            os.close(descriptor)
            if not self.keep_tempfiles:
                self._delete = weakref.finalize(self, Path(self.name).unlink, missing_ok=True)
            crfsuite.write(model, self.name)

    def cleanup(self) -> None:
        """Delete a temporary file unless it is to be kept; `crf.modelfile` writes it again."""
        if self.auto and not self.keep_tempfiles and self.name is not None:
            self._delete()
            self.name = None

    refresh = cleanup  # `crf.modelfile` has a new file then


def _of_tagger(answer: Callable[[CrfsuiteTagger], Any], description: str) -> Any:
    """Return a property of CRF: `answer(tagger)`, None before a fit."""
    return property(lambda crf: answer(crf.tagger_) if crf.__sklearn_is_fitted__() else None, doc=description)


@dataclass(eq=False, repr=False)
class CRF(NamedParameters, BaseEstimator):
    """Chain CRF under the names of sklearn-crfsuite, trained by crfqn.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, default "lbfgs"
        "lbfgs" and "l2sgd" minimise the negative log-likelihood plus c1 |w|_1 + c2 |w|^2 by `ChainCRF`'s own solver,
        with l1 = c1 and l2 = 2 c2; "ap", "pa" and "arow" are the averaged perceptron, passive-aggressive learning and
        adaptive regularization of weights.
    min_freq : float, default 0
        Minimum sum of the values of a feature at a label, and minimum number of transitions between two labels.
    all_possible_states, all_possible_transitions : bool, default False
        Weights also for pairs that never occur.
    c1, c2 : float, default 0 and 1
        Strengths of the penalties.
    max_iterations : int
        Default as in CRFsuite: no limit with "lbfgs", 1000 with "l2sgd", 100 epochs with the others. An iteration is a
        step of `ChainCRF`'s solver, worth several of CRFsuite's: most trainings end before 50 of them. There is no
        warning if a limit that was set ends the training; see `training_log_.message`.
    delta : float, optional
        Stop when objective - optimum <= delta * objective by estimate (`ChainCRF`'s `tol`). By default
        training stops when further steps would hardly improve accuracy (`tol="auto"`), earlier than CRFsuite with its
        default; 1e-5 gives the optimum.
    c : float, default 1
        Largest step of "pa". Its types without slack (`pa_type` 0, no largest step) and I (1, the default) are
        supported, with their defaults (`error_sensitive`, `averaging`).
    variance, gamma : float, default 1
        Of "arow": the initial variance of each weight, and the tradeoff: a larger gamma gives smaller steps.
    verbose : bool
        Show progress on stderr.
    model_filename : str, optional
        Where `fit` writes the model in CRFsuite's format; before a fit the model is read from there.
    keep_tempfiles : bool, default False
        Whether the temporary file of `modelfile` outlives this object.
    num_memories, epsilon, period, linesearch, max_linesearch, trainer_cls
        No effect, like parameters that begin with `calibration_`; a warning is given if one of them is set.

    Attributes
    ----------
    classes_ : list of str; it and those up to `size_` are None before a fit
    model_ : ChainCRF
    tagger_ : Tagger, with `tag`, `probability`, `marginal`, `info`
    state_features_, transition_features_ : dict of (attribute, label) and of (label, next label) -> weight
    attributes_, num_attributes_ : those that have a weight
    size_ : int, bytes of the model in CRFsuite's format
    modelfile : TrainedFile, whose `name` is the path of the model in CRFsuite's format
    training_log_ : TrainingLog, with `iterations` and `last_iteration`

    Examples
    --------
    >>> from crfqn.compat import CRF
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> crf = CRF(c1=0.1, c2=0.1).fit(X, [["D", "N"], ["D", "N"]])
    >>> crf.predict_single([{"word": "the"}, {"word": "cat"}])
    ['D', 'N']
    >>> sorted(crf.attributes_)
    ['word:a', 'word:cat', 'word:dog', 'word:the']
    """

    algorithm: Any = None
    min_freq: Any = None
    all_possible_states: Any = None
    all_possible_transitions: Any = None
    c1: Any = None
    c2: Any = None
    max_iterations: Any = None
    num_memories: Any = None
    epsilon: Any = None
    period: Any = None
    delta: Any = None
    linesearch: Any = None
    max_linesearch: Any = None
    calibration_eta: Any = None
    calibration_rate: Any = None
    calibration_samples: Any = None
    calibration_candidates: Any = None
    calibration_max_trials: Any = None
    pa_type: Any = None
    c: Any = None
    error_sensitive: Any = None
    averaging: Any = None
    variance: Any = None
    gamma: Any = None
    verbose: Any = False
    model_filename: Any = None
    keep_tempfiles: Any = False
    trainer_cls: Any = None

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: those of `ChainCRF`."""
        return ChainCRF().__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model: a fit's, or the file `model_filename`."""
        is_file = self.model_filename is not None and os.path.isfile(self.model_filename)
        return hasattr(self, "model_") or is_file

    def fit(self, X: Iterable[Any], y: Iterable[Any], X_dev: Any = None, y_dev: Any = None) -> CRF:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : iterable of items
            An item is a list of dicts, or of lists of strings; `crfqn.compat.attributes` defines their attributes.
            Items without positions are left out.
        y : iterable of lists of labels
        X_dev, y_dev : optional
            Held-out items: the final model's scores on them, by label and in all, are stored in
            `training_log_.last_iteration`. They do not change the model.

        Raises
        ------
        InputError (a ValueError)
            Parameters out of range, invalid data.
        """
        if (X_dev is None) != (y_dev is None):
            raise InputError("expected both X_dev and y_dev, or neither")
        if self.model_filename is not None:
            check_writable(self.model_filename)
        is_listed = isinstance(X, LISTS) and all(isinstance(item, LISTS) for item in X)
        items: Any = X if is_listed else attributes(X)
        labels = _label_lists(y)
        if len(items) != len(labels):
            raise InputError(f"expected labels for {len(items)} items, got {len(labels)} lists of labels")
        stays = [i for i, item in enumerate(items) if len(item) or labels[i]]
        chain = make_chain(self.get_params(deep=False))
        sequences, zeros = _encode([items[i] for i in stays])
        features = ObservedFeatures(0.0 if self.min_freq is None else self.min_freq, zeros)
        with warnings.catch_warnings():
            if self.max_iterations is not None:  # an intended limit; CRFsuite does not warn either
                warnings.filterwarnings("ignore", re.escape(Status.MAX_ITER.value), ConvergenceWarning)
            fit_observed(chain, sequences, [labels[i] for i in stays], features)
        self.__dict__.pop("_modelfile", None)  # of the model before
        self.model_: ChainCRF = chain
        self.training_log_ = TrainingLog.from_model(chain)
        if X_dev is not None:
            y_dev = _label_lists(y_dev)
            names = dict.fromkeys([*chain.classes_.tolist(), *flatten(y_dev)])
            self.training_log_.evaluate(names, y_dev, self.predict(X_dev).tolist())
        if self.model_filename is not None:
            crfsuite.write(chain, self.model_filename)
        return self

    def predict(self, X: Iterable[Any]) -> NDArray[np.object_]:
        """Return the best labels of each item: an array of lists, one an item, whatever their lengths."""
        return self._model().predict(X)

    def predict_single(self, xseq: Any) -> list:
        """Return the best labels of one item."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Iterable[Any]) -> NDArray[np.object_]:
        """Return the probabilities of the labels: an array of lists, one an item, of a dict for each position."""
        model = self._model()
        labels = model.classes_.tolist()
        tables = model.predict_marginals(X)
        marginals = np.empty(len(tables), object)  # 1-D, also if all items have the same length
        marginals[:] = [[dict(zip(labels, row, strict=True)) for row in table.tolist()] for table in tables]
        return marginals

    def predict_marginals_single(self, xseq: Any) -> list[dict[Any, float]]:
        """Return the probabilities of the labels at each position of one item."""
        return self.predict_marginals([xseq])[0]

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """Return the accuracy over positions."""
        return flat_accuracy_score(y, self.predict(X))

    @property
    def tagger_(self) -> CrfsuiteTagger | None:
        """The model under the names of `pycrfsuite.Tagger`, the same object until another fit; like the
        attributes that depend on it, None before a fit."""
        if not self.__sklearn_is_fitted__():
            return None
        model = self._model()
        weights, tagger = self.__dict__.get("_tagger", (None, None))
        if weights is not model.current_model or not tagger.has(model):
            self._tagger = model.current_model, CrfsuiteTagger(model)
        return self._tagger[1]

    classes_ = _of_tagger(CrfsuiteTagger.labels, "The labels.")
    size_ = _of_tagger(CrfsuiteTagger.size, "Bytes of the model in CRFsuite's format.")
    attributes_ = _of_tagger(lambda tagger: tagger.weights[1], "The attributes that have a weight.")
    num_attributes_ = _of_tagger(lambda tagger: len(tagger.weights[1]), "The number of `attributes_`.")
    state_features_ = _of_tagger(
        lambda tagger: tagger.info().state_features, "Weights of (attribute, label) that are not 0."
    )
    transition_features_ = _of_tagger(
        lambda tagger: tagger.info().transitions, "Weights of (label, next label) that are not 0."
    )

    @property
    def modelfile(self) -> TrainedFile:
        """The model's file: `model_filename`, or a temporary one, written at the first access after a fit."""
        if not hasattr(self, "_modelfile"):
            self._modelfile = TrainedFile(self.model_filename, self.keep_tempfiles)
        if hasattr(self, "model_"):
            self._modelfile.hold(self.model_)
        return self._modelfile

    def __getstate__(self) -> dict[str, Any]:
        made = ("_modelfile", "_tagger")  # at the first access
        return {name: value for name, value in super().__getstate__().items() if name not in made}

    def _model(self) -> ChainCRF:
        """Return the fitted chain; NotFittedError if there is none, and no file to read it from."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CRF is not fitted yet: call fit, or name a file by model_filename")
        if not hasattr(self, "model_"):
            self.model_ = crfsuite.read(self.model_filename)
        return self.model_


def _label_lists(y: Iterable[Any]) -> list[list]:
    """Return the labels as a list of lists; InputError for anything else."""
    if isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
        raise InputError(f"expected a list of labels for each item, got {describe(y)}")
    lists = []
    for i, labels in enumerate(y):
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            raise InputError(f"item {i}: expected a list of labels, got {describe(labels)}")
        lists.append(list(labels))
    check_labels(flatten(lists), np.cumsum([0, *map(len, lists)]))
    return lists


def _encode(items: list[Any]) -> tuple[Sequences, Zeros]:
    """Return items in columns that are named by their attributes, and the entries of value 0, which CRFsuite counts as
    occurrences. Dicts and lists of strings are read directly: a dict of attributes for each position would take longer
    than some trainings."""
    items = items if can_be_read_again(items) else attributes(items)
    try:
        rows, vocabulary = growing_rows(items, ATTRIBUTE_SEPARATOR)
    except InputError:  # bytes, positions of another kind, or invalid items, for which this raises the error
        items = attributes(items)
        rows, vocabulary = growing_rows(items)
    vocabulary = Vocabulary(vocabulary.names, has_attributes=True)
    sequences = Sequences.from_checked(rows.matrix(), rows.offsets, vocabulary=vocabulary)
    zeros = []
    for n, position in enumerate(flatten(items)):
        # The second check is slow for lists.
        if isinstance(position, COLLECTION_TYPES) or not isinstance(position, Mapping):
            continue
        if not PLAIN_TYPES.issuperset(map(type, position.values())):
            position = attributes([[position]])[0][0]
        if 0 in position.values():
            zeros += [(n, vocabulary.columns[name]) for name, value in position.items() if value == 0]
    return sequences, Zeros(*np.array(zeros, np.int64).reshape(-1, 2).T)
