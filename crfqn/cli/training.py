"""`crfqn train` and `crfqn quickstart`: train from a recipe, save the model and print a summary."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.cli.exits import ExitCode, Interrupts
from crfqn.cli.loading import check_labelled, feature_names, say_share
from crfqn.cli.options import ClusterOptions
from crfqn.cli.output import command_files, say, to_json
from crfqn.data.hybrid import sparse_of, with_dense
from crfqn.data.items import Handover, check_weighted_labels
from crfqn.data.label_arrays import labels_like
from crfqn.data.model_file import check_model_name
from crfqn.data_options import AUTO_NGRAMS
from crfqn.errors import DataError, DataUnavailableError, InputError, ModelFileError
from crfqn.estimators.checkpoint import CHECKPOINT_FILE
from crfqn.messages import named_places
from crfqn.model.texts import Words, tokenizer_of
from crfqn.readers.datasets import dataset
from crfqn.readers.format import by_blank_lines
from crfqn.readers.registry import find_format
from crfqn.recipes import EMBEDDED, Prepared, build_estimator, by_feature_in_columns, load_recipe
from crfqn.recipes.finding import recipe_of_options
from crfqn.recipes.preparing import observe, prepare_data
from crfqn.recipes.schema import Recipe
from crfqn.recipes.shards import prepare_shards
from crfqn.recipes.sources import cut_alike, files_named, files_of, format_of
from crfqn.result import Status
from crfqn.threads import available_cores

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator
    from crfqn.metrics.evaluation import Scores

FIRST_CHOICE = "ocr"
MIN_SUSPECT_LINES = 1_000  # of a file with one item: longer than any sentence, so blank lines may be missing
# Seconds without data, and for the whole download: so that a first run starts soon.
FETCH_TIMEOUT, FETCH_LIMIT = 3.0, 20.0


def train_recipe(
    name_or_path: str | None,
    data: Mapping[str, Any],
    output: Path | None,
    settings: Mapping[str, Any],
    dev: Mapping[str, Any],
    dense: Path | None,
    cluster: ClusterOptions,
    *,
    is_float32: bool,
    as_json: bool,
    is_quiet: bool,
) -> int:
    """Train from a recipe and return the exit code.

    `settings` that are not None replace the parameters of the recipe. `dev` has the files of validation items and the
    model to start from.
    """
    is_clustered = cluster != ClusterOptions()
    if dense is not None and (not data["data"] or data["test"] or dev["dev"] or is_clustered):
        raise InputError(
            "--dense: expected --data FILE alone, without --test and --dev; then `crfqn evaluate`"
        )
    recipe = chosen_recipe(name_or_path, data)
    of_dev = [f"--{name}" for name in ("metric", "patience") if dev[name] is not None]
    if of_dev and not (dev["dev"] or recipe.data.names("dev")):
        raise InputError(f"{of_dev[0]}: expected with --dev FILE, whose items are scored")
    output = noted_files(recipe, output, settings["checkpoint"])
    with Interrupts() as interrupts, cluster_of(cluster) as client:
        of_cluster = {"dask_client": client, "worker_timeout": cluster.worker_timeout}
        settings = {**settings, "scoring": dev["metric"], "patience": dev["patience"], **of_cluster}
        prepared = read_data(recipe, settings) if client is None else prepare_shards(recipe)
        if dense is not None:
            prepared.X_train = with_dense(dense, prepared.X_train)
        fit_options = {
            "validation": dev_items(recipe, prepared, dev["dev"]),
            "start": None if dev["start"] is None else model_to_start_from(dev["start"], prepared),
        }
        how: dict[str, Any] = {"dtype": "float32"} if is_float32 else {}
        how |= {"as_json": as_json, "is_quiet": is_quiet}
        return _fit_and_save(recipe, prepared, output, settings, interrupts, fit_options, **how)


@contextmanager
def cluster_of(options: ClusterOptions) -> Iterator[Any]:
    """Open a client of a running Dask cluster or of new worker processes; yield None if no option requests a cluster.

    InputError if dask is not installed or no scheduler answers.
    """
    if options.scheduler is None and options.workers is None:
        if options.worker_timeout is not None:
            raise InputError("--worker-timeout: expected with --scheduler or --workers; there is no cluster")
        yield None
        return
    if options.scheduler is not None and options.workers is not None:
        raise InputError("--workers: they are started on this machine; expected it or --scheduler, got both")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("clusters need Dask: pip install crfqn[dask]") from None
    from crfqn.distributed.workers import connected

    if options.scheduler is not None:
        with connected(options.scheduler) as client:
            yield client
        return
    n_threads = max(available_cores() // (options.workers or 1), 1)
    here: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=n_threads, **here) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def chosen_recipe(name_or_path: str | None, options: Mapping[str, Any]) -> Recipe:
    """Return the named recipe, or the one made from `--data` and its options; InputError for both together."""
    chosen = {name: value for name, value in options.items() if value not in (None, [])}
    if name_or_path is None:
        if "data" not in chosen:
            raise InputError("expected a recipe or --data FILE, got neither; `crfqn quickstart` needs none")
        return recipe_of_options(**chosen)
    if chosen:
        option = next(iter(chosen)).replace("_", "-")
        raise InputError(
            f"--{option}: a recipe has this setting itself; give a recipe, or --data FILE for each file"
        )
    return load_recipe(name_or_path)


def noted_files(recipe: Recipe, output: Path | None, checkpoint: str | None = None) -> Path:
    """Register the files of a recipe as inputs, its model file (unless `output` is given) and the checkpoint as
    outputs; return the model file."""
    command_files.read(files_of(recipe))
    checkpoint = checkpoint or recipe.solver.settings.get("checkpoint")
    if checkpoint is not None:
        command_files.claim(Path(checkpoint) / CHECKPOINT_FILE)
    check_model_name(output or recipe.output_path)
    if output is None:
        command_files.write(recipe.output_path)
    return output or recipe.output_path


def read_data(recipe: Recipe, settings: Mapping[str, Any]) -> Prepared:
    """Check the settings of a recipe and those that override them, then read its data and check the class weights.

    Warn about a file that is a single long item, which is probably a mistake.
    """
    model: Estimator = build_estimator(recipe, **settings)
    model.check_parameters()
    prepared = prepare_data(recipe, settings)
    if isinstance(getattr(model, "class_weight", None), Mapping):
        y = prepared.y_train
        all_labels = {*(chain.from_iterable(y) if model.ANSWERS.is_list else y)} - {None}
        check_weighted_labels(model.class_weight, sorted(all_labels, key=str))
    for part, labels in (("train", prepared.y_train), ("test", prepared.y_test)):
        _warn_of_one_item(recipe, recipe.data.names(part), labels)
    return prepared


def _warn_of_one_item(recipe: Recipe, names: list[str], labels: list[Any]) -> None:
    """Warn if all rows of a table, or MIN_SUSPECT_LINES lines of columns, are one sequence."""
    if recipe.structure.kind != "chain" or not names or len(labels) != 1 or recipe.data.sentence:
        return
    name, n_lines = format_of(recipe, names[0]), len(labels[0])
    if "sentence" in find_format(name).options():
        lines, remedy = "rows", ", a column called sentence or sent_id, or --sentence COLUMN"
    elif n_lines >= MIN_SUSPECT_LINES and find_format(name).cut is by_blank_lines:
        lines, remedy = "lines", " between them"
    else:
        return
    say(
        f"Warning: {Path(names[0]).name}: all its {lines} ({n_lines:,}) are one item; blank lines{remedy} separate "
        "items"
    )


def model_to_start_from(path: Path, prepared: Prepared) -> Any:
    """Return the model of a file, of crfqn or another tool.

    If features are learnt from the data, its weights move to the columns of the new features with the same names;
    InputError for a model without names of features.
    """
    from crfqn import interchange

    model = interchange.read(path)
    if prepared.features is None or not hasattr(model, "coef_"):
        return model
    named = feature_names(model, path) if model.training_ else None
    if not isinstance(named, Mapping):
        raise InputError(
            f"--start {path}: expected a model that `crfqn train` made from such data, which has names of features"
        )
    from scipy.sparse import csr_array

    new, old = prepared.features, model.coef_.tocoo()
    column_of: dict[str | None, int] = dict(zip(new.names, new.columns.tolist(), strict=True))
    columns = np.array([column_of.get(named.get(column), -1) for column in old.col.tolist()], np.int64)
    stays = columns >= 0
    shape = old.shape[0], new.n_columns
    model.coef_ = csr_array((old.data[stays], (old.row[stays], columns[stays])), shape)
    model.n_features_in_ = new.n_columns
    return model


def dev_items(recipe: Recipe, prepared: Prepared, dev: list[str] | None) -> tuple[Any, list[Any]] | None:
    """Return features and labels of the files `dev`, else of the recipe's dev files, None without any; store their
    places in `prepared`."""
    names = dev or recipe.data.names("dev")
    if not names:
        return None
    files = files_named(names, Path() if dev else recipe.source.parent)
    alike = cut_alike(recipe, getattr(prepared.X_train, "vocabulary", None))
    observed = observe(alike, files, prepared.features)
    check_labelled(observed, ", ".join(names))
    prepared.dev_places = observed.data.where
    y = observed.y or []
    _warn_of_one_item(recipe, names, y)
    return observed.X, labels_like(y, prepared.y_train)


def train_first_model(output: Path | None, *, n_threads: int | None, as_json: bool, is_quiet: bool) -> int:
    """Train on handwritten words if they are here or download in seconds, else on digits; return the exit code."""
    with Interrupts() as interrupts:
        words, reason = dataset(FIRST_CHOICE), ""
        try:
            if not words.locate() and not is_quiet:
                say(f"Downloading handwritten words, for at most {FETCH_LIMIT:.0f} s ...")
            words.fetch(timeout=FETCH_TIMEOUT, limit=FETCH_LIMIT)
            recipe = load_recipe(FIRST_CHOICE)
            prepared = prepare_data(recipe)
        except DataUnavailableError:
            reason = f"`crfqn data get {FIRST_CHOICE}` gets the words"
        except DataError as error:
            reason = f"the words cannot be used: {error}"
        if reason:
            if not is_quiet:
                say(f"Training on handwritten digits, which are built in; {reason}.\n")
            recipe = load_recipe(EMBEDDED)
            prepared = prepare_data(recipe)
        output = noted_files(recipe, output)
        if not is_quiet:
            say("The first run on a machine compiles for some seconds before it prints the first line.")
        how: dict[str, Any] = {"as_json": as_json, "is_quiet": is_quiet}
        code = _fit_and_save(recipe, prepared, output, {"n_threads": n_threads}, interrupts, {}, **how)
    if as_json or is_quiet:
        return code
    steps = {
        f"crfqn inspect {output}": "what the model has learned",
        f"crfqn evaluate {output}": "precision and recall of each label",
    }
    if isinstance(recipe.objective.l1, float):
        half = f"crfqn train models/{recipe.name} --l1 {recipe.objective.l1 / 2:g}"
        steps[half] = "more weights, more accuracy"
    width = max(map(len, steps))
    print("\nNext:", *(f"  {step:<{width}}  {what}" for step, what in steps.items()), sep="\n")
    return code


def _fit_and_save(
    recipe: Recipe,
    prepared: Prepared,
    output: Path,
    settings: Mapping[str, Any],
    interrupts: Interrupts,
    fit_options: Mapping[str, Any],
    *,
    as_json: bool,
    is_quiet: bool,
    dtype: str = "float64",
) -> int:
    model: Estimator = build_estimator(
        recipe,
        taxonomy=prepared.given_taxonomy,
        verbose=int(not is_quiet),
        callback=interrupts.stops,
        **settings,
    )
    by_feature_in_columns(model, prepared)
    if not is_quiet:
        say(_description(recipe, prepared, model))
    _fit(model, prepared, interrupts, fit_options)
    is_interrupted = interrupts.is_requested or model.result_.status is Status.INTERRUPTED
    if is_interrupted and model.result_.n_nonzero == 0:
        say("Interrupted before the first weights; nothing was saved.")
        return interrupts.code
    with interrupts.during("saving"):
        keep_facts(model, recipe, prepared)
        save_model(model, output, dtype)
    if is_interrupted:
        say(f"Interrupted; the best model so far is saved in {output}.")
        code = interrupts.code
    elif model.result_.status.is_regular or (
        # with class weights or unknown labels a chain's loss is not convex, and a stationary point is the best end
        model.result_.status is Status.STATIONARY
        and (getattr(model, "class_weight", None) or recipe.data.missing is not None)
    ):
        code = ExitCode.OK
    else:
        say(f"Not converged ({model.result_.message}); the model is saved and usable.")
        code = ExitCode.NOT_CONVERGED
    say_share(tokenizer_of(model))
    scores = None
    if not is_interrupted and prepared.y_test:
        from crfqn.metrics.evaluation import score

        with named_places(prepared.test_places):
            scores = score(model, prepared.X_test, prepared.y_test)
        with interrupts.during("saving"):  # saved again: an error in scoring must not lose the model
            model.training_ = model.training_ | {"test_scores": scores.headline()}
            save_model(model, output, dtype)
    if as_json or not is_quiet:
        summary = _json_summary if as_json else _summary
        print(summary(model, output, scores, is_interrupted), flush=True)
    return code


@contextmanager
def quiet_training(interrupts: Interrupts) -> Iterator[None]:
    """Let the first signal stop a training; suppress ConvergenceWarning, as message and exit code report the same."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(), interrupts.during("training"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _fit(
    model: Estimator, prepared: Prepared, interrupts: Interrupts, fit_options: Mapping[str, Any]
) -> None:
    with quiet_training(interrupts), named_places(prepared.train_places, prepared.dev_places):
        try:
            if prepared.is_sharded:
                model.fit(prepared.take_train(), None, prepared.sample_weight, **fit_options)
            else:
                X = Handover(prepared.take_train())
                model.fit(X, prepared.y_train, prepared.sample_weight, **fit_options)
        except KeyboardInterrupt:
            if not hasattr(model, "result_"):  # otherwise it has kept the weights so far
                raise
    shown = {"dask_client": None} if prepared.is_sharded else {}
    model.set_params(verbose=0, callback=None, **shown)  # these belong to this training, not to the model


def save_model(model: Estimator, output: Path, dtype: str = "float64") -> None:
    """Save the model; if that fails, save it to a new temporary folder and raise ModelFileError with its path."""
    try:
        model.save(output, dtype=dtype)
        return
    except ModelFileError as error:
        reason = error
    try:
        folder = Path(tempfile.mkdtemp(prefix="crfqn-"))
        try:
            model.save(folder / output.name, dtype=dtype)
        except BaseException:
            folder.rmdir()
            raise
        rescued = f"the model is in {folder / output.name} instead"
    except (OSError, ModelFileError) as error:
        rescued = f"nor can it be saved elsewhere: {error}"
    raise ModelFileError(f"{reason}; {rescued}") from reason


def keep_facts(model: Estimator, recipe: Recipe, prepared: Prepared) -> None:
    """Store with a model the facts of its training that `evaluate`, `predict` and `inspect` need."""
    facts: dict[str, Any] = {
        "recipe": recipe.as_dict(),
        "data_fingerprint": prepared.fingerprint,
        "n_features": model.n_features_in_,  # the model file keeps only features with a weight
    }
    if model.n_weights_:
        facts["n_weights"] = model.n_weights_
    if not recipe.data.dataset:  # its data files are relative to the recipe
        facts["recipe_source"] = str(recipe.source.resolve())
    model.training_ = facts
    if prepared.features is not None:
        model.featurizer_ = prepared.features


def _description(recipe: Recipe, prepared: Prepared, model: Estimator) -> str:
    from crfqn.estimators.automatic import described, learns_from_mistakes

    if learns_from_mistakes(model.solver):
        settings = "learns from its mistakes, without a penalty"
    else:
        settings = f"{described(model.strengths_asked)}, tol = {model.tol_:g}"
    if prepared.is_sharded:
        return f"{recipe.title}\n{len(prepared.X_train.reads)} shards; {settings}\n"
    tree, y = prepared.taxonomy, prepared.y_train
    kind = model.ANSWERS
    n_labels = len({*(chain.from_iterable(y) if kind.is_list else y)} - {None})
    if tree is not None:  # all labels that can be predicted, also those without training items
        n_labels = tree.n_nodes if model.labels == "nodes" else tree.leaves.size
    size = f"{sum(map(len, y)):,} positions"
    if not kind.has_positions:
        size = f"{sparse_of(prepared.X_train).shape[1]:,} features"
        if isinstance(prepared.features, Words) and recipe.features.analyzer == AUTO_NGRAMS:
            size += f" ({prepared.features.description})"
    sizes = f"{size}, {n_labels:,} labels"
    if tree is not None:
        sizes += f" in a taxonomy of {tree.n_nodes:,} nodes"
    return f"{recipe.title}\n{len(y):,} items, {sizes} for training; {settings}\n"


def _summary(model: Estimator, output: Path, scores: Scores | None, is_interrupted: bool) -> str:
    from crfqn.estimators.automatic import described, is_auto, learns_from_mistakes

    result = model.result_
    message = Status.INTERRUPTED.value if is_interrupted else result.message
    # Show the certified gap if it is informative, and the estimate if it is smaller.
    gap, estimate = result.gap, result.estimated_gap
    zeros = f"; {result.n_proved_zeros:,} zeros proved" if result.n_proved_zeros else ""
    if result.has_informative_gap:
        closer = f"; {estimate:.1e} by estimate" if estimate < gap else ""
        distance = f"{gap:.2e}, certified: the optimum is at most {100 * gap:.3g} % lower{zeros}{closer}"
    elif not math.isnan(estimate) and not estimate >= gap:
        distance = f"{estimate:.1e} by estimate{zeros}"
    elif math.isnan(result.violation):
        distance = "unknown: stopped before the first pass over all weights"
    elif math.isnan(gap):
        distance = "unknown: no certificate exists for this objective"
    else:
        distance = (
            f"unknown: there is no estimate, and the certified gap is too large to be informative{zeros}"
        )
    rows = [
        ("status", message),
        ("objective", f"{result.value:,.3f} nats"),
        ("gap", distance),
        ("non-zeros", f"{result.n_nonzero:,} of {_weights(model)}"),
        *([("dev", str(result.held_out))] if result.held_out and str(result.held_out) not in message else []),
        ("time", f"{result.seconds:.2f} s, {result.passes:.1f} passes over the data"),
    ]
    is_chosen = any(is_auto(value) for value in model.strengths_asked.values())
    if is_chosen and not learns_from_mistakes(model.solver):
        rows.insert(1, ("strengths", described(model.fitted_strengths)))
    if scores is not None:
        rows.append(("accuracy", f"{describe_accuracy(scores)} (test part)"))
    rows.append(("model", f"{output} ({output.stat().st_size:,} bytes)"))
    return "\n".join(f"{name:<10} {text}" for name, text in rows)


def _json_summary(model: Estimator, output: Path, scores: Scores | None, is_interrupted: bool) -> str:
    """Return the summary as JSON; unknown numbers are null."""
    from crfqn.model.results import held_out_content

    result = model.result_
    status = "INTERRUPTED" if is_interrupted else result.status.name
    numbers = ("value", "gap", "estimated_gap", "violation", "passes", "seconds")
    counts = ("n_iter", "n_nonzero", "n_proved_zeros")
    facts: dict[str, Any] = {"status": status.lower(), "strengths": model.fitted_strengths}
    facts |= {"tol": model.tol_} | {name: getattr(result, name) for name in (*numbers, *counts)}
    if result.held_out is not None:
        facts["dev"] = held_out_content(result.held_out)
    facts["scores"] = None if scores is None else scores.as_json()
    return to_json(facts | {"model": str(output), "bytes": output.stat().st_size})


def _weights(model: Estimator) -> str:
    """Describe the number of weights that the model could have."""
    if not hasattr(model, "coef_"):
        return f"{model.result_.n_nonzero:,} weights ({model.n_iter_:,} stages)"
    if model.ANSWERS.has_positions:
        return f"{model.n_weights_:,} weights"
    n_states, n_features = model.coef_.shape[0], model.coef_.shape[1] + model.n_dense_
    constant = " and a constant" if model.fit_intercept else ""
    rows = "labels" if getattr(model, "tree_", None) is None else "nodes"
    n_weights = n_states * (n_features + bool(constant))
    return f"{n_weights:,} weights ({n_states:,} {rows} x {n_features:,} features{constant})"


def describe_accuracy(scores: Scores) -> str:
    """Describe the scores: accuracy, and F1 of chunks or hierarchical F1 where the labels have them."""
    if scores.n_positions is not None:
        unknown = f", without {scores.n_unknown:,} of unknown labels" if scores.n_unknown else ""
        return (
            (
                f"{scores.accuracy:.4f} of {scores.n_positions:,} positions, {scores.item_accuracy:.4f} of "
                f"{scores.n_items:,} whole items"
            )
            + ("" if scores.chunks is None else f", F1 of chunks {scores.chunks.f1:.4f}")
            + unknown
        )
    nearness = "" if scores.hierarchy is None else f", hierarchical F1 {scores.hierarchy.f1:.4f}"
    return f"{scores.accuracy:.4f} of {scores.n_items:,} items{nearness}"
