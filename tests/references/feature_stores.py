"""Matrices to store, and stores against scipy's."""

import numpy as np
import scipy.sparse as sp

from crfqn.data.features import FeatureStore

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "longdouble"]


from_matrix = FeatureStore.from_matrix


def random_matrix(n_positions=23, n_features=11, seed=0, is_binary=False, density=0.3):
    rng = np.random.default_rng(seed)
    dense = (rng.random((n_positions, n_features)) < density).astype(float)
    return dense if is_binary else dense * rng.integers(1, 9, dense.shape) / 2


def assert_holds(store, dense):
    """Both sides of the store are the canonical CSC and CSR of `dense`."""
    for (indptr, indices, values), expected in [
        ((store.indptr, store.indices, store.values), sp.csc_array(dense)),
        (store.by_position, sp.csr_array(dense)),
    ]:
        expected.sum_duplicates()
        assert indptr.dtype == np.int64
        assert indices.dtype == np.int32
        assert values.dtype == np.float64
        np.testing.assert_array_equal(indptr, expected.indptr)
        np.testing.assert_array_equal(indices, expected.indices)
        assert values.size == (0 if store.is_binary else store.nnz)
        if values.size:
            np.testing.assert_array_equal(values, expected.data)
    assert store.is_binary == bool(np.isin(dense, [0, 1]).all())
    assert store.nnz == np.count_nonzero(dense)


def assert_same_store(store, other):
    """Bit for bit."""
    for name in ("indptr", "indices", "values", "offsets"):
        one, two = getattr(store, name), getattr(other, name)
        assert (one.dtype, one.tobytes()) == (two.dtype, two.tobytes())
