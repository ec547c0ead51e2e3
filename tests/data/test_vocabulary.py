"""Vocabularies: names to columns and back, the pairs that they remember, and items looked up many at a time."""

import copy
import pickle
from collections import Counter, OrderedDict

import numpy as np
import pytest

from crfqn.data.encoding import encode_sequences
from crfqn.data.vocabulary import UNSEEN, Vocabulary
from crfqn.errors import InputError


def test_vocabulary():
    vocabulary = Vocabulary(["b", "a", "ü"])
    assert len(vocabulary) == 3
    assert list(vocabulary) == vocabulary.names == ["b", "a", "ü"]
    assert (
        [vocabulary[name] for name in vocabulary] == [vocabulary.index(name) for name in "baü"] == [0, 1, 2]
    )
    assert "a" in vocabulary
    assert "c" not in vocabulary
    assert repr(vocabulary) == "Vocabulary(3 names)"
    with pytest.raises(KeyError, match="'c'"):
        vocabulary["c"]
    for twin in (pickle.loads(pickle.dumps(vocabulary)), copy.deepcopy(vocabulary)):
        assert twin == vocabulary
        assert twin["ü"] == 2
    assert vocabulary != Vocabulary(["a", "b", "ü"])


def test_bad_vocabularies():
    with pytest.raises(InputError, match="'a' comes twice"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(InputError, match="that of column 1 is of type int: 3"):
        Vocabulary(["a", 3])
    with pytest.raises(InputError, match="must be a list of 3 strings, got the single 'abc'"):
        Vocabulary("abc")


class TestPairsThatAVocabularyRemembers:
    """What was met before is looked up, not spelled again; it has to mean the same as the first time."""

    POSITIONS = (
        {"w": "a", "n": 1, "flag": True, "off": False, "zero": 0},
        {"w": "b", "n": 1.0, "x": 2.5},
        {"w": "a", "x": 1, "new": "never seen", "never": 1, "flag": np.True_},
        {"w=a": 1.0, "n": 1.0},
        {"x": -0.5, "w": "b", "never": 3.0},
        {"w": "1", "n": "1"},
    )

    def test_again_and_in_another_order(self):
        _, vocabulary = encode_sequences([[dict(p) for p in self.POSITIONS[:2]]])
        first = encode_sequences([list(self.POSITIONS)], vocabulary)[0].matrix.toarray()
        backwards = encode_sequences([list(self.POSITIONS[::-1])], vocabulary)[0].matrix.toarray()
        np.testing.assert_array_equal(first, backwards[::-1])
        names = vocabulary.names
        rows = [{n: v for n, v in zip(names, row, strict=True) if v} for row in first]
        assert rows == [
            {"flag": 1, "n": 1, "w=a": 1},
            {"n": 1, "w=b": 1, "x": 2.5},
            {"flag": 1, "w=a": 1, "x": 1},
            {"n": 1, "w=a": 1},
            {"w=b": 1, "x": -0.5},
            {},
        ]

    def test_what_has_no_column_is_not_kept(self, monkeypatch):
        """But some names are, which are soonest known again."""
        monkeypatch.setattr("crfqn.data.vocabulary.MAX_UNKNOWN_NAMES", 3)
        _, vocabulary = encode_sequences([[{"w": "a", "n": 1}]])
        for number in range(20):
            position = {
                "w": f"unseen {number}",
                f"name {number}": "x",
                "n": number + 2.0,
                f"flag {number}": True,
            }
            encode_sequences([[position | {"w": ""}, position]], vocabulary)
        assert {name: vocabulary.pairs[name] for name in ("w", "n")} == {
            "w": {"": UNSEEN, "a": 1},
            "n": {"": UNSEEN, 0: UNSEEN, 1: 0},
        }
        assert len(vocabulary.pairs) <= 2 + 3
        assert vocabulary.columns == {"": UNSEEN, "n": 0, "w=a": 1}

    def test_the_error_names_the_place_after_a_good_start(self):
        with pytest.raises(
            InputError,
            match=r"item 0, position 1: feature 'x': expected a finite number of at most 1e\+12 in size, got nan",
        ):
            encode_sequences([[{"w": "a", "x": 1}, {"w": "a", "x": float("nan")}]])


def same(X, expected):
    np.testing.assert_array_equal(X.matrix.toarray(), expected)


class TestManyItems:
    """Items are looked up together where they are plain, and one by one where one of them is not."""

    PLAIN = ([{"w": "a", "n": 1}, {"w": "b"}], [{"w": "a", "n": False}], [])
    ODD = ([{"w": "a", "x": 2.5}], [OrderedDict(w="b")], (Counter(n=3),), [{"l": ["p", "q"]}, ["w=a"]])

    @pytest.mark.parametrize("has_vocabulary", [False, True])
    def test_plain_and_odd_ones(self, has_vocabulary):
        X = [*self.PLAIN * 100, *self.ODD, *self.PLAIN * 90, *self.ODD * 70, *self.PLAIN * 200]
        alone = [[{"w": "a", "n": 1}, {"w": "b"}, *(position for item in self.ODD for position in item)]]
        vocabulary = encode_sequences(alone)[1]
        found, names = encode_sequences(X, vocabulary if has_vocabulary else None, allow_empty=True)
        assert names == vocabulary
        assert found.lengths.tolist() == list(map(len, X))
        for item in (*self.PLAIN[:2], *self.ODD):
            expected = encode_sequences([item], vocabulary)[0].matrix.toarray()
            for i in [i for i in range(len(X)) if X[i] is item][:: len(X) // 9]:
                np.testing.assert_array_equal(found[i].toarray(), expected)

    @pytest.mark.parametrize("has_vocabulary", [False, True])
    @pytest.mark.parametrize("names", [["w=a", "n"], {"w=a": 1, "n": True}])
    def test_names_alone(self, names, has_vocabulary):
        X = [[names, ["n"]]] * 300 + [[["n"], names]]
        found, vocabulary = encode_sequences(X, Vocabulary(["n", "w=a"]) if has_vocabulary else None)
        assert vocabulary.names == ["n", "w=a"]
        same(found, [[1, 1], [1, 0]] * 300 + [[1, 0], [1, 1]])

    def test_order_of_a_dict_that_has_one_of_its_own(self):
        position = OrderedDict(a="b", c=2.0, d="e")
        position.move_to_end("a")
        _, vocabulary = encode_sequences([[position]])
        assert vocabulary.names == ["a=b", "c", "d=e"]
        same(encode_sequences([[position]], vocabulary)[0], [[1, 2, 1]])

    @pytest.mark.parametrize("has_vocabulary", [False, True])
    @pytest.mark.parametrize(
        "bad", [{"w": None}, {"w": b"a"}, {3: "a"}, {"w": 1j}, {"w": float("nan")}, ["w", 3], "w", None]
    )
    def test_errors_name_the_place(self, bad, has_vocabulary):
        X = [[{"w": "a"}]] * 600 + [[{"w": "a"}, {"w": "b"}, bad]] + [[{"w": "a"}]] * 9
        with pytest.raises(InputError, match=r"^item 600, position 2: "):
            encode_sequences(X, Vocabulary(["w=a"]) if has_vocabulary else None)

    def test_all_readings_of_a_name(self):
        vocabulary = Vocabulary(["=", "a", "a=b=c", "b="])
        positions = [
            {"a": "b=c"},
            {"a=b": "c"},
            {"a=b=c": 1, "x": "y"},
            {"a": True, "x": "y"},
            {"": ""},
            {"b": ""},
        ]
        same(
            encode_sequences([positions], vocabulary)[0],
            [[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]],
        )
