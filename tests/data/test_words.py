"""Features of words: shapes, neighbours, ends; what is false is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crfqn.data.templates.patterns import word_shape
from crfqn.data.templates.windows import word_features
from crfqn.errors import InputError


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("Zeeland-1944", "Xxx-dd"),
        ("a", "x"),
        ("iPhone7", "xXxxd"),
        ("....", ".."),
        ("ÉCOLE", "ÉXX"),
        ("xXd1", "xXxd"),  # kinds are no characters to be taken twice
        ("", ""),
    ],
)
def test_shape(word, shape):
    assert word_shape(word) == shape


def test_features_of_a_name():
    first, second = word_features(["Rice", "co,"])
    assert first == {
        "bias": 1.0, "w": "rice", "s3": "ice", "s2": "ce", "p3": "ric", "p2": "ri", "shape": "Xxx", "title": True,
        "1:w": "co,", "1:s3": "co,", "1:shape": "xx,", "BOS": True,
    }  # fmt: skip
    assert second["-1:title"] is True
    assert second["EOS"] is True
    assert "BOS" not in second
    assert word_features([]) == []


def test_a_text_is_no_list_of_words():
    with pytest.raises(InputError, match=r"a list of words, got 'I live' of type str; .*sentence\.split\(\)"):
        word_features("I live")


@given(st.lists(st.text(max_size=6), max_size=6))
def test_neighbours_have_the_features_that_they_have_themselves(words):
    found = word_features(words)
    assert len(found) == len(words)
    for here, features in enumerate(found):
        assert all(features.values())
        for name, value in features.items():
            offset, colon, own = name.partition(":")
            if colon and offset.lstrip("-").isdigit():
                assert found[here + int(offset)][own] == value
