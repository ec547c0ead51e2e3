"""The base of fitted models of all kinds: labels, weights and names of features.

An engine computes scores and inference: `numpy_engine.py`, numpy alone, for single items, and `compiled_engine.py` for
many items. Their results agree within 1e-12.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_VALUES, Vector
from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.data.model_file import ModelFile, ModelSource
from crfqn.data.token_rows import Rows
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe
from crfqn.model.content import DENSE_WEIGHTS, ModelContent
from crfqn.model.numpy_engine import NUMPY, Engine
from crfqn.model.trained import FittedModel
from crfqn.model.weights import WeightMatrix
from crfqn.registry import find

if TYPE_CHECKING:
    from scipy.sparse import csr_array

INTERCEPT = "(intercept)"  # name of the constant
# Range of temperatures that users may set: beyond it, scores divided by it overflow, or all probabilities are equal.
TEMPERATURE_RANGE = 1e-3, 1e3
CALIBRATION_RANGE = 0.01, 100.0  # temperatures that `calibrate` searches, by Brent's method in the logarithm


class Decoding(NamedTuple):
    """The best labels of items (1-D arrays for sequences, else as in `predict`), and the logarithms of their
    probabilities, in nats, (I,)."""

    labels: Any
    log_probability: NDArray[np.float64]


class WeightsByName(NamedTuple):
    """The weights other than 0 by name. In a taxonomy nodes replace labels; features without names are columns."""

    features: dict[tuple[Any, Any], float]  # by (feature, label)
    intercepts: dict[Any, float]  # by label
    transitions: dict[tuple[Any, Any], float]  # by (label, next label)
    bigrams: dict[tuple[Any, Any, Any], float]  # by (feature, label, next label)


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(FittedModel):
    """A fitted model, which predicts but cannot be trained. `Model.open` reads one from a file; an estimator has one as
    `model_`. Attributes have the same names as those of estimators.

    A model of sequences has `predict`, `decode`, `marginals`, `n_best`, `spans` and `log_likelihood`; one of single
    items `predict`, `decode`, `predict_proba`, `marginals`, `n_best`, `predict_nodes` and `log_likelihood`; their
    parameters, results and errors are those of the estimators' methods (`predict_marginals` for `marginals` and so on).
    Methods do not change the model, so that threads may share it.

    Attributes
    ----------
    kind : str, of the model's file
    classes_ : ndarray, shape (K,), the labels
    n_features_in_ : int, F
    weights : WeightMatrix (K, F); of a taxonomy K are the nodes
    intercept : ndarray, shape (K,), or None
    dense_coef_ : ndarray, shape (K, D), weights of a dense block, D = 0 without one
    loss : str, of the training; only "logistic" gives probabilities
    trained : record of the training, None if it is unknown
    feature_names : names of the features by column, or None, as if a vocabulary or a featurizer has the names
    temperature : float, the divisor of scores in probabilities (`calibrate`)

    Examples
    --------
    >>> from crfqn import ChainCRF, Model
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> ChainCRF(l1=0.1).fit(X, [["D", "N"], ["D", "N"]]).save("model.crfqn")
    >>> model = Model.open("model.crfqn")
    >>> model.predict([[{"word": "the"}, {"word": "cat"}]]).tolist()
    [['D', 'N']]
    >>> sorted(model.weights_by_name().transitions)
    [('D', 'N')]
    """

    weights: WeightMatrix
    intercept: Vector | None = None
    dense_coef_: Vector
    loss: str = "logistic"
    feature_names: Sequence[str] | Mapping[int, str] | None = None
    temperature: float = 1.0

    @staticmethod
    def open(source: ModelSource) -> Any:
        """Open a model file, of crfqn or of CRFsuite, with numpy alone.

        Parameters
        ----------
        source : str or path-like, bytes, or a file open in binary mode

        Raises
        ------
        ModelFileError
            As in `crfqn.load`, and for kinds of models that need their estimator (`crfqn.load`).
        """
        return find("open_model")(source)  # by name, as it imports the subclasses

    @property
    def coef_(self) -> csr_array:
        """The weights as scipy's `csr_array`, (K, F)."""
        return self.weights.csr

    @property
    def feature_names_in_(self) -> Sequence[str] | None:
        """The names of all features, None without names."""
        return self.names

    def add_to(self, content: ModelContent) -> None:
        content.metadata.pop("temperature", None)
        if self.temperature != 1.0:
            content.metadata["temperature"] = self.temperature
        if self.n_dense_:
            content.arrays[DENSE_WEIGHTS] = self.dense_coef_

    def with_temperature(self, temperature: float) -> Self:
        """Return the model with another temperature; 1 undoes `calibrate`.

        Raises
        ------
        AttributeError
            The model has no probabilities.
        InputError
            Anything but a number from 0.001 to 1000.
        """
        self.check_probabilities()
        if not is_temperature(temperature):
            raise InputError(
                f"temperature: expected a number from 0.001 to 1000, got {describe(temperature)}"
            )
        model = object.__new__(type(self))
        model.__dict__.update({**self.__dict__, "temperature": float(temperature)})
        return model

    def calibrate(
        self,
        X: ItemsLike | None = None,
        y: LabelsLike | None = None,
        engine: Engine = NUMPY,
        *,
        temperature: float | None = None,
    ) -> Self:
        """Return the model with the temperature that maximises the likelihood of held-out labels.

        Probabilities are those of scores divided by the temperature; best labels do not change. Brent's method
        minimises the mean of -log P(y_t | x) over positions (over items for models of single items) between 0.01 and
        100.

        Parameters
        ----------
        X, y : labelled items that the model was not trained on
        engine : for scores and inference, by default numpy alone
        temperature : float, optional
            The temperature, instead of items; 1 undoes the calibration.

        Raises
        ------
        AttributeError
            The model has no probabilities.
        InputError
            Neither items nor a temperature, or both; labels that are not among the classes; as in `predict`.

        References
        ----------
        Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks. ICML 2017, section 4.2.
        """
        self.check_probabilities()
        if (X is None) != (y is None) or (X is None) == (temperature is None):
            raise InputError("calibrate: expected labelled items X and y, or a temperature alone")
        if temperature is not None:
            return self.with_temperature(temperature)
        from scipy.optimize import minimize_scalar  # prediction needs numpy alone

        loss, bounds = self._mean_loss(X, y, engine), tuple(map(log, CALIBRATION_RANGE))
        best = minimize_scalar(
            lambda t: loss(exp(t)), bounds=bounds, method="bounded", options={"xatol": 1e-7}
        )
        return self.with_temperature(exp(best.x))

    @abstractmethod
    def _mean_loss(self, X: ItemsLike, y: LabelsLike, engine: Engine) -> Callable[[float], float]:
        """Return a function of the temperature: the mean of -log P(y_t | x) over labelled positions or items."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for pickles and copies, without cached values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def current(self) -> Self:
        """The model, or a new one if users have replaced arrays of its matrices of weights."""
        matrices = {name: value for name, value in self.__dict__.items() if isinstance(value, WeightMatrix)}
        new: dict[str, Any] = {
            name: value.current for name, value in matrices.items() if value.current is not value
        }
        return replace(self, **new) if new else self

    @property
    def n_dense_(self) -> int:
        """D, 0 without a dense block."""
        return int(self.dense_coef_.shape[1])

    @property
    def has_probabilities(self) -> bool:
        """Whether the model gives probabilities."""
        return self.loss == "logistic"

    def check_probabilities(self) -> None:
        """Raise AttributeError, as estimators do, if the loss gives no probabilities."""
        if not self.has_probabilities:
            raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {self.loss!r}")

    @property
    def n_stored(self) -> int:
        others = (self.dense_coef_, NO_VALUES if self.intercept is None else self.intercept)
        return self.n_nonzero + sum(int(np.count_nonzero(array)) for array in others)

    @property
    def n_nonzero(self) -> int:
        """Number of weights other than 0, without intercepts and a dense block."""
        tables = (value for value in self.__dict__.values() if isinstance(value, WeightMatrix))
        return int(sum(np.count_nonzero(table.values) for table in tables))

    @property
    def used_features(self) -> NDArray[np.int64]:
        return self.kept_features_

    @cached_property
    def kept_features_(self) -> NDArray[np.int64]:
        """The features that have a weight, sorted."""
        return self.weights.features

    @property
    def names(self) -> Any:
        """The names of all features by column, None without names."""
        return self.feature_names

    def feature_name(self, column: int) -> str | int:
        """Return the name of a feature, or its column if it has none."""
        return column if self.names is None else self.names[column]

    @abstractmethod
    def feature_rows(self, X: ItemsLike) -> tuple[Rows, NDArray[np.int64]]:
        """Return the features of the rows of all items, and the first row of each item and the end, (I + 1,)."""

    @property
    @abstractmethod
    def takes(self) -> str:
        """The form of an item: "text", "columns", "features" or "matrix" (of sequences), "document", "row", "cells" or
        "numbers"."""

    @property
    def columns_read(self) -> list[str] | None:
        """The names of the columns of a table, or of tokens with several columns; None for other items."""
        return None if self.featurizer_ is None else self.featurizer_.columns_read

    @property
    def node_names(self) -> list:
        """The names of the rows of weights: the labels, in a taxonomy the nodes."""
        return self.classes_.tolist()

    def weights_by_name(self) -> WeightsByName:
        """Return the weights other than 0 by the names of labels and features."""
        nodes, names = self.node_names, range(self.n_features_in_) if self.names is None else self.names
        entries = zip(*(column.tolist() for column in self.weights.entries()), strict=True)
        features = {(names[f], nodes[k]): weight for weight, k, f in entries if weight}
        constants = () if self.intercept is None else zip(nodes, self.intercept.tolist(), strict=True)
        return WeightsByName(features, {node: weight for node, weight in constants if weight}, {}, {})

    @cached_property
    def n_node_weights(self) -> NDArray[np.int64]:
        """The number of weights of each label or node, its constant included, (K,)."""
        counts = np.diff(self.weights.row_ends)
        return counts if self.intercept is None else counts + (self.intercept != 0)

    def strongest(self, node: int, n: int | None = 10) -> list[tuple[Any, float]]:
        """Return the n features (None: all) with the largest absolute weights for a label or node, given its number:
        names (or columns) and weights, sorted. The constant, if it is not 0, has the name INTERCEPT."""
        span = slice(*self.weights.row_ends[node : node + 2].tolist())
        columns, weights = self.weights.columns[span], self.weights.values[span]
        if self.intercept is not None and self.intercept[node]:
            columns, weights = np.append(columns, -1), np.append(weights, self.intercept[node])
        order = np.argsort(-np.abs(weights), kind="stable")[:n].tolist()
        names = (
            self.feature_name(column) if column >= 0 else INTERCEPT for column in columns[order].tolist()
        )
        return [*zip(names, weights[order].tolist(), strict=True)]

    def named_terms(
        self, rows: Rows, position: int, states: list[int], others: list[int]
    ) -> list[tuple[Any, float]]:
        """Return a position's terms, weights times values, by feature: those of some states minus those of others."""
        terms, of_states, features = self.weights.terms(rows, position)
        signs = np.isin(of_states, states).astype(np.float64) - np.isin(of_states, others)
        counts = np.flatnonzero(signs)
        values = (terms * signs)[counts].tolist()
        return [(self.feature_name(f), v) for f, v in zip(features[counts].tolist(), values, strict=True)]

    def dense_terms(self, row: Vector, states: list[int], others: list[int]) -> list[tuple[int, float]]:
        """Return the same terms of a row of the dense block, (D,), by column."""
        weights = self.dense_coef_[states].sum(axis=0) - self.dense_coef_[others].sum(axis=0)
        return [*enumerate((weights * np.asarray(row, np.float64)).tolist())]

    def _strongest(self, rows: Rows, position: int, states: list[int], n: int) -> list[tuple[Any, float]]:
        """Return the n features with the largest absolute terms (weights times values, summed over some states) at a
        position: names (or columns) and terms, sorted."""
        terms, of_states, features = self.weights.terms(rows, position)
        is_of_state = np.isin(of_states, states)
        used, place = np.unique(features[is_of_state], return_inverse=True)
        sums = np.bincount(place, terms[is_of_state], used.size)
        order = np.argsort(-np.abs(sums), kind="stable")[:n].tolist()
        return [(self.feature_name(int(used[k])), float(sums[k])) for k in order if sums[k]]


def is_temperature(value: object) -> bool:
    """Return whether a value is a number in the range of temperatures."""
    low, high = TEMPERATURE_RANGE
    return isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) <= high


def read_temperature(file: ModelFile) -> float:
    """Return the temperature in a file, by default 1; ModelFileError for anything but a number in its range."""
    temperature = file.metadata.get("temperature", 1.0)
    if not is_temperature(temperature):
        raise ModelFileError(
            f"{file.path}: temperature: expected a number from 0.001 to 1000, got {describe(temperature)}"
        )
    return float(temperature)
