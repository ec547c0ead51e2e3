"""Encoding against DictVectorizer and numpy.unique, and what every wrong input is told."""

import copy
import pickle
import tracemalloc
from collections import Counter, OrderedDict
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer

from crfqn.data.columns import BLOCK
from crfqn.data.encoding import encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.labels.codes import encode_known_labels, encode_labels, split_by_item
from crfqn.data.sequences import Sequences
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError

ARRAYS = [np.arange(6.0).reshape(2, 3), np.arange(3.0).reshape(1, 3)]
TOKENS = [
    [{"word": "the", "length": 3, "upper": False}, {"word": "cat", "length": 3.5, "bias": True}],
    [{"length": 0.0, "word": "A", "upper": True}],
]


def same(X, expected):
    found = X.matrix if isinstance(X.matrix, np.ndarray) else X.matrix.toarray()
    np.testing.assert_array_equal(found, expected)


# ---- dicts and strings


def test_dicts():
    X, vocabulary = encode_sequences(TOKENS)
    assert (
        vocabulary.names == X.feature_names == ["bias", "length", "upper", "word=A", "word=cat", "word=the"]
    )
    same(X, [[0, 3, 0, 0, 0, 1], [1, 3.5, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0]])
    np.testing.assert_array_equal(X.offsets, [0, 2, 3])
    assert X.matrix.nnz == 7


def test_strings_count_each_time():
    X, vocabulary = encode_sequences(
        [[["b", "a"], ["c", "b", "c"]], [[], ("a",), {"b"}, np.array(["c", "a"])]]
    )
    assert vocabulary.names == ["a", "b", "c"]
    same(X, [[1, 1, 0], [0, 1, 2], [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 1]])
    assert X.matrix.has_canonical_format
    assert not FeatureStore.from_matrix(X.matrix, X.offsets).is_binary
    X, _ = encode_sequences([[["b", "a"]]])
    assert FeatureStore.from_matrix(X.matrix, X.offsets).is_binary


def test_dict_entries_that_meet_in_one_column_are_summed():
    X, vocabulary = encode_sequences([[{"a=b": 2.5, "a": "b"}]])
    assert vocabulary.names == ["a=b"]
    same(X, [[3.5]])


def test_known_vocabulary_ignores_unseen_names():
    _, vocabulary = encode_sequences(TOKENS)
    X, same_vocabulary = encode_sequences(
        [[{"word": "dog", "new": 7, "length": 2}, ["bias", "word=cat", "nothing"]]], vocabulary
    )
    assert same_vocabulary is vocabulary
    same(X, [[0, 2, 0, 0, 0, 0], [1, 0, 0, 0, 1, 0]])
    assert len(vocabulary) == 6
    again, _ = encode_sequences(TOKENS, vocabulary)
    same(again, encode_sequences(TOKENS)[0].matrix.toarray())


@pytest.mark.parametrize(
    "value", [2, 2.0, np.int8(2), np.float32(2), np.float64(2), Fraction(2), np.uint64(2)]
)
def test_numbers_of_every_kind(value):
    same(encode_sequences([[{"a": value}]])[0], [[2]])


@pytest.mark.parametrize(
    ("value", "column", "entry"),
    [
        (True, "a", 1),
        (np.True_, "a", 1),
        (False, "a", 0),
        (np.False_, "a", 0),
        (0, "a", 0),
        (-0.0, "a", 0),
        (np.float32(0), "a", 0),
        ("", "a=", 1),
        (np.str_("3"), "a=3", 1),
        ("é", "a=é", 1),
    ],
)
def test_booleans_zeros_and_strings(value, column, entry):
    X, vocabulary = encode_sequences([[{"a": value}]])
    assert vocabulary.names == [column]
    assert type(vocabulary.names[0]) is str
    same(X, [[entry]])
    assert X.matrix.nnz == entry


@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType, Counter])
def test_mappings(kind):
    same(encode_sequences([(kind({"a": 2, "b": 1}),)])[0], [[2, 1]])


names = st.sampled_from(["a", "b", "c=", "c", "=", "ü", "a=x"])
values = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(-9, 9), st.sampled_from(["x", "y", "=", ""]))
tokens = st.lists(st.lists(st.dictionaries(names, values, max_size=5), min_size=1, max_size=4), min_size=1)


@given(tokens)
@settings(deadline=None)
def test_dicts_agree_with_dictvectorizer(X):
    flat = [position for item in X for position in item]
    encoded, vocabulary = encode_sequences(X)
    if len(vocabulary) == 0:
        assert encoded.matrix.shape == (len(flat), 0)
        return
    other = DictVectorizer()
    expected = other.fit_transform(flat)
    assert vocabulary.names == other.feature_names_
    same(encoded, expected.toarray())
    assert (encoded.matrix.data != 0).all() or "a=x" in vocabulary
    assert encoded.lengths.tolist() == list(map(len, X))
    # The order of the items changes nothing.
    turned, again = encode_sequences(X[::-1])
    assert again == vocabulary
    same(turned[::-1], expected.toarray())


def test_long_lists_cross_blocks():
    names = np.array([f"n{i}" for i in range(40)])
    X = np.random.default_rng(0).choice(names, (10, 2500, 6)).tolist()
    assert BLOCK < 10 * 2500 * 6
    flat = [Counter(position) for item in X for position in item]
    same(encode_sequences(X)[0], DictVectorizer().fit_transform(flat).toarray())


def test_memory_is_that_of_the_matrix_and_the_names():
    words = [f"word{i}" for i in range(1000)]
    rng = np.random.default_rng(0)
    X = [[[words[i] for i in rng.integers(0, 1000, 20)] for _ in range(10)] for _ in range(1000)]
    encode_sequences(X[:2])
    tracemalloc.start()
    try:
        encoded, _ = encode_sequences(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert encoded.n_positions == 10_000
    assert peak < 200_000 * 8 * 1.5 + 3e6


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ("abc", "expected a dict or a list of strings, got the single string 'abc'"),
        (b"abc", "expected a dict or a list of strings, got b'abc' of type bytes"),
        (None, "expected a dict or a list of strings, got None"),
        (3, "expected a dict or a list of strings, got 3 of type int"),
        (np.arange(2.0), r"expected a dict or a list of strings, got array\(\[0., 1.\]\) of type ndarray"),
        (
            ["a", 3],
            "expected a list of strings, but it contains 3 of type int; for numbers, pass each item as",
        ),
        (["a", None], "expected a list of strings, but it contains None"),
        (["a", b"b"], "expected a list of strings, but it contains b'b' of type bytes"),
        (["a", ["b"]], r"expected a list of strings, but it contains \['b'\] of type list"),
        (["a", {"b": 1}], r"expected a list of strings, but it contains {'b': 1} of type dict"),
        (
            {"a": b"b"},
            "feature 'a': expected a number, boolean, string, list or dict, got b'b' of type bytes",
        ),
        ({"a": None}, "feature 'a': expected a number, boolean, string, list or dict, got None"),
        ({"a": 1j}, "feature 'a': expected a number, boolean, string, list or dict, got 1j of type complex"),
        ({"a": np.ones(1)}, r"feature 'a': expected .* got array\(\[1.\]\) of type ndarray"),
        ({"b": 1, "a": float("nan")}, "feature 'a': expected a finite number, got nan"),
        ({"a": np.float32("inf")}, "feature 'a': expected a finite number, got inf"),
        ({"a": -np.inf}, "feature 'a': expected a finite number, got -inf"),
        ({"a": 10**400}, "feature 'a': the number is too large for a float, an integer of 40 digits or more"),
        ({"a": Fraction(10**400)}, "feature 'a': the number is too large for a float"),
        ({3: "b"}, "expected feature names that are strings, got 3 of type int"),
        ({3: 1.0}, "expected feature names that are strings, got 3 of type int"),
        ({b"a": 1}, "expected feature names that are strings, got b'a' of type bytes"),
        ({None: 1}, "expected feature names that are strings, got None"),
        (["x" * 100, 3, "y"], "expected a list of strings, but it contains 3 of type int"),
        ("x" * 100, "expected a dict or a list of strings, got the single string 'x{56}[.]{3}$"),
    ],
)
@pytest.mark.parametrize("has_vocabulary", [False, True])
def test_bad_positions(position, message, has_vocabulary):
    X = [[["a"]], [["a"], ["b"]], [["a"], ["a"], position]]
    with pytest.raises(InputError, match=f"^item 2, position 2: {message}"):
        encode_sequences(X, Vocabulary(["a", "b"]) if has_vocabulary else None)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, r"^expected crfqn.Sequences or a list of items .* got None$"),
        ("abc", "got 'abc' of type str$"),
        ({"a": 1}, "got {'a': 1} of type dict$"),
        (3, "got 3 of type int$"),
        (np.ones((4, 2)), r"one matrix or array: cut it into items with crfqn.Sequences\(matrix, offsets\)$"),
        (
            sp.csr_array((4, 2)),
            r"one matrix or array: cut it into items with crfqn.Sequences\(matrix, offsets\)$",
        ),
        ([], "^expected at least one item, got none$"),
        ([[], []], r"^expected at least one position in every item, but item 0 \(and 1 more\) is empty$"),
        ([[["a"]], [], [["b"]]], r"in every item, but item 1 is empty$"),
        (["abc"], r"^item 0: expected a list of positions, got 'abc' of type str$"),
        ([[["a"]], None], r"^item 1: expected a list of positions, got None$"),
        ([{"a": 1}, {"b": 1}], r"^item 0: expected a list of positions, got {'a': 1} of type dict$"),
        (
            [["a", "b"]],
            r"^item 0, position 0: expected a dict or a list of strings, got the single string 'a'$",
        ),
        ([[["a"]], ARRAYS[0]], r"^item 1: expected a list of positions, got array\(\[\[0., 1., 2.\],"),
        (
            [[[1.0, 2.0]]],
            r"^item 0, position 0: .* contains 1.0 of type float; for numbers, pass each item as a 2-D",
        ),
    ],
)
def test_bad_outer_levels(X, message):
    with pytest.raises(InputError, match=message):
        encode_sequences(X)


# ---- matrices


def test_arrays():
    X, vocabulary = encode_sequences(ARRAYS)
    assert vocabulary is None
    same(X, np.concatenate(ARRAYS))
    assert isinstance(X.matrix, np.ndarray)
    assert X.lengths.tolist() == [2, 1]
    same(encode_sequences(np.ones((2, 3, 4)))[0], np.ones((6, 4)))
    assert encode_sequences([np.ones((2, 3), bool)])[0].matrix.dtype == bool


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array])
def test_sparse_items_and_mixtures(make):
    for items in ([make(ARRAYS[0]), make(ARRAYS[1])], [ARRAYS[0], make(ARRAYS[1])]):
        X, vocabulary = encode_sequences(items)
        assert vocabulary is None
        assert X.matrix.format == "csr"
        same(X, np.concatenate(ARRAYS))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([*ARRAYS, np.ones((2, 4))], r"^item 2: expected 3 features, got 4$"),
        ([*ARRAYS, np.ones(3)], r"^item 2: expected a 2-D matrix .* got shape \(3,\) and dtype float64$"),
        ([*ARRAYS, np.ones((1, 3), complex)], r"^item 2: .* booleans or real numbers, .* complex128$"),
        (
            [*ARRAYS, [["a"]]],
            r"^item 2: expected a matrix like the items before, got \[\['a'\]\] of type list$",
        ),
        ([*ARRAYS, None], r"^item 2: expected a matrix like the items before, got None$"),
        ([*ARRAYS, np.ones((0, 3))], r"in every item, but item 2 is empty$"),
        ([*ARRAYS, []], r"in every item, but item 2 is empty$"),
    ],
)
def test_bad_matrices(items, message):
    with pytest.raises(InputError, match=message):
        encode_sequences(items)


# ---- prediction


@pytest.mark.parametrize("X", [Sequences(np.ones((2, 4)), [0, 2]), [np.ones((2, 4))], [sp.csr_array((2, 4))]])
def test_number_of_features_at_prediction(X):
    assert encode_sequences(X, n_features=4)[0].n_features == 4
    with pytest.raises(InputError, match=r"expected 3 features(, as in training)?, got 4$"):
        encode_sequences(X, n_features=3)
    with pytest.raises(InputError, match=r"expected 1 features(, as in training)?, got 4$"):
        encode_sequences(X, Vocabulary(["a"]))


def test_names_for_a_model_without_names():
    with pytest.raises(
        InputError, match=r"^expected matrices with 3 columns, as in training; features given by"
    ):
        encode_sequences([[["a"]]], n_features=3)


def test_empty_items_at_prediction():
    for X, options in [
        ([], {"n_features": 3}),
        ([], {"vocabulary": Vocabulary(["a", "b", "c"])}),
        ([[], []], {"n_features": 3}),
        ([[], np.ones((1, 3)), np.ones((0, 3))], {}),
        ([[], [["a"]]], {"vocabulary": Vocabulary(["a", "b", "c"])}),
    ]:
        encoded, _ = encode_sequences(X, allow_empty=True, **options)
        assert encoded.lengths.tolist() == [len(x) if isinstance(x, list) else x.shape[0] for x in X]
        assert encoded.n_features == 3
        if X:
            with pytest.raises(InputError, match="expected at least one position in every item"):
                encode_sequences(X, **options)
    with pytest.raises(InputError, match=r"is empty$"):
        encode_sequences([[], []], allow_empty=True)


def test_sequences_pass_through():
    X = Sequences(np.ones((2, 2)), [0, 2])
    assert encode_sequences(X) == (X, None)
    named = Sequences(np.ones((2, 2)), [0, 2], ["b", "a"])
    encoded, vocabulary = encode_sequences(named)
    assert encoded is named
    assert vocabulary.names == ["b", "a"]
    assert encode_sequences(named, vocabulary)[1] is vocabulary
    with pytest.raises(InputError, match=r"names of training, but column 0 is 'b' instead of 'a'$"):
        encode_sequences(named, Vocabulary(["a", "b"]))
    with pytest.raises(InputError, match=r"item 1 is empty$"):
        encode_sequences(Sequences(np.ones((2, 2)), [0, 2, 2]))


# ---- the vocabulary


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


# ---- labels

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


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3), min_size=1))
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

    def test_what_has_no_column_is_not_kept(self):
        _, vocabulary = encode_sequences([[{"w": "a", "n": 1}]])
        for number in range(20):
            encode_sequences(
                [[{"w": f"unseen {number}", f"name {number}": "x", "n": number + 2.0}]], vocabulary
            )
        assert vocabulary.pairs == {"w": {"a": 1}, "n": {1: 0}}
        assert len(vocabulary.columns) == 2

    def test_the_error_names_the_place_after_a_good_start(self):
        with pytest.raises(
            InputError, match=r"item 0, position 1: feature 'x': expected a finite number, got nan"
        ):
            encode_sequences([[{"w": "a", "x": 1}, {"w": "a", "x": float("nan")}]])


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
