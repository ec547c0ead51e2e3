"""Base of the models that are made of stages: training with a monitor, predictions that replay the stages.

Shapes: I items, K labels; tables are float64 (K, I), a column an item.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Generic, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from crfqn.arrays import SparseWeights, Vector
from crfqn.data.csc_builder import check_sparse
from crfqn.errors import InputError
from crfqn.estimators.base import pass_on_interrupt
from crfqn.estimators.checks import check_flags, check_size, is_number
from crfqn.estimators.classification.items import adopt_columns
from crfqn.estimators.features import item_features
from crfqn.estimators.least_squares.base import LeastSquaresModel
from crfqn.estimators.least_squares.staged.data import Items
from crfqn.estimators.least_squares.staged.held_out import Held, split_off
from crfqn.estimators.least_squares.staged.monitoring import Monitor, Rules
from crfqn.estimators.least_squares.staged.stage_list import StagesT, copy_stages, replayed
from crfqn.estimators.least_squares.staged.stream import Stream
from crfqn.estimators.ranking.label_sets import SetSpace
from crfqn.estimators.training.blas import single_threaded_blas
from crfqn.estimators.training.callbacks import with_tasks
from crfqn.result import Result, Status
from crfqn.threads import Pool

ROWS = 1 << 15  # predicted at a time


@dataclass(eq=False, repr=False, kw_only=True)
class StagedModel(LeastSquaresModel, Generic[StagesT]):
    """Base of the estimators whose predictions are corrected stage by stage."""

    solver: Any = field(default="auto", init=False)
    scoring: Any = field(default=None, init=False)
    patience: int = field(default=10, init=False)
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5

    SOLVERS: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def _new_stages(self, blocks: Iterable[Any], is_exclusive: bool) -> StagesT:
        """Return a model without stages, for rows that come in blocks."""

    @property
    def _stopping_tolerance(self) -> float | None:
        """The relative decrease of the training loss below which a stage is the last, or None."""
        return None

    @with_tasks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
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
        self._check_parameters()
        checked = copy(self)
        X, targets = self._read(checked, X, y, sample_weight)
        space = targets.space
        assert isinstance(space, SetSpace)  # as SetLabels reads them
        held = None if validation is None else self._held(checked, space, *validation)
        if held is None and self.early_stopping:
            X, targets, held = split_off(X, targets, self.validation_fraction, self._seed)
        with Pool(self.n_threads) as pool:
            check_size(item_features(X, False, pool))
            weights = np.ones(X.shape[0]) if targets.weights is None else targets.weights
            items = Items(lambda: iter([X]), targets.labels, weights, True, pool)
            return self._learn_stages(checked, space, items, held)

    def fit_blocks(self, blocks: Iterable[tuple[Any, Any]], validation: Any = None) -> Self:
        """Train on data larger than memory.

        Parameters
        ----------
        blocks : iterable of (X, y)
            Is iterated over again and again, with the same blocks each time: a list of memory-mapped parts, say, or an
            object whose `__iter__` opens files. A generator, which can be read once only, is refused.
        validation : tuple (X, y), optional
            As in `fit`; `early_stopping` needs it here.

        Notes
        -----
        Memory is O(n_items n_labels), and O(rows of a block x features of a stage). A linear or calibrated stage reads
        the blocks twice, a logistic one in every step.
        """
        self._check_parameters()
        if self.early_stopping and validation is None:
            raise InputError("early_stopping: expected validation=(X, y) beside blocks, got none")
        checked = copy(self)
        stream = Stream(blocks)
        sets = stream.read_labels(checked)
        space = SetSpace.of(sets.classes, sets.form)
        held = None if validation is None else self._held(checked, space, *validation)
        with Pool(self.n_threads) as pool:
            weights = stream.item_weights(self.class_weight, sets)
            items = Items(stream.rows, self._targets_of(sets), weights, False, pool)
            return self._learn_stages(checked, space, items, held)

    def _learn_stages(self, checked: Any, space: SetSpace, items: Items, held: Held | None) -> Self:
        stages = self._start_stages(checked, space, items)
        patience = self.n_iter_no_change if self.early_stopping else None
        rules = Rules(self.max_iter, self.max_seconds, patience, self._stopping_tolerance)
        callback = self._display()
        monitor = Monitor(rules, callback, stages.n_stages)
        try:
            with single_threaded_blas(), callback:
                status = self._add_stages(stages, items, held, monitor)
            self._keep_stages(checked, space, stages, monitor, status)
        except KeyboardInterrupt:  # in whatever it was, what has been learnt is kept
            self._keep_stages(checked, space, stages, monitor, Status.INTERRUPTED)
        pass_on_interrupt(self.result_)
        return self

    def _add_stages(self, stages: StagesT, items: Items, held: Held | None, monitor: Monitor) -> Status:
        """Learn one stage after the other until the monitor says why it was the last."""

        def watch(predictions: Vector) -> Status | None:
            score = None if held is None else held.score(stages, items.pool)
            n_weights = sum(table.size for table in stages.tables())
            return monitor.record(stages.loss(items, predictions), stages.n_features, n_weights, score)

        predictions, learner = replayed(stages, items), stages.learner(items)
        status = watch(predictions)
        while status is None:
            predictions = learner.learn(predictions)
            status = watch(predictions)
        return status

    def _keep_stages(
        self, checked: Any, space: SetSpace, stages: StagesT, monitor: Monitor, status: Status
    ) -> None:
        """Set all fitted attributes."""
        stages.keep(stages.n_stages if status is Status.INTERRUPTED else monitor.best)
        self._adopt_labels(space)
        adopt_columns(self, checked)
        self.stages_ = stages
        self._keep_record(monitor, status)

    def _start_stages(self, checked: Any, space: SetSpace, items: Items) -> StagesT:
        """A model without stages; with `warm_start` a copy of the last fit's, if it has the same labels and columns."""
        old = getattr(self, "stages_", None) if self.warm_start else None
        if old is not None:
            same = space.form == self._form and np.array_equal(space.classes, self.classes_)
            if same and checked.n_features_in_ == self.n_features_in_:
                old = copy_stages(old)
                old.keep(self.max_iter)
                return old
        rows = (rows for rows, _ in items.parts())
        return self._new_stages(rows, space.form == "labels")

    def _keep_record(self, monitor: Monitor, status: Status) -> None:
        """The result of a training, and the scores on held-out items."""
        coords, weights = self._weights()
        rows = monitor.trace.rows
        last = rows[min(self.stages_.n_stages - monitor.first, len(rows) - 1)] if rows else None
        self.n_iter_ = self.stages_.n_stages
        self.result_ = Result(
            coords=coords,
            weights=weights,
            value=np.nan if last is None else last.value,
            gap=np.nan,
            violation=np.nan,
            status=status,
            passes=0.0 if last is None else rows[-1].passes,
            n_iter=self.n_iter_,
            seconds=0.0 if last is None else rows[-1].seconds,
            trace=monitor.trace,
        )
        self.__dict__.pop("validation_score_", None)
        if monitor.scores:
            self.validation_score_ = np.array(monitor.scores)

    @property
    def _seed(self) -> int:
        """A seed drawn from `random_state`; None is one, too."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _held(self, checked: Any, space: SetSpace, X: Any, y: Any) -> Held:
        """Items of one's own to score stages on."""
        check_sparse(X)
        X = validate_data(checked, X, reset=False, accept_sparse=("csr", "csc"), dtype="numeric")
        return Held.of(X, y, space)

    def _probabilities(self, scores: Vector) -> Vector:
        return self.stages_.probabilities(scores)

    def _class_scores(self, X: Any) -> Iterator[Vector]:
        X = self._checked_rows(X)
        with single_threaded_blas(), Pool(self.n_threads) as pool:
            for first in range(0, X.shape[0], ROWS):
                rows = X[first : first + ROWS]
                *_, last = self._replay(rows, pool)
                yield last

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        check_sparse(X)
        X = validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype="numeric")
        return X.tocsr() if hasattr(X, "tocsr") else X

    def _replay(self, rows: Any, pool: Pool) -> Iterator[Vector]:
        """Yield the predictions (margins) before any stage and after each, (K, rows)."""
        predictions = np.zeros((len(self.classes_), rows.shape[0]))
        yield predictions
        prepared = self.stages_.prepare(rows, pool)
        for number in range(self.stages_.n_stages):
            predictions = self.stages_.advance(prepared, number, predictions)
            yield predictions

    def _staged_scores(self, X: Any) -> Iterator[Vector]:
        """Yield the scores of all items after each stage, (K, I)."""
        X = self._checked_rows(X)
        with single_threaded_blas(), Pool(self.n_threads) as pool:
            found = self._replay(X, pool)
            next(found)
            yield from found

    def staged_decision_function(self, X: Any) -> Iterator[Vector]:
        """Yield `decision_function(X)` after each stage."""
        for scores in self._staged_scores(X):
            is_binary = self._is_exclusive and len(self.classes_) == 2
            yield scores[1] - scores[0] if is_binary else scores.T

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield `predict(X)` after each stage."""
        for scores in self._staged_scores(X):
            if self._is_exclusive:
                yield self.classes_[scores.argmax(axis=0)]
            else:
                yield self._as_table(self._chosen(scores.T))

    def staged_predict_proba(self, X: Any) -> Iterator[Vector]:
        """Yield `predict_proba(X)` after each stage."""
        for scores in self._staged_scores(X):
            yield self._shown(scores)

    def _weights(self) -> SparseWeights:
        """All weights of all stages, one after the other."""
        weights = np.concatenate([np.empty(0), *(table.ravel() for table in self.stages_.tables())])
        return SparseWeights(np.arange(weights.size), weights)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flags(self, "early_stopping")
        if not (is_number(self.validation_fraction) and 0 < self.validation_fraction < 1):
            raise InputError(
                f"validation_fraction: expected a number between 0 and 1, got {self.validation_fraction!r}"
            )
        check_count("n_iter_no_change", self.n_iter_no_change)


def check_count(name: str, value: Any) -> None:
    """Refuse a parameter that is no whole number from 1 on."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}: expected an integer >= 1, got {value!r}")
