"""Items that are looked up many at a time."""

from collections import Counter, OrderedDict

import numpy as np
import pytest

from crfqn.data.encoding import encode_sequences
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError


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
