"""Codes of labels against numpy.unique, what every wrong label is told, and labels as numbers and texts in files."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crfqn.data.label_arrays import (
    encode_known_labels,
    encode_labels,
    label_text,
    number_of,
    split_by_item,
    target_reader,
)
from crfqn.errors import InputError

CUTS = np.array([0, 2, 2, 5])


@pytest.mark.parametrize(
    ("flat", "kind"),
    [
        (["O", "B", "O", "I", "B"], "U"),
        ([3, 1, 3, 2, 1], "i"),
        ([True, False, True, True, False], "b"),
        ([1.5, 0.5, 1.5, 2.0, 0.5], "f"),
        ([np.str_("O"), "B", "O", np.str_("I"), "B"], "U"),
        ([np.int8(3), 1, np.uint16(3), 2, 1], "i"),
        ([np.float32(0.5), 1.5, 2, 2, 1], "f"),
    ],
)
def test_labels_flat_or_nested(flat, kind):
    expected, codes = np.unique(np.array(flat), return_inverse=True)
    nested = [flat[:2], flat[2:2], flat[2:]]
    for y in (
        flat,
        tuple(flat),
        np.array(flat),
        np.array(flat, object),
        nested,
        tuple(map(tuple, nested)),
        [np.array(labels, np.array(flat).dtype) for labels in nested],
        np.array([*nested, None], object)[:3],
    ):
        classes, found = encode_labels(y, CUTS)
        assert classes.dtype.kind == kind
        assert found.dtype == np.int32
        np.testing.assert_array_equal(classes, expected)
        np.testing.assert_array_equal(found, codes)
        np.testing.assert_array_equal(encode_known_labels(y, CUTS, classes), codes)
        np.testing.assert_array_equal(np.concatenate(split_by_item(classes[found], CUTS)), np.array(flat))


def test_labels_as_a_2d_array():
    classes, codes = encode_labels(np.array([[1, 2], [2, 2]]), np.array([0, 2, 4]))
    assert classes.tolist() == [1, 2]
    assert codes.tolist() == [0, 1, 1, 1]


def test_labels_of_no_items():
    classes, codes = encode_labels([], np.array([0]))
    assert classes.size == codes.size == 0


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=3), min_size=1
    )
)
@settings(deadline=None)
def test_any_strings(flat):
    offsets = np.array([0, len(flat)])
    classes, codes = encode_labels(flat, offsets)
    assert classes.tolist() == sorted(set(flat))
    assert classes[codes].tolist() == flat
    assert encode_known_labels([flat], offsets, classes).tolist() == codes.tolist()


BAD_LABELS = [
    (["a"] * 4, r"^expected one label for each of the 5 positions \(or .* 3 items\), got 4 labels$"),
    (np.zeros(6, int), r"5 positions .* got 6 labels$"),
    ([["a"] * 2, ["a"] * 3], r"^expected labels for 3 items, got 2 lists of labels$"),
    ([["a"] * 2, [], ["a"] * 4], r"^item 2: expected 3 labels, one for each position, got 4$"),
    ([["a"] * 2, ["a"], ["a"] * 3], r"^item 1: expected 0 labels, one for each position, got 1$"),
    ([["a"] * 2, np.array(["a"]), ["a"] * 3], r"^item 1: expected 0 labels, one for each position, got 1$"),
    ([["a"] * 2, [], ["a", "", "a"]], r"^item 2, position 1: expected a label, got an empty text"),
    (
        [["a"] * 2, [], ["a", pd.NA, ""]],
        r"^item 2, position 1: expected a string or number as label, got <NA>",
    ),
    ([["a"] * 2, [], "aaa"], r"^item 2: expected a list of 3 labels, got 'aaa' of type str$"),
    ([["a"] * 2, [], None], r"^item 2: expected a list of 3 labels, got None$"),
    (
        [["a"] * 2, [], ["a", None, "a"]],
        r"^item 2, position 1: expected a string or number as label, got None$",
    ),
    (["a", "a", "a", b"a", "a"], r"^item 2, position 1: .* got b'a' of type bytes$"),
    ([1.0, 1.0, 2.0, np.nan, 1.0], r"^item 2, position 1: expected a label, got nan$"),
    (np.array([1.0, 1.0, 2.0, np.nan, 1.0]), r"^item 2, position 1: expected a label, got nan$"),
    (np.array(["a", "a", "a", np.nan, "a"], object), r"^item 2, position 1: expected a label, got nan$"),
    ([1, 1, 2, np.float32("inf"), 1], r"^item 2, position 1: expected a label, got inf$"),
    ([[1, 1], [], [1, [2], 1]], r"^item 2, position 1: .* got \[2\] of type list$"),
    (np.full(5, 1j), r"^item 0, position 0: .* got 1j of type complex$"),
    (None, r"^expected labels by position, or one list of labels an item, got None$"),
    ("aaaaa", r"got 'aaaaa' of type str$"),
    ({"a": 1}, r"of type dict$"),
    (7, r"got 7 of type int$"),
]


@pytest.mark.parametrize(("y", "message"), BAD_LABELS)
def test_bad_labels(y, message):
    with pytest.raises(InputError, match=message):
        encode_labels(y, CUTS)
    with pytest.raises(InputError, match=message):
        encode_known_labels(y, CUTS, np.array(["a"]) if "a" in str(y) else np.array([1, 2]))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            ["a", "a", "a", 3, "a"],
            r"^expected labels of one kind, got strings like 'a' \(item 0, position 0\) "
            r"and numbers like 3 \(item 2, position 1\)$",
        ),
        ([[1, 1], [], [True, 1, 1]], r"got numbers like 1 .* and booleans like True \(item 2, position 0\)$"),
        (
            [10**30, 1, 1, 1, 1],
            r"^expected labels that fit 64-bit integers, got 1000000000000000000000000000000$",
        ),
    ],
)
def test_labels_that_cannot_be_classes(y, message):
    with pytest.raises(InputError, match=message):
        encode_labels(y, CUTS)


def test_unknown_labels():
    classes = np.array(["a", "b"])
    for y in (["a", "b", "a", "c", "b"], [["a", "b"], [], np.array(["a", "c", "b"])]):
        with pytest.raises(
            InputError, match=r"^item 2, position 1: label 'c' is not among the 2 known classes$"
        ):
            encode_known_labels(y, CUTS, classes)
    with pytest.raises(InputError, match=r"^item 0, position 1: label '1' is not among the 2 known classes$"):
        encode_known_labels([["0", "1"]], np.array([0, 2]), np.array(["0", "2"]))
    with pytest.raises(InputError, match=r"^item 0, position 0: label 7 is not among the 2 known classes$"):
        encode_known_labels(np.array([7, 1]), np.array([0, 2]), np.array([0, 1]))


def test_split_by_item():
    flat = np.arange(5)
    pieces = split_by_item(flat, CUTS)
    assert [piece.tolist() for piece in pieces] == [[0, 1], [], [2, 3, 4]]
    assert all(np.shares_memory(piece, flat) for piece in (pieces[0], pieces[2]))
    assert split_by_item(flat[:0], np.array([0])) == []
    assert split_by_item(np.ones((5, 3)), CUTS)[2].shape == (3, 3)


@pytest.mark.parametrize(
    ("texts", "number"),
    [
        (["1", "+1", "1.0", "1.", "1e0", "10e-1", "1.000000000000000000e+00", " 1"], 1),
        (["-1", "-1.00", "-1e+0"], -1),
        (["0", "-0", "+0", "0.0", "-0.0", "0e5"], 0),
        (["0.5", ".5", "+0.5", "5e-1", "5.0e-1"], 0.5),
        (["9007199254740993", "+9007199254740993"], 9007199254740993),
        (["1e3", "1000", "1000.0"], 1000),
    ],
)
def test_spellings_of_a_number(texts, number):
    found = [number_of(text) for text in texts]
    assert found == [number] * len(texts)
    assert {type(one) for one in found} == {type(number)}


@pytest.mark.parametrize(
    "text",
    [
        *("", "1a", "+", ".", "1_000", "1,5", "1.2.7", "0x1", "nan", "inf", "1e999", "\u0661"),
        *("007", "-01", "00", "01.5", "3.10", "1.50"),
        *("9223372036854775808", "123456789012345678901234567890"),
    ],
)
def test_texts_that_are_no_numbers(text):
    assert number_of(text) is None


@pytest.mark.parametrize(
    ("labels", "targets"),
    [
        (["+1", "-1", "1.0"], [1, -1, 1]),
        (["1", "", "2"], [1, "", 2]),
        (["0.5", "1.0", ".5"], ["0.5", "1", "0.5"]),
        (["007", "1.0", "1"], ["007", "1.0", "1"]),
        (["a", "1.0"], ["a", "1.0"]),
        (["3.1", "3.10"], ["3.1", "3.10"]),
        (["", ""], ["", ""]),
    ],
)
def test_targets(labels, targets):
    found = [*map(target_reader(labels), labels)]
    assert found == targets
    assert [*map(type, found)] == [*map(type, targets)]


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        (np.float32(2), "2"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (1e300, "1e+300"),
        (np.int8(-1), "-1"),
        (True, "True"),
        ("1.0", "1.0"),
        (np.str_("a"), "a"),
    ],
)
def test_labels_as_text(label, text):
    assert label_text(label) == text
