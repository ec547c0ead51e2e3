"""What a model is and how its training ended, in names and values for the head of a page."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from crfqn.report.subject import Subject
from crfqn.result import Result, Status

PACKAGES = ("crfqn", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "Jinja2")
SILENT = ("callback", "taxonomy", "verbose", "warm_start")  # parameters that say nothing about the model
UNKNOWN = "not known"


class Fact(NamedTuple):
    """Name, value and what to read on hovering."""

    name: str
    value: str
    note: str = ""


def headline(subject: Subject) -> list[Fact]:
    """Return the few figures that stand in large letters."""
    result = subject.model.result_
    facts = [
        Fact("objective", _number(result.value, ",.6g"), "loss and penalty, in nats"),
        Fact("certified gap", _number(result.gap, ".2e"), "the optimum is at most this share lower: proved"),
        Fact(
            "estimated gap",
            _number(result.estimated_gap, ".2e"),
            "the same by an estimate, which is no bound",
        ),
        Fact(
            "non-zero weights",
            f"{result.n_nonzero:,}",
            f"of {n_possible(subject):,}" if n_possible(subject) else "",
        ),
        Fact("labels", f"{len(subject.labels):,}", ""),
        Fact("passes over the data", _number(result.passes, ",.1f"), f"{result.seconds:.2f} s of wall time"),
    ]
    return [fact for fact in facts if fact.value != UNKNOWN or fact.name.endswith("gap")]


def n_possible(subject: Subject) -> int:
    """Return the number of weights that the model could have; 0 where it has none of single features."""
    if subject.weights is None:
        return 0
    n_rows = len(subject.rows)
    n_constant = int(bool(getattr(subject.model, "fit_intercept", False)))
    n_transitions = 0 if subject.transitions is None else n_rows * n_rows
    return n_rows * (subject.n_features + n_constant) + n_transitions


def ending(result: Result, stop: str | None, tol: float | None) -> str:
    """Return sentences on what ended the training, and on what is known of the distance to the optimum."""
    if result.status in (Status.CONVERGED, Status.WITHIN_BOUND):
        who = "The certificate ended the run: the duality gap proves that the objective is within the tolerance."
    elif result.status is Status.ESTIMATED:
        who = "The estimate ended the run before the certificate: probably within the tolerance, not proved."
    elif result.status is Status.HELD_OUT:
        who = f"The validation items chose the weights, before the optimum: {result.held_out}."
    else:
        who = f"Neither the certificate nor the estimate ended the run; it {result.message}."
    known = []
    if isfinite(result.gap):
        known.append(f"proved: the optimum is at most {100 * result.gap:.3g} % lower")
    if isfinite(result.estimated_gap):
        known.append(f"by estimate: {100 * result.estimated_gap:.3g} % lower")
    if tol is not None:
        known.append(f"asked for: {100 * tol:.3g} %" + (f', by stop="{stop}"' if stop else ""))
    text = "; ".join(known)
    return f"{who} {text[:1].upper()}{text[1:]}." if known else who


def identity(subject: Subject, file_facts: list[Fact]) -> list[Fact]:
    """Return what the model is: estimator, recipe, data, sizes."""
    model, recipe = subject.model, subject.recipe
    facts = [Fact("estimator", type(model).__name__), *file_facts]
    if recipe:
        facts.append(Fact("recipe", f"{recipe.get('name', '')}: {recipe.get('title', '')}"))
    fingerprint = subject.extra.get("data_fingerprint")
    facts.append(Fact("training data", f"sha256 {fingerprint}" if fingerprint else "no fingerprint was kept"))
    names = ", ".join(subject.labels[:30]) + (", …" if len(subject.labels) > 30 else "")
    facts.append(Fact("labels", f"{len(subject.labels):,}: {names}"))
    if subject.tree is not None:
        tree = subject.tree
        facts.append(
            Fact(
                "taxonomy",
                f"{tree.n_nodes:,} nodes, {tree.leaves.size:,} leaves, {int(tree.depths[-1]) + 1} levels",
            )
        )
    used = ""
    if subject.weights is not None:
        used = f", of which {np.unique(subject.weights.indices).size:,} have a weight"
    facts.append(Fact("features", f"{subject.n_features:,}{used}"))
    return facts


def parameters(model: Any) -> list[Fact]:
    """Return the parameters of the estimator, as they were given."""
    given = model.get_params(deep=False)
    return [Fact(name, _shown(value)) for name, value in given.items() if name not in SILENT]


def versions() -> list[Fact]:
    """Return the versions of the libraries that made the page."""
    found = [Fact("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append(Fact(name, version(name)))
        except PackageNotFoundError:  # run from a checkout
            import crfqn

            found.append(Fact(name, crfqn.__version__ if name == "crfqn" else UNKNOWN))
    return found


def _number(value: float, form: str) -> str:
    return format(value, form) if isfinite(value) else UNKNOWN


def _shown(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"
