"""`crf_path`: models for many l1 at hardly more than the cost of the last one, and the l1 that predicts best.

Values go down from l1_max, the smallest under which all weights are zero. Each training starts from the optimum of the
one before, on the weights that the strong rule leaves (`solvers.screening.strong_rule`), over one store of the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring

from crfqn.errors import InputError
from crfqn.estimators.base import SparseCRF, is_number
from crfqn.regularization_path.folds import Fold, labels_by_item, make_folds
from crfqn.regularization_path.prepared import PreparedPath, prepare_path
from crfqn.regularization_path.record import Path
from crfqn.regularization_path.walking import Score, Step, grid, refine, walk
from crfqn.result import Status

LOOSER = 10.0  # times tol: the tolerance of all values but the last


def crf_path(
    estimator: SparseCRF,
    X: Any,
    y: Any,
    *,
    l1: ArrayLike | None = None,
    group_l1: ArrayLike | None = None,
    n_values: int = 20,
    ratio: float = 0.01,
    smallest: float | None = None,
    sample_weight: ArrayLike | None = None,
    validation: tuple[Any, Any] | None = None,
    cv: Any = None,
    groups: ArrayLike | None = None,
    scoring: Any = None,
    patience: int | None = None,
    inner_tol: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> Path:
    """Train an estimator for a descending grid of l1, or of group_l1.

    Parameters
    ----------
    estimator : ChainCRF, TaxonomyCRF, MulticlassCRF, MulticlassClassifier or MultilabelRanker
        Its parameters but l1; it is left as it is. `tol`, `max_iter` and `max_seconds` belong to each value.
    X, y, sample_weight
        As in its `fit`. X and y have one entry an item; labels by position are cut into items.
    l1 : array-like of float > 0, optional
        The values, taken from the largest down; otherwise `n_values` from l1_max to `smallest`, or else to `ratio` *
        l1_max, evenly on a logarithmic scale. l1_max is the smallest l1 under which all penalised weights are zero (an
        upper bound of it where `group_l1` > 0); intercepts without penalty are fitted first.
    group_l1 : array-like of float > 0, optional
        The values of group_l1 instead, l1 being that of the estimator. Estimators whose penalty is over rows walk
        group_l1 unless l1 is given; all that is said of l1 here is then true of group_l1.
    validation : (X, y), optional
        Items to score each model on.
    cv : int, scikit-learn splitter or iterable of (train, test), optional
        Score on folds of whole items instead, each walked for the same l1: as scikit-learn's searches have it, l1 is
        not scaled by the share of the items that a fold trains on. The models are those of all items.
    groups : array-like, optional, for splitters that keep groups of items together
    scoring : str or callable(estimator, X, y), optional
        The estimator's `score` by default.
    patience : int >= 1, optional
        Stop when so many values in succession have not improved the score, once it has been better than that of the
        first value; with `cv` each fold stops by its own score, and the path ends where the first of them does.
    inner_tol : float, optional
        What values on the way are solved to, 10 `tol` by default. The last one is solved to `tol`, and so is the best.
    callback : callable, optional
        Called with the `Step` of every value of the path over all items.

    Returns
    -------
    Path
        Ends early by `patience`, and where a training was interrupted or its callback asked to stop. Its `note` says so
        where the best score is that of an end of the grid, so that the best value may lie beyond.

    Raises
    ------
    InputError
        Says what was expected and what came.

    Warns
    -----
    ConvergenceWarning
        Values that did not reach their tolerance.

    Examples
    --------
    >>> from crfqn import MulticlassCRF, crf_path
    >>> X = [[2, 0, 0], [1, 0, 0], [0, 2, 0], [0, 1, 1], [0, 0, 3], [0, 0, 1]]
    >>> path = crf_path(MulticlassCRF(), X, ["a", "a", "b", "b", "c", "c"], n_values=3)
    >>> [f"{l1:.3f}" for l1 in path.l1], path.n_nonzero.tolist()
    (['2.333', '0.233', '0.023'], [0, 7, 7])

    References
    ----------
    Tibshirani et al.: Strong rules for discarding predictors in lasso-type problems. JRSS B 2012.
    """
    check_choices(estimator, validation, cv, patience, inner_tol)
    check_grid(n_values, ratio, smallest)
    path_parameter = walked_strength(estimator, l1, group_l1)
    given = l1 if path_parameter == "l1" else group_l1
    values = None if given is None else check_values(given, path_parameter)
    inner_tol = LOOSER * estimator.tol if inner_tol is None else inner_tol
    scorer = check_scoring(estimator, scoring) if validation is not None or cv is not None else None
    with prepare_path(estimator, X, y, sample_weight, path_parameter) as prepared:
        if values is None:
            values = grid(
                prepared.l1_max, n_values, ratio * prepared.l1_max if smallest is None else smallest
            )
        fold_scores = np.empty((values.size, 0))
        if cv is not None:
            y = labels_by_item(estimator, X, y)
            folds = make_folds(estimator, X, y, sample_weight, cv, groups)
            fold_scores = score_folds(estimator, folds, values, inner_tol, scorer, patience, path_parameter)
            values = values[: reached(fold_scores)]
        score = None if validation is None else partial_score(scorer, validation)
        steps = []
        for step in walk(prepared, values, inner_tol, score, patience):
            steps.append(step)
            if callback is not None:
                callback(step)
        path = record(prepared, steps, fold_scores[: len(steps)])
        if not np.isnan(path.score).all():
            path = with_best_refined(prepared, path, score)
    warn_unless_converged(path)
    return path


def partial_score(scorer: Any, items: tuple[Any, Any]) -> Score:
    """Return the scorer as a function of the model alone, on these items (X, y)."""
    return lambda model: float(scorer(model, *items))


def score_folds(
    estimator: SparseCRF,
    folds: Iterable[Fold],
    values: NDArray[np.float64],
    inner_tol: float,
    scorer: Any,
    patience: int | None,
    path_parameter: str,
) -> NDArray[np.float64]:
    """Return the score of each value and fold, (n, folds); nan where a fold had stopped before."""
    columns = []
    for fold in folds:
        column = np.full(values.size, np.nan)
        with prepare_path(estimator, fold.X_train, fold.y_train, fold.weights, path_parameter) as prepared:
            score = partial_score(scorer, (fold.X_test, fold.y_test))
            for i, step in enumerate(walk(prepared, values, inner_tol, score, patience)):
                column[i] = step.score
        columns.append(column)
    return np.column_stack(columns)


def reached(fold_scores: NDArray[np.float64]) -> int:
    """Return the number of values that all folds have reached."""
    return int(np.count_nonzero(~np.isnan(fold_scores).any(axis=1)))


def record(prepared: PreparedPath, steps: list[Step], fold_scores: NDArray[np.float64]) -> Path:
    """Return the regularisation path that these steps make."""
    scores = fold_scores.mean(axis=1) if fold_scores.size else np.array([step.score for step in steps])
    return Path(
        models=tuple(step.model for step in steps),
        score=scores,
        fold_scores=fold_scores,
        l1_max=prepared.l1_max,
        path_parameter=prepared.path_parameter,
        n_broken=np.array([step.n_broken for step in steps]),
    )


def with_best_refined(prepared: PreparedPath, path: Path, score: Score | None) -> Path:
    """Return the path with its best model solved to `tol`, and scored again on validation items."""
    best = path.best_index
    model = path.models[best]
    result, tol = model.result_, prepared.model.tol
    distance = (
        result.gap
        if np.isfinite(result.gap)
        else result.violation / prepared.penalty_at(getattr(model, path.path_parameter)).strength
    )
    if result.status is not Status.CONVERGED or distance <= tol:
        return path
    models, scores = list(path.models), path.score.copy()
    models[best] = refine(prepared, model)
    if score is not None:
        scores[best] = score(models[best])
    return replace(path, models=tuple(models), score=scores)


def warn_unless_converged(path: Path) -> None:
    """Warn once about all values whose training has not reached its tolerance."""
    failed = [model for model in path.models if model.result_.status is not Status.CONVERGED]
    stopped = [model for model in failed if model.result_.status is not Status.INTERRUPTED]
    if stopped:
        first = stopped[0]
        warnings.warn(
            f"{len(stopped)} of {len(path)} values did not converge, first {path.path_parameter} = "
            f"{getattr(first, path.path_parameter):g}: "
            f"{first.result_.message}",
            ConvergenceWarning,
            stacklevel=3,
        )


def walked_strength(estimator: SparseCRF, l1: Any, group_l1: Any) -> str:
    """Return the parameter that the path varies, "l1" or "group_l1"."""
    if l1 is not None and group_l1 is not None:
        raise InputError("expected values of l1 or of group_l1, got both")
    given = "l1" if l1 is not None else "group_l1" if group_l1 is not None else None
    path_parameter = given or estimator._path_parameter
    if path_parameter == "l2":
        raise InputError("penalty: expected one with l1 or group_l1 to walk, got 'l2'")
    return path_parameter


def check_values(l1: ArrayLike, name: str = "l1") -> NDArray[np.float64]:
    """Return the values, the largest first and none twice; InputError unless all are positive numbers."""
    try:
        values = np.unique(np.asarray(l1, np.float64).reshape(-1))[::-1]
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected numbers > 0, got {l1!r}") from None
    if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise InputError(f"{name}: expected finite numbers > 0, at least one, got {l1!r}")
    return values


def check_grid(n_values: Any, ratio: Any, smallest: Any) -> None:
    """Raise InputError for parameters of the grid that are out of range."""
    check_count("n_values", n_values)
    if not (is_number(ratio) and 0 < ratio < 1):
        raise InputError(f"ratio: expected a number between 0 and 1, got {ratio!r}")
    if smallest is not None and not (is_number(smallest) and 0 < smallest < np.inf):
        raise InputError(f"smallest: expected None or a finite number > 0, got {smallest!r}")


def check_count(name: str, count: Any) -> None:
    """Raise InputError unless `count` is a whole number from 1 on."""
    if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
        raise InputError(f"{name}: expected an integer >= 1, got {count!r}")


def check_choices(estimator: Any, validation: Any, cv: Any, patience: Any, inner_tol: Any) -> None:
    """Raise InputError for arguments of `crf_path` that do not go together or are out of range."""
    if not isinstance(estimator, SparseCRF):
        raise InputError(
            f"estimator: expected a ChainCRF, TaxonomyCRF or MulticlassCRF, got {type(estimator).__name__}"
        )
    if patience is not None:
        check_count("patience", patience)
    if inner_tol is not None and not (is_number(inner_tol) and inner_tol >= 0 and np.isfinite(inner_tol)):
        raise InputError(f"inner_tol: expected None or a number >= 0, got {inner_tol!r}")
    if validation is not None and cv is not None:
        raise InputError("expected validation items or cv to score by, got both")
    if validation is not None and not (isinstance(validation, (tuple, list)) and len(validation) == 2):
        raise InputError(f"validation: expected a pair (X, y), got {type(validation).__name__}")
    if patience is not None and validation is None and cv is None:
        raise InputError("patience: expected validation items or cv to score by, got neither")
