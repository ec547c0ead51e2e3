"""Facts about a model in words: what it labels, how its training ended, its parameters and its training data.

Functions take a fitted estimator and its Model, `weights`, which is None if there are no weights of features.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crfqn.data.label_arrays import label_text
from crfqn.model.model import Model
from crfqn.result import Result, Status

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator

SHOWN_PACKAGES = ("crfqn", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "Jinja2")
# Parameters that say nothing about the model.
HIDDEN_PARAMETERS = ("callback", "taxonomy", "verbose", "warm_start")
NOT_KNOWN = "not known"


def fitted_model(model: Any, feature_names: Sequence[str] | Mapping[int, str] | None = None) -> Model | None:
    """Return the Model of a fitted estimator, or the given Model, with other names of features by column if given.

    None for an estimator without weights of features. NotFittedError for an estimator that is not fitted.
    """
    if not isinstance(model, Model):
        if not hasattr(model, "result_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"expected a fitted estimator of crfqn, got {type(model).__name__}")
        if not hasattr(model, "coef_"):
            return None
        model = model.model_.current
    return model if feature_names is None else replace(model, feature_names=feature_names)


def feature_text(name: object) -> str:
    """Return the name of a feature, or its column if it has no name."""
    return str(name) if isinstance(name, str) else f"feature {name}"


def n_features(model: Estimator) -> int:
    """Return the number of features in training if the model's file has it, otherwise that of the model."""
    of_training = model.training_.get("n_features")
    return of_training if type(of_training) is int else int(model.n_features_in_)


class Fact(NamedTuple):
    """A name, its value, and the note that is shown on hovering."""

    name: str
    value: str
    note: str = ""


def headline(estimator: Estimator, weights: Model | None) -> list[Fact]:
    """Return the figures at the head of the page."""
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
        Fact("certified gap", gap, "proved: the optimum is at most so much lower"),
        Fact("estimated gap", estimate, "an estimate of the same distance, not a bound"),
        Fact("non-zero weights", f"{result.n_nonzero:,}", f"of {possible:,}" if possible else ""),
        Fact("labels", f"{len(estimator.classes_):,}"),
        Fact("passes over the data", passes, f"{result.seconds:.2f} s of wall time"),
    ]
    if (
        isfinite(result.estimated_gap)
        and result.gap > result.estimated_gap
        and not result.has_informative_gap
    ):
        del facts[1]  # `ending` has the gap
    return [fact for fact in facts if fact.value != NOT_KNOWN or fact.name.endswith("gap")]


def n_possible(estimator: Estimator, weights: Model | None) -> int:
    """Return the number of weights that the model could have; 0 if it has no weights of features."""
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
    """Return sentences about the end of the training and the distance to the optimum."""
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


def summary(estimator: Estimator) -> str:
    """Return a sentence about what the model does."""
    how_many = "any" if hasattr(estimator, "predict_sets") else "one"
    tree = getattr(estimator, "tree_", None)
    nodes = "" if tree is None else f", in a taxonomy of {tree.n_nodes:,} nodes"
    return (
        f"{type(estimator).__name__}: labels each {estimator.ANSWERS.place} with {how_many} of "
        f"{len(estimator.classes_):,} labels{nodes}, by {estimator.result_.n_nonzero:,} weights of "
        f"{n_features(estimator):,} features."
    )


def recipe_table(estimator: Estimator) -> dict[str, Any]:
    """Return the recipe that the model was trained from, as JSON values; empty if there was none."""
    recipe = estimator.training_.get("recipe")
    return recipe if isinstance(recipe, dict) else {}


def identity(estimator: Estimator, weights: Model | None, file_facts: list[Fact]) -> list[Fact]:
    """Return the estimator, recipe, data and sizes of the model."""
    facts = [Fact("estimator", type(estimator).__name__), *file_facts]
    if recipe := recipe_table(estimator):
        facts.append(Fact("recipe", f"{recipe.get('name', '')}: {recipe.get('title', '')}"))
    fingerprint = estimator.training_.get("data_fingerprint")
    facts.append(Fact("training data", f"sha256 {fingerprint}" if fingerprint else "no fingerprint was kept"))
    labels, tree = estimator.classes_, getattr(estimator, "tree_", None)
    names = ", ".join(map(label_text, labels[:30])) + (", …" if len(labels) > 30 else "")
    facts.append(Fact("labels", f"{len(labels):,}: {names}"))
    if tree is not None:
        sizes = f"{tree.n_nodes:,} nodes, {tree.leaves.size:,} leaves, {int(tree.depths[-1]) + 1} levels"
        facts.append(Fact("taxonomy", sizes))
    used = "" if weights is None else f", of which {weights.kept_features_.size:,} have a weight"
    return [*facts, Fact("features", f"{n_features(estimator):,}{used}")]


def parameters(model: Estimator) -> list[Fact]:
    """Return the parameters of the estimator, with the values of those that were chosen automatically."""
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
