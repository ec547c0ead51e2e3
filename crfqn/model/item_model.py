"""Models of single items, each of which has a label, flat or in a taxonomy, or a set of labels.

Items are rows of numbers, dicts of the numbers other than 0, texts, or rows of a table's cells. Shapes: I items, F
features, K nodes (without a taxonomy the classes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.data.hybrid import check_dense, sparse_of
from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.data.items import LARGEST_VALUE, check_values, wrong_value
from crfqn.data.label_arrays import encode_known_labels
from crfqn.data.matrices import canonical
from crfqn.data.model_file import ModelFile
from crfqn.data.token_rows import Rows
from crfqn.errors import InputError, ModelFileError, check_count
from crfqn.messages import describe, place_of, shorten
from crfqn.model.content import (
    FEATURE_INDEX,
    KINDS_OF_SETS,
    NODE_MATRIX,
    RANKER,
    STATE_INDEX,
    TAXONOMY,
    ModelContent,
    add_matrix,
    read_dense,
    read_entries,
    read_names,
    read_size,
    read_weights,
)
from crfqn.model.explanations import (
    CONSTANT_TERM,
    DENSE_TERM,
    FEATURE_TERM,
    Explanation,
    Term,
    explanation,
    sum_terms,
)
from crfqn.model.featurizers import Table, Words
from crfqn.model.label_constraints import check_threshold, is_probable
from crfqn.model.label_index import LabelIndex, descend_tree
from crfqn.model.model import INTERCEPT, Decoding, Model, read_temperature
from crfqn.model.numpy_engine import NUMPY, Engine
from crfqn.model.texts import is_text_list
from crfqn.model.trained import Trained
from crfqn.model.uncertainty import find_measure
from crfqn.model.unknown_features import warn_of_unknown
from crfqn.model.weights import WeightMatrix
from crfqn.taxonomy.label_paths import PathTargets
from crfqn.taxonomy.tree import NO_PARENT, LabelTree


class Ranking(NamedTuple):
    """The k best labels of each item and their probabilities, (I, k), in decreasing order."""

    labels: NDArray
    probabilities: NDArray[np.float64]


class Thresholds(NamedTuple):
    """Thresholds t_ik = intercept_k + coef . s_i, both float64 (K,): item i has label k if its score s_ik is larger."""

    coef: Vector
    intercept: Vector


@dataclass(frozen=True, eq=False, kw_only=True)
class ItemModel(Model):
    """A fitted model of single items, under the names that the estimators have.

    Parameters of the methods: X : items as in the estimators' `predict`, with the same errors; engine : for the scores,
    by default numpy alone.

    Attributes
    ----------
    labels : LabelIndex
    has_taxonomy : bool, whether users gave the tree; otherwise it is made of the labels
    thresholds : of label sets, None if an item has one label
    """

    labels: LabelIndex
    has_taxonomy: bool = False
    thresholds: Thresholds | None = None

    @classmethod
    def of_file(cls, file: ModelFile) -> Self:
        """Return the model of a file's content; ModelFileError, or another error, if its parts do not fit together."""
        labels = LabelIndex.of_file(file, file.kind in KINDS_OF_SETS, has_tree=file.kind == TAXONOMY)
        n_features = read_size(file, labels.n_nodes)
        shape, thresholds = (labels.n_nodes, n_features), None
        weights = read_entries(file, NODE_MATRIX, STATE_INDEX, FEATURE_INDEX, shape)
        if file.kind == RANKER and not labels.has_one_label:
            size = (len(labels.classes),)
            thresholds = Thresholds(
                *(read_weights(file, f"threshold_{name}", size) for name in Thresholds._fields)
            )
        model = cls(
            kind=file.kind,
            classes_=labels.classes,
            n_features_in_=n_features,
            weights=WeightMatrix.from_entries(weights, shape),
            intercept=read_weights(file, "intercept", (labels.n_nodes,)),
            dense_coef_=read_dense(file, labels.n_nodes),
            loss=file.table("settings").get("loss", "logistic"),  # some estimators have no parameter `loss`
            trained=Trained.of_file(file),
            labels=labels,
            feature_names=read_names(file, n_features),
            temperature=read_temperature(file),
            has_taxonomy=bool(file.metadata["has_taxonomy"]) if file.kind == TAXONOMY else False,
            thresholds=thresholds,
        )
        if model.featurizer_ is not None and model.featurizer_.n_columns != n_features:
            raise ModelFileError(f"{file.path}: its features are not those of its weights")
        return model

    def add_to(self, content: ModelContent) -> None:
        super().add_to(content)
        add_matrix(content, NODE_MATRIX, self.weights.csr, STATE_INDEX, FEATURE_INDEX)
        content.arrays["intercept"] = np.asarray(self.intercept)
        if self.feature_names is not None:
            content.strings["feature_names"] = [str(name) for name in self.feature_names]
        self.labels.add_to(content, self.kind in KINDS_OF_SETS)
        if self.thresholds is not None:
            for name, values in self.thresholds._asdict().items():
                content.arrays[f"threshold_{name}"] = values
        if self.kind == TAXONOMY:
            content.metadata["has_taxonomy"] = self.has_taxonomy

    @property
    def tree_(self) -> LabelTree | None:
        """The taxonomy of the labels, None without one."""
        return self.labels.tree

    @property
    def taxonomy(self) -> LabelTree | None:
        """The taxonomy of users, None if it was made of the labels."""
        return self.tree_ if self.has_taxonomy else None

    @property
    def separator(self) -> str:
        """The separator of the parts of a path."""
        return self.labels.separator

    @property
    def intercept_(self) -> Vector | None:
        """The weight of the constant for each node, (K,)."""
        return self.intercept

    @property
    def node_names(self) -> list:
        return self.labels.node_names

    def predict(self, X: ItemsLike, threshold: float | None = None, engine: Engine = NUMPY) -> NDArray:
        """Return the label with the largest score of each item; ties go to the first of these classes. `threshold`: as
        in `MulticlassCRF.predict`."""
        if threshold is not None:
            return self.decode(X, engine, threshold=threshold).labels
        best = [scores.argmax(axis=1) for scores in engine.class_scores(self, X)]
        return self.labels.as_given(self.classes_[np.concatenate(best)])

    def decode(self, X: ItemsLike, engine: Engine = NUMPY, *, threshold: float | None = None) -> Decoding:
        """Return the best label of each item and its log-probability. With a `threshold` the labels are those
        of `predict`; an item without a label has the probability of its best class (in a taxonomy: best top node)."""
        self.check_probabilities()
        if threshold is None:
            parts = [(logs.argmax(axis=1), logs.max(axis=1)) for logs in self._log_probabilities(X, engine)]
            names = self.classes_
        else:
            minimum, tree = check_threshold(threshold), self.labels.tree
            names = np.array([*self.node_names, None], object)
            # Without a taxonomy labels are nodes without parents.
            parents = np.full(len(names) - 1, NO_PARENT) if tree is None else tree.parents
            blocks = (
                self._probabilities(X, engine, True) if tree is None else engine.node_probabilities(self, X)
            )
            parts = [_best_nodes(p.T, parents, minimum) for p in blocks]
        best, log_probability = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Decoding(self.labels.as_given(names[best]), log_probability)

    def predict_log_proba(self, X: ItemsLike, engine: Engine = NUMPY) -> Vector:
        """Return log P(k | x) of each class, float64 (n_items, n_classes), in nats; X and errors as in `predict`."""
        return np.concatenate([*self._log_probabilities(X, engine, warns=False)])

    def predict_proba(self, X: ItemsLike, engine: Engine = NUMPY) -> Vector:
        """Return P(k | x) of each class, float64 (n_items, n_classes), summing to 1; X and errors as in `predict`."""
        return np.concatenate([*self._probabilities(X, engine)])

    predict_marginals = predict_proba

    def predict_nodes(self, X: ItemsLike, engine: Engine = NUMPY) -> Vector:
        """Return P(the label is node k or one under it), float64 (n_items, K), in the order of `tree_.names`.

        It is the sum over the children, plus the node's own probability if it is a label. X and errors as in `predict`.
        """
        self.check_probabilities()
        return np.concatenate([*engine.node_probabilities(self, X, warns=False)])

    def predict_top(self, X: ItemsLike, k: int, engine: Engine = NUMPY) -> Ranking:
        """Return the k best labels of each item with their probabilities; ties have the order of `classes_`."""
        check_count("k", k, len(self.classes_))
        parts = []
        for p in self._probabilities(X, engine):
            codes = np.argsort(-p, axis=1, kind="stable")[:, :k]
            parts.append((codes, np.take_along_axis(p, codes, axis=1)))
        codes, probabilities = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Ranking(self.classes_[codes], probabilities)

    def predict_nbest(self, X: ItemsLike, n: int = 5) -> list[list[tuple[Any, float]]]:
        """Return the n best labels of each item with their probabilities, as `predict_top`."""
        labels, probabilities = self.predict_top(X, min(check_count("n", n), len(self.classes_)))
        rows = zip(labels.tolist(), probabilities.tolist(), strict=True)
        return [[*zip(names, values, strict=True)] for names, values in rows]

    marginals, n_best = predict_marginals, predict_nbest

    def log_likelihood(self, X: ItemsLike, y: LabelsLike, engine: Engine = NUMPY) -> Vector:
        """Return log P(y_i | x_i) of each item, float64 (I,), in nats; InputError also for unknown labels."""
        codes, parts, first = self._codes(y), [], 0
        for logs in self._log_probabilities(X, engine, warns=False):
            chosen = codes[first : first + len(logs)]
            parts.append(logs[np.arange(chosen.size), chosen])
            first += len(logs)
        if first != codes.size:
            raise InputError(f"expected a label for each of the {first} items, got {codes.size}")
        return np.concatenate(parts)

    def _codes(self, y: Any) -> NDArray[np.int32]:
        """Return the numbers of labels among the classes; InputError for unknown labels."""
        names = y if self.labels.tree is None else PathTargets.from_y(y, self.labels.separator).names
        return encode_known_labels(names, np.arange(len(names) + 1), self.classes_)

    def _mean_loss(self, X: ItemsLike, y: LabelsLike, engine: Engine) -> Callable[[float], float]:
        codes, scores = self._codes(y), np.concatenate([*engine.class_scores(self, X, False)])
        if not codes.size or len(scores) != codes.size:
            raise InputError(
                f"expected items with a label each, at least one, got {len(scores)} items and {codes.size} labels"
            )
        scores = scores - scores[np.arange(codes.size), codes][:, None]
        return lambda t: float(np.mean(np.logaddexp.reduce(scores / t, axis=1)))

    def uncertainty(self, X: ItemsLike, measure: str = "confidence", engine: Engine = NUMPY) -> Vector:
        """Return the uncertainty of each item, float64 (n_items,).

        Parameters
        ----------
        X : as in `predict`
        measure : {"confidence", "margin", "entropy"}, default "confidence"
            "confidence": 1 - P(best label); "margin": 1 - P(best label) + P(second best label); "entropy": of the
            labels' probabilities, in nats. 0 is certain.

        Raises
        ------
        InputError
            As in `predict`, and for another measure.
        """
        _, value = find_measure(measure)
        logs = self._log_probabilities(X, engine)
        return np.concatenate([value(-np.sort(-part, axis=1), None) for part in logs])

    def strongest_features(self, X: ItemsLike, n: int = 5) -> list[list[tuple[Any, float]]]:
        """Return for each item the n features with the largest terms (weights times values) of the best label's score,
        in a taxonomy summed along its path: names (or columns) and terms, by decreasing absolute value."""
        n, rows = check_count("n", n), self.rows(sparse_of(check_dense(X, self.n_dense_)))
        best = np.concatenate([scores.argmax(axis=1) for scores in NUMPY.class_scores(self, X)]).tolist()
        nodes = self.labels.nodes.tolist()
        return [self._strongest(rows, i, self.path(nodes[k]), n) for i, k in enumerate(best)]

    def explain(self, X: ItemsLike, n: int | None = 5) -> list[Explanation]:
        """Return for each item the terms that decide between its label and the runner-up, the second best label.

        The difference between their scores, the logarithm of the ratio of their probabilities in nats, is the sum of
        weights times values of features and of the intercepts. In a taxonomy nodes above both labels cancel.

        Parameters
        ----------
        X : as in `predict`
        n : int >= 1 or None, default 5
            Number of terms, the largest in absolute value; `rest` is the sum of the others. None: all.

        Returns
        -------
        list of Explanation (label, probability, runner_up, runner_up_probability, difference, terms, rest)
            A term has kind ("feature", "dense", "constant"), name and value.

        Raises
        ------
        InputError
            As in `predict`, and for another n.
        """
        n, X = check_count("n", n, or_none=True), check_dense(X, self.n_dense_)
        rows, nodes, explained = self.rows(sparse_of(X)), self.labels.nodes.tolist(), []
        scores = np.concatenate([*NUMPY.class_scores(self, X, False)])
        labels = [*self.labels.as_given(self.classes_)]
        for i, row in enumerate(scores):
            best, *others = np.argsort(-row, kind="stable")[:2].tolist()
            p: list[float | None] = [None] * row.size
            if self.has_probabilities:
                ratios = np.exp((row - row.max()) / self.temperature)
                p = (ratios / ratios.sum()).tolist()
            if not others:
                explained.append(explanation(labels[best], p[best]))
                continue
            paths = [self.path(nodes[k]) for k in (best, *others)]
            terms = [Term(None, FEATURE_TERM, *term) for term in self.named_terms(rows, i, *paths)]
            if self.n_dense_:
                terms += [Term(None, DENSE_TERM, *term) for term in self.dense_terms(X.dense[i], *paths)]
            if self.intercept is not None:
                constant = float(self.intercept[paths[0]].sum() - self.intercept[paths[1]].sum())
                terms.append(Term(None, CONSTANT_TERM, INTERCEPT, constant))
            names_and_probabilities = labels[best], p[best], labels[others[0]], p[others[0]]
            explained.append(explanation(*names_and_probabilities, sum_terms(terms, n, self.temperature)))
        return explained

    def feature_rows(self, X: ItemsLike) -> tuple[Rows, NDArray[np.int64]]:
        rows = self.rows(sparse_of(check_dense(X, self.n_dense_)), warns=False)
        return rows, np.arange(rows.row_ends.size)

    def path(self, node: int) -> list[int]:
        """Return the node and those above it, whose weights add up to the score of the node."""
        path, tree = [node], self.tree_
        while tree is not None and (above := int(tree.parents[path[-1]])) != NO_PARENT:
            path.append(above)
        return path

    def feature_name(self, column: int) -> str | int:
        """Return the name of a feature, for texts the word."""
        words = self.featurizer_
        if not isinstance(words, Words):
            return super().feature_name(column)
        return words.names[int(np.searchsorted(words.columns, column))]

    def _probabilities(self, X: ItemsLike, engine: Engine, warns: bool = False) -> Iterator[Vector]:
        """Yield P(k | x) of each class block by block, (items, n_classes)."""
        self.check_probabilities()
        for scores in engine.class_scores(self, X, warns):
            p = np.exp((scores - scores.max(axis=1, keepdims=True)) / self.temperature)
            p /= p.sum(axis=1, keepdims=True)
            yield p

    def _log_probabilities(self, X: ItemsLike, engine: Engine, warns: bool = True) -> Iterator[Vector]:
        """Yield log P(k | x) of each class block by block, (items, n_classes)."""
        self.check_probabilities()
        for scores in engine.class_scores(self, X, warns):
            scores = (scores - scores.max(axis=1, keepdims=True)) / self.temperature
            yield scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    @property
    def takes(self) -> str:
        featurizer = self.featurizer_
        if isinstance(featurizer, Table):
            return "numbers" if featurizer.takes_numbers else "cells"
        return "document" if isinstance(featurizer, Words) else "row"

    def rows(self, X: Any, warns: bool = True) -> Rows:
        """Return the checked features of items: a 2-D array, a sparse matrix of features, or a list of rows, of dicts,
        of texts, or of cells of a table."""
        featurizer = self.featurizer_
        if isinstance(featurizer, Words) and (isinstance(X, str) or is_text_list(X)):
            rows = featurizer.rows(X)
            self._warn_of_unknown(rows, warns)
            return rows
        if isinstance(featurizer, Table) and not hasattr(X, "tocsr"):
            return featurizer.read(X)
        if isinstance(X, (list, tuple)) and any(isinstance(row, Mapping) for row in X):
            rows = self._rows_of_dicts(X)
            self._warn_of_unknown(rows, warns)
            return rows
        X = canonical(X)
        is_sparse = hasattr(X, "tocsr")
        matrix = X if is_sparse else np.asarray(X)
        if matrix.ndim != 2 or matrix.shape[1] != self.n_features_in_:
            raise InputError(
                f"expected items with {self.n_features_in_} features, got an array of shape {matrix.shape}"
            )
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"expected numbers, got an array of {matrix.dtype}")
        check_values(matrix, place_of, self.names)
        rows = Rows.from_items(matrix)
        if is_sparse:
            self._warn_of_unknown(rows, warns)
        return rows

    def _warn_of_unknown(self, rows: Rows, warns: bool) -> None:
        """Warn of items without known features, unless the model has a dense block."""
        if warns and not self.n_dense_:
            n_known = np.concatenate([[0], np.cumsum(rows.columns >= 0)])
            warn_of_unknown(np.diff(n_known[rows.row_ends]))

    def _rows_of_dicts(self, X: Sequence[object]) -> Rows:
        row_ends, columns, values = [0], [], []
        for i, item in enumerate(X):
            if not isinstance(item, Mapping):
                raise InputError(f"{place_of(i)}: expected a dict like others, got {describe(item)}")
            for name, value in item.items():
                columns.append(self._column(i, name))
                feature = f"feature {shorten(name)}"
                if not isinstance(value, (Real, np.bool_)):
                    raise InputError(
                        f"{place_of(i)}: {feature}: expected a finite number, got {describe(value)}"
                    )
                if not -LARGEST_VALUE <= value <= LARGEST_VALUE:  # type: ignore[operator]
                    raise InputError(f"{place_of(i)}: {wrong_value(feature, value)}")
                values.append(float(value))
            row_ends.append(len(columns))
        return Rows(np.array(row_ends), np.array(columns, np.int64), np.array(values, np.float64))

    @cached_property
    def _columns(self) -> dict[str, int]:
        """The columns by name."""
        return dict(zip(self.names or (), range(self.n_features_in_), strict=False))

    def _column(self, i: int, name: object) -> int:
        """Return the column of a feature of item i, -1 for an unknown name; InputError for anything else."""
        if isinstance(name, str) and self.names is not None:
            return self._columns.get(name, -1)
        if isinstance(name, (int, np.integer)) and 0 <= name < self.n_features_in_:
            return int(name)
        expected = "a name" if self.names is not None else f"a column from 0 to {self.n_features_in_ - 1}"
        raise InputError(f"{place_of(i)}: expected {expected} as feature, got {describe(name)}")


def _best_nodes(p: Vector, parents: NDArray[np.int32], threshold: float) -> tuple[NDArray[np.int64], Vector]:
    """Return for each item the deepest node with enough probability, -1 for none, and its log-probability, or that of
    the best top node, (n,) each. p : probabilities of the nodes, (K, n)"""
    nodes, items = descend_tree(is_probable(p, threshold), p, parents), np.arange(p.shape[1])
    best_tops = p[: np.searchsorted(parents, 0)].max(axis=0)
    with np.errstate(divide="ignore"):  # a probability may be rounded to 0
        return nodes, np.log(np.minimum(np.where(nodes == NO_PARENT, best_tops, p[nodes, items]), 1.0))
