"""Scores of items given by name: bit by bit those of their matrix, whatever the values, their order and number."""

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import ChainCRF
from crfqn.data.encoding import encode_new, encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.vocabulary import Vocabulary
from crfqn.errors import InputError
from crfqn.estimators.token_scores import edge_table, names_with_weights, token_scores
from crfqn.estimators.weights import entries
from crfqn.objectives.linear.sparse_map import add_image
from crfqn.structures.structure import NO_EDGES
from crfqn.threads import Pool

K = 5
PLAIN = [
    {"w": "a", "n": 1, "flag": True, "off": False, "zero": 0, "never": "x"},
    {},
    {"flag": 1.0, "w=b": True, "w": "b", "t": "u=v", "t=u": "v"},
]
NUMBERS = [
    {"x": 0.3, "w": "a"},
    {"x": -7, "w=a": 0.1, "w": "a", "l": ["p", "q", "p"]},
    {"d": {"e": 2.5, "f": "g"}},
]
STRINGS = [["w=a", "flag", "w=a", "never", "w=a"], [], ("n", "x")]
ITEMS = {
    "plain": [PLAIN],
    "numbers": [NUMBERS],
    "strings": [STRINGS],
    "mixed": [PLAIN, STRINGS, [], NUMBERS, PLAIN],
}
NAMES = ["d:e", "d:f=g", "flag", "l:p", "l:q", "n", "t=u=v", "w=a", "w=b", "x", "y"]


def make(names=NAMES, seed=0, density=0.6):
    random = np.random.default_rng(seed)
    weights = random.normal(size=(K, len(names))) * (random.random((K, len(names))) < density)
    weights[:, 2] = 0.0
    return Vocabulary(names), sp.csr_array(weights)


def scores_of(X, vocabulary, coef, n_threads=1):
    rows = encode_new(X, vocabulary, len(vocabulary), lambda names: names_with_weights(coef, names))
    with Pool(n_threads) as pool:
        return token_scores(rows, coef, pool)


def through_a_store(X, vocabulary, coef):
    sequences, _ = encode_sequences(X, vocabulary, allow_empty=True)
    store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, allow_empty=True)
    scores = np.zeros((K, store.n_positions))
    with Pool(1) as pool:
        add_image(store, *entries(coef, len(vocabulary)), scores, NO_EDGES, pool)
    return scores


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_the_same_sums_bit_by_bit(kind, density):
    vocabulary, coef = make(density=density)
    expected = through_a_store(ITEMS[kind], vocabulary, coef)
    np.testing.assert_array_equal(scores_of(ITEMS[kind], vocabulary, coef), expected)
    table = encode_sequences(ITEMS[kind], vocabulary, allow_empty=True)[0].matrix.toarray()
    np.testing.assert_allclose(expected, coef.toarray() @ table.T, atol=1e-12)


@pytest.mark.parametrize("n_entries", [1, 3, 40, 700])
def test_rows_of_any_length_in_any_order(n_entries):
    """Also more entries than weights, and than one thread takes."""
    random = np.random.default_rng(n_entries)
    vocabulary, coef = make([f"f{i:03}" for i in range(300)])
    X = [[random.choice([*vocabulary, "other"], n_entries).tolist() for _ in range(5)] for _ in range(40)]
    expected = through_a_store(X, vocabulary, coef)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(scores_of(X, vocabulary, coef, n_threads), expected)


def test_weights_changed_in_place_are_seen():
    vocabulary, coef = make()
    before = scores_of([PLAIN], vocabulary, coef)
    coef.data *= -3.0
    np.testing.assert_array_equal(
        scores_of([PLAIN], vocabulary, coef), through_a_store([PLAIN], vocabulary, coef)
    )
    assert (scores_of([PLAIN], vocabulary, coef) != before).any()


def test_names_without_weights_are_not_looked_up():
    vocabulary, coef = make()
    names = names_with_weights(coef, vocabulary)
    assert names is names_with_weights(coef, vocabulary)
    kept = np.unique(coef.indices)
    assert names.columns == {NAMES[column]: column for column in kept}
    assert "flag" not in names.columns
    assert names.n_features == len(NAMES)
    other = Vocabulary(NAMES)
    assert names_with_weights(coef, other) is not names
    _, full = make(density=2.0)
    full = sp.csr_array(full.toarray() + 1.0)
    assert names_with_weights(full, vocabulary) is vocabulary


def test_edges_as_a_table():
    _, coef = make([*"abcde"])
    np.testing.assert_array_equal(edge_table(coef), coef.toarray())
    np.testing.assert_array_equal(edge_table(coef.tocsc()), coef.toarray())
    np.testing.assert_array_equal(edge_table(sp.csr_array((3, 3))), np.zeros((3, 3)))


TRAIN = (
    [{"w": "the", "bias": 1}, {"w": "dog", "x": 0.5}],
    [{"w": "a"}, {"w": "cat", "x": 2.5, "rare": True}],
)
Y = (["D", "N"], ["D", "N"])


@pytest.fixture(scope="module")
def model():
    return ChainCRF(l1=0.05, l2=0.1).fit(TRAIN, Y)


class TestPredictions:
    def test_the_same_as_from_a_matrix(self, model):
        new = [
            [{"w": "cat", "x": 1}, {"w": "new", "x": -3.5, "l": ["a", "b"]}],
            [],
            [["w=the"], ["bias", "x"]],
        ]
        encoded, _ = encode_sequences(new, model.vocabulary_, allow_empty=True)
        assert model.predict(new).tolist() == model.predict(encoded).tolist()
        for found, expected in zip(
            model.predict_marginals(new), model.predict_marginals(encoded), strict=True
        ):
            np.testing.assert_array_equal(found, expected)

    def test_items_from_a_generator(self, model):
        assert model.predict(item for item in TRAIN).tolist() == list(Y)
        assert model.predict(item for item in [[], []]).tolist() == [[], []]

    def test_sums_that_are_not_finite(self, model):
        bad = [
            [{"w": "a"}],
            [{"w": "a"}, {"x": 1e308, "l": ["a"]}, {"x": 1.7e308, "w=cat": 1e308, "w": "cat"}],
        ]
        model.predict(bad)
        listed = {"x:a": 1e308, "x": {"a": 1.7e308}}
        named = ChainCRF(l1=0.0, l2=0.1).fit([[{"x:a": 1.0}, {"x:a": -1.0}]], [["D", "N"]])
        with pytest.raises(InputError, match=r"must be finite, but item 1, position 1, feature 0 is inf"):
            named.predict([[{}], [{}, listed]])

    def test_errors_name_the_place(self, model):
        with pytest.raises(
            InputError, match=r"^item 300, position 1: feature 'w': expected a number, boolean"
        ):
            model.predict([TRAIN[0]] * 300 + [[{"w": "a"}, {"w": None}]])
