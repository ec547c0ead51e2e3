"""What JSON has of a labelled item: one form for `crfqn predict --json`, `--to jsonl` and the service.

The keys are described once, in the manual (docs/formats.md, "JSON of labelled items"). A model is an estimator or the
predictor of a model file. An answer is a dict, to which each part adds what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from crfqn.data.labels import label_text
from crfqn.data.schemes import find_scheme, recognise_scheme, spans_of
from crfqn.model.label_constraints import LabelConstraints
from crfqn.model.model import check_threshold, is_probable

Answers = list[dict[str, Any]]
AddPart = Callable[[Answers, Any, LabelConstraints], None]  # answers, their items, and constraints of these


def scheme_of(model: Any) -> str | None:
    """Return the scheme that makes spans of a model's labels: its own, or the one that the labels look like."""
    if not model.LABELS_SEQUENCES:
        return None
    scheme = recognise_scheme(model.classes_) if model.scheme is None else find_scheme(model.scheme)
    return None if scheme is None else scheme.name


def gives_probabilities(model: Any) -> bool:
    """Return whether a model has probabilities: of an estimator the methods are not there without."""
    return getattr(model, "has_probabilities", hasattr(model, "decode"))


def add_tokens(answer: dict[str, Any], words: Sequence[str], spans: Sequence[tuple[int, int]] | None) -> None:
    """Add the words of an item and, of a text, where in it they begin and end, in characters."""
    answer["tokens"] = list(words)
    if spans is not None:
        answer |= {"start": [start for start, _ in spans], "end": [end for _, end in spans]}


def answer_parts(
    model: Any,
    *,
    probabilities: bool = False,
    marginals: bool = False,
    n_best: int = 0,
    scheme: str | None = None,
    span_probabilities: bool = False,
    n_features: int = 0,
    n_terms: int = 0,
    threshold: float | None = None,
) -> Iterator[AddPart]:
    """Yield what adds to answers what is asked for, the labels first; `scheme`: that of spans, None for no spans;
    `threshold`: the least probability of a label and of a span."""
    labels, is_many = model.classes_.tolist(), model.LABELS_SEQUENCES
    name = "labels" if is_many else "label"
    least: dict[str, Any] = {} if threshold is None else {"threshold": check_threshold(threshold)}
    span_probabilities = span_probabilities or threshold is not None

    def add_labels(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, label in zip(answers, model.predict(X, **constraints.arguments, **least), strict=True):
            answer[name] = plain_label(label)

    def add_probabilities(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        best, logs = model.decode(X, **constraints.arguments, **least)
        for answer, label, log in zip(answers, best, logs.tolist(), strict=True):
            answer[name] = plain_label(label)
            answer["probability"] = min(float(np.exp(log)), 1.0)
            answer["log_probability"] = min(log, 0.0)

    def add_marginals(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        number = {label: k for k, label in enumerate(labels)}
        names = [*map(label_text, labels)]
        rows = model.predict_marginals(X, constraints.known) if is_many else model.predict_proba(X)
        for answer, p in zip(answers, rows, strict=True):
            if is_many and probabilities:
                columns = [number.get(label) for label in answer["labels"]]
                answer["probabilities"] = [
                    None if k is None else row[k] for row, k in zip(p.tolist(), columns, strict=True)
                ]
            if marginals:
                by_label = [dict(zip(names, row, strict=True)) for row in np.atleast_2d(p).tolist()]
                answer["marginals"] = by_label if is_many else by_label[0]

    def add_best(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, best in zip(
            answers, model.predict_nbest(X, n_best, **constraints.arguments), strict=True
        ):
            answer["nbest"] = [{name: label, "probability": p} for label, p in best]

    def add_spans(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        if span_probabilities:
            rows = model.predict_spans(X, **constraints.arguments, scheme=scheme)
            limit = 0.0 if threshold is None else threshold
            spans = [[s._asdict() for s in row if is_probable(s.probability, limit)] for row in rows]
        else:
            rows = [spans_of(answer["labels"], str(scheme), strict=False) for answer in answers]
            spans = [[{"label": s.type, "start": s.start, "end": s.stop} for s in row] for row in rows]
        for answer, of_item in zip(answers, spans, strict=True):
            for span in of_item if "start" in answer else ():
                span["start_char"] = answer["start"][span["start"]]
                span["end_char"] = answer["end"][span["end"] - 1]
            answer["spans"] = of_item

    def add_features(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        strongest = model.strongest_features(X, n_features, **constraints.arguments)
        for answer, rows in zip(answers, strongest, strict=True):
            shown = [[{"feature": f, "weight": w} for f, w in row] for row in (rows if is_many else [rows])]
            answer["features"] = shown if is_many else shown[0]

    def add_explanations(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, one in zip(answers, model.explain(X, n_terms, **constraints.arguments), strict=True):
            answer["explanation"] = [each.to_json() for each in one] if is_many else one.to_json()

    yield add_probabilities if probabilities else add_labels
    if marginals or (probabilities and is_many):
        yield add_marginals
    if n_best:
        yield add_best
    if scheme is not None:
        yield add_spans
    if n_features:
        yield add_features
    if n_terms:
        yield add_explanations


def plain_label(label: Any) -> Any:
    """Return a label, or a list of them, as JSON has it."""
    return label.tolist() if hasattr(label, "tolist") else label
