"""CRF: the estimator of sklearn-crfsuite, with its parameters, methods and attributes, trained by `ChainCRF`."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
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

LISTS = (list, tuple)


class TrainedFile:
    """A model in CRFsuite's format: the file `filename`, or a temporary one that is deleted with this object.

    Attributes
    ----------
    name : str or None, the path; None if there is no file yet
    auto : bool, whether the file is a temporary one
    keep_tempfiles : bool, whether to keep a temporary file
    """

    def __init__(self, filename: str | None, keep_tempfiles: bool) -> None:
        self.name, self.auto, self.keep_tempfiles = filename, filename is None, bool(keep_tempfiles)

    def ensure_written(self, model: ChainCRF) -> None:
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

    refresh = cleanup  # `crf.modelfile` then writes a new file


def _tagger_property(value: Callable[[CrfsuiteTagger], object], description: str) -> property:
    """Return a property of CRF: `value(tagger)`, None before a fit."""
    return property(lambda crf: value(crf.tagger_) if crf.__sklearn_is_fitted__() else None, doc=description)


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
        step of `ChainCRF`'s solver, which decreases the objective as much as several of CRFsuite's. There is no
        warning if a limit that was set ends the training; see `training_log_.message`.
    delta : float, optional
        Stop when objective - optimum <= delta * objective, by estimate (`ChainCRF`'s tolerance). By default the
        training stops when further steps would hardly improve accuracy, earlier than CRFsuite with its default. With
        1e-5 the result is the optimum.
    c : float, default 1
        Largest step of "pa". `pa_type` may be 0 (no largest step) or 1 (the default), with the default values of
        `error_sensitive` and `averaging`.
    variance, gamma : float, default 1
        For "arow": the initial variance of each weight, and the trade-off. A larger gamma gives smaller steps.
    verbose : bool
        Show progress on stderr.
    model_filename : str, optional
        The file to which `fit` writes the model, in CRFsuite's format. Before a fit the model is read from it.
    keep_tempfiles : bool, default False
        Whether to keep the temporary file of `modelfile` when this object is deleted.
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

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: int | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    verbose: bool | int = False
    model_filename: str | None = None
    keep_tempfiles: bool = False
    trainer_cls: type | None = None

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: those of `ChainCRF`."""
        return ChainCRF().__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model: a fit's, or the file `model_filename`."""
        is_file = self.model_filename is not None and os.path.isfile(self.model_filename)
        return hasattr(self, "model_") or is_file

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        X_dev: Iterable[Any] | None = None,
        y_dev: Iterable[Any] | None = None,
    ) -> CRF:
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
        items: Sequence[Any] = list(X) if is_listed else attributes(X)
        labels = _label_lists(y)
        if len(items) != len(labels):
            raise InputError(f"expected labels for {len(items)} items, got {len(labels)} lists of labels")
        stays = [i for i, item in enumerate(items) if len(item) or labels[i]]
        chain = make_chain(self.get_params(deep=False))
        sequences, zeros = _encode([items[i] for i in stays])
        features = ObservedFeatures(0.0 if self.min_freq is None else self.min_freq, zeros)
        has_limit = self.max_iterations is not None
        fit_observed(chain, sequences, [labels[i] for i in stays], features, has_limit=has_limit)
        self.__dict__.pop("_modelfile", None)  # the file of the previous model
        self.model_: ChainCRF = chain
        self.training_log_ = TrainingLog.from_model(chain)
        if X_dev is not None and y_dev is not None:
            true = _label_lists(y_dev)
            names = dict.fromkeys([*chain.classes_.tolist(), *flatten(true)])
            self.training_log_.evaluate(names, true, self.predict(X_dev).tolist())
        if self.model_filename is not None:
            crfsuite.write(chain, self.model_filename)
        return self

    def predict(self, X: Iterable[Any]) -> NDArray[np.object_]:
        """Return the best labels of each item: a 1-D array with a list for each item."""
        return self._model().predict(X)

    def predict_single(self, xseq: Iterable[object]) -> list:
        """Return the best labels of one item."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Iterable[Any]) -> NDArray[np.object_]:
        """Return the probabilities of the labels: an array with a list for each item, of a dict for each position."""
        model = self._model()
        labels = model.classes_.tolist()
        tables = model.predict_marginals(X)
        marginals = np.empty(len(tables), object)  # 1-D, also if all items have the same length
        marginals[:] = [[dict(zip(labels, row, strict=True)) for row in table.tolist()] for table in tables]
        return marginals

    def predict_marginals_single(self, xseq: Iterable[object]) -> list[dict[Any, float]]:
        """Return the probabilities of the labels at each position of one item."""
        return self.predict_marginals([xseq])[0]

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """Return the accuracy over positions."""
        return flat_accuracy_score(y, self.predict(X))

    @property
    def tagger_(self) -> CrfsuiteTagger | None:
        """The model with the methods of `pycrfsuite.Tagger`, the same object until the next fit. Before a fit it is
        None, as are the attributes that depend on it."""
        if not self.__sklearn_is_fitted__():
            return None
        model = self._model()
        weights, tagger = self.__dict__.get("_tagger", (None, None))
        if weights is not model.current_model or not tagger.has(model):
            self._tagger = model.current_model, CrfsuiteTagger(model)
        return self._tagger[1]

    classes_ = _tagger_property(CrfsuiteTagger.labels, "The labels.")
    size_ = _tagger_property(CrfsuiteTagger.size, "Bytes of the model in CRFsuite's format.")
    attributes_ = _tagger_property(lambda tagger: tagger.weights[1], "The attributes that have a weight.")
    num_attributes_ = _tagger_property(lambda tagger: len(tagger.weights[1]), "The number of `attributes_`.")
    state_features_ = _tagger_property(
        lambda tagger: tagger.info().state_features, "Weights of (attribute, label) that are not 0."
    )
    transition_features_ = _tagger_property(
        lambda tagger: tagger.info().transitions, "Weights of (label, next label) that are not 0."
    )

    @property
    def modelfile(self) -> TrainedFile:
        """The model's file: `model_filename`, or a temporary one, written at the first access after a fit."""
        if not hasattr(self, "_modelfile"):
            self._modelfile = TrainedFile(self.model_filename, self.keep_tempfiles)
        if hasattr(self, "model_"):
            self._modelfile.ensure_written(self.model_)
        return self._modelfile

    def __getstate__(self) -> dict[str, Any]:
        cached = ("_modelfile", "_tagger")
        return {name: value for name, value in super().__getstate__().items() if name not in cached}

    def _model(self) -> ChainCRF:
        """Return the fitted chain; NotFittedError if there is neither a chain nor a file to read it from."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CRF is not fitted yet: call fit, or name a file by model_filename")
        if not hasattr(self, "model_") and self.model_filename is not None:
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
    """Return items in columns named by their attributes, and the entries of value 0, which CRFsuite counts as
    occurrences. Dicts and lists of strings are read directly, because making a dict of attributes for each position
    takes longer than some trainings."""
    items = items if can_be_read_again(items) else attributes(items)
    try:
        rows, vocabulary = growing_rows(items, ATTRIBUTE_SEPARATOR)
    except InputError:
        # Bytes, other kinds of positions, or invalid items, for which `attributes` raises the error.
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
