"""FeatureStore against dense matrices, and matrices and offsets that are damaged, dirty or empty."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from feature_stores import DTYPES, FORMATS, assert_holds, from_matrix, random_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from crfqn.data.encoding import Sequences
from crfqn.data.features import FeatureStore
from crfqn.data.items import check_offsets, locate
from crfqn.data.matrices import check_sparse
from crfqn.errors import InputError


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("layout", FORMATS)
def test_every_sparse_format(layout, is_binary):
    dense = random_matrix(is_binary=is_binary)
    for matrix in (sp.csr_array(dense).asformat(layout), sp.csr_matrix(dense).asformat(layout)):
        assert_holds(from_matrix(matrix, [0, 4, 23]), dense)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_every_dtype(make, dtype):
    dense = random_matrix(is_binary=dtype == "bool").astype(dtype)
    assert_holds(from_matrix(make(dense), [0, 4, 23]), dense.astype(float))


def test_dense_lists():
    store = from_matrix([[0, 2], [1, 0], [0, 0]], [0, 3])
    assert_holds(store, np.array([[0, 2], [1, 0], [0, 0]]))


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_unsorted_and_repeated_entries_and_zeros(layout):
    rows = np.array([0, 0, 0, 2, 2, 2, 2, 3, 3, 5])
    columns = np.array([3, 1, 3, 2, 0, 2, 1, 4, 4, 0])
    values = np.array([0.5, 2.0, 1.5, 1.0, 0.0, -1.0, 3.0, 0.25, 0.5, 1.0])
    expected = np.zeros((6, 5))
    np.add.at(expected, (rows, columns), values)
    major, minor = (rows, columns) if layout == "csr" else (columns, rows)
    order = np.argsort(major, kind="stable")
    indptr = np.searchsorted(major[order], np.arange((6 if layout == "csr" else 5) + 1))
    kind = sp.csr_array if layout == "csr" else sp.csc_array
    matrix = kind((values[order], minor[order], indptr), shape=(6, 5))
    kept = matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()
    assert_holds(from_matrix(matrix, [0, 6]), expected)
    for before, after in zip(kept, (matrix.data, matrix.indices, matrix.indptr), strict=True):
        np.testing.assert_array_equal(before, after)


def test_sums_decide_what_is_binary():
    halves = sp.csr_array(([0.5, 0.5, 1.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert_holds(from_matrix(halves, [0, 2]), np.array([[0, 1], [1, 0]]))
    twice = sp.csr_array(([True, True, True], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert_holds(from_matrix(twice, [0, 2]), np.array([[0, 2], [1, 0]]))
    nothing = sp.csr_array(([1.0, -1.0, 1.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert_holds(from_matrix(nothing, [0, 2]), np.array([[0, 0], [1, 0]]))


def test_stored_zeros_among_ones_leave_a_binary_store():
    matrix = sp.csr_array(random_matrix(is_binary=True))
    matrix.data[[0, 5, 40]] = 0
    store = from_matrix(matrix, [0, 23])
    assert store.is_binary
    assert_holds(store, matrix.toarray())


def test_no_entries_at_all():
    store = from_matrix(sp.csr_array((3, 4)), [0, 3])
    assert store.nnz == 0
    assert store.is_binary
    assert_holds(store, np.zeros((3, 4)))


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("items", [[0, 1, 2, 3, 4], [1, 3], [4], []], ids=str)
def test_taking_items(items, is_binary):
    dense = random_matrix(23, 11, is_binary=is_binary)
    offsets = np.array([0, 4, 4, 11, 20, 23])
    store = from_matrix(dense, offsets, allow_empty=True)
    part, positions = store.take(np.array(items, np.int64))
    expected = np.concatenate([np.arange(*offsets[i : i + 2]) for i in items] + [[]]).astype(int)
    np.testing.assert_array_equal(positions, expected)
    lengths = np.diff(offsets)[items].tolist() if items else []
    np.testing.assert_array_equal(part.offsets, np.cumsum([0, *lengths]))
    columns = sp.csc_array(dense[expected])
    np.testing.assert_array_equal(part.indptr, columns.indptr)
    np.testing.assert_array_equal(part.indices, columns.indices)
    assert part.is_binary == is_binary or not part.nnz
    if part.values.size:
        np.testing.assert_array_equal(part.values, columns.data)


def test_largest_squares():
    dense = random_matrix() * np.where(np.arange(11) % 2, -1.0, 1.0)
    dense[:, 4] = 0.0
    store = from_matrix(dense, [0, 23])
    np.testing.assert_array_equal(store.largest_squares, (dense**2).max(axis=0))
    binary = from_matrix(dense != 0, [0, 23])
    np.testing.assert_array_equal(binary.largest_squares, np.ones(11))


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, 5), st.sampled_from([0.0, 1.0, -1.0, 2.5])),
            max_size=60,
        ).map(lambda entries: (n, entries))
    ),
    st.sampled_from(["csr", "csc"]),
)
@settings(max_examples=150, deadline=None)
def test_any_list_of_entries(case, layout):
    n, entries = case
    rows, columns, values = (
        (np.array(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
    )
    expected = np.zeros((n, 6))
    np.add.at(expected, (np.asarray(rows, int), np.asarray(columns, int)), values)
    order = np.argsort(rows if layout == "csr" else columns, kind="stable")
    major = np.asarray(rows if layout == "csr" else columns, int)[order]
    minor = np.asarray(columns if layout == "csr" else rows, int)[order]
    kind, size = (sp.csr_array, n) if layout == "csr" else (sp.csc_array, 6)
    indptr = np.searchsorted(major, np.arange(size + 1))
    matrix = kind((np.asarray(values, float)[order], minor, indptr), shape=(n, 6))
    assert_holds(from_matrix(matrix, [0, n]), expected)


def test_wide_indices_that_are_read_only():
    wide = sp.csr_array(random_matrix())
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for array in (wide.data, wide.indices, wide.indptr):
        array.flags.writeable = False
    assert_holds(from_matrix(wide, [0, 23]), random_matrix())


def test_attributes_and_sizes():
    dense = random_matrix()
    store = from_matrix(dense, np.array([0, 4, 23], np.uint8))
    assert (store.n_items, store.n_positions, store.n_features) == (2, 23, 11)
    assert store.offsets.dtype == np.int64
    needed = (4 + 8) * store.nnz + 8 * (11 + 1) + 8 * (2 + 1)
    assert store.nbytes == needed
    assert len(store.by_position) == 3
    assert store.nbytes == needed + 8 * 24 + 12 * store.nnz
    assert store.by_position[0] is store.by_position[0]
    assert repr(store).startswith(
        f"FeatureStore(2 items, 23 positions, 11 features, {store.nnz} real entries, 0.0"
    )
    binary = from_matrix(dense > 0, [0, 23])
    assert binary.nbytes == 4 * binary.nnz + 8 * (11 + 1) + 8 * (1 + 1)


@pytest.mark.parametrize("is_binary", [True, False])
def test_with_constant(is_binary):
    dense = random_matrix(is_binary=is_binary)
    store = from_matrix(dense, [0, 20, 23])
    before = (store.indptr.copy(), store.indices.copy(), store.values.copy())
    wider = store.with_constant()
    assert_holds(wider, np.c_[dense, np.ones(23)])
    assert (wider.is_binary, wider.n_items, wider.indices.dtype) == (is_binary, 2, store.indices.dtype)
    for array, copy in zip((store.indptr, store.indices, store.values), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_with_constant_where_no_feature_ever_fires():
    assert_holds(from_matrix(np.zeros((3, 2)), [0, 3]).with_constant(), np.eye(3)[[2, 2, 2]])


def test_pickle():
    store = from_matrix(random_matrix(), [0, 23])
    assert len(store.by_position) == 3
    assert_holds(pickle.loads(pickle.dumps(store)), random_matrix())


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 40))
@settings(deadline=None)
def test_parts_are_balanced(lengths, n_parts):
    offsets = np.cumsum([0, *lengths])
    store = from_matrix(sp.csr_array((offsets[-1], 1)), offsets, allow_empty=True)
    parts = store.parts(n_parts)
    assert parts.dtype == np.int64
    assert parts.shape == (n_parts + 1,)
    assert (parts[0], parts[-1]) == (0, len(lengths))
    assert (np.diff(parts) >= 0).all()
    assert np.diff(offsets[parts]).max() <= -(-offsets[-1] // n_parts) + max(lengths)


def test_parts_default_and_error():
    store = from_matrix(np.ones((320, 1)), np.arange(0, 321, 2))
    np.testing.assert_array_equal(store.parts(), np.arange(0, 161, 5))
    with pytest.raises(InputError, match=r"^n_parts must be at least 1, got 0$"):
        store.parts(0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
@pytest.mark.parametrize("value", [1, 3])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_memory_of_the_build(dtype, value, index_dtype):
    n_positions, n_features, n_row = 8000, 2000, 250
    rng = np.random.default_rng(0)
    steps = rng.integers(0, n_features // n_row, (n_positions, n_row))
    indices = (np.arange(n_row) * (n_features // n_row) + steps).ravel()
    indptr = np.arange(0, indices.size + 1, n_row)
    matrix = sp.csr_array(
        (np.full(indices.size, value, dtype), indices, indptr), shape=(n_positions, n_features)
    )
    matrix.indices, matrix.indptr = matrix.indices.astype(index_dtype), matrix.indptr.astype(index_dtype)
    tracemalloc.start()
    try:
        store = FeatureStore.from_matrix(matrix, [0, n_positions])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert store.nnz == 2_000_000
    assert store.is_binary == (value == 1 or dtype == "bool")
    beside = 2 if store.is_binary else 0 if dtype == "float64" else 8  # bytes an entry
    assert peak < store.nbytes + (beside + 4 * (index_dtype == "int64")) * store.nnz + 4e6


def test_empty_items():
    matrix = np.ones((3, 2))
    with pytest.raises(
        InputError,
        match=r"^expected at least one position in every item, but item 1 \(and 1 more\) is empty$",
    ):
        from_matrix(matrix, [0, 2, 2, 2, 3])
    with pytest.raises(InputError, match=r"but item 0 is empty$"):
        from_matrix(matrix, [0, 0, 3])
    with pytest.raises(InputError, match=r"^expected at least one item, got none$"):
        from_matrix(matrix[:0], [0])
    store = from_matrix(matrix, [0, 2, 2, 2, 3], allow_empty=True)
    assert store.n_items == 4
    assert_holds(store, matrix)
    nothing = from_matrix(matrix[:0], [0], allow_empty=True)
    assert (nothing.n_items, nothing.n_positions, nothing.n_features) == (0, 0, 2)
    np.testing.assert_array_equal(nothing.parts(3), [0, 0, 0, 0])


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 5], r"^offsets must start at 0, but offsets\[0\] is 1$"),
        ([0, 3, 2, 5], r"not decrease, but item 1 goes from offsets\[1\] = 3 to offsets\[2\] = 2$"),
        ([0, 4], r"^offsets must end at the number of positions, 5, but end at 4$"),
        ([0, 6], r"positions, 5, but end at 6$"),
        ([], r"1-D array of n_items \+ 1 integers, got shape \(0,\) and dtype float64$"),
        ([[0, 5]], r"got shape \(1, 2\) and dtype int64$"),
        ([0.0, 5.0], r"got shape \(2,\) and dtype float64$"),
        ([False, True], r"dtype bool$"),
        (5, r"got shape \(\)"),
        (["0", "5"], r"dtype <U1$"),
    ],
)
def test_bad_offsets(offsets, message):
    with pytest.raises(InputError, match=message):
        check_offsets(offsets, 5)


def test_locate_skips_empty_items():
    offsets = np.array([0, 2, 2, 5])
    assert [locate(offsets, n) for n in range(5)] == [
        "item 0, position 0",
        "item 0, position 1",
        "item 2, position 0",
        "item 2, position 1",
        "item 2, position 2",
    ]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_array, sp.coo_array])
def test_values_that_are_not_finite(make, bad):
    dense = random_matrix()
    dense[17, 6] = bad
    with pytest.raises(
        InputError, match=rf"^feature values must be finite, but item 1, position 13, feature 6 is {bad}$"
    ):
        from_matrix(make(dense), [0, 4, 23])


def test_values_beyond_float64():
    dense = random_matrix().astype(np.longdouble)
    dense[2, 3] = np.longdouble(2) ** 2000
    with pytest.raises(InputError, match="item 0, position 2, feature 3 is inf"):
        from_matrix(dense, [0, 23])
    sums = sp.csr_array(([1e308, 1e308], [1, 1], [0, 0, 2]), shape=(2, 2))
    with pytest.raises(InputError, match="item 0, position 1, feature 1 is inf"):
        from_matrix(sums, [0, 2])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (
            np.ones(5),
            r"^expected a 2-D matrix \(positions x features\) .* got shape \(5,\) and dtype float64$",
        ),
        (np.ones((5, 2, 2)), r"got shape \(5, 2, 2\)"),
        (np.ones((5, 2), complex), r"booleans or real numbers, got shape \(5, 2\) and dtype complex128$"),
        (np.full((5, 2), "a"), r"dtype <U1$"),
        (np.full((5, 2), None), r"dtype object$"),
        (sp.coo_array(np.ones(5)), r"got shape \(5,\)"),
        (sp.csr_array(np.ones((5, 2), complex)), r"complex128"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(InputError, match=message):
        from_matrix(matrix, [0, 5])


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_damaged_sparse_matrices_are_refused_before_the_kernel(layout):
    matrix = sp.csr_array(random_matrix(23, 23)).asformat(layout)
    matrix.indices[50] = 23
    with pytest.raises(InputError, match=r"^damaged sparse matrix: index 23 is outside 0 \.\.\. 22$"):
        from_matrix(matrix, [0, 23])
    matrix.indices[50] = -1
    with pytest.raises(InputError, match="index -1 is outside"):
        from_matrix(matrix, [0, 23])
    matrix.indices[50] = 0
    matrix.indptr[3] += 1000
    with pytest.raises(InputError, match="damaged sparse matrix: indptr must start at 0, not decrease"):
        from_matrix(matrix, [0, 23])


def damaged(layout):
    """Matrices of 6 rows and 4 columns whose arrays do not fit together, each in its own way."""
    wholes = {
        "csr": lambda: sp.csr_array(np.ones((6, 4))),
        "csc": lambda: sp.csc_array(np.ones((6, 4))),
        "bsr": lambda: sp.bsr_array(np.ones((6, 4)), blocksize=(2, 2)),
    }
    for index in (10**6, 6, -5):
        matrix = wholes[layout]()
        matrix.indices[-1] = index
        yield matrix
    for n_lost in (1, 3):
        matrix = wholes[layout]()
        matrix.data = matrix.data[:-n_lost]
        yield matrix
    for at, pointer in ((0, 1), (1, 10**6), (-1, 10**6), (1, -3)):
        matrix = wholes[layout]()
        matrix.indptr[at] = pointer
        yield matrix
    matrix = wholes[layout]()
    matrix.indptr = matrix.indptr[:-1]
    yield matrix


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
def test_every_damage_is_found(layout):
    for matrix in damaged(layout):
        with pytest.raises(InputError, match=r"^damaged sparse matrix"):
            check_sparse(matrix)
        with pytest.raises(InputError, match="damaged sparse matrix"):
            from_matrix(matrix, [0, 6])
        with pytest.raises(InputError, match="damaged sparse matrix"):
            Sequences(matrix, [0, 6])


def test_damaged_coordinates_are_found():
    for name, index in (("row", 6), ("row", -1), ("col", 4), ("col", -2)):
        matrix = sp.coo_array(np.ones((6, 4)))
        getattr(matrix, name)[-1] = index
        with pytest.raises(InputError, match=f"index {index} is outside 0"):
            from_matrix(matrix, [0, 6])


def test_undamaged_matrices_pass():
    full = np.ones((6, 4))
    for make in (
        sp.csr_array,
        sp.csc_array,
        sp.bsr_array,
        sp.coo_array,
        sp.lil_array,
        sp.dok_array,
        np.array,
    ):
        check_sparse(make(full))
        check_sparse(make(0 * full))
    longer = sp.csr_array(full)
    longer.indices = np.append(longer.indices, -7)  # behind the last row: never read
    longer.data = np.append(longer.data, 1.0)
    check_sparse(longer)
