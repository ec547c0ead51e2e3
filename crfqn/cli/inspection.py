"""`crfqn inspect`: what a model has learned, how large it is and where it comes from."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.cli.loading import feature_name, load_model, recipe_of
from crfqn.errors import InputError

if TYPE_CHECKING:
    from crfqn.estimators.chain import ChainCRF
    from crfqn.recipe_schema import Recipe

SETTINGS = (
    "l1",
    "l2",
    "solver",
    "tol",
    "max_iter",
)  # of the estimator's parameters, those that shape a model


def inspect(path: Path, top: int, label: str | None, *, as_json: bool) -> None:
    """Print the `top` weights of each label (or of one), the transitions, and the facts about the model."""
    model = load_model(path)
    recipe = recipe_of(model, path)
    names = [str(name) for name in model.classes_]
    if label is not None and label not in names:
        raise InputError(f"{path}: the model has no label {label!r}; it has: {', '.join(names)}")
    facts = _facts(model, path, recipe)
    weights = {
        name: _largest_weights(model, recipe, row, top)
        for row, name in enumerate(names)
        if label is None or name == label
    }
    transitions = _largest_transitions(model, names, label, top if label else top * 2)
    if as_json:
        content = {**facts, "weights": weights, "transitions": transitions}
        print(json.dumps(_finite(content), indent=2, ensure_ascii=False))
        return
    print("\n".join(_fact_lines(facts)))
    for name, entries in weights.items():
        print(f"\n{name}: the {len(entries)} largest weights" if entries else f"\n{name}: no weights")
        print("".join(f"  {entry['weight']:+10.4f}  {entry['feature']}\n" for entry in entries), end="")
    print(f"\ntransitions: the {len(transitions)} largest")
    for entry in transitions:
        print(f"  {entry['weight']:+10.4f}  {entry['from']} -> {entry['to']}")


def _facts(model: "ChainCRF", path: Path, recipe: "Recipe | None") -> dict[str, Any]:
    result = getattr(model, "result_", None)
    parameters = model.get_params(deep=False)
    settings = {name: parameters[name] for name in SETTINGS if name in parameters}
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "recipe": None if recipe is None else recipe.name,
        "title": None if recipe is None else recipe.title,
        "data_fingerprint": model.extra_.get("data_fingerprint", model.data_fingerprint_),
        "labels": [str(name) for name in model.classes_],
        "n_features": int(model.extra_.get("n_features", model.n_features_in_)),
        "n_features_used": int(np.unique(model.coef_.indices).size),
        "n_nonzero": int(model.coef_.nnz + model.edge_coef_.nnz),
        "n_nonzero_transitions": int(model.edge_coef_.nnz),
        "settings": settings,
        "status": getattr(getattr(result, "status", None), "value", None),
        "objective": _number(getattr(result, "value", None)),
        "gap": _number(getattr(result, "gap", None)),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _fact_lines(facts: dict[str, Any]) -> list[str]:
    labels = " ".join(facts["labels"])
    settings = ", ".join(f"{name} = {value}" for name, value in facts["settings"].items())
    rows = {
        "model": f"{facts['path']} ({facts['bytes']:,} bytes)",
        "recipe": facts["recipe"] and f"{facts['recipe']}: {facts['title']}",
        "data": facts["data_fingerprint"] and f"sha256 {facts['data_fingerprint']}",
        "labels": f"{len(facts['labels'])}: {labels if len(labels) <= 70 else labels[:67] + '...'}",
        "features": f"{facts['n_features']:,}, of which {facts['n_features_used']:,} are used",
        "non-zeros": f"{facts['n_nonzero']:,}, of which {facts['n_nonzero_transitions']:,} transitions",
        "settings": settings,
        "status": facts["status"],
        "objective": None if facts["objective"] is None else f"{facts['objective']:,.3f} nats",
        "gap": None if facts["gap"] is None else f"{facts['gap']:.2e}",
    }
    return [f"{name:<10} {text}" for name, text in rows.items() if text]


def _largest_weights(model: "ChainCRF", recipe: "Recipe | None", row: int, top: int) -> list[dict[str, Any]]:
    span = slice(model.coef_.indptr[row], model.coef_.indptr[row + 1])
    columns, values = model.coef_.indices[span], model.coef_.data[span]
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    return [
        {"feature": feature_name(model, recipe, int(columns[i])), "weight": float(values[i])} for i in order
    ]


def _largest_transitions(
    model: "ChainCRF", names: list[str], label: str | None, top: int
) -> list[dict[str, Any]]:
    edges = model.edge_coef_.tocoo()
    order = np.argsort(-np.abs(edges.data), kind="stable")
    entries = [
        {"from": names[edges.row[i]], "to": names[edges.col[i]], "weight": float(edges.data[i])}
        for i in order
    ]
    return [entry for entry in entries if label is None or label in (entry["from"], entry["to"])][:top]


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
