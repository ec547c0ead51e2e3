"""Label schemes: spans and back, against an independent reading of each scheme's definition."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crfqn.data.schemes import (
    BORDER,
    SCHEMES,
    Span,
    convert_labels,
    find_scheme,
    labels_of,
    recognise_scheme,
    spans_of,
)
from crfqn.errors import InputError

# The definition of each scheme as a pattern over the letters of one run of touching spans of one type.
RUNS = {
    "IOB1": "I+(BI*)*",
    "IOB2": "(BI*)+",
    "IOE1": "(I*E)*I+",
    "IOE2": "(I*E)+",
    "BIOES": "(BI*E|S)+",
    "BILOU": "(BI*L|U)+",
    "BMES": "(BM*E|S)+",
}
# One span within such a run.
SPANS = {
    "IOB1": "BI*|I+",
    "IOB2": "BI*",
    "IOE1": "I*E|I+",
    "IOE2": "I*E",
    "BIOES": "BI*E|S",
    "BILOU": "BI*L|U",
    "BMES": "BM*E|S",
}


def reference(labels: list[str], scheme: str) -> list[Span] | None:
    """The spans by regular expressions over the letters of one type; None where the labels are not of the scheme.

    A run of touching spans of one type is cut out first: it ends where the type changes.
    """
    spans = []
    position = 0
    while position < len(labels):
        kind = labels[position][2:]
        stop = position + 1
        while stop < len(labels) and (labels[stop] != "O") == (labels[position] != "O"):
            if labels[stop][2:] != kind:
                break
            stop += 1
        if labels[position] != "O":
            letters = "".join(label[0] for label in labels[position:stop])
            if not re.fullmatch(RUNS[scheme], letters):
                return None
            for match in re.finditer(SPANS[scheme], letters):
                spans.append(Span(position + match.start(), position + match.end(), kind))
        position = stop
    return spans


@pytest.mark.parametrize("scheme", RUNS)
def test_spans_and_errors_agree_with_the_definitions(scheme):
    letters = SCHEMES[scheme].letters.values()
    alphabet = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "xy")]
    length = 5 if len(letters) == 2 else 4
    for size in range(length + 1):
        for labels in product(alphabet, repeat=size):
            expected = reference(list(labels), scheme)
            if expected is None:
                with pytest.raises(InputError, match=rf"position \d: {scheme} does not allow"):
                    spans_of(labels, scheme)
            else:
                assert spans_of(labels, scheme) == expected
                assert labels_of(expected, size, scheme) == list(labels)


@st.composite
def items(draw):
    lengths = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("xy")), max_size=5)
    )
    spans, position = [], 0
    for gap, length, kind in lengths:
        spans.append(Span(position + gap, position + gap + length, kind))
        position += gap + length
    return spans, position + draw(st.integers(0, 2))


@given(items(), st.sampled_from(sorted(SCHEMES)), st.sampled_from(sorted(SCHEMES)))
def test_conversion_keeps_the_spans(item, source, target):
    spans, length = item
    labels = labels_of(spans, length, source)
    converted = convert_labels(labels, source, target)
    assert spans_of(converted, target) == spans
    assert convert_labels(converted, target, source) == labels


def test_labels_out_of_scheme_read_as_conlleval_does():
    labels = ["I-x", "I-y", "B-y", "O", "I-y"]
    assert spans_of(labels, "IOB2", strict=False) == [(0, 1, "x"), (1, 2, "y"), (2, 3, "y"), (4, 5, "y")]


def test_known_conversions():
    labels = ["I-x", "I-x", "B-x", "O", "I-y"]
    assert convert_labels(labels, "IOB1", "BIO") == ["B-x", "I-x", "B-x", "O", "B-y"]
    assert convert_labels(labels, "IOB1", "IOE2") == ["I-x", "E-x", "E-x", "O", "E-y"]
    assert convert_labels(labels, "IOB1", "IOE1") == ["I-x", "E-x", "I-x", "O", "I-y"]
    assert convert_labels(labels, "IOB1", "bilou") == ["B-x", "L-x", "U-x", "O", "U-y"]
    assert convert_labels(labels, "IOB1", "BMES") == ["B-x", "E-x", "S-x", "O", "S-y"]


def test_types_may_have_hyphens_or_be_missing():
    assert spans_of(["B-a-b", "I-a-b"], "IOB2") == [(0, 2, "a-b")]
    assert convert_labels(["B", "I", "O"], "IOB2", "BIOES") == ["B", "E", "O"]
    assert spans_of([], "IOB2") == []


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["O", "X-a"], r"IOB2: expected labels O, B-<type>, I-<type>, got 'X-a'"),
        (["O-a"], "got 'O-a'"),
        (["I-a"], "position 0: IOB2 does not allow 'I-a' after the beginning"),
        (["B-b", "I-a"], "position 1: IOB2 does not allow 'I-a' after 'B-b'"),
    ],
)
def test_wrong_labels_are_named(labels, message):
    with pytest.raises(InputError, match=message):
        spans_of(labels, "IOB2")


def test_end_of_an_item_is_checked():
    with pytest.raises(InputError, match="position 1: BIOES does not allow the end after 'B-a'"):
        spans_of(["B-a"], "BIOES")


@pytest.mark.parametrize("spans", [[(0, 0, "x")], [(2, 3, "x"), (1, 2, "x")], [(0, 9, "x")], [(-1, 1, "x")]])
def test_impossible_spans_are_refused(spans):
    with pytest.raises(InputError, match="expected disjoint, ascending spans"):
        labels_of([Span(*span) for span in spans], 4, "IOB2")


def test_unknown_scheme():
    with pytest.raises(InputError, match=r"scheme: expected one of IOB1, .* got 'IOB' of type str"):
        find_scheme("IOB")
    assert find_scheme("iobes") is SCHEMES["BIOES"]
    assert find_scheme(SCHEMES["BMES"]).parse("M-x") == ("I", "x")
    assert SCHEMES["IOB2"].parse("O") is BORDER


class TestRecognition:
    @pytest.mark.parametrize(
        ("labels", "name"),
        [
            (["O", "B-NP", "I-NP"], "IOB2"),
            (["I-NP"], "IOB2"),
            (["O", "E-NP"], "IOE2"),
            (["S-NP", "O"], "BIOES"),
            (["B-NP", "L-NP", "O"], "BILOU"),
            (["B-a-b", "M-a-b", "E-a-b", "S-a-b"], "BMES"),
        ],
    )
    def test_letters_tell_the_scheme(self, labels, name):
        assert recognise_scheme(labels).name == name

    @pytest.mark.parametrize(
        "labels", [[], ["O"], ["B", "I", "O"], ["B-NP", "X-NP"], ["NN", "B-NP"], ["b-NP"]]
    )
    def test_others_are_of_none(self, labels):
        assert recognise_scheme(labels) is None
