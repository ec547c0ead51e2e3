"""Which texts of a file are numbers, and how labels are written."""

import numpy as np
import pytest

from crfqn.data.label_texts import label_text, number_of, target_reader


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
