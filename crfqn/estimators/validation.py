"""Validation items beside a training, `fit(X, y, validation=(X, y))` with `scoring` and `patience`; and which scores
of scikit-learn's searches sequences have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from crfqn import metrics
from crfqn.arrays import SparseWeights
from crfqn.errors import InputError
from crfqn.solvers.validation import ValidationSet

OWN_SCORE = "accuracy"  # what the estimators' `score` returns


def check_validation(validation: Any) -> tuple[Any, Any]:
    """Return `validation` if it is a pair (X, y), else raise InputError."""
    if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
        raise InputError(f"validation: expected a pair (X, y), got {type(validation).__name__}")
    return validation[0], validation[1]


def held_out(model: Any, X: Any, y: Any, cost: float) -> ValidationSet:
    """Return the items X with labels y as what a run is watched by, each look at a `cost` in passes over the training
    data; it sets the weights of `model`, which nobody else may use."""
    name, scorer = named_scorer(model)

    def score(weights: SparseWeights) -> float:
        model._take_weights(weights)
        return float(scorer(model, X, y))

    return ValidationSet(score, cost, model.patience, name, (X, y))


def named_scorer(model: Any) -> tuple[str, Callable[..., float]]:
    """Return the score that an estimator's `scoring` stands for, and its name; InputError for an unknown one. "f1" is
    of spans by the estimator's scheme, else of chunks of IOB labels; of single labels "f1_macro"."""
    scoring = model.scoring if model.scoring is not None else model._default_scoring
    if callable(scoring):
        return getattr(scoring, "__name__", "score"), scoring
    if scoring == OWN_SCORE:
        return scoring, lambda model, X, y: model.score(X, y)
    if scoring == "f1":
        if not model.LABELS_SEQUENCES:
            return named_scorer_of("f1_macro")
        scheme = model._span_scheme
        return (
            ("chunk_f1", metrics.chunk_scorer()) if scheme is None else named_scorer_of(f"span_f1:{scheme}")
        )
    return named_scorer_of(scoring)


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
            f"scoring: {error}, or a name of scikit-learn's, or a callable(estimator, X, y)"
        ) from None


def refuse_scores_of_single_labels() -> None:
    """Raise InputError where scikit-learn trains or labels sequences to score them by a metric of its own.

    Its metrics refuse labels that are lists before they look at the predictions, so that no estimator can make them
    work: a search would train, warn of scores of nan, and return any of its models. What it is going to score by is
    known to those who call us alone.
    """
    for scorer in _waiting_scorers():
        metric = getattr(scorer, "_score_func", None)
        if str(getattr(metric, "__module__", None)).startswith("sklearn.metrics."):
            names = [name for name in metrics.scorer_names() if _is_named(scorer, name)] or ["accuracy"]
            raise InputError(
                f"scoring: {getattr(metric, '__name__', metric)} of scikit-learn takes one label an item, and here an "
                f'item has a list of them; expected scoring=crfqn.metrics.find_scorer("{names[0]}"), which scores all '
                "positions, or another of crfqn.metrics.scorer_names()"
            )


def _waiting_scorers() -> Iterator[Any]:
    """Yield the scorers of the functions of scikit-learn that have called us with nobody else's between."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        root = str(frame.f_globals.get("__name__")).partition(".")[0]
        if root == "sklearn":
            for name in ("scorer", "self"):
                scorer = frame.f_locals.get(name)
                several = scorer if isinstance(scorer, dict) else getattr(scorer, "_scorers", None)
                yield from [scorer] if several is None else several.values()
        elif root != __name__.partition(".")[0]:
            return
        frame = frame.f_back


def _is_named(scorer: Any, name: str) -> bool:
    """Return whether a scorer is the one that scikit-learn calls by a name."""
    from sklearn.metrics import get_scorer

    try:
        return repr(get_scorer(name)) == repr(scorer)
    except ValueError:  # none of scikit-learn's names
        return False
