"""FeatureStore of dense matrices: the same store, bit for bit, however they lie in memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from feature_stores import DTYPES, assert_holds, assert_same_store, from_matrix, random_matrix

from crfqn.errors import InputError


class TestDenseRows:
    """A dense matrix is read some columns at a time."""

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("is_binary", [True, False])
    @pytest.mark.parametrize("shape", [(1, 1), (1, 50), (31, 3), (32, 1), (33, 5), (500, 7)], ids=str)
    def test_equals_the_sparse_way(self, shape, is_binary, dtype):
        dense = (2 * random_matrix(*shape, is_binary=is_binary)).astype(dtype) * (
            1 if dtype == "bool" else 0.5
        )
        dense = dense.astype(dtype)
        store = from_matrix(dense, [0, shape[0]])
        assert_same_store(store, from_matrix(sp.csr_array(dense), [0, shape[0]]))
        assert_holds(store, dense.astype(float))

    @pytest.mark.parametrize("dtype", ["float64", "float32", "uint8", "bool"])
    @pytest.mark.parametrize(
        "arrange",
        [
            np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2], lambda x: np.repeat(x, 3, axis=1)[:, ::3],
            lambda x: x[::-1, ::-1].copy()[::-1, ::-1], lambda x: x.astype(x.dtype.newbyteorder()),
            lambda x: np.frombuffer(b"-" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
            lambda x: np.broadcast_to(x, (2, *x.shape))[1], np.ndarray.tolist,
        ],
        ids=["fortran", "rows", "columns", "reversed", "byte order", "unaligned", "broadcast", "lists"],
    )  # fmt: skip
    @pytest.mark.parametrize("is_writeable", [True, False])
    def test_any_layout(self, arrange, dtype, is_writeable):
        dense = (2 * random_matrix(40, 9)).astype(dtype)
        matrix = arrange(dense)
        if not is_writeable and isinstance(matrix, np.ndarray):
            matrix.flags.writeable = False
        assert_same_store(from_matrix(matrix, [0, 40]), from_matrix(dense, [0, 40]))

    def test_the_matrix_stays_as_it_is(self):
        dense = random_matrix(100, 9)
        before = dense.copy()
        from_matrix(dense, [0, 100])
        np.testing.assert_array_equal(dense, before)

    def test_negative_zeros_and_the_smallest_numbers(self):
        dense = np.array([[-0.0, 5e-324, 0.0], [1.0, -0.0, -5e-324]])
        store = from_matrix(dense, [0, 2])
        assert store.nnz == 3
        assert_holds(store, dense)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", ["float64", "float32", "longdouble"])
    def test_the_first_value_that_is_not_finite_is_named(self, bad, dtype):
        """The first by rows."""
        dense = random_matrix(500, 30).astype(dtype)
        dense[[310, 499, 311], [4, 0, 2]], dense[310, 20] = np.nan, np.inf
        dense[310, 3] = bad
        with pytest.raises(InputError, match=rf"finite, but item 2, position 10, feature 3 is {bad}$"):
            from_matrix(np.asfortranarray(dense), [0, 200, 300, 500])

    def test_memory_is_that_of_the_result_and_of_a_part(self):
        dense = random_matrix(4000, 500, density=0.25).astype(np.float32)
        tracemalloc.start()
        try:
            store = from_matrix(dense, [0, 4000])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < store.nbytes + 2e6
