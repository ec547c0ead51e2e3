"""`crfqn inspect` and `crfqn report`: a model's largest weights, sizes, settings and origin; a page about it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import crfqn
from crfqn.atomic_write import check_writable
from crfqn.cli.loading import (
    KnownItems,
    check_labelled,
    feature_names,
    load_model,
    read_input,
    recipe_of,
    restored,
)
from crfqn.cli.output import say, to_json
from crfqn.data.files import shown_name
from crfqn.data.label_texts import label_text
from crfqn.errors import CrfqnError, InputError
from crfqn.messages import printable
from crfqn.model.model import Model
from crfqn.model.opening import MODELS, model_of, read_any
from crfqn.model.sequences import SequenceModel
from crfqn.model.texts import tokenizer_of
from crfqn.recipes import Observed
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sequences import pixel_map
from crfqn.report.facts import feature_text, fitted_model, n_features
from crfqn.result import Status

# Of the estimator's parameters, those that shape a model.
SETTINGS = ("loss", "penalty", "l1", "l2", "solver", "tol", "stop", "max_iter")
MOST_NODES = 30  # of documents' labels, in a text; JSON has all


def inspect(path: Path, top: int, label: str | None, *, as_json: bool) -> None:
    """Print the `top` weights of each label or node (or of one), transitions, and the facts about the model."""
    model = _opened(path)
    weights = fitted_model(model, feature_names(model, path))
    if weights is None:
        raise InputError(
            f"{path}: a model of stages ({model.n_iter_:,} of them) has no weights of single features to show"
        )
    names = [*map(label_text, weights.node_names)]
    if label is not None and label not in names:
        raise InputError(f"{path}: the model has no label {label!r}; it has: {_listed(names)}")
    facts = _facts(model, weights, path, recipe_of(model, path))
    shown, n_left_out = list(range(len(names))), 0
    if label is not None:
        shown = [names.index(label)]
    elif not as_json and not weights.LABELS_SEQUENCES and len(names) > MOST_NODES:
        counts = weights.n_node_weights  # those with the most weights, in the model's order
        shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_NODES]).tolist()
        n_left_out = int(np.count_nonzero(counts)) - MOST_NODES
    content: dict[str, Any] = {
        **facts,
        "weights": {
            names[node]: [
                {"feature": feature_text(feature), "weight": weight}
                for feature, weight in weights.strongest(node, top)
            ]
            for node in shown
        },
    }
    if isinstance(weights, SequenceModel):
        n, asked = (top * 2, None) if label is None else (top, weights.node_names[names.index(label)])
        content["transitions"] = [
            {"from": label_text(before), "to": label_text(after), "weight": weight}
            for (before, after), weight in weights.strongest_transitions(n, asked)
        ]
        if weights.bigrams is not None:
            content["bigrams"] = [
                {
                    "feature": feature_text(feature),
                    "from": label_text(before),
                    "to": label_text(after),
                    "weight": weight,
                }
                for (feature, before, after), weight in weights.strongest_bigrams(n, asked)
            ]
    if as_json:
        print(to_json(content))
        return
    print("\n".join(_fact_lines(facts)))
    _print_weights(content)
    if n_left_out:
        print(f"\n{n_left_out:,} more nodes have weights: --label NODE shows one of them, --json all")


def _opened(path: Path) -> Any:
    """Return what a model file says of its model; the estimator itself for other kinds, solver objects, files of other
    versions and damaged ones, of which it knows what is wrong."""
    file = read_any(path)
    solver = str(file.metadata.get("settings", {}).get("solver"))
    is_named = solver.replace("-", "").isalpha()
    if (
        file.kind in MODELS
        and is_named
        and "strengths" in file.metadata
        and file.metadata.get("crfqn_version") == crfqn.__version__
    ):
        with suppress(KeyError, TypeError, ValueError, OverflowError, MemoryError, CrfqnError):
            return model_of(file)
    model = restored(file)
    if not is_named:
        model.solver = solver  # as it was, in words: a file makes no solver object
    return model


def _print_weights(content: dict[str, Any]) -> None:
    for name, entries in content["weights"].items():
        shown = printable(name)
        print(f"\n{shown}: the {len(entries)} largest weights" if entries else f"\n{shown}: no weights")
        print(
            *(f"  {entry['weight']:+10.4f}  {printable(entry['feature'])}\n" for entry in entries),
            sep="",
            end="",
        )
    if "transitions" in content:
        print(f"\ntransitions: the {len(content['transitions'])} largest")
        for entry in content["transitions"]:
            print(f"  {entry['weight']:+10.4f}  {printable(entry['from'])} -> {printable(entry['to'])}")
    if "bigrams" in content:
        print(f"\ntransitions by feature: the {len(content['bigrams'])} largest")
        for entry in content["bigrams"]:
            pair = f"{printable(entry['from'])} -> {printable(entry['to'])}"
            print(f"  {entry['weight']:+10.4f}  {pair}  {printable(entry['feature'])}")


def _listed(names: list[str]) -> str:
    if len(names) <= 100:
        return ", ".join(names)
    return f"{', '.join(names[:5])} and {len(names) - 5:,} more"


def _facts(model: Any, weights: Model, path: Path, recipe: Recipe | None) -> dict[str, Any]:
    result = getattr(model, "result_", None)
    parameters = model.get_params(deep=False)
    parameters |= model._fitted_strengths
    names = (*SETTINGS, "group_l1", "group_norm") if parameters["group_l1"] else SETTINGS
    settings = {name: parameters[name] for name in names if name in parameters}
    status = getattr(result, "status", None)
    if status is Status.IMPORTED:  # what trained it had other settings, and left no figures
        result, settings = None, {}
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "recipe": None if recipe is None else recipe.name,
        "title": None if recipe is None else recipe.title,
        "encoding": None if recipe is None or recipe.data.dataset else recipe.data.encoding,
        **_tokenizer_facts(model),
        "data_fingerprint": model.training_.get("data_fingerprint"),
        "labels": [*map(label_text, model.classes_)],
        **({} if getattr(model, "tree_", None) is None else {"n_nodes": model.tree_.n_nodes}),
        "n_features": n_features(model),
        "n_features_used": weights.kept_features_.size,
        **_dense_facts(model),
        **_n_nonzero(model, weights),
        "settings": settings,
        "status": status.value if result is None and status is not None else getattr(result, "message", None),
        "objective": _number(getattr(result, "value", None)),
        "gap": _number(getattr(result, "gap", None)),
        "estimated_gap": _number(getattr(result, "estimated_gap", None)),
        "n_proved_zeros": getattr(result, "n_proved_zeros", None),
    }


def _dense_facts(model: Any) -> dict[str, int]:
    """Return the numbers of columns and weights of a dense block, where there is one."""
    dense = getattr(model, "dense_coef_", np.empty((0, 0)))
    return {"n_dense": dense.shape[1], "n_dense_nonzero": int(np.count_nonzero(dense))} if dense.size else {}


def _tokenizer_facts(model: Any) -> dict[str, Any]:
    """Return what cuts raw text, where the training data have told it."""
    tokenizer = tokenizer_of(model) if model.LABELS_SEQUENCES else None
    if tokenizer is None or tokenizer.share is None:
        return {}
    return {"tokenizer": tokenizer.name, "tokenizer_share": tokenizer.share}


def _n_nonzero(model: Any, weights: Model) -> dict[str, int]:
    """Return the numbers of non-zero weights by kind: of features, and of the kinds that belong to no feature."""
    n_of_features = int(weights.weights.values.size)
    if isinstance(weights, SequenceModel):
        n_bigrams = 0 if weights.bigrams is None else weights.bigrams.values.size
        n_others, name = int(weights.edges.values.size + n_bigrams), "n_nonzero_transitions"
    elif not model.get_params(deep=False).get("fit_intercept"):
        return {"n_nonzero": n_of_features}
    else:
        n_others, name = int(np.count_nonzero(model.intercept_)), "n_nonzero_intercepts"
    return {"n_nonzero": n_of_features + n_others, name: n_others}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _estimated(facts: dict[str, Any]) -> str:
    """Return words that tell bound and estimate apart, where the estimate is the smaller one."""
    is_closer = facts["estimated_gap"] is not None and facts["estimated_gap"] < facts["gap"]
    return f" certified, {facts['estimated_gap']:.1e} by estimate" if is_closer else ""


def _fact_lines(facts: dict[str, Any]) -> list[str]:
    labels = " ".join(facts["labels"])
    settings = ", ".join(f"{name} = {value}" for name, value in facts["settings"].items())
    others = next((name for name in facts if name.startswith("n_nonzero_")), None)
    of_others = f", of which {facts[others]:,} {others.removeprefix('n_nonzero_')}" if others else ""
    nodes = f", of {facts['n_nodes']:,} nodes" if "n_nodes" in facts else ""
    rows = {
        "model": f"{facts['path']} ({facts['bytes']:,} bytes)",
        "recipe": facts["recipe"] and f"{facts['recipe']}: {facts['title']}",
        "data": facts["data_fingerprint"] and f"sha256 {facts['data_fingerprint']}",
        "encoding": facts["encoding"] != "utf-8" and facts["encoding"],
        "raw text": "tokenizer" in facts
        and f"cut by {facts['tokenizer']!r}: {100 * facts['tokenizer_share']:.1f} % of the training tokens right",
        "labels": f"{len(facts['labels'])}{nodes}: {labels if len(labels) <= 70 else labels[:67] + '...'}",
        "features": f"{facts['n_features']:,}, of which {facts['n_features_used']:,} are used",
        "dense": "n_dense" in facts
        and f"{facts['n_dense']:,} columns beside them, with {facts['n_dense_nonzero']:,} weights more",
        "non-zeros": f"{facts['n_nonzero']:,}{of_others}",
        "settings": settings,
        "status": facts["status"],
        "objective": None if facts["objective"] is None else f"{facts['objective']:,.3f} nats",
        "gap": None if facts["gap"] is None else f"{facts['gap']:.2e}{_estimated(facts)}",
        "proved": facts["n_proved_zeros"]
        and f"{facts['n_proved_zeros']:,} of the zeros are zero at the optimum",
    }
    return [f"{name:<10} {printable(text)}" for name, text in rows.items() if text]


def report(
    path: Path, source: str | None, output: Path, contents: dict[str, Any], *, as_json: bool, is_quiet: bool
) -> None:
    """Write the page to `output`, and print where it is. `contents` are fields of `crfqn.report.page.Contents`."""
    from crfqn.report import write_report

    model = load_model(path)
    check_writable(output)
    observed, name = _labelled(model, path, source, is_quiet)
    data = None if observed is None else (observed.X, observed.y)
    if observed is not None:
        known = KnownItems(model, path, name, None)
        with known.counted(observed):
            model.predict(observed.X)
        known.check()
    write_report(
        path,
        output,
        data,
        texts=None if observed is None else observed.texts,
        feature_names=feature_names(model, path),
        image_shape=_image_shape(model, path),
        source=name,
        **contents,
    )
    n_items = None if observed is None else len(observed.y or ())
    if as_json:
        print(to_json({"path": str(output), "bytes": output.stat().st_size, "n_items": n_items}))
    else:
        about = "" if n_items is None else f", with scores of {n_items:,} items"
        print(printable(f"{output} ({output.stat().st_size:,} bytes{about})"))


def _labelled(model: Any, path: Path, source: str | None, is_quiet: bool) -> tuple[Observed | None, str]:
    """Return labelled items and their name; None where the user named none and none are at hand."""
    try:
        observed = read_input(model, path, source)
    except (CrfqnError, OSError) as error:
        if source is not None:
            raise
        if not is_quiet:
            say(f"Without scores and errors, as there is no data to evaluate on: {error}")
        return None, ""
    name = shown_name(source) if source is not None else "the test part of the data"
    check_labelled(observed, name)
    return observed, name


def _image_shape(model: Any, path: Path) -> tuple[int, int] | None:
    """Return rows and columns of the images that a model was trained on; None for others."""
    recipe = recipe_of(model, path)
    if recipe is None or recipe.features.kind != "pixel-pairs":
        return None
    return pixel_map(recipe).shape
