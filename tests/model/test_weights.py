"""Scores entry by entry: bit by bit those through a store, and a refusal of all that needs its checks.

Of a few rows of a matrix, and of items given by name, whatever the values, their order and number.
"""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn import ChainCRF
from crfqn.data.encoding import encode_new, encode_sequences
from crfqn.data.features import FeatureStore
from crfqn.data.token_rows import Rows
from crfqn.data.vocabulary import UNSEEN, Vocabulary
from crfqn.errors import InputError
from crfqn.model.compiled_engine import Scorer
from crfqn.model.content import Entries
from crfqn.model.sequences import SequenceModel
from crfqn.model.weights import WeightMatrix
from crfqn.objectives.linear.sparse_map import add_image
from crfqn.structures.structure import NO_EDGES
from crfqn.threads import MIN_POOL_OPERATIONS, Pool

N, F, K = 7, 60, 5
INITIAL = np.linspace(-1.0, 1.0, K)


def make(seed=0, n_positions=N):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_positions, F)) * (random.random((n_positions, F)) < 0.2)
    x[min(2, n_positions - 1)] = 0.0
    weights = random.normal(size=(K, F)) * (random.random((K, F)) < 0.4)
    return x, sp.csr_array(weights)


def sparse_weights(coef):
    """Coordinates and values of a CSR array."""
    cells = coef.tocoo()
    return cells.row.astype(np.int64) * coef.shape[1] + cells.col, cells.data


def through_a_store(x, coef):
    store = FeatureStore.from_matrix(x, np.arange(x.shape[0] + 1))
    scores = np.repeat(INITIAL[:, None], x.shape[0], axis=1)
    with Pool(1) as pool:
        add_image(store, *sparse_weights(coef), scores, NO_EDGES, pool)
    return scores


def weights_of(coef):
    """The weights of a model whose `coef_` this is, also after it has been changed in place."""
    if not hasattr(coef, "weights"):
        coef.weights = WeightMatrix.of_sparse(coef)
    coef.weights = coef.weights.current
    return coef.weights


def by_entry(matrix, coef):
    with Pool(1) as pool:
        return Scorer(weights_of(coef), INITIAL, pool).by_entry(matrix)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_sums_bit_by_bit(seed):
    x, coef = make(seed)
    expected = through_a_store(x, coef)
    for matrix in (x, sp.csr_array(x), sp.csr_matrix(x)):
        np.testing.assert_array_equal(by_entry(matrix, coef), expected)
    np.testing.assert_allclose(expected, INITIAL[:, None] + coef.toarray() @ x.T, atol=1e-12)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_any_numbers(dtype, index_dtype):
    x, coef = make()
    numbers = np.round(10 * x).astype(dtype)
    rows = sp.csr_array(numbers)
    rows.indices, rows.indptr = rows.indices.astype(index_dtype), rows.indptr.astype(index_dtype)
    expected = INITIAL[:, None] + coef.toarray() @ numbers.T.astype(float)
    for matrix in (numbers, rows):
        np.testing.assert_allclose(by_entry(matrix, coef), expected, atol=1e-12)


def test_nothing_to_add():
    x, coef = make()
    np.testing.assert_array_equal(by_entry(sp.csr_array(x[:0]), coef), np.empty((K, 0)))
    np.testing.assert_array_equal(by_entry(x[:0], coef), np.empty((K, 0)))
    empty = sp.csr_array((K, F))
    np.testing.assert_array_equal(by_entry(x, empty), np.repeat(INITIAL[:, None], N, axis=1))


def test_arrays_that_may_not_be_written_and_are_left_as_they_are():
    x, coef = make()
    expected = by_entry(x, coef)
    rows = sp.csr_array(x)
    before = rows.toarray(), coef.toarray()
    for array in (rows.data, rows.indices, rows.indptr, coef.data, coef.indices, coef.indptr):
        array.flags.writeable = False
    np.testing.assert_array_equal(by_entry(rows, coef), expected)
    np.testing.assert_array_equal(rows.toarray(), before[0])
    np.testing.assert_array_equal(coef.toarray(), before[1])


@pytest.mark.parametrize("columns", [[3, 1, 7], [1, 1, 7]])
def test_columns_that_do_not_ascend(columns):
    _, coef = make()
    rows = sp.csr_array((np.array([0.3, 0.7, 1.1]), np.array(columns), np.array([0, 2, 3])), shape=(2, F))
    np.testing.assert_array_equal(by_entry(rows, coef), through_a_store(rows, coef))


class TestRefusals:
    """Nothing is read beyond the arrays: None, and the checks of a store say what is wrong, or put it right."""

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, bad):
        x, coef = make()
        x[3, 5] = bad
        assert by_entry(x, coef) is None
        assert by_entry(sp.csr_array(x), coef) is None

    @pytest.mark.parametrize("index", [-1, -(1 << 31), F, 1 << 30, (1 << 32) + 5])
    def test_an_index_out_of_range(self, index):
        x, coef = make()
        rows = sp.csr_array(x)
        rows.indices = rows.indices.astype(np.int64)
        rows.indices[4] = index
        assert by_entry(rows, coef) is None

    @pytest.mark.parametrize("indptr", [[1, 2, 3], [0, 3, 2], [0, 1, 100], [0, -1, 3], [0, 3]])
    def test_damaged_rows(self, indptr):
        _, coef = make()
        rows = sp.csr_array((np.ones(3), np.array([1, 2, 3]), np.array([0, 1, 3])), shape=(2, F))
        rows.indptr = np.array(indptr)
        assert by_entry(rows, coef) is None

    def test_other_forms(self):
        x, coef = make()
        assert by_entry(sp.csc_array(x), coef) is None
        assert by_entry(x.astype(np.longdouble) * np.longdouble("1e4000"), coef) is None
        assert by_entry(x[:, 1:], coef) is None

    def test_much_work(self):
        """By the number of operations: entries times weights a feature, on average."""
        _, coef = make()
        per_feature = 1 + coef.nnz // F
        few = MIN_POOL_OPERATIONS // per_feature // F
        assert by_entry(np.ones((few, F)), coef) is not None
        assert by_entry(np.ones((few + 2, F)), coef) is None


class TestOrderByFeature:
    def test_made_once(self):
        x, coef = make()
        by_entry(x, coef)
        order = weights_of(coef).by_feature
        by_entry(x, coef)
        assert weights_of(coef).by_feature is order

    def test_weights_changed_in_place_are_seen(self):
        x, coef = make()
        by_entry(x, coef)
        coef.data *= -3.0
        np.testing.assert_array_equal(by_entry(x, coef), through_a_store(x, coef))
        coef.data[:] = 0.0
        coef.eliminate_zeros()
        np.testing.assert_array_equal(by_entry(x, coef), np.repeat(INITIAL[:, None], N, axis=1))

    def test_new_and_lost_entries_are_seen(self):
        x, coef = make()
        by_entry(x, coef)
        changed = coef.toarray()
        changed[:, 7], changed[2] = 5.0, 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
            coef[:, [7]] = np.full((K, 1), 5.0)
        coef.data[coef.indptr[2] : coef.indptr[3]] = 0.0
        coef.eliminate_zeros()
        expected = INITIAL[:, None] + changed @ x.T
        np.testing.assert_allclose(by_entry(x, coef), expected, atol=1e-12)


# ---- items given by name

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


def make_named(names=NAMES, seed=0, density=0.6):
    random = np.random.default_rng(seed)
    weights = random.normal(size=(K, len(names))) * (random.random((K, len(names))) < density)
    weights[:, 2] = 0.0
    return Vocabulary(names), sp.csr_array(weights)


def scores_of(X, vocabulary, coef, n_threads=1):
    model = sequence_model(vocabulary, coef)
    rows = encode_new(X, vocabulary, len(vocabulary), model.known_pairs)
    with Pool(n_threads) as pool:
        return Scorer(model.weights, np.zeros(K), pool).by_entry(rows)


def sequence_model(vocabulary, coef):
    return SequenceModel(
        kind="chain-crf",
        classes_=np.arange(K),
        n_features_in_=len(vocabulary),
        weights=weights_of(coef),
        dense_coef_=np.empty((K, 0)),
        vocabulary=vocabulary,
        rules_=None,
        edges=weights_of(sp.csr_array((K, K))),
    )


def named_through_a_store(X, vocabulary, coef):
    sequences, _ = encode_sequences(X, vocabulary, allow_empty=True)
    store = FeatureStore.from_matrix(sequences.matrix, sequences.offsets, allow_empty=True)
    scores = np.zeros((K, store.n_positions))
    with Pool(1) as pool:
        add_image(store, *sparse_weights(coef), scores, NO_EDGES, pool)
    return scores


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_named_the_same_sums_bit_by_bit(kind, density):
    vocabulary, coef = make_named(density=density)
    expected = named_through_a_store(ITEMS[kind], vocabulary, coef)
    np.testing.assert_array_equal(scores_of(ITEMS[kind], vocabulary, coef), expected)
    table = encode_sequences(ITEMS[kind], vocabulary, allow_empty=True)[0].matrix.toarray()
    np.testing.assert_allclose(expected, coef.toarray() @ table.T, atol=1e-12)


@pytest.mark.parametrize("n_entries", [1, 3, 40, 700])
def test_rows_of_any_length_in_any_order(n_entries):
    """Also more entries than weights, and than one thread takes."""
    random = np.random.default_rng(n_entries)
    vocabulary, coef = make_named([f"f{i:03}" for i in range(300)])
    X = [[random.choice([*vocabulary, "other"], n_entries).tolist() for _ in range(5)] for _ in range(40)]
    expected = named_through_a_store(X, vocabulary, coef)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(scores_of(X, vocabulary, coef, n_threads), expected)


def test_named_weights_changed_in_place_are_seen():
    vocabulary, coef = make_named()
    before = scores_of([PLAIN], vocabulary, coef)
    coef.data *= -3.0
    np.testing.assert_array_equal(
        scores_of([PLAIN], vocabulary, coef), named_through_a_store([PLAIN], vocabulary, coef)
    )
    assert (scores_of([PLAIN], vocabulary, coef) != before).any()


def test_names_without_weights_are_not_looked_up():
    vocabulary, coef = make_named()
    model = sequence_model(vocabulary, coef)
    pairs = model.known_pairs(vocabulary)
    assert pairs is model.known_pairs(vocabulary)
    columns = {NAMES[column]: column for column in np.unique(coef.indices)}
    assert pairs.columns == {"": UNSEEN} | columns
    assert "flag" not in pairs.columns
    _, full = make_named(density=2.0)
    full = sp.csr_array(full.toarray() + 1.0)
    assert sequence_model(vocabulary, full).known_pairs(vocabulary) is vocabulary.pairs


def test_edges_as_a_table():
    _, coef = make_named([*"abcde"])
    np.testing.assert_array_equal(weights_of(coef).to_dense(), coef.toarray())
    np.testing.assert_array_equal(WeightMatrix.of_sparse(coef.tocsc()).to_dense(), coef.toarray())
    empty = WeightMatrix.of_sparse(sp.csr_array((3, 3))).to_dense()
    np.testing.assert_array_equal(empty, np.zeros((3, 3)))
    assert empty.dtype == np.float64  # integers would compile inference anew


def test_entries_in_any_order_are_added_up():
    rows, columns = np.array([2, 0, 2, 1, 2]), np.array([3, 1, 0, 3, 3])
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    matrix = WeightMatrix.from_entries(Entries(values, rows, columns), (3, 4))
    np.testing.assert_array_equal(
        matrix.csr.toarray(), sp.coo_array((values, (rows, columns)), (3, 4)).toarray()
    )
    assert matrix.csr.has_canonical_format


@pytest.mark.parametrize("density", [0.0, 0.4, 3.0])
def test_pickles_have_the_same_weights(density):
    _, coef = make_named(density=density)
    weights = WeightMatrix.of_sparse(coef if density < 1 else sp.csr_array(coef.toarray() + 1.0))
    again = pickle.loads(pickle.dumps(weights))
    for name in ("values", "columns", "row_ends"):
        np.testing.assert_array_equal(getattr(again, name), getattr(weights, name))
        assert getattr(again, name).dtype == getattr(weights, name).dtype
    if density > 1:  # without zeros there is no need of columns
        assert len(pickle.dumps(weights)) < weights.values.nbytes + 1000


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
        encoded, _ = encode_sequences(new, model.vocabulary, allow_empty=True)
        assert model.predict(new).tolist() == model.predict(encoded).tolist()
        for found, expected in zip(
            model.predict_marginals(new), model.predict_marginals(encoded), strict=True
        ):
            np.testing.assert_array_equal(found, expected)

    def test_items_from_a_generator(self, model):
        assert model.predict(item for item in TRAIN).tolist() == list(Y)
        assert model.predict(item for item in [[], []]).tolist() == [[], []]

    def test_values_at_the_limit_add_up(self):
        listed = {"x:a": 1e12, "x": {"a": 1e12}}
        named = ChainCRF(l1=0.0, l2=0.1).fit([[{"x:a": 1.0}, {"x:a": -1.0}]], [["D", "N"]])
        assert named.predict([[{}], [{}, listed]])[1][1] == "D"

    def test_errors_name_the_place(self, model):
        with pytest.raises(
            InputError, match=r"^item 300, position 1: feature 'w': expected a number, boolean"
        ):
            model.predict([TRAIN[0]] * 300 + [[{"w": "a"}, {"w": None}]])


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("lengths", [[4, 4, 4], [3, 0, 5, 4, 5], [9, 0, 0, 0], [1]])
def test_sums_of_dense_rows_are_those_of_single_weights(lengths, has_intercept, monkeypatch):
    """Also of columns without a weight, of unknown ones, and of a column that comes twice."""
    random = np.random.default_rng(len(lengths))
    coef = sp.csr_array(random.normal(size=(K, F)) * (random.random((K, F)) < 0.4) * (np.arange(F) % 7 > 0))
    row_ends = np.cumsum([0, *lengths])
    intercept = INITIAL if has_intercept else None
    for columns in (
        np.concatenate([random.permutation(F)[:length] for length in lengths]).astype(np.int32),
        random.integers(UNSEEN, F, row_ends[-1]).astype(np.int32),
        np.full(row_ends[-1], 3, np.int32),
    ):
        rows = Rows(row_ends, columns, np.empty(0))
        dense = WeightMatrix.of_sparse(coef).scores(rows, intercept)
        with monkeypatch.context() as patch:
            patch.setattr("crfqn.model.weights.MAX_ROW_TABLE_SIZE", 0)  # no table
            one_by_one = WeightMatrix.of_sparse(coef).scores(rows, intercept)
            patch.setattr("crfqn.model.weights.MAX_ROW_TABLE_SIZE", 1 << 20)
            patch.setattr("crfqn.model.weights.ROW_TABLE_CHUNK", 5 * K)  # a few entries at a time
            by_stretches = WeightMatrix.of_sparse(coef).scores(rows, intercept)
        np.testing.assert_array_equal(dense, one_by_one)
        np.testing.assert_array_equal(by_stretches, one_by_one)
