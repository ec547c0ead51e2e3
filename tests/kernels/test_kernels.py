"""Kernels one by one, against numpy on dense arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from linked import from_python

from crfqn.data.features import FeatureStore
from crfqn.kernels.coordinate_descent import soft_threshold
from crfqn.kernels.curvature import (
    MIN_MARGINAL,
    CompressedRows,
    count_present,
    count_whole,
    gather_features,
    list_members,
    write_whole,
)
from crfqn.kernels.forward_backward import CHUNK_POSITIONS, chunk_end, load_scores, longest_item, padded_edges
from crfqn.kernels.logarithms import log_sum_exp
from crfqn.kernels.rows import (
    LANES,
    MIN_EXPONENT,
    add_picked,
    add_products,
    aligned_rows,
    exp_in_place,
    new_rows,
)
from crfqn.kernels.sparse import (
    add_columns,
    add_powers,
    binary_dot,
    column_sums,
    coordinate_gradients,
    feature_gradients,
    square_sums,
    valued_dot,
)
from crfqn.kernels.taxonomy import add_marginal_variance, best_nodes, path_sums, tree_marginals

chunk_end, load_scores, longest_item, padded_edges, log_sum_exp, exp_in_place, binary_dot, valued_dot = map(
    from_python,
    (chunk_end, load_scores, longest_item, padded_edges, log_sum_exp, exp_in_place, binary_dot, valued_dot),
)


def exponential(x):
    result = np.array(x, float)
    exp_in_place(result)
    return result


def test_exponential_to_a_few_units_in_the_last_place():
    random = np.random.default_rng(0)
    halves = -np.log(2) * (np.arange(1022) + 0.5)  # where the reduction changes its integer
    grid = np.concatenate(
        [
            np.linspace(-708, 0, 200_001),
            -np.logspace(-300, 2, 20_000),
            random.uniform(-2, 0, 50_000),
            *(halves * (1 + step * 1e-16) for step in range(-4, 5)),
        ]
    )
    grid = grid[(grid >= MIN_EXPONENT) & (grid <= 0)]
    found, exact = exponential(grid), np.exp(grid.astype(np.longdouble))
    error = np.abs(found - exact) / np.spacing(exact.astype(float))
    assert error.max() <= 4.0


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 13, 64, 100])
def test_exponential_of_any_size(size):
    x = np.random.default_rng(size).uniform(MIN_EXPONENT, 0, size)
    result = x.copy()
    exp_in_place(result)
    np.testing.assert_allclose(result, np.exp(x), rtol=1e-15)


def test_exponential_of_zero_is_one():
    np.testing.assert_array_equal(exponential([0.0, -0.0, -1e-320]), 1.0)


def test_exponential_underflows_to_a_normal_number():
    found = exponential([-708.0, -708.5, -745.0, -1e4, -1e300, -np.inf])
    np.testing.assert_array_equal(found, found[0])
    assert np.finfo(float).tiny <= found[0] <= 3.4e-308


@pytest.mark.parametrize("n_states", [1, 7, 8, 9, 26])
def test_edges_are_padded_with_zeros(n_states):
    random = np.random.default_rng(n_states)
    edges = 3 * random.normal(size=(n_states, n_states)) + 100
    m, m_transposed, largest, smallest = padded_edges(edges)
    assert (largest, smallest) == (edges.max(), edges.min())
    width = -(-n_states // 8) * 8
    assert m.shape == (width, width)
    np.testing.assert_allclose(m[:n_states, :n_states], np.exp(edges - edges.max()), rtol=1e-14)
    assert not m[n_states:].any()
    assert not m[:, n_states:].any()
    np.testing.assert_array_equal(m_transposed, m.T)


# 1, 2 and 4 registers, and every way to put them together
WIDTHS = [LANES * n for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("begin", "end"), [(0, 0), (0, 1), (0, 20), (3, 11), (19, 20)])
def test_sums_of_weighted_rows(width, begin, end):
    random = np.random.default_rng(width)
    matrix, weights, start = (
        random.normal(size=(20, width)),
        random.normal(size=90),
        random.normal(size=width),
    )
    out = start.copy()
    from_python(add_products)(out, matrix, begin, end, weights, 5, 4)
    expected = start + weights[5:85:4][begin:end] @ matrix[begin:end]
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_of_picked_rows(width, is_binary, dtype):
    random = np.random.default_rng(width)
    matrix, start = random.normal(size=(20, width)), random.normal(size=width)
    indices = random.integers(0, 20, 15).astype(dtype)
    values = np.empty(0) if is_binary else random.normal(size=15)
    scale = np.ones(15) if is_binary else values
    for begin, end in ((0, 15), (4, 9), (7, 7)):
        out = start.copy()
        from_python(add_picked)(out, matrix, indices, begin, end, values)
        expected = start + scale[begin:end] @ matrix[indices[begin:end]]
        np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n_rows", [0, 1, 5])
@pytest.mark.parametrize("make", [aligned_rows, from_python(new_rows)])
def test_aligned_rows(make, n_rows):
    for width in (8, 40):
        rows = make(n_rows, width)
        assert rows.shape == (n_rows, width)
        assert rows.flags.c_contiguous
        assert not rows.any()
        assert rows.ctypes.data % 64 == 0 or n_rows == 0


@pytest.mark.parametrize("n_states", [1, 3, 8, 11])
@pytest.mark.parametrize("length", [1, 7, 8, 20])
def test_load_scores(n_states, length):
    scores = 5 * np.random.default_rng(n_states).normal(size=(n_states, 30))
    width = -(-n_states // 8) * 8
    psi, shift, spread = np.full((40, width), 0.5), np.empty(40), np.empty(40)
    centred = np.zeros((40, width))
    load_scores(scores, 4, length, centred, psi, shift, spread)
    part = scores[:, 4 : 4 + length]
    np.testing.assert_array_equal(shift[:length], part.max(axis=0))
    np.testing.assert_array_equal(spread[:length], part.max(axis=0) - part.min(axis=0))
    np.testing.assert_array_equal(centred[:length, :n_states], (part - part.max(axis=0)).T)
    assert not centred[:, n_states:].any()
    assert not centred[length:].any()
    np.testing.assert_allclose(psi[:length, :n_states], np.exp(part - part.max(axis=0)).T, rtol=1e-14)
    assert not psi[:length, n_states:].any()
    np.testing.assert_array_equal(psi[length:], 0.5)  # nothing behind the chunk is touched


def test_chunks_are_as_large_as_they_may_be():
    lengths = np.array(
        [CHUNK_POSITIONS - 1, 1, 1, CHUNK_POSITIONS, CHUNK_POSITIONS + 1, 3, CHUNK_POSITIONS - 3, 1]
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    stops = [0]
    items = np.arange(lengths.size)
    while stops[-1] < lengths.size:
        stops.append(chunk_end(stops[-1], items, offsets))
    assert stops == [0, 2, 3, 4, 5, 7, 8]
    assert chunk_end(0, items[:1], offsets) == 1
    assert chunk_end(0, np.array([1, 2, 5, 7]), offsets) == 2  # only neighbours lie side by side
    assert chunk_end(2, np.array([1, 2, 5, 7]), offsets) == 3
    assert longest_item(items[:4], offsets) == CHUNK_POSITIONS
    assert longest_item(items, offsets) == CHUNK_POSITIONS + 1
    assert longest_item(items[1:3], offsets) == CHUNK_POSITIONS  # never less than a chunk


def test_log_sum_exp():
    values = np.random.default_rng(1).normal(size=9)
    assert log_sum_exp(values, 9) == pytest.approx(np.log(np.exp(values).sum()), rel=1e-14)
    assert log_sum_exp(values, 4) == pytest.approx(np.log(np.exp(values[:4]).sum()), rel=1e-14)
    assert log_sum_exp(values + 1e6, 9) == pytest.approx(1e6 + log_sum_exp(values, 9), rel=1e-14)
    assert log_sum_exp(np.array([-1e300, 1e300]), 2) == 1e300


def test_soft_threshold():
    points = [(3.0, 1.0, 2.0), (-3.0, 1.0, -2.0), (1.0, 1.0, 0.0), (-1.0, 1.0, 0.0), (0.3, 1.0, 0.0)]
    for x, threshold, expected in [*points, (0.0, 0.0, 0.0), (2.5, 0.0, 2.5)]:
        assert soft_threshold.py_func(x, threshold) == expected


@pytest.mark.parametrize("size", range(10))
def test_dot_products_of_columns(size):
    random = np.random.default_rng(size)
    row = random.normal(size=50)
    positions = np.sort(random.choice(50, size, replace=False)).astype(np.int32)
    values = random.normal(size=size)
    assert binary_dot(positions, row) == pytest.approx(row[positions].sum(), rel=1e-12, abs=1e-14)
    assert valued_dot(positions, values, row) == pytest.approx(values @ row[positions], rel=1e-12, abs=1e-14)


@pytest.fixture(params=["binary", "real"])
def store(request):
    """70 positions, 13 features: full, empty and single columns among them."""
    random = np.random.default_rng(2)
    x = (random.random((70, 13)) < random.random(13)).astype(float)
    x[:, 3], x[:, 4] = 0.0, 1.0
    x[:, 5] = np.eye(70)[69]
    if request.param == "real":
        x *= random.normal(size=x.shape)
    return FeatureStore.from_matrix(x, np.array([0, 30, 70])), x


def test_gradients_of_coordinates(store):
    store, x = store
    residual = np.random.default_rng(3).normal(size=(3, 70))
    states, features = np.divmod(np.sort(np.random.default_rng(4).choice(39, 20, replace=False)), 13)
    out = np.full(20, np.nan)
    coordinate_gradients(2, 17, states, features, store.indptr, store.indices, store.values, residual, out)
    np.testing.assert_allclose(out[2:17], (residual @ x)[states, features][2:17], atol=1e-12)
    assert np.isnan(out[[0, 1, 17, 18, 19]]).all()


def test_image_of_a_direction(store):
    store, x = store
    random = np.random.default_rng(5)
    states, features = np.divmod(np.sort(random.choice(39, 20, replace=False)), 13)
    weights, start = random.normal(size=20), random.normal(size=(3, 70))
    scores, dense = start.copy(), np.zeros((3, 13))
    dense[states[2:17], features[2:17]] = weights[2:17]
    add_columns(2, 17, states, features, weights, store.indptr, store.indices, store.values, scores)
    np.testing.assert_allclose(scores, start + dense @ x.T, atol=1e-12)


@pytest.mark.parametrize("tile", [1, 7, 35, 70, 1000])
@pytest.mark.parametrize("features", [range(2, 11), range(13), [0, 3, 4, 5, 12], [7], []], ids=str)
@pytest.mark.parametrize("block", [1, 4, 100])
def test_gradients_of_features(store, block, tile, features):
    store, x = store
    features = np.array(features, np.int64)
    residual = np.random.default_rng(6).normal(size=(70, 8))
    out = np.zeros((features.size, 8))
    feature_gradients(
        features,
        store.indptr[features],
        block,
        tile,
        store.indptr,
        store.indices,
        store.values,
        residual,
        out,
    )
    np.testing.assert_allclose(out, (x.T @ residual)[features], atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("inside", [0.0, 0.7])
def test_powers_of_rows(order, inside):
    gradients = np.random.default_rng(8).normal(size=(5, 8))
    totals = np.full(5, 2.0)
    add_powers(gradients, 3, inside, order, totals)
    excess = np.maximum(np.abs(gradients[:, :3]) - inside, 0.0)
    np.testing.assert_allclose(totals, 2.0 + (excess**order).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize(("first", "last"), [(0, 13), (3, 6), (12, 13), (5, 5)])
def test_ceilings_of_features(store, first, last):
    store, x = store
    largest = np.random.default_rng(7).random(70)
    out = np.full(13, np.nan)
    for power in (1, 2):
        column_sums(first, last, power, store.indptr, store.indices, store.values, largest, out)
        np.testing.assert_allclose(out[first:last], (np.abs(x.T) ** power @ largest)[first:last], rtol=1e-12)
        assert np.isnan(np.delete(out, np.arange(first, last))).all()


def test_sums_of_squares(store):
    store, x = store
    random = np.random.default_rng(8)
    weights = random.choice([0.0, 0.5, 2.0], 70)
    inverse = np.divide(1.0, weights, out=np.zeros(70), where=weights > 0)
    residual = weights * random.uniform(-1, 1, (3, 70))
    states, features = np.divmod(np.sort(random.choice(39, 20, replace=False)), 13)
    curvature, majorant = np.full(20, np.nan), np.full(20, np.nan)
    arrays = (store.indptr, store.indices, store.values, residual, inverse)
    square_sums(2, 17, states, features, *arrays, curvature, majorant)
    size = np.abs(residual)
    for out, terms in ((majorant, size), (curvature, size * (1 - size * inverse))):
        np.testing.assert_allclose(out[2:17], (terms @ x**2)[states, features][2:17], atol=1e-13)
        assert np.isnan(out[[0, 1, 17, 18, 19]]).all()


@pytest.mark.parametrize(("first", "last"), [(0, 70), (10, 11), (30, 70), (5, 5)])
def test_marginal_variance_of_positions(first, last):
    """Read off the residual, whether the state is observed (p - 1) or not (p), by any weight."""
    random = np.random.default_rng(9)
    p, observed = random.dirichlet(np.ones(5), 70).T, random.integers(0, 5, 70)
    weights = random.choice([0.0, 0.5, 3.0], 70)
    inverse = np.divide(1.0, weights, out=np.zeros(70), where=weights > 0)
    residual = weights * (p - (np.arange(5)[:, None] == observed))
    start = random.normal(size=70)
    out = start.copy()
    add_marginal_variance(first, last, np.array([0, 2, 3]), residual, inverse, out)
    expected = ((p * (1 - p))[[0, 2, 3]].sum(axis=0) * (weights > 0))[first:last]
    np.testing.assert_allclose(out[first:last], start[first:last] + expected, atol=1e-14)
    np.testing.assert_array_equal(
        np.delete(out, np.arange(first, last)), np.delete(start, np.arange(first, last))
    )


PARENTS, IS_LABEL = (
    np.array([-1, -1, 0, 0, 3, 1], np.int32),
    np.array([False, False, True, False, True, True]),
)


def test_path_sums_of_some_items():
    scores = np.random.default_rng(10).normal(size=(6, 9))
    out = np.full((6, 9), np.nan)
    path_sums(2, 7, PARENTS, scores, out)
    paths = [[0], [1], [0, 2], [0, 3], [0, 3, 4], [1, 5]]
    expected = np.array([scores[path].sum(axis=0) for path in paths])
    np.testing.assert_allclose(out[:, 2:7], expected[:, 2:7], atol=1e-15)
    assert np.isnan(out[:, [0, 1, 7, 8]]).all()


def test_best_labels_of_some_items():
    sums = np.array(
        [
            [9.0, 9, 9, 9],
            [9, 9, 9, 9],
            [1, 2, 0, -np.inf],
            [9, 9, 9, 9],
            [1, 1, 0, -np.inf],
            [2, 2, 0, -np.inf],
        ]
    )
    best, states = np.full(4, np.nan), np.full(4, 77, np.int32)
    best_nodes(1, 4, IS_LABEL, sums, best, states)
    np.testing.assert_array_equal(best, [np.nan, 2.0, 0.0, -np.inf])
    assert states.tolist() == [77, 2, 2, 2]


def test_inference_of_some_items_leaves_the_others_alone():
    random = np.random.default_rng(11)
    scores, weights = random.normal(size=(6, 40)), random.random(40)
    targets = random.choice(np.flatnonzero(IS_LABEL), 40).astype(np.int32)
    whole, part = np.full((6, 40), np.nan), np.full((6, 40), np.nan)
    sums, some = np.full((40, 3), np.nan), np.full((40, 3), np.nan)
    tree_marginals(0, 40, PARENTS, IS_LABEL, scores, targets, weights, whole, sums)
    tree_marginals(3, 21, PARENTS, IS_LABEL, scores, targets, weights, part, some)
    np.testing.assert_array_equal(part[:, 3:21], whole[:, 3:21])
    np.testing.assert_array_equal(some[3:21], sums[3:21])
    assert np.isnan(part[:, [0, 1, 2, *range(21, 40)]]).all()
    assert np.isnan(some[[0, 1, 2, *range(21, 40)]]).all()
    assert np.isfinite(whole).all()


def test_lists_of_what_positions_have(store):
    """Coordinates 0 ... 5 of the features 1, 4, 1, 12, 3, 4, at every second position."""
    store, x = store
    features = np.array([1, 4, 1, 12, 3, 4])
    has = x[:, features] != 0
    sampled = np.arange(0, 70, 2)
    place = np.full(70, -1, np.int32)
    place[sampled] = np.arange(35)
    random = np.random.default_rng(12)
    roots, rows = random.random(35), np.array([0, 1, 0, 1, 1, 0])
    p = random.random((2, 35)) * (random.random((2, 35)) < 0.7)  # the others are faint
    is_listed = has[sampled] & (p[rows].T >= MIN_MARGINAL)
    present = np.zeros(35, np.int64)
    count_present(features, rows, store.indptr, store.indices, place, p, present)
    np.testing.assert_array_equal(present, is_listed.sum(axis=1))
    starts = np.concatenate([[0], np.cumsum(present)])
    members, offsets = np.full(starts[-1], -1, np.int32), np.full(7, -1)
    x_listed, with_p = np.full((2, starts[-1]), np.nan)
    entries, stops = np.full((2, starts[-1]), -1)
    columns = store.indptr, store.indices, store.values
    found_at = offsets, entries, stops
    list_members(features, rows, *columns, place, roots, p, starts, members, x_listed, with_p, *found_at)
    np.testing.assert_array_equal(np.diff(offsets), is_listed.sum(axis=0))
    for a in range(6):
        own = slice(offsets[a], offsets[a + 1])
        np.testing.assert_array_equal(members[entries[own]], a)
        np.testing.assert_array_equal(stops[own], starts[1:][is_listed[:, a]])
    for s, t in enumerate(sampled):
        own = slice(starts[s], starts[s + 1])
        np.testing.assert_array_equal(members[own], np.flatnonzero(is_listed[s]))
        np.testing.assert_allclose(x_listed[own], roots[s] * x[t, features][is_listed[s]], rtol=1e-15)
        np.testing.assert_allclose(with_p[own], x_listed[own] * p[rows[members[own]], s], rtol=1e-15)


def compressed(matrix):
    found = sp.csr_array(matrix)
    return CompressedRows(
        found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data.astype(np.float32)
    )


@pytest.mark.parametrize("n", [0, 1, 2, 5, 40])
@pytest.mark.parametrize("n_edges", [0, 1, 2, 6])
def test_a_symmetric_matrix_from_its_parts(n, n_edges):
    random = np.random.default_rng(n)
    size = n + n_edges
    whole = np.triu(random.normal(size=(size, size)) * (random.random((size, size)) < 0.3), 1)
    whole += whole.T
    whole[np.diag_indices(size)] = random.normal(size=size)
    scale, diagonal = random.random(size).astype(np.float32), random.normal(size=size)
    parts = compressed(np.triu(whole[:n, :n])), compressed(whole[:n, n:]), whole[n:, n:]
    ends = np.zeros(size + 1, np.int64)
    count_whole(*parts, ends)
    indices = np.full(np.count_nonzero(whole), -1, np.int32)
    data = np.full(indices.size, np.nan, np.float32)
    write_whole(*parts, scale, diagonal, ends, indices, data)
    expected = whole * np.outer(scale, scale)
    expected[np.diag_indices(size)] = diagonal
    found = sp.csr_array((data, indices, ends), shape=(size, size))
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5)
    assert found.has_sorted_indices


@pytest.mark.parametrize("n_sampled", [0, 1, 20, 70])
def test_gather(store, n_sampled):
    store, x = store
    features = np.array([0, 3, 4, 5, 12])
    sampled = np.sort(np.random.default_rng(7).choice(70, n_sampled, replace=False))
    place = np.full(70, -1, np.int32)
    place[sampled] = np.arange(n_sampled)
    out = np.zeros((5, n_sampled), np.float32)
    gather_features(1, 5, features, place, store.indptr, store.indices, store.values, out)
    np.testing.assert_array_equal(out[1:], x[sampled][:, features[1:]].T.astype(np.float32))
    assert not out[0].any()
