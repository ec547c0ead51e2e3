"""`crf_path`: models for many l1 at hardly more than the cost of the last one, and the l1 that predicts best.

Values descend from l1_max, the smallest under which all weights are zero. Each training starts from the optimum of the
one before, on the weights that the strong rule leaves (`solvers.screening.strong_rule`), over one store of the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing as take

from crfqn.data.label_codes import split_by_item
from crfqn.data.sequences import Sequences
from crfqn.errors import InputError
from crfqn.estimators.base import SparseLinearModel
from crfqn.estimators.chain import ChainCRF
from crfqn.estimators.labels import are_sets
from crfqn.regularization_path.grid import Grid
from crfqn.regularization_path.record import RegularizationPath
from crfqn.regularization_path.solving import (
    PathStep,
    PreparedPath,
    Score,
    Waiting,
    prepare_path,
    refine,
    solve_path,
)
from crfqn.result import Status


def crf_path(
    estimator: SparseLinearModel,
    X: Any,
    y: Any,
    *,
    grid: Grid | None = None,
    sample_weight: ArrayLike | None = None,
    validation: tuple[Any, Any] | None = None,
    cv: Any = None,
    groups: ArrayLike | None = None,
    scoring: Any = None,
    callback: Callable[[PathStep], object] | None = None,
) -> RegularizationPath:
    """Train an estimator for a descending grid of l1, or of group_l1.

    Parameters
    ----------
    estimator : ChainCRF, TaxonomyCRF, MulticlassCRF, MulticlassClassifier or MultilabelRanker
        Has the other parameters; it is left as it is. `tol`, `max_iter` and `max_seconds` belong to each value.
    X, y, sample_weight
        As in its `fit`. X and y have one entry an item; labels by position are cut into items.
    grid : Grid, optional
        The values, how precisely each is solved, and when to stop early; `Grid()` by default.
    validation : (X, y), optional
        Items to score each model on.
    cv : int, scikit-learn splitter or iterable of (train, test), optional
        Score on folds of whole items instead, each trained for the same l1: as scikit-learn's searches have it, l1 is
        not scaled by the share of the items that a fold trains on. The models are those of all items.
    groups : array-like, optional, for splitters that keep groups of items together
    scoring : str or callable(estimator, X, y), optional
        The estimator's `score` by default.
    callback : callable, optional
        Called with the `Step` of every value, trained on all items; not for the folds.

    Returns
    -------
    RegularizationPath
        Ends early by `patience`, and where a training was interrupted or its callback asked to stop.

    Raises
    ------
    InputError
        Says what was expected and what came.

    Warns
    -----
    ConvergenceWarning
        Values that did not reach their tolerance.
    UserWarning
        The best score is that of an end of the grid, so that a better value may lie beyond: the path's `note`.

    Examples
    --------
    >>> from crfqn import MulticlassCRF, crf_path
    >>> from crfqn.regularization_path import Grid
    >>> X = [[2, 0, 0], [1, 0, 0], [0, 2, 0], [0, 1, 1], [0, 0, 3], [0, 0, 1]]
    >>> path = crf_path(MulticlassCRF(), X, ["a", "a", "b", "b", "c", "c"], grid=Grid(3))
    >>> [f"{l1:.3f}" for l1 in path.l1], path.n_nonzero.tolist()
    (['2.333', '0.233', '0.023'], [0, 7, 7])

    References
    ----------
    Tibshirani et al.: Strong rules for discarding predictors in lasso-type problems. JRSS B 2012.
    """
    grid = Grid() if grid is None else grid
    check_choices(estimator, grid, validation, cv)
    scorer = check_scoring(estimator, scoring) if validation is not None or cv is not None else None
    with prepare_path(estimator, X, y, sample_weight, grid.parameter(estimator)) as prepared:
        values = grid.values(prepared.l1_max, prepared.automatic)
        fold_scores = np.empty((values.size, 0))
        if cv is not None:
            y = labels_by_item(estimator, X, y)
            folds = make_folds(estimator, X, y, sample_weight, cv, groups)
            fold_scores = score_folds(estimator, folds, values, grid, scorer)
            values = values[: len(fold_scores)]
        score = score_on(scorer, validation)
        steps, waiting = [], Waiting(grid.patience)
        for step in solve_path(prepared, values, grid, score):
            steps.append(step)
            if callback is not None:
                callback(step)
            if waiting.is_over(step.score):
                break
        fold_scores = fold_scores[: len(steps)]
        found = RegularizationPath(
            models=tuple(step.model for step in steps),
            score=fold_scores.mean(axis=1) if fold_scores.size else np.array([step.score for step in steps]),
            fold_scores=fold_scores,
            l1_max=prepared.l1_max,
            n_broken=np.array([step.n_broken for step in steps]),
            path_parameter=prepared.path_parameter,
        )
        if not np.isnan(found.score).all():
            found = with_best_refined(prepared, found, score)
    warn_unless_converged(found)
    if found.note:
        warnings.warn(found.note, UserWarning, stacklevel=2)
    return found


def score_on(scorer: Any, items: tuple[Any, Any] | None) -> Score | None:
    """Return the scorer as a function of the model alone, on items (X, y); None without them."""
    return None if items is None else lambda model: float(scorer(model, *items))


def score_folds(
    estimator: SparseLinearModel, folds: Iterable[Fold], values: NDArray[np.float64], grid: Grid, scorer: Any
) -> NDArray[np.float64]:
    """Return the score of each value and fold, float64 (values, folds), as far as the grid's patience goes."""
    paths = [fold_path(estimator, fold, values, grid, scorer) for fold in folds]
    # Without patience one fold after the other: of the others no store is in memory.
    columns = paths if grid.patience is not None else [[*each] for each in paths]
    rows, waiting = [], Waiting(grid.patience)
    for scores in zip(*columns, strict=False):  # the shortest ends it: one that was interrupted
        rows.append(scores)
        if waiting.is_over(float(np.mean(scores))):
            break
    for each in paths:
        each.close()
    return np.array(rows)


def fold_path(
    estimator: SparseLinearModel, fold: Fold, values: NDArray[np.float64], grid: Grid, scorer: Any
) -> Generator[float]:
    """Yield the score of a fold at each value."""
    parameter = grid.parameter(estimator)
    with prepare_path(estimator, fold.X_train, fold.y_train, fold.weights, parameter) as prepared:
        for step in solve_path(prepared, values, grid, score_on(scorer, (fold.X_test, fold.y_test))):
            yield step.score


def with_best_refined(
    prepared: PreparedPath, path: RegularizationPath, score: Score | None
) -> RegularizationPath:
    """Return the regularisation path with its best model solved to `tol`, and scored again on validation items."""
    best = path.best_index
    model = path.models[best]
    result, distance = model.result_, model.result_.gap
    if not np.isfinite(distance):
        distance = result.violation / prepared.penalty_at(getattr(model, path.path_parameter)).dual_radius
    if result.status is not Status.CONVERGED or distance <= prepared.problem.model.tol:
        return path
    models, scores = list(path.models), path.score.copy()
    models[best] = refine(prepared, model)
    if score is not None:
        scores[best] = score(models[best])
    return replace(path, models=tuple(models), score=scores)


def warn_unless_converged(path: RegularizationPath) -> None:
    """Issue one ConvergenceWarning for all values whose training has not reached its tolerance."""
    good = (Status.CONVERGED, Status.INTERRUPTED)
    stopped = [model for model in path.models if model.result_.status not in good]
    if stopped:
        first = f"{path.path_parameter} = {getattr(stopped[0], path.path_parameter):g}"
        message = f"{len(stopped)} of {len(path)} values did not converge, first {first}: {stopped[0].result_.message}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


def check_choices(estimator: Any, grid: Any, validation: Any, cv: Any) -> None:
    """Raise InputError for arguments of `crf_path` that do not go together or are of another type."""
    if not isinstance(estimator, SparseLinearModel):
        raise InputError(
            f"estimator: expected a ChainCRF, TaxonomyCRF or MulticlassCRF, got {type(estimator).__name__}"
        )
    if not isinstance(grid, Grid):
        raise InputError(f"grid: expected a crfqn.regularization_path.Grid, got {type(grid).__name__}")
    if validation is not None and cv is not None:
        raise InputError("expected validation items or cv to score by, got both")
    if validation is not None and not (isinstance(validation, (tuple, list)) and len(validation) == 2):
        raise InputError(f"validation: expected a pair (X, y), got {type(validation).__name__}")
    if grid.patience is not None and validation is None and cv is None:
        raise InputError("patience: expected validation items or cv to score by, got neither")


class Fold(NamedTuple):
    """Items to train on, with their weights, and items to test on."""

    X_train: Any
    y_train: Any
    weights: NDArray | None
    X_test: Any
    y_test: Any


def make_folds(
    estimator: Any, X: Any, y: Any, sample_weight: Any, cv: Any, groups: Any = None
) -> Iterator[Fold]:
    """Yield the folds of a scikit-learn splitter; those by default are stratified where items have one label each."""
    n_items = n_items_of(X)
    is_stratified = is_classifier(estimator) and not are_sets(y)
    splitter = check_cv(cv, y if is_stratified else None, classifier=is_stratified)
    labels = y if is_stratified else None
    for train, test in splitter.split(np.empty((n_items, 1)), labels, groups):
        weights = None if sample_weight is None else np.asarray(sample_weight)[train]
        yield Fold(take(X, train), take(y, train), weights, take(X, test), take(y, test))


def labels_by_item(estimator: Any, X: Any, y: Any) -> Any:
    """Return labels that a training has accepted, one entry an item: flat ones of sequences are cut into lists."""
    if not isinstance(estimator, ChainCRF):
        return y
    labels = list(y)
    if hasattr(labels[0], "__len__") and not isinstance(labels[0], str):
        return labels
    lengths = X.lengths if isinstance(X, Sequences) else [n_items_of(item) for item in X]
    return split_by_item(np.array(labels), np.concatenate([[0], np.cumsum(lengths)]))


def n_items_of(X: Any) -> int:
    """Return the number of items of X, or of positions of a single item."""
    return X.shape[0] if hasattr(X, "shape") else len(X)
