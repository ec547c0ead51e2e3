"""Span metrics: seqeval as the oracle over random labellings of every scheme, and what is meant to differ from it."""

from __future__ import annotations

import warnings
from itertools import chain

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import confusion_matrix, get_scorer

from crfqn.data.schemes import SCHEMES, Span, find_scheme, labels_of
from crfqn.errors import InputError
from crfqn.metrics import (
    SpanCounts,
    find_scorer,
    make_span_scorer,
    scorer_names,
    sequence_accuracy,
    span_confusion,
    span_counts,
    span_f1_score,
    span_precision_recall_f1,
    span_report,
    span_report_dict,
    token_accuracy,
    token_confusion,
)
from crfqn.metrics.scorers import LABEL_SCORES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from seqeval import metrics as seqeval_metrics
    from seqeval import scheme as seqeval_scheme
    from seqeval.metrics.v1 import precision_recall_fscore_support as strict_scores

TYPES = "AA", "B", "C-D"
ORACLES = {"IOB1": "IOB1", "IOB2": "IOB2", "IOE1": "IOE1", "IOE2": "IOE2", "BIOES": "IOBES", "BILOU": "BILOU"}
TO_BIES = str.maketrans({"M": "I", "L": "E", "U": "S"})


def random_labels(scheme: str, lengths: list[int], seed: int) -> list[list[str]]:
    """Labels of the scheme in any order, most of them not allowed where they stand."""
    random = np.random.default_rng(seed)
    known = ["O", *(f"{letter}-{kind}" for letter in SCHEMES[scheme].letters.values() for kind in TYPES)]
    return [[known[k] for k in random.integers(len(known), size=n)] for n in lengths]


def legal_labels(scheme: str, lengths: list[int], seed: int, shortest: int = 1) -> list[list[str]]:
    """Labels of random spans, many of which touch."""
    random, items = np.random.default_rng(seed), []
    for n in lengths:
        spans, at = [], int(random.integers(2))
        while at < n:
            stop = min(n, at + shortest + int(random.integers(3)))
            if stop - at >= shortest:
                spans.append(Span(at, stop, TYPES[random.integers(2)]))
            at = stop + int(random.integers(2))
        items.append(labels_of(spans, n, scheme))
    return items


def perturbed(items: list[list[str]], others: list[list[str]]) -> list[list[str]]:
    """Every other item of the first, the rest of the others."""
    return [one if i % 2 else other for i, (one, other) in enumerate(zip(items, others, strict=True))]


LENGTHS = np.random.default_rng(5).integers(1, 12, size=150).tolist()


def as_bies(items: list[list[str]]) -> list[list[str]]:
    """The same labels with letters that seqeval's default mode knows."""
    return [[label[0].translate(TO_BIES) + label[1:] for label in item] for item in items]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_lenient_is_seqevals_default(scheme, average):
    true = random_labels(scheme, LENGTHS, 1)
    predicted = perturbed(true, random_labels(scheme, LENGTHS, 2))
    found = span_precision_recall_f1(true, predicted, scheme=scheme, strict=False, average=average)
    given, guessed = as_bies(true), as_bies(predicted)
    expected = [
        getattr(seqeval_metrics, name)(given, guessed, average=average)
        for name in ("precision_score", "recall_score", "f1_score")
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("scheme", ["IOB2", "IOE2", "BIOES", "BILOU", "BMES"])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_strict_is_seqevals_strict_mode(scheme, average):
    true = perturbed(legal_labels(scheme, LENGTHS, 3), random_labels(scheme, LENGTHS, 1))
    predicted = perturbed(true, random_labels(scheme, LENGTHS, 2))
    given, guessed, oracle = true, predicted, ORACLES.get(scheme, "IOBES")
    if scheme == "BMES":
        given, guessed = as_bies(true), as_bies(predicted)
    check_strict(true, predicted, given, guessed, scheme, oracle, average)


def counts_of(true: set, predicted: set) -> dict[str, SpanCounts]:
    """Counts by type of two sets of (type, ...)."""
    return {
        kind: SpanCounts(*(sum(span[0] == kind for span in s) for s in (true, predicted, true & predicted)))
        for kind in sorted({span[0] for span in true | predicted})
    }


@pytest.mark.parametrize(
    ("scheme", "is_strict"),
    [
        *((scheme, False) for scheme in SCHEMES),
        *((scheme, True) for scheme in SCHEMES if scheme not in ("IOB1", "IOE1")),  # of which see below
    ],
)
def test_of_300_pairs_of_items_none_differs_from_seqeval(scheme, is_strict):
    lengths = np.random.default_rng(7).integers(1, 12, size=300).tolist()
    kind = getattr(seqeval_scheme, ORACLES.get(scheme, "IOBES"))

    def spans_by_seqeval(labels):
        labels = labels if is_strict and scheme != "BMES" else as_bies([labels])[0]
        if not is_strict:
            return set(seqeval_metrics.sequence_labeling.get_entities(labels))
        (found,) = seqeval_scheme.Entities([labels], kind).entities
        return {(span.tag, span.start, span.end) for span in found}

    legal = perturbed(legal_labels(scheme, lengths, 3), random_labels(scheme, lengths, 1))
    for true, predicted in zip(legal, perturbed(legal, random_labels(scheme, lengths, 2)), strict=True):
        found = span_counts([true], [predicted], scheme=scheme, strict=is_strict)
        expected = counts_of(spans_by_seqeval(true), spans_by_seqeval(predicted))
        found = {name: count for name, count in found.items() if count.n_true or count.n_predicted}
        assert found == expected, (true, predicted)


@pytest.mark.parametrize("scheme", ["IOB1", "IOE1"])
def test_strict_is_seqevals_strict_mode_where_labels_are_legal(scheme):
    # seqeval takes an I behind an illegal B of IOB1 for the beginning of a span, and knows no single position in IOE1
    # that parts neighbours: "IOE1 hasn't yet been able to handle some cases" says its source.
    shortest = 2 if scheme == "IOE1" else 1
    true = legal_labels(scheme, LENGTHS, 3, shortest)
    predicted = perturbed(true, legal_labels(scheme, LENGTHS, 4, shortest))
    if scheme == "IOE1":  # an E before another one is not parted either
        pairs = [
            pair
            for pair in zip(true, predicted, strict=True)
            if not any("E" in label[0] for label in [*pair[0], *pair[1]])
        ]
        true, predicted = [one for one, _ in pairs], [other for _, other in pairs]
    check_strict(true, predicted, true, predicted, scheme, scheme, "micro")


def check_strict(true, predicted, given, guessed, scheme, oracle, average):
    found = span_precision_recall_f1(true, predicted, scheme=scheme, average=average)
    expected = strict_scores(
        given, guessed, average=average, scheme=getattr(seqeval_scheme, oracle), zero_division=0
    )
    np.testing.assert_allclose(found, expected[:3], rtol=1e-12)
    assert 0.0 < found.f1 < 1.0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_counts_by_hand(scheme):
    spans = [Span(0, 1, "A"), Span(1, 3, "A"), Span(3, 4, "B"), Span(6, 8, "A"), Span(8, 9, "A")]
    guesses = [Span(0, 1, "A"), Span(1, 3, "B"), Span(4, 5, "B"), Span(6, 8, "A")]
    true, predicted = [labels_of(spans, 9, scheme), []], [labels_of(guesses, 9, scheme), []]
    assert span_counts(true, predicted, scheme=scheme) == {"A": SpanCounts(4, 2, 2), "B": SpanCounts(1, 2, 0)}
    labels, counts = span_confusion(true, predicted, scheme=scheme)
    assert labels == ["A", "B", "(none)"]
    assert counts.tolist() == [[2, 1, 1], [0, 0, 1], [0, 1, 0]]


def test_illegal_labels_are_no_spans():
    # seqeval: 1.0 by default and with mode="strict" without a scheme (chakki-works/seqeval#23, #25)
    assert span_f1_score([["B-A", "I-A"]], [["I-A", "I-A"]], scheme="IOB2") == 0.0
    assert span_f1_score([["B-A", "E-A"]], [["B-A", "I-A"]], scheme="BIOES") == 0.0
    assert span_f1_score([["B-A", "I-A"]], [["I-A", "I-A"]], scheme="IOB2", strict=False) == 1.0
    assert span_counts([["I-A", "I-A", "O"]], [["B-A", "I-A", "O"]], scheme="IOB1") == {
        "A": SpanCounts(1, 0, 0)
    }
    # a single position that IOE1 parts from its neighbour
    assert span_counts([["E-A", "I-A"]], [["E-A", "I-A"]], scheme="IOE1") == {"A": SpanCounts(2, 2, 2)}
    assert span_counts([["E-A", "O"]], [["I-A", "O"]], scheme="IOE1") == {"A": SpanCounts(0, 1, 0)}


def test_no_spans_at_all():
    # seqeval: ZeroDivisionError in the report (chakki-works/seqeval#60)
    labels = [["O", "O"], ["O"]]
    assert span_counts(labels, labels, scheme="IOB2") == {}
    for average in ("micro", "macro", "weighted"):
        assert span_precision_recall_f1(labels, labels, scheme="IOB2", average=average) == (0.0, 0.0, 0.0)
    report = span_report_dict(labels, [["B-A", "O"], ["O"]], scheme="IOB2")
    assert report["weighted avg"] == {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}


def test_report():
    true, predicted = [["B-A", "O", "B-B"]], [["B-A", "O", "B-A"]]
    found = span_report_dict(true, predicted, scheme="IOB2")
    assert list(found) == ["A", "B", "micro avg", "macro avg", "weighted avg"]
    assert found["A"] == {"precision": 0.5, "recall": 1.0, "f1-score": pytest.approx(2 / 3), "support": 1}
    text = span_report(true, predicted, scheme="IOB2", digits=2).splitlines()
    assert text[1].split() == ["A", "0.50", "1.00", "0.67", "1"]
    assert len({len(line) for line in text if line}) == 1


def test_tokens():
    true, predicted = random_labels("IOB2", LENGTHS, 1), random_labels("IOB2", LENGTHS, 2)
    labels, counts = token_confusion(true, predicted)
    flat = list(chain.from_iterable(true)), list(chain.from_iterable(predicted))
    assert labels == sorted({*flat[0], *flat[1]})
    np.testing.assert_array_equal(counts, confusion_matrix(*flat))
    hits = [one == other for one, other in zip(*flat, strict=True)]
    assert token_accuracy(true, predicted) == pytest.approx(np.mean(hits))
    mixed = perturbed(true, predicted)
    right = [one == other for one, other in zip(true, mixed, strict=True)]
    assert sequence_accuracy([[], *true], [[], *mixed]) == pytest.approx(np.mean(right))


def test_arrays_are_read_as_lists():
    y = np.empty(2, object)
    y[:] = [np.array(["B-A", "I-A"]), ["O"]]
    assert span_f1_score([["B-A", "I-A"], ["O"]], y, scheme="BIO") == 1.0
    assert span_f1_score(["B-A", "O"], np.array(["B-A", "O"]), scheme="BIO") == 1.0


class Guess(BaseEstimator):
    """Estimator that predicts what it is shown."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X


class Flat(ClassifierMixin, Guess):
    classes_ = np.array(["A", "B", "C"])


def test_scorers():
    true, predicted = [["B-A", "I-A", "O"], ["B-B"]], [["B-A", "I-A", "O"], ["B-A"]]
    assert make_span_scorer("iob2")(Guess(), predicted, true) == 0.5
    expected = {
        "span_f1:IOB2": 0.5,
        "span_recall_macro:BIO": 0.5,
        "span_precision_weighted:IOB2": 0.25,
        "token_accuracy": 0.75,
        "sequence_accuracy": 0.5,
    }
    for name, value in expected.items():
        assert find_scorer(name)(Guess(), predicted, true) == value
    assert find_scorer("hierarchical_f1")(Guess(), ["a/b"], ["a/b"]) == 1.0
    for name in scorer_names():
        assert callable(find_scorer(name.replace("<scheme>", "BIOES").replace("<n>", "1")))


@pytest.mark.parametrize("name", LABEL_SCORES)
def test_scores_of_single_labels_are_those_of_scikit_learn(name):
    """Over the labels of all positions where items are sequences; of flat labels as they are."""
    true, predicted = [["A", "B", "A"], ["C"], ["B", "B"]], [["A", "A", "A"], ["B"], ["B", "C"]]
    flat = [list(chain(*items)) for items in (predicted, true)]
    weights = [1.0, 2.0, 0.5]
    theirs, ours = get_scorer(name), find_scorer(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that are never predicted
        by_position = np.repeat(weights, [3, 1, 2])
        expected = [theirs(Flat(), *flat), theirs(Flat(), *flat, sample_weight=by_position)]
        assert [ours(Guess(), predicted, true), ours(Guess(), *flat)] == pytest.approx(2 * expected[:1])
        assert ours(Guess(), predicted, true, sample_weight=weights) == pytest.approx(expected[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_scorer("f1"), "expected one of token_accuracy, .*, got 'f1'"),
        (lambda: make_span_scorer("IOB3"), "scheme: expected one of IOB1"),
        (lambda: make_span_scorer("IOB2", measure="f2"), r"measure: expected one of \['f1'"),
        (lambda: make_span_scorer("IOB2", average=None), "average: expected one of"),
        (lambda: span_counts([["B-A"]], [["B-A", "O"]], scheme="IOB2"), "item 0: expected 1 predicted"),
        (lambda: span_counts([["S-A"]], [["O"]], scheme="IOB2"), "IOB2: expected labels O, B-<type>"),
        (lambda: span_counts("B-A", ["O"], scheme="IOB2"), "y_true: expected a list of label sequences"),
        (lambda: token_accuracy([["a"], 3], [["a"], ["b"]]), "y_true, item 1: expected a list of labels"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_find_scheme_is_taken_too():
    assert span_f1_score([["B-A"]], [["B-A"]], scheme=find_scheme("IOB2")) == 1.0
