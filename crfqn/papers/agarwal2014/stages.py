"""Models made of stages: the list of their weights, training until a rule ends it, predictions that replay the stages.

Shapes: I items, K labels; tables are float64 (K, I), a column an item.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, column_or_1d

from crfqn.arrays import NO_COORDS, NO_VALUES, NO_WEIGHTS, SparseWeights, Vector
from crfqn.data.inputs import ItemsLike, ItemTable, LabelsLike, SampleWeight
from crfqn.data.items import set_weights
from crfqn.data.label_arrays import encode_known_labels, item_labels
from crfqn.data.matrices import canonical
from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError, ModelFileError, warn_caller
from crfqn.estimators.automatic import AUTO
from crfqn.estimators.estimator import Estimator
from crfqn.estimators.item_data import (
    MATRIX_CHECKS,
    Columns,
    Targets,
    check_any_class,
    read_training_rows,
    validated,
)
from crfqn.estimators.item_estimator import ItemPredictions
from crfqn.estimators.multilabel_targets import MultilabelTargets, are_sets
from crfqn.estimators.problem import Callbacks, CallbackSupportMixin, pass_on_interrupt, with_fit_task
from crfqn.model.content import ModelContent, read_names, read_size, read_weights
from crfqn.model.label_index import LabelIndex
from crfqn.model.trained import Fitted, FittedModel, Trained
from crfqn.papers.agarwal2014.fits import ItemStream
from crfqn.papers.agarwal2014.generalized import (
    LABEL_THRESHOLD,
    LEAST_SQUARES_PARAMETERS,
    LeastSquaresPredictions,
)
from crfqn.papers.agarwal2014.generators import to_dense
from crfqn.result import Progress, Result, Status, Trace
from crfqn.solvers.stopping import ValidationHistory, ValidationSet
from crfqn.threads import Pool, single_threaded_blas
from crfqn.time_limit import TimeIsUp, TimeLimit

PREDICTION_ROWS = 1 << 15  # rows of a block in prediction
# early_stopping="auto" holds items out if there are at least this many: scores of fewer than 100 are too noisy.
MIN_ITEMS_FOR_SPLIT = 1000
FITTED_LOSS_SHARE = 1e-6  # of the first loss: what is left over is no matter for another stage
DEFAULT_POWERS = (1, 2, 3)  # of predictions, whose combination calibrates them


class Basis:
    """Functions of predictions that calibrate them, G(y) of Agarwal et al. (2014), Algorithm 2: powers, or a
    transformer fitted to the first predictions. The functions include the predictions, so that calibration cannot
    increase the error. InputError for anything but a transformer or a sequence of powers with 1 among them."""

    def __init__(self, basis: Any) -> None:
        self.basis = basis
        self.fitted: Any = None
        self.is_powers = (
            isinstance(basis, Sequence)
            and bool(basis)
            and all(
                isinstance(power, (int, np.integer)) and not isinstance(power, bool) and power >= 1
                for power in basis
            )
        )
        if self.is_powers and 1 not in basis:  # or a calibration could make predictions worse
            raise InputError(f"basis: expected powers with 1 among them, got {basis!r}")
        if not self.is_powers and not hasattr(basis, "fit_transform"):
            raise InputError(
                f"basis: expected powers such as {DEFAULT_POWERS}, or a scikit-learn transformer, got {basis!r}"
            )

    def __call__(self, predictions: Vector) -> Vector:
        """Return the m functions of predictions (K, N), (m, N)."""
        if self.is_powers:
            return np.concatenate([predictions**power for power in self.basis])
        if self.fitted is None:
            self.fitted = clone(self.basis).fit(predictions.T)
        return np.concatenate([predictions, to_dense(self.fitted.transform(predictions.T)).T])


@dataclass(eq=False, kw_only=True)
class StageList(ABC):
    """Stages: their weights, and the predictions after each.

    TABLES : the lists of tables (K, ...), one a stage: name in model files -> attribute
    l2 : ridge of a stage's weights
    has_constant, is_constant_free : whether the last feature is a constant 1; whether it is not penalised
    basis : functions of the predictions
    is_exclusive : whether an item has one label, so that predictions lie on the simplex
    """

    TABLES: ClassVar[dict[str, str]]

    l2: float
    has_constant: bool
    is_constant_free: bool
    basis: Basis
    is_exclusive: bool

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features in use."""

    @abstractmethod
    def prepare(self, rows: ItemTable, pool: Pool) -> Any:
        """Return what `advance` takes of rows."""

    @abstractmethod
    def advance(self, prepared: Any, number: int, predictions: Vector) -> Vector:
        """Return the predictions (or scores) after stage `number`, (K, N), given those before it."""

    @abstractmethod
    def learn(self, items: ItemStream, predictions: Vector) -> Iterator[Vector]:
        """Fit stages to items without end; yield the predictions after each, (K, I), from those so far."""

    @abstractmethod
    def probabilities(self, predictions: Vector) -> Vector:
        """Return probabilities, (K, N), from predictions or scores."""

    @property
    def _lists(self) -> list[list[Vector]]:
        return [vars(self)[name] for name in self.TABLES.values()]

    @property
    def n_stages(self) -> int:
        """Number of stages so far: a stage counts with its first table."""
        return len(self._lists[0])

    @property
    def tables(self) -> list[Vector]:
        """The weights of all stages."""
        return [table for tables in self._lists for table in tables]

    def keep(self, n_stages: int) -> None:
        """Drop all stages but the first `n_stages`."""
        for tables in self._lists:
            del tables[n_stages:]

    def copied(self) -> Self:
        """Return a copy whose stages can be dropped and added to."""
        twin = copy(self)
        for name, tables in zip(self.TABLES.values(), self._lists, strict=True):
            setattr(twin, name, [*tables])
        return twin

    def replay(self, rows: ItemTable, n_labels: int, pool: Pool) -> Iterator[Vector]:
        """Yield the predictions before any stage and after each, (K, rows)."""
        predictions = np.zeros((n_labels, rows.shape[0]))
        yield predictions
        prepared = self.prepare(rows, pool) if self.n_stages else None
        for number in range(self.n_stages):
            predictions = self.advance(prepared, number, predictions)
            yield predictions

    def predictions_of(self, items: ItemStream) -> Vector:
        """Return the predictions of all items after the last stage, (K, I)."""
        predictions = np.zeros(items.targets.shape)
        if self.n_stages:
            for rows, part in items.parts():
                *_, predictions[:, part] = self.replay(rows, len(predictions), items.pool)
        return predictions

    def loss(self, items: ItemStream, predictions: Vector) -> float:
        """Return the squared error of predictions (K, I), 1/2 sum_i c_i ||y_i - y^_i||^2."""
        return 0.5 * float(np.square(items.targets - predictions).sum(axis=0) @ items.weights)

    def add_to(self, content: ModelContent) -> None:
        """Add the tables to the content of a model file: for each list the widths, and all numbers in one array."""
        for name, tables in zip(self.TABLES, self._lists, strict=True):
            numbers = [np.empty(0), *(table.ravel() for table in tables)]
            content.arrays[f"{name}_widths"] = np.array([table.shape[1] for table in tables], np.int64)
            content.arrays[f"{name}_weights"] = np.concatenate(numbers)

    def read_from(self, file: ModelFile, n_labels: int) -> None:
        """Take the tables that `add_to` stored; ModelFileError if they do not fit."""
        for name, attribute in self.TABLES.items():
            numbers = read_weights(file, f"{name}_weights", (None,))
            widths = file.integers(f"{name}_widths", (None,), numbers.size + 1)
            if int(widths.sum()) * n_labels != numbers.size:
                raise ModelFileError(
                    f"{file.path}: {name}: expected {int(widths.sum()) * n_labels} weights, found {numbers.size}"
                )
            parts = np.split(numbers, np.cumsum(widths[:-1]) * n_labels) if widths.size else []
            setattr(self, attribute, [part.reshape(n_labels, -1) for part in parts])


@dataclass(eq=False)
class HeldOut:
    """Held-out items, with their predictions after the stages so far.

    rows, targets : the items, and float64 (K, I) of 0 and 1
    is_exclusive : whether an item has one label
    """

    rows: ItemTable
    targets: Vector
    is_exclusive: bool

    def __post_init__(self) -> None:
        self._predictions, self._number, self._prepared = np.zeros(self.targets.shape), 0, None

    @classmethod
    def from_items(cls, checked: Any, space: LabelIndex, X: ItemsLike, y: LabelsLike) -> HeldOut:
        """Return items with labels of the space, and columns as those of `checked`; InputError for others."""
        X = validated(checked, canonical(X), reset=False, **MATRIX_CHECKS)
        if not space.has_one_label:
            table = MultilabelTargets.among(y, space.classes).table
            check_consistent_length(X, table)
            return cls(X, table.toarray().T, False)
        names = column_or_1d(item_labels(y))
        check_consistent_length(X, names)
        codes = encode_known_labels(names, np.arange(names.size + 1), space.classes)
        return cls(X, np.eye(space.classes.size)[codes].T, True)

    def score(self, stages: StageList, pool: Pool) -> tuple[float, float]:
        """Return the fraction of the items whose labels are all right, and the squared error of the probabilities, both
        after the latest stage."""
        if self._prepared is None:
            self._prepared = stages.prepare(self.rows, pool)
        for number in range(self._number, stages.n_stages):
            self._predictions = stages.advance(self._prepared, number, self._predictions)
        self._number = stages.n_stages
        probabilities = stages.probabilities(self._predictions)
        squared_error = float(np.square(self.targets - probabilities).sum())
        if self.is_exclusive:
            best = self._predictions.argmax(axis=0)
            is_right = self.targets[best, np.arange(best.size)] > 0
        else:
            is_right = ((probabilities >= LABEL_THRESHOLD) == (self.targets > 0)).all(axis=0)
        return float(np.mean(is_right)), squared_error


def split_off(
    X: ItemTable, targets: Targets, fraction: float, seed: int
) -> tuple[ItemTable, Targets, HeldOut]:
    """Return the items without a random part of them, and this part as held-out items, in which every label has its
    share where items have one each, unless one is too rare for that."""
    table, space = targets.labels, targets.space
    codes = table.argmax(axis=0)
    n_held = max(1, round(fraction * codes.size))
    rarest = np.bincount(codes).min() if space.has_one_label else 0
    can_be_even = rarest >= 2 and len(table) <= n_held <= codes.size - len(table)
    train, test = train_test_split(
        np.arange(codes.size), test_size=n_held, random_state=seed, stratify=codes if can_be_even else None
    )
    train, test = np.sort(train), np.sort(test)
    weights = None if targets.weights is None else targets.weights[train]
    training = Targets(space, np.ascontiguousarray(table[:, train]), weights)
    return X[train], training, HeldOut(X[test], table[:, test], space.has_one_label)


def labels_of_blocks(blocks: Iterable[tuple[ItemsLike, LabelsLike]], checked: Any) -> MultilabelTargets:
    """Read all blocks once; return their labels. `checked` takes the columns' names, which others must have, too."""
    if not hasattr(blocks, "__iter__") or isinstance(blocks, Iterator):
        raise InputError(
            "blocks: expected an iterable of (X, y) that can be read again and again, such as a list or an object "
            f"with __iter__, got {type(blocks).__name__}"
        )
    labels: list[Any] = []
    for X, y in blocks:
        check_consistent_length(validated(checked, canonical(X), reset=not labels, **MATRIX_CHECKS), y)
        labels.append(y)
    if not labels:
        raise InputError("blocks: expected at least one block (X, y), got none")
    whole: Any
    if all(are_sets(y) for y in labels):
        whole = list(chain.from_iterable(labels))
    elif any(hasattr(y, "tocsr") for y in labels):
        whole = scipy.sparse.vstack(labels).tocsr()
    else:
        whole = np.concatenate([np.asarray(item_labels(y)) for y in labels])
    sets = MultilabelTargets.from_y(whole)
    check_any_class(sets.classes)
    return sets


class StageRules(NamedTuple):
    """Rules by which a training of stages ends.

    most_stages, deadline : limits; the latter on the clock `time.perf_counter`
    patience : stages in succession without a lower error of the held-out items, None: these are not used
    tol : relative decrease of the training loss below which a stage is the last, None for any
    """

    most_stages: int
    deadline: float
    patience: int | None = None
    tol: float | None = None

    def best(self, trace: Trace, history: ValidationHistory) -> int:
        """Return the number of stages to keep: up to the lowest error if there is patience, else all."""
        if self.patience is None or history.best is None:
            return trace.rows[-1].iteration
        return max(1, history.iterations[history.best_index])

    def reason_to_stop(self, trace: Trace, history: ValidationHistory) -> Status | None:
        """Return why the latest stage is the last, or None."""
        last = trace.rows[-1]
        if self.patience is not None and last.iteration - self.best(trace, history) >= self.patience:
            return Status.STAGES_MADE
        if self.tol is not None:
            before = trace.rows[-2].value if len(trace) > 1 else np.inf
            is_fitted = last.value <= FITTED_LOSS_SHARE * trace.rows[0].value
            if is_fitted or (np.isfinite(before) and before - last.value <= self.tol * before):
                return Status.STAGES_MADE
        if last.iteration >= self.most_stages:  # the goal if there is no tolerance
            return Status.STAGES_MADE if self.tol is None else Status.MAX_ITER
        return Status.MAX_SECONDS if time.perf_counter() >= self.deadline else None


StagesT = TypeVar("StagesT", bound=StageList)


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedModel(FittedModel):
    """A fitted list of stages; validation_score : as the estimators have it, None without held-out items."""

    labels: LabelIndex
    stages: StageList
    feature_names: list[str] | None = None
    validation_score: Vector | None = None

    @property
    def n_stored(self) -> int:
        return sum(table.size for table in self.stages.tables)

    def add_to(self, content: ModelContent) -> None:
        self.stages.add_to(content)
        if self.feature_names is not None:
            content.strings["feature_names"] = [str(name) for name in self.feature_names]
        self.labels.add_to(content, has_sets=True)


@dataclass(eq=False, repr=False, kw_only=True)
class StagedEstimator(
    LeastSquaresPredictions, ItemPredictions, CallbackSupportMixin, Estimator, Generic[StagesT]
):
    """Base of the estimators whose predictions are corrected stage by stage, under l2/2 ||W||^2, a ridge."""

    l2: float | None = field(default=1.0, kw_only=False)
    tol: float = 1e-3
    stop: str = "estimate"
    max_iter: int = 100
    max_seconds: float | None = None
    n_threads: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    warm_start: bool = False
    callback: Callable[..., object] | None = None
    fit_intercept: bool = True
    penalize_intercept: bool = False
    class_weight: Mapping | str | None = None
    early_stopping: bool | str = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    basis: Any = DEFAULT_POWERS

    PARAMETERS: ClassVar = LEAST_SQUARES_PARAMETERS
    TOL_ENDS_STAGES: ClassVar[bool] = False  # tol is the relative decrease of the loss of the last stage
    STOPS_BY_LOSS: ClassVar[bool] = (
        False  # early stopping follows the held-out squared error, not the accuracy
    )

    stages_ = Fitted("stages")
    validation_score_ = Fitted("validation_score", is_needed=True)

    @abstractmethod
    def _new_stages(self, blocks: Iterable[ItemTable], is_exclusive: bool) -> StagesT:
        """Return a model without stages, for rows that come in blocks."""

    @abstractmethod
    def _stored_stages(self, file: ModelFile, labels: LabelIndex, n_features: int) -> StagesT:
        """Return the stages of a model file."""

    @property
    def _stage_settings(self) -> dict[str, Any]:
        """Arguments of all lists of stages."""
        return {
            "l2": float(self.l2 or 0.0),
            "has_constant": bool(self.fit_intercept),
            "is_constant_free": bool(self.fit_intercept and not self.penalize_intercept),
            "basis": Basis(self.basis),
        }

    @with_fit_task
    def fit(
        self,
        X: ItemsLike,
        y: LabelsLike | None = None,
        sample_weight: SampleWeight = None,
        validation: tuple[ItemsLike, LabelsLike] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix, shape (n_items, n_features)
        y : array-like of labels, shape (n_items,), a table of 0 and 1, or label sets
        sample_weight : array-like, shape (n_items,), optional
            How often each item counts; 0 is the same as leaving it out.
        validation : tuple (X, y), optional
            Items on which every stage is scored (`validation_score_`); with `early_stopping` they decide how many
            stages are kept, instead of a part of the training items.

        Raises
        ------
        InputError, or another ValueError of scikit-learn's checks
        KeyboardInterrupt
            Ctrl-C; the model has the stages so far, and is usable.
        """
        self.check_parameters()
        X, targets, columns = read_training_rows(X, y, sample_weight, self)
        space, parts, reading = targets.space, [(X, targets)], self.with_model(columns)
        held_out = None if validation is None else HeldOut.from_items(reading, space, *validation)
        stops_early = (
            X.shape[0] >= MIN_ITEMS_FOR_SPLIT if self.early_stopping == AUTO else bool(self.early_stopping)
        )
        if held_out is None and stops_early:  # stages are learnt from a part, then as many from the whole
            rows, rest, held_out = split_off(X, targets, self.validation_fraction, self._seed)
            parts.insert(0, (rows, rest))

        def stream(rows: ItemTable, targets: Targets) -> ItemStream:
            weights = np.ones(rows.shape[0]) if targets.weights is None else targets.weights
            return ItemStream(lambda: iter([rows]), targets.labels, weights, True, pool)

        with Pool(self.n_threads) as pool:
            return self._learn_stages(columns, space, held_out, *(stream(*part) for part in parts))

    def fit_blocks(
        self,
        blocks: Iterable[tuple[ItemsLike, LabelsLike]],
        validation: tuple[ItemsLike, LabelsLike] | None = None,
    ) -> Self:
        """Train on data larger than memory.

        Parameters
        ----------
        blocks : iterable of (X, y)
            Iterated over repeatedly, with the same blocks each time: for example a list of memory-mapped parts, or an
            object whose `__iter__` opens files. A generator, which can be read only once, is an error.
        validation : tuple (X, y), optional
            As in `fit`; `early_stopping` needs it here.

        Notes
        -----
        Memory is O(n_items n_labels), and O(rows of a block x features of a stage). A linear or calibrated stage reads
        the blocks twice, a logistic one in every step.
        """
        self.check_parameters()
        if self.early_stopping != AUTO and self.early_stopping and validation is None:
            raise InputError("early_stopping: expected validation=(X, y) with blocks, got none")
        reading = self.with_model(Columns())
        sets = labels_of_blocks(blocks, reading)
        space = LabelIndex.flat(sets.classes, sets.form)
        held_out = None if validation is None else HeldOut.from_items(reading, space, *validation)
        weights = set_weights(None, self.class_weight, sets.classes, sets.table)
        weights = np.ones(sets.table.shape[0]) if weights is None else weights
        with Pool(self.n_threads) as pool:
            items = ItemStream(
                lambda: (validated(reading, canonical(X), reset=False, **MATRIX_CHECKS) for X, _ in blocks),
                self.targets_of_sets(sets), weights, False, pool,
            )  # fmt: skip
            return self._learn_stages(reading.model_, space, held_out, items)

    def _learn_stages(
        self,
        columns: Columns,
        space: LabelIndex,
        held_out: HeldOut | None,
        items: ItemStream,
        whole: ItemStream | None = None,
    ) -> Self:
        """Learn stages from items; then, if held-out items have determined their number, as many from all items."""
        started, trace = time.perf_counter(), Trace()
        limit = TimeLimit(self.max_seconds)
        deadline = limit.end
        stages = self._start_stages(columns, space, items)
        again = None if whole is None else self._start_stages(columns, space, whole)
        patience = self.n_iter_no_change if held_out is not None and self.early_stopping else None
        rules = StageRules(self.max_iter, deadline, patience, self.tol if self.TOL_ENDS_STAGES else None)
        callback, first = Callbacks(self), stages

        scores: list[float] = []

        def score(_: SparseWeights) -> float:
            assert held_out is not None
            accuracy, squared_error = held_out.score(first, items.pool)
            scores.append(accuracy)
            return -squared_error if self.STOPS_BY_LOSS else accuracy

        history = ValidationHistory(ValidationSet(score, 0.0, 0, "accuracy"))

        def add_stages(
            stages: StagesT, items: ItemStream, trace: Trace, rules: StageRules, is_watched: bool
        ) -> Status:
            predictions = stages.predictions_of(items)
            learner = stages.learn(items, predictions)
            while True:
                number, value = stages.n_stages, stages.loss(items, predictions)
                if is_watched:
                    history.evaluate(NO_WEIGHTS, number, value, np.nan)
                sizes, seconds = sum(table.size for table in stages.tables), time.perf_counter() - started
                row = Progress(
                    number, value, np.nan, np.nan, stages.n_features, sizes, float(number), seconds, False
                )
                trace.rows.append(row)
                is_stopped = bool(callback(row))
                if not np.isfinite(value):
                    return Status.DIVERGED
                status = Status.CALLBACK if is_stopped else rules.reason_to_stop(trace, history)
                if status is not None:
                    return status
                predictions = next(learner)

        try:
            with single_threaded_blas(), callback, limit:
                status = add_stages(stages, items, trace, rules, held_out is not None)
                stages.keep(rules.best(trace, history))
                if again is not None and status in (Status.STAGES_MADE, Status.MAX_ITER):
                    assert whole is not None
                    rules = StageRules(stages.n_stages, deadline)
                    again_trace = Trace()
                    ended = add_stages(again, whole, again_trace, rules, False)
                    # Replace the stages only now: an interrupt keeps those of the first run.
                    stages, trace = again, again_trace
                    stages.keep(rules.best(trace, history))
                    status = status if ended is Status.STAGES_MADE else ended
                if status.is_regular:
                    self._improve(stages, items if whole is None else whole, trace, started)
            self._keep_stages(columns, space, stages, trace, scores, status)
        except KeyboardInterrupt:  # the finished stages are kept
            self._keep_stages(columns, space, stages, trace, scores, Status.INTERRUPTED)
        except TimeIsUp:  # within a stage, which is lost
            status = Status.MAX_SECONDS if time.perf_counter() >= deadline else Status.CALLBACK
            self._keep_stages(columns, space, stages, trace, scores, status)
        result = self.model_.trained.result
        pass_on_interrupt(result)
        if not status.is_regular:
            warn_caller(f"{result.message} ({result.n_iter} stages)", ConvergenceWarning)
        return self

    def _start_stages(self, columns: Columns, space: LabelIndex, items: ItemStream) -> StagesT:
        """A model without stages; with `warm_start` a copy of the last fit's, if it has the same labels and columns."""
        if (
            self.warm_start
            and self.is_fitted
            and columns.n_features_in_ == self.n_features_in_
            and space.form == self.current_model.labels.form
            and np.array_equal(space.classes, self.classes_)
        ):
            stages = self.stages_.copied()
            stages.keep(self.max_iter)
            return stages
        return self._new_stages((rows for rows, _ in items.parts()), space.has_one_label)

    def _improve(self, stages: StagesT, items: ItemStream, trace: Trace, started: float) -> None:
        """Improve the weights of the stages of the model; the last row of the trace is then that of the result."""

    def _keep_stages(
        self,
        columns: Columns,
        space: LabelIndex,
        stages: StagesT,
        trace: Trace,
        scores: list[float],
        status: Status,
    ) -> None:
        """Take the model; `scores`: accuracy on the held-out items before any stage and after each."""
        rows = trace.rows
        last = rows[min(stages.n_stages - rows[0].iteration, len(rows) - 1)] if rows else None
        result = Result(
            NO_COORDS,
            NO_VALUES,
            value=np.nan if last is None else last.value,
            gap=np.nan,
            violation=np.nan,
            status=status,
            passes=0.0 if last is None else rows[-1].passes,
            n_iter=stages.n_stages,
            seconds=0.0 if last is None else rows[-1].seconds,
            trace=trace,
        )
        self.model_ = StagedModel(
            kind=self.KIND,
            classes_=space.classes,
            n_features_in_=columns.n_features_in_,
            trained=Trained(
                result, {"l1": 0.0, "l2": float(self.l2 or 0.0), "group_l1": 0.0}, self.stored_parameters()
            ),
            labels=space,
            stages=stages,
            feature_names=columns.feature_names,
            validation_score=np.array(scores) if scores else None,
        )

    @property
    def _seed(self) -> int:
        """A seed drawn from `random_state`; None is one, too."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _probabilities(self, scores: Vector) -> Vector:
        return self.stages_.probabilities(scores)

    def checked_items(self, X: ItemsLike) -> Any:
        X = super().checked_items(X)
        return X.tocsr() if hasattr(X, "tocsr") else X

    def class_scores(self, X: ItemsLike) -> Iterator[Vector]:
        X = self.checked_items(X)
        with single_threaded_blas(), Pool(self.n_threads) as pool:
            for first in range(0, X.shape[0], PREDICTION_ROWS):
                *_, last = self.stages_.replay(X[first : first + PREDICTION_ROWS], len(self.classes_), pool)
                yield last

    def _staged_scores(self, X: ItemsLike) -> Iterator[Vector]:
        """Yield the scores of all items after each stage, (K, I)."""
        X = self.checked_items(X)
        with single_threaded_blas(), Pool(self.n_threads) as pool:
            predictions = self.stages_.replay(X, len(self.classes_), pool)
            next(predictions)
            yield from predictions

    def staged_decision_function(self, X: ItemsLike) -> Iterator[Vector]:
        """Yield `decision_function(X)` after each stage."""
        for scores in self._staged_scores(X):
            yield scores[1] - scores[0] if self.is_exclusive and len(scores) == 2 else scores.T

    def staged_predict(self, X: ItemsLike) -> Iterator[NDArray]:
        """Yield `predict(X)` after each stage."""
        for scores in self._staged_scores(X):
            if self.is_exclusive:
                yield self.classes_[scores.argmax(axis=0)]
            else:
                yield self.as_table(self.chosen_labels(scores.T))

    def staged_predict_proba(self, X: ItemsLike) -> Iterator[Vector]:
        """Yield `predict_proba(X)` after each stage."""
        for scores in self._staged_scores(X):
            yield self._shown(scores)

    def all_weights(self) -> SparseWeights:
        """Return all weights of all stages, one after the other."""
        weights = np.concatenate([np.empty(0), *(table.ravel() for table in self.stages_.tables)])
        return SparseWeights(np.arange(weights.size), weights)

    def check_parameters(self) -> None:
        super().check_parameters()
        Basis(self.basis)

    def model_of_file(self, file: ModelFile) -> StagedModel:
        labels = LabelIndex.of_file(file, has_sets=True)
        n_features = read_size(file, labels.n_nodes)
        return StagedModel(
            kind=self.KIND,
            classes_=labels.classes,
            n_features_in_=n_features,
            trained=Trained.of_file(file),
            labels=labels,
            stages=self._stored_stages(file, labels, n_features),
            feature_names=read_names(file, n_features),
        )

    def stored_parameters(self) -> dict[str, Any]:
        basis = [int(power) for power in self.basis] if Basis(self.basis).is_powers else self.basis
        return super().stored_parameters() | {"basis": basis}

    @staticmethod
    def check_stored(settings: Mapping[str, Any]) -> None:
        if not isinstance(settings["basis"], list):
            raise InputError(
                f"basis: a model file holds powers, and no transformers; got {settings['basis']!r}"
            )

    @classmethod
    def from_stored(cls, settings: dict[str, Any]) -> Self:
        Basis(settings["basis"])
        return super().from_stored(settings | {"basis": tuple(settings["basis"])})
