"""The model that a report is about: its names and weights, and for the head of a page how its training ended."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.label_texts import label_text
from crfqn.result import Result, Status
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.taxonomy.tree import LabelTree

INTERCEPT = "(intercept)"
PACKAGES = ("crfqn", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "Jinja2")
SILENT = ("callback", "taxonomy", "verbose", "warm_start")  # parameters that say nothing about the model
UNKNOWN = "not known"


class Weighted(NamedTuple):
    """Row of the table of features."""

    label: str
    feature: str
    weight: float


class Transition(NamedTuple):
    """Row of the table of transitions, or of those by bigram feature."""

    before: str
    after: str
    weight: float
    feature: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """Fitted estimator with names for whatever it has, for pages and for `crfqn inspect`; `feature_names` are by
    column, default: those that the model has, else numbers."""

    model: Any
    feature_names: Any = None

    def __post_init__(self) -> None:
        if not hasattr(self.model, "result_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"expected a fitted estimator of crfqn, got {type(self.model).__name__}")

    @property
    def training(self) -> dict[str, Any]:
        """What `crfqn train` kept of the training in the model's file."""
        return getattr(self.model, "training_", {})

    @property
    def is_sequence(self) -> bool:
        """Whether an item is a sequence with a label at each position."""
        return self.model.LABELS_SEQUENCES

    @cached_property
    def tree(self) -> LabelTree | None:
        """The taxonomy of the labels."""
        return getattr(self.model, "tree_", None)

    @cached_property
    def labels(self) -> list[str]:
        """Names of the labels, in the model's order."""
        return [label_text(label) for label in self.model.classes_]

    @cached_property
    def rows(self) -> list[str]:
        """Names of the rows of the weights: nodes of a taxonomy, else labels."""
        return self.labels if self.tree is None else [str(name) for name in self.tree.names]

    @cached_property
    def weights(self) -> Any:
        """Weights of features, csr_array (rows, features); None for a model that has none of single features."""
        from scipy.sparse import csr_array

        found = getattr(self.model, "coef_", None)
        return found if found is None or hasattr(found, "indptr") else csr_array(found)

    @cached_property
    def transitions(self) -> Any:
        """Weights of pairs of labels, csr_array; None for items without order."""
        return getattr(self.model, "edge_coef_", None)

    @cached_property
    def bigrams(self) -> Any:
        """Weights of bigram features, csr_array (pairs of labels, features); None where there are none."""
        return getattr(self.model, "bigram_coef_", None)

    @cached_property
    def used_features(self) -> NDArray[np.integer]:
        """The features that have a weight."""
        tables = [self.weights] if self.bigrams is None else [self.weights, self.bigrams]
        return np.unique(np.concatenate([table.indices for table in tables]))

    @cached_property
    def intercepts(self) -> NDArray[np.float64] | None:
        """Weight of the constant by row; None where there is none."""
        found = getattr(self.model, "intercept_", None)
        return None if found is None or not np.any(found) else np.asarray(found)

    @cached_property
    def n_weights(self) -> NDArray[np.int64]:
        """Number of weights of each row, its constant included, (rows,)."""
        counts = np.diff(self.weights.indptr)
        return counts if self.intercepts is None else counts + (self.intercepts != 0)

    def strongest(self, row: int, n: int) -> list[Weighted]:
        """Return the n largest weights of a row, in size, its constant among them."""
        span = slice(*self.weights.indptr[row : row + 2])
        columns, values = self.weights.indices[span], self.weights.data[span]
        if self.intercepts is not None and self.intercepts[row]:
            columns, values = np.append(columns, -1), np.append(values, self.intercepts[row])
        order = np.argsort(-np.abs(values), kind="stable")[:n]
        return [
            Weighted(self.rows[row], self.name_of(column) if column >= 0 else INTERCEPT, value)
            for column, value in zip(columns[order].tolist(), values[order].tolist(), strict=True)
        ]

    def strongest_transitions(self, n: int, label: str | None = None) -> list[Transition]:
        """Return the n largest transitions, in size, or those from or to a label."""
        edges = self.transitions.tocoo()
        return self._strongest(edges.data, edges.row, edges.col, None, n, label)

    def strongest_bigrams(self, n: int, label: str | None = None) -> list[Transition]:
        """Return the n largest weights of bigram features, in size, or those of transitions from or to a label."""
        found = self.bigrams.tocoo()
        first, second, _ = EdgeLayout(len(self.labels)).split(found.row)
        return self._strongest(found.data, first, second, found.col, n, label)

    def _strongest(
        self, weights: NDArray, first: NDArray, second: NDArray, columns: Any, n: int, label: str | None
    ) -> list[Transition]:
        """Return the n largest weights of pairs of labels, in size, or those from or to a label; `columns`: of their
        features, None where they have none."""
        rows = (
            Transition(
                self.labels[first[i]],
                self.labels[second[i]],
                float(weights[i]),
                *([] if columns is None else [self.name_of(int(columns[i]))]),
            )
            for i in np.argsort(-np.abs(weights), kind="stable")
        )
        return [*islice((one for one in rows if label is None or label in (one.before, one.after)), n)]

    def label_weights(self, label: str) -> tuple[NDArray[np.float64], float]:
        """Return what a label's score adds up: weights (features,) and constant of its row and those above it."""
        row = self.rows.index(label)
        rows = [row] if self.tree is None else self.tree.path(row).tolist()
        constant = 0.0 if self.intercepts is None else float(self.intercepts[rows].sum())
        return np.asarray(self.weights[rows].sum(axis=0)).ravel(), constant

    def name_of(self, column: int) -> str:
        """Return the name of a feature; that of a model without names is its number."""
        names = self.feature_names
        if names is None and getattr(self.model, "vocabulary_", None) is not None:
            names = self.model.vocabulary_.names
        if names is None:
            names = getattr(self.model, "feature_names_in_", None)
        return f"feature {column}" if names is None else str(names[column])

    @cached_property
    def has_probabilities(self) -> bool:
        """Whether the model gives probabilities of labels; margins are none."""
        return hasattr(self.model, "predict_marginals" if self.is_sequence else "predict_proba")

    def marginals(self, X: Any) -> list[Any]:
        """Return the probabilities of labels of each item, of sequences by position."""
        return list(self.model.predict_marginals(X) if self.is_sequence else self.model.predict_proba(X))

    @property
    def n_features(self) -> int:
        """Number of features of the training, where the file says it, else of the model."""
        known = self.training.get("n_features")
        return known if type(known) is int else int(self.model.n_features_in_)

    @property
    def recipe(self) -> dict[str, Any]:
        """Recipe that the model was trained by, as JSON values; empty if there was none."""
        found = self.training.get("recipe")
        return found if isinstance(found, dict) else {}


class Fact(NamedTuple):
    """Name, value and what to read on hovering."""

    name: str
    value: str
    note: str = ""


def headline(subject: Subject) -> list[Fact]:
    """Return the few figures that stand in large letters."""
    result, possible = subject.model.result_, n_possible(subject)
    facts = [
        Fact("objective", _number(result.value, ",.6g"), "loss and penalty, in nats"),
        Fact("certified gap", _percent(result.gap), "the optimum is at most so much lower: proved"),
        Fact("estimated gap", _percent(result.estimated_gap), "the same by an estimate, which is no bound"),
        Fact("non-zero weights", f"{result.n_nonzero:,}", f"of {possible:,}" if possible else ""),
        Fact("labels", f"{len(subject.labels):,}"),
        Fact("passes over the data", _number(result.passes, ",.1f"), f"{result.seconds:.2f} s of wall time"),
    ]
    if (
        isfinite(result.estimated_gap)
        and result.gap > result.estimated_gap
        and not result.has_informative_gap
    ):
        del facts[1]  # `ending` has it
    return [fact for fact in facts if fact.value != UNKNOWN or fact.name.endswith("gap")]


def n_possible(subject: Subject) -> int:
    """Return the number of weights that the model could have; 0 where it has none of single features."""
    if subject.weights is None:
        return 0
    n_rows, model = len(subject.rows), subject.model
    known = getattr(model, "_n_weights", None) or subject.training.get("n_weights")
    if subject.transitions is not None and isinstance(known, int):
        return known
    n_constant = int(bool(model.get_params(deep=False).get("fit_intercept")))
    n_transitions = 0 if subject.transitions is None else n_rows * n_rows
    n_bigrams = n_transitions * getattr(model, "bigram_columns_", np.empty(0)).size
    return n_rows * (subject.n_features + n_constant) + n_transitions + n_bigrams


def ending(result: Result, stop: str | None) -> str:
    """Return sentences on what ended the training, and on what is known of the distance to the optimum."""
    if result.status in (Status.CONVERGED, Status.WITHIN_BOUND):
        who = "The certificate ended the run: the duality gap proves that the objective is within the tolerance."
    elif result.status is Status.ESTIMATED:
        who = f"The estimate ended the run before the certificate: {result.message.partition(': ')[2]}."
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


def summary(subject: Subject) -> str:
    """Return a sentence on what the model does."""
    what = "each position of a sequence" if subject.is_sequence else "each item"
    how_many = "any" if hasattr(subject.model, "predict_sets") else "one"
    tree = "" if subject.tree is None else f", in a taxonomy of {subject.tree.n_nodes:,} nodes"
    return (
        f"{type(subject.model).__name__}: labels {what} with {how_many} of {len(subject.labels):,} labels{tree}, "
        f"by {subject.model.result_.n_nonzero:,} weights of {subject.n_features:,} features."
    )


def identity(subject: Subject, file_facts: list[Fact]) -> list[Fact]:
    """Return what the model is: estimator, recipe, data, sizes."""
    model, recipe = subject.model, subject.recipe
    facts = [Fact("estimator", type(model).__name__), *file_facts]
    if recipe:
        facts.append(Fact("recipe", f"{recipe.get('name', '')}: {recipe.get('title', '')}"))
    fingerprint = subject.training.get("data_fingerprint")
    facts.append(Fact("training data", f"sha256 {fingerprint}" if fingerprint else "no fingerprint was kept"))
    names = ", ".join(subject.labels[:30]) + (", …" if len(subject.labels) > 30 else "")
    facts.append(Fact("labels", f"{len(subject.labels):,}: {names}"))
    if subject.tree is not None:
        tree = subject.tree
        sizes = f"{tree.n_nodes:,} nodes, {tree.leaves.size:,} leaves, {int(tree.depths[-1]) + 1} levels"
        facts.append(Fact("taxonomy", sizes))
    used = ""
    if subject.weights is not None:
        used = f", of which {subject.used_features.size:,} have a weight"
    facts.append(Fact("features", f"{subject.n_features:,}{used}"))
    return facts


def parameters(model: Any) -> list[Fact]:
    """Return the parameters of the estimator; of those that were chosen automatically what was chosen, if known."""
    given = model.get_params(deep=False)
    return [Fact(name, _used(model, name, value)) for name, value in given.items() if name not in SILENT]


def _used(model: Any, name: str, value: Any) -> str:
    used = getattr(model, f"{name}_", None)
    is_chosen = (value is None or value == "auto") and isinstance(used, float)
    return f"{used:.4g}, chosen automatically" if is_chosen else _shown(value)


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


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if isfinite(share) else UNKNOWN


def _shown(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"
