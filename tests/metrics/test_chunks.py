"""Chunk metrics: by hand, against a transcript of the rules position by position, and inside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

from crfqn import ChainCRF
from crfqn.errors import InputError
from crfqn.metrics import SpanCounts, chunk_counts, chunk_f1_score, chunk_precision_recall_f1, chunk_scorer

LABELS = ["O", "B-A", "I-A", "B-B", "I-B", "B-A-B", "I-A-B", "B", "I"]


def chunks_of(item: list[str]) -> set[tuple[int, int, str]]:
    """First position, end and type of each chunk, by conlleval's rules for B, I and O, one position at a time."""
    found, start = set(), None
    before = ("O", "")
    for t, label in enumerate([*item, "O"]):
        tag, _, kind = label.partition("-")
        ends = before[0] != "O" and (tag in "BO" or kind != before[1])
        starts = tag != "O" and (tag == "B" or before[0] == "O" or kind != before[1])
        if ends:
            found.add((start, t, before[1]))
        if starts:
            start = t
        before = (tag, kind)
    return found


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("B-A I-A O", {(0, 2, "A")}),
        ("I-A I-A O", {(0, 2, "A")}),  # an item may begin with I
        ("O I-A", {(1, 2, "A")}),  # I behind O: wrong in IOB2, right in IOB1
        ("I-A B-A I-A", {(0, 1, "A"), (1, 3, "A")}),  # IOB1's border between two of a type
        ("B-A I-B", {(0, 1, "A"), (1, 2, "B")}),  # I of another type begins a chunk
        ("B-A B-A", {(0, 1, "A"), (1, 2, "A")}),
        ("B I B", {(0, 2, ""), (2, 3, "")}),
        ("O O", set()),
    ],
)
def test_where_chunks_begin_and_end(item, expected):
    labels = item.split()
    assert chunks_of(labels) == expected
    every = chunk_counts([labels], [labels])
    assert sum(count.n_right for count in every.values()) == len(expected)
    for kind, count in every.items():
        n = sum(kind == other for *_, other in expected)
        assert count == SpanCounts(n, n, n)


@pytest.mark.parametrize(
    ("true", "predicted", "counts"),
    [
        ("B-A I-A I-A", "B-A I-A O", (1, 1, 0)),  # too short
        ("B-A I-A O", "O B-A O", (1, 1, 0)),
        ("B-A I-A O", "B-B I-B O", (1, 1, 0)),  # right place, wrong type
        ("B-A I-A", "I-A I-A", (1, 1, 1)),  # another scheme, the same chunk
        ("B-A I-A", "B-A B-A", (1, 2, 0)),
        ("B-A B-A", "B-A I-A", (2, 1, 0)),
        ("B-A I-A B-B", "B-A I-B I-B", (2, 2, 0)),
        ("O O", "B-A O", (0, 1, 0)),
        ("B-A O", "O O", (1, 0, 0)),
    ],
)
def test_only_whole_chunks_count(true, predicted, counts):
    found = chunk_counts([true.split()], [predicted.split()])
    assert (
        tuple(sum(getattr(c, name) for c in found.values()) for name in ("n_true", "n_predicted", "n_right"))
        == counts
    )
    precision, recall, f1 = chunk_precision_recall_f1([true.split()], [predicted.split()])
    n_true, n_predicted, n_right = counts
    assert precision == (n_right / n_predicted if n_predicted else 0)
    assert recall == (n_right / n_true if n_true else 0)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall) if n_right else 0)


pairs_of_items = st.lists(
    st.lists(st.tuples(*[st.sampled_from(LABELS)] * 2), max_size=8), min_size=1, max_size=5
)


@given(pairs_of_items.filter(any))
@settings(deadline=None, max_examples=400)
def test_against_the_rules(items):
    true, predicted = ([[pair[side] for pair in item] for item in items] for side in (0, 1))
    given_, found = (
        {(i, *chunk) for i, item in enumerate(y) for chunk in chunks_of(item)} for y in (true, predicted)
    )
    counts = chunk_counts(true, predicted)
    kinds = sorted({chunk[-1] for chunk in given_ | found})
    assert list(counts) == kinds
    for kind in kinds:
        sets = [
            {chunk for chunk in chunks if chunk[-1] == kind} for chunks in (given_, found, given_ & found)
        ]
        assert counts[kind] == SpanCounts(*map(len, sets))


def test_averages_and_arrays():
    true = [np.array(["B-A", "I-A", "O", "B-B"]), np.array(["B-A"])]
    predicted = [np.array(["B-A", "I-A", "O", "B-A"]), np.array(["B-A"])]
    assert chunk_precision_recall_f1(true, predicted) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert chunk_precision_recall_f1(true, predicted, average="macro") == pytest.approx((1 / 3, 0.5, 0.4))
    assert chunk_f1_score(true, predicted, average="macro") == pytest.approx(0.4)
    assert chunk_f1_score(["B-A", "O"], ["B-A", "O"]) == 1  # a flat list is one item
    assert chunk_precision_recall_f1(["O"], ["O"], average="macro") == (0, 0, 0)


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([["O"]], [["O"], ["O"]], "expected as many predictions as true sequences, got 2 and 1"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], "item 1: expected 2 predicted labels, one for each true one, got 1"),
        ([], [], "y_true: expected at least one label to score, got none"),
        ([["E-A"]], [["O"]], "expected labels O, B-<type>, I-<type>, got 'E-A'"),
        ([["O-A"]], [["O"]], "expected labels O, .* got 'O-A'"),
        ([["O", None]], [["O", "O"]], "y_true: item 0, position 1: expected a string or number as label, got None"),
    ],
)  # fmt: skip
def test_bad_input(true, predicted, message):
    with pytest.raises(InputError, match=message):
        chunk_counts(true, predicted)


def test_bad_average():
    with pytest.raises(
        InputError, match=r"average: expected one of \['micro', 'macro', 'weighted'\], got 'none'"
    ):
        chunk_precision_recall_f1(["O"], ["O"], average="none")


def test_scorer():
    X = [[{"w": "the"}, {"w": "dog"}, {"w": "barks"}], [{"w": "a"}, {"w": "cat"}]] * 4
    y = [["B-NP", "I-NP", "B-VP"], ["B-NP", "I-NP"]] * 4
    scores = cross_val_score(ChainCRF(l1=0.1, n_threads=1), X, y, scoring=chunk_scorer(), cv=2)
    assert scores.tolist() == [1, 1]
