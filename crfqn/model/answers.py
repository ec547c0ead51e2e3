"""The kinds of answers that models give, each an object: a label, a set of labels, or a label for each position.

A model has the kind of its answers as `ANSWERS`, and what reads, scores or writes answers asks it. What JSON has of an
answer is one form for `crfqn predict --json`, `--to jsonl` and the service; its keys are described once, in the manual
(docs/formats.md, "JSON of labelled items"). A model is an estimator or the predictor of a model file. An answer of JSON
is a dict, to which each part adds what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.hybrid import sparse_of
from crfqn.data.label_arrays import label_text, position_labels
from crfqn.data.schemes import find_scheme, recognise_scheme, spans_of
from crfqn.errors import InputError
from crfqn.model.label_constraints import UNCONSTRAINED, LabelConstraints, check_threshold, is_probable
from crfqn.model.texts import cut_text

if TYPE_CHECKING:
    from crfqn.metrics.evaluation import Scores, Spelling

Answers = list[dict[str, Any]]
AddPart = Callable[[Answers, Any, LabelConstraints], None]  # answers, their items, and constraints of these


class LabelAnswers:
    """The answers of models of single items: a label each; other kinds of answers override what differs.

    key : of an answer in JSON; unit : what has a label, place : where it is, in a sentence
    inputs : what items are, without_names : what they are where features have no names
    tables_by : the method that returns the probabilities of all labels, a row a label; has_positions : whether an
    answer has a label for each position of its item
    """

    key, unit, place = "label", "item", "item"
    inputs, without_names = "a row of features an item", "a matrix"
    tables_by, has_positions = "predict_proba", False

    def for_labels(self, y: Any) -> LabelAnswers:
        """Return the kind of answers that is compared with these labels."""
        return self

    def as_items(self, model: Any, item: Any) -> Any:
        """Return an item as the only one of a list; of a model of sequences a text is cut into words."""
        return item if hasattr(item, "tocsr") else [item]

    def labels_of(self, answer: Any) -> Sequence[Any]:
        """Return the labels of an answer."""
        return [answer]

    def each(self, function: Callable[[Any], Any], answer: Any) -> Any:
        """Return an answer with what the function makes of each label, or of what stands in its place."""
        return function(answer)

    def n_positions(self, answer: Any) -> int:
        """Return the number of labels that an answer must have."""
        return 1

    def n_answered(self, answers: Sequence[Any]) -> int:
        """Return the number of items with a label."""
        return len(answers)

    def n_transitions(self, n_labels: int) -> int:
        """Return the number of weights of neighbouring labels."""
        return 0

    def size(self, X: Any, y: Any) -> str:
        """Return in words how large training data are."""
        return f"{sparse_of(X).shape[1]:,} features"

    def check_constraints(self, constraints: LabelConstraints, nothing: str = "None") -> None:
        """Raise InputError for constraints on labels that only sequences have."""
        for name in constraints.arguments:
            raise InputError(f"{name}: expected {nothing}, as the model labels no sequences")

    def scheme_of(self, model: Any) -> str | None:
        """Return the scheme that makes spans of a model's labels: its own, or the one that the labels look like."""
        return None

    def predict(self, model: Any, X: Any, **how: Any) -> Any:
        """Return the answers; `how` : of the model's `predict`."""
        return model.predict(X, **how)

    def predict_texts(self, model: Any, X: Any, **how: Any) -> list[Any]:
        """Return the answers with labels as text; None is a label whose probability is below the threshold."""
        return [self.each(_text, answer) for answer in self.predict(model, X, **how)]

    def has_tables(self, model: Any) -> bool:
        """Return whether an estimator gives probabilities of all labels; margins are none."""
        return hasattr(model, self.tables_by)

    def tables(self, model: Any, X: Any, constraints: LabelConstraints = UNCONSTRAINED) -> Any:
        """Return the probabilities of all labels by item: float64 (K,), of sequences (positions, K)."""
        return getattr(model, self.tables_by)(X, **constraints._replace(once=None).arguments)

    def by_item(self, y: Any, predicted: Sequence[Any]) -> list[Any]:
        """Return the true labels item by item; InputError where they do not fit the predicted ones."""
        return position_labels(y)

    def compare(self, model: Any, parts: Iterable[tuple[Sequence[Any], Sequence[Any]]]) -> Scores:
        """Return the scores of parts of a data set, each true labels and predicted ones as text; only labels are kept.
        InputError where no true label is one of the model's."""
        from crfqn.metrics.evaluation import Spelling  # files of taxonomies, which labelling does not need

        spelling, names = Spelling(model.classes_), dict[Any, Any]()  # each label is kept once
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

    key = "labels"

    def for_labels(self, y: Any) -> LabelAnswers:
        first = list(y[:1]) if hasattr(y, "__getitem__") else []
        return self if first and isinstance(first[0], list | tuple | set | frozenset) else LABELS

    def labels_of(self, answer: Any) -> Sequence[Any]:
        return answer

    def each(self, function: Callable[[Any], Any], answer: Any) -> list[Any]:
        return [*map(function, answer)]

    def predict(self, model: Any, X: Any, **how: Any) -> Any:
        return model.predict_sets(X)

    def by_item(self, y: Any, predicted: Sequence[Any]) -> list[Any]:
        return list(y)

    def _scores(self, model: Any, spelling: Spelling, true: list[Any], predicted: list[Any]) -> Scores:
        from crfqn.metrics.evaluation import score_sets

        spelling.check_known(chain.from_iterable(true))
        return score_sets(true, predicted)


class SequenceAnswers(LabelAnswers):
    """The answers of models of sequences: a list of labels, one a position."""

    key, unit, place = "labels", "position", "position of a sequence"
    inputs, without_names = "sequences, each a list of positions", "matrices without feature names"
    tables_by, has_positions = "predict_marginals", True

    def as_items(self, model: Any, item: Any) -> list[Any]:
        return [cut_text(model, item) if isinstance(item, str) else item]

    def labels_of(self, answer: Any) -> Sequence[Any]:
        return answer

    def each(self, function: Callable[[Any], Any], answer: Any) -> list[Any]:
        return [*map(function, answer)]

    def n_positions(self, answer: Any) -> int:
        return len(answer)

    def n_answered(self, answers: Sequence[Any]) -> int:
        return sum(map(bool, answers))  # items without positions have none

    def n_transitions(self, n_labels: int) -> int:
        return n_labels**2

    def size(self, X: Any, y: Any) -> str:
        return f"{sum(map(len, y)):,} positions"

    def check_constraints(self, constraints: LabelConstraints, nothing: str = "None") -> None:
        pass

    def scheme_of(self, model: Any) -> str | None:
        scheme = recognise_scheme(model.classes_) if model.scheme is None else find_scheme(model.scheme)
        return None if scheme is None else scheme.name

    def by_item(self, y: Any, predicted: Sequence[Any]) -> list[Any]:
        """The labels may also be a flat array, of all positions."""
        values, lengths = list(y), [*map(len, predicted)]
        if len(values) == len(lengths) and all(np.ndim(value) == 1 for value in values):
            return [[*item] for item in values]
        if len(values) != sum(lengths):
            raise InputError(
                f"data: expected labels of {len(lengths)} items or {sum(lengths)} positions, got {len(values)}"
            )
        return [values[end - n : end] for n, end in zip(lengths, accumulate(lengths), strict=True)]

    def compare(self, model: Any, parts: Iterable[tuple[Sequence[Any], Sequence[Any]]]) -> Scores:
        from crfqn.metrics.evaluation import LabelCounts, Spelling

        spelling, counts = Spelling(model.classes_), LabelCounts(model.scheme)
        for true, predicted in parts:
            counts.add([*map(spelling.texts, true)], predicted)
        spelling.check_known(counts.true)
        return counts.scores()


LABELS, LABEL_SETS, SEQUENCES = LabelAnswers(), SetAnswers(), SequenceAnswers()


def _text(label: Any) -> str | None:
    """Return a label as text; of a row of a path's parts these joined."""
    if isinstance(label, np.ndarray):
        return "/".join(str(part) for part in label.tolist() if part)
    return None if label is None else label_text(label)


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
    labels, kind = model.classes_.tolist(), model.ANSWERS
    least: dict[str, Any] = {} if threshold is None else {"threshold": check_threshold(threshold)}
    span_probabilities = span_probabilities or threshold is not None

    def add_labels(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        for answer, label in zip(
            answers, kind.predict(model, X, **constraints.arguments, **least), strict=True
        ):
            answer[kind.key] = kind.each(plain_label, label)

    def add_probabilities(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        best, logs = model.decode(X, **constraints.arguments, **least)
        for answer, label, log in zip(answers, best, logs.tolist(), strict=True):
            answer[kind.key] = kind.each(plain_label, label)
            answer["probability"] = min(float(np.exp(log)), 1.0)
            answer["log_probability"] = min(log, 0.0)

    def add_marginals(answers: Answers, X: Any, constraints: LabelConstraints) -> None:
        number = {label: k for k, label in enumerate(labels)}
        names = [*map(label_text, labels)]
        for answer, table in zip(answers, kind.tables(model, X, constraints), strict=True):
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
    """Return a label, or a list of them, as JSON has it."""
    return label.tolist() if hasattr(label, "tolist") else label
