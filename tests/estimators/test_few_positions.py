"""Scores of a few positions: the same numbers as through a store, and a refusal of all that needs its checks."""

import gc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn.data.features import FeatureStore
from crfqn.estimators.few_positions import by_feature, few_scores
from crfqn.estimators.weights import entries
from crfqn.objectives.linear.sparse_map import add_image
from crfqn.structures.structure import NO_EDGES
from crfqn.threads import FEWEST_OPERATIONS, Pool

N, F, K = 7, 60, 5
INITIAL = np.linspace(-1.0, 1.0, K)


def make(seed=0, n_positions=N):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n_positions, F)) * (random.random((n_positions, F)) < 0.2)
    x[min(2, n_positions - 1)] = 0.0
    weights = random.normal(size=(K, F)) * (random.random((K, F)) < 0.4)
    return x, sp.csr_array(weights)


def through_a_store(x, coef):
    store = FeatureStore.from_matrix(x, np.arange(x.shape[0] + 1))
    scores = np.repeat(INITIAL[:, None], x.shape[0], axis=1)
    with Pool(1) as pool:
        add_image(store, *entries(coef, F), scores, NO_EDGES, pool)
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_the_same_sums_bit_by_bit(seed):
    x, coef = make(seed)
    expected = through_a_store(x, coef)
    for matrix in (x, sp.csr_array(x), sp.csr_matrix(x)):
        np.testing.assert_array_equal(few_scores(matrix, coef, INITIAL), expected)
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
        np.testing.assert_allclose(few_scores(matrix, coef, INITIAL), expected, atol=1e-12)


def test_nothing_to_add():
    x, coef = make()
    np.testing.assert_array_equal(few_scores(sp.csr_array(x[:0]), coef, INITIAL), np.empty((K, 0)))
    np.testing.assert_array_equal(few_scores(x[:0], coef, INITIAL), np.empty((K, 0)))
    empty = sp.csr_array((K, F))
    np.testing.assert_array_equal(few_scores(x, empty, INITIAL), np.repeat(INITIAL[:, None], N, axis=1))


def test_arrays_that_may_not_be_written_and_are_left_as_they_are():
    x, coef = make()
    expected = few_scores(x, coef, INITIAL)
    rows = sp.csr_array(x)
    before = rows.toarray(), coef.toarray()
    for array in (rows.data, rows.indices, rows.indptr, coef.data, coef.indices, coef.indptr):
        array.flags.writeable = False
    np.testing.assert_array_equal(few_scores(rows, coef, INITIAL), expected)
    np.testing.assert_array_equal(rows.toarray(), before[0])
    np.testing.assert_array_equal(coef.toarray(), before[1])


class TestRefusals:
    """Nothing is read beyond the arrays: None, and the checks of a store say what is wrong, or put it right."""

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, bad):
        x, coef = make()
        x[3, 5] = bad
        assert few_scores(x, coef, INITIAL) is None
        assert few_scores(sp.csr_array(x), coef, INITIAL) is None

    @pytest.mark.parametrize("index", [-1, -(1 << 31), F, 1 << 30, (1 << 32) + 5])
    def test_an_index_out_of_range(self, index):
        x, coef = make()
        rows = sp.csr_array(x)
        rows.indices = rows.indices.astype(np.int64)
        rows.indices[4] = index
        assert few_scores(rows, coef, INITIAL) is None

    @pytest.mark.parametrize("indptr", [[1, 2, 3], [0, 3, 2], [0, 1, 100], [0, -1, 3], [0, 3]])
    def test_damaged_rows(self, indptr):
        _, coef = make()
        rows = sp.csr_array((np.ones(3), np.array([1, 2, 3]), np.array([0, 1, 3])), shape=(2, F))
        rows.indptr = np.array(indptr)
        assert few_scores(rows, coef, INITIAL) is None

    @pytest.mark.parametrize("columns", [[3, 1, 7], [1, 1, 7]])
    def test_columns_that_do_not_ascend(self, columns):
        _, coef = make()
        rows = sp.csr_array((np.ones(3), np.array(columns), np.array([0, 2, 3])), shape=(2, F))
        assert few_scores(rows, coef, INITIAL) is None

    def test_other_forms(self):
        x, coef = make()
        assert few_scores(sp.csc_array(x), coef, INITIAL) is None
        assert few_scores(x.astype(np.longdouble) * np.longdouble("1e4000"), coef, INITIAL) is None
        assert few_scores(x, coef.tocsc(), INITIAL) is None
        assert few_scores(x[:, 1:], coef, INITIAL) is None

    def test_much_work(self):
        """By the number of operations: entries times weights a feature, on average."""
        _, coef = make()
        per_feature = 1 + coef.nnz // F
        few = FEWEST_OPERATIONS // per_feature // F
        assert few_scores(np.ones((few, F)), coef, INITIAL) is not None
        assert few_scores(np.ones((few + 2, F)), coef, INITIAL) is None


class TestOrderByFeature:
    def test_made_once(self):
        x, coef = make()
        few_scores(x, coef, INITIAL)
        found = by_feature.kept[id(coef.indices)]
        few_scores(x, coef, INITIAL)
        assert by_feature.kept[id(coef.indices)] is found

    def test_weights_changed_in_place_are_seen(self):
        x, coef = make()
        few_scores(x, coef, INITIAL)
        coef.data *= -3.0
        np.testing.assert_array_equal(few_scores(x, coef, INITIAL), through_a_store(x, coef))
        coef.data[:] = 0.0
        coef.eliminate_zeros()
        np.testing.assert_array_equal(few_scores(x, coef, INITIAL), np.repeat(INITIAL[:, None], N, axis=1))

    def test_new_and_lost_entries_are_seen(self):
        x, coef = make()
        few_scores(x, coef, INITIAL)
        changed = coef.toarray()
        changed[:, 7], changed[2] = 5.0, 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
            coef[:, [7]] = np.full((K, 1), 5.0)
        coef.data[coef.indptr[2] : coef.indptr[3]] = 0.0
        coef.eliminate_zeros()
        expected = INITIAL[:, None] + changed @ x.T
        np.testing.assert_allclose(few_scores(x, coef, INITIAL), expected, atol=1e-12)

    def test_it_goes_with_the_weights(self):
        x, coef = make()
        few_scores(x, coef, INITIAL)
        key = id(coef.indices)
        assert key in by_feature.kept
        del coef
        gc.collect()
        assert key not in by_feature.kept
