"""A fitted model: labels, weights, names of features; what models of all kinds have in common.

Predictions go through an engine, which scores items and infers their labels: numpy alone for a few items
(`numpy_engine.py`), compiled code for many (`compiled_engine.py`). Their results agree within 1e-12.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_VALUES, Vector
from crfqn.data.model_file import ModelFile, ModelSource
from crfqn.data.token_rows import Rows
from crfqn.errors import InputError, ModelFileError
from crfqn.messages import describe
from crfqn.model.content import DENSE_WEIGHTS, ModelContent
from crfqn.model.numpy_engine import NUMPY
from crfqn.model.trained import FittedModel
from crfqn.model.weights import WeightMatrix
from crfqn.registry import find

INTERCEPT = "(intercept)"
TEMPERATURES = 1e-3, 1e3  # the least and the largest
SEARCHED_TEMPERATURES = 0.01, 100.0


class Decoding(NamedTuple):
    """Best labelling of each item (`labels`: 1-D arrays for sequences, else as `predict`), and the logarithm of its
    probability, in nats."""

    labels: Any
    log_probability: NDArray[np.float64]


class WeightsByName(NamedTuple):
    """Weights that are not 0, by (feature, label; in a taxonomy its node), by label or node for the constants, by
    (label, next label), and by (feature, label, next label); features without names are their columns."""

    features: dict[tuple[Any, Any], float]
    intercepts: dict[Any, float]
    transitions: dict[tuple[Any, Any], float]
    bigrams: dict[tuple[Any, Any, Any], float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(FittedModel):
    """A fitted model: what labels, without what trains. `Model.open` reads one from a file, an estimator has one as
    `model_`; attributes have the names that they have at estimators.

    A model of sequences has `predict`, `decode`, `marginals`, `n_best`, `spans` and `log_likelihood`; one of single
    items `predict`, `decode`, `predict_proba`, `marginals`, `n_best`, `predict_nodes` and `log_likelihood`; their
    parameters, results and errors are those of the estimators' methods (`predict_marginals` for `marginals` and so on).
    Methods keep nothing: threads may share one.

    Attributes
    ----------
    kind : str, of the model's file
    classes_ : ndarray, shape (K,), the labels
    n_features_in_ : int, F
    weights : WeightMatrix (K, F); of a taxonomy K are the nodes
    intercept : ndarray, shape (K,), or None
    dense_coef_ : ndarray, shape (K, D), weights of a dense block, D = 0 without one
    loss : str, of the training; scores are logarithms of probabilities for "logistic" alone
    trained : how it was trained, None where nobody knows
    feature_names : names of the features by column, or None; a vocabulary or a featurizer has names of its own
    temperature : float, which all scores are divided by where they become probabilities (`calibrate`)

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
            As of `crfqn.load`, and for kinds of models that need their estimator (`crfqn.load`).
        """
        return find("open_model")(source)  # which knows the classes below this one

    @property
    def coef_(self) -> Any:
        """The weights as scipy's `csr_array`, (K, F)."""
        return self.weights.csr

    @property
    def feature_names_in_(self) -> Sequence[str] | None:
        """The names of all features, None where they have none."""
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
        self, X: Any = None, y: Any = None, engine: Any = NUMPY, *, temperature: float | None = None
    ) -> Self:
        """Return the model with the temperature under which held-out labels are most probable.

        All scores are divided by it where they become probabilities, so that labels do not change. It is found by
        minimising the mean of -log P(y_t | x) over positions (of single items over items) by Brent's method, between
        0.01 and 100.

        Parameters
        ----------
        X, y : labelled items that the model was not trained on
        engine : what scores and infers, by default numpy alone
        temperature : float, optional
            The temperature, in the place of items; 1 undoes the calibration.

        Raises
        ------
        AttributeError
            The model has no probabilities.
        InputError
            No items, items and a temperature at once, labels that are not among the classes, as of `predict`.

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

        loss, bounds = self._mean_loss(X, y, engine), tuple(map(log, SEARCHED_TEMPERATURES))
        best = minimize_scalar(
            lambda t: loss(exp(t)), bounds=bounds, method="bounded", options={"xatol": 1e-7}
        )
        return self.with_temperature(exp(best.x))

    @abstractmethod
    def _mean_loss(self, X: Any, y: Any, engine: Any) -> Callable[[float], float]:
        """Return the mean of -log P(y_t | x) over labelled positions or items as a function of the temperature."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for pickles and copies, without what is made of them."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def current(self) -> Self:
        """The model; a new one where users have given its matrices of weights other arrays."""
        matrices = {name: value for name, value in self.__dict__.items() if isinstance(value, WeightMatrix)}
        new: dict[str, Any] = {
            name: value.current for name, value in matrices.items() if value.current is not value
        }
        return replace(self, **new) if new else self

    @property
    def n_dense_(self) -> int:
        """D, 0 for a model without a dense block."""
        return int(self.dense_coef_.shape[1])

    @property
    def has_probabilities(self) -> bool:
        """Whether scores are logarithms of probabilities."""
        return self.loss == "logistic"

    def check_probabilities(self) -> None:
        """Raise AttributeError, as estimators do, for losses without probabilities."""
        if not self.has_probabilities:
            raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {self.loss!r}")

    @property
    def n_stored(self) -> int:
        others = (self.dense_coef_, NO_VALUES if self.intercept is None else self.intercept)
        return self.n_nonzero + sum(int(np.count_nonzero(array)) for array in others)

    @property
    def n_nonzero(self) -> int:
        """Number of weights that are not 0, those of intercepts and of a dense block left out."""
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
        """The names of all features by column, None where they have none."""
        return self.feature_names

    def feature_name(self, column: int) -> Any:
        """Return the name of a feature, its column where there is none."""
        return column if self.names is None else self.names[column]

    @abstractmethod
    def feature_rows(self, X: Any) -> tuple[Rows, NDArray[np.int64]]:
        """Return the features of all rows of items, and the numbers of the rows where the items begin and end."""

    @property
    @abstractmethod
    def takes(self) -> str:
        """What an item is: "text", "columns", "features" or "matrix" (of sequences), "document", "row", "cells" or
        "numbers"."""

    @property
    @abstractmethod
    def columns_read(self) -> list[str] | None:
        """The names of the columns of a table, or of tokens that have several; None for other items."""

    @property
    def node_names(self) -> list:
        """The names of what has weights: the labels, in a taxonomy the nodes."""
        return self.classes_.tolist()

    def weights_by_name(self) -> WeightsByName:
        """Return the weights that are not 0 by the names of labels and features."""
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
        """Return the n features (None: all) with the largest sizes of weights for a label, or a node, by its number:
        names (or columns) and weights, the largest first. The constant, if it is not 0, has the name INTERCEPT."""
        span = slice(*self.weights.row_ends[node : node + 2].tolist())
        columns, weights = self.weights.columns[span], self.weights.values[span]
        if self.intercept is not None and self.intercept[node]:
            columns, weights = np.append(columns, -1), np.append(weights, self.intercept[node])
        order = np.argsort(-np.abs(weights), kind="stable")[:n].tolist()
        names = (
            self.feature_name(column) if column >= 0 else INTERCEPT for column in columns[order].tolist()
        )
        return [*zip(names, weights[order].tolist(), strict=True)]

    def with_dense(self, scores: Vector, dense: Vector) -> Vector:
        """Return scores (N, K) with what the dense features of a block (N, D) add."""
        return scores + np.asarray(dense, np.float64) @ self.dense_coef_.T

    def named_terms(
        self, rows: Rows, position: int, states: list[int], others: list[int]
    ) -> list[tuple[Any, float]]:
        """Return the weights times values of a position by feature, those of some states minus those of others."""
        terms, of_states, features = self.weights.terms(rows, position)
        signs = np.isin(of_states, states).astype(np.float64) - np.isin(of_states, others)
        counts = np.flatnonzero(signs)
        values = (terms * signs)[counts].tolist()
        return [(self.feature_name(f), v) for f, v in zip(features[counts].tolist(), values, strict=True)]

    def dense_terms(self, row: Vector, states: list[int], others: list[int]) -> list[tuple[int, float]]:
        """Return the same of a dense block's row, (D,), by column."""
        weights = self.dense_coef_[states].sum(axis=0) - self.dense_coef_[others].sum(axis=0)
        return [*enumerate((weights * np.asarray(row, np.float64)).tolist())]

    def _strongest(self, rows: Rows, position: int, states: list[int], n: int) -> list[tuple[Any, float]]:
        """Return the n features whose terms, weights times values, are the largest in size for some states together,
        by name (or column), with these terms, the largest first."""
        terms, of_states, features = self.weights.terms(rows, position)
        is_asked = np.isin(of_states, states)
        used, place = np.unique(features[is_asked], return_inverse=True)
        sums = np.bincount(place, terms[is_asked], used.size)
        order = np.argsort(-np.abs(sums), kind="stable")[:n].tolist()
        return [(self.feature_name(int(used[k])), float(sums[k])) for k in order if sums[k]]


def is_temperature(value: Any) -> bool:
    """Return whether a value can be a temperature."""
    least, most = TEMPERATURES
    return isinstance(value, Real) and not isinstance(value, bool) and least <= float(value) <= most


def read_temperature(file: ModelFile) -> float:
    """Return the temperature of a file's model, 1 where the file names none; ModelFileError for no temperature."""
    temperature = file.metadata.get("temperature", 1.0)
    if not is_temperature(temperature):
        raise ModelFileError(
            f"{file.path}: temperature: expected a number from 0.001 to 1000, got {describe(temperature)}"
        )
    return float(temperature)
