"""`crfqn path` and `crfqn cv`: models for many strengths of the penalty, or of many folds, and a table of them."""

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.atomic_write import check_writable
from crfqn.cli.exits import ExitCode, Interrupts
from crfqn.cli.options import PathOptions
from crfqn.cli.output import say, to_json
from crfqn.cli.training import chosen_recipe, describe_accuracy, keep_facts, read_data, save_model
from crfqn.data.model_file import null_for_nan
from crfqn.errors import InputError, RecipeError
from crfqn.recipes import Prepared, build_estimator
from crfqn.result import Status

if TYPE_CHECKING:
    from crfqn.metrics.evaluation import Scores
    from crfqn.regularization_path import Around, Grid, RegularizationPath

SEED = 0  # for the choice of the items that are held out, and for their order before they are cut into folds
RARE_LABEL = "The least populated class in y has only"  # of scikit-learn's stratified folds
COLUMNS = ("accuracy", "whole items", "F1", "non-zeros", "seconds")  # of a fold


def path(
    name_or_path: str | None,
    data: Mapping[str, Any],
    output: Path | None,
    settings: Mapping[str, Any],
    options: PathOptions,
    *,
    is_quiet: bool,
) -> int:
    """Train a recipe under many strengths, `settings` other than None replacing its own; return the exit code."""
    recipe = chosen_recipe(name_or_path, data)
    if options.plot is not None:
        from crfqn.plot.canvas import check_picture

        check_picture(options.plot)
    for file in (output, options.csv, options.plot):
        if file is not None:
            check_writable(file)
    with Interrupts() as interrupts:
        prepared = read_data(recipe)
        if options.cv is not None:
            _check_folds("--cv", options.cv, prepared)
        model: Any = build_estimator(recipe, taxonomy=prepared.given_taxonomy, **settings)
        deadline = Deadline(options.max_seconds)
        models = _train_path(model, prepared, options, interrupts, deadline, is_quiet)
        if models is None:
            say("Interrupted before the first model; nothing was saved.")
            return interrupts.code
        with interrupts.saving():
            if options.csv is not None:
                models.write_csv(options.csv)
            if options.plot is not None:
                _draw(models, options.plot)
            if output is not None:
                best = models.best_model
                best.set_params(callback=None)  # what stopped this training is no part of the model
                keep_facts(best, recipe, prepared)
                best.training_["regularization_path"] = null_for_nan(models.rows())
                save_model(best, output)
        print(_json(models) if options.as_json else _table(models, prepared, output), flush=True)
        if not is_quiet:
            _say_end(models)
        return _code(models, interrupts, deadline)


class Deadline:
    """A limit of time in seconds, None for none; `is_over` is whether a training has seen it pass."""

    def __init__(self, seconds: float | None) -> None:
        self.end = math.inf if seconds is None else time.perf_counter() + seconds
        self.is_over = False

    def passed(self) -> bool:
        """Return whether the time is over now."""
        self.is_over = self.is_over or time.perf_counter() >= self.end
        return self.is_over


def _train_path(
    model: Any,
    prepared: Prepared,
    options: PathOptions,
    interrupts: Interrupts,
    deadline: Deadline,
    is_quiet: bool,
) -> "RegularizationPath | None":
    from sklearn.exceptions import ConvergenceWarning

    from crfqn.regularization_path import crf_path

    grid = _grid(options)
    model.set_params(callback=lambda record: interrupts.is_requested or deadline.passed())
    X, y, weights, validation = prepared.take_train(), prepared.y_train, prepared.sample_weight, None
    if options.cv is None:
        X, y, weights, validation = _split_validation(X, y, weights, options.holdout)
    with warnings.catch_warnings(), interrupts.training(), _progress(grid.n_values, is_quiet) as callback:
        warnings.simplefilter("ignore", ConvergenceWarning)  # said by the table and by the exit code
        warnings.filterwarnings("ignore", "the best score is that of", UserWarning)
        warnings.filterwarnings("ignore", RARE_LABEL, UserWarning)
        models = crf_path(
            model,
            X,
            y,
            sample_weight=weights,
            grid=grid,
            validation=validation,
            cv=None if options.cv is None else _splitter(options.cv, model, y),
            callback=callback,
        )
    return models if len(models) else None


def _grid(options: PathOptions) -> "Around | Grid":
    from crfqn.regularization_path import Around, Grid

    n_values = {} if options.n_values is None else {"n_values": options.n_values}
    if options.l1 is None and options.patience is None:
        return Around(**n_values)
    return Grid(**n_values, smallest=options.l1, patience=options.patience)


def _split_validation(
    X: Any, y: list[Any], weights: list[float] | None, share: float
) -> tuple[Any, list[Any], list[float] | None, tuple[Any, list[Any]]]:
    """Split off a share of the items as held out: return X, y and weights of the others, and (X, y) of these."""
    order = np.random.RandomState(SEED).permutation(len(y))
    n_held = max(1, round(share * len(y)))
    if n_held >= len(y):
        raise RecipeError(f"--holdout {share:g} leaves none of the {len(y)} training items to train on")
    kept, held = np.sort(order[n_held:]), np.sort(order[:n_held])

    def part(values: Any, items: Any) -> Any:
        return values[items] if hasattr(values, "shape") else [values[i] for i in items]

    return part(X, kept), part(y, kept), weights and part(weights, kept), (part(X, held), part(y, held))


@contextmanager
def _progress(n_values: int, is_quiet: bool) -> Any:
    """Return a callback that shows each step of the search: a bar on a terminal, lines elsewhere."""
    if is_quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    from crfqn.estimators.strengths import described

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("path", total=n_values)

        def show(step: Any) -> None:
            result, where = step.model.result_, described(step.model._fitted_strengths)
            accuracy = "" if math.isnan(step.score) else f", accuracy {step.score:.4f}"
            text = f"{where}: {result.n_nonzero:,} non-zeros{accuracy}, {result.seconds:.2f} s"
            bar.update(task, advance=1, description=text)
            if not console.is_terminal:
                say(text)

        yield show


def _draw(models: "RegularizationPath", file: Path) -> None:
    from crfqn.plot import PathDisplay
    from crfqn.plot.canvas import save_picture

    save_picture(PathDisplay.from_rows(models.rows()), file)


def _table(models: "RegularizationPath", prepared: Prepared, output: Path | None) -> str:
    names = models.varied
    heading = " ".join(f"{name:>12}" for name in names)
    lines = [f"{heading} {'accuracy':>9} {'non-zeros':>10} {'gap':>9} {'passes':>7} {'seconds':>8}"]
    best = None if np.isnan(models.score).all() else models.best_index
    for i, row in enumerate(models.rows()):
        note = "  default" if models.has_default and i == 0 else ""
        note += "  best" if i == best else ""
        status = models.models[i].result_.status
        if not status.is_success:  # the command's callback ends a training by the time, or by a signal
            note += "  cut off" if status is Status.CALLBACK else f"  {row['status'].replace('_', ' ')}"
        values = " ".join(f"{row[name]:12.6g}" for name in names)
        lines.append(
            f"{values} {_number(row['score'], '.4f'):>9} {row['n_nonzero']:10,d} "
            f"{_number(row['gap'], '.2e'):>9} {row['passes']:7.1f} {row['seconds']:8.2f}{note}"
        )
    lines.append(
        f"{'together':>{len(heading)}} {'':>30} {models.passes.sum():7.1f} {models.seconds.sum():8.2f}"
    )
    if models.comparison:
        lines.append(f"\n{models.comparison}")
    if best is not None and prepared.y_test:
        from crfqn.metrics.evaluation import score

        found = score(models.best_model, prepared.X_test, prepared.y_test)
        where = ", ".join(f"{name} = {getattr(models, name)[best]:.6g}" for name in names)
        lines.append(f"\nbest       {where}")
        lines.append(f"accuracy   {describe_accuracy(found)} (test part)")
    if output is not None:
        lines.append(f"model      {output} ({output.stat().st_size:,} bytes)")
    return "\n".join(lines)


def _say_end(models: "RegularizationPath") -> None:
    """Tell the user if the best value is at an end of the grid, and how to extend it."""
    if models.best_end == "smallest":
        further = models.values[-1] / 10
        say(f"Note: {models.note}; `--l1 {further:.3g}` walks on to them.")
    elif models.note:
        say(f"Note: {models.note}.")


def _number(value: float, pattern: str) -> str:
    return "-" if math.isnan(value) else format(value, pattern)


def _json(models: "RegularizationPath") -> str:
    best = None if np.isnan(models.score).all() else models.best_index
    content: dict[str, Any] = {"l1_max": models.l1_max, "best": best, "best_end": models.best_end}
    content |= {"comparison": models.comparison, "path": models.rows()}
    return to_json(content)


def _code(models: "RegularizationPath", interrupts: Interrupts, deadline: "Deadline") -> int:
    """Say why the search ended early, if it did; return the exit code."""
    statuses = [model.result_.status for model in models.models]
    if interrupts.is_requested or Status.INTERRUPTED in statuses:
        say("Interrupted; the table has the values so far.")
        return interrupts.code
    if deadline.is_over:
        say("The time of --max-time is up; the table has the values so far.")
    is_complete = not deadline.is_over and all(status.is_success for status in statuses)
    return ExitCode.OK if is_complete else ExitCode.NOT_CONVERGED


def cross_validate(
    name_or_path: str | None,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    n_folds: int,
    *,
    as_json: bool,
    is_quiet: bool,
) -> int:
    """Train on all folds but one and score on that, for each, with `settings` other than None in the place of the
    recipe's; return the exit code."""
    recipe = chosen_recipe(name_or_path, data)
    with Interrupts() as interrupts:
        prepared = read_data(recipe)
        _check_folds("--folds", n_folds, prepared)
        model: Any = build_estimator(
            recipe,
            taxonomy=prepared.given_taxonomy,
            callback=lambda record: interrupts.is_requested,
            **settings,
        )
        rows: list[dict[str, float | None]] = []
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", RARE_LABEL, UserWarning)
            for row in _folds(model, prepared, n_folds, interrupts):
                rows.append(row)
                if not is_quiet:
                    accuracy, seconds = row["accuracy"], row["seconds"]
                    say(f"fold {len(rows)} of {n_folds}: accuracy {accuracy:.4f}, {seconds:.2f} s")
        if not rows:
            say("Interrupted before the first fold was scored.")
            return interrupts.code
        print(_cv_json(model, rows) if as_json else _cv_table(model, rows), flush=True)
        return interrupts.code if interrupts.is_requested else ExitCode.OK


def _check_folds(option: str, n_folds: int, prepared: Prepared) -> None:
    if n_folds > len(prepared.y_train):
        raise InputError(f"{option} {n_folds}: the recipe has {len(prepared.y_train)} training items")


def _splitter(n_folds: int, model: Any, y: list[Any]) -> Any:
    """Return the splitter of `path` and `cv`. It shuffles, as files are often sorted by source or by label."""
    from sklearn.model_selection import KFold, StratifiedKFold

    from crfqn.regularization_path.path import has_one_label_each

    kind = StratifiedKFold if has_one_label_each(model, y) else KFold
    return kind(n_folds, shuffle=True, random_state=SEED)


def _folds(model: Any, prepared: Prepared, n_folds: int, interrupts: Interrupts) -> Any:
    """Yield the scores of each fold, until a signal comes."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    from crfqn.metrics.evaluation import score
    from crfqn.regularization_path.path import make_folds

    X, y = prepared.take_train(), prepared.y_train
    splitter = _splitter(n_folds, model, y)
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


def _cv_json(model: Any, rows: list[dict[str, float | None]]) -> str:
    return to_json({"strengths": model._strengths, "folds": rows, "summary": _summaries(rows)})


def _cv_table(model: Any, rows: list[dict[str, float | None]]) -> str:
    from crfqn.estimators.strengths import described

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
