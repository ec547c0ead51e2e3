"""`crf_path`: trains models for many strengths of the penalty and selects the best, at little more than the cost of
one.

With items to score, the grid lies around the strengths that `fit` would use, and each training starts at the optimum of
a neighbour (`LocalGrid`). On a path, the strengths descend from l1_max, the smallest strength under which all weights
are zero. Each training starts at the optimum of the previous strength and uses the weights that the strong rule keeps
(`solvers.strong_rule`). The data are encoded once for all strengths, and once for each fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import _safe_indexing as take

from crfqn.arrays import SparseWeights
from crfqn.data.encoding import Sequences, encode_sequences
from crfqn.data.inputs import ItemsLike, LabelsLike, SampleWeight
from crfqn.data.label_arrays import split_by_item
from crfqn.errors import InputError, warn_caller, without_item_warnings
from crfqn.estimators.automatic import AUTO, Strengths, chosen_strengths
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.estimator import Estimator, fitted_under
from crfqn.estimators.multilabel_targets import are_sets
from crfqn.estimators.problem import Problem
from crfqn.estimators.settings import Settings
from crfqn.messages import Where, named_places, places_among, validation_places
from crfqn.objectives.linear.feature_map import centered_weights
from crfqn.objectives.point import Point
from crfqn.regularization_path.grid import INNER_TOL_FACTOR, Grid, LocalGrid, RegularizationPath
from crfqn.result import OPTIMUM_TOL, Result, Status
from crfqn.solvers.minimize import minimize
from crfqn.solvers.protocols import Solver
from crfqn.solvers.stopping import Run
from crfqn.solvers.strong_rule import StrongRule
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised
from crfqn.threads import Pool, single_threaded_blas

Score: TypeAlias = Callable[[Estimator], float]
Scorer: TypeAlias = Callable[..., float]  # called with an estimator, X and y
Splitter: TypeAlias = "int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]"
GridValues: TypeAlias = "NDArray[np.float64] | list[Strengths]"  # of a `Grid` and a `LocalGrid`


@dataclass
class PreparedPath:
    """The problem and the solver of all trainings of a path or local grid.

    settings : unfitted estimator with the parameters that all trainings share
    parameter : of a path, "l1" or "group_l1", which descends; "" for a local grid
    l1_max : of a path, the smallest value of the parameter under which all penalised weights are zero
    point : of a path, its start: penalised weights 0, all other weights optimal
    automatic : of a path, the value of the parameter that "auto" stands for
    """

    settings: Estimator
    problem: Problem
    solver: Solver
    parameter: str = ""
    point: Point | None = None
    l1_max: float = np.nan
    automatic: float = np.nan


@contextmanager
def prepare_path(
    estimator: Estimator,
    X: ItemsLike,
    y: LabelsLike | None,
    sample_weight: SampleWeight = None,
    path_parameter: str | None = "l1",
) -> Iterator[PreparedPath]:
    """Prepare the trainings of a path over a parameter, or of a local grid if it is None. The threads stop at the end
    of the `with` block."""
    estimator.check_parameters()
    if estimator.checkpoint is not None:
        raise InputError(
            f"checkpoint: expected None, as paths and grids write none, got {estimator.checkpoint!r}"
        )
    solver, changes = estimator.make_solver(), {}
    if path_parameter is not None:
        changes = {path_parameter: 1.0, "tol": estimator.tol_or(OPTIMUM_TOL)}
    quiet = {"verbose": 0, "callback": None, "warm_start": False}
    settings = clone(estimator).set_params(**quiet, **changes)
    problem = settings.prepare(X, y, sample_weight)
    del X, y
    # `clone` copies the callback: set the user's own object again.
    settings.set_params(**{name: getattr(estimator, name) for name in quiet})
    objective, penalty = problem.objective, problem.penalty
    with single_threaded_blas(), Pool(estimator.n_threads) as pool:
        objective.pool = pool
        if path_parameter is None:
            yield PreparedPath(settings, problem, solver)
            return
        point = solve_unpenalised(objective.at(*problem.start), penalty.unpenalised)
        strengths = chosen_strengths(
            {path_parameter: AUTO}, objective, problem.intercepts, penalty.ridge.coords
        )
        l1_max = largest_strength(path_parameter, objective, penalty, point)
        if l1_max == 0.0:
            raise InputError(
                f"{path_parameter}: expected features that differ between labels, but no weight would change the loss"
            )
        automatic = float(strengths[path_parameter])
        yield PreparedPath(settings, problem, solver, path_parameter, point, l1_max, automatic)


@dataclass(frozen=True, eq=False)
class PathStep:
    """The training under one value: a fitted model, its score on the validation items (nan without these), and
    `n_screening_violations`, the weights excluded by the strong rule and added by the check of all gradients."""

    model: Estimator
    score: float
    n_screening_violations: int = 0

    @property
    def is_cut_off(self) -> bool:
        """Whether the user or a callback has ended the training, which ends the path."""
        return self.model.result_.status.is_by_user


def solve_path(
    prepared: PreparedPath, values: NDArray[np.float64], grid: Grid, score: Score = lambda model: np.nan
) -> Iterator[PathStep]:
    """Train under each of the descending values and yield each step; end after an interrupt."""
    point: Any = prepared.point
    previous = max(prepared.l1_max, float(values[0]))
    next_values, last_tol = np.append(values[1:], 0.0), float(prepared.settings.tol)
    for value, following in zip(values.tolist(), next_values.tolist(), strict=True):
        inner_tol = INNER_TOL_FACTOR * last_tol if grid.inner_tol is None else grid.inner_tol
        tol = inner_tol if following > 0 else last_tol
        rule = StrongRule(prepared.solver, previous, following, tol)
        strengths = {prepared.parameter: value}
        run = Run(start=point, tol=tol, counts_proved_zeros=following == 0)
        result = train_under(prepared, strengths, rule, run)
        model = fitted(prepared, strengths, result)
        yield (step := PathStep(model, score(model), rule.n_screening_violations))
        if step.is_cut_off:
            return
        point, previous = rule.point, value
        if point is None or point.coords is not result.coords:
            point = prepared.problem.objective.at(result.coords, result.weights)


def solve_local_grid(prepared: PreparedPath, values: Sequence[Strengths], score: Score) -> Iterator[PathStep]:
    """Train under each of the strengths, from the optimum of the nearest earlier ones, and yield each step; end after
    an interrupt. The tolerance is that of `fit`, so that scores are those of its models."""
    tol, stop = prepared.settings.tol_, prepared.settings.stop
    run = Run(tol=tol, stop=stop, counts_proved_zeros=False, to_rounding=True)
    solved: list[tuple[NDArray[np.float64], SparseWeights]] = []
    for strengths in values:
        logs = np.log([*strengths.values()])
        start = prepared.problem.start
        if solved:
            _, start = min(solved, key=lambda optimum: float(np.square(optimum[0] - logs).sum()))
        result = train_under(prepared, strengths, prepared.solver, replace(run, start=start))
        solved.append((logs, SparseWeights(result.coords, result.weights)))
        model = fitted(prepared, strengths, result)
        yield (step := PathStep(model, score(model)))
        if step.is_cut_off:
            return


def train_under(prepared: PreparedPath, strengths: Strengths, solver: Solver, run: Run) -> Result:
    """Train under these strengths, within the limits of the estimator; return the result."""
    problem, settings = prepared.problem, prepared.settings
    limits = {name: getattr(settings, name) for name in ("max_iter", "max_seconds", "callback")}
    if problem.has_free_features:
        limits["stop"] = "estimate"
    penalty = problem.penalty.with_strengths(**strengths)
    return minimize(problem.objective, penalty, solver, replace(run, **limits))


def fitted(prepared: PreparedPath, strengths: Strengths, result: Result) -> Estimator:
    """Return the estimator fitted under these strengths, with the weights of `result`; all such estimators share their
    labels and names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `crf_path` gives one warning for all
        return fitted_under(prepared.settings, prepared.problem, result, strengths)


def crf_path(
    estimator: Estimator,
    X: ItemsLike,
    y: LabelsLike,
    *,
    grid: LocalGrid | Grid | None = None,
    sample_weight: SampleWeight = None,
    validation: tuple[ItemsLike, LabelsLike] | None = None,
    cv: Splitter | None = None,
    groups: ArrayLike | None = None,
    scoring: str | Scorer | None = None,
    callback: Callable[[PathStep], object] | None = None,
) -> RegularizationPath:
    """Train an estimator under many strengths of its penalty, and choose by scores.

    Parameters
    ----------
    estimator : ChainCRF, TaxonomyCRF, MulticlassCRF, MulticlassClassifier or MultilabelRanker
        The other parameters are those of the estimator, which is not changed. `max_iter` and `max_seconds` are limits
        for each value. The best model is proved to be within the estimator's tolerance of the optimum whatever `stop`
        is ("auto": 1e-3); for the precision of the others see the grid.
    X, y, sample_weight
        As in its `fit`. X and y have one entry an item; flat labels of positions are split by item.
    grid : LocalGrid or Grid, optional
        The values, the tolerance for each, and when to stop early. The default with `validation` or `cv` is
        `LocalGrid()`: l1 and l2 around those that `fit` would use. The default without them is `Grid()`: a path of l1
        (or of group_l1) from the largest useful value down, without the l2 that is added to an automatic l1.
    validation : (X, y), optional
        Items to score each model on.
    cv : int, scikit-learn splitter or iterable of (train, test), optional
        Score by cross-validation over whole items instead. All folds are trained under the same strengths, which are
        not scaled by the fraction of the items that a fold trains on, as in scikit-learn's searches. An integer makes
        scikit-learn's folds in the order of the items: use `KFold(5, shuffle=True, random_state=0)` for sorted items.
        The models of the path are trained on all items. All folds are in memory together.
    groups : array-like, optional, for splitters that keep groups of items together
    scoring : str or callable(estimator, X, y), optional
        The estimator's `score` by default.
    callback : callable, optional
        It is called with the `PathStep` of each value for the training on all items, not for the folds.

    Returns
    -------
    RegularizationPath
        It ends early by `patience`, by an interrupt, or when the estimator's callback stops a training. With
        `LocalGrid` and `cv`, the best model is that of the default strengths unless another mean over the folds is
        better by more than two standard errors; the sentence `comparison` compares them.

    Raises
    ------
    InputError
        Invalid data or parameters.

    Warns
    -----
    ConvergenceWarning
        Values that did not reach their tolerance.
    UserWarning
        The best score is at an end of the grid, so that values beyond it may be better (`note` of the path).

    Examples
    --------
    >>> from crfqn import MulticlassCRF, crf_path
    >>> from crfqn.regularization_path import Grid
    >>> X = [[2, 0, 0], [1, 0, 0], [0, 2, 0], [0, 1, 1], [0, 0, 3], [0, 0, 1]]
    >>> path = crf_path(MulticlassCRF(), X, ["a", "a", "b", "b", "c", "c"], grid=Grid(3, ratio=0.01))
    >>> [f"{l1:.3f}" for l1 in path.l1], path.n_nonzero.tolist()
    (['2.333', '0.233', '0.023'], [0, 7, 7])

    References
    ----------
    Tibshirani et al.: Strong rules for discarding predictors in lasso-type problems. JRSS B 2012.
    """
    is_scored = validation is not None or cv is not None
    if grid is None:
        grid = LocalGrid() if is_scored else Grid()
    is_local = isinstance(grid, LocalGrid)
    check_arguments(estimator, grid, validation, cv)
    scorer = check_scoring(estimator, scoring) if is_scored else None
    if isinstance(estimator, ChainCRF) and not callable(scoring):
        X, _ = encode_sequences(X)  # once for all folds
    score, rows = score_on(scorer, validation, validation_places()), []
    steps: list[PathStep] = []
    prepared_path = prepare_path(estimator, X, y, sample_weight, grid.parameter(estimator))
    with prepared_path as prepared, ExitStack() as folds:
        values: GridValues = (
            grid.values(prepared.problem.strengths, estimator.path_parameter)
            if isinstance(grid, LocalGrid)
            else grid.values(prepared.l1_max, prepared.automatic)
        )
        columns = []
        if cv is not None:
            items = labels_by_item(estimator, X, y)
            for fold in make_folds(estimator, X, items, sample_weight, cv, groups):
                columns.append(fold_scores_of(estimator, fold, values, grid, scorer))
                folds.callback(columns[-1].close)
        scores_so_far = []
        # All folds are trained under a value before the next value, so that an interrupted search has complete rows.
        for *scores, step in zip(*columns, solve(prepared, values, grid, score), strict=False):
            if step.is_cut_off and steps and is_scored:
                break
            rows.append(scores)
            steps.append(step)
            if callback is not None:
                callback(step)
            scores_so_far.append(float(np.mean(scores)) if scores else step.score)
            # Under strong penalties all models predict the same label, so patience begins at the first better score.
            best = int(np.argmax(scores_so_far))
            has_risen = scores_so_far[best] > scores_so_far[0]
            if grid.patience is not None and has_risen and len(rows) - 1 - best >= grid.patience:
                break
        fold_scores = np.array(rows).reshape(len(steps), -1)
        varied = tuple(values[0]) if isinstance(values, list) else ()
        path = RegularizationPath(
            models=tuple(step.model for step in steps),
            score=fold_scores.mean(axis=1) if fold_scores.size else np.array([step.score for step in steps]),
            fold_scores=fold_scores,
            l1_max=prepared.l1_max,
            n_screening_violations=np.array([step.n_screening_violations for step in steps]),
            path_parameter=next(iter(varied), prepared.parameter),
            varied=varied,
            has_default=is_local,
        )
        if not np.isnan(path.score).all():
            path = with_best_refined(prepared, path, score)
    statuses = [model.result_.status for model in path.models]
    is_unproved = prepared.problem.has_free_features or not prepared.problem.objective.is_convex
    accepted = {Status.INTERRUPTED} | ({Status.STATIONARY} if is_unproved else set())
    is_accepted = [status.is_success or status in accepted for status in statuses]
    unconverged = [model for model, accept in zip(path.models, is_accepted, strict=True) if not accept]
    if unconverged:
        first = f"{path.path_parameter} = {getattr(unconverged[0], path.path_parameter):g}"
        message = (
            f"{len(unconverged)} of {len(path)} values did not converge, first {first}: "
            f"{unconverged[0].result_.message}"
        )
        warn_caller(message, ConvergenceWarning)
    if path.note:
        warn_caller(path.note)
    return path


def score_on(scorer: Scorer | None, items: tuple[ItemsLike, LabelsLike] | None, where: Where) -> Score:
    """Return the function that scores a model on the items (X, y); it returns nan without items or scorer. `where`
    names the places of items in messages."""

    def score(model: Estimator) -> float:
        if items is None or scorer is None:
            return np.nan
        with named_places(where), without_item_warnings():
            return float(scorer(model, *items))

    return score


def fold_scores_of(
    estimator: Estimator, fold: Fold, values: GridValues, grid: Grid | LocalGrid, scorer: Scorer | None
) -> Generator[float]:
    """Yield the score of a fold under each value; end after an interrupted training, unless it is the first."""
    score, n_scores = score_on(scorer, (fold.X_test, fold.y_test), places_among(fold.test)), 0
    with ExitStack() as stack:
        with named_places(places_among(fold.train)):
            path = prepare_path(
                estimator, fold.X_train, fold.y_train, fold.weights, grid.parameter(estimator)
            )
            prepared = stack.enter_context(path)
        for step in solve(prepared, values, grid, score):
            if step.is_cut_off and n_scores > 0:
                return
            n_scores += 1
            yield step.score


def solve(
    prepared: PreparedPath, values: GridValues, grid: Grid | LocalGrid, score: Score
) -> Iterator[PathStep]:
    """Yield the step of each value of a grid."""
    if isinstance(grid, Grid):
        return solve_path(prepared, np.asarray(values), grid, score)
    return solve_local_grid(prepared, list(values), score)


def with_best_refined(prepared: PreparedPath, path: RegularizationPath, score: Score) -> RegularizationPath:
    """Return the path with its best model proved to be within the tolerance of the optimum. The passes, iterations and
    seconds of this model are the sums over both trainings. On a path, it is scored again on the validation items. If
    the training is interrupted, the path is returned unchanged."""
    best = path.best_index
    model, tol = path.models[best], prepared.settings.tol_or(OPTIMUM_TOL)
    strengths = {name: getattr(model, f"{name}_") for name in path.varied}
    result, gap = model.result_, model.result_.gap
    if not np.isfinite(gap):
        gap = result.violation / prepared.problem.penalty.with_strengths(**strengths).min_threshold
    if not result.status.is_success or gap <= tol:
        return path
    start = centered_weights(prepared.problem.features, SparseWeights(result.coords, result.weights))
    proved = train_under(prepared, strengths, prepared.solver, Run(start=start, tol=tol))
    total = {name: getattr(result, name) + getattr(proved, name) for name in ("passes", "n_iter", "seconds")}
    refined = fitted(prepared, strengths, replace(proved, **total))
    if refined.result_.status.is_by_user:
        return path
    models, scores = list(path.models), path.score.copy()
    models[best] = refined
    if not path.has_default and not np.isnan(new_score := score(refined)):
        scores[best] = new_score
    return replace(path, models=tuple(models), score=scores)


def check_arguments(estimator: object, grid: object, validation: object, cv: Splitter | None) -> None:
    """Raise InputError for arguments of `crf_path` that exclude each other or are of other types."""
    if not isinstance(estimator, Settings):
        raise InputError(
            f"estimator: expected a ChainCRF, TaxonomyCRF or MulticlassCRF, got {type(estimator).__name__}"
        )
    if not isinstance(grid, Grid | LocalGrid):
        raise InputError(
            f"grid: expected a crfqn.regularization_path.Grid or LocalGrid, got {type(grid).__name__}"
        )
    if validation is not None and cv is not None:
        raise InputError("expected validation items or cv to score by, got both")
    if validation is not None and not (isinstance(validation, (tuple, list)) and len(validation) == 2):
        raise InputError(f"validation: expected a pair (X, y), got {type(validation).__name__}")
    if grid.patience is not None and validation is None and cv is None:
        raise InputError("patience: expected validation items or cv to score by, got neither")


class Fold(NamedTuple):
    """Items to train on, with their weights, and items to test on; `train` and `test` are their numbers."""

    X_train: ItemsLike
    y_train: Sequence[Any]
    weights: NDArray | None
    X_test: ItemsLike
    y_test: Sequence[Any]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def has_one_label_each(estimator: Estimator, y: LabelsLike) -> bool:
    """Return whether each item has one label, so that folds can be stratified."""
    return bool(is_classifier(estimator)) and not are_sets(y)


def make_folds(
    estimator: Estimator,
    X: ItemsLike,
    y: LabelsLike,
    sample_weight: SampleWeight,
    cv: Splitter,
    groups: ArrayLike | None = None,
) -> Iterator[Fold]:
    """Yield the folds of a scikit-learn splitter; the folds of a number are stratified if each item has one label.
    InputError if there are more folds than items, or than items of any label."""
    n_items = n_items_of(X)
    labels = y if (is_stratified := has_one_label_each(estimator, y)) else None
    splitter = check_cv(cv, labels, classifier=is_stratified)
    try:
        parts = [*splitter.split(np.empty((n_items, 1)), labels, groups)]
    except ValueError as error:  # more folds than items, or than items of any label
        raise InputError(f"cv: {error}") from error
    for train, test in parts:
        weights = None if sample_weight is None else take(sample_weight, train)
        yield Fold(take(X, train), take(y, train), weights, take(X, test), take(y, test), train, test)


def labels_by_item(estimator: Estimator, X: Any, y: Any) -> Any:
    """Return labels with one entry for each item: flat labels of positions are split into lists."""
    if not isinstance(estimator, ChainCRF):
        return y
    labels: list[Any] = list(y)
    if hasattr(labels[0], "__len__") and not isinstance(labels[0], str):
        return labels
    lengths = X.lengths if isinstance(X, Sequences) else [n_items_of(item) for item in X]
    return split_by_item(np.array(labels), np.concatenate([[0], np.cumsum(lengths)]))


def n_items_of(X: Any) -> int:
    """Return the number of items in X, or of positions in an item."""
    return X.shape[0] if hasattr(X, "shape") else len(X)
