"""FeatureStore: matrices and offsets that are damaged, dirty or empty."""

import numpy as np
import pytest
import scipy.sparse as sp
from feature_stores import assert_holds, from_matrix, random_matrix

from crfqn.data.items import check_offsets, locate
from crfqn.data.matrices import check_sparse
from crfqn.data.sequences import Sequences
from crfqn.errors import InputError


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
