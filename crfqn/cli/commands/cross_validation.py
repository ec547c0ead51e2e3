"""`crfqn cv`: scores of a recipe by cross-validation over its training items."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.cli.commands.evaluation import score
from crfqn.cli.commands.training import recipe_of
from crfqn.cli.exits import ExitCode, say
from crfqn.cli.interrupts import Interrupts
from crfqn.cli.options import DataOptions
from crfqn.cli.terminal import to_json
from crfqn.errors import InputError
from crfqn.recipes import Prepared, build_estimator, prepare

if TYPE_CHECKING:
    from crfqn.metrics.evaluation import Scores

SEED = 0  # for the order of the items before they are cut into folds
COLUMNS = ("accuracy", "whole items", "F1", "non-zeros", "seconds")


def cross_validate(
    name_or_path: str | None,
    data: DataOptions,
    settings: Mapping[str, Any],
    n_folds: int,
    *,
    as_json: bool,
    is_quiet: bool,
) -> int:
    """Train on all folds but one and score on that, for each fold; return the exit code.

    settings : parameters of the estimator that replace the recipe's; None keeps the recipe's
    """
    recipe = recipe_of(name_or_path, data)
    with Interrupts() as interrupts:
        prepared = prepare(recipe)
        if n_folds > len(prepared.y_train):
            raise InputError(f"--folds {n_folds}: the recipe has {len(prepared.y_train)} training items")
        model: Any = build_estimator(
            recipe,
            taxonomy=prepared.given_taxonomy,
            callback=lambda record: interrupts.is_requested,
            **settings,
        )
        rows: list[dict[str, float | None]] = []
        for row in _folds(model, prepared, n_folds, interrupts):
            rows.append(row)
            if not is_quiet:
                say(f"fold {len(rows)} of {n_folds}: accuracy {row['accuracy']:.4f}, {row['seconds']:.2f} s")
        if not rows:
            say("Interrupted before the first fold was scored.")
            return interrupts.code
        print(_json(model, rows) if as_json else _table(model, rows), flush=True)
        return interrupts.code if interrupts.is_requested else ExitCode.OK


def _folds(model: Any, prepared: Prepared, n_folds: int, interrupts: Interrupts) -> Any:
    """Yield the scores of each fold, until a signal comes."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import KFold

    from crfqn.regularization_path.path import make_folds

    X, y = prepared.take_train(), prepared.y_train
    splitter = KFold(n_folds, shuffle=True, random_state=SEED)
    for fold in make_folds(model, X, y, prepared.sample_weight, splitter):
        own = clone(model)
        with warnings.catch_warnings(), interrupts.training():
            warnings.simplefilter("ignore", ConvergenceWarning)
            own.fit(fold.X_train, fold.y_train, fold.weights)
        if interrupts.is_requested:
            return
        yield row_of(score(own, fold.X_test, fold.y_test), own.result_)


def row_of(scores: "Scores", result: Any) -> dict[str, float | None]:
    """Return what a fold's line shows, by column; None for what the structure does not have."""
    row: dict[str, float | None] = {"accuracy": scores.accuracy, "whole items": None, "F1": None}
    if scores.n_positions is not None:
        row["whole items"] = scores.item_accuracy
        row["F1"] = None if scores.chunks is None else scores.chunks.f1
    elif scores.hierarchy is not None:
        row["F1"] = scores.hierarchy.f1
    return row | {"non-zeros": result.n_nonzero, "seconds": result.seconds}


def _summaries(rows: list[dict[str, float | None]]) -> dict[str, dict[str, float]]:
    """Return mean and standard deviation over the folds, of the columns that are known."""
    known = {
        name: np.array([row[name] for row in rows], dtype=float)
        for name in COLUMNS
        if rows[0][name] is not None
    }
    return {
        name: {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=min(1, len(values) - 1)))}
        for name, values in known.items()
    }


def _json(model: Any, rows: list[dict[str, float | None]]) -> str:
    return to_json({"strengths": model._strengths, "folds": rows, "summary": _summaries(rows)})


def _table(model: Any, rows: list[dict[str, float | None]]) -> str:
    from crfqn.estimators.strengths.automatic import described

    summaries = _summaries(rows)
    names = list(summaries)
    lines = [described(model._strengths), "", "fold".ljust(6) + "".join(f"{name:>13}" for name in names)]
    for number, row in enumerate(rows, start=1):
        lines.append(f"{number:<6}" + "".join(_cell(name, row[name]) for name in names))
    for what in ("mean", "std"):
        lines.append(f"{what:<6}" + "".join(_cell(name, summaries[name][what]) for name in names))
    return "\n".join(lines)


def _cell(name: str, value: float | None) -> str:
    assert value is not None  # of the columns that are known
    return f"{value:13,.0f}" if name == "non-zeros" else f"{value:13.{2 if name == 'seconds' else 4}f}"
