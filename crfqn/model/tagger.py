"""`Tagger` labels with a model file, with numpy alone, and has the methods of `pycrfsuite.Tagger`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from math import exp
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.atomic_write import replace_data_file
from crfqn.data.inputs import ItemsLike
from crfqn.data.model_file import ModelSource
from crfqn.errors import InputError, NotOpenError
from crfqn.messages import describe, shorten
from crfqn.model.explanations import Explanation
from crfqn.model.label_constraints import LabelConstraints
from crfqn.model.one_sentence import OneSentence
from crfqn.model.opening import open_model


class ModelInfo(NamedTuple):
    """The content of a model by names, as in `pycrfsuite.Tagger.info`.

    transitions : weights by (label, next label); state_features : by (feature, label), in a taxonomy (feature, node)
    labels, attributes : the numbers of labels and features
    header : the kind of model and the numbers of weights, labels and features, as texts
    bigrams : weights by (feature, label, next label), for models with bigram features
    """

    transitions: dict[tuple[Hashable, Hashable], float]
    state_features: dict[tuple[Hashable, Hashable], float]
    labels: dict[Hashable, int]
    attributes: dict[Hashable, int]
    header: dict[str, str]
    bigrams: Mapping[tuple[Hashable, Hashable, Hashable], float] = MappingProxyType({})

    @classmethod
    def from_weights(
        cls,
        kind: str,
        transitions: dict[tuple[Hashable, Hashable], float],
        state_features: dict[tuple[Hashable, Hashable], float],
        labels: dict[Hashable, int],
        attributes: dict[Hashable, int],
        bigrams: dict[tuple[Hashable, Hashable, Hashable], float],
    ) -> Self:
        """Return the content with its header."""
        n_weights = len(transitions) + len(state_features) + len(bigrams)
        sizes = {"num_features": n_weights, "num_labels": len(labels), "num_attrs": len(attributes)}
        header = {"type": kind} | {name: str(size) for name, size in sizes.items()}
        return cls(transitions, state_features, labels, attributes, header, bigrams)

    def lines(self) -> Iterator[str]:
        """Yield the parts of the text that CRFsuite's `dump` writes, with one for bigram features if there are any.
        InputError for a name with a line end, as each weight is one line."""
        for kind, names in (("label", self.labels), ("feature", self.attributes)):
            broken = next((name for name in names if len(f"{name}".splitlines()) > 1), None)
            if broken is not None:
                raise InputError(f"dump: expected names of one line, got the {kind} {broken!r:.60}")
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
    """A model file opened for labelling. It imports numpy alone, and compiles nothing.

    Labels equal those of the saved estimator; probabilities differ by rounding (1e-12). Threads may share a tagger;
    each has its own item of `set`.

    Parameters
    ----------
    path : str or path-like, bytes, or a file open in binary mode, optional
        A model file of `ChainCRF`, `MulticlassCRF`, `MulticlassClassifier` or `TaxonomyCRF`, or of CRFsuite, or its
        bytes. By default the tagger opens no model; `open` does.

    Raises
    ------
    ModelFileError
        As in `crfqn.load`; also for other kinds of models, which need `crfqn.load`.
    NotOpenError (a ValueError and a RuntimeError)
        All methods raise it if no model is open.

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
        """Open another model file; errors as in the class. The end of a `with` block closes it."""
        self._opened = self._open(path)
        self._own = threading.local()
        return self

    def open_inmemory(self, content: bytes) -> Self:
        """Open the bytes of a model file, as `open` does."""
        return self.open(content)

    @staticmethod
    def _open(path: ModelSource) -> Any:
        """Return the model of a file."""
        return open_model(path)

    def close(self) -> None:
        """Release the model."""
        self._opened = None
        self._own = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for pickles and copies: the model, without an item."""
        return {name: value for name, value in self.__dict__.items() if name != "_own"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _own=threading.local())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def labels(self) -> list:
        """Return the labels, in the order of the columns of probabilities."""
        return self._model.classes_.tolist()

    def set(self, xseq: object) -> None:
        """Set the item of this thread, which methods use if they are called without an item."""
        self._own.item = list(xseq) if isinstance(xseq, Iterator) else xseq
        self._own.marginals = None

    def tag(
        self,
        xseq: object = None,
        known: Sequence[Any] | None = None,
        *,
        once: Collection[Any] | None = None,
        threshold: float | None = None,
    ) -> Any:
        """Return the best labels of a sequence as a list, or the label of a single item.

        Parameters
        ----------
        xseq : list of positions, or str, optional
            A sequence, as an item of `ChainCRF.fit`: dicts, lists of feature strings, columns of tokens for a model of
            `Templates`, a 2-D array; `crfqn.tokenize` cuts a string into words. A single item: a row of numbers, or a
            dict of the numbers other than 0 by name or column; for models of tables, a dict of cells. By default the
            item of `set`.
        known : list, optional
            Known labels of a sequence: a label, a set of possible labels or None for each position.
        once : collection of labels, optional
            Labels that each form one run in the sequence or none, as in `ChainCRF.predict`.
        threshold : float between 0 and 1, optional
            Minimum probability of a label, as in the estimators' `predict`; labels below it become None.

        Raises
        ------
        InputError
            As in the estimators' `predict`.
        """
        items = self._item(xseq)
        is_plain = known is once is threshold is None
        if is_plain and (sentence := self._sentence_of(items)) is not None:
            labels = sentence.labels(items[0])
            if labels is not None:
                return labels
        constraints = self._constraints(known, once)
        return _as_list(self._model.predict(items, **constraints, threshold=threshold))[0]

    def tag_items(
        self,
        X: ItemsLike,
        known: Sequence[Any] | None = None,
        *,
        once: Collection[Any] | None = None,
        threshold: float | None = None,
    ) -> list:
        """Return the best labels of many items; parameters and errors as in the estimators' `predict`."""
        constraints = self._constraints(known, once, is_of_one=False)
        return _as_list(self._model.predict(X, **constraints, threshold=threshold))

    def probability(self, yseq: object, xseq: object = None) -> float:
        """Return the probability of the labels of a sequence, or of the label of a single item. For a position, None
        means any label, a set any of its labels."""
        items = self._item(xseq)
        if isinstance(yseq, (list, tuple)) and (sentence := self._sentence_of(items)) is not None:
            log_probability = sentence.log_probability(items[0], yseq)
            if log_probability is not None:
                return exp(log_probability)
        return float(np.exp(self._model.log_likelihood(items, [yseq])[0]))

    def marginal(self, y: Hashable, pos: int = 0) -> float:
        """Return the probability of a label at a position, from 0, of the item of `set`."""
        labels = self.labels()
        if y not in labels:
            raise InputError(f"y: expected one of the {len(labels)} labels, got {shorten(y)}")
        if self._own.__dict__.get("marginals") is None:
            self._own.marginals = np.atleast_2d(self.marginals())
        marginals = self._own.marginals
        if not isinstance(pos, (int, np.integer)) or not 0 <= pos < len(marginals):
            raise InputError(f"pos: expected a position from 0 to {len(marginals) - 1}, got {describe(pos)}")
        return float(marginals[pos, labels.index(y)])

    def marginals(self, xseq: object = None, known: Sequence[Any] | None = None) -> Vector:
        """Return P(y_t = k | x, known), float64 (positions, labels), for a single item (labels,). Parameters and errors
        as in `tag`."""
        items = self._item(xseq)
        if known is None and (sentence := self._sentence_of(items)) is not None:
            marginals = sentence.marginals(items[0])
            if marginals is not None:
                return marginals
        return self._model.predict_marginals(items, **self._constraints(known))[0]

    def nbest(
        self,
        xseq: object = None,
        n: int = 5,
        known: Sequence[Any] | None = None,
        *,
        once: Collection[Any] | None = None,
    ) -> list[tuple[Any, float]]:
        """Return the n most probable labellings with their probabilities, as in `ChainCRF.predict_nbest`."""
        return self._model.predict_nbest(self._item(xseq), n, **self._constraints(known, once))[0]

    def strongest_features(self, xseq: object = None, n: int = 5, known: Sequence[Any] | None = None) -> list:
        """Return the n features with the largest terms of the best label's score, for each position of a sequence.

        Parameters
        ----------
        xseq, known : as in `tag`
        n : int >= 1, default 5

        Returns
        -------
        list of lists of (feature, float), one for each position; for a single item one list
            Names of features (or columns) and their terms, weights times values in nats, sorted by decreasing absolute
            value, without the features of a dense block.
        """
        return self._model.strongest_features(self._item(xseq), n, **self._constraints(known))[0]

    def explain(
        self,
        xseq: object = None,
        n: int | None = 5,
        known: Sequence[Any] | None = None,
        *,
        once: Collection[Any] | None = None,
    ) -> list[Explanation] | Explanation:
        """Return the terms that decide between the label and the runner-up, for each position of a sequence, or for a
        single item.

        Parameters
        ----------
        xseq, known, once : as in `tag`
        n : int >= 1 or None, default 5
            Number of terms, the largest in absolute value; `rest` is the sum of the others. None: all.

        Returns
        -------
        list of Explanation (label, probability, runner_up, runner_up_probability, difference, terms, rest), one for
        each position; for a single item one Explanation
            As in `ChainCRF.explain` and `MulticlassCRF.explain`.
        """
        return self._model.explain(self._item(xseq), n, **self._constraints(known, once))[0]

    def dump(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write labels, features and weights as text, in the format of CRFsuite's `dump`, to a file, atomically, or by
        default to standard output. InputError for names that its lines cannot hold, DataError if the file cannot be
        written."""
        lines = self.info().lines()
        if path is None:
            sys.stdout.writelines(lines)
        else:
            replace_data_file(path, "".join(lines).encode("utf-8", "surrogateescape"))

    def info(self) -> ModelInfo:
        """Return the weights by name (or column); features without a weight are left out."""
        model, weights = self._model, self._model.weights_by_name()
        names = range(model.n_features_in_) if model.names is None else model.names
        labels: dict[Hashable, int] = {label: number for number, label in enumerate(self.labels())}
        attributes: dict[Hashable, int] = {names[f]: f for f in model.kept_features_.tolist()}
        return ModelInfo.from_weights(
            model.kind, weights.transitions, weights.features, labels, attributes, weights.bigrams
        )

    @property
    def _model(self) -> Any:
        if self._opened is None:
            raise NotOpenError("expected an open model: open(path)")
        return self._opened

    def _item(self, item: object) -> Any:
        """Set an item, unless it is None, and return a list with the item that is set."""
        model = self._model
        if item is not None:
            self.set(item)
        item = self._own.__dict__.get("item")
        if item is None:
            raise InputError("expected an item first: set(xseq)")
        return model.ANSWERS.as_items(model, item)

    def _sentence_of(self, items: Any) -> OneSentence | None:
        """Return the model's fast answers for one sentence if it has them and the only item is a list."""
        sentence: OneSentence | None = getattr(self._opened, "one_sentence", None)
        return sentence if sentence is not None and type(items[0]) is list else None

    def _constraints(
        self, known: Sequence[Any] | None, once: Collection[Any] | None = None, is_of_one: bool = True
    ) -> dict[str, Any]:
        """Return constraints on labels as arguments of the model's methods; InputError for models of single items.
        `is_of_one`: whether `known` is that of one item."""
        constraints = LabelConstraints([known] if is_of_one and known is not None else known, once)
        self._model.ANSWERS.check_constraints(constraints)
        return constraints.arguments


def _as_list(labels: NDArray | list) -> list:
    return labels.tolist() if isinstance(labels, np.ndarray) else labels
