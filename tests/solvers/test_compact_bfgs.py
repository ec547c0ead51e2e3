"""The compact metric against the BFGS recursion on dense matrices, and the descent on its model."""

import numpy as np
import pytest
import scipy.sparse as sp

from crfqn.kernels.coordinate_descent import Limits, QuadraticModelArrays, Subproblem, descend
from crfqn.solvers.prox_qn.metric import NO_MATRIX, CompactBFGS, add_to_diagonal

N = 9


def dense_update(b, s, y):
    """Equation 3 of the paper."""
    bs = b @ s
    return b - np.outer(bs, bs) / (s @ bs) + np.outer(y, y) / (y @ s)


def random_hessian(random, n=N):
    a = random.normal(size=(n, 2 * n))
    return a @ a.T / n + 0.1 * np.eye(n)


def base_metric(random, kind, n=N):
    """B0 as CompactBFGS takes it, and as a dense matrix; small halves are exact in float32."""
    if kind == "diagonal":
        diagonal = random.uniform(0.5, 4.0, n)
        return (diagonal, NO_MATRIX), np.diag(diagonal)
    a = random.integers(-2, 3, (n, n)) / 2
    if kind == "sparse":
        a = np.where(random.random((n, n)) < 0.25, a, 0.0)
    base = (a @ a.T + np.eye(n)).astype(np.float32)
    return (np.diagonal(base).astype(float), in_form(kind, base)), base.astype(float)


def in_form(kind, base):
    """A matrix as B0 of this kind."""
    return sp.csr_array(base) if kind == "sparse" else base if kind == "dense" else NO_MATRIX


def filled_metric(random, kind, n_pairs, memory=10, n=N):
    """A metric with secant pairs of one quadratic, and all pairs that it was given."""
    start, b0 = base_metric(random, kind, n)
    hessian = random_hessian(random, n)
    metric, pairs = CompactBFGS(*start, memory), []
    for _ in range(n_pairs):
        s = random.normal(size=n) * 10.0 ** random.uniform(-3, 1)
        pairs.append((s, hessian @ s))
        assert metric.update(*pairs[-1])
    return metric, pairs, b0


def as_dense(metric):
    n = metric.diagonal.size
    return np.array([metric.times(e) for e in np.eye(n)]).T


def as_array(base):
    return base.toarray() if sp.issparse(base) else base


@pytest.fixture(params=["diagonal", "dense", "sparse"])
def kind(request):
    return request.param


@pytest.mark.parametrize("n_pairs", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_times_is_the_recursive_update(kind, n_pairs, seed):
    metric, pairs, b0 = filled_metric(np.random.default_rng([seed, n_pairs]), kind, n_pairs)
    expected = b0
    for s, y in pairs:
        expected = dense_update(expected, s, y)
    found = as_dense(metric)
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
    assert np.linalg.eigvalsh(0.5 * (found + found.T)).min() > 0
    assert len(metric.s) == n_pairs


def test_a_diagonal_base_is_exact():
    metric, pairs, expected = filled_metric(np.random.default_rng(0), "diagonal", 6)
    for s, y in pairs:
        expected = dense_update(expected, s, y)
    np.testing.assert_allclose(as_dense(metric), expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("n_pairs", [1, 3, 8])
def test_secant_equation(kind, n_pairs):
    metric, pairs, _ = filled_metric(np.random.default_rng(n_pairs), kind, n_pairs)
    s, y = pairs[-1]
    np.testing.assert_allclose(metric.times(s), y, atol=1e-5 * np.abs(y).max())


def test_rescaling_makes_gamma_i_that_of_the_paper():
    """gamma = y's / s's, and all products those of the whole vectors: the submatrix of the paper's B."""
    random = np.random.default_rng(13)
    hessian, metric, pairs = random_hessian(random), CompactBFGS(np.ones(N)), []
    for _ in range(3):
        s = random.normal(size=N)
        pairs.append((s, hessian @ s))
        metric.update(*pairs[-1])
        metric.rescale()
    s, y = pairs[-1]
    np.testing.assert_allclose(metric.diagonal, s @ y / (s @ s))
    keep = np.arange(N) % 3 > 0
    metric.restrict(keep)
    metric.rescale()
    expected = np.eye(N) * (s @ y / (s @ s))
    for pair in pairs:
        expected = dense_update(expected, *pair)
    np.testing.assert_allclose(as_dense(metric), expected[np.ix_(keep, keep)], rtol=1e-9, atol=1e-9)


def test_the_diagonal_alone_is_always_positive(kind):
    metric, _, b0 = filled_metric(np.random.default_rng(14), kind, 3)
    metric.keep_diagonal()
    np.testing.assert_allclose(as_dense(metric), np.diag(np.diag(b0)))


@pytest.mark.parametrize("memory", [1, 2, 4])
def test_memory_keeps_the_newest_pairs(kind, memory):
    metric, pairs, expected = filled_metric(np.random.default_rng(1), kind, 7, memory)
    for s, y in pairs[-memory:]:
        expected = dense_update(expected, s, y)
    assert len(metric.s) == memory
    np.testing.assert_allclose(as_dense(metric), expected, atol=2e-5 * np.abs(expected).max())


def test_arrays_for_the_descent(kind):
    """One of the forms is filled; indices of 32 bits, so that one compilation serves all."""
    (diagonal, base), b0 = base_metric(np.random.default_rng(2), kind)
    metric = CompactBFGS(diagonal, base)
    dense, indptr, indices, data = metric.base_arrays
    assert (dense.dtype, indptr.dtype, indices.dtype, data.dtype) == (
        np.float32,
        np.int32,
        np.int32,
        np.float32,
    )
    assert dense.shape == ((N, N) if kind == "dense" else (0, 0))
    if kind == "sparse":
        np.testing.assert_array_equal(sp.csr_array((data, indices, indptr), (N, N)).toarray(), b0)
    else:
        assert indptr.size == indices.size == data.size == 0


def test_adding_to_the_diagonal(kind):
    if kind == "diagonal":
        return
    (_, base), b0 = base_metric(np.random.default_rng(3), kind)
    add_to_diagonal(base, np.arange(N) / 2)
    np.testing.assert_array_equal(as_array(base), b0 + np.diag(np.arange(N) / 2))
    assert base.dtype == np.float32


def test_adding_to_a_diagonal_that_is_not_stored():
    """Without a warning about the matrix's structure, and with the indices that the descent takes."""
    dense = np.diag([0.0, 1, 0, 2, 0]).astype(np.float32)
    dense[1, 2] = dense[2, 1] = 0.5
    for least in (0.0, 3.0):
        base = sp.csr_array(np.where(dense > least, dense, 0.0).astype(np.float32))
        expected = base.toarray() + 0.25 * np.eye(5)
        add_to_diagonal(base, np.full(5, 0.25))
        np.testing.assert_array_equal(base.toarray(), expected)
        assert (base.dtype, base.indices.dtype, base.indptr.dtype) == (np.float32, np.int32, np.int32)


def test_no_memory_keeps_no_pair(kind):
    start, b0 = base_metric(np.random.default_rng(2), kind)
    metric = CompactBFGS(*start, memory=0)
    metric.update(np.ones(N), np.ones(N))
    assert len(metric.s) == 0
    np.testing.assert_allclose(as_dense(metric), b0)


def test_known_products_with_the_base_are_used(kind):
    random = np.random.default_rng(3)
    metric, _, b0 = filled_metric(random, kind, 3)
    v = random.integers(-4, 5, N).astype(float)
    np.testing.assert_allclose(metric.times(v, b0 @ v), metric.times(v), rtol=1e-6)
    hessian = random_hessian(random)
    start, _ = base_metric(np.random.default_rng(3), kind)
    with_product, without = CompactBFGS(*start), CompactBFGS(*start)
    assert with_product.update(v, hessian @ v, with_product.base_times(v[None])[0])
    assert without.update(v, hessian @ v)
    np.testing.assert_allclose(as_dense(with_product), as_dense(without), rtol=1e-6, atol=1e-6)


def test_pairs_without_positive_curvature_are_refused(kind):
    random = np.random.default_rng(4)
    metric, _, _ = filled_metric(random, kind, 3)
    before, v = as_dense(metric), random.normal(size=N)
    across = np.roll(v, 1) - v * (np.roll(v, 1) @ v) / (v @ v)
    for s, y in ((v, -v), (v, 0 * v), (0 * v, v), (0 * v, 0 * v), (v, across), (v, across + 1e-10 * v)):
        assert not metric.update(s, y)
    np.testing.assert_array_equal(as_dense(metric), before)
    assert metric.update(v, across + 1e-3 * v)
    assert len(metric.s) == 4


def test_rebase_keeps_the_pairs(kind):
    random = np.random.default_rng(5)
    metric, pairs, _ = filled_metric(random, kind, 4)
    for other in ("sparse", "dense", "diagonal", "sparse", "diagonal", kind):
        start, expected = base_metric(random, other)
        metric.rebase(*start)
        for s, y in pairs:
            expected = dense_update(expected, s, y)
        np.testing.assert_allclose(as_dense(metric), expected, atol=2e-5 * np.abs(expected).max())
        assert metric.has_matrix == (other != "diagonal")


def test_restriction_is_the_submatrix(kind):
    """Rows of Q and columns of Q^ (paper, section 2.3), and further pairs as if nothing had left."""
    random = np.random.default_rng(6)
    metric, _, _ = filled_metric(random, kind, 4, memory=6)
    keep = np.ones(N, bool)
    keep[[2, 5]] = False
    expected = as_dense(metric)[np.ix_(keep, keep)]
    metric.restrict(keep)
    np.testing.assert_allclose(as_dense(metric), expected, atol=2e-5 * np.abs(expected).max())
    assert metric.diagonal.size == N - 2
    assert metric.base.shape == ((0, 0) if kind == "diagonal" else (N - 2, N - 2))
    kinds = (np.float32, np.int32, np.int32, np.float32)  # of one compilation
    for array, dtype in zip(metric.base_arrays, kinds, strict=True):
        assert array.dtype == dtype
        assert array.flags.c_contiguous
    hessian = random_hessian(random, N - 2)
    for _ in range(2):
        s = random.normal(size=N - 2)
        assert metric.update(s, hessian @ s)
        expected = dense_update(expected, s, hessian @ s)
        np.testing.assert_allclose(as_dense(metric), expected, atol=5e-5 * np.abs(expected).max())


LOSING = [
    ([0.0, 0.0, 1.0], [0.1, 0.0, 1.0]),  # has moved only what is dropped
    ([1.0, 0.0, 1.0], [-0.1, 0.0, 1.0]),  # has negative curvature without it
    ([1.0, 0.0, 1.0], [0.0, 0.5, 1.0]),  # has none
]


@pytest.mark.parametrize(("s", "y"), LOSING)
@pytest.mark.parametrize("is_rebased", [False, True])
def test_restriction_keeps_the_metric_positive(kind, s, y, is_rebased):
    """A pair may lose its curvature with the coordinates that are dropped."""
    diagonal = np.array([1.0, 2.0, 3.0])

    def base(n):
        return in_form(kind, np.diag(diagonal[:n]).astype(np.float32))

    metric = CompactBFGS(diagonal, base(3))
    assert metric.update(np.array([0.5, 1.0, 0.2]), np.array([0.6, 2.5, 0.1]))
    assert metric.update(np.array(s), np.array(y))
    metric.restrict(np.array([True, True, False]))
    if is_rebased:
        metric.rebase(diagonal[:2], base(2))
    b = as_dense(metric)
    assert np.isfinite(b).all()
    np.testing.assert_allclose(b, b.T, atol=1e-6)
    assert np.linalg.eigvalsh(0.5 * (b + b.T)).min() > 0


# B0 d is kept in float32: more sweeps than needed only gather its roundings.
EXACTNESS = {"diagonal": 1e-8, "dense": 1e-3, "sparse": 1e-3}
SWEEPS = {"diagonal": 5000, "dense": 300, "sparse": 300}


def model(metric, damping, l2=0.0):
    """The quadratic's matrix as `descend` sees it."""
    base = as_array(metric.base).astype(float) if metric.has_matrix else np.diag(metric.diagonal)
    return base - metric.q @ metric.q_hat.T + np.diag(damping)


def solve(metric, damping, g, w, l1, l2, sweeps=5000, d=None, base_d=None, price=np.inf):
    d = np.zeros(g.size) if d is None else d
    base_d = np.zeros(g.size, np.float32) if base_d is None else base_d
    quadratic = QuadraticModelArrays(*metric.base_arrays, metric.diagonal, metric.q, metric.q_hat)
    work = np.empty_like(d), np.empty(quadratic.q.shape[1])
    made = descend(Subproblem(quadratic, damping, g, w, Limits(sweeps, price)), l1, l2, d, base_d, *work)
    return d, base_d, made


def violation(b, g, w, l1, l2, d):
    """Distance of the model's negative gradient to the subdifferential of the penalty at w + d."""
    v = w + d
    slope = g + b @ d + l2 * v
    return np.where(v != 0, np.abs(slope + l1 * np.sign(v)), np.maximum(np.abs(slope) - l1, 0))


def proximal_gradient(b, g, w, l1, l2, n_steps=6000):
    step = 1.0 / np.linalg.eigvalsh(b).max()
    v = w.copy()
    for _ in range(n_steps):
        moved = v - step * (g + b @ (v - w))
        v = np.sign(moved) * np.maximum(np.abs(moved) - step * l1, 0.0) / (1.0 + step * l2)
    return v - w


@pytest.mark.parametrize("n_pairs", [0, 4])
@pytest.mark.parametrize("l1", [0.0, 1.0])
@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_descent_solves_the_model(kind, n_pairs, l1, l2, damping):
    random = np.random.default_rng(7)
    metric, _, _ = filled_metric(random, kind, n_pairs)
    g, w = 3 * random.normal(size=N), random.normal(size=N) * (random.random(N) < 0.6)
    l1 = l1 * random.choice([0.0, 1.0, 1.0, 2.0], N)
    l2, damping = np.full(N, l2), damping * metric.diagonal
    d, base_d, _ = solve(metric, damping, g, w, l1, l2, sweeps=SWEEPS[kind])
    b = model(metric, damping)
    assert violation(b, g, w, l1, l2, d).max() <= EXACTNESS[kind]
    np.testing.assert_allclose(d, proximal_gradient(0.5 * (b + b.T), g, w, l1, l2), atol=1e-3)
    if kind != "diagonal":
        np.testing.assert_allclose(base_d, as_array(metric.base).astype(float) @ d, atol=1e-4)
    if l1.any():
        assert (w + d == 0).any()


def test_one_coordinate_in_closed_form():
    metric = CompactBFGS(np.array([2.0]))
    one = np.ones(1)
    # v minimises -4 (v - 1) + (2 + .5) / 2 (v - 1)^2 + 1.5 |v| + .25 / 2 v^2
    d, _, made = solve(metric, 0.5 * one, -4.0 * one, one, 1.5 * one, 0.25 * one)
    assert d[0] == pytest.approx((4 + 2.5 - 1.5) / 2.75 - 1, rel=1e-14)
    assert made <= 2


def test_a_strong_penalty_gives_exact_zeros(kind):
    random = np.random.default_rng(8)
    metric, _, _ = filled_metric(random, kind, 3)
    w = random.normal(size=N)
    d, _, _ = solve(metric, np.zeros(N), random.normal(size=N), w, np.full(N, 1e4), np.zeros(N))
    np.testing.assert_array_equal(w + d, 0.0)


@pytest.mark.parametrize("sweeps", [1, 2, 3, 10])
def test_a_weight_is_zero_or_it_is_not(kind, sweeps):
    """However early it stops: w + d must not miss zero by a rounding, or the weight stays in the model."""
    random = np.random.default_rng(9)
    smallest = np.inf
    for _ in range(300):
        metric, _, _ = filled_metric(random, kind, 2)
        g, w = 3 * random.normal(size=N), random.normal(size=N)
        d, _, _ = solve(metric, np.zeros(N), g, w, np.full(N, 1.5), np.zeros(N), sweeps)
        v = np.abs(w + d)
        smallest = min(smallest, v[v > 0].min(initial=np.inf))
    assert smallest > 1e-12


def test_every_sweep_lowers_the_model(kind):
    random = np.random.default_rng(10)
    metric, _, _ = filled_metric(random, kind, 4)
    g, w, l1, l2 = 3 * random.normal(size=N), random.normal(size=N), np.full(N, 0.7), np.full(N, 0.2)
    b = model(metric, np.zeros(N))

    def value(d):
        v = w + d
        return g @ d + 0.5 * d @ b @ d + l1 @ np.abs(v) + 0.5 * l2 @ v**2

    values = [value(np.zeros(N))]
    for sweeps in range(1, 8):
        d, _, made = solve(metric, np.zeros(N), g, w, l1, l2, sweeps)
        assert made == sweeps
        values.append(value(d))
    assert np.all(np.diff(values) < 0)


def test_sweeps_follow_the_price_of_a_step(kind):
    """The dearer the pass after them, the more sweeps; a free one leaves nothing to weigh the second sweep against."""
    random = np.random.default_rng(12)
    metric, _, _ = filled_metric(random, kind, 4)
    g, w, l1, l2 = 3 * random.normal(size=N), random.normal(size=N), np.full(N, 0.7), np.full(N, 0.2)
    made = [solve(metric, np.zeros(N), g, w, l1, l2, 60, price=p)[2] for p in (0.0, 1e4, 1e6, np.inf)]
    assert made[0] == 2
    assert made == sorted(made)
    assert made[-1] > made[1]


def test_going_on_is_the_same_as_not_stopping(kind):
    """d and B0 d are taken up where they were left: after a damping that was too small, too."""
    random = np.random.default_rng(11)
    metric, _, _ = filled_metric(random, kind, 4)
    g, w, l1, l2 = 3 * random.normal(size=N), random.normal(size=N), np.full(N, 0.7), np.full(N, 0.2)
    zeros = np.zeros(N)
    whole, _, _ = solve(metric, zeros, g, w, l1, l2, 6)
    d, base_d, _ = solve(metric, zeros, g, w, l1, l2, 2)
    solve(metric, zeros, g, w, l1, l2, 4, d, base_d)
    np.testing.assert_allclose(d, whole, rtol=1e-5, atol=1e-6)
    damping = 2.0 * metric.diagonal
    solve(metric, damping, g, w, l1, l2, SWEEPS[kind], d, base_d)
    assert violation(model(metric, damping), g, w, l1, l2, d).max() <= EXACTNESS[kind]


def test_a_sweep_that_moves_nothing_is_the_last_one(kind):
    metric, _, _ = filled_metric(np.random.default_rng(12), kind, 4)
    l1, l2 = np.full(N, 0.1), np.zeros(N)
    d, _, made_at_optimum = solve(metric, np.zeros(N), np.zeros(N), np.zeros(N), l1, l2)
    assert made_at_optimum == 1
    assert not d.any()
