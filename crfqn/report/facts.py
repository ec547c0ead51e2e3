"""Facts about a model for people: what it labels, how its training ended, its parameters and origin.

Functions take a fitted estimator, and `weights`, the Model that it has; None where there are no weights of features.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.model.model import Model
from crfqn.result import Result, Status
from crfqn.taxonomy.tree import LabelTree

SHOWN_PACKAGES = ("crfqn", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "Jinja2")
HIDDEN_PARAMETERS = (
    "callback",
    "taxonomy",
    "verbose",
    "warm_start",
)  # parameters that say nothing about the model
NOT_KNOWN = "not known"


def fitted_model(model: Any, feature_names: Any = None) -> Model | None:
    """Return the labels and weights of a fitted estimator, or of a Model itself, with other names of features by column
    if given; None for a model without weights of single features. NotFittedError for what is not fitted."""
    if not isinstance(model, Model):
        if not hasattr(model, "result_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"expected a fitted estimator of crfqn, got {type(model).__name__}")
        if not hasattr(model, "coef_"):
            return None
        model = model.model_.current
    return model if feature_names is None else replace(model, feature_names=feature_names)


def feature_text(name: Any) -> str:
    """Return the name of a feature; one without a name has its column."""
    return str(name) if isinstance(name, str) else f"feature {name}"


def n_features(model: Any) -> int:
    """Return the number of features of the training, where the model's file has it, else of the model."""
    of_training = model.training_.get("n_features")
    return of_training if type(of_training) is int else int(model.n_features_in_)


def taxonomy_of(model: Any) -> LabelTree | None:
    """Return the taxonomy of a model's labels, None if it has none."""
    return getattr(model, "tree_", None)


class Fact(NamedTuple):
    """Name, value and what to read on hovering."""

    name: str
    value: str
    note: str = ""


def headline(estimator: Any, weights: Model | None) -> list[Fact]:
    """Return the few figures that stand in large letters."""
    result, possible = estimator.result_, n_possible(estimator, weights)
    gap, estimate = (
        f"{100 * share:.3g} %" if isfinite(share) else NOT_KNOWN
        for share in (result.gap, result.estimated_gap)
    )
    value, passes = (
        format(number, form) if isfinite(number) else NOT_KNOWN
        for number, form in ((result.value, ",.6g"), (result.passes, ",.1f"))
    )
    facts = [
        Fact("objective", value, "loss and penalty, in nats"),
        Fact("certified gap", gap, "the optimum is at most so much lower: proved"),
        Fact("estimated gap", estimate, "the same by an estimate, which is no bound"),
        Fact("non-zero weights", f"{result.n_nonzero:,}", f"of {possible:,}" if possible else ""),
        Fact("labels", f"{len(estimator.classes_):,}"),
        Fact("passes over the data", passes, f"{result.seconds:.2f} s of wall time"),
    ]
    if (
        isfinite(result.estimated_gap)
        and result.gap > result.estimated_gap
        and not result.has_informative_gap
    ):
        del facts[1]  # `ending` has it
    return [fact for fact in facts if fact.value != NOT_KNOWN or fact.name.endswith("gap")]


def n_possible(estimator: Any, weights: Model | None) -> int:
    """Return the number of weights that the model could have; 0 where it has none of single features."""
    if weights is None:
        return 0
    known = estimator.n_weights_ or estimator.training_.get("n_weights")
    if known and isinstance(known, int):
        return known
    n_rows = len(weights.node_names)
    n_constant = int(bool(estimator.get_params(deep=False).get("fit_intercept")))
    n_transitions = n_rows**2 if estimator.ANSWERS.has_positions else 0
    n_bigrams = n_transitions * getattr(estimator, "bigram_columns_", np.empty(0)).size
    return n_rows * (n_features(estimator) + n_constant) + n_transitions + n_bigrams


def ending(result: Result, stop: str | None) -> str:
    """Return sentences on what ended the training, and on what is known of the distance to the optimum."""
    if result.status in (Status.CONVERGED, Status.WITHIN_BOUND):
        who = "The certificate ended the run: the duality gap proves that the objective is within the tolerance."
    elif result.status is Status.ESTIMATED:
        who = f"The estimate ended the run before the certificate: {result.message.partition(': ')[2]}."
    elif result.status is Status.AT_FLOOR:
        who = f"An absolute floor ended the run: {result.message.partition(': ')[2]}."
    elif result.status is Status.HELD_OUT:
        who = f"The validation items chose the weights, before the optimum: {result.held_out}."
    else:
        who = f"Neither the certificate nor the estimate ended the run; it {result.message}."
    known = []
    if isfinite(result.estimated_gap):
        known.append(f"by estimate: {100 * result.estimated_gap:.3g} % lower")
    if isfinite(result.gap):
        known.insert(
            0 if result.has_informative_gap else 1,
            f"proved: the optimum is at most {100 * result.gap:.3g} % lower",
        )
    if isfinite(result.tol):
        known.append(f"asked for: {100 * result.tol:.3g} %" + (f', by stop="{stop}"' if stop else ""))
    text = "; ".join(known)
    return f"{who} {text[:1].upper()}{text[1:]}." if known else who


def summary(estimator: Any) -> str:
    """Return a sentence on what the model does."""
    how_many = "any" if hasattr(estimator, "predict_sets") else "one"
    tree = taxonomy_of(estimator)
    nodes = "" if tree is None else f", in a taxonomy of {tree.n_nodes:,} nodes"
    return (
        f"{type(estimator).__name__}: labels each {estimator.ANSWERS.place} with {how_many} of "
        f"{len(estimator.classes_):,} labels{nodes}, by {estimator.result_.n_nonzero:,} weights of "
        f"{n_features(estimator):,} features."
    )


def recipe_table(estimator: Any) -> dict[str, Any]:
    """Return the recipe that the model was trained by, as JSON values; empty if there was none."""
    recipe = estimator.training_.get("recipe")
    return recipe if isinstance(recipe, dict) else {}


def identity(estimator: Any, weights: Model | None, file_facts: list[Fact]) -> list[Fact]:
    """Return what the model is: estimator, recipe, data, sizes."""
    facts = [Fact("estimator", type(estimator).__name__), *file_facts]
    if recipe := recipe_table(estimator):
        facts.append(Fact("recipe", f"{recipe.get('name', '')}: {recipe.get('title', '')}"))
    fingerprint = estimator.training_.get("data_fingerprint")
    facts.append(Fact("training data", f"sha256 {fingerprint}" if fingerprint else "no fingerprint was kept"))
    labels, tree = estimator.classes_, taxonomy_of(estimator)
    names = ", ".join(map(label_text, labels[:30])) + (", …" if len(labels) > 30 else "")
    facts.append(Fact("labels", f"{len(labels):,}: {names}"))
    if tree is not None:
        sizes = f"{tree.n_nodes:,} nodes, {tree.leaves.size:,} leaves, {int(tree.depths[-1]) + 1} levels"
        facts.append(Fact("taxonomy", sizes))
    used = "" if weights is None else f", of which {weights.kept_features_.size:,} have a weight"
    return [*facts, Fact("features", f"{n_features(estimator):,}{used}")]


def parameters(model: Any) -> list[Fact]:
    """Return the parameters of the estimator; of those that were chosen automatically what was chosen, if known."""
    facts = []
    for name, value in model.get_params(deep=False).items():
        used = getattr(model, f"{name}_", None)
        text = f"{value:g}" if isinstance(value, float) else str(value)
        if (value is None or value == "auto") and isinstance(used, float):
            text = f"{used:.4g}, chosen automatically"
        if name not in HIDDEN_PARAMETERS:
            facts.append(Fact(name, text if len(text) <= 200 else f"{text[:199]}…"))
    return facts


def versions() -> list[Fact]:
    """Return the versions of the libraries that made the page."""
    facts = [Fact("Python", platform.python_version())]
    for name in SHOWN_PACKAGES:
        try:
            facts.append(Fact(name, version(name)))
        except PackageNotFoundError:  # run from a checkout
            import crfqn

            facts.append(Fact(name, crfqn.__version__ if name == "crfqn" else NOT_KNOWN))
    return facts
