"""The steps of a fit, which need the parameters of an estimator but no fitted model:

    encode(data, settings) -> Encoded               the labelled items, and the space of their weights
    pose(encoded, settings) -> Problem              the objective, the penalty and the start
    run_training(problem, settings) -> Training     the training, by `minimize`

`chain_data.py` and `item_data.py` encode the data of chains and single items. This file has the other steps, callbacks,
held-out items and the warnings at the end of a training. A `Source` has items in memory, in blocks on disk, or in
shards on workers (`sharded_chain.py`). Shapes: I items, N positions, K states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from crfqn.arrays import NO_COORDS, NO_WEIGHTS, Coords, Labels, SparseWeights, Vector
from crfqn.data.features import FeatureStore
from crfqn.data.inputs import ItemsLike, LabelsLike
from crfqn.errors import InputError, warn_caller, without_item_warnings
from crfqn.estimators.automatic import (
    Strengths,
    chosen_strengths,
    described,
    learns_from_mistakes,
    with_data_by_feature,
)
from crfqn.estimators.blocks import Block, Blocks
from crfqn.estimators.checkpoint import Checkpoint
from crfqn.estimators.settings import Settings, named_scorer
from crfqn.messages import named_places, tell, validation_places
from crfqn.model.space import Space
from crfqn.objectives.linear.feature_map import FeatureMap, centered_weights, uncentered_weights
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import build_objective
from crfqn.objectives.part import Part
from crfqn.objectives.support import Support
from crfqn.penalties import Ridge
from crfqn.penalties.penalty import Layout
from crfqn.progress import ProgressDisplay, telling_of_compilation
from crfqn.result import Progress, Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import Objective, Penalty
from crfqn.solvers.stopping import Run, ValidationSet
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised
from crfqn.threads import Pool, single_threaded_blas

Validation: TypeAlias = "tuple[ItemsLike, LabelsLike] | None"


class Source(ABC):
    """Labelled items in memory, on disk or on workers."""

    @abstractmethod
    def objective(self, support: Support | None, pool: Pool) -> Objective:
        """Return the loss of the items as a function of the weights on a support, None for all weights."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """The labelled items of a training.

    space : of the weights; n_positions : N
    support : the weights that may be other than 0, None for all
    keeps_source : whether the items are needed after the training of the weights
    """

    space: Space
    source: Source
    n_positions: int
    support: Support | None = None
    keeps_source: bool = False


@dataclass(frozen=True, eq=False)
class InMemory(Source):
    """Items in memory.

    weights : of the items, (I,), None if all are 1
    offset : scores added to those of the weights, (K, N), None for 0
    """

    features: FeatureMap
    loss: ScoreLoss
    weights: Vector | None
    offset: Vector | None = None

    def objective(self, support: Support | None, pool: Pool) -> Objective:
        self.features.pool = pool
        return build_objective(self.features, self.loss, self.weights, support, self.offset)


@dataclass(frozen=True, eq=False)
class OnDisk(Source):
    """Items in blocks of a folder; loss_of : makes the loss of the features and labels of a block."""

    blocks: Blocks
    loss_of: Callable[[FeatureStore, Labels], ScoreLoss]
    has_constant: bool = False

    def objective(self, support: Support | None, pool: Pool) -> Objective:
        def make(block: Block, pool: Pool) -> Part:
            store = block.store.with_constant() if self.has_constant else block.store
            return Part(SparseMap(store, pool), self.loss_of(store, block.targets), block.weights, support)

        return self.blocks.objective(make, pool)


@dataclass(eq=False)
class Problem:
    """A fit before its training: the objective, the penalty and the start.

    space : labels and features of the weights
    features : the feature map of the items, of the first part if there are several; it may centre features
    objective, penalty : the two terms, under `strengths`; `objective.pool` has one thread unless it is set
    intercepts : the coordinates that are never penalised
    source : the items if they are needed after the training of the weights, else None, so that they may be freed
    """

    space: Space
    features: FeatureMap
    objective: Any  # Objective, or a problem of its own such as `BoundedLoss`
    penalty: Any
    strengths: Strengths
    start: SparseWeights
    intercepts: Coords = field(default_factory=lambda: NO_COORDS)
    validation: ValidationSet | None = None
    source: Any = None

    @property
    def has_free_features(self) -> bool:
        """Whether features, not only intercepts, are unpenalised. Lower bounds of the optimum are then not proved in
        general."""
        return bool(self.penalty.unpenalised.size > self.intercepts.size)

    def uncentered_weights(self, result: Result) -> SparseWeights:
        """Return the weights of a result for the features before centring."""
        return uncentered_weights(self.features, SparseWeights(result.coords, result.weights))


def pose(
    encoded: Encoded,
    settings: Settings,
    start: SparseWeights | None = None,
    validation: ValidationSet | None = None,
) -> Problem:
    """Return the problem of encoded items; `start` and `validation` refer to features before centring."""
    space = encoded.space
    with single_threaded_blas(), Pool(settings.n_threads) as pool:
        objective = encoded.source.objective(encoded.support, pool)
        features: FeatureMap = objective.first.map
        n_features, n_states, intercepts = features.n_features, objective.n_states, space.unpenalised
        dense = (n_features * np.arange(n_states)[:, None] + np.arange(space.n_dense)).reshape(-1)
        strengths = chosen_strengths(settings.strengths_asked, objective, intercepts, dense)
        if (
            settings.verbose
            and strengths != settings.strengths_asked
            and not learns_from_mistakes(settings.solver)
        ):
            tell(f"strengths: {described(strengths)}")
        layout = with_data_by_feature(settings, space, Layout(n_features, n_states, intercepts))
        penalty: Any = settings.penalty_of(strengths, layout)
        if dense.size:
            penalty = replace(penalty, ridge=Ridge(dense, float(settings.dense_l2)))
        objective.pool = Pool(1)  # the pool of the `with` block closes
    start = start_within(encoded.support, start)
    begin = NO_WEIGHTS if start is None else centered_weights(features, start)
    if validation is not None:
        score = validation.score
        validation = replace(validation, score=lambda weights: score(uncentered_weights(features, weights)))
    source = encoded.source if encoded.keeps_source else None
    return Problem(space, features, objective, penalty, strengths, begin, intercepts, validation, source)


class Training(NamedTuple):
    """The result of a training, with the weights for centred features, and the reason if all penalised weights are 0,
    else None."""

    result: Result
    reason_of_empty: str | None


def run_training(
    problem: Problem, settings: Settings, callbacks: AbstractContextManager[Callable[[Progress], bool]]
) -> Training:
    """Minimise the objective and the penalty of a problem."""
    solver = settings.make_solver()
    checkpoint = None
    if settings.checkpoint is not None:
        checkpoint = Checkpoint(settings.checkpoint, settings.checkpoint_every)
        if settings.verbose and checkpoint.exists:
            tell(f"found {checkpoint.path}")
    with single_threaded_blas(), Pool(settings.n_threads) as pool, callbacks as callback:
        problem.objective.pool = pool
        result = minimize(
            problem.objective,
            problem.penalty,
            solver,
            Run(
                start=problem.start,
                tol=settings.tol_,
                stop=settings.stop,
                max_iter=settings.max_iter,
                max_seconds=settings.max_seconds,
                callback=callback,
                to_rounding=True,
                held_out=problem.validation,
                checkpoint=checkpoint,
            ),
        )
        return Training(result, reason_of_empty(problem.objective, problem.penalty, result))


def start_within(support: Support | None, start: SparseWeights | None) -> SparseWeights | None:
    """Return the weights of a start that are on a support."""
    if start is None or support is None:
        return start
    stays = support.contains(start.coords)
    return SparseWeights(start.coords[stays], start.weights[stays])


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty substitute for scikit-learn's mixin: estimators have no `set_callbacks` then."""

    HAS_CALLBACKS = False

OPTIMAL_STATUSES = (Status.CONVERGED, Status.ESTIMATED, Status.STATIONARY)
Fit = TypeVar("Fit", bound=Callable[..., Any])


def with_fit_task(fit: Fit) -> Fit:
    """Return a `fit(self, X, y, ...)` that reports its beginning and end to scikit-learn's callbacks, if the estimator
    has any, and if it is verbose, the compilation of kernels to stderr."""

    @wraps(fit)
    def reporting(
        self: Any, X: ItemsLike, y: LabelsLike | None = None, *others: object, **named: object
    ) -> Any:
        with telling_of_compilation() if self.verbose else nullcontext():
            if not (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
                return fit(self, X, y, *others, **named)
            context = self._init_callback_context(max_subtasks=self.max_iter)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            fitted = fit(self, X, y, *others, **named)
            context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
            return fitted

    return cast(Fit, with_callbacks(reporting) if HAS_CALLBACKS else reporting)


class Callbacks:
    """All callbacks of a training: the estimator's, the progress display and scikit-learn's callbacks.

    is_watched : whether held-out items are scored

    Each iteration is a task of scikit-learn's callbacks, reported once.
    """

    def __init__(self, estimator: BaseEstimator, is_watched: bool = False) -> None:
        self.estimator, self.n_reported = estimator, 0
        self.context = getattr(estimator, "_callback_fit_ctx", None)
        is_sent = getattr(estimator, "dask_client", None) is not None
        self.display = ProgressDisplay(None, is_watched, is_sent) if estimator.verbose else None

    def __call__(self, record: Progress) -> bool:
        estimator, stops = self.estimator, False
        if self.display:
            self.display(record)
        if self.context is not None and self.n_reported < record.iteration <= estimator.max_iter:
            self.n_reported = record.iteration
            task = self.context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=estimator)
            stops = bool(task.call_on_fit_task_end(estimator=estimator))
        return (estimator.callback is not None and bool(estimator.callback(record))) or stops

    def __enter__(self) -> Callbacks:
        if self.display:
            self.display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.display:
            self.display.__exit__(*error)


def check_validation(validation: object) -> tuple[Any, Any]:
    """Return X and y of a pair `validation`; InputError for anything else."""
    if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
        raise InputError(f"validation: expected a pair (X, y), got {type(validation).__name__}")
    return validation[0], validation[1]


def make_validation_set(
    estimator_of: Callable[[SparseWeights], BaseEstimator],
    settings: Settings,
    X: ItemsLike,
    y: LabelsLike,
    cost: float,
) -> ValidationSet:
    """Return the held-out items X with labels y, and their scorer.

    estimator_of : returns the fitted estimator of weights
    cost : of an evaluation, in passes over the training data
    """
    name, scorer = named_scorer(settings.scoring, settings.default_scores)

    def score(weights: SparseWeights) -> float:
        with named_places(validation_places()), without_item_warnings():
            return float(scorer(estimator_of(weights), X, y))

    return ValidationSet(score, cost, settings.patience, name, (X, y))


def warn_of_end(result: Result, tol: float, is_convex: bool) -> None:
    """Warn of a training that has not converged. Without convexity, a stationary point counts as converged."""
    ends_well = result.status.is_regular or (result.status is Status.STATIONARY and not is_convex)
    if ends_well or result.status is Status.INTERRUPTED:
        return
    distance = f"no certified gap, largest violation {result.violation:.2g}"
    if np.isfinite(result.gap):
        distance = f"relative gap {result.gap:.2g}"
    if not np.isnan(result.estimated_gap):
        distance += f", by estimate {result.estimated_gap:.2g}"
    warn_caller(f"{result.message} ({distance}, tol {tol:g}, {result.n_iter} iterations)", ConvergenceWarning)


def pass_on_interrupt(result: Result) -> None:
    """Raise the KeyboardInterrupt that ended a training, so that searches over models stop too; the model is kept."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def reason_of_empty(objective: Objective, penalty: Penalty, result: Result) -> str | None:
    """Return the reason why all penalised weights of an optimum are zero, with the largest useful strength; None if
    some are not, or if no weight would change the loss, as with one label."""
    is_kept = ~penalty.is_smooth(result.coords)
    is_empty = (
        penalty.min_threshold > 0 and result.status in OPTIMAL_STATUSES and not result.weights[is_kept].any()
    )
    if not is_empty:
        return None
    name = "group_l1" if getattr(penalty, "group_l1", 0.0) > 0 else "l1"
    if not objective.has_curvature:  # a subgradient does not determine the largest useful strength
        advice = "choose a smaller one"
    else:
        point = solve_unpenalised(objective.at(result.coords, result.weights), penalty.unpenalised)
        largest = largest_strength(name, objective, penalty, point)
        if largest == 0.0 and name == "group_l1" and penalty.l1 > 0:  # l1 alone is too strong
            name, largest = "l1", largest_strength("l1", objective, penalty, point)
        if largest == 0.0:
            return None
        advice = f"the largest useful {name} is {largest:.4g}"
    which = "all weights of sparse features" if penalty.ridge.coords.size else "all weights"
    return f"{which} are zero under {name} = {getattr(penalty, name):.4g}; {advice}"
