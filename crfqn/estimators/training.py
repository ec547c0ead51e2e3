"""What stands around a training: callbacks, progress and held-out items while it runs, what users are warned of at its
end, and methods that only some trained models have.

scikit-learn has callbacks, such as progress bars inside of searches, from 1.9 on; before, the estimators have no
`set_callbacks`. Held-out items are those of `fit(X, y, validation=(X, y))` with `scoring` and `patience`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from types import MethodType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from crfqn import metrics
from crfqn.arrays import SparseWeights
from crfqn.errors import InputError, warn_caller, without_item_warnings
from crfqn.messages import named_places, validation_places
from crfqn.progress import ProgressDisplay, telling_of_compilation
from crfqn.result import Progress, Result, Status
from crfqn.solvers.protocols import Objective, Penalty
from crfqn.solvers.stopping import ValidationSet
from crfqn.solvers.unpenalised import largest_strength, solve_unpenalised

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in of scikit-learn's mixin, without anything."""

    HAS_CALLBACKS = False

SOLVED = (Status.CONVERGED, Status.ESTIMATED, Status.STATIONARY)
OF_MODELS_ONLY = ("engine", "positions")  # parameters that a model's methods have, and an estimator's do not
OWN_SCORE = "accuracy"  # what the estimators' `score` returns
TOKEN_SCORE, CHUNK_F1 = "token_accuracy", "chunk_f1"
Fit = TypeVar("Fit", bound=Callable[..., Any])


def with_tasks(fit: Fit) -> Fit:
    """Return a `fit(self, X, y, ...)` that reports its beginning and end to scikit-learn's callbacks, if there are any,
    and, if it is verbose, a compilation to stderr."""

    @wraps(fit)
    def reporting(self: Any, X: Any, y: Any = None, *others: Any, **named: Any) -> Any:
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
    """All callbacks of a training as one, open while it runs; is_watched : whether held-out items are scored.

    The iterations are tasks of scikit-learn's callbacks, where the estimator has any, each reported once.
    """

    def __init__(self, estimator: Any, is_watched: bool = False) -> None:
        self.estimator, self.n_reported = estimator, 0
        self.context = getattr(estimator, "_callback_fit_ctx", None)
        is_sent = getattr(estimator, "client", None) is not None
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

    def __exit__(self, *error: Any) -> None:
        if self.display:
            self.display.__exit__(*error)


def check_validation(validation: Any) -> tuple[Any, Any]:
    """Return `validation` if it is a pair (X, y), else raise InputError."""
    if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
        raise InputError(f"validation: expected a pair (X, y), got {type(validation).__name__}")
    return validation[0], validation[1]


class OwnScores(NamedTuple):
    """Names of the scores of an estimator: by default, and by the name "f1"."""

    default: str
    f1: str


def held_out(
    estimator_of: Callable[[SparseWeights], Any], settings: Any, X: Any, y: Any, cost: float
) -> ValidationSet:
    """Return the items X with labels y as what a run is watched by, each look at a `cost` in passes over the training
    data; estimator_of : makes a fitted estimator of weights."""
    name, scorer = named_scorer(settings.scoring, settings.default_scores)

    def score(weights: SparseWeights) -> float:
        with named_places(validation_places()), without_item_warnings():
            return float(scorer(estimator_of(weights), X, y))

    return ValidationSet(score, cost, settings.patience, name, (X, y))


def named_scorer(scoring: Any, own: OwnScores) -> tuple[str, Callable[..., float]]:
    """Return the score that an estimator's `scoring` stands for, and its name; InputError for an unknown one. "f1" is
    of spans by the estimator's scheme, else of chunks of IOB labels; of single labels "f1_macro". Without `scoring` it
    is "f1" with a scheme, else the accuracy."""
    scoring = own.default if scoring is None else own.f1 if scoring == "f1" else scoring
    if scoring == OWN_SCORE:
        return OWN_SCORE, lambda model, X, y: model.score(X, y)
    if callable(scoring):
        return getattr(scoring, "__name__", "score"), scoring
    return (CHUNK_F1, metrics.chunk_scorer()) if scoring is own.f1 == CHUNK_F1 else named_scorer_of(scoring)


def named_scorer_of(name: Any) -> tuple[str, Callable[..., float]]:
    """Return a scorer of `crfqn.metrics`, or else of scikit-learn, with its name."""
    try:
        return str(name), metrics.find_scorer(name)
    except InputError as error:
        from sklearn.metrics import get_scorer

        if isinstance(name, str):
            try:
                return name, get_scorer(name)
            except ValueError:
                pass
        raise InputError(
            f"scoring: {error}; names of scikit-learn's and a callable(estimator, X, y) are taken, too"
        ) from None


def warn_of_end(result: Result, tol: float, is_convex: bool) -> None:
    """Warn of a training that has not ended well: without convexity there is no better end than a stationary point."""
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
    """Raise the KeyboardInterrupt that ended a training, whose weights are kept: a search over models must stop too."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def reason_of_empty(objective: Objective, penalty: Penalty, result: Result) -> str | None:
    """Return why all penalised weights of a solved model are zero, with the largest useful strength; None if not all
    are, or no weight would change the loss, as with one label."""
    is_kept = ~penalty.is_smooth(result.coords)
    is_empty = penalty.min_threshold > 0 and result.status in SOLVED and not result.weights[is_kept].any()
    if not is_empty:
        return None
    name = "group_l1" if getattr(penalty, "group_l1", 0.0) > 0 else "l1"
    if not objective.has_curvature:  # a subgradient does not tell it
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


def has_probabilities(model: Any) -> bool:
    """Return True for likelihoods; AttributeError, as scikit-learn asks, for losses without probabilities."""
    if not model.loss_form.loss_class.has_marginals:
        raise AttributeError(f"probabilities are those of loss='logistic'; the loss is {model.loss!r}")
    return True


class AvailableIf:
    """Method of models for which `check` is true; of others an AttributeError: that of `check`, which says why."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], object]) -> None:
        self.method, self.check = method, check

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        if not self.check(model):
            raise AttributeError(f"{type(model).__name__} has no {self.method.__name__}")
        return MethodType(self.method, model)


def available_if(check: Callable[[Any], object]) -> Any:
    """Return the decorator of a method that only some models have. Unlike scikit-learn's decorator of this name, it
    shows the reason that `check` gives."""
    return lambda method: AvailableIf(method, check)


def of_model(method: Callable[..., Any], check: Callable[[Any], object] | None = has_probabilities) -> Any:
    """Return the method of an estimator that calls `method` of its fitted model, with the estimator's engine, on items
    that the estimator has checked (`checked_items`); check : says which estimators have it, None: all."""
    signature = inspect.signature(method)
    has_engine = "engine" in signature.parameters

    @wraps(method)
    def call(self: Any, X: Any, *values: Any, **named: Any) -> Any:
        model, X = self.current_model, self.checked_items(X)
        if has_engine:
            named["engine"] = self.engine
        return getattr(model, method.__name__)(X, *values, **named)

    shown = [each for each in signature.parameters.values() if each.name not in OF_MODELS_ONLY]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    not_fitted = r"\1        sklearn.exceptions.NotFittedError\n"
    call.__doc__ = re.sub(r"(Raises\n +------\n)", not_fitted, method.__doc__ or "")
    return call if check is None else AvailableIf(call, check)


def calibrate(self: Any, X: Any = None, y: Any = None, *, temperature: float | None = None) -> Any:
    """Find the temperature under which held-out labels are most probable; return the estimator.

    All scores are divided by `temperature_` where they become probabilities: of labellings, positions and spans, of
    classes and nodes. Labels do not change, files keep it, and another `fit` begins at 1 again. It minimises the mean
    of -log P(y_t | x) over the positions, of single items over the items, between 0.01 and 100 (Guo, Pleiss, Sun,
    Weinberger 2017, ICML, section 4.2).

    Parameters
    ----------
    X, y : labelled items that the model was not trained on, as in `fit`
        Positions without a known label are left out.
    temperature : float, optional
        The temperature, in the place of items; 1 undoes the calibration.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    InputError
        As in `log_likelihood`; no items, or items and a temperature at once.
    """
    model = self.current_model
    labels = None if y is None else self.checked_labels(y)
    items = None if X is None else self.checked_items(X)
    self.model_ = model.calibrate(items, labels, self.engine, temperature=temperature)
    return self


CALIBRATE = available_if(has_probabilities)(calibrate)  # a method of the estimators with probabilities
