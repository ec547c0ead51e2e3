"""`crfqn evaluate`: scores of a model on labelled items, as a table or as JSON."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crfqn.cli.loading import labels_sequences, load_model, ranks_labels, read_input, tree_of
from crfqn.cli.scores import (
    DocumentScores,
    LabelScore,
    Scores,
    log_likelihood,
    score_documents,
    score_labels,
    score_sets,
)
from crfqn.cli.terminal import printable, to_json
from crfqn.data.files.lines import shown_name
from crfqn.errors import InputError
from crfqn.taxonomy.reading import extend_taxonomy

MOST_ROWS = 50  # labels in a table; JSON has all


def evaluate(path: Path, source: str | None, *, format: str | None = None, as_json: bool) -> None:
    """Print scores on a labelled file, or on the test part of the data that the model was trained on."""
    model = load_model(path)
    observed, name = read_input(model, path, source, format=format), shown_name(source or path)
    if observed.y is None:
        raise InputError(f"{name}: has no labels to compare with; `crfqn predict` labels it")
    n_unknown = sum(not label for label in observed.y)  # sequences with gaps have been refused before
    if n_unknown:
        raise InputError(f"{name}: {n_unknown} of {len(observed.y)} documents have no label to compare with")
    try:
        scores = score(model, observed.X, observed.y)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    has_likelihood = hasattr(model, "log_likelihood")  # margins are no probabilities
    likelihood = log_likelihood(model, observed.X, observed.y) if has_likelihood else None
    if as_json:
        known = likelihood is not None and math.isfinite(likelihood)
        print(to_json({**scores.as_json(), "log_likelihood": likelihood if known else None}))
    else:
        print(_table(scores, likelihood))


def score(model: Any, inputs: Any, given: Sequence[Any]) -> Scores | DocumentScores:
    """Return the scores of the model's predictions for `inputs` against the given labels."""
    if labels_sequences(model):
        predicted = [[str(label) for label in item] for item in model.predict(inputs)]
        return score_labels(given, predicted, model.scheme)
    if ranks_labels(model):
        return score_sets(given, [list(map(str, labels)) for labels in model.predict_sets(inputs)])
    tree, labels = tree_of(model), [str(label) for label in model.predict(inputs)]
    if tree is not None and model.taxonomy is None:  # made of labels: another label is a miss, no mistake
        tree = extend_taxonomy(tree, given, model.separator)
    return score_documents(given, labels, tree)


def _table(scores: Scores | DocumentScores, likelihood: float | None) -> str:
    if isinstance(scores, DocumentScores):
        return _document_table(scores, likelihood)
    return "\n".join(
        [
            *_label_rows(scores.labels, "positions"),
            "",
            *_chunk_rows(scores),
            f"accuracy, positions    {scores.accuracy:.4f}  of {scores.n_positions:,}",
            f"accuracy, whole items  {scores.item_accuracy:.4f}  of {scores.n_items:,}",
            *_likelihood_rows(likelihood, scores.n_positions, "a position"),
        ]
    )


def _document_table(scores: DocumentScores, likelihood: float | None) -> str:
    lines = [f"{len(scores.labels):,} labels: too many for a table, --json has them"]
    if len(scores.labels) <= MOST_ROWS:
        lines = _label_rows(scores.labels, "items")
    lines += ["", f"accuracy               {scores.accuracy:.4f}  of {scores.n_items:,}"]
    found = scores.hierarchy
    if found is not None:
        lines += [
            f"hierarchical F1        {found.f1:.4f}  precision {found.precision:.4f}, recall {found.recall:.4f}",
            f"LCA F1                 {found.lca_f1:.4f}",
            f"tree-induced error     {found.tree_induced_error:.4f}  edges from the right label",
        ]
        lines += [
            f"accuracy, level {level:<6} {accuracy:.4f}"
            for level, accuracy in enumerate(found.level_accuracy, start=1)
            if accuracy is not None
        ]
    return "\n".join([*lines, *_likelihood_rows(likelihood, scores.n_items, "an item")])


def _label_rows(labels: Sequence[LabelScore], counted: str) -> list[str]:
    names = [printable(row.label) for row in labels]
    width = max(5, *map(len, names))
    lines = [f"{'label':<{width}}  precision  recall      F1  {counted:>9}"]
    return lines + [
        f"{name:<{width}}  {row.precision:9.4f}  {row.recall:6.4f}  {row.f1:6.4f}  {row.support:9,d}"
        for name, row in zip(names, labels, strict=True)
    ]


def _chunk_rows(scores: Scores) -> list[str]:
    found = scores.chunks
    if found is None:
        return []
    n = sum(row.support for row in found.types)
    every = LabelScore("all", found.precision, found.recall, found.f1, n)
    return [*_label_rows([*found.types, every], "chunks"), ""]


def _likelihood_rows(likelihood: float | None, n: int, each: str) -> list[str]:
    if likelihood is None:
        return []
    known = "" if math.isfinite(likelihood) else " (a label is unknown to the model)"
    return [f"log-likelihood         {likelihood:,.3f} nats, {likelihood / n:.4f} {each}{known}"]
