"""`crfqn inspect` prints a model's largest weights, sizes, settings and origin; `crfqn report` writes a page."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import crfqn
from crfqn.cli.loading import (
    KnownItems,
    LoadedModel,
    check_labelled,
    feature_names,
    open_input,
    recipe_of,
    restored,
)
from crfqn.cli.output import LostInputError, say, to_json
from crfqn.data.files import shown_name
from crfqn.data.label_arrays import label_text
from crfqn.data.model_file import ModelFile
from crfqn.errors import CrfqnError, InputError
from crfqn.messages import printable, shorten
from crfqn.model.model import Model
from crfqn.model.opening import MODEL_CLASSES, model_of, read_any
from crfqn.model.sequences import SequenceModel
from crfqn.model.texts import Words, tokenizer_of
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sequences import pixel_map
from crfqn.report.facts import feature_text, fitted_model, n_features
from crfqn.result import Status

# Parameters of the estimator that are always shown, and those of a run, which are never shown. Others are shown if they
# are not the default. Defaults are repeated here because importing the estimators takes a second.
SHOWN_SETTINGS = ("loss", "penalty", "l1", "l2", "solver", "tol", "stop", "max_iter")
RUN_PARAMETERS = ("n_threads", "verbose", "warm_start", "cache_size", "dask_client", "worker_timeout")
DEFAULT_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("all_possible_states", "all_possible_transitions", "fit_intercept"), True),
    **{"C": 1.0, "kernel": "rbf", "degree": 3, "gamma": "scale", "group_norm": "l2", "dense_l2": 1.0},
    **{"enforce_rules_in": "both", "on_violation": "error", "labels": "leaves", "threshold": "item"},
    **{"basis": [1, 2, 3], "separator": "/"},
    **{"min_count": 1, "patience": 10, "n_iter_no_change": 5, "validation_fraction": 0.1, "n_rounds": 1},
    **{"batch_size": 512, "inner_iter": 50, "link": "auto", "update": "linear", "generator": "fourier"},
}  # the defaults of all others are None, 0 or False
DEFAULTS_OF_KINDS: dict[str, dict[str, Any]] = {
    "taxonomy-crf": {"fit_intercept": False},
    "calibrated-least-squares": {"early_stopping": "auto"},
}
MAX_CARD_LABELS = 200  # in a model card, so that it stays readable
# The items of a model, by the kind of features, if they are neither sequences nor rows of numbers.
ITEMS_OF = {"text": "a list of texts", "table": "a data frame, or dicts of cells by column"}
MAX_SHOWN_NODES = 30  # of models of documents; JSON has all nodes


def print_model(path: Path, top: int, label: str | None, *, is_card: bool, as_json: bool) -> None:
    """Print facts about the model, its transitions and the `top` largest weights of each label or node, or of one; or
    its model card."""
    if is_card and (as_json or label is not None):
        other = "--json" if as_json else f"--label {label}"
        raise InputError(
            f"expected --card alone, which describes the whole model in Markdown, got --card {other}"
        )
    file = read_any(path)
    model: Any = _opened(file)
    weights = fitted_model(model, feature_names(model, path))
    if weights is None:
        raise InputError(
            f"{path}: a model of stages ({model.n_iter_:,} of them) has no weights of single features to show"
        )
    names = [*map(label_text, weights.node_names)]
    if label is not None and label not in names:
        listed = ", ".join(names)
        if len(names) > 100:
            listed = f"{', '.join(names[:5])} and {len(names) - 5:,} more"
        raise InputError(f"{path}: the model has no label {label!r}; it has: {listed}")
    recipe = recipe_of(model, path)
    content = _facts(model, weights, path, recipe)
    if is_card:
        print(_card(model, file, content, recipe))
        return
    fact_lines = _fact_lines(content)
    shown, n_left_out = list(range(len(names))), 0
    if label is not None:
        shown = [names.index(label)]
    elif not as_json and not isinstance(weights, SequenceModel) and len(names) > MAX_SHOWN_NODES:
        # Show the nodes with the largest numbers of weights, in the model's order.
        counts = weights.n_node_weights
        shown = np.sort(np.argsort(-counts, kind="stable")[:MAX_SHOWN_NODES]).tolist()
        n_left_out = int(np.count_nonzero(counts)) - MAX_SHOWN_NODES
    content["weights"] = {}
    for node in shown:
        strongest = weights.strongest(node, top)
        content["weights"][names[node]] = [{"feature": feature_text(f), "weight": w} for f, w in strongest]
    if isinstance(weights, SequenceModel):
        n, asked = (top * 2, None) if label is None else (top, weights.node_names[names.index(label)])
        content["transitions"] = [
            {"from": label_text(before), "to": label_text(after), "weight": weight}
            for (before, after), weight in weights.strongest_transitions(n, asked)
        ]
        if weights.bigrams is not None:
            content["bigrams"] = [
                {"feature": feature_text(f), "from": label_text(before), "to": label_text(after), "weight": w}
                for (f, before, after), w in weights.strongest_bigrams(n, asked)
            ]
    if as_json:
        print(to_json(content))
        return
    lines = fact_lines
    for name, entries in content["weights"].items():
        what = f"the {len(entries)} largest weights" if entries else "no weights"
        lines += ["", f"{printable(name)}: {what}"]
        lines += [f"  {entry['weight']:+10.4f}  {printable(entry['feature'])}" for entry in entries]
    for key, title in (("transitions", "transitions"), ("bigrams", "transitions by feature")):
        if key in content:
            lines += ["", f"{title}: the {len(content[key])} largest"]
            for entry in content[key]:
                feature = f"  {printable(entry['feature'])}" if key == "bigrams" else ""
                pair = f"{printable(entry['from'])} -> {printable(entry['to'])}"
                lines.append(f"  {entry['weight']:+10.4f}  {pair}{feature}")
    if n_left_out:
        lines += ["", f"{n_left_out:,} more nodes have weights: --label NODE shows one of them, --json all"]
    print("\n".join(lines))


def _opened(file: ModelFile) -> LoadedModel:
    """Return the Model of a file, or the estimator for other kinds, files of other versions and damaged files, because
    only loading the estimator reports the damage."""
    solver = str(file.table("settings").get("solver"))
    is_named = solver.replace("-", "").isalpha()
    is_current = file.metadata.get("crfqn_version") == crfqn.__version__
    if file.kind in MODEL_CLASSES and is_named and "strengths" in file.metadata and is_current:
        with suppress(KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError):
            opened: LoadedModel = model_of(file)
            return opened
    model = restored(file)
    if not is_named:
        model.solver = solver  # the text: a solver object is not read from a file
    return model


def _facts(model: Any, weights: Model, path: Path, recipe: Recipe | None) -> dict[str, Any]:
    result = getattr(model, "result_", None)
    parameters: dict[str, Any] = getattr(model, "stored_parameters", model.get_params)()
    parameters = {**parameters, **model.fitted_strengths}
    settings = {name: parameters[name] for name in SHOWN_SETTINGS if name in parameters}
    defaults = DEFAULT_SETTINGS | DEFAULTS_OF_KINDS.get(weights.kind, {})
    for name, value in parameters.items():
        is_default = value == defaults.get(name) or not (value or defaults.get(name))
        if name not in (*SHOWN_SETTINGS, *RUN_PARAMETERS) and not is_default:
            settings[name] = value
    status = getattr(result, "status", None)
    message = getattr(result, "message", None)
    if status is Status.IMPORTED:  # its training had other settings and left no figures
        result, settings, message = None, {}, status.value
    facts = {
        "path": str(path),
        "bytes": path.stat().st_size,
        "recipe": None if recipe is None else recipe.name,
        "title": None if recipe is None else recipe.title,
        "encoding": None if recipe is None or recipe.data.dataset else recipe.data.encoding,
    }
    tokenizer = tokenizer_of(model)
    if tokenizer.share is not None:
        facts |= {"tokenizer": tokenizer.name, "tokenizer_share": tokenizer.share}
    if isinstance(featurizer := getattr(model, "featurizer_", None), Words):
        facts["ngrams"] = featurizer.description
    source = getattr(getattr(model, "vocabulary", None), "source", None)
    if source and source["gazetteers"]:
        facts["gazetteers"] = {name: len(entries) for name, entries in source["gazetteers"].items()}
    facts["data_fingerprint"] = model.training_.get("data_fingerprint")
    facts["labels"] = [*map(label_text, model.classes_)]
    if (tree := getattr(model, "tree_", None)) is not None:
        facts["n_nodes"] = tree.n_nodes
    facts |= {"n_features": n_features(model), "n_features_used": weights.kept_features_.size}
    dense = weights.dense_coef_
    if dense.size:
        facts |= {"n_dense": dense.shape[1], "n_dense_nonzero": int(np.count_nonzero(dense))}
    n_of_features = int(weights.weights.values.size)
    if isinstance(weights, SequenceModel):
        n_bigrams = 0 if weights.bigrams is None else weights.bigrams.values.size
        n_others, name = int(weights.edges.values.size + n_bigrams), "n_nonzero_transitions"
        facts |= {"n_nonzero": n_of_features + n_others, name: n_others}
    elif parameters.get("fit_intercept"):
        n_others, name = int(np.count_nonzero(model.intercept_)), "n_nonzero_intercepts"
        facts |= {"n_nonzero": n_of_features + n_others, name: n_others}
    else:
        facts["n_nonzero"] = n_of_features
    if (temperature := getattr(weights, "temperature", 1.0)) != 1.0:
        facts["temperature"] = temperature
    facts |= {"settings": settings, "status": message}
    for key, name in (("objective", "value"), ("gap", "gap"), ("estimated_gap", "estimated_gap")):
        value = getattr(result, name, None)
        facts[key] = None if value is None else float(value)
    return facts | {"n_proved_zeros": getattr(result, "n_proved_zeros", None)}


def _fact_lines(facts: dict[str, Any]) -> list[str]:
    labels = " ".join(facts["labels"])
    others = next((name for name in facts if name.startswith("n_nonzero_")), None)
    of_others = f", of which {facts[others]:,} {others.removeprefix('n_nonzero_')}" if others else ""
    nodes = f", of {facts['n_nodes']:,} nodes" if "n_nodes" in facts else ""
    gap, estimate = facts["gap"], facts["estimated_gap"]
    estimated = ""  # appended if the estimate is smaller than the bound
    if estimate is not None and estimate < gap:
        estimated = f" certified, {estimate:.1e} by estimate"
    rows = {
        "model": f"{facts['path']} ({facts['bytes']:,} bytes)",
        "recipe": facts["recipe"] and f"{facts['recipe']}: {facts['title']}",
        "data": facts["data_fingerprint"] and f"sha256 {facts['data_fingerprint']}",
        "encoding": facts["encoding"] != "utf-8" and facts["encoding"],
        "raw text": "tokenizer" in facts
        and f"cut by {facts['tokenizer']!r}: {100 * facts['tokenizer_share']:.1f} % of the training tokens right",
        "texts": facts.get("ngrams"),
        "gazetteers": ", ".join(f"{name} ({n:,} names)" for name, n in facts.get("gazetteers", {}).items()),
        "labels": f"{len(facts['labels'])}{nodes}: {labels if len(labels) <= 70 else labels[:67] + '...'}",
        "features": f"{facts['n_features']:,}, of which {facts['n_features_used']:,} are used",
        "dense": "n_dense" in facts
        and f"{facts['n_dense']:,} columns beside them, with {facts['n_dense_nonzero']:,} weights more",
        "non-zeros": f"{facts['n_nonzero']:,}{of_others}",
        "settings": ", ".join(f"{name} = {_setting(value)}" for name, value in facts["settings"].items()),
        "calibrated": "temperature" in facts
        and f"temperature {facts['temperature']:.4g}, by which scores are divided",
        "status": facts["status"],
        "objective": None if facts["objective"] is None else f"{facts['objective']:,.3f} nats",
        "gap": None if gap is None else f"{gap:.2e}{estimated}",
        "proved": facts["n_proved_zeros"]
        and f"{facts['n_proved_zeros']:,} of the zeros are zero at the optimum",
    }
    return [f"{name:<10} {printable(text)}" for name, text in rows.items() if text]


def _setting(value: object) -> object:
    """Return a setting for a text: words and numbers unchanged, other values shortened, such as many factors."""
    return value if isinstance(value, (str, int, float)) else shorten(value)


def _card(model: LoadedModel, file: ModelFile, facts: dict[str, Any], recipe: Recipe | None) -> str:
    """Return a model card in Markdown with the facts that the file contains."""
    path, rows = Path(facts["path"]), dict(line.split(maxsplit=1) for line in _fact_lines(facts))
    data: list[str] = []
    if recipe is not None and recipe.data.dataset:
        data.append(f"- dataset: {_code(recipe.data.dataset)}")
    elif recipe is not None:
        for part in ("train", "test", "dev"):
            files = getattr(recipe.data, part)
            names = [Path(name).name for name in ([files] if isinstance(files, str) else files) if name]
            # Without folders, which may be private.
            data += [f"- {part}: {', '.join(map(_code, names))}"] if names else []
    if facts["data_fingerprint"]:
        data.append(f"- SHA-256 of the training data: {_code(facts['data_fingerprint'])}")
    labels = [f"- {_code(label)}" for label in facts["labels"][:MAX_CARD_LABELS]]
    n_others = len(facts["labels"]) - len(labels)
    labels += [f"- {n_others:,} more"] if n_others else []
    sizes = [f"- {name}: {rows[name]}" for name in ("features", "dense", "non-zeros") if name in rows]
    training = [f"- {_code(name)}: {_code(_setting(value))}" for name, value in facts["settings"].items()]
    training += [
        f"- {name}: {_text(rows[name])}"
        for name in ("status", "objective", "gap", "calibrated")
        if name in rows
    ]
    held_out = getattr(getattr(model, "result_", None), "held_out", None)
    scores = [] if held_out is None else [f"- validation items: {_text(held_out)}"]
    scores += _test_scores(model.training_.get("test_scores"))
    rows_of_path = model.training_.get("regularization_path")
    for row in rows_of_path if isinstance(rows_of_path, list) else ():
        if isinstance(row, dict) and row.get("is_best") and isinstance(row.get("score"), float):
            scores.append(f"- held-out items of the path of strengths: score {row['score']:.4f}")
    version = file.metadata.get("crfqn_version")
    versions = [f"- model written by crfqn {_text(version)}"] if version else []
    sections = {
        "Labels": labels,
        "Data": data,
        "Size": [*sizes, f"- file: {facts['bytes']:,} bytes"],
        "Training": training,
        "Held-out scores": scores,
        "Versions": [*versions, f"- card written by crfqn {crfqn.__version__}"],
    }
    lines = [f"# {_text(facts['recipe'] or path.stem)}"]
    lines += ["", _text(facts["title"])] if facts["title"] else []
    nodes = f", of a taxonomy of {facts['n_nodes']:,} nodes" if "n_nodes" in facts else ""
    lines += ["", f"Model of kind {_code(file.kind)} with {len(facts['labels']):,} labels{nodes}."]
    for title, entries in sections.items():
        lines += ["", f"## {title}", "", *entries] if entries else []
    name = printable(path.name)
    command = f"    crfqn predict {shlex.quote(name)} FILE"
    items = model.ANSWERS.inputs
    if recipe is not None and recipe.features.kind in ITEMS_OF:
        items = ITEMS_OF[recipe.features.kind]
    python = ["import crfqn", f"model = crfqn.load({name!r})", f"labels = model.predict(X)  # X: {items}"]
    return "\n".join(
        [*lines, "", "## Use", "", command, "", "In Python:", "", *(f"    {line}" for line in python)]
    )


def _test_scores(kept: object) -> list[str]:
    """Return the lines of a card with the test scores by name that `crfqn train` has stored; [] for anything else."""
    if not isinstance(kept, dict) or not all(type(value) in (int, float) for value in kept.values()):
        return []
    names = {"n_items": "items", "n_positions": "positions", "item_accuracy": "whole items"}
    names |= {"chunk_f1": "F1 of chunks", "hierarchical_f1": "hierarchical F1"}
    shown = [
        f"{names.get(name, _text(name))} {format(value, ',' if isinstance(value, int) else '.4f')}"
        for name, value in kept.items()
    ]
    return [f"- test part: {', '.join(shown)}"] if shown else []


def _text(text: object) -> str:
    """Return text escaped for Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|&!])", r"\\\1", printable(text))


def _code(text: object) -> str:
    """Return text as a code span of Markdown, delimited by more backticks than the text has in a row."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown or not shown.strip() else f"{fence}{shown}{fence}"


def write_page(
    path: Path,
    source: str | None,
    output: Path,
    title: str | None,
    top: int,
    n_errors: int,
    *,
    as_json: bool,
    is_quiet: bool,
) -> None:
    """Write the page about a model to `output` and print its path."""
    from crfqn.report import write_report

    model = restored(read_any(path))
    observed, name, n_items, data = None, "", None, None
    try:
        observed = open_input(model, path, source, is_labeled=True).observe(source)
    except (CrfqnError, OSError) as error:
        if source is not None or isinstance(error, LostInputError):
            raise
        if not is_quiet:
            say(f"Without scores and errors, as there is no data to evaluate on: {error}")
    if observed is not None:
        name = shown_name(source) if source is not None else "the test part of the data"
        check_labelled(observed, name)
        data, n_items = (observed.X, observed.y), len(observed.y or ())
        known = KnownItems(model, path, name, None)
        with known.counted(observed):
            model.predict(observed.X)
        known.check()
    recipe = recipe_of(model, path)
    shape = None if recipe is None or recipe.features.kind != "pixel-pairs" else pixel_map(recipe).shape
    write_report(
        path,
        output,
        data,
        texts=None if observed is None else observed.texts,
        feature_names=feature_names(model, path),
        image_shape=shape,
        source=name,
        title=title,
        n_features=top,
        n_errors=n_errors,
    )
    if as_json:
        print(to_json({"path": str(output), "bytes": output.stat().st_size, "n_items": n_items}))
    elif not is_quiet:
        about = "" if n_items is None else f", with scores of {n_items:,} items"
        print(printable(f"{output} ({output.stat().st_size:,} bytes{about})"))
