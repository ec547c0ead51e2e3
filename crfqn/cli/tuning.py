"""`crfqn path` and `crfqn cv`: train models for many strengths of the penalty, or for many folds; print a table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.cli.exits import ExitCode, Interrupts
from crfqn.cli.options import PathOptions
from crfqn.cli.output import command_files, say, to_json
from crfqn.cli.training import (
    chosen_recipe,
    describe_accuracy,
    keep_facts,
    quiet_training,
    read_data,
    save_model,
)
from crfqn.data.model_file import check_model_name, null_for_nan
from crfqn.errors import InputError, RecipeError
from crfqn.messages import MESSAGES, Where, named_places, places_among
from crfqn.recipes import Prepared, build_estimator, by_feature_in_columns
from crfqn.recipes.sources import files_of
from crfqn.result import Status
from crfqn.time_limit import TimeLimit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.model_selection import KFold, StratifiedKFold

    from crfqn.estimators.estimator import Estimator
    from crfqn.regularization_path import Grid, LocalGrid, RegularizationPath
    from crfqn.regularization_path.path import PathStep

SPLIT_SEED = 0  # of the held-out items, and of the shuffle before items are cut into folds
RARE_LABEL = "The least populated class in y has only"  # a warning of scikit-learn's stratified folds
FOLD_COLUMNS = ("accuracy", "whole items", "F1", "non-zeros", "seconds")  # of the table of folds


def train_path(
    name_or_path: str | None,
    data: Mapping[str, Any],
    output: Path | None,
    settings: Mapping[str, Any],
    options: PathOptions,
    *,
    is_quiet: bool,
) -> int:
    """Train a recipe with many strengths of the penalty, print a table of the models, and return the exit code.

    `settings` that are not None replace the parameters of the recipe.
    """
    recipe = chosen_recipe(name_or_path, data)
    if options.plot is not None:
        from crfqn.plot.canvas import check_picture

        check_picture(options.plot)
    command_files.read(files_of(recipe))
    if output is not None:
        check_model_name(output)
    with Interrupts() as interrupts:
        prepared = read_data(recipe, settings)
        if options.cv is not None:
            _check_folds("--cv", options.cv, prepared)
        model: Estimator = build_estimator(recipe, taxonomy=prepared.given_taxonomy, **settings)
        by_feature_in_columns(model, prepared)
        deadline = TimeLimit(options.max_seconds, is_answered=False)
        models = _train_models(model, prepared, options, interrupts, deadline, is_quiet)
        if not len(models):
            say("Interrupted before the first model; nothing was saved.")
            return interrupts.code
        with interrupts.during("saving"):
            if options.csv is not None:
                models.write_csv(options.csv)
            if options.plot is not None:
                from crfqn.plot import PathDisplay
                from crfqn.plot.canvas import save_picture

                save_picture(PathDisplay.from_rows(models.rows()), options.plot)
            if output is not None:
                best = models.best_model
                best.set_params(callback=None)  # it belongs to this training, not to the model
                keep_facts(best, recipe, prepared)
                best.training_["regularization_path"] = null_for_nan(models.rows())
                save_model(best, output)
        if options.as_json:
            index = None if np.isnan(models.score).all() else models.best_index
            content: dict[str, Any] = {"l1_max": models.l1_max, "best": index, "best_end": models.best_end}
            print(to_json(content | {"comparison": models.comparison, "path": models.rows()}), flush=True)
        else:
            print(_table(models, prepared, output), flush=True)
        if models.note and not is_quiet:
            further = f"; `--l1 {models.values[-1] / 10:.3g}` goes on to them"
            say(f"Note: {models.note}{further if models.best_end == 'smallest' else ''}.")
        statuses = [model.result_.status for model in models.models]
        if interrupts.is_requested or Status.INTERRUPTED in statuses:
            say("Interrupted; the table has the values so far.")
            return interrupts.code
        if deadline.was_met:
            say("The time limit (--max-time) is reached; the table has the values so far.")
        is_complete = not deadline.was_met and all(status.is_success for status in statuses)
        return ExitCode.OK if is_complete else ExitCode.NOT_CONVERGED


def _train_models(
    model: Estimator,
    prepared: Prepared,
    options: PathOptions,
    interrupts: Interrupts,
    deadline: TimeLimit,
    is_quiet: bool,
) -> RegularizationPath:
    """Return the models trained until a signal or the deadline, scored on held-out items or by cross-validation."""
    from crfqn.regularization_path import Grid, LocalGrid, crf_path

    n_values = {} if options.n_values is None else {"n_values": options.n_values}
    grid: LocalGrid | Grid = LocalGrid(**n_values)
    if options.l1 is not None or options.patience is not None:
        grid = Grid(**n_values, smallest=options.l1, patience=options.patience)
    model.set_params(callback=lambda record: interrupts.stops(record) or deadline.is_over())
    X, y, weights = prepared.take_train(), prepared.y_train, prepared.sample_weight
    places: tuple[Where | None, ...] = (prepared.train_places,)
    how: dict[str, Any] = {}
    if options.cv is not None:
        how["cv"] = _splitter(options.cv, model, y)
    else:
        order = np.random.RandomState(SPLIT_SEED).permutation(len(y))
        n_held_out = max(1, round(options.holdout * len(y)))
        if n_held_out >= len(y):
            raise RecipeError(
                f"--holdout {options.holdout:g} leaves none of the {len(y)} training items to train on"
            )
        held_out, others = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
        how["validation"] = _part(X, held_out), _part(y, held_out)
        X, y, weights = _part(X, others), _part(y, others), weights and _part(weights, others)
        places = tuple(places_among(items, prepared.train_places) for items in (others, held_out))
    named = named_places(*places)
    with quiet_training(interrupts), named, deadline, _progress(grid.n_values, is_quiet) as callback:
        warnings.filterwarnings("ignore", "the best score is (that of|at an end)", UserWarning)
        warnings.filterwarnings("ignore", RARE_LABEL, UserWarning)
        return crf_path(model, X, y, sample_weight=weights, grid=grid, callback=callback, **how)


def _part(values: Any, items: NDArray[np.int64]) -> Any:
    """Return the values, an array or a list, of some items."""
    return values[items] if hasattr(values, "shape") else [values[i] for i in items]


@contextmanager
def _progress(n_values: int, is_quiet: bool) -> Iterator[Callable[[PathStep], None] | None]:
    """Yield a callback that shows each model of the path, in a bar on a terminal, else in lines; None if quiet."""
    if is_quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    from crfqn.estimators.automatic import described

    console = Console(file=MESSAGES)  # type: ignore[arg-type]
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("path", total=n_values)

        def show(step: PathStep) -> None:
            result, where = step.model.result_, described(step.model.fitted_strengths)
            accuracy = "" if math.isnan(step.score) else f", accuracy {step.score:.4f}"
            text = f"{where}: {result.n_nonzero:,} non-zeros{accuracy}, {result.seconds:.2f} s"
            bar.update(task, advance=1, description=text)
            if not console.is_terminal:
                say(text)

        yield show


def _table(models: RegularizationPath, prepared: Prepared, output: Path | None) -> str:
    names = models.varied
    heading = " ".join(f"{name:>12}" for name in names)
    lines = [f"{heading} {'accuracy':>9} {'non-zeros':>10} {'gap':>9} {'passes':>7} {'seconds':>8}"]
    best = None if np.isnan(models.score).all() else models.best_index
    for i, row in enumerate(models.rows()):
        note = "  default" if models.has_default and i == 0 else ""
        note += "  best" if i == best else ""
        status = models.models[i].result_.status
        if not status.is_success:  # this command's callback returns true at the time limit or after a signal
            note += "  cut off" if status is Status.CALLBACK else f"  {row['status'].replace('_', ' ')}"
        values = " ".join(f"{row[name]:12.6g}" for name in names)
        accuracy = "-" if math.isnan(row["score"]) else f"{row['score']:.4f}"
        gap = "-" if math.isnan(row["gap"]) else f"{row['gap']:.2e}"
        lines.append(
            f"{values} {accuracy:>9} {row['n_nonzero']:10,d} {gap:>9} {row['passes']:7.1f} {row['seconds']:8.2f}{note}"
        )
    lines.append(
        f"{'together':>{len(heading)}} {'':>30} {models.passes.sum():7.1f} {models.seconds.sum():8.2f}"
    )
    if models.comparison:
        lines.append(f"\n{models.comparison}")
    if best is not None and prepared.y_test:
        from crfqn.metrics.evaluation import score

        with named_places(prepared.test_places):
            scores = score(models.best_model, prepared.X_test, prepared.y_test)
        where = ", ".join(f"{name} = {getattr(models, name)[best]:.6g}" for name in names)
        lines.append(f"\nbest       {where}")
        lines.append(f"accuracy   {describe_accuracy(scores)} (test part)")
    if output is not None:
        lines.append(f"model      {output} ({output.stat().st_size:,} bytes)")
    return "\n".join(lines)


def cross_validate(
    name_or_path: str | None,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    n_folds: int,
    *,
    as_json: bool,
    is_quiet: bool,
) -> int:
    """Score each fold by a model trained on the others, print a table, and return the exit code.

    `settings` that are not None replace the parameters of the recipe.
    """
    from sklearn.base import clone

    from crfqn.metrics.evaluation import score
    from crfqn.regularization_path.path import make_folds

    recipe = chosen_recipe(name_or_path, data)
    with Interrupts() as interrupts:
        prepared = read_data(recipe, settings)
        _check_folds("--folds", n_folds, prepared)
        model: Estimator = build_estimator(
            recipe, taxonomy=prepared.given_taxonomy, callback=interrupts.stops, **settings
        )
        by_feature_in_columns(model, prepared)
        rows: list[dict[str, float | None]] = []
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", RARE_LABEL, UserWarning)
            X, y = prepared.take_train(), prepared.y_train
            for fold in make_folds(model, X, y, prepared.sample_weight, _splitter(n_folds, model, y)):
                trained = clone(model)
                with (
                    quiet_training(interrupts),
                    named_places(places_among(fold.train, prepared.train_places)),
                ):
                    trained.fit(fold.X_train, fold.y_train, fold.weights)
                if interrupts.is_requested:
                    break
                with named_places(places_among(fold.test, prepared.train_places)):
                    scores = score(trained, fold.X_test, fold.y_test)
                seconds = trained.result_.seconds
                nested = scores.hierarchy if scores.n_positions is None else scores.chunks
                rows.append(
                    {
                        "accuracy": scores.accuracy,
                        "whole items": None if scores.n_positions is None else scores.item_accuracy,
                        "F1": None if nested is None else nested.f1,
                        "non-zeros": trained.result_.n_nonzero,
                        "seconds": seconds,
                    }
                )
                if not is_quiet:
                    say(f"fold {len(rows)} of {n_folds}: accuracy {scores.accuracy:.4f}, {seconds:.2f} s")
        if not rows:
            say("Interrupted before the first fold was scored.")
            return interrupts.code
        print(_fold_table(model, rows, as_json), flush=True)
        return interrupts.code if interrupts.is_requested else ExitCode.OK


def _check_folds(option: str, n_folds: int, prepared: Prepared) -> None:
    if n_folds > len(prepared.y_train):
        raise InputError(f"{option} {n_folds}: the recipe has {len(prepared.y_train)} training items")


def _splitter(n_folds: int, model: Estimator, y: Sequence[object]) -> KFold | StratifiedKFold:
    """Return the splitter of `path` and `cv`; it shuffles because files are often sorted by source or by label."""
    from sklearn.model_selection import KFold, StratifiedKFold

    from crfqn.regularization_path.path import has_one_label_each

    kind = StratifiedKFold if has_one_label_each(model, y) else KFold
    return kind(n_folds, shuffle=True, random_state=SPLIT_SEED)


def _fold_table(model: Estimator, rows: list[dict[str, float | None]], as_json: bool) -> str:
    """Return a table of the folds, or JSON, with mean and standard deviation of the known columns."""
    from crfqn.estimators.automatic import described

    known = {
        name: np.array([row[name] for row in rows], float)
        for name in FOLD_COLUMNS
        if rows[0][name] is not None
    }
    ddof = min(1, len(rows) - 1)
    summary = {
        name: {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=ddof))}
        for name, values in known.items()
    }
    if as_json:
        return to_json({"strengths": model.strengths_asked, "folds": rows, "summary": summary})
    lines = {str(i): {name: values[i - 1] for name, values in known.items()} for i in range(1, len(rows) + 1)}
    lines |= {what: {name: both[what] for name, both in summary.items()} for what in ("mean", "std")}
    decimals = {"non-zeros": 0, "seconds": 2}
    table = [described(model.strengths_asked), "", "fold".ljust(6) + "".join(f"{name:>13}" for name in known)]
    for title, values in lines.items():
        cells = (f"{value:13,.{decimals.get(name, 4)}f}" for name, value in values.items())
        table.append(f"{title:<6}{''.join(cells)}")
    return "\n".join(table)
