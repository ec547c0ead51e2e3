"""Features of words: shapes, neighbours and ends as dicts, the same as patterns, and other columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crfqn import Templates
from crfqn.data.templates.patterns import word_shape
from crfqn.data.templates.windows import word_features
from crfqn.errors import InputError

ITEM = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=6)


def rows_of(sequences):
    """The names of the features at each position."""
    names, matrix = sequences.feature_names, sequences.matrix
    return [
        {names[column] for column in matrix.indices[start:stop]}
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]


def named(features):
    """The names of the features of a dict, a flag's with its value."""
    flags = ("upper", "title", "digit", "hyphen")
    return {
        f"{name}={value if isinstance(value, str) else 'true'}"
        if isinstance(value, str) or name.rpartition(":")[2] in flags
        else name
        for name, value in features.items()
    }


@settings(deadline=None)
@given(st.lists(ITEM, min_size=1, max_size=4).filter(any))
def test_templates_make_the_features_of_the_dicts(items):
    expected = [named(features) for item in items for features in word_features(item)]
    assert rows_of(Templates().fit_transform(items)) == expected


def test_features_are_no_columns():
    sentence = ["Ada", "wrote"]
    templates = Templates().fit([[{"w": word} for word in sentence]])
    message = (
        r"item 1, position 0: expected a dict of texts by column \(w\).*got the keys \['bias', 'w', 's3'"
    )
    with pytest.raises(InputError, match=message):
        templates.transform([[], word_features(sentence)])
    with pytest.raises(InputError, match="item 0, position 1: expected a dict of texts by column"):
        Templates().fit([[{"w": "Ada"}, {"w": "wrote", "title": False}]])


def test_columns_that_are_given_are_chosen_from_dicts_of_more():
    items = [[{"w": word, "begin": 0} for word in ("Ada", "wrote")]]
    templates = Templates(columns=["w"]).fit(items)
    assert rows_of(templates.transform(items)) == rows_of(templates.transform([["Ada", "wrote"]]))


def test_other_columns_count_with_their_neighbours():
    item = [("The", "DT"), ("old", "JJ"), ("dog", "NN")]
    templates = Templates(columns=["w", "pos"])
    first, second, _ = rows_of(templates.fit_transform([item]))
    assert {name for name in first if name.startswith("pos")} == {
        "pos[0]=DT", "pos[1]=JJ", "pos[2]=NN", "pos[0]|pos[1]=DT|JJ", "pos[1]|pos[2]=JJ|NN"
    }  # fmt: skip
    assert {"pos[-1]=DT", "pos[-1]|pos[0]=DT|JJ", "w=old", "-1:w=the"} <= second
    assert rows_of(Templates(words="pos", columns=["w", "pos"]).fit_transform([item]))[0] >= {
        "w=dt",
        "w[1]=old",
    }


def test_columns_that_no_pattern_reads_may_be_there():
    templates = Templates("U0:%x[0,1]\nB").fit([[("The", "DT")]])
    assert rows_of(templates.transform([[("A", "DT")]])) == [{"U0:DT"}]
    assert rows_of(templates.transform([[{"1": "DT"}]])) == [{"U0:DT"}]


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
