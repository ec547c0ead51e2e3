"""Encoding of items against DictVectorizer, and what every wrong item is told."""

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

from crfqn.data.encoding import Sequences, encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.matrices import ENTRIES_PER_BLOCK
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
    assert ENTRIES_PER_BLOCK < 10 * 2500 * 6
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
        (
            {"b": 1, "a": float("nan")},
            r"feature 'a': expected a finite number of at most 1e\+12 in size, got nan",
        ),
        (
            {"a": np.float32("inf")},
            r"feature 'a': expected a finite number of at most 1e\+12 in size, got inf",
        ),
        ({"a": -np.inf}, r"feature 'a': expected a finite number of at most 1e\+12 in size, got -inf"),
        (
            {"a": 10**400},
            r"feature 'a': expected a finite number of at most 1e\+12 in size, got an integer of 40 digits or more",
        ),
        (
            {"a": Fraction(10**400)},
            r"feature 'a': expected a finite number of at most 1e\+12 in size, got Fraction\(1000",
        ),
        ({3: "b"}, "expected feature names that are strings, got 3 of type int"),
        ({3: 1.0}, "expected feature names that are strings, got 3 of type int"),
        ({b"a": 1}, "expected feature names that are strings, got b'a' of type bytes"),
        ({None: 1}, "expected feature names that are strings, got None"),
        (["x" * 100, 3, "y"], "expected a list of strings, but it contains 3 of type int"),
        ("x" * 100, "expected a dict or a list of strings, got the single string 'x{56}[.]{3};"),
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
        ("abc", "got 'abc' of type str;"),
        ({"a": 1}, "got {'a': 1} of type dict;"),
        (3, "got 3 of type int$"),
        (np.ones((4, 2)), r"one matrix or array: cut it into items with crfqn.Sequences\(matrix, offsets\)$"),
        (
            sp.csr_array((4, 2)),
            r"one matrix or array: cut it into items with crfqn.Sequences\(matrix, offsets\)$",
        ),
        ([], "^expected at least one item, got none$"),
        ([[], []], r"^expected at least one position, but all items are empty \(2 in number\)$"),
        (["abc"], r"^item 0: expected a list of positions, got 'abc' of type str;"),
        ([[["a"]], None], r"^item 1: expected a list of positions, got None$"),
        ([{"a": 1}, {"b": 1}], r"^item 0: expected a list of positions, got {'a': 1} of type dict;"),
        (
            [["a", "b"]],
            r"^item 0, position 0: expected a dict or a list of strings, got the single string 'a'; if the lists are "
            r"the positions of one item, wrap it in a list: \[item\]$",
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
        if X and not encoded.n_positions:
            with pytest.raises(InputError, match="expected at least one position, but all items are empty"):
                encode_sequences(X, **options)
    with pytest.raises(InputError, match="all items are empty"):
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
    assert encode_sequences(Sequences(np.ones((2, 2)), [0, 2, 2]))[0].lengths.tolist() == [2, 0]
    with pytest.raises(InputError, match="all items are empty"):
        encode_sequences(Sequences(np.ones((0, 2)), [0, 0]))
