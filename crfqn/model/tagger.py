"""Tagger: a model file opened to label, with numpy alone, under the names that `pycrfsuite.Tagger` has."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from crfqn.arrays import Vector
from crfqn.atomic_write import replace_data_file
from crfqn.data.model_file import ModelSource
from crfqn.errors import InputError, NotOpenError
from crfqn.messages import describe, shorten
from crfqn.model.label_constraints import LabelConstraints
from crfqn.model.opening import open_model


class ModelInfo(NamedTuple):
    """Content of a model by names, as `pycrfsuite.Tagger.info` gives it: weights of (label, next label) and (feature,
    label; in a taxonomy its node), the numbers of labels and features, a `header` of texts: the kind of model and how
    much of each there is; and, of a model with bigram features, weights of (feature, label, next label)."""

    transitions: dict[tuple[Any, Any], float]
    state_features: dict[tuple[Any, Any], float]
    labels: dict[Any, int]
    attributes: dict[Any, int]
    header: dict[str, str]
    bigrams: Mapping[tuple[Any, Any, Any], float] = MappingProxyType({})

    @classmethod
    def from_weights(
        cls, kind: str, transitions: Any, state_features: Any, labels: Any, attributes: Any, bigrams: Any
    ) -> Self:
        """Return the content, of weights as dicts, and of labels and attributes as they are numbered, with a header."""
        n_weights = len(transitions) + len(state_features) + len(bigrams)
        sizes = {"num_features": n_weights, "num_labels": len(labels), "num_attrs": len(attributes)}
        header = {"type": kind} | {name: str(size) for name, size in sizes.items()}
        return cls(transitions, state_features, labels, attributes, header, bigrams)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text that CRFsuite's `dump` writes, with a part for bigram features if there are."""
        parts: dict[str, list[str]] = {
            "FILEHEADER": [f"{name}: {value}" for name, value in self.header.items()],
            "LABELS": [f"{number:5}: {label}" for label, number in self.labels.items()],
            "ATTRIBUTES": [f"{number:5}: {name}" for name, number in self.attributes.items()],
            "TRANSITIONS": [f"(1) {a} --> {b}: {weight:f}" for (a, b), weight in self.transitions.items()],
            "STATE_FEATURES": [
                f"(0) {f} --> {a}: {weight:f}" for (f, a), weight in self.state_features.items()
            ],
        }
        if self.bigrams:
            rows = self.bigrams.items()
            parts["BIGRAM_FEATURES"] = [f"(2) {f}: {a} --> {b}: {weight:f}" for (f, a, b), weight in rows]
        for name, rows_of_part in parts.items():
            yield f"{name} = {{\n" + "".join(f"  {row}\n" for row in rows_of_part) + "}\n\n"


class Tagger:
    """A model file opened for labelling: numpy is all that it imports, and nothing is compiled.

    Labels are those of the estimator that was saved, probabilities differ from its by rounding (1e-12). Threads may
    share a tagger; the item that is `set` is each thread's own.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode, optional
        A model file of `ChainCRF`, `MulticlassCRF`, `MulticlassClassifier` or `TaxonomyCRF`, or of CRFsuite, or its
        bytes; without one, `open` opens it.

    Raises
    ------
    ModelFileError
        As of `crfqn.load`; also for other kinds of models, which `crfqn.load` takes.
    NotOpenError (a ValueError and a RuntimeError)
        Of all methods before a model is opened and after it is closed.

    Examples
    --------
    >>> from crfqn import ChainCRF, Tagger
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> ChainCRF(l1=0.1).fit(X, [["D", "N"], ["D", "N"]]).save("model.crfqn")
    >>> tagger = Tagger("model.crfqn")
    >>> tagger.tag([{"word": "the"}, {"word": "cat"}])
    ['D', 'N']
    """

    def __init__(self, path: ModelSource | None = None) -> None:
        self._opened: Any = None
        self._own = threading.local()
        if path is not None:
            self.open(path)

    def open(self, path: ModelSource) -> Self:
        """Open another model file; errors as of the class. At the end of a `with` block it is closed."""
        self._opened = self._open(path)
        self._own = threading.local()
        return self

    def open_inmemory(self, content: bytes) -> Self:
        """Open the bytes of a model file, as `open` does."""
        return self.open(content)

    @staticmethod
    def _open(path: ModelSource) -> Any:
        """Return what predicts by a model file."""
        return open_model(path)

    def close(self) -> None:
        """Let go of the model."""
        self._opened = None
        self._own = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickles and copies, which have the model and no item that was set."""
        return {name: value for name, value in self.__dict__.items() if name != "_own"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _own=threading.local())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def labels(self) -> list:
        """Return the labels, in the order of the probabilities' columns."""
        return self._model.classes_.tolist()

    def set(self, xseq: Any) -> None:
        """Take an item for `tag`, `probability`, `marginal` and others that are called without one."""
        self._own.item = list(xseq) if isinstance(xseq, Iterator) else xseq
        self._own.marginals = None

    def tag(
        self,
        xseq: Any = None,
        known: Any = None,
        *,
        once: Collection[Any] | None = None,
        threshold: float | None = None,
    ) -> Any:
        """Return the best labels of a sequence: a list; of a single item its label.

        Parameters
        ----------
        xseq : list of positions, or str, optional
            A sequence, as an item of `ChainCRF.fit`: dicts, lists of feature strings, columns of tokens for a model of
            `Templates`, a 2-D array; a string is cut into words by `crfqn.tokenize`. A single item: a row of numbers,
            or a dict of those that are not 0, by name or column; of a model of tables, a dict of cells. By default the
            one that was `set`.
        known : list, optional
            What is known of a sequence's labels: a label, a set of possible ones or None for each position.
        once : collection of labels, optional
            Labels that form at most one run in the sequence each, as of `ChainCRF.predict`.
        threshold : float between 0 and 1, optional
            The least probability of a label, as of the estimators' `predict`; None stands for no label.

        Raises
        ------
        InputError
            As of the estimators' `predict`.
        """
        constraints = self._constraints(known, once)
        return _as_list(self._model.predict(self._item(xseq), **constraints, threshold=threshold))[0]

    def tag_items(
        self,
        X: Any,
        known: Any = None,
        *,
        once: Collection[Any] | None = None,
        threshold: float | None = None,
    ) -> list:
        """Return the best labels of many items; parameters and errors as of the estimators' `predict`."""
        constraints = self._constraints(known, once, is_of_one=False)
        return _as_list(self._model.predict(X, **constraints, threshold=threshold))

    def probability(self, yseq: Any, xseq: Any = None) -> float:
        """Return the probability of labels of a sequence (None stands for any label, a set for one of some), or of the
        label of a single item."""
        return float(np.exp(self._model.log_likelihood(self._item(xseq), [yseq])[0]))

    def marginal(self, y: Any, pos: int = 0) -> float:
        """Return the probability of a label at a position, from 0, of the item that was `set`."""
        labels = self.labels()
        if y not in labels:
            raise InputError(f"y: expected one of the {len(labels)} labels, got {shorten(y)}")
        if self._own.__dict__.get("marginals") is None:
            self._own.marginals = np.atleast_2d(self.marginals())
        marginals = self._own.marginals
        if not isinstance(pos, (int, np.integer)) or not 0 <= pos < len(marginals):
            raise InputError(f"pos: expected a position from 0 to {len(marginals) - 1}, got {describe(pos)}")
        return float(marginals[pos, labels.index(y)])

    def marginals(self, xseq: Any = None, known: Any = None) -> Vector:
        """Return P(y_t = k | x, known), float64 (positions, labels), of a single item (labels,); parameters and errors
        as of `tag`."""
        return self._model.predict_marginals(self._item(xseq), **self._constraints(known))[0]

    def nbest(
        self, xseq: Any = None, n: int = 5, known: Any = None, *, once: Collection[Any] | None = None
    ) -> list[tuple[Any, float]]:
        """Return the n most probable labellings with their probabilities, as `ChainCRF.predict_nbest`."""
        return self._model.predict_nbest(self._item(xseq), n, **self._constraints(known, once))[0]

    def strongest_features(self, xseq: Any = None, n: int = 5, known: Any = None) -> list:
        """Return the n features that say most for or against the best label, at each position of a sequence.

        Parameters
        ----------
        xseq, known : as of `tag`
        n : int >= 1, default 5

        Returns
        -------
        list of lists of (feature, float), one a position; of a single item one list
            The features' names (or columns) and their weights times values, in nats, the largest in size first. Those
            of a dense block are left out.
        """
        return self._model.strongest_features(self._item(xseq), n, **self._constraints(known))[0]

    def explain(
        self, xseq: Any = None, n: int | None = 5, known: Any = None, *, once: Collection[Any] | None = None
    ) -> Any:
        """Return what decided between the label and the runner-up at each position of a sequence, or of a single item.

        Parameters
        ----------
        xseq, known, once : as of `tag`
        n : int >= 1 or None, default 5
            Number of terms, the largest in absolute value; `rest` is the sum of the others. None: all.

        Returns
        -------
        list of Explanation (label, probability, runner_up, runner_up_probability, difference, terms, rest), one a
        position; of a single item one Explanation
            As of `ChainCRF.explain` and `MulticlassCRF.explain`.
        """
        return self._model.explain(self._item(xseq), n, **self._constraints(known, once))[0]

    def dump(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write labels, features and weights as text, in the form of CRFsuite's `dump`, to a file, atomically, or by
        default to standard output. DataError where the file cannot be written."""
        lines = self.info().lines()
        if path is None:
            sys.stdout.writelines(lines)
        else:
            replace_data_file(path, "".join(lines).encode("utf-8", "surrogateescape"))

    def info(self) -> ModelInfo:
        """Return the weights by name; features without names by their columns, those without a weight not at all."""
        model, weights = self._model, self._model.weights_by_name()
        names = range(model.n_features_in_) if model.names is None else model.names
        labels = {label: number for number, label in enumerate(self.labels())}
        attributes = {names[f]: f for f in model.kept_features_.tolist()}
        return ModelInfo.from_weights(
            model.kind, weights.transitions, weights.features, labels, attributes, weights.bigrams
        )

    @property
    def _model(self) -> Any:
        if self._opened is None:
            raise NotOpenError("expected an open model: open(path)")
        return self._opened

    def _item(self, item: Any) -> Any:
        """Return an item, or the one that was set, as the only one of a list; it is set from now on."""
        if item is not None:
            self.set(item)
        item = self._own.__dict__.get("item")
        if item is None:
            raise InputError("expected an item first: set(xseq)")
        return self._model.ANSWERS.as_items(self._model, item)

    def _constraints(
        self, known: Any, once: Collection[Any] | None = None, is_of_one: bool = True
    ) -> dict[str, Any]:
        """Return the constraints on labels as arguments, of one item as of many; InputError for a model of single
        items."""
        constraints = LabelConstraints([known] if is_of_one and known is not None else known, once)
        self._model.ANSWERS.check_constraints(constraints)
        return constraints.arguments


def _as_list(labels: Any) -> list:
    return labels.tolist() if isinstance(labels, np.ndarray) else labels
