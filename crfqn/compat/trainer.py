"""`Trainer` and `ItemSequence` of python-crfsuite: items are appended one by one, and the model is a file of CRFsuite.

A training is that of `CRF`: the features that CRFsuite generates, the objective of CRFsuite, the solver of crfqn.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from crfqn.arrays import Labels
from crfqn.atomic_write import StrPath, check_writable, replace_file
from crfqn.compat.crf import CRF
from crfqn.compat.log_parser import NO_RATE, TrainLogParser
from crfqn.compat.observed_chain import (
    AP,
    CRFSUITE_DEFAULTS,
    DESCRIPTIONS,
    FEATURE_DEFAULTS,
    LBFGS,
    PA,
    ObservedFeatures,
    Zeros,
    fit_observed,
    keyword,
    make_chain,
)
from crfqn.compat.tagger import TrainingLog
from crfqn.compat.utils import flatten
from crfqn.data.attribute_items import AttributeItems
from crfqn.data.attributes import attributes
from crfqn.data.encoding import Sequences
from crfqn.data.features import FeatureStore
from crfqn.data.token_rows import GrowingRows
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError, warn_caller
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.settings import ChainSettings
from crfqn.interchange.crfsuite import named_weights
from crfqn.messages import describe
from crfqn.model.content import Entries
from crfqn.model.crfsuite_model import encode_model
from crfqn.model.space import SequenceSpace
from crfqn.objectives.support import Support
from crfqn.result import Progress
from crfqn.structures.chain import Chain

ALL_GROUPS = -1  # the number of a held-out group if all items are for training
GRAPHICAL_MODEL = "crf1d"
ALGORITHM_ALIASES = {"averaged-perceptron": AP, "passive-aggressive": PA}


NamedWeights: TypeAlias = tuple[list[str], list[str], Entries, Entries]
HAS_NO_EFFECT = "No effect here; a value other than the default gives a warning."  # of the other parameters


class ItemSequence:
    """The attributes of one item's positions, made once for several calls.

    Parameters
    ----------
    pyseq : iterable of positions
        Dicts or iterables of strings, as of `crfqn.compat.attributes`.

    Raises
    ------
    InputError (a ValueError)
        Names the position and key, what was expected and what came.

    Examples
    --------
    >>> ItemSequence([["foo"], {"bar": {"baz": 1}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0}]
    """

    def __init__(self, pyseq: Iterable[object]) -> None:
        (self._items,) = attributes([pyseq])

    def items(self) -> list[dict[str, float]]:
        """Return a dict from attribute to value for each position."""
        return [dict(position) for position in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


class Trainer:
    """Trainer under the names of `pycrfsuite.Trainer`.

    Parameters
    ----------
    algorithm : str, optional, as of `select`; "lbfgs" by default
    params : dict, optional, as of `set_params`
    verbose : bool, default True
        Whether to print the log, a part at a time, by `on_start`, `on_featgen_end`, `on_prepared`, `on_prepare_error`,
        `on_iteration`, `on_optimization_end` and `on_end`; subclasses override them, or `message`.

    Attributes
    ----------
    logparser : TrainLogParser of the latest training, None before one

    Examples
    --------
    >>> trainer = Trainer("lbfgs", {"c1": 0.1, "c2": 0.01}, verbose=False)
    >>> trainer.append([["w=the"], ["w=dog"]], ["D", "N"])
    >>> trainer.train("model.crfsuite")
    """

    logparser: TrainLogParser | None = None
    verbose = True
    _params: dict[str, Any]
    _columns: dict[str, int]  # attributes, numbered in the order of first use
    _rows: GrowingRows  # the attributes of all positions
    _labels: list[list[str]]  # of each item
    _groups: list[int]  # the number of each item's group

    def __new__(cls, *args: object, **kwargs: object) -> Trainer:
        """Return a trainer of "lbfgs" without items; as in python-crfsuite, subclasses need not call `__init__`."""
        trainer = super().__new__(cls)
        trainer._algorithm, trainer._params = LBFGS, {}
        trainer.clear()
        return trainer

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, object] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # ---- data

    def append(self, xseq: Iterable[object], yseq: Iterable[str], group: int = 0) -> None:
        """Append an item and its labels.

        Parameters
        ----------
        xseq : ItemSequence, or an iterable of positions as of `ItemSequence`
        yseq : iterable of str, a label for each position
        group : int
            Number of the item's group; `train(holdout=group)` evaluates on a group instead of training on it.

        Raises
        ------
        InputError (a ValueError)
            Malformed items, labels that are not strings, different numbers of positions and labels.
        """
        items = (xseq if isinstance(xseq, ItemSequence) else ItemSequence(xseq))._items
        labels = list(yseq)
        wrong = next((label for label in labels if not isinstance(label, str)), None)
        if isinstance(yseq, str) or wrong is not None:
            raise InputError(
                f"yseq: expected a list of strings, got {describe(yseq if wrong is None else wrong)}"
            )
        if len(labels) != len(items):
            raise InputError(f"expected a label for each of {len(items)} positions, got {len(labels)} labels")
        number = self._columns.setdefault
        for position in items:
            self._rows.append({number(name, len(self._columns)): value for name, value in position.items()})
        self._labels.append(labels)
        self._groups.append(int(group))

    def clear(self) -> None:
        """Remove all items."""
        self._columns, self._rows, self._labels, self._groups = {}, GrowingRows(), [], []

    # ---- parameters

    def select(self, algorithm: str, type: str = GRAPHICAL_MODEL) -> None:
        """Choose the algorithm: "lbfgs", "l2sgd", "ap", "pa" or "arow", each as of `CRF`; all parameters get their
        defaults. InputError (a ValueError) for another one, or another graphical model than "crf1d"."""
        name = ALGORITHM_ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in CRFSUITE_DEFAULTS or type != GRAPHICAL_MODEL:
            known = ", ".join([*CRFSUITE_DEFAULTS, *ALGORITHM_ALIASES])
            raise InputError(
                f"expected an algorithm of {known} and the type {GRAPHICAL_MODEL!r}, got algorithm={algorithm!r}, "
                f"type={type!r}"
            )
        self._algorithm, self._params = name, {}

    def params(self) -> list[str]:
        """Return the names of the algorithm's parameters."""
        return [*CRFSUITE_DEFAULTS[self._algorithm]]

    def set(self, name: str, value: object) -> None:
        """Set a parameter; InputError (a ValueError) for a name that the algorithm lacks or a value of another type."""
        kind = type(CRFSUITE_DEFAULTS[self._algorithm][self._checked(name)])
        text = str(int(value) if isinstance(value, (bool, np.bool_)) else value)
        try:
            number = 0.0 if kind is str else float(text)
            if (kind in (int, bool) and number != int(number)) or (kind is bool and number not in (0, 1)):
                raise ValueError
        except (ValueError, OverflowError):
            expected = {float: "a number", int: "an integer", bool: "True or False"}[kind]
            raise InputError(f"{name}: expected {expected}, got {describe(value)}") from None
        self._params[name] = kind(text if kind is str else number)

    def get(self, name: str) -> Any:
        """Return the value of a parameter; InputError for a name that the algorithm lacks."""
        return self._params.get(self._checked(name), CRFSUITE_DEFAULTS[self._algorithm][name])

    def set_params(self, params: Mapping[str, object]) -> None:
        """Set parameters by name; errors as of `set`."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return the values of all parameters of the algorithm by name."""
        return {name: self.get(name) for name in self.params()}

    def help(self, name: str) -> str:
        """Return the description of a parameter; InputError for a name that the algorithm lacks."""
        return DESCRIPTIONS.get(self._checked(name), HAS_NO_EFFECT)

    def _checked(self, name: str) -> str:
        if name not in CRFSUITE_DEFAULTS[self._algorithm]:
            raise InputError(
                f"expected a parameter of {self._algorithm}: {', '.join(self.params())}; got {name!r}"
            )
        return name

    # ---- training

    def train(self, model: StrPath, holdout: int = ALL_GROUPS) -> None:
        """Train on the items and write the model in CRFsuite's format.

        Parameters
        ----------
        model : str or path-like
            The file, which is written as a whole or not at all; "" writes none.
        holdout : int, default -1
            The group to evaluate the final model on instead of training on it; -1 for none. The scores are those of
            the log's last iteration.

        Raises
        ------
        InputError (a ValueError)
            Parameters out of range.
        ModelFileError
            The file cannot be written.
        """
        if model:
            check_writable(model)
        self.logparser = TrainLogParser()
        if holdout != ALL_GROUPS:
            self._log(f"Holdout group: {holdout + 1}", "")
        self._log("Feature generation", "type: CRF1d")
        self._log(*(f"{name}: {float(self.get(name)):g}" for name in FEATURE_DEFAULTS))
        numbers = range(len(self._labels))
        trained = [i for i in numbers if self._groups[i] != holdout and self._labels[i]]
        if not trained:
            nothing = Entries(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
            weights: NamedWeights = [], [], nothing, nothing
            warn_caller("no items to train on: the model has no weights")
            self._log("Number of features: 0", "Seconds required: 0.000", "")
            self._log("Training terminated with error: no items to train on", "")
        else:
            chain = self._fit(trained, [i for i in numbers if self._groups[i] == holdout])
            weights = named_weights(chain)
        started = time.perf_counter()
        labels, names, state, transition = weights
        self._log("Storing the model", f"Number of active features: {state[0].size + transition[0].size}")
        self._log(f"Number of active attributes: {len(names)} ({len(self._columns)})")
        self._log(f"Number of active labels: {len(labels)}")
        if model:
            replace_file(model, encode_model(*weights))
        self._log(f"Seconds required: {time.perf_counter() - started:.3f}", "")

    def _items(self, numbers: list[int]) -> AttributeItems:
        """Return some of the items, in memory of their own."""
        offsets = np.cumsum([0, *map(len, self._labels)], dtype=np.int64)
        return AttributeItems([*self._columns], self._rows.rows(), offsets)[np.array(numbers)]

    def _fit(self, trained: list[int], held_out: list[int]) -> ChainCRF:
        """Return the chain of the training items, and log its training and the scores of the held-out items, both given
        by their numbers."""
        defaults = CRFSUITE_DEFAULTS[self._algorithm]
        given = {
            keyword(name): value
            for name, value in self._params.items()
            if value != defaults[name] or name == "delta"
        }
        chain = make_chain(CRF(self._algorithm, **given).get_params(deep=False))
        vocabulary = Vocabulary(sorted(self._columns), has_attributes=True)
        sequences, zeros = _encoded(self._items(trained), vocabulary)
        started = time.perf_counter()
        select_features = ObservedFeatures(self.get("feature.minfreq"), zeros)

        values = defaults | {"delta": "auto"} | self._params
        shown = [name for name in defaults if name in DESCRIPTIONS and name not in FEATURE_DEFAULTS]
        rows: list[Progress] = []

        def select_and_log(
            settings: ChainSettings, space: SequenceSpace, store: FeatureStore, targets: Labels, over: Chain
        ) -> Support:
            support = select_features(settings, space, store, targets, over)
            seconds = time.perf_counter() - started
            self._log(f"Number of features: {support.n_coords}", f"Seconds required: {seconds:.3f}", "")
            self._log(
                f"crfqn, algorithm {self._algorithm}", *(f"{name}: {values[name]}" for name in shown), ""
            )
            return support

        def log_row(record: Progress) -> None:
            if record.sample_fraction == 1:  # not of the warm-up on samples, which traces do not have either
                if rows:
                    self._log(*_iteration_lines(rows), "")
                rows.append(record)

        chain.callback = log_row
        labels = [self._labels[i] for i in trained]
        fit_observed(chain, sequences, labels, select_and_log, has_limit="max_iterations" in self._params)
        chain.callback = None
        log = TrainingLog.from_model(chain)
        scores: list[str] = []
        if held_out:
            true = [self._labels[i] for i in held_out]
            predicted = chain.predict(_encoded(self._items(held_out), vocabulary)[0]).tolist()
            log.evaluate(dict.fromkeys([*chain.classes_.tolist(), *flatten(true)]), true, predicted)
            scores = _score_lines(log, sum(map(len, true)), len(true))
        if rows:
            norm = np.linalg.norm(chain.result_.weights)
            self._log(*_iteration_lines(rows), f"Feature norm: {norm:f}", *scores, "")
        self._log(f"Training terminated: {log.message}")
        self._log(f"Total seconds required for training: {log.training_seconds:.3f}", "")
        return chain

    # ---- the log

    def _log(self, *lines: str) -> None:
        for line in lines:
            self.message(f"{line}\n")

    def message(self, message: str) -> None:
        """Receive a line of the log, with its end. Override this method to receive all lines; an exception ends the
        training."""
        event = self.logparser.feed(message) if self.logparser is not None else None
        if event is None or self.logparser is None or not self.verbose:
            return
        log, report = self.logparser.last_log, getattr(self, f"on_{event}")
        if event == "iteration":
            report(log, self.logparser.last_iteration)
        elif event == "featgen_progress":
            report(log, self.logparser.featgen_percent)
        else:
            report(log)

    def on_start(self, log: str) -> None:
        """Print the beginning of the log."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """Print the progress of the feature generation, which is one step here: never called by `train`."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """Print the log of an iteration; `info` is a dict of `TrainLogParser.iterations`."""
        print(log, end="")

    on_featgen_end = on_prepared = on_prepare_error = on_optimization_end = on_end = on_start


def _encoded(items: AttributeItems, vocabulary: Vocabulary) -> tuple[Sequences, Zeros]:
    """Return items in the columns of a vocabulary, and their entries of value 0."""
    row_ends, columns, values = items.rows
    at = np.flatnonzero(values == 0)
    names = [items.names[column] for column in columns[at].tolist()]
    zeros = np.array([vocabulary.columns[name] for name in names], np.int64)
    matrix = items.encode(vocabulary.columns, len(vocabulary)).matrix()
    sequences = Sequences.from_checked(matrix, items.offsets, vocabulary=vocabulary)
    return sequences, Zeros(np.searchsorted(row_ends, at, side="right") - 1, zeros)


def _iteration_lines(rows: list[Progress]) -> list[str]:
    """Return the figures of the latest iteration that are known, under CRFsuite's names."""
    row, before = rows[-1], rows[-2].seconds if len(rows) > 1 else 0.0
    loss = row.value if row.n_wrong is None or row.value == row.value else row.n_wrong
    lines = [f"***** Iteration #{row.iteration} *****", f"Loss: {loss:f}"]
    if row.violation == row.violation:
        lines.append(f"Error norm: {row.violation:f}")
    lines.append(f"Active features: {row.n_nonzero}")
    return [*lines, f"Seconds required for this iteration: {row.seconds - before:.3f}"]


def _score_lines(log: TrainingLog, n_positions: int, n_items: int) -> list[str]:
    """Return the scores of held-out items as CRFsuite writes them."""
    figures = log.last_iteration
    if figures is None:
        return []
    lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):"]
    for label, (*counts, precision, recall, f1) in figures["scores"].items():
        rates = [NO_RATE if rate is None else f"{rate:.4f}" for rate in (precision, recall, f1)]
        lines.append(f"    {label}: ({', '.join(map(str, counts))}) ({', '.join(rates)})")
    means = ", ".join(f"{figures[f'avg_{name}']:f}" for name in ("precision", "recall", "f1"))
    lines.append(f"Macro-average precision, recall, F1: ({means})")
    for name, size in (("item", n_positions), ("instance", n_items)):
        share = figures[f"{name}_accuracy"]
        lines.append(f"{name.title()} accuracy: {int(share * size)} / {size} ({float(share):.4f})")
    return lines
