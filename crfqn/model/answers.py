"""The kinds of answers that models give: a label for an item, a set of labels, or a label for each position.

A model (an estimator, or the model of a file) has the kind of its answers as `ANSWERS`; commands, reports and the
service use it to read, score and write answers. The JSON form of an answer is a dict, the same for `crfqn predict
--json`, `--to jsonl` and the service (docs/formats.md, "JSON of labelled items"); each part adds keys to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.inputs import ItemsLike
from crfqn.data.label_arrays import label_text, position_labels
from crfqn.data.schemes import find_scheme, recognise_scheme, spans_of
from crfqn.errors import InputError
from crfqn.model.label_constraints import LabelConstraints, check_threshold, is_probable

if TYPE_CHECKING:
    from crfqn.metrics.evaluation import Scores, Spelling

Answers = list[dict[str, Any]]
# Takes answers, their items and constraints on these.
AddPart = Callable[[Answers, Any, LabelConstraints], None]
Parts = Iterable[tuple[Sequence[Any], Sequence[Any]]]  # true and predicted labels, part by part of a data set


class LabelAnswers:
    """The answers of models that give an item one label; other kinds of answers override what differs.

    key : of an answer in JSON; unit : that has a label, place : its place, in a sentence
    inputs : a description of the items, without_names : the same for features without names
    tables_by : name of the method that returns the probabilities of all labels, in a row for each label of an answer
    is_list : whether an answer is a list of labels; has_positions : whether these are those of positions
    """

    key, unit, place = "label", "item", "item"
    inputs, without_names = "a row of features an item", "a matrix"
    tables_by, is_list, has_positions = "predict_proba", False, False

    def as_items(self, model: Any, item: Any) -> Any:
        """Return a list (or a sparse matrix) with one item; a model of sequences cuts a text into words."""
        if self.has_positions and isinstance(item, str):
            from crfqn.model.texts import cut_text  # with tables of tokenizers

            return [cut_text(model, item)]
        return item if hasattr(item, "tocsr") and not self.has_positions else [item]

    def each(self, function: Callable[[Any], object], answer: Any) -> Any:
        """Return an answer with each label, or the value in its place, replaced by the function's result."""
        return [*map(function, answer)] if self.is_list else function(answer)

    def n_positions(self, answer: Sized) -> int:
        """Return the number of positions of an item or of its answer."""
        return len(answer) if self.has_positions else 1

    def check_constraints(self, constraints: LabelConstraints, nothing: str = "None") -> None:
        """Raise InputError for constraints on labels that only models of sequences have."""
        for name in () if self.has_positions else constraints.arguments:
            raise InputError(f"{name}: expected {nothing}, as the model labels no sequences")

    def scheme_of(self, model: Any) -> str | None:
        """Return the scheme of a model's labels of spans: its own, or the one that fits the labels; else None."""
        if not self.has_positions:
            return None
        scheme = recognise_scheme(model.classes_) if model.scheme is None else find_scheme(model.scheme)
        return None if scheme is None else scheme.name

    def predict(self, model: Any, X: ItemsLike, **options: Any) -> Sequence[Any]:
        """Return the answers; `options` : of the model's `predict`."""
        return model.predict(X, **options)

    def predict_texts(self, model: Any, X: ItemsLike, **options: Any) -> list[Any]:
        """Return the answers with labels as text, None for a label whose probability is below the threshold."""
        return [self.each(_text, answer) for answer in self.predict(model, X, **options)]

    def by_item(self, y: Iterable[Any], predicted: Sequence[Sized]) -> list[Any]:
        """Return the true labels item by item; InputError if their number is not that of the predicted ones."""
        return [*y] if self.is_list else position_labels(y)

    def compare(self, model: Any, parts: Parts) -> Scores:
        """Return the scores of a data set, given part by part; predicted labels are text. Only the labels are kept in
        memory. InputError if no true label is one of the model's."""
        from crfqn.metrics.evaluation import Spelling  # imports taxonomies, which labelling does not need

        # `names` has one object for all occurrences of a label.
        spelling, names = Spelling(model.classes_), dict[Any, Any]()
        columns: tuple[list[Any], list[Any]] = [], []
        for part in parts:
            for column, labels in zip(columns, part, strict=True):
                spelled = map(spelling.texts, labels)
                texts = (tuple(label) if isinstance(label, list) else label for label in spelled)
                column += [names.setdefault(text, text) for text in texts]
        return self._scores(model, spelling, *columns)

    def _scores(self, model: Any, spelling: Spelling, true: list[Any], predicted: list[Any]) -> Scores:
        from crfqn.metrics.evaluation import score_documents, taxonomy_with

        tree = taxonomy_with(model, true)
        if tree is None:
            spelling.check_known(true)
        return score_documents(true, predicted, tree)


class SetAnswers(LabelAnswers):
    """The answers of models that give an item any number of labels."""

    key, is_list = "labels", True

    def predict(self, model: Any, X: ItemsLike, **options: Any) -> Sequence[Any]:
        return model.predict_sets(X)

    def _scores(self, model: Any, spelling: Spelling, true: list[Any], predicted: list[Any]) -> Scores:
        from crfqn.metrics.evaluation import score_sets

        spelling.check_known(chain.from_iterable(true))
        return score_sets(true, predicted)


class SequenceAnswers(LabelAnswers):
    """The answers of models of sequences: a list with a label for each position."""

    key, unit, place = "labels", "position", "position of a sequence"
    inputs, without_names = "sequences, each a list of positions", "matrices without feature names"
    tables_by, is_list, has_positions = "predict_marginals", True, True

    def by_item(self, y: Iterable[Any], predicted: Sequence[Sized]) -> list[Any]:
        """The labels may also be a flat array, of all positions."""
        values: list[Any] = [*y]
        lengths = [*map(len, predicted)]
        if len(values) == len(lengths) and all(np.ndim(value) == 1 for value in values):
            return [[*item] for item in values]
        if len(values) != sum(lengths):
            raise InputError(
                f"data: expected labels of {len(lengths)} items or {sum(lengths)} positions, got {len(values)}"
            )
        return [values[end - n : end] for n, end in zip(lengths, accumulate(lengths), strict=True)]

    def compare(self, model: Any, parts: Parts) -> Scores:
        from crfqn.metrics.evaluation import LabelCounts, Spelling

        spelling, counts = Spelling(model.classes_), LabelCounts(model.scheme)
        for true, predicted in parts:
            counts.add([*map(spelling.texts, true)], predicted)
        spelling.check_known(counts.true)
        return counts.scores()


LABEL_ANSWERS, SET_ANSWERS, SEQUENCE_ANSWERS = LabelAnswers(), SetAnswers(), SequenceAnswers()


def _text(label: Any) -> str | None:
    """Return a label as text; the parts of a path are joined."""
    if isinstance(label, np.ndarray):
        return "/".join(str(part) for part in label.tolist() if part)
    return None if label is None else label_text(label)


def gives_probabilities(model: Any) -> bool:
    """Return whether a model has probabilities; an estimator without them lacks the methods."""
    return getattr(model, "has_probabilities", hasattr(model, "decode"))


def add_tokens(
    answer: dict[str, object], words: Sequence[str], spans: Sequence[tuple[int, int]] | None
) -> None:
    """Add the words of an item and, for a text, the characters where they start and stop."""
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
    """Yield the functions that add the requested parts to answers, that of the labels first.

    scheme : of the spans, None for no spans; threshold : minimum probability of a label and of a span
    """
    labels, kind = model.classes_.tolist(), model.ANSWERS
    limit = {} if threshold is None else {"threshold": check_threshold(threshold)}
    span_probabilities = span_probabilities or threshold is not None

    def add_labels(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, label in zip(
            answers, kind.predict(model, X, **constraints.arguments, **limit), strict=True
        ):
            answer[kind.key] = kind.each(plain_label, label)

    def add_probabilities(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        best, logs = model.decode(X, **constraints.arguments, **limit)
        for answer, label, log in zip(answers, best, logs.tolist(), strict=True):
            answer[kind.key] = kind.each(plain_label, label)
            answer["probability"] = min(float(np.exp(log)), 1.0)
            answer["log_probability"] = min(log, 0.0)

    def add_marginals(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        number = {label: k for k, label in enumerate(labels)}
        names = [*map(label_text, labels)]
        given = constraints._replace(once=None).arguments
        for answer, table in zip(answers, getattr(model, kind.tables_by)(X, **given), strict=True):
            p = table.tolist()
            if kind.has_positions and probabilities:
                columns = [number.get(label) for label in answer[kind.key]]
                answer["probabilities"] = [
                    None if k is None else row[k] for row, k in zip(p, columns, strict=True)
                ]
            if marginals:
                answer["marginals"] = kind.each(lambda row: dict(zip(names, row, strict=True)), p)

    def add_best(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, best in zip(
            answers, model.predict_nbest(X, n_best, **constraints.arguments), strict=True
        ):
            answer["nbest"] = [{kind.key: label, "probability": p} for label, p in best]

    def add_spans(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        if span_probabilities:
            rows = model.predict_spans(X, **constraints.arguments, scheme=scheme)
            minimum = 0.0 if threshold is None else threshold
            spans = [[s._asdict() for s in row if is_probable(s.probability, minimum)] for row in rows]
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
            answer["features"] = kind.each(lambda row: [{"feature": f, "weight": w} for f, w in row], rows)

    def add_explanations(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, one in zip(answers, model.explain(X, n_terms, **constraints.arguments), strict=True):
            answer["explanation"] = kind.each(lambda each: each.to_json(), one)

    yield add_probabilities if probabilities else add_labels
    if marginals or (probabilities and kind.has_positions):
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
    """Return a label, or a list of labels, as a JSON value."""
    return label.tolist() if hasattr(label, "tolist") else label
